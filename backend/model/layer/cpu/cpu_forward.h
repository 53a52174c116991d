#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "backend/model/layer/cpu/attention_cpu.h"
#include "backend/model/layer/cpu/cpu_pass.h"
#include "backend/model/layer/cpu/mlp_cpu.h"
#include "backend/model/layer/cpu/prediction_cpu.h"
#include "backend/model/layer/forward.h"
#include "backend/model/layer/mixer_steps.h"

namespace foxscope {

/// The forward pass on the CPU in float32: an object for each kind of step, over what they share (CpuPass).
class CpuForward final : public Forward {
 public:
  /// See CpuPass.
  CpuForward(const ModelConfig& config, const ModelWeights& weights, std::int64_t batch, std::int64_t length,
             WorkspaceCache& kept);

  /// Bytes that a pass takes.
  /// @param keep  recorders lend the memory of what they keep
  static PassBytes bytes(const ModelConfig& config, const KeepSet& keep);

  /// Lays the weights of a layer out as the steps read them.
  static void lay_out(const ModelConfig& config, int layer, LayerWeights& weights);

  NextTokens predict_next(std::int64_t count) override { return prediction_.predict_next(count); }
  bool score(std::span<const ScoredRow> scored, int top, const Job& job) override {
    return prediction_.score(scored, top, job);
  }

 protected:
  void begin() override;
  MixerSteps& mixer(int layer) override;
  bool feed_forward(int layer) override { return mlp_.feed_forward(layer); }
  void hold_input(int layer) override;
  void step_aside() override;
  bool step_back(int layer) override;
  bool norm_residual(int layer, bool mlp) override;
  bool scale_residual(double factor) override;
  bool predict() override;
  void keep_hidden(int layer) override;

 private:
  void embed(FloatArray& into) const;

  CpuPass pass_;
  std::optional<AttentionCpu> attention_;  ///< none: no layer is attention
  std::unique_ptr<MixerSteps> linear_;     ///< of the other layers; null: there are none
  MlpCpu mlp_;
  PredictionCpu prediction_;
};

}  // namespace foxscope
