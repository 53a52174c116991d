#pragma once

#include <memory>

#include <ATen/core/Tensor.h>

#include "backend/model/weights/torch_weights_torch.h"

namespace foxscope {

/// The pointwise operations between a layer's matrix products, and the backward pass through them, by the kernels of
/// the weights' device: float32 on the CPU, bfloat16 on a GPU. R = B n rows; weight gradients are float32, added to,
/// and undefined where they are not wanted.
class PointwiseOps {
 public:
  /// Whether there are kernels for all steps of a model: RMSNorm, SwiGLU, no biases but those of queries, keys, values
  /// and gates, rotation of whole heads or none.
  static bool take(const TorchWeights& weights);
  /// @param weights  that they take; must outlive it
  static std::unique_ptr<PointwiseOps> make(const TorchWeights& weights, std::int64_t length);
  virtual ~PointwiseOps() = default;

  /// out = x / sqrt(mean(x^2) + epsilon) weight.
  struct Norm {
    at::Tensor x;       ///< [R, D] float32
    at::Tensor weight;  ///< [D]
  };
  /// @param out   [R, D] in the run's dtype
  /// @param rest  what rounding took from it, likewise; undefined: not wanted
  virtual void norm(const Norm& step, const at::Tensor& out, const at::Tensor& rest) = 0;
  /// @param grad_out     [R, D] in the run's dtype
  /// @param grad_x       [R, D] float32, added to
  /// @param grad_weight  [D]
  /// @param rounded      [R, D] written with the new grad_x in the run's dtype; undefined in float32
  virtual void norm_backward(const Norm& step, const at::Tensor& grad_out, const at::Tensor& grad_x,
                             const at::Tensor& grad_weight, const at::Tensor& rounded) = 0;

  /// Shift, norm and rotation of heads.
  struct Heads {
    at::Tensor projected;  ///< [R, (H + 2 H_kv) d] queries, keys, values; rows may lie apart
    at::Tensor gates;      ///< [R, G] float32 logits of shifts and forget gate; undefined without them
    const TorchLayer* layer = nullptr;
  };
  struct QueryKeyValue {
    at::Tensor query;  ///< [R, H, d]
    at::Tensor key;    ///< [R, H_kv, d]
    at::Tensor value;  ///< likewise
  };
  virtual void heads(const Heads& step, const QueryKeyValue& out) = 0;
  /// @param grad_out        may be overwritten
  /// @param grad_projected  as `projected`, written
  /// @param grad_gates      [R, G] float32: the columns of shifts are written
  /// @param grad_layer      gradients of query_norm and key_norm
  virtual void heads_backward(const Heads& step, const QueryKeyValue& grad_out, const at::Tensor& grad_projected,
                              const at::Tensor& grad_gates, const TorchLayer& grad_layer) = 0;

  /// out = norm(attended) act(gate), either of which may be missing.
  struct Gated {
    at::Tensor attended;  ///< [R, H, d]
    at::Tensor gate;      ///< [R, H d] logits, rows may lie apart; undefined: none
    at::Tensor norm;      ///< [H, d]; undefined: none
  };
  virtual void gated(const Gated& step, const at::Tensor& out) = 0;
  /// @param grad_out       [R, H d]
  /// @param grad_attended  [R, H, d], written
  /// @param grad_gate      as `gate`, written
  virtual void gated_backward(const Gated& step, const at::Tensor& grad_out, const at::Tensor& grad_attended,
                              const at::Tensor& grad_gate, const at::Tensor& grad_norm) = 0;

  /// product = silu(g) u of wide = [g, u], [R, 2 I].
  virtual void swiglu(const at::Tensor& wide, const at::Tensor& product) = 0;
  /// @param wide     replaced by its gradient
  /// @param product  the gradient of the product; replaced by the product, if that is wanted
  virtual void swiglu_backward(const at::Tensor& wide, const at::Tensor& product, bool product_wanted) = 0;

  /// Logits replaced by the gradient of the weighted loss by them, in the run's dtype.
  /// @param logits  [R, V] float32, rows may lie apart
  /// @param labels  [R] int32
  /// @param weight  [R] float32
  /// @param loss    [R] float32 nats, written, also where the weight is 0
  /// @returns [R, V and what lies between the rows, which is 0]
  virtual at::Tensor loss_backward(const at::Tensor& logits, const at::Tensor& labels, const at::Tensor& weight,
                                   const at::Tensor& loss) = 0;

  /// The gradient of a table that rows are looked up in: grad_table[id] += each row of that id.
  /// @param ids       [R] int32
  /// @param grad_rows   [R, D] float32
  /// @param grad_table  [V, D] float32, added to
  virtual void embedding_backward(const at::Tensor& ids, const at::Tensor& grad_rows, const at::Tensor& grad_table) = 0;

  /// dz of log f = logsigmoid(z) into the last H columns of the gates' gradient; of constant gates added up.
  /// @param grad_log_gate  [B, H, n]
  virtual void log_gate_backward(const Heads& step, const at::Tensor& grad_log_gate, const at::Tensor& grad_gates,
                                 const at::Tensor& grad_constant) = 0;
};

}  // namespace foxscope
