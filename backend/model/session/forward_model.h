#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "backend/model/layer/forward.h"
#include "backend/model/session/causal_lm.h"
#include "backend/model/session/decode_state.h"

namespace foxscope {

/// Continuations that read their next token in one pass.
inline constexpr std::int64_t kMostTogether = 64;

/// A model whose weights are in memory: batches of whole texts, and prompts that go on, for every device. Subclasses
/// say whose steps a pass is made of.
class ForwardModel : public CausalLM {
 public:
  std::optional<ForwardReport> forward(const ForwardRequest& request, std::span<Recorder* const> recorders,
                                       const Job& job) final;
  std::optional<std::vector<TextScores>> score(const ScoreRequest& request, const Job& job) final;
  std::vector<std::unique_ptr<DecodeState>> prefill(std::span<const PromptRequest> prompts, const Job& job) final;
  void decode_step(std::span<DecodeState* const> decode_states, std::span<const std::int32_t> ids) final;

  [[nodiscard]] virtual std::unique_ptr<Forward> make_forward(std::int64_t batch, std::int64_t length) const = 0;
  /// Rows of a pass in which several continuations read their next token: so many, or more where digits would else
  /// depend on who is beside; 0: they read one after the other.
  [[nodiscard]] virtual std::int64_t decode_batch(std::int64_t decode_states) const = 0;
  /// Calls an action with a forward of one position of so many continuations, which no one else uses meanwhile.
  virtual void with_next_forward(std::int64_t batch, const std::function<void(Forward&)>& action) const;
  /// Before the first position.
  /// @param tolerance  share of a row's attention that may be left out: half of it by keys that are dropped
  [[nodiscard]] virtual std::unique_ptr<ForwardState> make_state(std::span<const Intervention> interventions,
                                                                 double tolerance) const = 0;
  /// A pass and the backward pass, to the gradient of the losses by each gate.
  /// @returns false if the job was stopped
  virtual bool run_with_saliency(const Forward::Input& input, const Range& target, std::span<const Probe> probes,
                                 const Job& job, ForwardReport& report) const = 0;
  /// Calls an action with the device current, and with its errors as errors of one line.
  /// @param length  tokens that it is about
  virtual void within_device(std::int64_t length, const std::function<void()>& action) const = 0;

 private:
  /// Reads prompts in one pass.
  /// @param group  which of them
  /// @param begun  for each of all prompts, set for those of the group
  /// @returns false if the job was stopped
  bool prefill_group(std::span<const PromptRequest> prompts, std::span<const std::size_t> group, const Job& job,
                     std::vector<std::unique_ptr<DecodeState>>& begun);
  /// Texts that go through together, into their places among the scores of all.
  bool score_batch(const ScoreRequest& request, std::span<const std::size_t> batch, std::vector<TextScores>& scores,
                   const Job& job) const;
};

}  // namespace foxscope
