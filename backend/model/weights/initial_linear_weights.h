#pragma once

#include <memory>
#include <vector>

#include "backend/model/spec/config_keys.h"
#include "backend/model/spec/model_config.h"
#include "backend/model/spec/parameters.h"
#include "backend/model/weights/normal_numbers.h"

namespace foxscope {

/// Whether a parameter is a matrix into the residual stream.
inline bool enters_residual(const Parameter& parameter) {
  return parameter.of_layer == &LayerWeights::output || parameter.of_layer == &LayerWeights::mlp_out;
}

/// The weights that models of linear mixers begin a training with where they are not as FoX's: see InitialWeights.
class InitialLinearWeights {
 public:
  /// @returns null for a model of attention alone
  /// @throws Error naming the key of config.json that says what cannot be
  static std::unique_ptr<const InitialLinearWeights> of(const ModelConfig& config, const ConfigKeys& keys);
  /// @param config  of a model with linear mixers; must outlive it
  InitialLinearWeights(const ModelConfig& config, const ConfigKeys& keys);

  /// Whether the table of embeddings has a row of zeros for padding.
  [[nodiscard]] bool pads() const;
  /// Whether normal numbers of matrices into the residual stream are smaller by sqrt(2 layers).
  [[nodiscard]] bool shrinks_residual() const;
  /// Half the width of a uniform distribution; 0: numbers are normal.
  [[nodiscard]] double uniform_range(const Parameter& parameter) const;
  /// Whether all numbers of a matrix are that.
  [[nodiscard]] bool is_constant(const Parameter& parameter) const;
  /// Biases, rates and factors.
  [[nodiscard]] std::vector<float> numbers(const Parameter& parameter, NormalNumbers numbers) const;

 private:
  [[nodiscard]] double mamba_range(const Parameter& parameter) const;

  const ModelConfig& config_;
  const LinearMixer& mixer_;
  double shortest_step_ = 0, longest_step_ = 0, least_step_ = 0;  ///< dt of Mamba, Mamba-2 and Gated DeltaNet
  double step_scale_ = 1;                                         ///< of the matrix that makes dt of Mamba
  bool constant_step_ = false;                                    ///< which is that number alone
  bool rescaled_ = false;                                         ///< Mamba's output projection, by layers
};

}  // namespace foxscope
