#pragma once

#include <cstdint>
#include <vector>

#include "backend/model/layer/cpu/cpu_pass.h"
#include "backend/model/layer/cpu/decays_cpu.h"
#include "backend/model/layer/mixer_steps.h"
#include "backend/model/spec/linear_mixer.h"

namespace foxscope {

/// The mixer of RWKV-7 on the CPU (Peng et al. 2025, section 4.1). With n_t = norm(x_t), each part reads n_t + (n_(t-1)
/// - n_t) mu of its own. Queries r, keys k, values v (of layers behind the first shared with the first's), log alpha =
/// -exp(-1/2) sigmoid(w), kappa and a of what is erased (LinearErasing::unit_keys), and g, the gate of the output:
///
///     o = W_o (g (norm(y) + v sum over a head of r k bonus)).
class Rwkv7Cpu final : public MixerSteps {
 public:
  explicit Rwkv7Cpu(CpuPass& pass);

  bool project(int layer) override;
  void sum_gates(int layer) override { decays_.sum(layer); }
  bool attend(int layer) override;
  bool project_output(int layer) override;

 private:
  /// Rows of a step: norm(x) of them and of the one before each, and memory for a part of the projection.
  struct Parts;
  void norm_embedding(int layer);
  void project_rows(int layer, const CpuPass::Rows& rows);
  void mix(int layer, std::int64_t part, const Parts& parts) const;
  void raise(const Parts& parts, const FloatArray& down, const FloatArray& up, std::int64_t rank,
             void (*activate)(std::int64_t size, float* x), float* to);
  void multiply(const Parts& parts, const float* weight, float* to);
  void make_keys(int layer, const CpuPass::Rows& rows, const float* keys, float* a);
  void make_values(int layer, const CpuPass::Rows& rows, float* values, float* share);
  bool mix_positions(int layer, std::int64_t sequence);
  void finish(int layer, std::int64_t row, float* mixed) const;

  CpuPass& pass_;
  const LinearMixer& mixer_;
  std::int64_t length_;  ///< n
  std::int64_t hidden_;  ///< D
  DecaysCpu decays_;
  std::vector<float*> queries_, keys_, values_;  ///< [B] of the layer at hand, [heads, n, d] each
  FloatArray erase_read_, erase_write_;          ///< [B, H, n, d]
  FloatArray gate_;                              ///< [B n, D] g
  FloatArray first_values_;                      ///< [B n, D] v of the first layer
  FloatArray state_;                             ///< [H, d, d] where nothing is to follow
};

}  // namespace foxscope
