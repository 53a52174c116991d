#pragma once

#include <optional>
#include <span>
#include <vector>

#include <ATen/core/Tensor.h>

#include "backend/base/job.h"
#include "backend/model/spec/parameters.h"
#include "backend/model/weights/device.h"

namespace foxscope {

class Checkpoint;
class ParameterSource;

/// The weights of a layer on a device: LayerWeights with matrices in the run's dtype, and what makes gates in float32.
struct TorchLayer {
  at::Tensor attention_norm, attention_norm_bias, projection, projection_bias, gates, gates_bias, query_norm, key_norm,
      constant_gate, output_gate, output_norm, output, output_bias, attention_post_norm, mlp_norm, mlp_norm_bias,
      mlp_in, mlp_in_bias, mlp_out, mlp_out_bias, mlp_post_norm;
  at::Tensor sinks;  ///< [H] float32
  /// Weights of a mixture of experts: the router's and the gate's in float32.
  at::Tensor router, router_bias, selection_bias, shared_gate, experts_down, experts_up, experts_in, experts_in_bias,
      experts_out, experts_out_bias;
  /// Weights of a linear mixer; its `gates` are LinearColumns' from `precise` on.
  at::Tensor convolution, convolution_bias, x_proj, x_proj_bias, decay_up, decay_bias, decay_rate, skip, query_map,
      query_map_bias, key_map, key_map_bias, output_gate_bias, feedback_decay, query_correction, pre_norm,
      pre_norm_bias, shift, mlp_shift, decay_down, erase_down, value_down, gate_down, erase_up, value_up, erase_bias,
      value_bias, unit_key, key_share, bonus, output_norm_bias, latent_norm, latent_up, path_up, residual_norm,
      mlp_residual_norm;
  at::Tensor side_output;
  /// Both as one matrix on a GPU: `projection` with `output_gate` below it, the two being views of it.
  at::Tensor projection_and_gate;
  /// `gates` = high + rest in bfloat16 up to 2^-17 of it, [G, 2 D] with `high` twice side by side, and [G, D];
  /// undefined in float32.
  at::Tensor gates_high, gates_rest;
  /// [2 G, 2 D] `gates_high`, and below it `rest` beside zeros: one product for few gates; undefined for many, and
  /// where weights are trained.
  at::Tensor gates_joined;
  std::vector<double> logit_bound;  ///< [H]
};

/// A tensor for each weight of a model: the weights, gradients by them, moments of these.
struct WeightTensors {
  at::Tensor embedding;  ///< [V, D] float32
  at::Tensor positions;  ///< [learned_positions, D] float32; undefined where there are none
  /// The matrix that makes logits [V and zeros up to a multiple of 8, D] in the run's dtype, so that rows of logits are
  /// aligned.
  at::Tensor padded_head;
  at::Tensor final_norm, final_norm_bias;  ///< [D] float32
  at::Tensor lower_bounds;                 ///< [layers, H d] float32, of HGRN2; undefined elsewhere
  std::vector<TorchLayer> layers;

  /// The weights outside the layers, as members.
  static std::span<at::Tensor WeightTensors::*const> outside();
};

/// The weights of a model on a device.
struct TorchWeights : WeightTensors {
  /// Makes weights without values.
  TorchWeights(const ModelConfig& config, const Device& device, DType dtype);
  /// The weights of a model in memory: on the CPU and in float32 they are lent, and must outlive it.
  TorchWeights(const ModelConfig& config, const ModelWeights& host);
  /// @returns false if the job was stopped
  bool load(const Checkpoint& checkpoint, const Job& job);
  bool load(const ParameterSource& source, const Job& job);
  /// Makes a loss differentiable by every weight from here on.
  void require_gradients();
  /// Zeros for the gradient by every weight, float32, on the device.
  [[nodiscard]] WeightTensors zero_gradients() const;
  /// c10's device, and the matrices' type.
  [[nodiscard]] at::TensorOptions options(at::ScalarType type) const { return at::TensorOptions(place).dtype(type); }
  [[nodiscard]] bool on_gpu() const { return place.is_cuda(); }

  ModelConfig config;
  Device device;
  DType dtype;
  at::Device place;
  at::ScalarType matrix;
  ProjectionColumns columns;
  /// Each of the config's rotaries has [dim / 2] float64 (Rotary::frequencies), for texts up to the length that it was
  /// first trained on.
  std::vector<at::Tensor> frequencies;
  /// The same for texts of a length.
  [[nodiscard]] at::Tensor frequencies_of(int rotary, std::int64_t length) const;

 private:
  void put_frequencies();
  void put_outside(const ModelWeights& host);
  /// gates_high and gates_rest.
  void split_gates(TorchLayer& weights) const;
  void put_mixture(const ExpertMixture& mixture, const LayerWeights& host, TorchLayer& weights) const;
  void put_linear(const LinearMixer& mixer, const LayerWeights& host, TorchLayer& weights) const;
  void put_shifted(const LinearMixer& mixer, const LayerWeights& host, TorchLayer& weights) const;
  [[nodiscard]] at::Tensor put(std::span<const float> values, at::IntArrayRef shape, at::ScalarType type) const;
  [[nodiscard]] TorchLayer put_layer(int layer, const LayerWeights& host) const;

  bool lent_ = false;
};

/// The weights of a layer that a loss can be differentiated by.
std::span<at::Tensor TorchLayer::*const> differentiable_weights();

/// The same on the host, in float32, as the table of parameters has them. Takes gradients as well.
LayerWeights to_host(const TorchLayer& layer);

}  // namespace foxscope
