#include "app/cli/heads_report.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "app/cli/console.h"
#include "app/cli/text_table.h"

namespace foxscope::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::array kLevelNames = {"1_over_e", "half", "0.01"};
constexpr std::array kGateQuantileNames = {"gate_min", "gate_lower_quartile", "gate_median", "gate_upper_quartile",
                                           "gate_max"};

Json number(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }

Json quartilesJson(const Quartiles& quartiles) {
  return {{"lower_quartile", number(quartiles.lower)},
          {"median", number(quartiles.median)},
          {"upper_quartile", number(quartiles.upper)},
          {"cut_off_share", number(quartiles.cut_off_share)}};
}

/// Attention mass at distances [from, to).
struct MassBin {
  std::int64_t from = 0;
  std::int64_t to = 0;
  double mass = 0;
};

// Distance 0 alone, then bins that double: 1, 2-3, 4-7, ...
std::vector<MassBin> massBins(const std::vector<double>& mass) {
  std::vector<MassBin> bins;
  const auto length = static_cast<std::int64_t>(mass.size());
  for (std::int64_t from = 0; from < length; from = from == 0 ? 1 : 2 * from) {
    MassBin bin{from, std::min(length, from == 0 ? 1 : 2 * from), 0.0};
    for (std::int64_t distance = bin.from; distance < bin.to; ++distance) {
      bin.mass += mass[static_cast<std::size_t>(distance)];
    }
    bins.push_back(bin);
  }
  return bins;
}

Json profileJson(const DistanceProfile& profile) {
  Json bins = Json::array();
  for (const MassBin& bin : massBins(profile.mass)) {
    bins.push_back({{"from", bin.from}, {"to", bin.to - 1}, {"mass", number(bin.mass)}});
  }
  return {{"d50", number(profile.d50)}, {"d90", number(profile.d90)}, {"mass", std::move(bins)}};
}

Json headJson(const HeadStatistics& head) {
  Json gate;
  for (std::size_t index = 0; index < kGateQuantileNames.size(); ++index) {
    gate[kGateQuantileNames[index]] = number(head.gate_quantile[index]);
  }
  Json horizon, survival;
  for (std::size_t level = 0; level < kLevelNames.size(); ++level) {
    horizon[kLevelNames[level]] = quartilesJson(head.backward_horizon[level]);
    survival[kLevelNames[level]] = quartilesJson(head.forward_survival[level]);
  }
  Json events = Json::array();
  for (const ForgettingEvent& event : head.strongest_events) {
    events.push_back({{"position", event.position}, {"forget_gate", number(event.forget_gate)}});
  }
  Json attention(nullptr);
  if (head.has_attention) {
    attention = {{"entropy", number(head.entropy)},
                 {"mass_on_first", number(head.mass_on_first)},
                 {"mass_on_self", number(head.mass_on_self)},
                 {"distance", profileJson(head.distance)},
                 {"distance_without_first", profileJson(head.distance_without_first)}};
  }
  return {{"layer", head.layer},
          {"head", head.head},
          {"rate_decay_time", number(head.rate_decay_time)},
          {"mean_log_gate", number(head.mean_log_gate)},
          {"gate", std::move(gate)},
          {"backward_horizon", std::move(horizon)},
          {"forward_survival", std::move(survival)},
          {"strongest_events", std::move(events)},
          {"attention", std::move(attention)}};
}

using Columns = std::vector<std::pair<std::string, std::string>>;

// Enough digits to read the same double again.
std::string digits(double value) { return std::isnan(value) ? "" : fmt::format("{}", value); }

void addQuartiles(Columns& columns, const std::string& name, const Quartiles& quartiles) {
  columns.emplace_back(name + "_lower_quartile", digits(quartiles.lower));
  columns.emplace_back(name + "_median", digits(quartiles.median));
  columns.emplace_back(name + "_upper_quartile", digits(quartiles.upper));
  columns.emplace_back(name + "_cut_off_share", digits(quartiles.cut_off_share));
}

void addProfile(Columns& columns, const std::string& suffix, const DistanceProfile& profile, std::int64_t length,
                bool exists) {
  const auto value = [&](double number) { return exists ? digits(number) : std::string(); };
  columns.emplace_back("d50" + suffix, value(profile.d50));
  columns.emplace_back("d90" + suffix, value(profile.d90));
  const std::vector<double> absent(static_cast<std::size_t>(length), 0.0);
  for (const MassBin& bin : massBins(exists ? profile.mass : absent)) {
    columns.emplace_back(fmt::format("mass_{}_{}{}", bin.from, bin.to - 1, suffix), value(bin.mass));
  }
}

// A head's statistics as named cells, the same names for every head of a report.
Columns headColumns(const HeadStatistics& head, std::int64_t length, std::size_t events) {
  Columns columns = {{"layer", std::to_string(head.layer)},
                     {"head", std::to_string(head.head)},
                     {"rate_decay_time", digits(head.rate_decay_time)},
                     {"mean_log_gate", digits(head.mean_log_gate)}};
  for (std::size_t index = 0; index < kGateQuantileNames.size(); ++index) {
    columns.emplace_back(kGateQuantileNames[index], digits(head.gate_quantile[index]));
  }
  for (std::size_t level = 0; level < kLevelNames.size(); ++level) {
    addQuartiles(columns, std::string("horizon_") + kLevelNames[level], head.backward_horizon[level]);
  }
  for (std::size_t level = 0; level < kLevelNames.size(); ++level) {
    addQuartiles(columns, std::string("survival_") + kLevelNames[level], head.forward_survival[level]);
  }
  for (std::size_t index = 0; index < events; ++index) {
    const bool exists = index < head.strongest_events.size();
    columns.emplace_back(fmt::format("event_{}_position", index + 1),
                         exists ? std::to_string(head.strongest_events[index].position) : "");
    columns.emplace_back(fmt::format("event_{}_gate", index + 1),
                         exists ? digits(head.strongest_events[index].forget_gate) : "");
  }
  const auto attention = [&](double value) { return head.has_attention ? digits(value) : std::string(); };
  columns.emplace_back("entropy", attention(head.entropy));
  columns.emplace_back("mass_on_first", attention(head.mass_on_first));
  columns.emplace_back("mass_on_self", attention(head.mass_on_self));
  addProfile(columns, "", head.distance, length, head.has_attention);
  addProfile(columns, "_without_first", head.distance_without_first, length, head.has_attention);
  return columns;
}

// Tokens in as many digits as a reader compares.
std::string tokensCell(double value) {
  if (std::isinf(value)) return "inf";
  if (std::isnan(value)) return "-";
  return value < 100 ? fmt::format("{:.1f}", value) : countText(std::llround(value));
}

std::string medianCell(const Quartiles& quartiles) {
  return tokensCell(quartiles.median) + (quartiles.cut_off_share > 0.5 ? "+" : "");
}

}  // namespace

std::string headsTable(const HeadsReport& report) {
  using enum TextTable::Align;
  std::vector<std::string> header = {"layer", "head", "decay time", "horizon 1/e", "half-life", "survival 1/e",
                                     "d50",   "d90",  "entropy",    "on key 0",    "on self"};
  TextTable table(std::move(header), std::vector<TextTable::Align>(11, right));
  table.addRow({"", "", "tokens", "tokens", "tokens", "tokens", "tokens", "tokens", "nats", "%", "%"});
  bool cutOff = false;
  for (const HeadStatistics& head : report.heads) {
    const auto attention = [&](const std::string& cell) { return head.has_attention ? cell : std::string("-"); };
    cutOff = cutOff || head.backward_horizon[0].cut_off_share > 0.5 || head.backward_horizon[1].cut_off_share > 0.5 ||
             head.forward_survival[0].cut_off_share > 0.5;
    table.addRow({std::to_string(head.layer), std::to_string(head.head), tokensCell(head.rate_decay_time),
                  medianCell(head.backward_horizon[0]), medianCell(head.backward_horizon[1]),
                  medianCell(head.forward_survival[0]), attention(tokensCell(head.distance.d50)),
                  attention(tokensCell(head.distance.d90)), attention(fmt::format("{:.2f}", head.entropy)),
                  attention(fmt::format("{:.1f}", 100 * head.mass_on_first)),
                  attention(fmt::format("{:.1f}", 100 * head.mass_on_self))});
  }
  std::string text = fmt::format("{}, {} tokens; horizon, half-life and survival are medians over positions\n",
                                 report.model, countText(report.tokens));
  text += table.text();
  if (cutOff) text += "+: at more than half of the positions the text's start or end came first\n";
  return text;
}

std::string headsJson(const HeadsReport& report) {
  Json heads = Json::array();
  for (const HeadStatistics& head : report.heads) heads.push_back(headJson(head));
  const Json document{{"model", report.model}, {"tokens", report.tokens}, {"heads", std::move(heads)}};
  return document.dump(2) + '\n';
}

std::string headsCsv(const HeadsReport& report) {
  std::size_t events = 0;
  for (const HeadStatistics& head : report.heads) events = std::max(events, head.strongest_events.size());
  std::string text;
  for (const HeadStatistics& head : report.heads) {
    const Columns columns = headColumns(head, report.tokens, events);
    std::string names, values;
    for (const auto& [name, value] : columns) {
      names += (names.empty() ? "" : ",") + name;
      values += (values.empty() ? "" : ",") + value;
    }
    if (text.empty()) text = names + '\n';
    text += values + '\n';
  }
  return text;
}

}  // namespace foxscope::cli
