#pragma once

#include <optional>
#include <span>
#include <vector>

#include <ATen/core/Tensor.h>

#include "backend/model/causal_lm.h"
#include "backend/model/composed_attention_torch.h"
#include "backend/model/cpu_weights.h"

namespace foxscope {

class ComposedContinuation;

/// The same weights as CpuLayerWeights, on a device. Matrices are in the run's dtype; what makes gates is float32.
struct DeviceLayer {
  at::Tensor attention_norm, projection, projection_bias, gates, gates_bias, query_norm, key_norm, constant_gate,
      output_gate, output_norm, output, mlp_norm, mlp_gate_up, mlp_down;
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

/// The model behind load_composed_model.
class ComposedCausalLM final : public CausalLM {
 public:
  ComposedCausalLM(const Checkpoint& checkpoint, const Device& device, DType dtype);

  [[nodiscard]] const ModelConfig& config() const override { return config_; }
  [[nodiscard]] const Device& device() const override { return device_; }
  [[nodiscard]] DType dtype() const override { return dtype_; }
  std::optional<ForwardReport> forward(const ForwardRequest& request, std::span<Recorder* const> recorders,
                                       const Job& job) override;
  std::unique_ptr<Continuation> begin(const PromptRequest& request, const Job& job) override;

  // The steps of a layer; a continuation takes them one position at a time.

  [[nodiscard]] const DeviceLayer& layer(int index) const { return layers_[static_cast<std::size_t>(index)]; }
  /// [n, D] float32.
  [[nodiscard]] at::Tensor embed(std::span<const std::int32_t> ids) const;
  /// The layer's input after its norm, [n, D] float32.
  [[nodiscard]] at::Tensor attention_input(int index, const at::Tensor& residual) const;
  [[nodiscard]] ComposedHeads project(int index, const at::Tensor& normed, const ComposedBefore& before) const;
  /// log f [H, n] float64 on the host, before interventions; zeros where every f is 1.
  [[nodiscard]] at::Tensor log_gates(int index, const at::Tensor& gates) const;
  /// What is added to the residual stream: o_proj(act(gate) * norm(o)).
  /// @param attended  [n, H, d] float32
  [[nodiscard]] at::Tensor leave_attention(int index, const at::Tensor& normed, const at::Tensor& attended,
                                           std::span<const Intervention> interventions) const;
  void feed_forward(int index, at::Tensor& residual) const;
  /// [n, V] float32.  @param residual  [n, D]
  [[nodiscard]] at::Tensor logits(const at::Tensor& residual) const;

 private:
  struct Pass {
    const ForwardRequest& request;
    Recorder& recorder;
    const Job& job;
    ForwardReport& report;
    ComposedContinuation* continuation;  ///< takes what the layers leave; may be null
  };
  at::Tensor place(std::span<const float> values, at::IntArrayRef shape, at::ScalarType type) const;
  DeviceLayer load_layer(const Checkpoint& checkpoint, int layer) const;
  bool run_sequence(const Pass& pass, std::int64_t row);
  bool run_layer(const Pass& pass, int layer, at::Tensor& residual) const;
  at::Tensor prepare_gates(const Pass& pass, int layer, const at::Tensor& gates) const;
  at::Tensor attend(const Pass& pass, int layer, const ComposedHeads& heads) const;
  void predict(const Pass& pass, const at::Tensor& residual, std::span<const std::int32_t> labels) const;

  ModelConfig config_;
  Device device_;
  DType dtype_;
  at::Device place_;
  at::ScalarType matrix_;
  ProjectionColumns columns_;
  at::Tensor embedding_;
  at::Tensor head_;
  at::Tensor final_norm_;
  std::vector<DeviceLayer> layers_;
};

}  // namespace foxscope
