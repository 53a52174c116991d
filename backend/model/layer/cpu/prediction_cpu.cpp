#include "backend/model/layer/cpu/prediction_cpu.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <limits>

#include "backend/model/layer/cpu/cpu_steps.h"

namespace foxscope {
namespace {

/// Columns of the vocabulary at once: a block of logits stays in a core's cache.
constexpr std::int64_t kVocabularyBlock = 1024;
/// Numbers that are read while an exponential is taken.
constexpr std::int64_t kExponentialNumbers = 8;

struct NextTokenCpu final : NextToken {
  explicit NextTokenCpu(std::int64_t vocabulary) : numbers(index_of(vocabulary)) {}
  [[nodiscard]] std::span<const float> log_probabilities() const override { return numbers; }
  [[nodiscard]] std::int32_t likeliest() const override {
    return static_cast<std::int32_t>(std::ranges::max_element(numbers) - numbers.begin());
  }

  std::vector<float> numbers;
};

}  // namespace

PredictionCpu::PredictionCpu(CpuPass& pass)
    : pass_(pass), loss_(index_of(pass.rows())), logits_(index_of(pass.batch())) {
  pass.need({.normed = pass.hidden(),
             .wide = std::min(kVocabularyBlock, pass.config().vocabulary_size),
             .output = pass.hidden()});
}

void PredictionCpu::norm(std::int64_t begin, std::int64_t end, float* out) const {
  pass_.norm(pass_.weights().final_norm, pass_.weights().final_norm_bias, begin, end, out);
}

bool PredictionCpu::predict() {
  for (std::size_t sequence = 0; sequence < logits_.size(); ++sequence) {
    logits_[sequence] = pass_.probes()[sequence].logits(pass_.config().vocabulary_size);
  }
  const bool predicts = pass_.keeps(Keep::logits) || pass_.keeps(Keep::loss);
  if (predicts) pass_.pack(0, pass_.rows(), pass_.weights().head(), pass_.hidden());
  return pass_.for_rows([&](const CpuPass::Rows& rows) {
    norm(rows.begin, rows.end, pass_.memory().attended.data() + rows.begin * pass_.hidden());
    if (predicts) predict_rows(rows);
  });
}

void PredictionCpu::take_losses() const {
  const std::size_t length = index_of(pass_.length());
  for (std::size_t sequence = 0; sequence < pass_.probes().size(); ++sequence) {
    pass_.probes()[sequence].take_loss(0, std::span(loss_).subspan(sequence * length, length));
  }
}

void PredictionCpu::predict_rows(const CpuPass::Rows& rows) {
  const float* const normed = pass_.memory().attended.data() + rows.begin * pass_.hidden();
  const std::int64_t length = pass_.length();
  const std::int64_t vocabulary = pass_.config().vocabulary_size;
  std::vector<float> label_logits(index_of(rows.count()));
  const auto take = [&](std::int64_t index, std::int64_t first, std::span<const float> logits) {
    const std::int64_t row = rows.begin + index;
    if (float* const kept = logits_[index_of(row / length)]; kept != nullptr) {
      std::ranges::copy(logits, kept + row % length * vocabulary + first);
    }
    const std::int64_t label = pass_.input().labels[index_of(row)] - first;
    if (label >= 0 && index_of(label) < logits.size()) label_logits[index_of(index)] = logits[index_of(label)];
  };
  const std::vector<double> normalizers = for_logits(normed, rows.count(), rows.scratch.wide.data(), take);
  for (std::int64_t row = 0; row < rows.count(); ++row) {
    loss_[index_of(rows.begin + row)] =
        static_cast<float>(normalizers[index_of(row)] - static_cast<double>(label_logits[index_of(row)]));
  }
}

/// Makes logits of products with the head: times their factor, and capped.
void PredictionCpu::finish_logits(std::int64_t count, float* logits) const {
  const ModelConfig& config = pass_.config();
  const auto factor = static_cast<float>(config.logit_factor);
  for (std::int64_t n = 0; n < count && factor != 1; ++n) logits[n] *= factor;
  if (config.logit_cap > 0) cpu_steps::cap(static_cast<float>(config.logit_cap), count, logits);
}

std::vector<double> PredictionCpu::for_logits(
    const float* normed, std::int64_t count, float* block,
    const std::function<void(std::int64_t row, std::int64_t first, std::span<const float> logits)>& take) {
  struct Sum {
    float shift = -std::numeric_limits<float>::infinity();
    double sum = 0;
  };
  const std::int64_t vocabulary = pass_.config().vocabulary_size;
  std::vector<Sum> sums(index_of(count));
  for (std::int64_t first = 0; first < vocabulary; first += kVocabularyBlock) {
    const std::int64_t columns = std::min(kVocabularyBlock, vocabulary - first);
    pass_.multiply({.rows = count,
                    .columns = columns,
                    .depth = pass_.hidden(),
                    .in = normed,
                    .in_stride = pass_.hidden(),
                    .weight = pass_.weights().head().data() + first * pass_.hidden(),
                    .out = block,
                    .out_stride = columns});
    finish_logits(count * columns, block);
    for (std::int64_t row = 0; row < count; ++row) {
      const float* logits = block + row * columns;
      take(row, first, {logits, index_of(columns)});
      Sum& sum = sums[index_of(row)];
      const float shift = std::max(sum.shift, cpu_steps::largest(logits, columns));
      sum.sum = sum.sum * std::exp(static_cast<double>(sum.shift) - static_cast<double>(shift)) +
                static_cast<double>(cpu_steps::sum_of_exponentials(logits, columns, shift));
      sum.shift = shift;
    }
  }
  std::vector<double> normalizers;
  normalizers.reserve(sums.size());
  for (const Sum& sum : sums) normalizers.push_back(std::log(sum.sum) + static_cast<double>(sum.shift));
  return normalizers;
}

bool PredictionCpu::score(std::span<const Forward::ScoredRow> scored, int top, const Job& job) {
  const std::int64_t count = std::ssize(scored);
  pass_.pack(0, count, pass_.weights().head(), pass_.hidden());
  return pass_.for_chunks(count, job, [&](const CpuPass::Rows& rows) {
    score_rows(scored.subspan(index_of(rows.begin), index_of(rows.count())), top, rows.scratch);
  });
}

void PredictionCpu::score_rows(std::span<const Forward::ScoredRow> scored, int top, CpuPass::Scratch& scratch) {
  for (std::size_t n = 0; n < scored.size(); ++n) {
    norm(scored[n].row, scored[n].row + 1, scratch.normed.data() + n * index_of(pass_.hidden()));
  }
  std::vector<TokenChoice> choices;
  for (const Forward::ScoredRow& row : scored) choices.emplace_back(row.label, top, row.distribution, row.marked);
  const auto take = [&](std::int64_t row, std::int64_t first, std::span<const float> logits) {
    choices[index_of(row)].add(first, logits);
  };
  const std::vector<double> normalizers =
      for_logits(scratch.normed.data(), std::ssize(scored), scratch.wide.data(), take);
  for (std::size_t n = 0; n < scored.size(); ++n) *scored[n].score = choices[n].finish(normalizers[n]);
}

NextTokens PredictionCpu::predict_next(std::int64_t count) {
  const std::int64_t hidden = pass_.hidden();
  const std::int64_t vocabulary = pass_.config().vocabulary_size;
  FloatArray normed(index_of(count * hidden));
  std::vector<const float*> in;
  std::vector<float*> out;
  std::vector<std::shared_ptr<NextTokenCpu>> made;
  for (std::int64_t sequence = 0; sequence < count; ++sequence) {
    float* const to = normed.data() + sequence * hidden;
    const std::int64_t last = (sequence + 1) * pass_.length();
    norm(last - 1, last, to);
    in.push_back(to);
    made.push_back(std::make_shared<NextTokenCpu>(vocabulary));
    out.push_back(made.back()->numbers.data());
  }
  pass_.multiply_columns({in, pass_.weights().head().data(), vocabulary, hidden, out});
  pass_.share(count, count * vocabulary * kExponentialNumbers, [&](std::int64_t sequence) {
    const std::span<float> next = made[index_of(sequence)]->numbers;
    finish_logits(vocabulary, next.data());
    const auto shift = static_cast<double>(cpu_steps::largest(next.data(), vocabulary));
    double sum = 0;
    for (const float logit : next) sum += std::exp(static_cast<double>(logit) - shift);
    const double normalizer = std::log(sum) + shift;
    for (float& logit : next) logit = static_cast<float>(static_cast<double>(logit) - normalizer);
  });
  return {made.begin(), made.end()};
}

}  // namespace foxscope
