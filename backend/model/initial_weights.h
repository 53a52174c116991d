#pragma once

#include <cstdint>
#include <string>

#include "backend/model/weight_reader.h"

namespace foxscope {

/// Weights that a training begins with, as the authors' code makes them (Lin et al. 2025, their published modules'
/// `_init_weights`): matrices, embeddings and the head are drawn from N(0, initializer_range^2), norms are 1, biases 0,
/// the padding token's row of the embedding is 0. Gates that do not depend on data forget over decay times T that are
/// spread evenly over the logarithm from decay_time_min to decay_time_max, head by head: b = -log(exp(1/T) - 1), so
/// that log sigmoid(b) = -1/T. GPT-2's projections into the residual stream are smaller by sqrt(2 layers).
///
/// A number depends on the seed, the parameter's name and its place alone: on no thread, device or other parameter.
class InitialWeights final : public ParameterSource {
 public:
  /// @throws Error naming the key of config.json that says what cannot be
  InitialWeights(const ModelConfig& config, std::uint64_t seed);
  [[nodiscard]] std::int64_t bytes(const Parameter& parameter) const override;
  void read(const Parameter& parameter, const std::function<bool(std::span<const float> piece)>& take) const override;

 private:
  [[nodiscard]] double deviation(const Parameter& parameter) const;
  void draw(const Parameter& parameter, const std::function<bool(std::span<const float> piece)>& take) const;

  ModelConfig config_;
  std::uint64_t seed_;
  double range_ = 0;
  std::int64_t padding_ = -1;
  std::vector<float> constant_gates_;  ///< [H] logits; empty: 0
};

}  // namespace foxscope
