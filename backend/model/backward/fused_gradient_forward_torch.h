#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include <ATen/core/Tensor.h>

#include "backend/model/backward/gradient_forward_torch.h"
#include "backend/model/backward/small_steps_torch.h"

namespace foxscope {

/// The forward pass of the families that SmallSteps take, and the way back, written out step by step: LibTorch's matrix
/// products, and kernels for everything between them, on the CPU in float32 and on a GPU in bfloat16. The residual
/// stream and its gradient, what makes gates, norms and logits are float32.
///
/// Of a layer is kept what a matrix product or attention made: x as it enters and behind attention, the projection,
/// what attention made of it, the MLP's two inputs to its product. Norms, queries, keys and values, gated heads and
/// products of the MLP are made again; with GradientOptions::recompute also the MLP's inputs, or all but x as it
/// enters.
class FusedGradientForward final : public GradientForward {
 public:
  static bool takes(const TorchWeights& weights);

  /// @param weights  that it takes
  FusedGradientForward(const TorchWeights& weights, std::int64_t batch, std::int64_t length,
                       const at::Tensor& loss_weights, const GradientOptions& options);

  std::optional<Gradients> differentiate(const Job& job) override;

 protected:
  [[nodiscard]] bool uses_autograd() const override { return false; }
  void begin() override;
  bool project(int layer) override;
  void sum_gates(int layer) override;
  bool attend(int layer) override;
  bool project_output(int layer) override;
  bool feed_forward(int layer) override;
  bool predict() override;
  void end_layer(int layer) override;

 private:
  struct Layer {
    at::Tensor entered;         ///< [R, D] float32 x
    at::Tensor projected;       ///< [R, (H + 2 H_kv) d, and H d of an output gate]
    at::Tensor gates;           ///< [R, G] float32 logits of shifts and forget gate
    at::Tensor cumulative;      ///< [B, H, n] float64
    at::Tensor attended;        ///< [R, H, d]
    at::Tensor log_normalizer;  ///< [B, H, n] float32
    at::Tensor middle;          ///< [R, D] float32 x behind attention
    at::Tensor wide;            ///< [R, 2 I]
  };
  [[nodiscard]] Layer& kept(int layer) { return layers_[static_cast<std::size_t>(layer)]; }
  /// norm(x), as the matrix products read it.
  [[nodiscard]] at::Tensor normed_rows(const at::Tensor& x, const at::Tensor& weight, bool with_rest);
  /// Makes queries, keys and values of a layer from its projection.
  void set_heads(int layer);
  /// They are made again where they are read again.
  void drop_heads();
  [[nodiscard]] at::Tensor by_heads(const at::Tensor& rows) const;
  [[nodiscard]] AttentionTensors attention_of(const Layer& layer) const;
  [[nodiscard]] SmallSteps::Heads heads_of(int layer) const;
  [[nodiscard]] SmallSteps::Gated gated_of(int layer) const;
  /// sum + in W^T, float32.
  [[nodiscard]] at::Tensor add_product(const at::Tensor& sum, const at::Tensor& in, const at::Tensor& weight) const;
  /// of_weight += of_out^T in: the gradient by a weight of out = in W^T, where it is wanted.
  void add_weight_gradient(const at::Tensor& of_weight, const at::Tensor& of_out, const at::Tensor& in) const;

  /// The MLP's two inputs to its product, [R, 2 I], from norm(x).
  [[nodiscard]] at::Tensor mlp_inputs(int layer, const at::Tensor& normed) const;
  /// What was not kept of a layer.
  /// @returns false if the job was stopped
  bool make_again(int layer);
  void feed_forward_back(int layer);
  at::Tensor project_output_back(int layer, const at::Tensor& of_projected);
  SmallSteps::QueryKeyValue attend_back(int layer, const at::Tensor& of_attended, Gradients& gradients);
  void log_gates_back(int layer, const at::Tensor& of_log_gate, const at::Tensor& of_gates);
  void project_back(int layer, const at::Tensor& of_projected, const at::Tensor& of_gates);

  std::unique_ptr<SmallSteps> steps_;
  std::vector<Layer> layers_;
  at::Tensor normed_pair_;  ///< [R, 2, D] norm, and what rounding took from it where gates need that: of one layer
  at::Tensor of_residual_;  ///< [R, D] float32, the gradient by x
  at::Tensor of_log_gate_;  ///< [B, H, n] float32 of the layer at hand
};

}  // namespace foxscope
