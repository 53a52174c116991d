#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>

#include <ATen/core/Tensor.h>

#include "backend/base/index.h"
#include "backend/model/layer/forward_pass.h"
#include "backend/model/layer/torch/kept_results_torch.h"
#include "backend/model/layer/torch/layer_downloads_torch.h"
#include "backend/model/layer/torch/torch_state_torch.h"
#include "backend/model/weights/torch_weights_torch.h"
#include "kernels/cuda/attention/forgetting_attention.h"
#include "kernels/status.h"

namespace foxscope {

/// Copies a tensor to host memory, and waits for it.  @param into  from.nbytes() bytes
void copy_to_host(const at::Tensor& from, void* into);

/// The state that the steps of a pass over LibTorch's tensors share: which run it is, weights, the residual stream, and
/// the way to the host for what the probes keep.
class TorchPass : public ForwardPass {
 public:
  /// @param weights  on the current device; must outlive it
  TorchPass(const TorchWeights& weights, std::int64_t batch, std::int64_t length);
  TorchPass(const TorchPass&) = delete;
  TorchPass& operator=(const TorchPass&) = delete;

  /// Bytes that the steps take of a GPU's memory beside results of their operations.
  static PassBytes bytes(const ModelConfig& config, DType dtype, const KeepSet& keep);

  /// Takes over which run it is from here on.
  void begin_run(const ForwardPass& run) {
    ForwardPass::operator=(run);
    replaces_ = false;
  }
  /// Makes ready what whole texts leave for the host: copies beside the layers, and the count of attention's blocks.
  void begin_texts();
  void end_layer();
  /// Layers that are known to be done once `begun` have been begun.
  [[nodiscard]] int layers_done(int begun) const;
  /// Waits for the copies.
  /// @returns false if the job was stopped
  bool finish();

  [[nodiscard]] const TorchWeights& weights() const { return weights_; }
  [[nodiscard]] const TorchLayer& weights(int layer) const { return weights_.layers[index_of(layer)]; }
  [[nodiscard]] TorchState& torch_state(std::int64_t sequence = 0) const {
    return static_cast<TorchState&>(state(sequence));
  }
  /// The recorder of a sequence; null where its probe keeps nothing.
  [[nodiscard]] Recorder* recorder(std::int64_t sequence) const { return probes()[index_of(sequence)].recorder(); }
  /// Whether attention and the sums of gates are kernels/cuda's.
  [[nodiscard]] bool by_kernel() const { return by_kernel_; }

  /// Ids or labels on the device, [numbers] int32.
  [[nodiscard]] at::Tensor put(std::span<const std::int32_t> numbers) const;
  /// The family's norm of rows [..., D] float32; the rows where there is no weight.
  [[nodiscard]] at::Tensor norm(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) const;
  /// Whether that norm is a kernel's (fused_norm).
  [[nodiscard]] bool norms_by_kernel(const at::Tensor& x, const at::Tensor& weight) const;
  /// x += r times what a step made, [B n, D] float32, with r of residual_factor.
  void add(const at::Tensor& made);
  /// The same of in W^T + bias.
  void add_affine(const at::Tensor& in, const at::Tensor& weight, const at::Tensor& bias);
  /// From here on every step leaves its input x as it was, for a backward pass: sums go to new memory.
  void keep_sums_apart() { sums_apart_ = true; }
  /// Sets the output of cut heads to 0.  @param output  [B n, H d], or [B n, H d_v]
  void cut_heads(int layer, at::Tensor& output) const;
  /// Copies to the host: at once, or while later layers are computed where it comes from a GPU.
  /// @param into  gives memory of from.nbytes() bytes, when it is there
  void keep(const at::Tensor& from, std::function<void*()> into);
  /// @throws Error if a kernel was not launched
  void check(kernels::Status status, const char* step) const;

  /// The rows that the mixer of a layer reads.
  [[nodiscard]] at::Tensor mixer_input(int layer) const;
  /// From here on what is added to x takes its place, or no more so.
  void replace_residual(bool replaces) { replaces_ = replaces; }
  [[nodiscard]] bool replaces_residual() const { return replaces_; }

  at::Tensor residual;          ///< [B n, D] float32 x
  at::Tensor entered;           ///< [B n, D] what the mixer of a layer reads that reads with the one before it
  at::Tensor embedded;          ///< [B n, D] the embedding, where layers beside the stream read it
  at::Tensor blocks;            ///< [layers, 2] int64: blocks of attention and those skipped, of kernels on a GPU
  KeptResults* kept = nullptr;  ///< of the layer at hand; null: its results are not kept

 private:
  const TorchWeights& weights_;
  bool by_kernel_;
  bool sums_apart_ = false;
  bool replaces_ = false;
  kernels::cuda::AttentionBlocks block_count_;
  std::optional<LayerDownloads> downloads_;  ///< after what it fills; from a GPU
};

}  // namespace foxscope
