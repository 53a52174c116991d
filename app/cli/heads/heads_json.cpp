#include <array>
#include <cmath>

#include <nlohmann/json.hpp>

#include "app/cli/heads/heads_report.h"
#include "app/cli/values.h"
#include "backend/base/index.h"
#include "backend/trace/decay_time.h"

namespace foxscope::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::array kLevelNames = {"1_over_e", "half", "0.01"};
constexpr std::array kGateQuantileNames = {"gate_min", "gate_lower_quartile", "gate_median", "gate_upper_quartile",
                                           "gate_max"};

Json quartilesJson(const Quartiles& quartiles) {
  return {{"lower_quartile", jsonNumber(quartiles.lower)},
          {"median", jsonNumber(quartiles.median)},
          {"upper_quartile", jsonNumber(quartiles.upper)},
          {"cut_off_share", jsonNumber(quartiles.cut_off_share)}};
}

const std::vector<double>& binsOf(const HeadMeasures& head, const std::string& name) {
  static const std::vector<double> kAbsent;
  for (const HeadProfile& profile : head.profiles) {
    if (profile.name == name) return profile.bins;
  }
  return kAbsent;
}

Json profileJson(const HeadsReport& report, const DistanceProfile& profile, const std::vector<double>& mass) {
  Json bins = Json::array();
  const auto distances = distance_bins(report.tokens);
  for (std::size_t n = 0; n < mass.size(); ++n) {
    bins.push_back({{"from", distances[n].from}, {"to", distances[n].to - 1}, {"mass", jsonNumber(mass[n])}});
  }
  return {{"d50", jsonNumber(profile.d50)}, {"d90", jsonNumber(profile.d90)}, {"mass", std::move(bins)}};
}

Json memoryJson(const HeadsReport& report, const HeadMeasures& head) {
  Json within = Json::array();
  for (const auto& [tokens, share] : massWithin(report, head)) {
    within.push_back({{"tokens", tokens}, {"mass", jsonNumber(share)}});
  }
  return within;
}

/// Quantiles by their names, and the decay time of every channel.
Json spectrumJson(const HeadStatistics& head) {
  Json spectrum;
  for (const HeadNumber& number : spectrum_numbers(head)) {
    spectrum[number.name.substr(std::string_view("channel_decay_time_").size())] = jsonNumber(number.value);
  }
  Json channels = Json::array();
  for (const double mean : head.channel_log_decay) channels.push_back(jsonNumber(decay_time(mean)));
  spectrum["channels"] = std::move(channels);
  return spectrum;
}

Json spreadJson(const HeadsReport& report, const HeadMeasures& head, const AttentionSpread& spread,
                const std::string& suffix) {
  return {{"entropy", jsonNumber(spread.entropy)},
          {"mass_on_first", jsonNumber(spread.mass_on_first)},
          {"mass_on_self", jsonNumber(spread.mass_on_self)},
          {"distance", profileJson(report, spread.distance, binsOf(head, "mass" + suffix))},
          {"distance_without_first",
           profileJson(report, spread.distance_without_first, binsOf(head, "mass" + suffix + "_without_first"))}};
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
    const GateGroup group = head.classes[n].summary();
    classes[to_string(static_cast<TokenClass>(n))] = {{"tokens", group.count},
                                                      {"mean_log_gate", jsonNumber(group.mean_log_gate)},
                                                      {"gate_lower_quartile", jsonNumber(group.lower_quartile)},
                                                      {"gate_median", jsonNumber(group.median)},
                                                      {"gate_upper_quartile", jsonNumber(group.upper_quartile)},
                                                      {"share_below_half", jsonNumber(group.share_below_half)}};
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
  Json scores;
  for (int n = 0; n < kHeadLabels; ++n) {
    scores[text_of(static_cast<HeadLabel>(n)).key] = jsonNumber(head.label_scores[index_of(n)]);
  }
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

Json headJson(const HeadsReport& report, const ReportedHead& reported) {
  const HeadMeasures& measures = reported.measures;
  const HeadStatistics& head = measures.statistics;
  Json gate;
  for (std::size_t index = 0; index < kGateQuantileNames.size(); ++index) {
    gate[kGateQuantileNames[index]] = jsonNumber(head.gate_quantile[index]);
  }
  Json horizon, survival;
  for (std::size_t level = 0; level < kLevelNames.size(); ++level) {
    horizon[kLevelNames[level]] = quartilesJson(head.backward_horizon[level]);
    survival[kLevelNames[level]] = quartilesJson(head.forward_survival[level]);
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
               {"backward_horizon", std::move(horizon)},
               {"forward_survival", std::move(survival)},
               {"strongest_events", std::move(events)},
               {"attention", head.has_attention ? spreadJson(report, measures, head, "") : Json(nullptr)},
               {"labels", labelsJson(head)},
               {"label_scores", head.has_attention ? labelScoresJson(head) : Json(nullptr)}};
  const LayerMixer mixer = report.run->info().mixer(head.layer);
  json["mixer"] = to_string(mixer.mixer);
  if (!head.channel_log_decay.empty()) json["channel_decay_time"] = spectrumJson(head);
  if (head.has_attention) json["mass_within"] = memoryJson(report, measures);
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
  if (report.run->info().unchecked) document["unchecked"] = true;
  const std::string& target = report.run->info().saliency_target;
  if (!target.empty()) document["saliency_target"] = target;
  document["heads"] = std::move(heads);
  return document;
}

}  // namespace

std::string headsJson(std::span<const HeadsReport> reports) {
  Json models = Json::array();
  for (const HeadsReport& report : reports) models.push_back(reportJson(report));
  const Json document = models.size() == 1 ? models.front() : Json{{"models", models}};
  return document.dump(2, ' ', false, Json::error_handler_t::replace) + '\n';
}

}  // namespace foxscope::cli
