#pragma once

#include <vector>

#include <ATen/core/Tensor.h>

#include "backend/model/layer/cuda/attention_kernels_torch.h"
#include "backend/model/layer/torch/attention_torch.h"

namespace foxscope {

/// Attention of a pass with gradients, by the kernels of the device: the arguments that every such pass has of its own.
class GradientAttentionSteps : public TorchAttentionSteps {
 public:
  /// @param pass       must outlive it, as gate_sums must
  /// @param gate_sums  [layers] GradientForward::gate_sums
  GradientAttentionSteps(TorchPass& pass, std::vector<at::Tensor>& gate_sums)
      : TorchAttentionSteps(pass), gate_sums_(gate_sums) {}

 protected:
  /// A layer's attention, without what it is to write.
  [[nodiscard]] AttentionTensors attention_of(int layer, const at::Tensor& query, const at::Tensor& key,
                                              const at::Tensor& value, const at::Tensor& cumulative) const;
  void report_attention(const AttentionDone& done);
  void keep_gate_sum(int layer);

 private:
  std::vector<at::Tensor>& gate_sums_;
};

}  // namespace foxscope
