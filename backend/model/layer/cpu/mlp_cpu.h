#pragma once

#include <cstdint>
#include <optional>

#include "backend/model/layer/cpu/cpu_pass.h"
#include "backend/model/layer/cpu/mixture_cpu.h"

namespace foxscope {

/// The MLP of a layer on the CPU, or its mixture of experts: x += down(silu(g) * u) of norm(x), or down(gelu(u)).
/// RWKV-7's reads norm(x) mixed with that of the position before.
class MlpCpu {
 public:
  explicit MlpCpu(CpuPass& pass);
  /// @returns false if the job was stopped
  bool feed_forward(int layer);

  /// Turns what an MLP's first product made into its units, in place.
  /// @param gate  [size] of the gate; where there is none, of the units themselves
  /// @param up    [size] of the units; not read where there is no gate
  static void activate(const ModelConfig& config, float* gate, const float* up, std::int64_t size);

 private:
  void feed_forward_rows(int layer, const CpuPass::Rows& rows);
  void make_units(int layer, const CpuPass::Rows& rows, const float* normed);
  void add_mixture(int layer, const CpuPass::Rows& rows);
  bool norm_all(int layer);
  void mix_with_previous(int layer, std::int64_t row, float* to) const;

  CpuPass& pass_;
  std::optional<MixtureCpu> mixture_;
  bool shifts_;
  FloatArray normed_;  ///< [B n, D] norm(x) of all rows, where rows read the one before
};

}  // namespace foxscope
