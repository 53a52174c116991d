#include "app/figure/heads/head_choice.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <utility>

#include <fmt/format.h>

#include "backend/base/count_text.h"
#include "backend/base/error.h"
#include "backend/base/index.h"
#include "backend/eval/experts/expert_table.h"
#include "backend/map/statistics/gate_mean.h"
#include "backend/map/statistics/head_statistics.h"
#include "backend/trace/decay_time.h"
#include "backend/trace/run_origin.h"

namespace foxscope::figure {
namespace {

constexpr const char* kByDecay = "decay time";
constexpr const char* kOthers = "; --heads chooses others";
constexpr double kMostMemories = 10;  // a map of more of the longest memory is a thin diagonal
constexpr double kMemoriesShown = 8;
constexpr double kThinnest = 50;    // parts of a map's side that a memory is seen in
constexpr double kLeastSeen = 0.1;  // of a map's entries that are dark, or light
constexpr std::size_t kShownHeads = 3;
constexpr double kLeastSpread = 2;  // of memories that are shown as short and long
constexpr std::int64_t kLeastShown = 64;

/// The decay time of a head, tokens; infinite for one that never forgets.
double decayTimeOf(const HeadOf& head) {
  // A text of one token has no gate in any F.
  if (head.trace->info().length < 2) return std::numeric_limits<double>::infinity();
  return decay_time(mean_log_gate(*head.trace, head.layer, head.head));
}

std::string croppedNote(const Range& positions, std::int64_t length) {
  return fmt::format(
      "; of {} positions the first {} are shown, in which these memories can be seen: --rows and --cols choose others",
      length, positions.end);
}

/// The beginning of a text that is so much longer than a memory that the memory can be seen on it.
Range beginningFor(double memory, std::int64_t length) {
  const auto shown = static_cast<std::int64_t>(std::ceil(kMemoriesShown * memory));
  return {0, std::min(length, std::max(shown, kLeastShown))};
}

/// @param byDecay  by the decay time of a head that forgets; else by half of its attention's distance
std::optional<double> reachOf(const HeadOf& head, bool byDecay, const Job& job) {
  if (byDecay) return decayTimeOf(head);
  const auto statistics = head_statistics(head, {.with_attention = true, .events = 0}, job);
  if (!statistics) return std::nullopt;
  return statistics->distance.d50;
}

/// The reach of every head; where some layers forget, of the heads of these alone. Nothing if the job was stopped.
std::optional<std::vector<Reach>> reachesOf(const RunOnDevice& trace, const Job& job) {
  const TraceInfo& info = trace->info();
  const bool byDecay = forgets(info);
  if (!byDecay) (void)trace->require_query_key();
  std::vector<Reach> reaches;
  Job quiet = job;
  quiet.report = nullptr;
  for (int layer = 0; layer < info.layers; ++layer) {
    if (byDecay && !forgets(info, layer)) continue;
    for (int head = 0; head < info.mixer(layer).heads; ++head) {
      job.tell(
          {static_cast<std::int64_t>(reaches.size()), std::int64_t{info.layers} * info.heads, "heads", "choosing"});
      const auto tokens = reachOf({trace, layer, head}, byDecay, quiet);
      if (!tokens) return std::nullopt;
      reaches.push_back({{layer, head}, *tokens});
    }
  }
  return reaches;
}

/// The largest reach over the smallest.
double spreadOf(const std::vector<Reach>& reaches) {
  const auto [least, most] = std::ranges::minmax_element(reaches, {}, &Reach::tokens);
  return most->tokens / least->tokens;
}

/// The heads whose decay is seen best on a map of a region: all that are seen well, or the best few, and from there on
/// as many as it takes for their memories to differ.
std::vector<Reach> seenOn(const RunOnDevice& trace, const std::vector<Reach>& reaches, const MapRegion& region) {
  std::vector<std::pair<double, Reach>> seen;
  for (const Reach& reach : reaches) {
    const double mean = meanRetained(trace->cumulative_log_gate(reach.head.layer, reach.head.head), region);
    seen.emplace_back(std::isnan(mean) ? 0 : std::min(mean, 1 - mean), reach);
  }
  std::ranges::stable_sort(seen, std::greater<>(), [](const auto& one) { return one.first; });
  const auto dark = std::ranges::find_if(seen, [](const auto& one) { return one.first < kLeastSeen; });
  const auto well = static_cast<std::size_t>(dark - seen.begin());
  std::vector<Reach> chosen;
  for (const auto& [share, reach] : seen) {
    if (chosen.size() >= (well < 2 ? kShownHeads : well) && spreadOf(chosen) >= kLeastSpread) break;
    if (!std::isnan(reach.tokens)) chosen.push_back(reach);
  }
  return chosen;
}

}  // namespace

double meanRetained(std::span<const double> c, const MapRegion& region) {
  double retained = 0;
  double entries = 0;
  double row = 0;   // the sum over the keys of a row
  double keys = 0;  // of a row
  for (std::int64_t i = region.columns.begin; i < region.rows.end; ++i) {
    if (i > region.columns.begin) row *= std::exp(c[index_of(i)] - c[index_of(i - 1)]);
    if (i < region.columns.end) {
      row += 1;
      keys += 1;
    }
    if (i < region.rows.begin) continue;
    retained += row;
    entries += keys;
  }
  return entries > 0 ? retained / entries : std::numeric_limits<double>::quiet_NaN();
}

void requireHead(const TraceInfo& info, const HeadIndex& head) {
  const bool inLayers = head.layer >= 0 && head.layer < info.layers;
  const int heads = inLayers ? info.mixer(head.layer).heads : info.heads;
  if (inLayers && head.head >= 0 && head.head < heads) return;
  if (heads == 0 && is_unrecorded(info, head.layer)) {
    throw UsageError(fmt::format("model '{}' has no head {}:{}: layer {} was not recorded", info.name, head.layer,
                                 head.head, head.layer));
  }
  if (heads == 0) {
    throw UsageError(fmt::format("model '{}' has no head {}:{}: layer {} has no heads, only {}", info.name, head.layer,
                                 head.head, head.layer, experts_of(info, head.layer) > 0 ? "experts" : "an MLP"));
  }
  throw UsageError(fmt::format("model '{}' has no head {}:{}: layers are 0 to {}, heads 0 to {}", info.name, head.layer,
                               head.head, info.layers - 1, heads - 1));
}

std::vector<int> layersWithoutGate(const TraceInfo& info) {
  std::vector<int> layers;
  for (int layer = 0; layer < info.layers; ++layer) {
    if (info.mixer(layer).heads > 0 && !forgets(info, layer)) layers.push_back(layer);
  }
  return layers;
}

ChosenHeads chooseByReach(std::vector<Reach> reaches, const std::string& model, const std::string& by) {
  std::erase_if(reaches, [](const Reach& reach) { return std::isnan(reach.tokens); });
  if (reaches.empty()) {
    throw Error(fmt::format("{}: no head has a {} that is a number: choose heads with --heads", model, by));
  }
  std::stable_sort(reaches.begin(), reaches.end(), [](const Reach& a, const Reach& b) { return a.tokens < b.tokens; });
  // One token is added, since a distance can be 0. A head that never forgets has no part in the mean.
  const auto endless =
      std::find_if(reaches.begin() + 1, reaches.end(), [](const Reach& reach) { return std::isinf(reach.tokens); });
  const double middle = std::sqrt((1 + reaches.front().tokens) * (1 + (endless - 1)->tokens));
  const auto away = [&](const Reach& reach) { return std::abs(std::log((1 + reach.tokens) / middle)); };
  std::vector<Reach> chosen = {reaches.front()};
  if (reaches.size() > 2) {
    chosen.push_back(*std::min_element(reaches.begin() + 1, reaches.end() - 1,
                                       [&](const Reach& a, const Reach& b) { return away(a) < away(b); }));
  }
  if (reaches.size() > 1) chosen.push_back(reaches.back());
  ChosenHeads choice;
  for (const Reach& reach : chosen) {
    choice.heads.push_back(reach.head);
    choice.note += fmt::format("{}{}:{} ({} tokens)", choice.note.empty() ? "" : ", ", reach.head.layer,
                               reach.head.head, tokens_text(reach.tokens));
  }
  choice.note = fmt::format("{}: heads of short to long memory by {}: {}", model, by, choice.note);
  return choice;
}

std::optional<HeadsOnMap> headsOnMap(const RunOnDevice& trace, const std::optional<MapRegion>& asked, const Job& job) {
  const auto reaches = reachesOf(trace, job);
  if (!reaches) return std::nullopt;
  const TraceInfo& info = trace->info();
  double longest = 0;
  for (const Reach& reach : *reaches) {
    if (std::isfinite(reach.tokens)) longest = std::max(longest, reach.tokens);
  }
  Range positions{0, info.length};
  const bool endless = std::ranges::any_of(*reaches, [](const Reach& reach) { return std::isinf(reach.tokens); });
  if (!asked && !endless && kMostMemories * longest < static_cast<double>(info.length)) {
    positions = beginningFor(longest, info.length);
  }
  HeadsOnMap map;
  map.region = asked.value_or(MapRegion{positions, positions});
  map.chosen = chooseByReach(seenOn(trace, *reaches, map.region), info.name, kByDecay);
  map.chosen.note += kOthers;
  if (!asked && positions.end < info.length) map.chosen.note += croppedNote(positions, info.length);
  return map;
}

std::optional<HeadOnMap> headOnMap(const RunOnDevice& trace, bool crops, const Job& job) {
  const TraceInfo& info = trace->info();
  HeadOnMap map;
  map.positions = {0, info.length};
  ChosenHeads chosen;
  if (crops && forgets(info)) {
    auto heads = headsOnMap(trace, {}, job);
    if (!heads) return std::nullopt;
    map.positions = heads->region.rows;
    chosen = std::move(heads->chosen);
  } else {
    auto heads = representativeHeads(trace, job);
    if (!heads) return std::nullopt;
    chosen = std::move(*heads);
  }
  map.head = chosen.heads[chosen.heads.size() / 2];
  map.note = fmt::format("{}: {}:{} is drawn", info.name, map.head.layer, map.head.head);
  if (forgets(info, map.head.layer)) {
    map.note +=
        fmt::format(" (decay time {} tokens)", tokens_text(decayTimeOf({trace, map.head.layer, map.head.head})));
  }
  map.note += ": --head chooses another";
  if (map.positions.end < info.length) map.note += croppedNote(map.positions, info.length);
  return map;
}

std::optional<Range> beginningThatShows(const HeadOf& head) {
  const TraceInfo& info = head.trace->info();
  if (!forgets(info, head.layer) || !head.trace->has(TraceArray::cumulative_log_gate)) return std::nullopt;
  const double memory = decayTimeOf(head);
  if (!(memory * kThinnest < static_cast<double>(info.length))) return std::nullopt;
  const Range beginning = beginningFor(memory, info.length);
  return beginning.end < info.length ? std::optional(beginning) : std::nullopt;
}

std::optional<ChosenHeads> representativeHeads(const RunOnDevice& trace, const Job& job) {
  const auto reaches = reachesOf(trace, job);
  if (!reaches) return std::nullopt;
  const TraceInfo& info = trace->info();
  ChosenHeads chosen =
      chooseByReach(*reaches, info.name, forgets(info) ? kByDecay : "half of the attention's distance");
  chosen.note += kOthers;
  return chosen;
}

}  // namespace foxscope::figure
