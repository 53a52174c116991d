#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "backend/base/index.h"
#include "backend/model/layer/cpu/cpu_key_value_cache.h"
#include "backend/model/layer/forward_pass.h"
#include "backend/model/spec/intervention.h"
#include "backend/model/spec/parameters.h"

namespace foxscope {

/// The state of a sequence on the CPU: keys, values and gates of each layer, and the last projection for the shifts.
/// Copies share the pages of keys and values.
class CpuState final : public ForwardState {
 public:
  /// Before the first position.
  /// @param interventions  those on the gates of an ungated model give it gates
  /// @param tolerance      largest share of a row's attention that may be left out, by keys that are dropped and by
  ///                       keys that are skipped together; 0: none
  /// @param pool           of pages of keys and values
  CpuState(const ModelConfig& config, std::span<const Intervention> interventions, double tolerance,
           const std::shared_ptr<PagePool>& pool);

  [[nodiscard]] std::unique_ptr<ForwardState> copy() const override { return std::make_unique<CpuState>(*this); }
  [[nodiscard]] std::vector<std::int64_t> held_keys() const override;

  struct Layer {
    std::vector<KeyValuePages> heads;  ///< [H_kv]
    std::vector<GateHistory> gates;    ///< [H]; empty where every f is 1
    std::vector<std::int64_t> first;   ///< [H] first key that the head may still see
    FloatArray previous;               ///< [columns] merged projection of the last position
    FloatArray recurrent;              ///< [H, d, d_v] S of a linear mixer, which has none of the above
    std::size_t recurrent_heads = 0;   ///< H of S
    FloatArray window;  ///< [taps - 1, columns] projections that its convolution, or PathDirections', reads again
  };
  [[nodiscard]] Layer& layer(int index) { return layers_[index_of(index)]; }

  /// Share of a row that a step may skip.
  [[nodiscard]] double skipped_share() const { return tolerance_ / 2; }
  /// Lets go of the keys that no later row can see, or give more than the other half of the tolerance.
  /// @param logit_bound  [H] of the layer
  void drop_keys(int layer, std::int64_t window_size, std::span<const double> logit_bound);

 private:
  double tolerance_;
  std::vector<Layer> layers_;
};

}  // namespace foxscope
