#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include <ATen/core/Tensor.h>

#include "backend/model/layer/forward.h"
#include "backend/model/layer/torch/layer_downloads_torch.h"
#include "backend/model/layer/torch/linear_steps_torch.h"
#include "backend/model/layer/torch/torch_state_torch.h"
#include "backend/model/weights/torch_weights_torch.h"
#include "kernels/cuda/attention/forgetting_attention.h"
#include "kernels/status.h"

namespace foxscope {

/// The steps as LibTorch's operations, on any device: what runs where there are no kernels for a family or a dtype, and
/// the twin that tests hold the others against. On a GPU attention and the sums of gates are kernels/cuda's where they
/// take the head dimension.
class TorchForward : public Forward, protected MixerSteps {
 public:
  /// @param weights  on the current device; must outlive it
  TorchForward(const TorchWeights& weights, std::int64_t batch, std::int64_t length);

  void predict_next(std::span<const std::span<float>> log_probabilities) override;
  bool score(std::span<const ScoredRow> scored, int top, const Job& job) override;

 protected:
  void begin() override;
  MixerSteps& mixer(int /*layer*/) override { return *this; }
  bool project(int layer) override;
  void sum_gates(int layer) override;
  bool attend(int layer) override;
  bool project_output(int layer) override;
  bool feed_forward(int layer) override;
  bool predict() override;
  bool finish() override;
  void keep_hidden(int layer) override;
  void end_layer(int layer) override;
  [[nodiscard]] int layers_done(int begun) const override;

  [[nodiscard]] const TorchWeights& weights() const { return weights_; }
  [[nodiscard]] const TorchLayer& weights_of(int layer) const {
    return weights_.layers[static_cast<std::size_t>(layer)];
  }
  [[nodiscard]] TorchState& torch_state(std::int64_t sequence = 0) const {
    return static_cast<TorchState&>(state(sequence));
  }
  /// What the probe of a sequence records to; null where it keeps nothing.
  [[nodiscard]] Recorder* recorder(std::int64_t sequence) const {
    return probes()[static_cast<std::size_t>(sequence)].recorder();
  }
  /// Copies to the host: at once, or while later layers are computed where it comes from a GPU.
  /// @param into  gives memory of from.nbytes() bytes, when it is there
  void keep(const at::Tensor& from, std::function<void*()> into);
  /// Sets the output of cut heads to 0.  @param output  [B n, H d], or [B n, H d_v]
  void cut_heads(int layer, at::Tensor& output) const;
  void keep_logits(std::int64_t first, const at::Tensor& logits);
  void keep_losses(const at::Tensor& loss);
  /// @throws Error if a kernel was not launched
  void check(kernels::Status status, const char* step) const;
  [[nodiscard]] at::Tensor labels() const;  ///< [B n] int32 on the device
  /// Of the last positions, [rows, D] in the run's dtype.
  virtual at::Tensor final_norm(std::int64_t first_row);
  /// [rows, V] float32.
  /// @param normed  [rows, D] of final_norm
  virtual at::Tensor logits(const at::Tensor& normed);
  /// log f [B, H, n] float64 on the device, before interventions; zeros where every f is 1.
  [[nodiscard]] at::Tensor log_gates(int layer) const;
  /// What the mixer adds to x, [B n, D] float32.
  [[nodiscard]] at::Tensor mixer_output(int layer) const;
  /// Lets go of what the mixer made, so that the next layer's is made without it beside.
  void drop_mixed();
  /// What the MLP adds to some rows of x.
  [[nodiscard]] at::Tensor mlp_output(int layer, const at::Tensor& rows) const;
  /// What the recorders keep of gates, queries, keys and values.
  void keep_heads(int layer);
  /// What a linear mixer's operator takes, into linear_.
  /// @param normed, gates  as of linear_steps::project
  void project_linear(int layer, const at::Tensor& normed, const at::Tensor& gates);
  /// y [B, H, n, d_v] of a linear mixer; nothing if it was stopped.
  /// @param state  [B, H, d, d_v] before the first position, undefined: 0; left as it is behind the last, where states
  ///               are kept
  virtual std::optional<at::Tensor> mix(at::Tensor& state);

  at::Tensor residual_;    ///< [B n, D] float32
  at::Tensor query_;       ///< [B, H, n, d] in the run's dtype, of any strides but the last
  at::Tensor key_;         ///< [B, H_kv, n, d] likewise
  at::Tensor value_;       ///< likewise
  at::Tensor gates_;       ///< [B n, ...] float32 logits of shifts and forget gate; undefined where there are none
  at::Tensor cumulative_;  ///< [B, H, n] float64 c; undefined where every f is 1
  at::Tensor attended_;    ///< [B n, H, d] in the run's dtype, or float32
  linear_steps::Projection linear_;  ///< of a linear mixer; its y is `attended_` [B, H, n, d_v]
  at::Tensor blocks_;                ///< [layers, 2] int64: blocks of attention and those skipped, of kernels on a GPU

 private:
  [[nodiscard]] at::Tensor norm(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) const;
  void change_decays(int layer);
  void check_decays(int layer) const;
  void keep_linear(int layer);
  bool mix_linear(int layer);
  [[nodiscard]] at::Tensor attention_output(int layer) const;
  /// @param logits  [rows, V] float32; those of the likeliest tokens are changed
  static void score_rows(std::span<const ScoredRow> scored, int top, const at::Tensor& logits);
  bool attend_whole(int layer);
  bool attend_in_tiles(int layer);
  void attend_by_kernel(int layer);
  void attend_next(int layer);

  const TorchWeights& weights_;
  bool by_kernel_;     ///< attention and gates, by kernels/cuda
  at::Tensor normed_;  ///< [B n, D] float32 of the layer at hand
  kernels::cuda::AttentionBlocks block_count_;
  std::optional<LayerDownloads> downloads_;  ///< after what it fills; from a GPU
};

}  // namespace foxscope
