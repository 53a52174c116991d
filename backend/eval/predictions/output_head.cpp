#include "backend/eval/predictions/output_head.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include <fmt/format.h>

#include "backend/map/team.h"
#include "backend/model/spec/parameters.h"
#include "backend/trace/dtype.h"
#include "kernels/cpu/matrix_product.h"
#include "kernels/cpu/row_products.h"

namespace foxscope {
namespace {

/// Rows of the head that are in memory at once.
constexpr std::int64_t kHeadRowsAtOnce = 2048;
/// Rows of the head that are a task.
constexpr std::int64_t kTaskRows = 4 * kernels::cpu::kPanelColumns;
/// So few states are multiplied one by one: turning the head into panels takes longer.
constexpr std::int64_t kFewStates = 8;

std::string tensor_of_head(const ModelConfig& config) {
  const auto wanted = config.tie_word_embeddings ? &ModelWeights::embedding : &ModelWeights::language_model_head;
  const std::vector<Parameter> all = parameters(config);
  return std::ranges::find(all, wanted, &Parameter::of_model)->name;
}

/// A product of states and rows of the head.
struct HeadProduct {
  const float* states = nullptr;  ///< [count, depth]
  std::int64_t count = 0;
  std::int64_t depth = 0;
  const float* head = nullptr;  ///< [rows, depth]
  std::int64_t rows = 0;
  float* logits = nullptr;  ///< [count, rows], `stride` apart
  std::int64_t stride = 0;
};

void multiply_few(const HeadProduct& product) {
  std::array<const float*, kFewStates> in{};
  std::array<float*, kFewStates> out{};
  for (std::int64_t n = 0; n < product.count; ++n) {
    in[index_of(n)] = product.states + n * product.depth;
    out[index_of(n)] = product.logits + n * product.stride;
  }
  const auto count = static_cast<std::size_t>(product.count);
  kernels::cpu::row_products({.in = std::span(in).first(count),
                              .weight = product.head,
                              .columns = product.rows,
                              .depth = product.depth,
                              .out = std::span(out).first(count)});
}

void multiply_many(const HeadProduct& product) {
  kernels::cpu::matrix_product({.rows = product.count,
                                .columns = product.rows,
                                .depth = product.depth,
                                .in = product.states,
                                .in_stride = product.depth,
                                .weight = product.head,
                                .out = product.logits,
                                .out_stride = product.stride});
}

/// Logits of a product: times their factor, and capped.
void finish(const ModelConfig& config, const HeadProduct& product) {
  const auto factor = static_cast<float>(config.logit_factor);
  const auto cap = static_cast<float>(config.logit_cap);
  if (factor == 1 && cap == 0) return;
  for (std::int64_t n = 0; n < product.count; ++n) {
    for (float& logit : std::span(product.logits + n * product.stride, static_cast<std::size_t>(product.rows))) {
      logit *= factor;
      if (cap > 0) logit = cap * std::tanh(logit / cap);
    }
  }
}

}  // namespace

OutputHead::OutputHead(const OpenedModel& model, DType dtype)
    : checkpoint_(Checkpoint::open(model.folder.string())),
      tensor_(tensor_of_head(checkpoint_.config())),
      dtype_(dtype) {
  if (Tokenizer::is_in(model.folder)) {
    tokenizer_ = std::make_shared<const Tokenizer>(Tokenizer::load(model.folder));
  }
}

std::string OutputHead::token_string(std::int32_t id) const {
  if (!tokenizer_ || id >= tokenizer_->vocabulary_size()) return fmt::format("⟨{}⟩", id);
  const std::string text = replace_invalid_utf8(tokenizer_->decode_within({id}));
  return text.empty() ? fmt::format("⟨{}⟩", id) : text;
}

bool OutputHead::multiply(std::span<const float> states, std::int64_t count, std::span<float> logits,
                          const Job& job) const {
  const std::int64_t depth = hidden_size();
  Team team(job);
  FloatArray rows;
  rows.reserve(static_cast<std::size_t>(std::min(kHeadRowsAtOnce, vocabulary_size()) * depth));
  std::int64_t first = 0;  // row of the head that `rows` begin with
  const auto multiply_rows = [&] {
    if (dtype_ == DType::bfloat16) {
      for (float& number : rows) number = from_bfloat16(to_bfloat16(number));
    }
    const std::int64_t there = std::ssize(rows) / depth;
    const bool whole = team.run({}, (there + kTaskRows - 1) / kTaskRows, [&](std::int64_t task, int /*thread*/) {
      const std::int64_t begin = task * kTaskRows;
      const HeadProduct product{.states = states.data(),
                                .count = count,
                                .depth = depth,
                                .head = rows.data() + begin * depth,
                                .rows = std::min(kTaskRows, there - begin),
                                .logits = logits.data() + first + begin,
                                .stride = vocabulary_size()};
      count <= kFewStates ? multiply_few(product) : multiply_many(product);
      finish(config(), product);
    });
    first += there;
    rows.clear();
    return whole;
  };
  bool whole = true;
  checkpoint_.read(tensor_, [&](std::span<const float> piece) {
    while (whole && !piece.empty()) {
      const std::size_t size = std::min(piece.size(), static_cast<std::size_t>(kHeadRowsAtOnce * depth) - rows.size());
      rows.insert(rows.end(), piece.begin(), piece.begin() + static_cast<std::ptrdiff_t>(size));
      piece = piece.subspan(size);
      if (std::ssize(rows) == kHeadRowsAtOnce * depth) whole = multiply_rows();
    }
    return whole;
  });
  if (whole && !rows.empty()) whole = multiply_rows();
  return whole;
}

std::optional<bool> has_made(const OpenedModel& model, const Trace& run, const Job& job) {
  if (model.config.json != run.info().config) return false;
  const std::optional<TraceInfo> info = model.describe(run.info().length, job);
  if (!info) return std::nullopt;
  return info->weights_sha256 == run.info().weights_sha256;
}

}  // namespace foxscope
