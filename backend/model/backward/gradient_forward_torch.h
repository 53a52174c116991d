#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include <ATen/core/Tensor.h>

#include "backend/base/index.h"
#include "backend/model/backward/recompute.h"
#include "backend/model/layer/torch/torch_forward_torch.h"

namespace foxscope {

/// The variables that a loss is differentiated by.
struct GradientOptions {
  /// log f of every layer, head and position, as the probes have changed it; of a linear mixer its log decay, where
  /// that is one a head and no probe changes it
  bool log_gates = false;
  /// Weights: the gradients are added to these, float32, and undefined for weights that take none; null: by no weight.
  /// Must outlive the pass, whose weights require gradients (TorchWeights::require_gradients).
  const WeightTensors* weights = nullptr;
  /// May be empty. Called in the backward pass before anything is added to the gradients of a layer's weights.
  std::function<void(int layer)> layer_begins = nullptr;
  /// May be empty. Called in the backward pass when the gradients of a layer's matrices are whole, from the last layer
  /// to the first. Not every subclass calls it.
  std::function<void(int layer)> layer_done = nullptr;
  /// Arrays that are made again, in passes that keep nothing for recorders.
  Recompute recompute = Recompute::none;
};

struct Gradients {
  std::vector<at::Tensor> log_gates;  ///< for each layer [B, H, n], nats per nat
};

/// A forward pass with a backward pass that runs once.
class GradientForward : public TorchForward {
 public:
  /// @param weights       must outlive it; not made in inference mode
  /// @param loss_weights  [B n] float32: the loss is the sum of these times each position's
  GradientForward(const TorchWeights& weights, std::int64_t batch, std::int64_t length, const at::Tensor& loss_weights,
                  const GradientOptions& options);

  /// Bytes that a pass takes for the backward pass beside a pass without: the arrays kept of each layer, and one
  /// layer's own.
  static PassBytes bytes(const ModelConfig& config, bool on_gpu, DType dtype, Recompute recompute);

  /// Forward::run over whole texts, with LibTorch's autograd as the backward pass needs it. Ids, labels, probes and
  /// report must live until backward() is done.
  bool run_forward(const Input& input, std::span<const Probe> probes, const Job& job, ForwardReport& report);
  /// The weighted loss after run_forward(), [] float64 on the device.
  [[nodiscard]] const at::Tensor& loss() const { return loss_; }
  /// The loss of every position, [B, n] float32 nats, on the device.
  [[nodiscard]] const at::Tensor& losses() const { return losses_; }
  /// The sum of log f over all positions but the first, for each layer [H] float64 on the device; undefined without
  /// gates.
  [[nodiscard]] const std::vector<at::Tensor>& gate_sums() const { return gate_sums_; }
  /// The gradient of the weighted loss, after run_forward().
  /// @returns nothing if the job was stopped
  virtual std::optional<Gradients> backward(const Job& job) = 0;

 protected:
  /// Whether the backward pass is autograd's.
  [[nodiscard]] virtual bool uses_autograd() const = 0;
  [[nodiscard]] const GradientOptions& options() const { return options_; }
  [[nodiscard]] bool wants_weights() const { return options_.weights != &none_; }
  /// The gradients by the weights that were asked for; all undefined if none was.
  [[nodiscard]] const WeightTensors& grad_weights() const { return *options_.weights; }
  [[nodiscard]] const TorchLayer& grad_weights(int layer) const { return options_.weights->layers[index_of(layer)]; }
  /// Rows of logits that are made at a time.
  [[nodiscard]] std::int64_t logit_rows() const;
  /// Runs steps of a layer a second time, which the report does not count.
  bool again(const std::function<bool()>& steps) {
    const ForwardReport done = report();
    const bool whole = steps();
    report() = done;
    return whole;
  }
  /// A job's progress in the backward pass through layer after layer.
  void report_backward(const Job& job, int layers_done) const;
  /// Takes the losses over.  @param loss  [B n] float32 nats
  void finish_losses(const at::Tensor& loss);

  at::Tensor loss_weights_;            ///< [B n] float32 on the device
  std::vector<at::Tensor> gate_sums_;  ///< of gate_sums(), which the steps of attention fill in

 private:
  GradientOptions options_;
  WeightTensors none_;  ///< of no weight
  at::Tensor losses_;
  at::Tensor loss_;
};

/// The forward that is fastest for a model: of kernels for families of RMSNorm and SwiGLU, else by LibTorch's autograd.
std::unique_ptr<GradientForward> make_gradient_forward(const TorchWeights& weights, std::int64_t batch,
                                                       std::int64_t length, const at::Tensor& loss_weights,
                                                       const GradientOptions& options);

}  // namespace foxscope
