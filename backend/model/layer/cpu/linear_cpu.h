#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "backend/model/layer/cpu/convolution_cpu.h"
#include "backend/model/layer/cpu/cpu_pass.h"
#include "backend/model/layer/cpu/cpu_rows.h"
#include "backend/model/layer/cpu/decays_cpu.h"
#include "backend/model/layer/mixer_steps.h"
#include "backend/model/spec/linear_mixer.h"
#include "kernels/cpu/linear_mixing.h"

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
  void make_gate(int layer, const CpuPass::Rows& rows, const ConvolutionCpu::Projected& projected);
  void make_rotary_table();
  void split(int layer, std::int64_t row, float* convolved, const float* decay_logit);
  void map_heads(const FloatArray& weight, const FloatArray& bias, std::int64_t heads, float* x) const;
  void feed_back(int layer, std::int64_t row, float* query, const float* key);
  void turn(std::int64_t row, float* head) const;
  void norm_head(LinearNorm norm, double factor, float* x) const;
  void scale_keys(std::int64_t sequence);
  bool mix(int layer, std::int64_t sequence);
  bool run_mixing(const kernels::cpu::LinearMixing& arguments) const;
  bool mix_steps(std::int64_t sequence, kernels::cpu::LinearMixing& arguments);
  void put_steps(std::int64_t sequence, std::int64_t head);
  void finish(int layer, std::int64_t row, float* mixed) const;
  void multiply_gate(std::int64_t row, float* mixed) const;

  CpuPass& pass_;
  const LinearMixer& mixer_;
  std::int64_t length_;  ///< n
  int layer_ = 0;        ///< at hand
  ConvolutionCpu convolution_;
  const LinearColumns& columns_;
  DecaysCpu decays_;
  std::vector<float*> queries_, keys_, values_;  ///< [B] of the layer at hand, [heads, n, dim] each
  std::optional<RotaryTable> rotary_;            ///< [n], or where there is one position of each text [B]
  FloatArray gate_;                              ///< [B n, H d_v] z
  FloatArray erase_read_, erase_write_;  ///< [B, key_heads, n, d] e and b; empty where nothing is erased by them
  FloatArray state_;                     ///< [states(), d, d_v] where nothing is to follow
  /// The steps of one sequence as positions of their own; empty where a position has one.
  struct StepSequence {
    FloatArray query, key, value;  ///< [states(), n steps, width]
    FloatArray decay, beta;        ///< [states(), n steps]
    FloatArray output;             ///< [n steps, states() d_v]
  };
  StepSequence steps_;
};

}  // namespace foxscope
