#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "backend/model/layer/cpu/cpu_pass.h"
#include "backend/model/layer/forward.h"

namespace foxscope {

/// The prediction of a model on the CPU behind its final norm: logits and losses of all rows, scores of some, and
/// probabilities of the next token.
class PredictionCpu {
 public:
  explicit PredictionCpu(CpuPass& pass);

  /// Logits and losses of all rows, as far as the probes keep them. The norm goes where the mixer's output was.
  /// @returns false if the job was stopped
  bool predict();
  /// Gives the losses to the probes that keep them.
  void take_losses() const;
  /// See Forward::score.
  bool score(std::span<const Forward::ScoredRow> scored, int top, const Job& job);
  /// See Forward::predict_next.
  NextTokens predict_next(std::int64_t count);

 private:
  void predict_rows(const CpuPass::Rows& rows);
  void score_rows(std::span<const Forward::ScoredRow> scored, int top, CpuPass::Scratch& scratch);
  void norm(std::int64_t begin, std::int64_t end, float* out) const;
  void finish_logits(std::int64_t count, float* logits) const;
  /// Logits of rows behind the final norm, a block of the vocabulary at a time, and with each the log of the sum of the
  /// exponentials of all of them.
  /// @param normed  [count, D]
  /// @param block   memory of [count, kVocabularyBlock]
  /// @param take    of a row, called with logits [first, first + size)
  /// @returns [count] nats
  [[nodiscard]] std::vector<double> for_logits(
      const float* normed, std::int64_t count, float* block,
      const std::function<void(std::int64_t row, std::int64_t first, std::span<const float> logits)>& take);

  CpuPass& pass_;
  std::vector<float> loss_;     ///< [B, n]
  std::vector<float*> logits_;  ///< [B] where the probes lend memory, else null
};

}  // namespace foxscope
