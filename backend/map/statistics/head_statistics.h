#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "backend/map/map.h"
#include "backend/map/statistics/head_labels.h"
#include "backend/map/statistics/head_saliency.h"
#include "backend/map/statistics/row_sample.h"

namespace foxscope {

struct SampledRows;

/// Quartiles over positions: the order statistic at p (n - 1), linearly interpolated between its neighbours. A position
/// that an end of the text cuts off counts with the distance to that end, and in the share.
struct Quartiles {
  double lower = 0;
  double median = 0;
  double upper = 0;
  double cut_off_share = 0;
};

/// A position where a head forgets: f at the position, and what the position reads is TokenTable::input_id there.
struct ForgettingEvent {
  std::int64_t position = 0;
  double forget_gate = 0;
};

/// How a head's attention is spread over distances i - j, averaged over rows.
struct DistanceProfile {
  std::vector<double> mass;  ///< [L] mean attention mass at distance 0, 1, ...
  double d50 = 0;            ///< smallest distance with half of the mass on keys within it, tokens
  double d90 = 0;
};

/// Where a head's attention lies.
struct AttentionSpread {
  double entropy = 0;        ///< nats, mean over rows
  double mass_on_first = 0;  ///< on key 0, mean over rows
  double mass_on_self = 0;
  std::optional<double>
      mass_on_sink;  ///< on the head's sink, by which sums over keys fall short of 1; where it has one
  double mean_log_decay =
      0;  ///< sum over j of A_ij (c_i - c_j), mean over rows, nats: what the gate does where one looks
  DistanceProfile distance;
  DistanceProfile distance_without_first;  ///< key 0 left out, each row renormalised, row 0 left out
  std::int64_t rows_without_first = 0;     ///< of which that is the mean: those that have attention beside key 0
  /// The rows of these up to kLocalTokens and up to kLongTokens, all of whose keys but key 0 are nearer than that.
  std::int64_t rows_up_to_local = 0;
  std::int64_t rows_up_to_long = 0;
  double square_without_first = 0;  ///< sum over j > 0 of (A_ij / (1 - A_i0))^2, mean over the same rows
  /// Attention to the tokens that followed earlier occurrences of the token at position i: the sum of A_ij over 0 < j <
  /// i with x_(j-1) = x_i, mean over the positions that see any. NaN if none does.
  double on_repeats = 0;
  std::int64_t repeats = 0;  ///< how many do
};

/// Standard errors of a profile that was estimated from sampled rows.
struct ProfileErrors {
  double d50 = 0;
  double d90 = 0;
  std::vector<double> mass;    ///< [bins] of the mass in each bin of distance_bins
  std::vector<double> within;  ///< [bins] of the mass at distances below the end of each bin
};

/// Standard errors of a spread that was estimated from sampled rows (sampled_spread.h).
struct SpreadErrors {
  std::int64_t rows = 0;  ///< that were sampled
  double entropy = 0;
  double mass_on_first = 0;
  double mass_on_self = 0;
  std::optional<double> mass_on_sink;
  double mean_log_decay = 0;
  ProfileErrors distance;
  ProfileErrors distance_without_first;
  LabelScores label_scores = no_label_scores();
};

/// The statistics of one head that docs/maps.md defines. For a linear mixer f is its decay and attention |M_ij| / sum_j
/// |M_ij|. Levels of horizon and survival are 1/e, 1/2 and 0.01. The spread of attention is absent when q and k, or the
/// row normalisers, were not kept.
struct HeadStatistics : AttentionSpread {
  int layer = 0;
  int head = 0;
  // gate; for a head without a gate f = 1: decay time infinite
  double rate_decay_time = 0;    ///< T = -1 / mean(log f), tokens
  double mean_log_gate = 0;      ///< nats per token
  double gate_quantile[5] = {};  ///< of f: minimum, lower quartile, median, upper quartile, maximum
  Quartiles backward_horizon[3];
  Quartiles forward_survival[3];
  std::vector<ForgettingEvent> strongest_events;  ///< smallest f first
  /// Where each channel decays: mean log alpha of each, nats per token, by channel; otherwise empty. Then the gate is
  /// the geometric mean of the channels' decays.
  std::vector<double> channel_log_decay;
  bool has_attention = false;
  LabelScores label_scores = no_label_scores();  ///< head_labels.h
  std::optional<SpreadErrors> errors;            ///< nothing where all rows were measured
  std::optional<HeadSaliency> saliency;          ///< nothing where it was not kept
};

/// Levels of HeadStatistics::backward_horizon and forward_survival.
inline constexpr double kHorizonLevel[3] = {0.36787944117144233, 0.5, 0.01};

/// Mean log alpha of each channel of a head where each decays, nats per token, by channel; alpha_0 does not count.
/// @throws Error for decays that were not kept
std::vector<double> channel_log_decays(const HeadOf& head);
/// The spectrum of a head: T = -1 / mean(log alpha) of each of its channels, tokens, the shortest first. Empty where
/// channels do not decay each by itself.
std::vector<double> channel_decay_times(const HeadStatistics& statistics);

/// The parts that the statistics of all heads of a text share.
struct SharedRows {
  std::optional<RowSample> drawn;              ///< StatisticsOptions::rows; nothing: all rows are measured
  std::vector<std::int64_t> repeat_distances;  ///< of its tokens (sampled_spread.h)
};

struct StatisticsOptions {
  bool with_attention = true;
  int events = 8;  ///< of the gate and of saliency, at most
  /// Rows from which the spread of attention is estimated, the same ones in every head: an even number, at least 2. 0,
  /// and as many as the text has or more: all rows.
  std::int64_t rows = 0;
  std::uint64_t rows_seed = kRowsSeed;  ///< that they are drawn by
  /// Rows in place of drawn ones, for take_rows alone: nothing is estimated from them.
  std::optional<RowSample> these_rows = {};
  /// Gets the numbers of the sampled rows of each head, from several threads; null: nobody wants them.
  std::function<void(const HeadStatistics& head, const RowSample& sample, const SampledRows& rows)> take_rows = {};
  /// shared_rows of the text and these options, from whoever measures more than one layer; null: it is made anew.
  std::shared_ptr<const SharedRows> shared = {};
  bool with_gates = true;  ///< without, the caller sets means, quantiles, horizons and survivals of gates
};

/// @param rows    StatisticsOptions::rows
/// @param length  of the text
/// @throws UsageError for an odd number of rows, a negative one, and more than fit into kMostSampled entries
void check_rows(std::int64_t rows, std::int64_t length);
/// @throws as check_rows does
SharedRows shared_rows(const Trace& trace, const StatisticsOptions& options);
/// Entries of sampled rows of one head that are held at once, 1 GiB.
inline constexpr std::int64_t kMostSampled = std::int64_t{1} << 28;

/// Statistics of one head, without a matrix: gates by searches in c, attention by one streamed pass of tiles, which
/// leaves out tiles whose every entry is below 2^-40 of its row.
/// - backward horizon of position i at a level: how far back F(i, j) stays at the level or above, log F interpolated
///   linearly between tokens; cut off where F(i, 0) still is. Forward survival of j: how far ahead F(i, j) does.
/// - f_0 = exp(c_0) is in no F and does not count; of one token, which has no other, means and quantiles are NaN.
///   Without a gate f = 1: every horizon is cut off, and there are no events.
/// - without the first key: rows that have no other mass (row 0 among them) are left out of the mean; where there are
///   no rows at all (one token), d50 and d90 are NaN.
/// @returns nothing if the job was stopped
/// @throws UsageError for a head that does not exist and a number of rows that check_rows refuses, Error for gates that
/// were not kept, unless saliency was: then means
///         and quantiles are NaN
std::optional<HeadStatistics> head_statistics(const HeadOf& head, const StatisticsOptions& options, const Job& job);

/// The same of several heads of one layer, in their order: faster, since a GPU measures them at once.
std::optional<std::vector<HeadStatistics>> layer_statistics(const RunOnDevice& run, int layer,
                                                            std::span<const int> heads,
                                                            const StatisticsOptions& options, const Job& job);

}  // namespace foxscope
