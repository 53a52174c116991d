#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>

#include "backend/model/layer/torch/torch_forward_torch.h"
#include "kernels/cuda/steps/steps.h"

namespace foxscope {

/// The steps in bfloat16 on a GPU: cuBLAS for the matrices, kernels/cuda for everything between them. The residual
/// stream, what makes gates, norms and logits are float32. Nothing waits for the GPU inside a layer but what the caller
/// keeps in pageable memory, and interventions on gates, which change log f on the host.
class CudaForward : public TorchForward {
 public:
  /// Whether there are kernels for what a model's layers are made of.
  static bool takes(const TorchWeights& weights);

  /// @param weights  that it takes, on the current device; must outlive it
  CudaForward(const TorchWeights& weights, std::int64_t batch, std::int64_t length);

 protected:
  void begin() override;
  bool project(int layer) override;
  void sum_gates(int layer) override;
  bool project_output(int layer) override;
  bool feed_forward(int layer) override;
  bool predict() override;
  at::Tensor final_norm(std::int64_t first_row) override;
  at::Tensor logits(const at::Tensor& normed) override;
  /// From the projection to query_, key_ and value_.
  virtual void split_heads(int layer);
  /// What of that is the same for a text and for its next position.
  [[nodiscard]] kernels::cuda::ProjectedHeads projected_heads(int layer) const;
  [[nodiscard]] kernels::cuda::Stream stream() const { return stream_; }

  at::Tensor rotation_;     ///< [n, d/2, 2] f32; undefined without rotation
  at::Tensor mlp_wide_;     ///< [B n, 2 I] bf16 of the MLP, where it is kept from pass to pass
  at::Tensor mlp_product_;  ///< [B n, I] bf16 likewise

 private:
  enum class Sum { no, yes };

  /// Logits of what is precise in a projection, into gates_.
  void make_gates(const TorchLayer& weights);
  /// x += the mixer's output.  @param output  [B n, H d] bf16
  void add_output(int layer, at::Tensor& output);
  [[nodiscard]] bool alike() const { return !input().lengths.empty(); }
  /// out = in W^T, or out += in W^T; where rows are to be alike, so many at a time.
  /// @param in, out  [rows, ...]
  void multiply(const at::Tensor& out, const at::Tensor& in, const at::Tensor& weight, Sum sum,
                std::int64_t alike_rows) const;
  /// norm(x) into normed_, and float32 where it is asked for, of the rows from `first` on.
  void norm(const at::Tensor& weight, std::int64_t first, bool rest, const at::Tensor& exact);
  [[nodiscard]] at::Tensor normed() const { return normed_.select(1, 0); }

  kernels::cuda::Stream stream_;
  at::Tensor normed_;     ///< [B n, 2, D] bf16, and what rounding took from it; [B n, 1, D] where no gate needs that
  at::Tensor projected_;  ///< [B n, (H + 2 H_kv) d, and H d of an output gate] bf16
  at::Tensor filling_;    ///< [B, 1, n, 1] bool: what lies behind a text; undefined where nothing does
  at::Tensor last_;       ///< [B, 1, n] int64: the position, or the text's last where it lies behind; likewise
};

}  // namespace foxscope
