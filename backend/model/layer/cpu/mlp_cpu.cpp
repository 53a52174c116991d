#include "backend/model/layer/cpu/mlp_cpu.h"

#include "backend/model/layer/cpu/cpu_steps.h"

namespace foxscope {

MlpCpu::MlpCpu(CpuPass& pass) : pass_(pass) {
  pass.need({.normed = pass.hidden(), .wide = 2 * pass.config().widest_intermediate()});
}

bool MlpCpu::feed_forward(int layer) {
  const LayerWeights& weights = pass_.weights(layer);
  pass_.pack(0, pass_.rows(), weights.mlp_in, pass_.hidden());
  pass_.pack(1, pass_.rows(), weights.mlp_out, pass_.config().intermediate_of(layer));
  return pass_.for_rows([&](const CpuPass::Rows& rows) { feed_forward_rows(layer, rows); });
}

void MlpCpu::feed_forward_rows(int layer, const CpuPass::Rows& rows) {
  const LayerWeights& weights = pass_.weights(layer);
  const MlpKind kind = pass_.config().mlp;
  const std::int64_t inner = pass_.config().intermediate_of(layer);
  const std::int64_t columns = is_gated(kind) ? 2 * inner : inner;
  float* const wide = rows.scratch.wide.data();
  pass_.norm(weights.mlp_norm, weights.mlp_norm_bias, rows.begin, rows.end, rows.scratch.normed.data());
  pass_.multiply({.rows = rows.count(),
                  .columns = columns,
                  .depth = pass_.hidden(),
                  .in = rows.scratch.normed.data(),
                  .in_stride = pass_.hidden(),
                  .weight = weights.mlp_in.data(),
                  .out = wide,
                  .out_stride = columns});
  CpuPass::add_to_rows(weights.mlp_in_bias, rows.count(), wide);
  for (std::int64_t row = 0; row < rows.count(); ++row) {
    float* const units = wide + row * columns;
    switch (kind) {
      case MlpKind::swiglu:
        cpu_steps::swiglu(units, units + inner, inner, units);
        break;
      case MlpKind::geglu:
        cpu_steps::geglu(units + inner, inner, units);
        break;
      case MlpKind::gelu:
        cpu_steps::gelu(inner, units);
        break;
      case MlpKind::gelu_tanh:
        cpu_steps::gelu_tanh(inner, units);
        break;
    }
  }
  pass_.add_to_residual(rows, {wide, inner, columns}, weights.mlp_out, weights.mlp_out_bias, weights.mlp_post_norm);
}

}  // namespace foxscope
