#include "backend/model/layer/cpu/mixture_cpu.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "backend/base/error.h"
#include "backend/model/layer/cpu/cpu_steps.h"
#include "backend/model/layer/cpu/mlp_cpu.h"
#include "backend/model/weights/mapped_experts.h"

namespace foxscope {
namespace {

/// Rows of an expert's matrix that one task reads.
constexpr std::int64_t kMatrixRows = 64;
/// Rows of one expert that are computed at a time, and numbers of all that are.
constexpr std::int64_t kPieceRows = 2048;
constexpr std::int64_t kGroupNumbers = std::int64_t{1} << 24;

std::int64_t divide_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

std::int64_t wide_of(const ModelConfig& config) { return (is_gated(config.mlp) ? 2 : 1) * config.mixture->size; }

}  // namespace

MixtureCpu::MixtureCpu(CpuPass& pass)
    : pass_(pass),
      mixture_(*pass.config().mixture),
      width_(pass.config().expert_width()),
      wide_(wide_of(pass.config())) {
  pass.need({.normed = pass.hidden(), .wide = mixture_.experts});
}

PassBytes MixtureCpu::bytes(const ModelConfig& config) {
  const std::int64_t chosen = config.mixture->chosen;
  PassBytes bytes;
  bytes.per_token = 4 * 2 * (config.hidden_size + config.mixture->latent) +
                    chosen * static_cast<std::int64_t>(sizeof(ChosenExpert) + sizeof(Pair));
  bytes.fixed = 4 * (kGroupNumbers + kPieceRows * (config.expert_width() + wide_of(config)));
  return bytes;
}

bool MixtureCpu::mix(int layer) {
  const std::int64_t rows = pass_.rows();
  normed_.resize(index_of(rows * pass_.hidden()));
  read_.resize(index_of(rows * mixture_.latent));
  made_.assign(normed_.size(), 0.0F);
  sums_.assign(read_.size(), 0.0F);
  chosen_.resize(index_of(rows * mixture_.chosen));
  if (!choose(layer)) return false;
  drop_experts(layer);
  keep_choice(layer);
  sort_pairs();
  for (std::int64_t first = 0; first < std::ssize(pieces_);) {
    std::int64_t numbers = 0;
    std::int64_t last = first;
    while (last < std::ssize(pieces_) && (last == first || numbers < kGroupNumbers)) {
      numbers += pieces_[index_of(last++)].count() * (width_ + wide_);
    }
    if (!multiply_pieces(layer, first, last)) return false;
    first = last;
  }
  if (!raise_sums(layer)) return false;
  check_made(layer);
  return true;
}

/// Nobody looked at the matrices of experts when the model was loaded.
void MixtureCpu::check_made(int layer) const {
  const std::int64_t hidden = pass_.hidden();
  for (std::int64_t row = 0; row < pass_.rows(); ++row) {
    const auto made = std::span(made_).subspan(index_of(row * hidden), index_of(hidden));
    if (std::isfinite(std::accumulate(made.begin(), made.end(), 0.0F))) continue;
    std::string experts;
    for (const ChosenExpert& one :
         std::span(chosen_).subspan(index_of(row * mixture_.chosen), index_of(mixture_.chosen))) {
      experts += fmt::format("{}{}", experts.empty() ? "" : ", ", one.expert);
    }
    throw Error(
        fmt::format("layer {}: the sum of experts {} is not a finite number at position {}: a weight of one of them is "
                    "NaN or an infinity; the training diverged or the file is damaged",
                    layer, experts, row % pass_.length()));
  }
}

/// Turns the sums of latent experts into rows of D numbers.
bool MixtureCpu::raise_sums(int layer) {
  if (mixture_.latent == 0) return true;
  const LayerWeights& weights = pass_.weights(layer);
  pass_.pack(0, pass_.rows(), weights.experts_up, width_);
  return pass_.for_rows([&](const CpuPass::Rows& rows) {
    pass_.multiply({.rows = rows.count(),
                    .columns = pass_.hidden(),
                    .depth = width_,
                    .in = sums_.data() + rows.begin * width_,
                    .in_stride = width_,
                    .weight = weights.experts_up.data(),
                    .out = made(rows.begin),
                    .out_stride = pass_.hidden()});
  });
}

bool MixtureCpu::choose(int layer) {
  pass_.pack(0, pass_.rows(), pass_.weights(layer).router, pass_.hidden());
  pass_.pack(1, pass_.rows(), pass_.weights(layer).experts_down, pass_.hidden());
  return pass_.for_rows([&](const CpuPass::Rows& rows) { choose_rows(layer, rows); });
}

void MixtureCpu::choose_rows(int layer, const CpuPass::Rows& rows) {
  const LayerWeights& weights = pass_.weights(layer);
  const std::int64_t experts = mixture_.experts;
  float* const normed = normed_.data() + rows.begin * pass_.hidden();
  float* const logits = rows.scratch.wide.data();
  pass_.norm(weights.mlp_norm, weights.mlp_norm_bias, rows.begin, rows.end, normed);
  pass_.multiply({.rows = rows.count(),
                  .columns = experts,
                  .depth = pass_.hidden(),
                  .in = normed,
                  .in_stride = pass_.hidden(),
                  .weight = weights.router.data(),
                  .out = logits,
                  .out_stride = experts});
  CpuPass::add_to_rows(weights.router_bias, rows.count(), logits);
  if (mixture_.latent > 0) {
    float* const read = read_.data() + rows.begin * width_;
    pass_.multiply({.rows = rows.count(),
                    .columns = width_,
                    .depth = pass_.hidden(),
                    .in = normed,
                    .in_stride = pass_.hidden(),
                    .weight = weights.experts_down.data(),
                    .out = read,
                    .out_stride = width_});
  }
  const std::size_t chosen = index_of(mixture_.chosen);
  for (std::int64_t row = 0; row < rows.count(); ++row) {
    choose_experts(mixture_, {logits + row * experts, index_of(experts)}, weights.selection_bias,
                   std::span(chosen_).subspan(index_of(rows.begin + row) * chosen, chosen));
  }
}

/// Experts that a probe drops weigh nothing.
void MixtureCpu::drop_experts(int layer) {
  const std::size_t size = index_of(pass_.length() * mixture_.chosen);
  for (std::size_t sequence = 0; sequence < pass_.probes().size(); ++sequence) {
    const Probe& probe = pass_.probes()[sequence];
    if (!probe.drops_experts(layer)) continue;
    for (ChosenExpert& one : std::span(chosen_).subspan(sequence * size, size)) {
      if (probe.drops_expert(layer, one.expert)) one.weight = 0;
    }
  }
}

void MixtureCpu::keep_choice(int layer) {
  const std::size_t size = index_of(pass_.length() * mixture_.chosen);
  for (std::size_t sequence = 0; sequence < pass_.probes().size(); ++sequence) {
    pass_.probes()[sequence].take_experts(layer, std::span(chosen_).subspan(sequence * size, size));
  }
}

/// Sorts what was chosen by expert, and cuts it into pieces. An expert of weight 0 is not read.
void MixtureCpu::sort_pairs() {
  std::vector<std::int64_t> end(index_of(mixture_.experts), 0);
  for (const ChosenExpert& one : chosen_) end[index_of(one.expert)] += one.weight == 0 ? 0 : 1;
  std::int64_t count = 0;
  pieces_.clear();
  for (std::int64_t expert = 0; expert < mixture_.experts; ++expert) {
    const std::int64_t first = count;
    count += std::exchange(end[index_of(expert)], first);
    for (std::int64_t begin = first; begin < count; begin += kPieceRows) {
      pieces_.push_back({expert, begin, std::min(begin + kPieceRows, count)});
    }
  }
  pairs_.resize(index_of(count));
  for (std::size_t n = 0; n < chosen_.size(); ++n) {
    if (chosen_[n].weight == 0) continue;
    const auto row = static_cast<std::int64_t>(n) / mixture_.chosen;
    pairs_[index_of(end[index_of(chosen_[n].expert)]++)] = {row, chosen_[n].weight};
  }
}

/// Computes some pieces, in two runs of tasks: threads share the units of all experts, then the columns of x, so that
/// no two add to one number, and each row's experts are added in their order.
bool MixtureCpu::multiply_pieces(int layer, std::int64_t first, std::int64_t last) {
  const FloatArray& read = mixture_.latent > 0 ? read_ : normed_;
  const auto pieces = std::span(pieces_).subspan(index_of(first), index_of(last - first));
  const std::int64_t base = pieces.front().begin;
  const std::int64_t pairs = pieces.back().end - base;
  const MappedExperts& experts = *pass_.weights(layer).mapped;
  for (const Piece& piece : pieces) experts.fetch(piece.expert);
  CpuWorkspace::grow(gathered_, index_of(pairs * width_));
  CpuWorkspace::grow(units_, index_of(pairs * wide_));
  const auto threads = index_of(pass_.team().threads());
  weights_.resize(threads);
  product_.resize(threads);
  pass_.share(pairs, pairs * width_, [&](std::int64_t pair) {
    std::copy_n(read.data() + pairs_[index_of(base + pair)].row * width_, width_, gathered_.data() + pair * width_);
  });
  const std::int64_t unit_blocks = divide_up(mixture_.size, kMatrixRows);
  pass_.team().run(std::ssize(pieces) * unit_blocks, [&](std::int64_t task, int thread) {
    if (pass_.job().stopped()) return;
    const Piece& piece = pieces[index_of(task / unit_blocks)];
    const std::int64_t unit = task % unit_blocks * kMatrixRows;
    read_in(layer, piece, piece.begin - base, unit, std::min(kMatrixRows, mixture_.size - unit), thread);
  });
  pass_.team().run(divide_up(width_, kMatrixRows), [&](std::int64_t task, int thread) {
    const std::int64_t column = task * kMatrixRows;
    for (const Piece& piece : pieces) {
      if (pass_.job().stopped()) return;
      add_out(layer, piece, piece.begin - base, column, std::min(kMatrixRows, width_ - column), thread);
    }
  });
  return !pass_.job().stopped();
}

void MixtureCpu::multiply(const Piece& piece, const float* in, std::int64_t in_stride, const float* weight,
                          std::int64_t columns, std::int64_t depth, float* out, std::int64_t out_stride) const {
  if (!pass_.by_columns()) {
    kernels::cpu::matrix_product({.rows = piece.count(),
                                  .columns = columns,
                                  .depth = depth,
                                  .in = in,
                                  .in_stride = in_stride,
                                  .weight = weight,
                                  .out = out,
                                  .out_stride = out_stride});
    return;
  }
  std::vector<const float*> from;
  std::vector<float*> to;
  for (std::int64_t row = 0; row < piece.count(); ++row) {
    from.push_back(in + row * in_stride);
    to.push_back(out + row * out_stride);
  }
  kernels::cpu::row_products({from, weight, columns, depth, to, false});
}

/// Some of an expert's units of the rows of a piece.
/// @param place  of the piece's first pair among those at hand
void MixtureCpu::read_in(int layer, const Piece& piece, std::int64_t place, std::int64_t unit, std::int64_t count,
                         int thread) {
  const LayerWeights& weights = pass_.weights(layer);
  const MappedExperts::Expert& expert = weights.mapped->expert(piece.expert);
  const std::int64_t size = mixture_.size;
  float* const units = units_.data() + place * wide_;
  FloatArray& scratch = weights_[index_of(thread)];
  CpuWorkspace::grow(scratch, index_of(kMatrixRows * width_));
  for (std::int64_t part = 0; part < wide_ / size; ++part) {
    const std::int64_t column = part * size + unit;
    const float* const matrix = expert.in[index_of(part)].rows(unit, count, scratch.data());
    multiply(piece, gathered_.data() + place * width_, width_, matrix, count, width_, units + column, wide_);
    if (weights.experts_in_bias.empty()) continue;
    const float* const bias = weights.experts_in_bias.data() + piece.expert * wide_ + column;
    for (std::int64_t row = 0; row < piece.count(); ++row) cpu_steps::add(bias, count, units + row * wide_ + column);
  }
  for (std::int64_t row = 0; row < piece.count(); ++row) {
    float* const own = units + row * wide_ + unit;
    MlpCpu::activate(pass_.config(), own, own + size, count);
  }
}

/// Adds some columns of what an expert makes of the rows of a piece.
void MixtureCpu::add_out(int layer, const Piece& piece, std::int64_t place, std::int64_t column, std::int64_t count,
                         int thread) {
  const LayerWeights& weights = pass_.weights(layer);
  FloatArray& scratch = weights_[index_of(thread)];
  CpuWorkspace::grow(scratch, index_of(kMatrixRows * mixture_.size));
  FloatArray& product = product_[index_of(thread)];
  CpuWorkspace::grow(product, index_of(kMatrixRows * piece.count()));
  const float* const matrix = weights.mapped->expert(piece.expert).out.rows(column, count, scratch.data());
  multiply(piece, units_.data() + place * wide_, wide_, matrix, count, mixture_.size, product.data(), count);
  for (std::int64_t row = 0; row < piece.count(); ++row) {
    float* const own = product.data() + row * count;
    if (!weights.experts_out_bias.empty()) {
      cpu_steps::add(weights.experts_out_bias.data() + piece.expert * width_ + column, count, own);
    }
    const Pair& pair = pairs_[index_of(piece.begin + row)];
    float* const to = (mixture_.latent > 0 ? sums_ : made_).data() + pair.row * width_ + column;
    for (std::int64_t n = 0; n < count; ++n) to[n] += pair.weight * own[n];
  }
}

}  // namespace foxscope
