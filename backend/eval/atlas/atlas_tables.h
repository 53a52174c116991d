#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "backend/eval/atlas/atlas_numbers.h"
#include "backend/eval/atlas/atlas_sums.h"
#include "backend/eval/heads/heads_evaluation.h"

namespace foxscope {

/// One model of an atlas. Everything else follows from its sums. N heads stand by layer, then head.
struct AtlasModel {
  TraceInfo info;  ///< length: of the longest window
  std::shared_ptr<const EvaluatedWindows> windows;
  std::int32_t bos_id = 0;
  AtlasNumbers numbers;
  AtlasSums sums;
  std::vector<std::string> token_strings;  ///< [T] of atlas_tokens; empty without a tokenizer
  std::string tokenizer_sha256 = {};       ///< of its files of vocabulary and merges; empty without, and where unknown

  /// Whether some gate of the layer was not 1.
  [[nodiscard]] bool forgets(std::size_t layer) const;
  [[nodiscard]] bool forgets() const;
  /// Whether the head of this place exists and its layer forgets: all numbers of other heads are NaN.
  [[nodiscard]] bool has_gate(std::size_t place) const;
  /// Whether rows of attention of the head of this place were measured.
  [[nodiscard]] bool has_attention(std::size_t place) const;
  [[nodiscard]] bool has_attention() const;
  /// Positions p >= 1 of all windows.
  [[nodiscard]] std::int64_t positions() const;
};

/// Tokens that some position p >= 1 read, ascending, T of them.
std::vector<std::int32_t> atlas_tokens(const AtlasSums& sums);

/// A mean over fewer readings of a token says little.
inline constexpr std::int64_t kFewestReadings = 30;

/// Significant bits of means by token, and bits below the point of shares: files of millions of them are smaller.
inline constexpr int kTokenMeanBits = 20;
inline constexpr int kTokenShareBits = 16;
inline constexpr int kTokenErrorBits = 17;

/// Means by token of one head, over the positions p >= 1 that read it.
struct HeadTokens {
  std::vector<float> mean_log_gate;     ///< [T] nats, kTokenMeanBits
  std::vector<float> share_below_half;  ///< [T] kTokenShareBits
  /// [T] attention that a reading gets from all rows, kTokenMeanBits; empty without rows
  std::vector<float> received;
  /// [T] error of mean_log_gate over documents, that of a ratio by linearisation (Cochran, Sampling Techniques, eq.
  /// 2.46),
  ///   se^2 = G / (G - 1) sum_g (s_g - mean n_g)^2 / n^2,
  /// where the g-th of G documents read the token n_g times; NaN of ids from kErrorTokens on, and where the documents
  /// do not suffice. kTokenErrorBits
  std::vector<float> error;
  /// [T] of Student's t with the effective documents less one as degrees of freedom: the mean is that of all readings
  /// of the head. Its error is taken as no less than sd / sqrt(n), sd of log f over all readings: a token that no rare
  /// reset met has a small error of its own by luck; and as no less than kTokenLogGateUnit. NaN without an error, and
  /// of fewer than kFewestReadings
  std::vector<double> p_value;
};
HeadTokens tokens_of_head(const AtlasModel& model, std::size_t place, const std::vector<std::int32_t>& tokens);
/// The same of all heads, [N, T].
HeadTokens tokens_of_heads(const AtlasModel& model, const std::vector<std::int32_t>& tokens);

/// [N, T] 1: the token's mean log f is not the head's, at a false discovery rate of 5 % over all tokens and heads.
/// @param p_values  [N, T] HeadTokens::p_value
std::vector<std::int32_t> atlas_token_discoveries(const std::vector<double>& p_values);

/// Documents that the errors of atlas_head_numbers are over.
ErrorGroups atlas_documents(const AtlasSums& sums);
/// The decay time and AtlasNumbers::numbers as means over windows, with the error over documents (loss_statistics.h),
/// as HeadsAccumulator has them. Those that no head has are left out.
std::vector<HeadArray> atlas_head_numbers(const AtlasModel& model);
/// AtlasNumbers::profiles [N, bins], likewise.
std::vector<HeadArray> atlas_profiles(const AtlasModel& model);
/// The part that the draw of rows has in the error of a number or profile whose rows were sampled, by its place in
/// AtlasNumbers: sqrt(sum of squared errors of the windows) / windows. [N], or [N, bins] of a profile; empty without
/// it. NaN of masses below kLeastSampledMass: few rows hold them, and where none of these was drawn the error is too
/// small.
inline constexpr double kLeastSampledMass = 1e-4;
std::vector<double> row_errors(const AtlasModel& model, const std::string& name);
/// mean_log_gate, gate_lower_quartile, gate_median, gate_upper_quartile and share_below_half [N, C] by what a position
/// reads. Mean and share have the error of HeadTokens::error, quartiles (GateTally) have none.
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
/// K places of a head: of most attention half a window back or farther, and of most gain, the largest first.
std::vector<AtlasPlace> farthest_places(const AtlasModel& model, std::size_t place);
std::vector<AtlasPlace> gaining_places(const AtlasModel& model, std::size_t place);
/// K places of a head out of a random sample of windows, of each of which one position is drawn: as many of each decile
/// of their log f (of each K-th part, where K is below 10), the smallest first.
std::vector<AtlasPlace> decile_places(const AtlasModel& model, std::size_t place);

/// A list of places of a head.
struct AtlasPassages {
  const char* kind;      ///< as files name it
  const char* quantity;  ///< what the places are chosen by, with its unit
  std::vector<AtlasPlace> places;
};
/// All of them; lists without places are left out.
std::vector<AtlasPassages> atlas_passages(const AtlasModel& model, std::size_t place);

/// Pearson correlation of log f of all pairs of heads, over all positions p >= 1 of all windows, [N, N]; NaN of a head
/// without a gate, or whose gate never changes.
std::vector<float> atlas_similarity(const AtlasModel& model);
/// The same of the mass of sampled rows in bins of distance; empty without rows.
std::vector<float> attention_similarity(const AtlasModel& model);
/// The same between a model's heads and those of the first, [N, N of the first]; empty of the first model, and of one
/// that read other windows.
std::vector<float> similarity_with_first(const AtlasModel& model, const AtlasModel& first);
std::vector<float> attention_similarity_with_first(const AtlasModel& model, const AtlasModel& first);
/// Order of heads in which alike heads stand together: leaves of the tree of average linkage over 1 - correlation
/// (R. R. Sokal, C. D. Michener, 1958), by the chain of nearest neighbours. Heads that are NaN come last.
/// @param similarity  [N, N]
std::vector<std::int64_t> similarity_order(const std::vector<float>& similarity);

}  // namespace foxscope
