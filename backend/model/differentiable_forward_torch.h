#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include <ATen/core/Tensor.h>

#include "backend/model/torch_forward_torch.h"

namespace foxscope {

/// What a loss is differentiated by, beside what enters the layers.
struct GradientOptions {
  bool log_gates = false;  ///< log f of every layer, head and position, as the probes have changed it
  bool weights = false;    ///< those that require a gradient (TorchWeights::require_gradients)
};

struct Gradients {
  std::vector<at::Tensor> log_gates;  ///< for each layer [B, H, n] float64, nats per nat
  /// For each layer, in the members of the weights; undefined where a weight takes none.
  std::vector<TorchLayer> layers;
  at::Tensor embedding;    ///< [V, D]
  at::Tensor positions;    ///< [learned_positions, D]
  at::Tensor padded_head;  ///< as TorchWeights has it
  at::Tensor final_norm, final_norm_bias;
};

/// The forward pass as LibTorch's autograd can go back through it: TorchForward's steps, with attention by the kernels
/// and the loss in chunks. Layers are differentiated one at a time, from the last to the first, each from what entered
/// it, so that a layer's memory is free when the one before it begins.
class DifferentiableForward final : public TorchForward {
 public:
  /// What attention and the loss are made of.
  enum class Steps {
    kernels,   ///< of the kernels where they take the head dimension
    composed,  ///< LibTorch's operations alone: the twin
  };

  /// @param weights       must outlive it; not made in inference mode
  /// @param loss_weights  [B n] float32 on the host: the loss is the sum of these times each position's
  DifferentiableForward(const TorchWeights& weights, std::int64_t batch, std::int64_t length,
                        const at::Tensor& loss_weights, const GradientOptions& options, Steps steps = Steps::kernels);

  /// The weighted loss after run(), [1] float64 on the device.
  [[nodiscard]] const at::Tensor& loss() const { return loss_; }
  /// The gradient of the weighted loss, once after run().
  /// @returns nothing if the job was stopped
  std::optional<Gradients> differentiate(const Job& job);

 protected:
  void begin() override;
  bool project(int layer) override;
  void sum_gates(int layer) override;
  bool attend(int layer) override;
  bool project_output(int layer) override;
  bool feed_forward(int layer) override;
  bool predict() override;

 private:
  struct Layer {
    at::Tensor entered;   ///< x as it enters, cut off from what made it
    at::Tensor log_gate;  ///< [B, H, n] float64
    at::Tensor left;      ///< x as it leaves
  };
  void enter(int layer);
  bool attend_by_kernel(int layer);
  bool attend_composed(int layer);
  void keep_normalizers(int layer, const at::Tensor& log_normalizer);

  at::Tensor loss_weights_;  ///< [B n] float32 on the device
  GradientOptions options_;
  bool by_kernel_;
  std::vector<Layer> layers_;  ///< and a last one of what enters the final norm
  at::Tensor log_gate_;        ///< of the layer at hand
  at::Tensor embedded_;        ///< what enters the first layer, where the embedding takes a gradient
  at::Tensor normed_end_;      ///< [B n, D] behind the final norm, in the run's dtype
  at::Tensor normed_end_gradient_;
  at::Tensor head_gradient_;
  at::Tensor loss_;
};

}  // namespace foxscope
