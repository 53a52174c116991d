#pragma once

#include <cstdint>
#include <vector>

#include "backend/model/layer/cpu/convolution_cpu.h"
#include "backend/model/layer/cpu/cpu_pass.h"
#include "backend/model/layer/cpu/decays_cpu.h"
#include "backend/model/layer/mixer_steps.h"
#include "backend/model/spec/linear_mixer.h"

namespace foxscope {

/// Linear mixers on the CPU whose queries, keys, values, decays and beta are all made of the layer's input: Mamba-2,
/// gated linear attention and the delta rules (LinearMixer). MambaCpu is the first Mamba.
class LinearCpu final : public MixerSteps {
 public:
  explicit LinearCpu(CpuPass& pass);

  bool project(int layer) override;
  void sum_gates(int layer) override;
  bool attend(int layer) override;
  bool project_output(int layer) override;

 private:
  void project_rows(int layer, const CpuPass::Rows& rows);
  void split(int layer, std::int64_t row, float* convolved, const float* decay_logit);
  void norm_head(float* x, double factor) const;
  bool mix(int layer, std::int64_t sequence);
  void finish(int layer, std::int64_t row, float* mixed) const;

  CpuPass& pass_;
  const LinearMixer& mixer_;
  std::int64_t length_;  ///< n
  ConvolutionCpu convolution_;
  const LinearColumns& columns_;
  DecaysCpu decays_;
  std::vector<float*> queries_, keys_, values_;  ///< [B] of the layer at hand, [heads, n, dim] each
  FloatArray gate_;                              ///< [B n, H d_v] z
  FloatArray state_;                             ///< [H, d, d_v] where nothing is to follow
};

}  // namespace foxscope
