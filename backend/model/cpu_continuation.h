#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "backend/model/continuation.h"
#include "backend/model/cpu_forward.h"
#include "backend/model/cpu_state.h"

namespace foxscope {

/// A continuation in float32 on the CPU.
class CpuContinuation final : public Continuation {
 public:
  /// Reads the prompt.
  /// @returns nothing if the job was stopped
  static std::unique_ptr<CpuContinuation> begin(const ModelConfig& config, const ModelWeights& weights,
                                                const PromptRequest& request, const Job& job);

  [[nodiscard]] std::unique_ptr<Continuation> copy() const override { return std::make_unique<CpuContinuation>(*this); }
  [[nodiscard]] std::int64_t length() const override { return state_.length(); }
  [[nodiscard]] std::span<const float> log_probabilities() const override { return log_probabilities_; }
  void read(std::int32_t id) override;
  [[nodiscard]] std::vector<std::int64_t> held_keys() const override { return state_.held_keys(); }

 private:
  CpuContinuation(const ModelConfig& config, const ModelWeights& weights, const PromptRequest& request);

  const ModelConfig* config_;
  std::vector<Intervention> interventions_;
  CpuState state_;
  CpuForward next_;  ///< of one position
  std::vector<float> log_probabilities_;
};

}  // namespace foxscope
