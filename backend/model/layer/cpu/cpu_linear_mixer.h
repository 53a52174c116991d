#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "backend/base/job.h"
#include "backend/model/layer/cpu/cpu_state.h"
#include "backend/model/layer/cpu/cpu_team.h"
#include "backend/model/layer/probe.h"
#include "backend/model/spec/linear_mixer.h"
#include "backend/model/spec/model_config.h"
#include "backend/model/spec/parameters.h"

namespace foxscope {

/// The steps of a linear mixer's layer (LinearMixer) on the CPU, between its two matrix products, and what they hand to
/// each other: for B sequences of n positions, a layer at a time.
class CpuLinearMixer {
 public:
  /// Where the heads of a sequence lie, [heads, n, dim] each; of a mixer that selects its values have none.
  struct Heads {
    float* query = nullptr;
    float* key = nullptr;
    float* value = nullptr;
  };
  /// Rows of the projection that the convolution reads, from the oldest on, [taps] rows of LinearColumns.
  using Taps = std::span<const float* const>;

  /// @param config  of a model with a linear mixer; must outlive it
  CpuLinearMixer(const ModelConfig& config, std::int64_t batch, std::int64_t length);

  [[nodiscard]] const LinearMixer& mixer() const { return mixer_; }
  [[nodiscard]] const LinearColumns& columns() const { return columns_; }
  /// Rows before a row that its convolution reads.
  [[nodiscard]] std::int64_t rows_before() const { return mixer_.convolution > 0 ? mixer_.convolution - 1 : 0; }
  /// Numbers of memory that split() needs for one position.
  [[nodiscard]] std::int64_t scratch_size() const { return columns_.convolved_size(); }
  /// Whether decays are kept or changed, which needs their logarithms.
  [[nodiscard]] static bool needs_logarithms(int layer, std::span<const Probe> probes);

  void begin_layer(int layer, const LayerWeights& weights, const FloatArray& lower_bounds,
                   std::span<const Heads> heads);
  /// q, k, v, what makes the decays, beta and the output's gate of one position. A mixer that selects has no more than
  /// its values and the gate then.
  /// @param row          of all B n
  /// @param taps         the last is the position's own
  /// @param decay_logit  [key_heads d] of LinearDecay::low_rank, without its bias; else unread
  /// @param scratch      [scratch_size()]
  void split(std::int64_t row, Taps taps, const float* decay_logit, float* scratch);
  /// Of a mixer that selects (Mamba): its values behind the convolution, [rows, H] from a row on, and where the product
  /// that makes its steps is to go, likewise.
  [[nodiscard]] const float* inputs(std::int64_t row) const { return inputs_.data() + row * mixer_.heads; }
  [[nodiscard]] float* steps(std::int64_t row) { return steps_.data() + row * mixer_.heads; }
  /// dt, k and q of one position whose product lies in steps().
  /// @param selected  [selection_size()] of its values: the step's low rank, k, q
  void select(std::int64_t row, const float* selected);
  /// alpha of every position, as the probes change it; hands its sums over.
  /// @param first  position of the first column
  /// @throws Error naming layer, head and position of a decay that is not a number, or a beta that is not finite
  void sum_decays(int layer, std::span<const Probe> probes, std::int64_t first, CpuTeam& team);
  /// y, and S behind the last position.
  /// @param state   [H, d, d_v]; null: nothing lies before and nothing is to follow
  /// @param output  [n, H d_v]
  /// @returns false if the job was stopped
  bool mix(std::int64_t sequence, float* state, float* output, CpuTeam& team, const Job& job);
  /// Hands over what the probe keeps of beta, and of the values of a mixer that selects.
  void keep(int layer, std::int64_t sequence, const Probe& probe) const;
  /// norm and gate of y + D v, in place.  @param mixed  [H d_v]
  void finish(std::int64_t row, float* mixed) const;

 private:
  void split_channels(std::int64_t row, const float* logit, std::int64_t head, float* key);
  void split_gates(std::int64_t row, const float* precise);
  void norm_head(float* x, double factor) const;
  void change_decays(int layer, std::span<const Probe> probes, std::int64_t first, CpuTeam& team);
  void check_steps(int layer, std::int64_t first) const;
  void check_decays(int layer, std::int64_t first) const;
  void sum_channels(int layer, const Probe& probe, std::int64_t first, std::int64_t sequence, std::int64_t head);
  void change_steps(int layer, std::span<const Probe> probes, std::int64_t first, CpuTeam& team);
  void sum_steps(int layer, const Probe& probe, const ChannelRates& rates, std::int64_t first, std::int64_t sequence,
                 CpuTeam& team);
  bool scan(std::int64_t sequence, float* state, float* output, CpuTeam& team, const Job& job);

  const ModelConfig& config_;
  const LinearMixer& mixer_;
  LinearColumns columns_;
  std::int64_t batch_;
  std::int64_t length_;
  const LayerWeights* weights_ = nullptr;
  std::span<const Heads> heads_;    ///< [B]
  std::span<const float> bound_;    ///< [key_heads d] of the layer's decays; empty: 0
  std::vector<FloatArray> bounds_;  ///< of all layers, made when they are first needed
  FloatArray gate_;                 ///< [B n, H d_v] z
  std::vector<double> log_decay_;   ///< [B, H, n] nats; empty where channels decay or nothing does
  FloatArray decay_;                ///< [B, H, n] alpha
  FloatArray channel_decay_;        ///< [B, key_heads, n, d] first logits, then alpha
  FloatArray beta_;                 ///< [B, H, n]; empty: 1
  FloatArray inputs_;               ///< [B, n, H] of a mixer that selects: its values
  FloatArray steps_;                ///< [B, n, H] likewise: dt
  FloatArray decay_steps_;          ///< [B, n, H] likewise: that decays have instead, where probes change them
  FloatArray state_;                ///< where the caller has none
};

}  // namespace foxscope
