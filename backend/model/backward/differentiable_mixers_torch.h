#pragma once

#include <optional>
#include <vector>

#include <ATen/core/Tensor.h>

#include "backend/model/backward/gradient_attention_torch.h"
#include "backend/model/backward/recompute.h"
#include "backend/model/layer/torch/linear_torch.h"

namespace foxscope {

/// Log gates of each layer, as autograd goes back to them.
struct DifferentiableLogGates {
  bool wanted = false;                 ///< whether the loss is differentiated by them
  std::vector<at::Tensor> grad_layer;  ///< [B, H, n] float64, nats; where they are wanted
};

/// TorchAttentionSteps that LibTorch's autograd differentiates, attention being one operation of it where the
/// kernels do it.
class DifferentiableAttentionSteps final : public GradientAttentionSteps {
 public:
  /// @param log_gates  must outlive it
  /// @param by_kernel  whether attention is the kernels', or LibTorch's operations
  DifferentiableAttentionSteps(TorchPass& pass, std::vector<at::Tensor>& gate_sums, DifferentiableLogGates& log_gates,
                               bool by_kernel)
      : GradientAttentionSteps(pass, gate_sums), log_gates_(log_gates), by_kernel_(by_kernel) {}

  void sum_gates(int layer) override;
  bool attend(int layer) override;

 private:
  bool attend_by_kernel(int layer);
  bool attend_composed(int layer);

  DifferentiableLogGates& log_gates_;
  bool by_kernel_;
  at::Tensor log_gate_;  ///< of the layer at hand
};

/// TorchLinearSteps likewise, with Mamba's scan as one operation of autograd.
class DifferentiableLinearSteps final : public TorchLinearSteps {
 public:
  /// @param log_gates  must outlive it
  /// @param by_kernel  whether Mamba's scan is the kernel's
  DifferentiableLinearSteps(TorchPass& pass, DifferentiableLogGates& log_gates, bool by_kernel)
      : TorchLinearSteps(pass),
        log_gates_(log_gates),
        by_kernel_(by_kernel),
        checked_(static_cast<std::size_t>(pass.config().layers)) {}

  void sum_gates(int layer) override;

 private:
  std::optional<at::Tensor> mix(at::Tensor& state) override;
  void check_decays(int layer) override;

  DifferentiableLogGates& log_gates_;
  bool by_kernel_;
  std::vector<bool> checked_;  ///< layers whose decays are known to be numbers
};

}  // namespace foxscope
