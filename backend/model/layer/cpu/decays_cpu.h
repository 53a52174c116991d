#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "backend/model/layer/cpu/cpu_pass.h"
#include "backend/model/spec/linear_mixer.h"

namespace foxscope {

/// The decays and beta of a linear mixer's layer on the CPU (LinearDecay, LinearBeta), as probes change and keep them.
class DecaysCpu {
 public:
  explicit DecaysCpu(CpuPass& pass);

  void begin_layer(int layer);
  /// Takes up the logits of a key head's decays at one position; HGRN2's keys are made of them, 1 - alpha.
  /// @param row    of all B n
  /// @param logit  [d] without its bias
  /// @param key    [d] written where keys are made of decays
  void split_channels(int layer, std::int64_t row, const float* logit, std::int64_t head, float* key);
  /// Takes up what makes decays by head, and beta, of one position.
  /// @param precise  columns of the projection from LinearColumns::precise on
  void split_heads(int layer, std::int64_t row, const float* precise);
  /// alpha of every position, as the probes change it; hands the sums of log alpha to them.
  /// @throws Error naming layer, head and position of a decay that is not a number, or a beta that is not finite
  void sum(int layer);
  /// Hands over what the probe of a sequence keeps of beta.
  void keep_beta(int layer, std::int64_t sequence) const;

  [[nodiscard]] const float* decay(std::int64_t sequence) const { return part(decay_, sequence); }
  [[nodiscard]] const float* channel_decay(std::int64_t sequence) const { return part(channel_decay_, sequence); }
  [[nodiscard]] const float* beta(std::int64_t sequence) const { return part(beta_, sequence); }

 private:
  /// Null where there are none.
  [[nodiscard]] const float* part(const FloatArray& values, std::int64_t sequence) const {
    if (values.empty()) return nullptr;
    return values.data() + index_of(sequence) * (values.size() / index_of(pass_.batch()));
  }
  void make_constant_decays(int layer);
  void change_decays(int layer);
  [[nodiscard]] std::vector<double> of_all_steps(const std::vector<double>& sums) const;
  void change_channels(int layer);
  void exponentiate_channels(int layer, std::int64_t sequence, std::int64_t head);
  [[nodiscard]] LinearMixer::ChannelDecay channel_of(int layer, std::int64_t head, std::int64_t channel) const;
  void sum_channels(int layer, std::int64_t sequence, std::int64_t head);
  void check_decays(int layer) const;

  CpuPass& pass_;
  const LinearMixer& mixer_;
  LinearColumns columns_;
  std::int64_t length_;             ///< n
  std::span<const float> bound_;    ///< [key_heads d] of the layer's decays; empty: 0
  std::vector<FloatArray> bounds_;  ///< of all layers, made when they are first needed
  std::vector<double> log_decay_;   ///< [B, states(), n] nats; empty where channels decay or nothing does
  FloatArray decay_;                ///< [B, states(), n] alpha
  FloatArray channel_decay_;        ///< [B, key_heads, n, d] first logits, then alpha
  FloatArray beta_;                 ///< [B, H, n]; empty: 1
};

}  // namespace foxscope
