#pragma once

#include <ATen/core/Tensor.h>

#include "backend/model/composed_causal_lm_torch.h"
#include "backend/model/layer_downloads_torch.h"
#include "kernels/cuda/forgetting_attention.h"
#include "kernels/cuda/stream.h"
#include "kernels/status.h"

namespace foxscope {

/// One sequence through a bfloat16 model on a GPU: cuBLAS for the matrices, kernels/cuda for everything between them.
/// The residual stream, what makes gates, norms and logits are float32. Nothing waits for the GPU inside a layer but
/// what the caller keeps in pageable memory, a continuation, and interventions on gates, which change log f on the
/// host.
class CudaSequencePass {
 public:
  /// Whether its kernels have what a model's layers are made of.
  static bool takes(const ModelConfig& config, DType dtype);

  /// @param model  one that it takes, on the current device
  CudaSequencePass(const ComposedCausalLM& model, const SequencePass& pass);

  /// Fills the pass's recorder, report and continuation.
  /// @returns false if the job was stopped
  bool run();

 private:
  /// The heads of one layer, as they enter attention.
  struct Heads {
    at::Tensor query;  ///< [L, H, d] bf16
    at::Tensor key;    ///< [L, H_kv, d] bf16
    at::Tensor value;  ///< likewise
  };
  void allocate();
  void run_layer(int layer);
  enum class Rest { dropped, kept };
  /// @param exact  [L, D] f32 that takes the norm as well; may be undefined
  void norm(const at::Tensor& weight, Rest rest, const at::Tensor& exact);
  [[nodiscard]] at::Tensor normed() const { return normed_.select(1, 0); }
  void project(const DeviceLayer& weights);
  [[nodiscard]] at::Tensor cumulative_gates(int layer);
  [[nodiscard]] at::Tensor changed_gates(int layer);
  [[nodiscard]] Heads heads(int layer) const;
  void attend(int layer, const Heads& heads, const at::Tensor& cumulative);
  void record(int layer, const Heads& heads, const at::Tensor& cumulative);
  void continue_from(int layer, const Heads& heads, const at::Tensor& cumulative) const;
  void leave_attention(int layer);
  void feed_forward(const DeviceLayer& weights);
  void predict();
  void check(kernels::Status status, const char* step) const;

  const ComposedCausalLM& model_;
  const ModelConfig& config_;
  const SequencePass& pass_;
  Recorder& recorder_;
  std::int64_t length_;
  at::Device place_;
  kernels::cuda::Stream stream_;
  kernels::cuda::AttentionBlocks block_count_;
  LayerDownloads downloads_;  ///< after what it fills
  at::Tensor residual_;       ///< [L, D] f32
  at::Tensor normed_;         ///< [L, 2, D] bf16, and what rounding took from it; [L, 1, D] where no gate needs that
  at::Tensor projected_;      ///< [L, (H + 2 H_kv) d, and D of an output gate] bf16
  at::Tensor gates_;          ///< [L, ...] f32 logits of shifts and forget gate; undefined where there are none
  at::Tensor attended_;       ///< [L, H, d] bf16
  at::Tensor rotation_;       ///< [L, d/2, 2] f32; undefined without rotation
  at::Tensor blocks_;         ///< [layers, 2] int64: blocks of attention and those skipped
  at::Tensor labels_;         ///< [L] int32
};

}  // namespace foxscope
