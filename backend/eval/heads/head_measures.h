#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backend/map/statistics/decay_split.h"
#include "backend/map/statistics/gate_groups.h"
#include "backend/map/statistics/head_match.h"
#include "backend/map/statistics/head_statistics.h"
#include "backend/text/token_class.h"

namespace foxscope {

/// Something that is known of a head at every bin of distances (distance_bins of the run's length).
struct HeadProfile {
  std::string name;
  const char* unit = "";
  std::vector<double> bins;
  std::vector<double> errors = {};  ///< standard errors of the bins, where rows were sampled
};

/// All statistics of one head. Profiles by exact distance are dropped, so that many heads of a long text fit into
/// memory: `profiles` has them by bins, `sketch` has a summary.
struct HeadMeasures {
  HeadStatistics statistics;
  std::optional<DecaySplit> split;    ///< nothing where it was not asked for, or there is no softmax attention
  std::vector<GateTally> classes;     ///< [kTokenClasses] gates of the positions that read each; empty without classes
  std::vector<HeadProfile> profiles;  ///< mass..., and with the split logit_content and logit_decay
  std::optional<ProfileSketch> sketch;  ///< of attention with key 0; nothing where nobody wants it
};

struct MeasureOptions {
  StatisticsOptions statistics;
  bool with_split = false;
  bool with_sketch = true;
  std::span<const TokenClassSet> classes;  ///< [L] of what each position reads; empty: none
};

/// @returns nothing if the job was stopped
/// @throws as head_statistics and decay_split do
std::optional<HeadMeasures> measure_head(const HeadOf& head, const MeasureOptions& options, const Job& job);

/// Measures every head of a run, a layer's heads at once on a GPU. Without progress reports of its own.
/// @param take  called with each head's measures, by layer, then head
/// @returns false if the job was stopped
/// @throws as measure_head, and what `take` throws
bool measure_heads(const RunOnDevice& run, const MeasureOptions& options, const Job& job,
                   const std::function<void(HeadMeasures)>& take);

/// Classes of what the positions of a sequence read: bos at 0, then token p - 1.
/// @param tokens  [L] classes of the sequence's tokens
std::vector<TokenClassSet> read_classes(std::span<const TokenClassSet> tokens);

/// Classes of what the positions of a run read; rare words are those of its text.
/// @throws Error for a run without a text
std::vector<TokenClassSet> read_classes(const Trace& trace);

/// A number of a head under the name that tables and files give it.
struct HeadNumber {
  std::string_view name;             ///< of those of this header, which stay
  const char* unit = "";             ///< "tokens", "nats", "octaves", "nats per nat"; "1" for shares and gates
  double value = 0;                  ///< NaN where it does not exist
  std::optional<double> error = {};  ///< standard error, where rows were sampled
};

/// Decay time, quantiles of gates, horizons and survivals.
std::vector<HeadNumber> gate_numbers(const HeadStatistics& statistics);
/// Quartiles of the decay times of a head's channels, channel_decay_time_min to channel_decay_time_max; none where
/// channels do not decay each by itself.
std::vector<HeadNumber> spectrum_numbers(const HeadStatistics& statistics);
/// The three numbers of HeadSaliency; none where it was not kept.
std::vector<HeadNumber> saliency_numbers(const HeadStatistics& statistics);
/// mass_on_sink; none where the head has no sink.
std::vector<HeadNumber> sink_numbers(const HeadStatistics& statistics);
/// Entropy, masses, d50 and d90, scores of labels ("label_sink") and how many tokens come again; NaN without attention.
std::vector<HeadNumber> attention_numbers(const HeadStatistics& statistics);
/// Divergence, localities, and the spread of attention without the gate and without content.
std::vector<HeadNumber> split_numbers(const DecaySplit& split);

}  // namespace foxscope
