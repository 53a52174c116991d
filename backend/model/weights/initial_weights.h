#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "backend/model/weights/initial_linear_weights.h"
#include "backend/model/weights/weight_reader.h"

namespace foxscope {

/// Decay times, in tokens, over the heads of a layer: head h of H has shortest (longest / shortest)^(h / (H - 1)).
struct DecayTimes {
  static constexpr double kShortest = 1e-3;
  static constexpr double kLongest = 1e12;
  double shortest = 0;
  double longest = 0;

  [[nodiscard]] bool valid() const { return shortest >= kShortest && longest >= shortest && longest <= kLongest; }
  /// [heads] logits of gates of these decay times T: b = -log(exp(1/T) - 1), so that log sigmoid(b) = -1/T.
  [[nodiscard]] std::vector<float> logits(int heads) const;
};

/// Weights that a training begins with, as the authors' code makes them (Lin et al. 2025, their published modules'
/// `_init_weights`): matrices, embeddings and the head are drawn from N(0, initializer_range^2), norms are 1, biases 0,
/// the padding token's row of the embedding is 0. Gates that do not depend on data forget over decay times that are
/// spread evenly over the logarithm from decay_time_min to decay_time_max, head by head (DecayTimes). Biases of gates
/// that depend on data may begin so too, which is not as the authors' do. GPT-2's projections into the residual stream
/// are smaller by sqrt(2 layers).
///
/// Models of linear mixers begin as the modules of their authors do. Mamba-2: matrices and convolutions are uniform in
/// +-1/sqrt(inputs), the output projection's smaller by sqrt(layers), A = log 1..H, D = 1, and dt_bias such that dt is
/// spread evenly over the logarithm from time_step_min to time_step_max. Samba: so are all matrices but the embedding,
/// those that enter the residual stream smaller by sqrt(2 layers); A = log 1..d of each channel, the matrix that makes
/// dt uniform in +-time_step_scale/sqrt(rank) (or all that, by time_step_init_scheme), D and dt as Mamba-2's. Mamba:
/// the same of A, D and dt; other matrices as FoX's, with rescale_prenorm_residual the output's +-1/sqrt(inputs
/// layers). HGRN2, GLA and the delta rules: the mixer's matrices are uniform with Glorot's range times 2^-2.5,
/// convolutions as above, MLPs as in FoX but that the projection into the residual stream is smaller by sqrt(2 layers),
/// lower bounds 0; Gated DeltaNet's exp(A) is uniform in (0, 16).
///
/// A number depends on the seed, the parameter's name and its place alone: on no thread, device or other parameter.
class InitialWeights final : public ParameterSource {
 public:
  /// @param gates  decay times that gates which depend on data begin with; none: their biases are 0
  /// @throws Error naming the key of config.json that says what cannot be; UsageError for decay times of a model
  /// without
  ///         such gates
  InitialWeights(const ModelConfig& config, std::uint64_t seed, const std::optional<DecayTimes>& gates = std::nullopt);
  InitialWeights(const InitialWeights&) = delete;
  InitialWeights& operator=(const InitialWeights&) = delete;
  [[nodiscard]] std::int64_t bytes(const Parameter& parameter) const override;
  void read(const Parameter& parameter, const std::function<bool(std::span<const float> piece)>& take) const override;

 private:
  [[nodiscard]] double deviation(const Parameter& parameter) const;
  void draw(const Parameter& parameter, const std::function<bool(std::span<const float> piece)>& take) const;

  ModelConfig config_;
  std::uint64_t seed_;
  double range_ = 0;
  std::int64_t padding_ = -1;
  std::unique_ptr<const InitialLinearWeights> linear_;  ///< of config_; null: all layers are attention
  std::vector<float> constant_gates_;                   ///< [H] logits; empty: 0
  std::vector<float> gate_biases_;                      ///< [H] of gates that depend on data; empty: 0
};

}  // namespace foxscope
