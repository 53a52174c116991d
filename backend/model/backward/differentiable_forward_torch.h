#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include <ATen/core/Tensor.h>

#include "backend/model/backward/differentiable_mixers_torch.h"
#include "backend/model/backward/gradient_forward_torch.h"

namespace foxscope {

/// The forward pass that LibTorch's autograd differentiates, of any family: TorchForward's steps, with attention by
/// the kernels and the loss in chunks. Layers are differentiated one at a time, from the last to the first, each from
/// what entered it, so that a layer's memory is free when the one before it begins. With GradientOptions::recompute a
/// layer's graph is made only then, and nothing but what entered it is kept.
class DifferentiableForward final : public GradientForward {
 public:
  /// The steps of attention and the loss.
  enum class Steps {
    kernels,   ///< of the kernels where they take the head dimension, and Mamba's scan
    composed,  ///< LibTorch's operations alone: the twin
  };

  DifferentiableForward(const TorchWeights& weights, std::int64_t batch, std::int64_t length,
                        const at::Tensor& loss_weights, const GradientOptions& options, Steps steps = Steps::kernels);

  std::optional<Gradients> backward(const Job& job) override;

 protected:
  [[nodiscard]] bool uses_autograd() const override { return true; }
  void begin() override;
  std::unique_ptr<MixerSteps> make_attention() override;
  std::unique_ptr<MixerSteps> make_linear() override;
  bool feed_forward(int layer) override;
  void end_layer(int layer) override;
  bool predict() override;

 private:
  struct Layer {
    at::Tensor entered;  ///< x as it enters, cut off from what made it
    at::Tensor left;     ///< x as it leaves
    KeptResults kept;    ///< for the run that makes the graph
  };
  void enter(int layer);
  /// Whether a layer is run a second time for its graph: the last one's is used at once.
  [[nodiscard]] bool made_again(int layer) const {
    return options().recompute != Recompute::none && layer < config().layers - 1;
  }
  [[nodiscard]] bool predicts_by_kernel() const;
  /// Where the results of a layer are that its second run does not compute again; null: it computes all.
  [[nodiscard]] KeptResults* kept(int layer);
  bool make_again(int layer);

  Steps steps_;
  std::vector<Layer> layers_;  ///< and a last one of what enters the final norm
  DifferentiableLogGates log_gates_;
  at::Tensor embedded_;    ///< what enters the first layer, where the embedding takes a gradient
  at::Tensor normed_end_;  ///< [B n, D] behind the final norm, in the run's dtype
  at::Tensor normed_end_gradient_;
};

}  // namespace foxscope
