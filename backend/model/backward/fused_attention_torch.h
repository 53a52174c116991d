#pragma once

#include <vector>

#include <ATen/core/Tensor.h>

#include "backend/base/index.h"
#include "backend/model/backward/fused_pass_torch.h"
#include "backend/model/backward/gradient_attention_torch.h"

namespace foxscope {

/// Attention of a FusedGradientForward, forward and backward. It keeps of a layer x as it enters, the projection, c,
/// and attention's output; norms, queries, keys, values and gated heads are made again, and with them x behind
/// attention, by project_output() before backward().
class FusedAttentionSteps final : public GradientAttentionSteps {
 public:
  /// @param pass  must outlive it, as gate_sums must
  FusedAttentionSteps(FusedPass& pass, std::vector<at::Tensor>& gate_sums);

  bool project(int layer) override;
  void sum_gates(int layer) override;
  bool attend(int layer) override;
  bool project_output(int layer) override;

  /// [R, D] float32 x as it entered a layer.
  [[nodiscard]] const at::Tensor& entered(int layer) const { return layers_[index_of(layer)].entered; }
  /// Lets go of what is made again of a layer: queries, keys, values and gated heads, or all but x as it entered.
  void end_layer(int layer, bool recomputes);

  /// The backward pass: the gradient by x from behind attention to what enters the layer. The layer's arrays are
  /// let go.
  /// @param to_input   whether anything before log f and attention is sought
  /// @param gradients  takes the layer's gradient by log f, where it is wanted
  /// @returns false if the job was stopped
  bool backward(int layer, bool to_input, const Job& job, Gradients& gradients);

 private:
  struct Layer {
    at::Tensor entered;         ///< [R, D] float32 x
    at::Tensor projected;       ///< [R, (H + 2 H_kv) d, and H d of an output gate]
    at::Tensor gates;           ///< [R, G] float32 logits of shifts and forget gate
    at::Tensor cumulative;      ///< [B, H, n] float64
    at::Tensor attended;        ///< [R, H, d]
    at::Tensor log_normalizer;  ///< [B, H, n] float32
  };
  [[nodiscard]] Layer& kept(int layer) { return layers_[index_of(layer)]; }
  /// Makes queries, keys and values of a layer from its projection.
  void set_heads(int layer);
  void drop_heads() { query_ = key_ = value_ = at::Tensor(); }
  [[nodiscard]] at::Tensor by_heads(const at::Tensor& rows) const;
  [[nodiscard]] AttentionTensors attention_of(int layer);
  [[nodiscard]] PointwiseOps::Heads heads_of(int layer) const;
  [[nodiscard]] PointwiseOps::Gated gated_of(int layer) const;

  at::Tensor project_output_backward(int layer, const at::Tensor& grad_projected);
  PointwiseOps::QueryKeyValue attend_backward(int layer, const at::Tensor& grad_attended, Gradients& gradients);
  void log_gates_backward(int layer, const at::Tensor& grad_log_gate, const at::Tensor& grad_gates);
  void project_backward(int layer, const at::Tensor& grad_projected, const at::Tensor& grad_gates);

  FusedPass& fused_;
  std::vector<Layer> layers_;
  at::Tensor output_;         ///< [R, H d] gated heads of the layer at hand
  at::Tensor grad_log_gate_;  ///< [B, H, n] float32 likewise
};

}  // namespace foxscope
