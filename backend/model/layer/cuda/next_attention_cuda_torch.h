#pragma once

#include <ATen/core/Tensor.h>

#include "backend/model/layer/cuda/attention_cuda_torch.h"
#include "kernels/cuda/attention/next/next_token.h"

namespace foxscope {

/// CudaAttentionSteps for one more position of each of B sequences, together. Their memory stays where it is, and where
/// a sequence's keys and values lie is a table on the device that is written before each token.
class CudaNextAttentionSteps final : public CudaAttentionSteps {
 public:
  /// @param pass  of one position of each sequence; must outlive it
  explicit CudaNextAttentionSteps(CudaPass& pass);

  /// Makes room for one position more of every layer, and takes to the device where all that is held lies, with the ids
  /// that are read.
  /// @returns [B] int32 ids on the device
  at::Tensor begin();
  void sum_gates(int layer) override;
  bool attend(int layer) override;
  /// Holds the position that was written.
  void finish();

  /// Whether a probe changes anything.
  [[nodiscard]] bool changes() const;
  /// [B] of a layer, on the device
  [[nodiscard]] const kernels::cuda::HeldSequence* sequences(int layer) const;

 private:
  void split_heads(int layer) override;

  at::Tensor host_;       ///< pinned bytes: HeldSequence [layers, B], then ids int32 [B]
  at::Tensor on_device_;  ///< the same
  at::Tensor workspace_;  ///< of attention
};

}  // namespace foxscope
