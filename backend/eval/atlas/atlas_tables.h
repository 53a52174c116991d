#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "backend/eval/atlas/atlas_sums.h"
#include "backend/eval/heads/heads_evaluation.h"

namespace foxscope {

/// One model of an atlas. Everything else follows from its sums. N heads stand by layer, then head.
struct AtlasModel {
  TraceInfo info;  ///< length: of the longest window
  std::shared_ptr<const EvaluatedWindows> windows;
  std::int32_t bos_id = 0;
  AtlasSums sums;
  std::vector<std::string> token_strings;  ///< [T] of atlas_tokens; empty without a tokenizer

  /// Whether some gate of the layer was not 1.
  [[nodiscard]] bool forgets(std::size_t layer) const;
  [[nodiscard]] bool forgets() const;
  /// Whether the head of this place exists and its layer forgets: all numbers of other heads are NaN.
  [[nodiscard]] bool has_gate(std::size_t place) const;
  /// Positions p >= 1 of all windows.
  [[nodiscard]] std::int64_t positions() const;
};

/// Tokens that some position p >= 1 read, ascending, T of them.
std::vector<std::int32_t> atlas_tokens(const AtlasSums& sums);

/// A mean over fewer readings of a token says little.
inline constexpr std::int64_t kFewestReadings = 30;

/// Means by token of one head, over the positions p >= 1 that read it.
struct HeadTokens {
  std::vector<float> mean_log_gate;     ///< [T] nats
  std::vector<float> share_below_half;  ///< [T]
};
HeadTokens tokens_of_head(const AtlasModel& model, std::size_t place, const std::vector<std::int32_t>& tokens);

/// Documents that the errors of atlas_head_numbers are over.
ErrorGroups atlas_documents(const AtlasSums& sums);
/// The numbers of gate_numbers as means over windows, with the error over documents (loss_statistics.h), as
/// HeadsAccumulator has them.
std::vector<HeadArray> atlas_head_numbers(const AtlasModel& model);
/// mean_log_gate and share_below_half [N, C] by what a position reads, without errors.
std::vector<HeadArray> atlas_class_numbers(const AtlasModel& model);

/// Where the resets of heads fall, f < 1/2, against chance: the same gates, shifted along their window by kShifts
/// random numbers of positions.
struct AtlasResets {
  std::vector<std::int64_t> count;    ///< [N]
  std::vector<double> share;          ///< [N, C] of a head's resets that read a token of the class
  std::vector<double> chance;         ///< [N, C] mean of the shares with shifts
  std::vector<double> chance_spread;  ///< [N, C] their standard deviation
  /// [N, C] (1 + number of shifts with as many resets in the class, or more) / (1 + shifts): the probability of so many
  /// if resets and classes had nothing to do with each other
  std::vector<double> p_value;
  /// [N, C] 1: beyond chance at a false discovery rate of 5 % over all heads and classes of the model
  std::vector<std::int32_t> discovered;
};
AtlasResets atlas_resets(const AtlasModel& model);

/// K places of a head: of smallest log f, at most one a window, the smallest first.
std::vector<AtlasPlace> strongest_resets(const AtlasModel& model, std::size_t place);
/// K places of a head out of a random sample of windows, of each of which one position is drawn: as many of each decile
/// of their log f (of each K-th part, where K is below 10), the smallest first.
std::vector<AtlasPlace> decile_places(const AtlasModel& model, std::size_t place);

/// Pearson correlation of log f of all pairs of heads, over all positions p >= 1 of all windows, [N, N]; NaN of a head
/// without a gate, or whose gate never changes.
std::vector<float> atlas_similarity(const AtlasModel& model);
/// Order of heads in which alike heads stand together: leaves of the tree of average linkage over 1 - correlation
/// (R. R. Sokal, C. D. Michener, 1958), by the chain of nearest neighbours. Heads that are NaN come last.
/// @param similarity  [N, N]
std::vector<std::int64_t> similarity_order(const std::vector<float>& similarity);

}  // namespace foxscope
