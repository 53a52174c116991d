#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include <ATen/core/Tensor.h>

#include "backend/model/layer/forward.h"
#include "backend/model/layer/torch/torch_pass_torch.h"

namespace foxscope {

/// The steps as LibTorch's operations, on any device: what runs where there are no kernels for a family or a dtype, and
/// the twin that tests hold the others against. Mixers, MLP, recording and prediction are attention_torch,
/// linear_torch, mlp_torch, recording_torch and prediction_torch.
class TorchForward : public Forward {
 public:
  /// @param weights  on the current device; must outlive it
  TorchForward(const TorchWeights& weights, std::int64_t batch, std::int64_t length);

  /// Bytes that a pass takes of a GPU's memory, in float32.
  static PassBytes bytes(const ModelConfig& config, const KeepSet& keep);

  NextTokens predict_next(std::int64_t count) override;
  bool score(std::span<const ScoredRow> scored, int top, const Job& job) override;

 protected:
  void begin() override;
  MixerSteps& mixer(int layer) final;
  bool feed_forward(int layer) override;
  void hold_input(int layer) override;
  void step_aside() override;
  bool step_back(int layer) override;
  bool norm_residual(int layer, bool mlp) override;
  bool scale_residual(double factor) override;
  bool predict() override;
  bool finish() override;
  void keep_hidden(int layer) override;
  void end_layer(int layer) override;
  [[nodiscard]] int layers_done(int begun) const override;

  /// The steps of layers that attend. Each kind is made when the first of its layers is met.
  virtual std::unique_ptr<MixerSteps> make_attention();
  /// The steps of layers with a linear mixer.
  virtual std::unique_ptr<MixerSteps> make_linear();
  /// The final norm of the last positions, [rows, D] in the run's dtype.
  virtual at::Tensor final_norm(std::int64_t first_row);
  /// [rows, V] float32.
  /// @param normed  [rows, D] of final_norm
  virtual at::Tensor logits(const at::Tensor& normed);

  TorchPass pass_;

 private:
  [[nodiscard]] at::Tensor embedding() const;

  std::unique_ptr<MixerSteps> attention_;
  std::unique_ptr<MixerSteps> linear_;
};

}  // namespace foxscope
