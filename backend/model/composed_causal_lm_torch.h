#pragma once

#include <optional>
#include <span>
#include <vector>

#include <ATen/core/Tensor.h>

#include "backend/model/causal_lm.h"
#include "backend/model/parameters.h"

namespace foxscope {

class ComposedContinuation;

/// The same weights as LayerWeights, on a device. Matrices are in the run's dtype; what makes gates is float32.
struct DeviceLayer {
  at::Tensor attention_norm, attention_norm_bias, projection, projection_bias, gates, gates_bias, query_norm, key_norm,
      constant_gate, output_gate, output_norm, output, output_bias, mlp_norm, mlp_norm_bias, mlp_in, mlp_in_bias,
      mlp_out, mlp_out_bias;
  at::Tensor projection_and_gate;  ///< `projection` with `output_gate` below it: the two are views of it
  /// `gates` = high + rest in bfloat16 up to 2^-17 of it, [G, 2 D] with `high` twice side by side, and [G, D];
  /// undefined in float32.
  at::Tensor gates_high, gates_rest;
  std::vector<double> logit_bound;  ///< [H]
};

/// What lies before the positions that are projected.
struct ComposedBefore {
  std::int64_t position = 0;  ///< how many
  at::Tensor key;             ///< [1, H_kv, d] float32 of the last of them, as projected; undefined: zeros
  at::Tensor value;
};

/// The heads of n positions as they enter attention.
struct ComposedHeads {
  at::Tensor query;     ///< [H, n, d] in the run's dtype
  at::Tensor key;       ///< [H_kv, n, d] likewise
  at::Tensor value;     ///< likewise
  at::Tensor gates;     ///< [n, ...] float32 logits of shifts and forget gate
  ComposedBefore next;  ///< for the positions after these
};

/// One sequence that a model is run on.
struct SequencePass {
  const ForwardRequest& request;
  Recorder& recorder;
  const Job& job;
  ForwardReport& report;
  ComposedContinuation* continuation;  ///< takes what the layers leave; may be null
  std::int64_t row;                    ///< of the request's batch

  [[nodiscard]] std::span<const std::int32_t> input_ids() const { return of_row(request.input_ids); }
  [[nodiscard]] std::span<const std::int32_t> labels() const { return of_row(request.labels); }
  void tell(int layers_done, int layers) const { job.tell({layers_done, layers + 1, "layers", "forward"}); }

 private:
  [[nodiscard]] std::span<const std::int32_t> of_row(std::span<const std::int32_t> all) const {
    return all.subspan(static_cast<std::size_t>(row * request.length), static_cast<std::size_t>(request.length));
  }
};

/// The model behind load_composed_model.
class ComposedCausalLM final : public CausalLM {
 public:
  /// Without weights.
  ComposedCausalLM(ModelConfig config, const Device& device, DType dtype);
  /// @returns false if the job was stopped
  bool load(const Checkpoint& checkpoint, const Job& job);

  [[nodiscard]] const ModelConfig& config() const override { return config_; }
  [[nodiscard]] const Device& device() const override { return device_; }
  [[nodiscard]] DType dtype() const override { return dtype_; }
  std::optional<ForwardReport> forward(const ForwardRequest& request, std::span<Recorder* const> recorders,
                                       const Job& job) override;
  std::unique_ptr<Continuation> begin(const PromptRequest& request, const Job& job) override;

  // The steps of a layer; a continuation takes them one position at a time.

  [[nodiscard]] const DeviceLayer& layer(int index) const { return layers_[static_cast<std::size_t>(index)]; }
  [[nodiscard]] const ProjectionColumns& columns() const { return columns_; }
  [[nodiscard]] const at::Tensor& final_norm() const { return final_norm_; }
  /// lm_head [V and zeros up to a multiple of 8, D] in the run's dtype, so that rows of logits are aligned.
  [[nodiscard]] const at::Tensor& padded_head() const { return padded_head_; }
  /// [n, D] float32.
  /// @param first  position of the first id
  [[nodiscard]] at::Tensor embed(std::span<const std::int32_t> ids, std::int64_t first) const;
  /// [L, D] f32, what enters the first layer that is run.
  [[nodiscard]] at::Tensor enter(const SequencePass& pass) const;
  /// The layer's input after its norm, [n, D] float32.
  [[nodiscard]] at::Tensor attention_input(int index, const at::Tensor& residual) const;
  [[nodiscard]] ComposedHeads project(int index, const at::Tensor& normed, const ComposedBefore& before) const;
  /// log f [H, n] float64 on the host, before interventions; zeros where every f is 1.
  [[nodiscard]] at::Tensor log_gates(int index, const at::Tensor& gates) const;
  /// Adds o_proj(act(gate) * norm(o)) to the residual stream, and what the MLP makes of the sum; of what entered the
  /// layer, where the residual is parallel.
  /// @param attended  [n, H, d] float32
  void leave_layer(int index, const at::Tensor& normed, const at::Tensor& attended,
                   std::span<const Intervention> interventions, at::Tensor& residual) const;
  /// [n, V] float32.  @param residual  [n, D]
  [[nodiscard]] at::Tensor logits(const at::Tensor& residual) const;

 private:
  [[nodiscard]] at::Tensor norm(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) const;
  [[nodiscard]] at::Tensor project_output(int index, const at::Tensor& normed, const at::Tensor& attended,
                                          std::span<const Intervention> interventions) const;
  void feed_forward(int index, at::Tensor& residual) const;
  at::Tensor place(std::span<const float> values, at::IntArrayRef shape, at::ScalarType type) const;
  DeviceLayer place_layer(const LayerWeights& host) const;
  bool run_sequence(const SequencePass& pass) const;
  bool run_layer(const SequencePass& pass, int layer, at::Tensor& residual) const;
  at::Tensor prepare_gates(const SequencePass& pass, int layer, const at::Tensor& gates) const;
  at::Tensor attend(const SequencePass& pass, int layer, const ComposedHeads& heads) const;
  at::Tensor attend_on_cuda(const SequencePass& pass, int layer, const ComposedHeads& heads) const;
  void predict(const SequencePass& pass, const at::Tensor& residual) const;

  ModelConfig config_;
  Device device_;
  DType dtype_;
  at::Device place_;
  at::ScalarType matrix_;
  bool attends_on_cuda_ = false;  ///< by kernels/cuda, else by LibTorch's operations
  ProjectionColumns columns_;
  std::vector<double> frequencies_;  ///< of the rotary embedding
  at::Tensor embedding_;
  at::Tensor positions_;  ///< [learned_positions, D] float32; undefined where there are none
  at::Tensor padded_head_;
  at::Tensor final_norm_, final_norm_bias_;
  std::vector<DeviceLayer> layers_;
};

}  // namespace foxscope
