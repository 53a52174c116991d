#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "backend/model/layer/cpu/cpu_pass.h"
#include "backend/model/layer/cpu/cpu_rows.h"
#include "backend/model/layer/cpu/path_cpu.h"
#include "backend/model/layer/mixer_steps.h"
#include "backend/model/spec/parameters.h"
#include "kernels/cpu/forgetting_attention.h"

namespace foxscope {

/// Softmax attention on the CPU, with a forget gate or without: the paper's layer (Lin et al. 2025, figure 2), and what
/// other families have in its place.
class AttentionCpu final : public MixerSteps {
 public:
  explicit AttentionCpu(CpuPass& pass);
  /// Begins a run, before its first layer.
  void begin();

  bool project(int layer) override;
  void sum_gates(int layer) override;
  bool attend(int layer) override;
  bool project_output(int layer) override;

 private:
  void make_rotary_tables();
  void project_rows(int layer, const CpuPass::Rows& rows);
  [[nodiscard]] cpu_rows::HeadRows heads_of(int layer, std::int64_t row);
  void raise_latent(int layer, std::int64_t count, float* projected);
  /// @param count  sequences from the first on: one, or several that nothing is recorded of
  bool attend_whole(int layer, std::int64_t first, std::int64_t count);
  /// The kernel's arguments for the sequences of attend_whole, with their normalisers.
  [[nodiscard]] kernels::cpu::ForgettingAttention arguments_of(int layer, std::int64_t first, std::int64_t count);
  /// @returns false if the job was stopped
  bool start_cache(int layer, std::int64_t sequence);
  void attend_next(int layer);
  void project_output_rows(int layer, const CpuPass::Rows& rows);

  CpuPass& pass_;
  const ModelConfig& config_;
  std::int64_t length_;  ///< n
  std::int64_t head_dim_;
  ProjectionColumns columns_;
  std::int64_t projected_;  ///< columns of the projection: of LatentKeys not yet queries, keys and values
  /// Each of the config's rotaries has a table: [n] for all texts, where it does not depend on their length, else
  /// [B, n]; [B] where each text has one position.
  std::vector<RotaryTable> rotary_;
  std::vector<float*> queries_, keys_, values_;  ///< [B] of the layer at hand
  std::vector<double> log_gate_;                 ///< [B, H, n] nats; empty where every f is 1
  std::vector<double> cumulative_;               ///< [B, H, n] c; likewise
  FloatArray log_normalizer_;                    ///< [H, n] of a whole text
  FloatArray without_gate_;                      ///< likewise, where the probe keeps it
  FloatArray zeros_;                             ///< the projection before the first position
  std::optional<PathCpu> path_;                  ///< where keys are passed on
};

}  // namespace foxscope
