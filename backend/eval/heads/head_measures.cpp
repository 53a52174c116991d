#include "backend/eval/heads/head_measures.h"

#include <algorithm>
#include <array>
#include <limits>
#include <memory>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include "backend/base/error.h"
#include "backend/base/index.h"
#include "backend/map/statistics/distance_summary.h"
#include "backend/map/statistics/gate_statistics.h"
#include "backend/map/team.h"

namespace foxscope {
namespace {

constexpr std::array kLevelNames = {"1_over_e", "half", "0.01"};
constexpr std::array kGateNames = {"gate_min", "gate_lower_quartile", "gate_median", "gate_upper_quartile", "gate_max"};
constexpr const char* kWithoutFirst = "_without_first";

// Names are put together once, not for each head: lists of numbers are made for each head of each window of a corpus.

/// Of the quartiles at each level.
std::vector<std::string> quartile_names(const std::string& of) {
  std::vector<std::string> names;
  for (const char* level : kLevelNames) {
    for (const char* number : {"_lower_quartile", "_median", "_upper_quartile", "_cut_off_share"}) {
      names.push_back(of + level + number);
    }
  }
  return names;
}

void add_quartiles(std::vector<HeadNumber>& numbers, const std::vector<std::string>& names,
                   std::span<const Quartiles> levels) {
  for (std::size_t level = 0; level < levels.size(); ++level) {
    const std::string* const name = &names[4 * level];
    numbers.push_back({name[0], "tokens", levels[level].lower});
    numbers.push_back({name[1], "tokens", levels[level].median});
    numbers.push_back({name[2], "tokens", levels[level].upper});
    numbers.push_back({name[3], "1", levels[level].cut_off_share});
  }
}

/// Of the numbers of a spread.
std::vector<std::string> spread_names(const std::string& suffix) {
  std::vector<std::string> names;
  for (const char* name : {"entropy", "mass_on_first", "mass_on_self", "d50", "d90"}) names.push_back(name + suffix);
  for (const char* name : {"d50", "d90"}) names.push_back(name + suffix + kWithoutFirst);
  return names;
}

void add_spread(std::vector<HeadNumber>& numbers, const std::vector<std::string>& names, const AttentionSpread& spread,
                const std::optional<SpreadErrors>& errors) {
  std::size_t next = 0;
  const auto add = [&](const char* unit, double value, double error) {
    numbers.push_back({names[next++], unit, value, errors ? std::optional(error) : std::nullopt});
  };
  const SpreadErrors of = errors.value_or(SpreadErrors());
  add("nats", spread.entropy, of.entropy);
  add("1", spread.mass_on_first, of.mass_on_first);
  add("1", spread.mass_on_self, of.mass_on_self);
  add("tokens", spread.distance.d50, of.distance.d50);
  add("tokens", spread.distance.d90, of.distance.d90);
  const DistanceProfile& others = spread.distance_without_first;
  add("tokens", others.d50, of.distance_without_first.d50);
  add("tokens", others.d90, of.distance_without_first.d90);
}

std::vector<std::string> label_names() {
  std::vector<std::string> names;
  for (int n = 0; n < kHeadLabels; ++n) {
    names.push_back(std::string("label_") + text_of(static_cast<HeadLabel>(n)).key);
  }
  return names;
}

std::vector<std::string> locality_names(const std::string& suffix) {
  std::vector<std::string> names;
  for (const char* name : {"locality_total", "locality_by_decay", "locality_by_content", "log_distance_uniform",
                           "log_distance_decay_only", "log_distance_content_only", "log_distance"}) {
    names.push_back(name + suffix);
  }
  return names;
}

void add_locality(std::vector<HeadNumber>& numbers, const std::vector<std::string>& names, const Locality& locality) {
  const double values[] = {locality.total(),    locality.by_decay(),   locality.by_content(), locality.uniform,
                           locality.decay_only, locality.content_only, locality.both};
  for (std::size_t n = 0; n < std::size(values); ++n) numbers.push_back({names[n], "octaves", values[n]});
}

/// Takes the masses by exact distance out of a spread, and makes profiles of them.
void move_profiles(const std::string& suffix, DistanceSummary summary, AttentionSpread& spread,
                   const std::optional<SpreadErrors>& errors, std::vector<HeadProfile>& profiles) {
  const auto errors_of = [&](ProfileErrors SpreadErrors::*of) {
    return errors ? ((*errors).*of).mass : std::vector<double>();
  };
  profiles.push_back({"mass" + suffix, "1", std::move(summary.bins), errors_of(&SpreadErrors::distance)});
  profiles.push_back({"mass" + suffix + kWithoutFirst, "1", std::move(summary.bins_without_first),
                      errors_of(&SpreadErrors::distance_without_first)});
  spread.distance.mass = {};
  spread.distance_without_first.mass = {};
}

/// Bins beyond a window of attention hold no pairs.
HeadProfile logits(const char* name, std::vector<double> values, std::size_t bins) {
  values.resize(bins, std::numeric_limits<double>::quiet_NaN());
  return {name, "nats", std::move(values)};
}

/// Heads whose profiles by distance are held at once.
constexpr int kHeadsAtOnce = 32;

std::optional<HeadMeasures> measures_of(const HeadOf& head, HeadStatistics statistics, const MeasureOptions& options,
                                        const Job& job) {
  HeadMeasures measures;
  measures.statistics = std::move(statistics);
  const TraceInfo& info = head.trace->info();
  if (!options.classes.empty()) {
    const bool gated = forgets(info, head.layer);
    const std::vector<double> open(gated ? 0 : static_cast<std::size_t>(info.length));
    measures.classes =
        tally_gates(gated ? head.trace->cumulative_log_gate(head.layer, head.head) : std::span<const double>(open),
                    options.classes, kTokenClasses);
  }
  if (!measures.statistics.has_attention) return measures;
  if (options.with_split && info.mixer(head.layer).has_softmax()) {
    measures.split = decay_split(head, measures.statistics, job);
    if (!measures.split) return std::nullopt;
  }
  DistanceSummary summary = distance_summary(head, measures.statistics, SpreadOf::attention, options.with_sketch);
  if (options.with_sketch) measures.sketch = summary.sketch;
  move_profiles("", std::move(summary), measures.statistics, measures.statistics.errors, measures.profiles);
  if (!measures.split) return measures;
  const auto move_split = [&](SpreadOf which, AttentionSpread& spread, const char* suffix) {
    move_profiles(suffix, distance_summary(head, spread, which, false), spread, {}, measures.profiles);
  };
  move_split(SpreadOf::without_gate, measures.split->without_gate, "_without_gate");
  move_split(SpreadOf::without_content, measures.split->without_content, "_without_content");
  std::vector<double> content, decay;
  for (const LogitMeans& means : measures.split->logits) {
    content.push_back(means.content);
    decay.push_back(means.decay);
  }
  const std::size_t bins = measures.profiles.front().bins.size();
  measures.profiles.push_back(logits("logit_content", std::move(content), bins));
  measures.profiles.push_back(logits("logit_decay", std::move(decay), bins));
  return measures;
}

}  // namespace

std::optional<HeadMeasures> measure_head(const HeadOf& head, const MeasureOptions& options, const Job& job) {
  auto statistics = head_statistics(head, options.statistics, job);
  if (!statistics) return std::nullopt;
  return measures_of(head, std::move(*statistics), options, job);
}

bool measure_heads(const RunOnDevice& run, const MeasureOptions& wanted, const Job& job,
                   const std::function<void(HeadMeasures)>& take) {
  MeasureOptions options = wanted;
  if (!options.statistics.shared) {
    options.statistics.shared = std::make_shared<const SharedRows>(shared_rows(*run, options.statistics));
  }
  const Job own{job.stop, {}, job.executor};
  Team team(own);
  const Job quiet{job.stop, {}, team.executor()};
  const int at_once = run.gpu ? kHeadsAtOnce : 1;
  for (int layer = 0; layer < run->info().layers; ++layer) {
    const int heads = run->info().mixer(layer).heads;
    for (int first = 0; first < heads; first += at_once) {
      std::vector<int> some(static_cast<std::size_t>(std::min(at_once, heads - first)));
      std::iota(some.begin(), some.end(), first);
      auto statistics = layer_statistics(run, layer, some, options.statistics, quiet);
      if (!statistics) return false;
      std::vector<std::optional<HeadMeasures>> measured(statistics->size());
      const auto measure = [&](std::size_t n, const Job& with) {
        HeadStatistics& head = (*statistics)[n];
        const HeadOf of{run, layer, head.head};
        measured[n] = measures_of(of, std::move(head), options, with);
        return measured[n].has_value();
      };
      // A split takes all threads for one head.
      if (options.with_split) {
        for (std::size_t n = 0; n < measured.size(); ++n) {
          if (!measure(n, quiet)) return false;
        }
      } else {
        const auto count = std::ssize(measured);
        const bool done = team.run({"measuring heads", "heads", count}, count, [&](std::int64_t n, int /*thread*/) {
          kernels::ThreadPool alone(1);
          measure(index_of(n), {job.stop, {}, &alone});
        });
        if (!done) return false;
      }
      for (std::optional<HeadMeasures>& head : measured) {
        if (!head) return false;
        take(std::move(*head));
      }
    }
  }
  return true;
}

std::vector<TokenClassSet> read_classes(std::span<const TokenClassSet> tokens) {
  std::vector<TokenClassSet> classes(tokens.size(), set_of(TokenClass::bos));
  for (std::size_t position = 1; position < tokens.size(); ++position) classes[position] = tokens[position - 1];
  return classes;
}

std::vector<TokenClassSet> read_classes(const Trace& trace) {
  if (!trace.text() || !trace.tokens() || trace.tokens()->byte_start.empty()) {
    throw Error(fmt::format("model '{}': the run read token ids, and classes of tokens need a text: run with --text",
                            trace.info().name));
  }
  WordCounts counts;
  counts.add(trace.text()->content);
  const TokenTable& tokens = *trace.tokens();
  return read_classes(token_classes(trace.text()->content, {tokens.byte_start, tokens.byte_end}, counts));
}

std::vector<HeadNumber> gate_numbers(const HeadStatistics& statistics) {
  std::vector<HeadNumber> numbers = {{"rate_decay_time", "tokens", statistics.rate_decay_time},
                                     {"mean_log_gate", "nats", statistics.mean_log_gate}};
  for (std::size_t n = 0; n < kGateNames.size(); ++n) {
    numbers.push_back({kGateNames[n], "1", statistics.gate_quantile[n]});
  }
  static const std::vector<std::string> horizons = quartile_names("horizon_");
  static const std::vector<std::string> survivals = quartile_names("survival_");
  add_quartiles(numbers, horizons, statistics.backward_horizon);
  add_quartiles(numbers, survivals, statistics.forward_survival);
  return numbers;
}

std::vector<HeadNumber> spectrum_numbers(const HeadStatistics& statistics) {
  constexpr std::array kNames = {"channel_decay_time_min", "channel_decay_time_lower_quartile",
                                 "channel_decay_time_median", "channel_decay_time_upper_quartile",
                                 "channel_decay_time_max"};
  std::vector<double> times = channel_decay_times(statistics);
  std::vector<HeadNumber> numbers;
  for (std::size_t n = 0; n < kNames.size() && !times.empty(); ++n) {
    numbers.push_back({kNames[n], "tokens", quantile(times, 0.25 * static_cast<double>(n))});
  }
  return numbers;
}

std::vector<HeadNumber> saliency_numbers(const HeadStatistics& statistics) {
  if (!statistics.saliency) return {};
  std::vector<HeadNumber> numbers;
  for (const SaliencyNumber number : kSaliencyNumbers) {
    numbers.push_back({to_string(number), unit_of(number), value_of(*statistics.saliency, number)});
  }
  return numbers;
}

std::vector<HeadNumber> sink_numbers(const HeadStatistics& statistics) {
  if (!statistics.mass_on_sink) return {};
  const auto error = statistics.errors ? statistics.errors->mass_on_sink : std::nullopt;
  return {{"mass_on_sink", "1", *statistics.mass_on_sink, error}};
}

std::vector<HeadNumber> attention_numbers(const HeadStatistics& statistics) {
  static const std::vector<std::string> names = spread_names("");
  static const std::vector<std::string> labels = label_names();
  std::vector<HeadNumber> numbers;
  add_spread(numbers, names, statistics, statistics.errors);
  for (int n = 0; n < kHeadLabels; ++n) {
    numbers.push_back({labels[index_of(n)], "1", statistics.label_scores[index_of(n)],
                       statistics.errors ? std::optional(statistics.errors->label_scores[index_of(n)]) : std::nullopt});
  }
  numbers.push_back({"repeats", "tokens", static_cast<double>(statistics.repeats)});
  if (statistics.has_attention) return numbers;
  for (HeadNumber& number : numbers) number.value = std::numeric_limits<double>::quiet_NaN();
  return numbers;
}

std::vector<HeadNumber> split_numbers(const DecaySplit& split) {
  static const std::vector<std::string> localities = locality_names("");
  static const std::vector<std::string> localities_without_first = locality_names(kWithoutFirst);
  static const std::vector<std::string> without_gate = spread_names("_without_gate");
  static const std::vector<std::string> without_content = spread_names("_without_content");
  std::vector<HeadNumber> numbers = {{"divergence", "nats", split.divergence}};
  add_locality(numbers, localities, split.locality);
  add_locality(numbers, localities_without_first, split.locality_without_first);
  add_spread(numbers, without_gate, split.without_gate, {});
  add_spread(numbers, without_content, split.without_content, {});
  return numbers;
}

}  // namespace foxscope
