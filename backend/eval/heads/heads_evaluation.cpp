#include "backend/eval/heads/heads_evaluation.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "backend/base/error.h"
#include "backend/eval/heads/decay_times.h"
#include "backend/map/team.h"

namespace foxscope {
namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
/// The decay time has no mean of its own: the mean decay time follows from the mean log gate.
constexpr std::string_view kDecayTime = "rate_decay_time";

/// A histogram of few gates is nearly empty: bin, count, bin, count, ...
nlohmann::json packed_tally(const GateTally::State& tally) {
  auto filled = nlohmann::json::array();
  for (std::size_t bin = 0; bin < tally.histogram.size(); ++bin) {
    if (tally.histogram[bin] == 0) continue;
    filled.push_back(bin);
    filled.push_back(tally.histogram[bin]);
  }
  return {tally.count, tally.below_half, tally.sum, tally.histogram.size(), std::move(filled)};
}

GateTally unpacked_tally(const nlohmann::json& packed) {
  GateTally::State tally{packed[0], packed[1], packed[2], {}};
  tally.histogram.resize(packed[3].get<std::size_t>());
  for (std::size_t n = 0; n < packed[4].size(); n += 2) {
    tally.histogram.at(packed[4][n].get<std::size_t>()) = packed[4][n + 1];
  }
  return GateTally(std::move(tally));
}

template <typename Value>
void move_to_end(std::vector<Value>& list, std::vector<Value>& more) {
  list.insert(list.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
}

/// Most channels of a head that decays by channel; 0: no layer does.
int most_channels(const TraceInfo& info) {
  int most = 0;
  for (const LayerMixer& mixer : info.mixers) {
    if (mixer.decays_by_channel()) most = std::max(most, mixer.head_dim);
  }
  return most;
}

}  // namespace

ErrorGroups EvaluatedHeads::documents() const { return windows ? document_groups(windows->document) : ErrorGroups{}; }

const HeadArray* find_array(const std::vector<HeadArray>& arrays, std::string_view name) {
  const auto found =
      std::find_if(arrays.begin(), arrays.end(), [&](const HeadArray& array) { return array.name == name; });
  return found == arrays.end() ? nullptr : &*found;
}

void set_forgetting(EvaluatedHeads& heads) {
  const HeadArray* const means = find_array(heads.numbers, "mean_log_gate");
  if (means == nullptr) return;
  const auto row = static_cast<std::size_t>(heads.info.heads);
  heads.info.forgetting.assign(static_cast<std::size_t>(heads.info.layers), false);
  for (std::size_t place = 0; place < means->value.size(); ++place) {
    const double mean = means->value[place];
    if (!std::isnan(mean) && mean != 0) heads.info.forgetting[place / row] = true;
  }
}

void HeadsAccumulator::put(std::vector<Series>& list, std::size_t head, std::string_view name, const char* unit,
                           const std::vector<double>& values) {
  auto series = std::ranges::find(list, name, &Series::name);
  if (series == list.end()) series = list.insert(list.end(), {std::string(name), unit, values.size(), {}});
  series->windows.resize(documents_.size() + 1, std::vector<double>(head_count() * series->entries, kNone));
  std::ranges::copy(values, series->windows.back().begin() + static_cast<std::ptrdiff_t>(head * series->entries));
}

void HeadsAccumulator::add(const HeadMeasures& measures) {
  const HeadStatistics& of = measures.statistics;
  if (of.layer < 0 || of.layer >= info_.layers || of.head < 0 || of.head >= info_.heads) {
    throw ShapeError(fmt::format("[HeadsAccumulator] head: expected one of {} layers of {} heads, got {}:{}",
                                 info_.layers, info_.heads, of.layer, of.head));
  }
  const std::size_t head =
      static_cast<std::size_t>(of.layer) * static_cast<std::size_t>(info_.heads) + static_cast<std::size_t>(of.head);
  std::vector<HeadNumber> numbers = gate_numbers(measures.statistics);
  const auto take = [&](std::vector<HeadNumber> more) { numbers.insert(numbers.end(), more.begin(), more.end()); };
  take(spectrum_numbers(measures.statistics));
  take(saliency_numbers(measures.statistics));
  if (measures.statistics.has_attention) take(attention_numbers(measures.statistics));
  take(sink_numbers(measures.statistics));
  if (measures.split) take(split_numbers(*measures.split));
  std::erase_if(numbers, [](const HeadNumber& number) { return number.name == kDecayTime; });
  for (const HeadNumber& number : numbers) put(numbers_, head, std::string(number.name), number.unit, {number.value});
  const std::size_t bins = distance_bins(info_.length).size();
  for (const HeadProfile& profile : measures.profiles) {
    std::vector<double> values = profile.bins;
    // A window that is shorter has no mass beyond its length, and no logits.
    values.resize(bins, profile.name.starts_with("mass") ? 0.0 : kNone);
    put(profiles_, head, profile.name, profile.unit, values);
  }
  if (!of.channel_log_decay.empty()) {
    // In layers with fewer channels the last ones are NaN.
    std::vector<double> decays = of.channel_log_decay;
    decays.resize(static_cast<std::size_t>(most_channels(info_)), kNone);
    put(channels_, head, "mean_log_decay", "nats", decays);
  }
  add_classes(measures.classes, head);
  any_ = true;
}

void HeadsAccumulator::add_classes(const std::vector<GateTally>& classes, std::size_t head) {
  if (any_ && classes.empty() != classes_.empty()) {
    throw ShapeError(fmt::format("[HeadsAccumulator] classes: window {} has {}, the windows before it have {}",
                                 documents_.size(), classes.empty() ? "none" : "some",
                                 classes_.empty() ? "none" : "some"));
  }
  if (classes.empty()) return;
  classes_.resize(head_count() * kTokenClasses);
  for (std::size_t n = 0; n < kTokenClasses; ++n) {
    ClassSeries& series = classes_[head * kTokenClasses + n];
    const GateTally& tally = classes[n];
    series.sum.push_back(tally.sum_log_gate());
    series.count.push_back(static_cast<double>(tally.count()));
    series.below_half.push_back(tally.below_half());
    series.all.add(tally);
  }
}

void HeadsAccumulator::end_window(std::int32_t document) { documents_.push_back(document); }

void HeadsAccumulator::take(HeadsAccumulator&& windows) {
  if (documents_.empty()) {
    *this = std::move(windows);
    return;
  }
  const auto same = [](const std::vector<Series>& a, const std::vector<Series>& b) {
    return std::ranges::equal(a, b, {}, &Series::name, &Series::name);
  };
  const bool as_before = same(numbers_, windows.numbers_) && same(profiles_, windows.profiles_) &&
                         same(channels_, windows.channels_) && classes_.size() == windows.classes_.size();
  if (!as_before) {
    throw ShapeError(
        fmt::format("[HeadsAccumulator] window {} has other arrays than those before it", documents_.size()));
  }
  const auto take_windows = [](std::vector<Series>& list, std::vector<Series>& more) {
    for (std::size_t n = 0; n < list.size(); ++n) move_to_end(list[n].windows, more[n].windows);
  };
  take_windows(numbers_, windows.numbers_);
  take_windows(profiles_, windows.profiles_);
  take_windows(channels_, windows.channels_);
  for (std::size_t n = 0; n < classes_.size(); ++n) {
    ClassSeries& more = windows.classes_[n];
    move_to_end(classes_[n].sum, more.sum);
    move_to_end(classes_[n].count, more.count);
    move_to_end(classes_[n].below_half, more.below_half);
    classes_[n].all.add(more.all);
  }
  move_to_end(documents_, windows.documents_);
}

std::vector<std::uint8_t> HeadsAccumulator::packed() const {
  const auto list = [](const std::vector<Series>& all) {
    auto packed = nlohmann::json::array();
    for (const Series& series : all) packed.push_back({series.name, series.unit, series.entries, series.windows});
    return packed;
  };
  auto classes = nlohmann::json::array();
  for (const ClassSeries& series : classes_) {
    classes.push_back({series.sum, series.count, series.below_half, packed_tally(series.all.state())});
  }
  return nlohmann::json::to_msgpack({documents_, list(numbers_), list(profiles_), list(channels_), std::move(classes)});
}

HeadsAccumulator HeadsAccumulator::unpacked(TraceInfo info, std::span<const std::byte> packed) {
  const auto* const bytes = reinterpret_cast<const std::uint8_t*>(packed.data());
  const auto all = nlohmann::json::from_msgpack(bytes, bytes + packed.size());
  HeadsAccumulator result(std::move(info));
  all[0].get_to(result.documents_);
  const auto read = [](const nlohmann::json& list, std::vector<Series>& to) {
    for (const nlohmann::json& series : list) {
      to.push_back({series[0], series[1], series[2], series[3].get<std::vector<std::vector<double>>>()});
    }
  };
  read(all[1], result.numbers_);
  read(all[2], result.profiles_);
  read(all[3], result.channels_);
  for (const nlohmann::json& series : all[4]) {
    result.classes_.push_back({series[0], series[1], series[2], unpacked_tally(series[3])});
  }
  result.any_ = !result.documents_.empty();
  return result;
}

HeadArray HeadsAccumulator::mean(const Series& series) const {
  HeadArray array{series.name, series.unit, {}, {}};
  std::vector<double> values;
  std::vector<std::int32_t> documents;
  for (std::size_t entry = 0; entry < head_count() * series.entries; ++entry) {
    values.clear();
    documents.clear();
    for (std::size_t window = 0; window < series.windows.size(); ++window) {
      const double value = series.windows[window][entry];
      if (std::isnan(value)) continue;
      values.push_back(value);
      documents.push_back(documents_[window]);
    }
    const Estimate estimate = values.empty() ? Estimate{kNone, kNone, {}} : clustered_mean(values, documents);
    array.value.push_back(estimate.value);
    array.error.push_back(estimate.error);
  }
  return array;
}

void HeadsAccumulator::finish_classes(EvaluatedHeads& heads) const {
  if (classes_.empty()) return;
  for (std::size_t n = 0; n < kTokenClasses; ++n) heads.class_tokens.push_back(classes_[n].all.count());
  HeadArray mean{"mean_log_gate", "nats", {}, {}};
  HeadArray lower{"gate_lower_quartile", "1", {}, {}};
  HeadArray median{"gate_median", "1", {}, {}};
  HeadArray upper{"gate_upper_quartile", "1", {}, {}};
  HeadArray share{"share_below_half", "1", {}, {}};
  const auto put = [](HeadArray& array, const Estimate& estimate) {
    array.value.push_back(estimate.value);
    array.error.push_back(estimate.error);
  };
  for (const ClassSeries& series : classes_) {
    const GateGroup group = series.all.summary();
    const bool any = group.count > 0;
    const Estimate none{kNone, kNone, {}};
    put(mean, any ? clustered_ratio(series.sum, series.count, documents_) : none);
    put(share, any ? clustered_ratio(series.below_half, series.count, documents_) : none);
    put(lower, {group.lower_quartile, kNone, {}});
    put(median, {group.median, kNone, {}});
    put(upper, {group.upper_quartile, kNone, {}});
  }
  heads.by_class = {std::move(mean), std::move(lower), std::move(median), std::move(upper), std::move(share)};
}

EvaluatedHeads HeadsAccumulator::finish() {
  EvaluatedHeads heads;
  for (const Series& series : numbers_) heads.numbers.push_back(mean(series));
  heads.numbers.insert(heads.numbers.begin(), decay_times(*find_array(heads.numbers, "mean_log_gate")));
  for (const Series& series : profiles_) heads.by_distance.push_back(mean(series));
  for (const Series& series : channels_) heads.by_channel.push_back(mean(series));
  heads.distances = distance_bins(info_.length);
  finish_classes(heads);
  heads.info = std::move(info_);
  set_forgetting(heads);
  return heads;
}

std::optional<EvaluatedHeads> evaluate_run(const RunOnDevice& run, const Job& job) {
  const TraceInfo& info = run->info();
  std::vector<TokenClassSet> classes;
  if (run->text() && run->tokens() && !run->tokens()->byte_start.empty()) classes = read_classes(*run);
  MeasureOptions options;
  options.statistics = {.with_attention = true, .events = 0};
  options.with_split = true;
  options.classes = classes;
  HeadsAccumulator accumulator(info);
  const std::int64_t heads = std::int64_t{info.layers} * info.heads;
  std::int64_t done = 0;
  job.tell({done, heads, "heads", "measuring heads"});
  if (!measure_heads(run, options, job, [&](const HeadMeasures& measures) {
        accumulator.add(measures);
        job.tell({++done, heads, "heads", "measuring heads"});
      })) {
    return std::nullopt;
  }
  accumulator.end_window(0);
  return accumulator.finish();
}

}  // namespace foxscope
