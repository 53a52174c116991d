#include "backend/model/layer/cpu/mlp_cpu.h"

#include <algorithm>
#include <numeric>

#include "backend/model/layer/cpu/cpu_steps.h"

namespace foxscope {

MlpCpu::MlpCpu(CpuPass& pass) : pass_(pass), shifts_(pass.config().linear && pass.config().linear->shifts_tokens()) {
  if (shifts_) normed_.resize(index_of(pass.rows() * pass.hidden()));
  if (pass.config().mixture) mixture_.emplace(pass);
  pass.need({.normed = pass.hidden(), .wide = 2 * pass.config().widest_intermediate()});
}

bool MlpCpu::feed_forward(int layer) {
  const LayerWeights& weights = pass_.weights(layer);
  if (pass_.config().mixture_at(layer) != nullptr && !mixture_->mix(layer)) return false;
  // Other chunks add to x before the row behind them has read it.
  if (shifts_ && !norm_all(layer)) return false;
  const std::int64_t inner = pass_.config().intermediate_of(layer);
  pass_.pack(0, pass_.rows(), weights.mlp_in, pass_.hidden());
  pass_.pack(1, pass_.rows(), weights.mlp_out, inner);
  return pass_.for_rows([&](const CpuPass::Rows& rows) { feed_forward_rows(layer, rows); });
}

bool MlpCpu::norm_all(int layer) {
  const LayerWeights& weights = pass_.weights(layer);
  return pass_.for_rows([&](const CpuPass::Rows& rows) {
    pass_.norm(weights.mlp_norm, weights.mlp_norm_bias, rows.begin, rows.end,
               normed_.data() + rows.begin * pass_.hidden());
  });
}

/// norm(x) of a row and of the one before; the states take up that of the last row.
void MlpCpu::mix_with_previous(int layer, std::int64_t row, float* to) const {
  const std::int64_t size = pass_.hidden();
  const std::int64_t length = pass_.length();
  const float* const own = normed_.data() + row * size;
  const FloatArray& share = pass_.weights(layer).mlp_shift;
  // The mixer's own lies before it.
  float* const kept = pass_.has_states() ? pass_.layer_state(layer, row / length).window.data() + size : nullptr;
  const float* before = row % length > 0 ? own - size : nullptr;
  if (row % length == 0 && pass_.continues()) before = kept;
  for (std::int64_t n = 0; n < size; ++n) {
    const float previous = before == nullptr ? 0.0F : before[n];
    to[n] = own[n] + (previous - own[n]) * share[index_of(n)];
  }
  if (kept != nullptr && row % length == length - 1) std::copy_n(own, size, kept);
}

void MlpCpu::feed_forward_rows(int layer, const CpuPass::Rows& rows) {
  if (pass_.config().mixture_at(layer) != nullptr) return add_mixture(layer, rows);
  const LayerWeights& weights = pass_.weights(layer);
  const std::int64_t inner = pass_.config().intermediate_of(layer);
  float* const normed = rows.scratch.normed.data();
  if (shifts_) {
    for (std::int64_t row = rows.begin; row < rows.end; ++row) {
      mix_with_previous(layer, row, normed + (row - rows.begin) * pass_.hidden());
    }
  } else {
    pass_.norm(weights.mlp_norm, weights.mlp_norm_bias, rows.begin, rows.end, normed);
  }
  make_units(layer, rows, normed);
  const std::int64_t columns = is_gated(pass_.config().mlp) ? 2 * inner : inner;
  pass_.add_to_residual(rows, {rows.scratch.wide.data(), inner, columns}, weights.mlp_out, weights.mlp_out_bias,
                        weights.mlp_post_norm);
}

/// The units of some rows, in Scratch::wide.
/// @param normed  [rows, D]
void MlpCpu::make_units(int layer, const CpuPass::Rows& rows, const float* normed) {
  const LayerWeights& weights = pass_.weights(layer);
  const std::int64_t inner = pass_.config().intermediate_of(layer);
  const std::int64_t columns = is_gated(pass_.config().mlp) ? 2 * inner : inner;
  float* const wide = rows.scratch.wide.data();
  pass_.multiply({.rows = rows.count(),
                  .columns = columns,
                  .depth = pass_.hidden(),
                  .in = normed,
                  .in_stride = pass_.hidden(),
                  .weight = weights.mlp_in.data(),
                  .out = wide,
                  .out_stride = columns});
  CpuPass::add_to_rows(weights.mlp_in_bias, rows.count(), wide);
  for (std::int64_t row = 0; row < rows.count(); ++row) {
    float* const units = wide + row * columns;
    activate(pass_.config(), units, units + inner, inner);
  }
}

void MlpCpu::activate(const ModelConfig& config, float* gate, const float* up, std::int64_t size) {
  switch (config.mlp) {
    case MlpKind::swiglu:
      return cpu_steps::swiglu(gate, up, size, gate);
    case MlpKind::geglu:
      return cpu_steps::geglu(up, size, gate);
    case MlpKind::geglu_erf:
      cpu_steps::gelu(size, gate);
      for (std::int64_t n = 0; n < size; ++n) gate[n] *= up[n];
      return;
    case MlpKind::clamped:
      return cpu_steps::clamped_swiglu(up, static_cast<float>(config.mlp_limit), size, gate);
    case MlpKind::gelu:
      return cpu_steps::gelu(size, gate);
    case MlpKind::gelu_tanh:
      return cpu_steps::gelu_tanh(size, gate);
    case MlpKind::relu_squared:
      return cpu_steps::relu_squared(size, gate);
  }
}

/// Adds to rows of x what their experts made, and the expert that all read.
void MlpCpu::add_mixture(int layer, const CpuPass::Rows& rows) {
  const LayerWeights& weights = pass_.weights(layer);
  const std::int64_t hidden = pass_.hidden();
  float* const made = mixture_->made(rows.begin);
  if (const std::int64_t inner = pass_.config().intermediate_of(layer); inner > 0) {
    make_units(layer, rows, mixture_->normed(rows.begin));
    float* const shared = rows.scratch.normed.data();
    pass_.multiply({.rows = rows.count(),
                    .columns = hidden,
                    .depth = inner,
                    .in = rows.scratch.wide.data(),
                    .in_stride = is_gated(pass_.config().mlp) ? 2 * inner : inner,
                    .weight = weights.mlp_out.data(),
                    .out = shared,
                    .out_stride = hidden});
    for (std::int64_t row = 0; row < rows.count(); ++row) {
      const float* const normed = mixture_->normed(rows.begin + row);
      const float gate =
          weights.shared_gate.empty()
              ? 1.0F
              : cpu_steps::sigmoid(std::inner_product(normed, normed + hidden, weights.shared_gate.data(), 0.0F));
      for (std::int64_t n = row * hidden; n < (row + 1) * hidden; ++n) made[n] += gate * shared[n];
    }
  }
  pass_.add_made(rows, made, weights.mlp_post_norm);
}

}  // namespace foxscope
