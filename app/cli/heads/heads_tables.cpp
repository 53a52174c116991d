#include "app/cli/heads/heads_tables.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "app/cli/console.h"
#include "app/cli/text_table.h"
#include "backend/base/count_text.h"
#include "backend/base/plural.h"
#include "backend/trace/mixer_text.h"

namespace foxscope::cli {
namespace {

// Tokens in as many digits as a reader compares.
std::string tokensCell(double value) {
  if (std::isinf(value)) return "inf";
  if (std::isnan(value)) return "-";
  return value < 100 ? fmt::format("{:.1f}", value) : count_text(std::llround(value));
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
                     count_text(report.tokens), plural(report.tokens, "token"));
}

/// A number with its standard error, where rows were sampled.
std::string withError(const std::string& number, std::optional<double> error, int places) {
  return error ? fmt::format("{} ±{}", number, numberCell(*error, places)) : number;
}

/// The same of tokens, in as many digits.
std::string tokensWithError(double value, std::optional<double> error) {
  return error ? fmt::format("{} ±{}", tokensCell(value), tokensCell(*error)) : tokensCell(value);
}

/// An error of a head, where rows were sampled.
std::optional<double> errorOf(const HeadStatistics& head, double SpreadErrors::*number) {
  return head.errors ? std::optional((*head.errors).*number) : std::nullopt;
}
std::optional<double> errorOf(const HeadStatistics& head, double ProfileErrors::*number) {
  return head.errors ? std::optional(head.errors->distance.*number) : std::nullopt;
}

std::string shareCell(double share, std::optional<double> error) {
  return withError(numberCell(100 * share, 1), error ? std::optional(100 * *error) : std::nullopt, 1);
}

using HeadColumn = TableColumn<ReportedHead>;

/// A column of what is known of every head.
template <typename Cell>
HeadColumn statistic(const char* title, const char* unit, Cell cell) {
  return {{title, unit}, [cell](const ReportedHead& head) { return cell(head.measures.statistics); }};
}

/// One that heads without attention have nothing to say of.
template <typename Cell>
HeadColumn ofAttention(const char* title, const char* unit, Cell cell) {
  return statistic(title, unit,
                   [cell](const HeadStatistics& head) { return head.has_attention ? cell(head) : std::string("-"); });
}

std::vector<HeadColumn> placeOfHead() {
  return {statistic("layer", "", [](const HeadStatistics& head) { return std::to_string(head.layer); }),
          statistic("head", "", [](const HeadStatistics& head) { return std::to_string(head.head); })};
}

HeadColumn decayTime() {
  return statistic("decay time", "tokens", [](const HeadStatistics& head) { return tokensCell(head.rate_decay_time); });
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

std::vector<HeadColumn> overviewColumns(const HeadsReport& report) {
  using Head = HeadStatistics;
  const TraceInfo& info = report.run->info();
  std::vector<HeadColumn> columns = placeOfHead();
  if (!info.mixers.empty() || has_windows(info)) {
    columns.push_back(statistic("mixer", "", [&info](const Head& head) { return mixer_text(info, head.layer); }));
  }
  columns.push_back(decayTime());
  const auto decaysByChannel = [](const ReportedHead& one) {
    return !one.measures.statistics.channel_log_decay.empty();
  };
  if (std::ranges::any_of(report.heads, decaysByChannel)) {
    columns.push_back(statistic("of channels", "tokens", spectrumCell));
  }
  columns.insert(
      columns.end(),
      {statistic("horizon 1/e", "tokens", [](const Head& head) { return medianCell(head.backward_horizon[0]); }),
       statistic("half-life", "tokens", [](const Head& head) { return medianCell(head.backward_horizon[1]); }),
       statistic("survival 1/e", "tokens", [](const Head& head) { return medianCell(head.forward_survival[0]); }),
       ofAttention(
           "d50", "tokens",
           [](const Head& head) { return tokensWithError(head.distance.d50, errorOf(head, &ProfileErrors::d50)); }),
       ofAttention(
           "d90", "tokens",
           [](const Head& head) { return tokensWithError(head.distance.d90, errorOf(head, &ProfileErrors::d90)); }),
       ofAttention("entropy", "nats",
                   [](const Head& head) {
                     return withError(numberCell(head.entropy, 2), errorOf(head, &SpreadErrors::entropy), 2);
                   }),
       ofAttention(
           "on key 0", "%",
           [](const Head& head) { return shareCell(head.mass_on_first, errorOf(head, &SpreadErrors::mass_on_first)); }),
       ofAttention("on self", "%", [](const Head& head) {
         return shareCell(head.mass_on_self, errorOf(head, &SpreadErrors::mass_on_self));
       })});
  const auto hasSink = [](const ReportedHead& one) { return one.measures.statistics.mass_on_sink.has_value(); };
  if (std::ranges::any_of(report.heads, hasSink)) {
    columns.push_back(ofAttention("on sink", "%", [](const Head& head) {
      if (!head.mass_on_sink) return std::string("-");
      return shareCell(*head.mass_on_sink, head.errors ? head.errors->mass_on_sink : std::nullopt);
    }));
  }
  if (!report.sortedBy.empty() && std::ranges::find(kOverview, report.sortedBy, &Titled::name) == kOverview.end()) {
    columns.push_back({{report.sortedBy}, [&report](const ReportedHead& head) { return sortedCell(report, head); }});
  }
  columns.push_back(statistic("labels", "", [](const Head& head) {
    const std::string labels = names_of(labels_of(head.label_scores), ", ");
    return labels.empty() ? "-" : labels;
  }));
  columns.back().align = TextTable::Align::left;
  return columns;
}

std::string overview(const HeadsReport& report) {
  const bool cutOff = std::ranges::any_of(report.heads, [](const ReportedHead& one) {
    const HeadStatistics& head = one.measures.statistics;
    return head.backward_horizon[0].cut_off_share > 0.5 || head.backward_horizon[1].cut_off_share > 0.5 ||
           head.forward_survival[0].cut_off_share > 0.5;
  });
  std::string text = fmt::format("{}; horizon, half-life and survival are medians over positions\n", ofRun(report));
  if (report.rows > 0) {
    text += fmt::format("attention by {} sampled rows of each head; ± is 1 standard error\n", count_text(report.rows));
  }
  text += tableText(overviewColumns(report), report.heads);
  text += fmt::format(
      "labels: what the scores of a head reach, the strongest first; foxscope heads --help says how. They are of {} "
      "tokens:\nscores depend on the length, and of another one a head may have others\n",
      count_text(report.run->info().length));
  if (cutOff) text += "+: at more than half of the positions the text's start or end came first\n";
  if (has_windows(report.run->info())) {
    text +=
        "window: no query sees further back, whatever its gate; decay time, horizon, half-life and survival are of the "
        "gate alone\n";
  }
  return text;
}

std::string splitTable(const HeadsReport& report) {
  std::vector<HeadColumn> columns = placeOfHead();
  columns.push_back(decayTime());
  const auto add = [&](const char* title, const char* unit, const auto& cell) {
    columns.push_back({{title, unit}, [cell](const ReportedHead& head) {
                         return head.measures.split ? cell(head.measures) : std::string("-");
                       }});
  };
  using Of = HeadMeasures;
  add("divergence", "nats", [](const Of& of) { return numberCell(of.split->divergence, 3); });
  add("locality", "octaves", [](const Of& of) { return numberCell(of.split->locality_without_first.total(), 2); });
  add("by content", "octaves",
      [](const Of& of) { return numberCell(of.split->locality_without_first.by_content(), 2); });
  add("by decay", "octaves", [](const Of& of) { return numberCell(of.split->locality_without_first.by_decay(), 2); });
  add("d50", "tokens", [](const Of& of) { return tokensCell(of.statistics.distance_without_first.d50); });
  add("ungated d50", "tokens",
      [](const Of& of) { return tokensCell(of.split->without_gate.distance_without_first.d50); });
  add("d90", "tokens", [](const Of& of) { return tokensCell(of.statistics.distance_without_first.d90); });
  add("ungated d90", "tokens",
      [](const Of& of) { return tokensCell(of.split->without_gate.distance_without_first.d90); });
  return fmt::format(
             "{}: what of attention is the gate's doing, key 0 left out\n"
             "divergence: of attention from attention without the gate; locality: how much nearer than a head that "
             "looks everywhere alike, split into content and decay\n",
             ofRun(report)) +
         tableText(columns, report.heads);
}

std::string classTable(const HeadsReport& report) {
  std::vector<HeadColumn> columns = placeOfHead();
  for (std::size_t n = 0; n < kTokenClasses; ++n) {
    const std::int64_t tokens = report.heads.empty() ? 0 : report.heads.front().measures.classes[n].count();
    const std::string count = report.heads.empty() ? "" : count_text(tokens) + ' ' + plural(tokens, "token");
    columns.push_back({{to_string(static_cast<TokenClass>(n)), count, "nats"}, [n](const ReportedHead& head) {
                         return numberCell(head.measures.classes[n].summary().mean_log_gate, 4);
                       }});
  }
  return fmt::format("{}: mean log f by class of the token that is read\n", ofRun(report)) +
         tableText(columns, report.heads);
}

std::string matchTable(const HeadsReport& report) {
  using Head = HeadStatistics;
  std::vector<HeadColumn> columns = placeOfHead();
  columns.push_back(statistic("d50", "tokens", [](const Head& head) { return tokensCell(head.distance.d50); }));
  columns.push_back(statistic("d90", "tokens", [](const Head& head) { return tokensCell(head.distance.d90); }));
  const char* const kOrder[] = {"nearest", "second", "third"};
  for (std::size_t n = 0; n < std::size(kOrder); ++n) {
    const auto add = [&](const char* title, const char* unit, const auto& cell) {
      columns.push_back({{title, unit}, [n, cell](const ReportedHead& head) {
                           return n < head.nearest.size() ? cell(head.nearest[n]) : std::string("-");
                         }});
    };
    add(kOrder[n], "layer:head",
        [](const NearestHead& other) { return fmt::format("{}:{}", other.layer, other.head); });
    add("apart", "octaves", [](const NearestHead& other) { return numberCell(other.octaves, 2); });
  }
  return fmt::format("{}: heads of {} with the nearest distance profiles\n", ofRun(report), report.matched) +
         tableText(columns, report.heads);
}

std::string scientificCell(double value) { return std::isfinite(value) ? fmt::format("{:.2e}", value) : "-"; }

/// The token that a position reads, in quotes; its id where there are no strings.
std::string readCell(const Trace& run, std::int64_t position) {
  const TokenTable& tokens = *run.tokens();
  const auto index = static_cast<std::size_t>(position);
  if (position == 0 && !tokens.first_string.empty()) return nlohmann::json(tokens.first_string).dump();
  // A position reads what the one before it predicts, but for what stands before the text.
  const bool ofText = position > 0 && index <= tokens.string.size() && tokens.id[index - 1] == tokens.input_id[index];
  return ofText ? nlohmann::json(tokens.string[index - 1]).dump() : fmt::format("id {}", tokens.input_id[index]);
}

std::string saliencyTable(const HeadsReport& report) {
  const bool gated = forgets(report.run->info());
  std::vector<HeadColumn> columns = placeOfHead();
  columns.push_back(decayTime());
  const auto add = [&](const char* title, const char* unit, double HeadSaliency::*number) {
    columns.push_back(statistic(
        title, unit, [number](const HeadStatistics& head) { return scientificCell(head.saliency.value().*number); }));
  };
  add("absolute", "nats", &HeadSaliency::absolute);
  add("scale", "nats", &HeadSaliency::scale);
  add("per nat", "nats/nat", &HeadSaliency::per_nat);
  const auto addOfLargest = [&](const char* title, const char* unit, const auto& cell) {
    columns.push_back(statistic(title, unit, [cell](const HeadStatistics& head) {
      const auto& events = head.saliency.value().events;
      return events.empty() ? std::string("-") : cell(events.front());
    }));
  };
  addOfLargest("largest", "nats/nat", [](const SaliencyEvent& event) { return scientificCell(event.saliency); });
  addOfLargest("position", "", [](const SaliencyEvent& event) { return std::to_string(event.position); });
  addOfLargest("reads", "", [&](const SaliencyEvent& event) { return readCell(*report.run, event.position); });
  columns.back().align = TextTable::Align::left;
  const std::string target = saliency_target_words(report.run->info());
  return fmt::format(
             "{}: saliency, g = the gradient of {} by log f of each token{}\n"
             "scale: sum of g log f; with all log f of the head 10 % smaller {} changes by -0.1 of it, to first order\n"
             "absolute: sum of |g log f|, where tokens that gain and tokens that lose do not cancel; per nat: mean of "
             "|g|\n"
             "what a head does without forgetting at all is no small change: `foxscope eval sweep` measures it\n",
             ofRun(report), target, gated ? "" : "; a model without gates: what a gate would change", target) +
         tableText(columns, report.heads);
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
