#pragma once

#include <cstdint>
#include <vector>

#include "backend/model/layer/cpu/convolution_cpu.h"
#include "backend/model/layer/cpu/cpu_pass.h"
#include "backend/model/layer/mixer_steps.h"
#include "backend/model/spec/linear_mixer.h"

namespace foxscope {

/// The selective scan of the first Mamba on the CPU (Gu and Dao 2023), and RG-LRU (De et al. 2024): every channel is a
/// head with one value; steps, keys and queries are made of what the convolution gives (LinearMixer).
class MambaCpu final : public MixerSteps {
 public:
  explicit MambaCpu(CpuPass& pass);
  /// Puts exp(A) with a state's channels beside one another.
  static void lay_out(const LinearMixer& mixer, LayerWeights& weights);

  bool project(int layer) override;
  void sum_gates(int layer) override;
  bool attend(int layer) override;
  bool project_output(int layer) override;

 private:
  void project_rows(int layer, const CpuPass::Rows& rows);
  void select_rows(int layer, const CpuPass::Rows& rows);
  void gate_rows(int layer, const CpuPass::Rows& rows);
  void check_steps(int layer) const;
  void sum_steps(int layer, std::int64_t sequence, const ChannelRates& rates);
  bool scan(int layer, std::int64_t sequence);
  void keep_inputs(int layer, std::int64_t sequence) const;

  CpuPass& pass_;
  const LinearMixer& mixer_;
  std::int64_t length_;  ///< n
  std::int64_t heads_;   ///< H, channels
  ConvolutionCpu convolution_;
  std::vector<float*> queries_, keys_;  ///< [B] of the layer at hand, [n, d] each
  FloatArray gate_;                     ///< [B n, H] z
  FloatArray inputs_;                   ///< [B, n, H] values behind the convolution
  FloatArray steps_;                    ///< [B, n, H] dt
  FloatArray decay_steps_;              ///< [B, n, H] that decays have instead: of RG-LRU -log alpha, else empty where
                                        ///< no probe changes them
  std::vector<double> slowest_;         ///< [H] of RG-LRU's layer at hand: log alpha where its gate is 1
  FloatArray state_;                    ///< [H, d] where nothing is to follow
};

}  // namespace foxscope
