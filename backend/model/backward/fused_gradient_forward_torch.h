#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include <ATen/core/Tensor.h>

#include "backend/base/index.h"
#include "backend/model/backward/fused_attention_torch.h"
#include "backend/model/backward/fused_pass_torch.h"
#include "backend/model/backward/gradient_forward_torch.h"

namespace foxscope {

/// The forward pass of the families that PointwiseOps take, and the backward pass, written out step by step: LibTorch's
/// matrix products, and kernels for everything between them, on the CPU in float32 and on a GPU in bfloat16. The
/// residual stream and its gradient, what makes gates, norms and logits are float32.
///
/// A pass keeps the results of large matrix products and of attention: of each layer x as it enters, the projection,
/// attention's output, the MLP's two inputs to its product. It computes norms, queries, keys and values, gated heads, x
/// behind attention and products of the MLP again; with GradientOptions::recompute also the MLP's inputs, or all but x
/// as it enters.
class FusedGradientForward final : public GradientForward {
 public:
  static bool takes(const TorchWeights& weights);

  /// @param weights  that it takes
  FusedGradientForward(const TorchWeights& weights, std::int64_t batch, std::int64_t length,
                       const at::Tensor& loss_weights, const GradientOptions& options);

  std::optional<Gradients> backward(const Job& job) override;

 protected:
  [[nodiscard]] bool uses_autograd() const override { return false; }
  void begin() override;
  std::unique_ptr<MixerSteps> make_attention() override;
  bool feed_forward(int layer) override;
  bool predict() override;
  void end_layer(int layer) override;

 private:
  /// The arrays that a layer's MLP has.
  struct Layer {
    at::Tensor middle;  ///< [R, D] float32 x behind attention, of the layer at hand
    at::Tensor wide;    ///< [R, 2 I]
  };
  [[nodiscard]] Layer& kept(int layer) { return layers_[index_of(layer)]; }
  /// The MLP's two inputs to its product, [R, 2 I], from norm(x).
  [[nodiscard]] at::Tensor mlp_inputs(int layer, const at::Tensor& normed) const;
  /// Computes again what was not kept of a layer.
  /// @returns false if the job was stopped
  bool make_again(int layer);
  void feed_forward_backward(int layer);

  FusedPass fused_;
  FusedAttentionSteps* attention_ = nullptr;  ///< what make_attention() made
  std::vector<Layer> layers_;
};

}  // namespace foxscope
