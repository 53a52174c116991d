#include "app/cli/heads/heads_report.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <tuple>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "app/cli/values.h"
#include "backend/base/error.h"
#include "backend/base/nearest_name.h"
#include "backend/trace/decay_time.h"
#include "backend/trace/run_origin.h"

namespace foxscope::cli {
namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
constexpr const char* kLabelColumn = "labels";
constexpr const char* kWithoutFirst = "_without_first";

constexpr const char* kError = "_error";

void addNumber(Columns& columns, const std::string& name, double value, const std::optional<double>& error) {
  columns.emplace_back(name, value);
  if (error) columns.emplace_back(name + kError, *error);
}

void addNumber(Columns& columns, const HeadNumber& number) {
  addNumber(columns, std::string(number.name), number.value, number.error);
}

void addNumbers(Columns& columns, const std::vector<HeadNumber>& numbers) {
  for (const HeadNumber& number : numbers) addNumber(columns, number);
}

// A profile's bins by name: of "mass_without_gate" the bin of 4 to 7 tokens is mass_4_7_without_gate.
void addBins(Columns& columns, const HeadsReport& report, const ReportedHead& head, const std::string& name) {
  const auto& profiles = head.measures.profiles;
  const auto profile =
      std::find_if(profiles.begin(), profiles.end(), [&](const HeadProfile& one) { return one.name == name; });
  const std::size_t stem = name.starts_with("mass") ? 4 : name.size();
  const auto bins = distance_bins(report.tokens);
  for (std::size_t n = 0; n < bins.size(); ++n) {
    const bool known = profile != profiles.end();
    const bool estimated = known && !profile->errors.empty();
    addNumber(columns, fmt::format("{}_{}_{}{}", name.substr(0, stem), bins[n].from, bins[n].to - 1, name.substr(stem)),
              known ? profile->bins[n] : kNone, estimated ? std::optional(profile->errors[n]) : std::nullopt);
  }
}

void addSpread(Columns& columns, const HeadsReport& report, const ReportedHead& head) {
  const auto numbers = attention_numbers(head.measures.statistics);
  const auto add = [&](bool withoutFirst, bool distance) {
    for (const HeadNumber& number : numbers) {
      const bool ofDistance = number.name.starts_with('d');
      if (ofDistance == distance && number.name.ends_with(kWithoutFirst) == withoutFirst) addNumber(columns, number);
    }
  };
  add(false, false);
  add(false, true);
  addBins(columns, report, head, "mass");
  add(true, true);
  addBins(columns, report, head, "mass_without_first");
}

/// Events of a head: "NAME_1_position" and "NAME_1_VALUE" of the first, columns for as many as any head has.
struct EventColumns {
  std::string name;
  std::string value;
  std::vector<std::pair<std::int64_t, double>> events;
  std::size_t most = 0;
};

void addEvents(Columns& columns, const EventColumns& of) {
  for (std::size_t n = 0; n < of.most; ++n) {
    const bool there = n < of.events.size();
    columns.emplace_back(fmt::format("{}_{}_position", of.name, n + 1),
                         there ? static_cast<double>(of.events[n].first) : kNone);
    columns.emplace_back(fmt::format("{}_{}{}", of.name, n + 1, of.value), there ? of.events[n].second : kNone);
  }
}

void addSaliency(Columns& columns, const HeadsReport& report, const ReportedHead& head) {
  const auto& own = head.measures.statistics.saliency;
  if (!own) return;
  addNumbers(columns, saliency_numbers(head.measures.statistics));
  EventColumns saliencies{"saliency", "", {}};
  for (const SaliencyEvent& event : own->events) saliencies.events.emplace_back(event.position, event.saliency);
  for (const ReportedHead& other : report.heads) {
    saliencies.most = std::max(saliencies.most, other.measures.statistics.saliency->events.size());
  }
  addEvents(columns, saliencies);
}

void addSplit(Columns& columns, const HeadsReport& report, const ReportedHead& head) {
  // A head without attention has the same columns, all of them empty.
  const auto& split = head.measures.split;
  for (const HeadNumber& number : split_numbers(split.value_or(DecaySplit()))) {
    columns.emplace_back(number.name, split ? number.value : kNone);
  }
  for (const char* suffix : {"_without_gate", "_without_content"}) {
    addBins(columns, report, head, std::string("mass") + suffix);
    addBins(columns, report, head, std::string("mass") + suffix + kWithoutFirst);
  }
  addBins(columns, report, head, "logit_content");
  addBins(columns, report, head, "logit_decay");
}

/// Describes the gates of a class of tokens.
Columns numbersOf(const GateGroup& group) {
  return {{"mean_log_gate", group.mean_log_gate},
          {"gate_lower_quartile", group.lower_quartile},
          {"gate_median", group.median},
          {"gate_upper_quartile", group.upper_quartile},
          {"share_below_half", group.share_below_half}};
}

void addClasses(Columns& columns, const ReportedHead& head) {
  for (std::size_t n = 0; n < head.measures.classes.size(); ++n) {
    const std::string name = to_string(static_cast<TokenClass>(n));
    columns.emplace_back("tokens_" + name, static_cast<double>(head.measures.classes[n].count()));
    for (const auto& [number, value] : numbersOf(head.measures.classes[n].summary())) {
      columns.emplace_back(number + ('_' + name), value);
    }
  }
}

void addGateEvents(Columns& columns, const HeadsReport& report, const ReportedHead& head) {
  EventColumns gates{"event", "_gate", {}};
  for (const ForgettingEvent& event : head.measures.statistics.strongest_events) {
    gates.events.emplace_back(event.position, event.forget_gate);
  }
  for (const ReportedHead& other : report.heads) {
    gates.most = std::max(gates.most, other.measures.statistics.strongest_events.size());
  }
  addEvents(columns, gates);
}

// The head's spectrum of decays: columns where any layer decays by channel.
void addSpectrum(Columns& columns, const HeadsReport& report, const ReportedHead& head) {
  const TraceInfo& info = report.run->info();
  if (std::ranges::none_of(info.mixers, &LayerMixer::decays_by_channel)) return;
  // A head of another kind has the same columns, all of them empty.
  HeadStatistics known;
  known.channel_log_decay = {kNone};
  const HeadStatistics& own = head.measures.statistics;
  addNumbers(columns, spectrum_numbers(own.channel_log_decay.empty() ? known : own));
}

/// Effective memory of a head: the share of its attention within 1, 2, 4... tokens, the position itself among them, up
/// to the text's length; NaN without attention.
struct MassWithin {
  std::int64_t tokens = 0;
  double share = 0;
  std::optional<double> error;  ///< where rows were sampled
};
std::vector<MassWithin> massWithin(const HeadsReport& report, const HeadMeasures& head) {
  const auto mass = std::ranges::find(head.profiles, std::string("mass"), &HeadProfile::name);
  const auto& errors = head.statistics.errors;
  std::vector<MassWithin> within;
  double sum = 0;
  const auto bins = distance_bins(report.tokens);
  for (std::size_t n = 0; n < bins.size(); ++n) {
    sum += mass == head.profiles.end() ? kNone : mass->bins[n];
    within.push_back({bins[n].to, sum, errors ? std::optional(errors->distance.within[n]) : std::nullopt});
  }
  return within;
}

void addMemory(Columns& columns, const HeadsReport& report, const ReportedHead& head) {
  for (const auto& [tokens, share, error] : massWithin(report, head.measures)) {
    addNumber(columns, {fmt::format("mass_within_{}", tokens), "1", share, error});
  }
}

// Columns that may have been meant: the nearest, else the first of those that hold the word.
std::string meantColumns(const Columns& columns, const std::string& word) {
  constexpr std::size_t kMostNamed = 3;
  std::vector<std::string> names;
  for (const auto& [name, value] : columns) names.push_back(name);
  std::vector<std::string> holding;
  for (const std::string& name : names) {
    if (holding.size() < kMostNamed && !word.empty() && name.find(word) != std::string::npos) holding.push_back(name);
  }
  if (const std::string nearest = did_you_mean(word, names); !nearest.empty() || holding.empty()) return nearest;
  return fmt::format("did you mean {}? else ", fmt::join(holding, " or "));
}

/// The column that a title of the overview is of; any other word itself.
std::string columnOf(const std::string& word) {
  const auto isTitle = [&](const Titled& one) {
    return std::ranges::equal(one.title, word, [](char title, char typed) {
      return title == typed || (title == ' ' && (typed == '_' || typed == '-'));
    });
  };
  const auto found = std::ranges::find_if(kOverview, isTitle);
  return found == kOverview.end() ? word : std::string(found->name);
}

double valueOf(const HeadsReport& report, const ReportedHead& head, const std::string& name) {
  const Columns columns = headColumns(report, head);
  const auto found =
      std::find_if(columns.begin(), columns.end(), [&](const auto& column) { return column.first == name; });
  if (found == columns.end() && name.starts_with("saliency") && !head.measures.statistics.saliency) {
    throw UsageError(fmt::format("--sort {}: model '{}': saliency was not kept: {}", name, report.model,
                                 keep_remedy(report.run->info(), Keep::saliency)));
  }
  if (found == columns.end()) {
    throw UsageError(
        fmt::format("--sort {}: there is no such statistic: {}use a column of --csv, as rate_decay_time, "
                    "horizon_half_median, entropy, d50, mass_on_first or saliency_absolute; those of --split, "
                    "--by-class and --match "
                    "only beside that option",
                    name, meantColumns(columns, name)));
  }
  return found->second;
}

using Json = nlohmann::ordered_json;

/// The numbers whose names begin with a word, by what follows it.
Json numbersOf(const std::vector<HeadNumber>& numbers, const std::string& word) {
  Json json;
  for (const HeadNumber& number : numbers) {
    if (number.name.starts_with(word)) json[std::string(number.name.substr(word.size()))] = jsonNumber(number.value);
  }
  return json;
}

/// Quartiles over positions at each level that is told apart.
Json levelsJson(const std::vector<HeadNumber>& numbers, const std::string& name) {
  Json levels;
  for (const char* level : {"1_over_e", "half", "0.01"}) levels[level] = numbersOf(numbers, name + level + '_');
  return levels;
}

Json profileJson(const HeadsReport& report, const HeadMeasures& head, const DistanceProfile& profile,
                 const std::string& name) {
  Json bins = Json::array();
  const auto distances = distance_bins(report.tokens);
  const auto mass = std::ranges::find(head.profiles, name, &HeadProfile::name);
  for (std::size_t n = 0; mass != head.profiles.end() && n < mass->bins.size(); ++n) {
    bins.push_back({{"from", distances[n].from}, {"to", distances[n].to - 1}, {"mass", jsonNumber(mass->bins[n])}});
    if (!mass->errors.empty()) bins.back()["error"] = jsonNumber(mass->errors[n]);
  }
  return {{"d50", jsonNumber(profile.d50)}, {"d90", jsonNumber(profile.d90)}, {"mass", std::move(bins)}};
}

Json memoryJson(const HeadsReport& report, const HeadMeasures& head) {
  Json within = Json::array();
  for (const auto& [tokens, share, error] : massWithin(report, head)) {
    within.push_back({{"tokens", tokens}, {"mass", jsonNumber(share)}});
    if (error) within.back()["error"] = jsonNumber(*error);
  }
  return within;
}

/// Quantiles by their names, and the decay time of every channel.
Json spectrumJson(const HeadStatistics& head) {
  Json spectrum = numbersOf(spectrum_numbers(head), "channel_decay_time_");
  Json channels = Json::array();
  for (const double mean : head.channel_log_decay) channels.push_back(jsonNumber(decay_time(mean)));
  spectrum["channels"] = std::move(channels);
  return spectrum;
}

Json spreadJson(const HeadsReport& report, const HeadMeasures& head, const AttentionSpread& spread,
                const std::string& suffix) {
  Json json = {{"entropy", jsonNumber(spread.entropy)},
               {"mass_on_first", jsonNumber(spread.mass_on_first)},
               {"mass_on_self", jsonNumber(spread.mass_on_self)},
               {"distance", profileJson(report, head, spread.distance, "mass" + suffix)},
               {"distance_without_first",
                profileJson(report, head, spread.distance_without_first, "mass" + suffix + kWithoutFirst)}};
  if (spread.mass_on_sink) json["mass_on_sink"] = jsonNumber(*spread.mass_on_sink);
  return json;
}

Json localityJson(const Locality& locality) {
  return {{"total", jsonNumber(locality.total())},
          {"by_decay", jsonNumber(locality.by_decay())},
          {"by_content", jsonNumber(locality.by_content())},
          {"log_distance", jsonNumber(locality.both)},
          {"log_distance_content_only", jsonNumber(locality.content_only)},
          {"log_distance_decay_only", jsonNumber(locality.decay_only)},
          {"log_distance_uniform", jsonNumber(locality.uniform)}};
}

Json splitJson(const HeadsReport& report, const HeadMeasures& head) {
  if (!head.split) return nullptr;
  Json logits = Json::array();
  for (const LogitMeans& means : head.split->logits) {
    logits.push_back({{"from", means.distance.from},
                      {"to", means.distance.to - 1},
                      {"content", jsonNumber(means.content)},
                      {"decay", jsonNumber(means.decay)}});
  }
  return {{"divergence", jsonNumber(head.split->divergence)},
          {"locality", localityJson(head.split->locality)},
          {"locality_without_first", localityJson(head.split->locality_without_first)},
          {"without_gate", spreadJson(report, head, head.split->without_gate, "_without_gate")},
          {"without_content", spreadJson(report, head, head.split->without_content, "_without_content")},
          {"logits", std::move(logits)}};
}

Json classesJson(const HeadMeasures& head) {
  Json classes = Json::object();
  for (std::size_t n = 0; n < head.classes.size(); ++n) {
    Json& one = classes[to_string(static_cast<TokenClass>(n))] = {{"tokens", head.classes[n].count()}};
    for (const auto& [name, value] : numbersOf(head.classes[n].summary())) one[name] = jsonNumber(value);
  }
  return classes;
}

Json nearestJson(const HeadsReport& report, const ReportedHead& head) {
  Json nearest = Json::array();
  for (const NearestHead& other : head.nearest) {
    nearest.push_back({{"model", report.matched},
                       {"layer", other.layer},
                       {"head", other.head},
                       {"octaves", jsonNumber(other.octaves)}});
  }
  return nearest;
}

Json labelsJson(const HeadStatistics& head) {
  Json labels = Json::array();
  for (const HeadLabel label : labels_of(head.label_scores)) labels.push_back(text_of(label).name);
  return labels;
}

Json labelScoresJson(const HeadStatistics& head) {
  Json scores = numbersOf(attention_numbers(head), "label_");
  scores["repeats"] = head.repeats;
  return scores;
}

Json saliencyJson(const HeadSaliency& saliency) {
  Json events = Json::array();
  for (const SaliencyEvent& event : saliency.events) {
    events.push_back({{"position", event.position}, {"saliency", jsonNumber(event.saliency)}});
  }
  Json json;
  for (const SaliencyNumber number : kSaliencyNumbers) json[to_string(number)] = jsonNumber(value_of(saliency, number));
  json["largest_events"] = std::move(events);
  return json;
}

/// The standard errors of a head's numbers of attention, by the names of the columns of --csv.
Json errorsJson(const HeadStatistics& head) {
  Json errors;
  for (const auto& numbers : {attention_numbers(head), sink_numbers(head)}) {
    for (const HeadNumber& number : numbers) {
      if (number.error) errors[std::string(number.name)] = jsonNumber(*number.error);
    }
  }
  return errors;
}

Json headJson(const HeadsReport& report, const ReportedHead& reported) {
  const HeadMeasures& measures = reported.measures;
  const HeadStatistics& head = measures.statistics;
  const std::vector<HeadNumber> numbers = gate_numbers(head);
  Json gate;
  for (const HeadNumber& number : numbers) {
    if (number.name.starts_with("gate_")) gate[std::string(number.name)] = jsonNumber(number.value);
  }
  Json events = Json::array();
  for (const ForgettingEvent& event : head.strongest_events) {
    events.push_back({{"position", event.position}, {"forget_gate", jsonNumber(event.forget_gate)}});
  }
  Json json = {{"layer", head.layer},
               {"head", head.head},
               {"rate_decay_time", jsonNumber(head.rate_decay_time)},
               {"mean_log_gate", jsonNumber(head.mean_log_gate)},
               {"gate", std::move(gate)},
               {"backward_horizon", levelsJson(numbers, "horizon_")},
               {"forward_survival", levelsJson(numbers, "survival_")},
               {"strongest_events", std::move(events)},
               {"attention", head.has_attention ? spreadJson(report, measures, head, "") : Json(nullptr)},
               {"labels", labelsJson(head)},
               {"label_scores", head.has_attention ? labelScoresJson(head) : Json(nullptr)}};
  const LayerMixer mixer = report.run->info().mixer(head.layer);
  json["mixer"] = to_string(mixer.mixer);
  if (!head.channel_log_decay.empty()) json["channel_decay_time"] = spectrumJson(head);
  if (head.has_attention) json["mass_within"] = memoryJson(report, measures);
  if (head.errors) json["errors"] = errorsJson(head);
  if (head.saliency) json["saliency"] = saliencyJson(*head.saliency);
  if (report.split) json["split"] = splitJson(report, measures);
  if (report.classes) json["gates_by_class"] = classesJson(measures);
  if (!report.matched.empty()) json["nearest"] = nearestJson(report, reported);
  return json;
}

Json reportJson(const HeadsReport& report) {
  Json heads = Json::array();
  for (const ReportedHead& head : report.heads) heads.push_back(headJson(report, head));
  Json document{{"model", report.model}, {"tokens", report.tokens}};
  if (report.rows > 0) document["sampled_rows"] = report.rows;
  if (report.run->info().unchecked) document["unchecked"] = true;
  const std::string& target = report.run->info().saliency_target;
  if (!target.empty()) document["saliency_target"] = target;
  document["heads"] = std::move(heads);
  return document;
}

}  // namespace

Columns headColumns(const HeadsReport& report, const ReportedHead& head) {
  const HeadStatistics& statistics = head.measures.statistics;
  Columns columns = {{"layer", statistics.layer}, {"head", statistics.head}};
  addNumbers(columns, gate_numbers(statistics));
  addGateEvents(columns, report, head);
  addSaliency(columns, report, head);
  addSpectrum(columns, report, head);
  addSpread(columns, report, head);
  addNumbers(columns, sink_numbers(statistics));
  addMemory(columns, report, head);
  if (report.split) addSplit(columns, report, head);
  if (report.classes) addClasses(columns, head);
  if (!report.matched.empty()) {
    const bool found = !head.nearest.empty();
    columns.emplace_back("nearest_layer", found ? head.nearest.front().layer : kNone);
    columns.emplace_back("nearest_head", found ? head.nearest.front().head : kNone);
    columns.emplace_back("nearest_octaves", found ? head.nearest.front().octaves : kNone);
  }
  return columns;
}

void rank(HeadsReport& report, const Ranking& ranking) {
  if (!ranking.statistic.empty()) {
    const std::string statistic = columnOf(ranking.statistic);
    // Heads whose number is not known come last.
    std::vector<std::tuple<bool, double, std::size_t>> order;
    for (std::size_t n = 0; n < report.heads.size(); ++n) {
      double value = valueOf(report, report.heads[n], statistic);
      if (!ranking.smallestFirst) value = -value;
      order.emplace_back(std::isnan(value), std::isnan(value) ? 0.0 : value, n);
    }
    std::sort(order.begin(), order.end());
    std::vector<ReportedHead> sorted;
    sorted.reserve(order.size());
    for (const auto& [unknown, value, place] : order) sorted.push_back(std::move(report.heads[place]));
    report.heads = std::move(sorted);
    report.sortedBy = statistic;
  }
  if (ranking.top > 0 && ranking.top < report.heads.size()) report.heads.resize(ranking.top);
}

std::string headsCsv(std::span<const HeadsReport> reports) {
  const bool several = reports.size() > 1;
  std::vector<std::string> names;
  std::vector<std::map<std::string, std::string>> rows;
  const auto add = [&](std::string name, std::string value) {
    if (std::ranges::find(names, name) == names.end()) names.push_back(name);
    rows.back().emplace(std::move(name), std::move(value));
  };
  for (const HeadsReport& report : reports) {
    for (const ReportedHead& head : report.heads) {
      rows.emplace_back();
      if (several) add("model", report.model);
      for (const auto& [name, value] : headColumns(report, head)) add(name, digits(value));
      rows.back().emplace(kLabelColumn, names_of(labels_of(head.measures.statistics.label_scores), ";"));
    }
  }
  names.emplace_back(kLabelColumn);
  std::string text = fmt::format("{}\n", fmt::join(names, ","));
  for (const auto& row : rows) {
    std::vector<std::string> values;
    for (const std::string& name : names) values.push_back(row.contains(name) ? row.at(name) : "");
    text += fmt::format("{}\n", fmt::join(values, ","));
  }
  return text;
}

std::string headsJson(std::span<const HeadsReport> reports) {
  Json models = Json::array();
  for (const HeadsReport& report : reports) models.push_back(reportJson(report));
  const Json document = models.size() == 1 ? models.front() : Json{{"models", models}};
  return document.dump(2, ' ', false, Json::error_handler_t::replace) + '\n';
}

}  // namespace foxscope::cli
