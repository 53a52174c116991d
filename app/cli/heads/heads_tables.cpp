#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "app/cli/console.h"
#include "app/cli/heads/heads_report.h"
#include "app/cli/text_table.h"
#include "app/description/number_text.h"
#include "backend/base/plural.h"
#include "backend/trace/mixer_text.h"

namespace foxscope::cli {
namespace {

constexpr std::size_t kNearestShown = 3;
// The columns that the overview shows whatever heads are sorted by.
constexpr std::array kShown = {
    "layer", "head", "rate_decay_time", "horizon_1_over_e_median", "horizon_half_median", "survival_1_over_e_median",
    "d50",   "d90",  "entropy",         "mass_on_first",           "mass_on_self"};

// Tokens in as many digits as a reader compares.
std::string tokensCell(double value) {
  if (std::isinf(value)) return "inf";
  if (std::isnan(value)) return "-";
  return value < 100 ? fmt::format("{:.1f}", value) : countText(std::llround(value));
}

std::string medianCell(const Quartiles& quartiles) {
  return tokensCell(quartiles.median) + (quartiles.cut_off_share > 0.5 ? "+" : "");
}

std::string numberCell(double value, int places) {
  if (std::isnan(value)) return "-";
  return std::isinf(value) ? "inf" : fmt::format("{:.{}f}", value, places);
}

/// "fox, 2,048 tokens": what a table is of, in front of what it says. A run that was opened unchecked is marked.
std::string ofRun(const HeadsReport& report) {
  return fmt::format("{}{}, {} {}", report.model, report.run->info().unchecked ? " (unchecked)" : "",
                     countText(report.tokens), plural(report.tokens, "token"));
}

// A table of numbers: all columns to the right, names above units.
TextTable numberTable(std::vector<std::string> header, std::vector<std::string> units) {
  const std::size_t columns = header.size();
  TextTable table(std::move(header), std::vector(columns, TextTable::Align::right));
  table.addRow(std::move(units));
  return table;
}

// The statistic that heads are sorted by, as a column of its own.
std::string sortedCell(const HeadsReport& report, const ReportedHead& head) {
  for (const auto& [name, value] : headColumns(report, head)) {
    if (name == report.sortedBy) return std::isnan(value) ? "-" : fmt::format("{:.4g}", value);
  }
  return "-";
}

// The range from the fastest channel's decay time to the slowest one's.
std::string spectrumCell(const HeadStatistics& head) {
  const std::vector<double> times = channel_decay_times(head);
  if (times.empty()) return "-";
  return fmt::format("{} to {}", tokensCell(times.front()), tokensCell(times.back()));
}

std::string overview(const HeadsReport& report) {
  std::vector<std::string> header = {"layer", "head", "decay time", "horizon 1/e", "half-life", "survival 1/e",
                                     "d50",   "d90",  "entropy",    "on key 0",    "on self"};
  std::vector<std::string> units = {"",       "",       "tokens", "tokens", "tokens", "tokens",
                                    "tokens", "tokens", "nats",   "%",      "%"};
  const bool shown =
      report.sortedBy.empty() || std::find(kShown.begin(), kShown.end(), report.sortedBy) != kShown.end();
  if (!shown) {
    header.push_back(report.sortedBy);
    units.emplace_back();
  }
  const TraceInfo& info = report.run->info();
  const bool mixed = !info.mixers.empty();
  if (mixed) {
    header.insert(header.begin() + 2, "mixer");
    units.insert(units.begin() + 2, "");
  }
  const bool spectra = std::ranges::any_of(
      report.heads, [](const ReportedHead& one) { return !one.measures.statistics.channel_log_decay.empty(); });
  if (spectra) {
    header.insert(header.begin() + 4, "of channels");
    units.insert(units.begin() + 4, "tokens");
  }
  header.emplace_back("labels");
  units.emplace_back();
  std::vector<TextTable::Align> align(header.size(), TextTable::Align::right);
  align.back() = TextTable::Align::left;
  TextTable table(std::move(header), std::move(align));
  table.addRow(std::move(units));
  bool cutOff = false;
  for (const ReportedHead& reported : report.heads) {
    const HeadStatistics& head = reported.measures.statistics;
    const auto attention = [&](const std::string& cell) { return head.has_attention ? cell : std::string("-"); };
    cutOff = cutOff || head.backward_horizon[0].cut_off_share > 0.5 || head.backward_horizon[1].cut_off_share > 0.5 ||
             head.forward_survival[0].cut_off_share > 0.5;
    std::vector<std::string> cells = {std::to_string(head.layer),
                                      std::to_string(head.head),
                                      tokensCell(head.rate_decay_time),
                                      medianCell(head.backward_horizon[0]),
                                      medianCell(head.backward_horizon[1]),
                                      medianCell(head.forward_survival[0]),
                                      attention(tokensCell(head.distance.d50)),
                                      attention(tokensCell(head.distance.d90)),
                                      attention(numberCell(head.entropy, 2)),
                                      attention(numberCell(100 * head.mass_on_first, 1)),
                                      attention(numberCell(100 * head.mass_on_self, 1))};
    if (mixed) cells.insert(cells.begin() + 2, mixer_text(info, head.layer));
    if (spectra) cells.insert(cells.begin() + 4, spectrumCell(head));
    if (!shown) cells.push_back(sortedCell(report, reported));
    const std::string labels = names_of(labels_of(head.label_scores), ", ");
    cells.push_back(labels.empty() ? "-" : labels);
    table.addRow(std::move(cells));
  }
  std::string text = fmt::format("{}; horizon, half-life and survival are medians over positions\n", ofRun(report));
  text += table.text();
  text += "labels: what the scores of a head reach, the strongest first; foxscope heads --help says how\n";
  if (cutOff) text += "+: at more than half of the positions the text's start or end came first\n";
  return text;
}

std::string splitTable(const HeadsReport& report) {
  TextTable table =
      numberTable({"layer", "head", "decay time", "divergence", "locality", "by content", "by decay", "d50",
                   "ungated d50", "d90", "ungated d90"},
                  {"", "", "tokens", "nats", "octaves", "octaves", "octaves", "tokens", "tokens", "tokens", "tokens"});
  for (const ReportedHead& reported : report.heads) {
    const HeadStatistics& head = reported.measures.statistics;
    std::vector<std::string> cells = {std::to_string(head.layer), std::to_string(head.head),
                                      tokensCell(head.rate_decay_time)};
    if (const auto& split = reported.measures.split) {
      const Locality& locality = split->locality_without_first;
      const DistanceProfile& ungated = split->without_gate.distance_without_first;
      cells.insert(cells.end(), {numberCell(split->divergence, 3), numberCell(locality.total(), 2),
                                 numberCell(locality.by_content(), 2), numberCell(locality.by_decay(), 2),
                                 tokensCell(head.distance_without_first.d50), tokensCell(ungated.d50),
                                 tokensCell(head.distance_without_first.d90), tokensCell(ungated.d90)});
    } else {
      cells.resize(11, "-");
    }
    table.addRow(std::move(cells));
  }
  return fmt::format(
             "{}: what of attention is the gate's doing, key 0 left out\n"
             "divergence: of attention from attention without the gate; locality: how much nearer than a head that "
             "looks everywhere alike, split into content and decay\n",
             ofRun(report)) +
         table.text();
}

std::string classTable(const HeadsReport& report) {
  std::vector<std::string> header = {"layer", "head"};
  std::vector<std::string> units = {"", ""};
  std::vector<std::string> counts = {"", ""};
  for (std::size_t n = 0; n < kTokenClasses; ++n) {
    header.emplace_back(to_string(static_cast<TokenClass>(n)));
    units.emplace_back("nats");
    const std::int64_t tokens = report.heads.empty() ? 0 : report.heads.front().measures.classes[n].count();
    counts.push_back(report.heads.empty() ? "" : fmt::format("{} {}", countText(tokens), plural(tokens, "token")));
  }
  TextTable table = numberTable(std::move(header), std::move(counts));
  table.addRow(std::move(units));
  for (const ReportedHead& head : report.heads) {
    std::vector<std::string> cells = {std::to_string(head.measures.statistics.layer),
                                      std::to_string(head.measures.statistics.head)};
    for (const GateTally& tally : head.measures.classes) cells.push_back(numberCell(tally.summary().mean_log_gate, 4));
    table.addRow(std::move(cells));
  }
  return fmt::format("{}: mean log f by class of the token that is read\n", ofRun(report)) + table.text();
}

std::string matchTable(const HeadsReport& report) {
  std::vector<std::string> header = {"layer", "head", "d50", "d90"};
  std::vector<std::string> units = {"", "", "tokens", "tokens"};
  for (std::size_t n = 0; n < kNearestShown; ++n) {
    header.insert(header.end(), {n == 0 ? "nearest" : n == 1 ? "second" : "third", "apart"});
    units.insert(units.end(), {"layer:head", "octaves"});
  }
  TextTable table = numberTable(std::move(header), std::move(units));
  for (const ReportedHead& reported : report.heads) {
    const HeadStatistics& head = reported.measures.statistics;
    std::vector<std::string> cells = {std::to_string(head.layer), std::to_string(head.head),
                                      tokensCell(head.distance.d50), tokensCell(head.distance.d90)};
    for (std::size_t n = 0; n < kNearestShown && n < reported.nearest.size(); ++n) {
      const NearestHead& other = reported.nearest[n];
      cells.insert(cells.end(), {fmt::format("{}:{}", other.layer, other.head), numberCell(other.octaves, 2)});
    }
    cells.resize(4 + 2 * kNearestShown, "-");
    table.addRow(std::move(cells));
  }
  return fmt::format("{}: heads of {} with the nearest distance profiles\n", ofRun(report), report.matched) +
         table.text();
}

std::string scientificCell(double value) { return std::isfinite(value) ? fmt::format("{:.2e}", value) : "-"; }

/// The token that a position reads, in quotes; its id where there are no strings.
std::string readCell(const Trace& run, std::int64_t position) {
  const TokenTable& tokens = *run.tokens();
  const auto index = static_cast<std::size_t>(position);
  // A position reads what the one before it predicts, but for what stands before the text.
  const bool ofText = position > 0 && index <= tokens.string.size() && tokens.id[index - 1] == tokens.input_id[index];
  return ofText ? nlohmann::json(tokens.string[index - 1]).dump() : fmt::format("id {}", tokens.input_id[index]);
}

std::string saliencyTable(const HeadsReport& report) {
  const bool gated = forgets(report.run->info());
  TextTable table({"layer", "head", "decay time", "absolute", "scale", "per nat", "largest", "position", "reads"},
                  {TextTable::Align::right, TextTable::Align::right, TextTable::Align::right, TextTable::Align::right,
                   TextTable::Align::right, TextTable::Align::right, TextTable::Align::right, TextTable::Align::right,
                   TextTable::Align::left});
  table.addRow({"", "", "tokens", "nats", "nats", "nats/nat", "nats/nat", "", ""});
  for (const ReportedHead& reported : report.heads) {
    const HeadStatistics& head = reported.measures.statistics;
    const HeadSaliency& saliency = head.saliency.value();
    std::vector<std::string> cells = {std::to_string(head.layer),
                                      std::to_string(head.head),
                                      tokensCell(head.rate_decay_time),
                                      scientificCell(saliency.absolute),
                                      scientificCell(saliency.scale),
                                      scientificCell(saliency.per_nat),
                                      "-",
                                      "-",
                                      "-"};
    if (!saliency.events.empty()) {
      const SaliencyEvent& largest = saliency.events.front();
      cells[6] = scientificCell(largest.saliency);
      cells[7] = std::to_string(largest.position);
      cells[8] = readCell(*report.run, largest.position);
    }
    table.addRow(std::move(cells));
  }
  const std::string target = saliency_target_words(report.run->info());
  return fmt::format(
             "{}: saliency, g = the gradient of {} by log f of each token{}\n"
             "scale: sum of g log f; with all log f of the head 10 % smaller {} changes by -0.1 of it, to first order\n"
             "absolute: sum of |g log f|, where tokens that gain and tokens that lose do not cancel; per nat: mean of "
             "|g|\n"
             "what a head does without forgetting at all is no small change: `foxscope eval sweep` measures it\n",
             ofRun(report), target, gated ? "" : "; a model without gates: what a gate would change", target) +
         table.text();
}

void addTables(const HeadsReport& report, std::vector<std::string>& tables) {
  const std::size_t before = tables.size();
  if (report.split) tables.push_back(splitTable(report));
  if (report.classes) tables.push_back(classTable(report));
  if (!report.matched.empty()) tables.push_back(matchTable(report));
  if (report.saliency) tables.push_back(saliencyTable(report));
  if (tables.size() == before) tables.push_back(overview(report));
}

}  // namespace

std::string headsTables(std::span<const HeadsReport> reports) {
  std::vector<std::string> tables;
  for (const HeadsReport& report : reports) addTables(report, tables);
  return fmt::format("{}", fmt::join(tables, "\n"));
}

}  // namespace foxscope::cli
