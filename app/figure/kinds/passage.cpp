#include "app/figure/kinds/passage.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "app/figure/figure_origin.h"
#include "app/figure/figure_request.h"
#include "app/figure/figure_words.h"
#include "app/figure/heads/head_choice.h"
#include "app/figure/kinds/passage_words.h"
#include "app/figure/maps/map_panel.h"
#include "app/figure/page/panel_page.h"
#include "app/figure/text_panel.h"
#include "app/figure/token_text.h"
#include "backend/base/error.h"
#include "backend/base/number_ranges.h"
#include "backend/trace/run_origin.h"

namespace foxscope::figure {
namespace {

constexpr double kMostSharesShown = 0.98;  ///< of the values lie within the scale: a few extremes must not bleach it
constexpr double kUntinted = 0.25;         ///< of the gates forget least
constexpr double kLeastRatio = 2;          ///< of a logarithmic scale's limits
const double kNone = std::numeric_limits<double>::quiet_NaN();

// Values of the positions of a range.
std::optional<std::vector<double>> valuesOf(const HeadOf& head, const PassageOptions& options, const Range& range,
                                            const Job& job) {
  std::vector<double> values(static_cast<std::size_t>(range.size()), kNone);
  const auto index = [](std::int64_t position) { return static_cast<std::size_t>(position); };
  if (options.tint == PassageTint::loss) {
    const auto loss = head.trace->per_token_loss();
    if (loss.empty()) {
      const TraceInfo& info = head.trace->info();
      throw Error(fmt::format("{}: losses were not kept: {}", info.name, losses_remedy(info)));
    }
    for (std::int64_t p = range.begin; p < range.end; ++p) values[index(p - range.begin)] = loss[index(p)];
    return values;
  }
  if (options.tint == PassageTint::gate) {
    const auto c = head.trace->cumulative_log_gate(head.layer, head.head);
    for (std::int64_t p = range.begin; p < range.end; ++p) {
      values[index(p - range.begin)] = -std::expm1(c[index(p)] - (p > 0 ? c[index(p - 1)] : 0));
    }
    return values;
  }
  MapRequest request;
  request.head = head;
  request.quantity = options.tint == PassageTint::forget ? Quantity::forget : Quantity::attention;
  request.rows = {*options.query, *options.query + 1};
  request.columns = range;
  request.pixel_rows = 1;
  request.pixel_columns = range.size();
  const auto row = compute_map(request, job);
  if (!row) return std::nullopt;
  std::copy(row->value.begin(), row->value.end(), values.begin());
  return values;
}

std::string quoted(const Trace& trace, std::int64_t position) {
  return "“" + readText(*trace.tokens(), position, Whitespace::visible).toStdString() + "”";
}

std::string labelOf(const HeadOf& head, const PassageOptions& options) {
  const std::string of = fmt::format("layer {}, head {}", head.layer, head.head);
  switch (options.tint) {
    case PassageTint::loss:
      return "loss (nats)";
    case PassageTint::gate:
      return fmt::format("share forgotten 1 − *f*, {}", of);
    case PassageTint::forget:
      return fmt::format("*F* from position {}, {}", *options.query, of);
    case PassageTint::attention:
      return fmt::format("*A* from position {}, {}", *options.query, of);
  }
  return "";
}

// The value below which a share of them lies.
double quantile(std::vector<double>& values, double share) {
  const auto place = values.begin() + static_cast<std::ptrdiff_t>(share * static_cast<double>(values.size() - 1));
  std::nth_element(values.begin(), place, values.end());
  return *place;
}

ScaledColours coloursOf(const std::vector<double>& values, PassageTint tintedBy) {
  ScaledColours colours;
  colours.map = &tint();
  std::vector<double> finite;
  std::copy_if(values.begin(), values.end(), std::back_inserter(finite), [](double v) { return std::isfinite(v); });
  if (tintedBy == PassageTint::forget || finite.empty()) return colours;
  const double upper = quantile(finite, kMostSharesShown);
  colours.upper = upper > 0 ? upper : 1;
  if (tintedBy != PassageTint::gate) return colours;
  // Heads forget from a millionth to all of it at a token: what a head forgets by its own measure is what is seen.
  const double lower = quantile(finite, kUntinted);
  if (lower > 0 && upper > kLeastRatio * lower) {
    colours.scale = ColourScale::logarithmic;
    colours.lower = lower;
  }
  return colours;
}

/// A text whose tokens are all tinted alike says nothing.
void requireDecay(const TraceInfo& info, const HeadIndex& head) {
  if (forgets(info, head.layer)) return;
  std::vector<int> gated;
  for (int layer = 0; layer < info.layers; ++layer) {
    if (forgets(info, layer)) gated.push_back(layer);
  }
  throw UsageError(fmt::format(
      "figure text: head {} of {} has no gate, f is 1 everywhere: use --tint loss or attention{}", wordOf(head),
      info.name, gated.empty() ? "" : fmt::format(", or --head of the layers {}, which have one", ranges_text(gated))));
}

void requireQuery(const PassageOptions& options, std::int64_t length) {
  if (options.query && (*options.query < 0 || *options.query >= length)) {
    throw UsageError(fmt::format("position {}: the text has 0 to {}", *options.query, length - 1));
  }
}

}  // namespace

std::optional<DrawnFigure> drawPassage(const RunOnDevice& trace, const PassageOptions& options,
                                       const FigureStyle& style, const Job& job) {
  DrawnFigure drawn;
  PassageOptions chosen = options;
  const std::int64_t length = trace->info().length;
  const Range range = chosen.positions.value_or(Range{0, std::min(length, kPassageTokens)});
  const bool fromQuery = chosen.tint == PassageTint::forget || chosen.tint == PassageTint::attention;
  if (fromQuery && !chosen.query) chosen.query = range.end - 1;
  requirePositions(range, length);
  requireQuery(chosen, length);
  HeadOf head{trace, 0, 0};
  if (chosen.tint != PassageTint::loss) {
    if (!chosen.head) {
      const auto choice = representativeHeads(trace, job);
      if (!choice) return std::nullopt;
      chosen.head = choice->heads[choice->heads.size() / 2];
      drawn.notes.push_back(fmt::format("{}: {}:{} is drawn; --head chooses another", trace->info().name,
                                        chosen.head->layer, chosen.head->head));
    }
    trace->check_head(chosen.head->layer, chosen.head->head);
    head = {trace, chosen.head->layer, chosen.head->head};
    if (chosen.tint != PassageTint::attention) requireDecay(trace->info(), *chosen.head);
  }
  if (fromQuery && !options.query) {
    drawn.notes.push_back(fmt::format("from position {}, which reads {}; --position chooses another", *chosen.query,
                                      quoted(*trace, *chosen.query)));
  }
  const auto values = valuesOf(head, chosen, range, job);
  if (!values) return std::nullopt;
  ScaledColours colours = coloursOf(*values, chosen.tint);
  colours.label = labelOf(head, chosen);

  PanelPage page(style);
  PassageWords words{range};
  words.shown = chosen.tint == PassageTint::loss ? PassageWords::Shown::predicted : PassageWords::Shown::read;
  if (words.shown == PassageWords::Shown::read) words.outlined = chosen.query;
  page.add(std::make_unique<TextPanel>(style.format, tintedPieces(*trace, words, *values), colours), {0, 0, 1, 3});
  std::string label = colours.label;
  if (std::string beyond = beyondText(colours, *values); !beyond.empty()) {
    label = someBeyond(label);
    drawn.notes.push_back(std::move(beyond));
  }
  const bool narrow =
      textWidth(QString::fromStdString(label), textStyleOf(style.format)) > widthInPoints(style.format) / 3;
  ColourBarPanel& bar =
      page.add(std::make_unique<ColourBarPanel>(style.format), narrow ? PanelPlace{1, 0, 1, 3} : PanelPlace{1, 1});
  bar.setColours(colours, label, label);
  page.arrange();

  FigureOrigin origin;
  origin.title = style.title.empty() ? fmt::format("Passage read by {}", trace->info().name) : style.title;
  origin.command = style.command;
  origin.facts = {{"tint", labelOf(head, chosen)},
                  {"positions", fmt::format("{}:{}", range.begin, range.end)},
                  {"colours", fmt::format("from {:g} to {:g}", colours.lower, colours.upper)}};
  addRun(origin, *trace);
  drawn.file = page.paint(origin);
  return drawn;
}

std::optional<DrawnFigure> drawPassage(FigureRequest& request) {
  const FigureSpec& spec = request.spec;
  const auto chosen = request.run();
  if (!chosen) return std::nullopt;
  const RunOnDevice& run = *chosen;
  PassageOptions options;
  options.tint = choiceOf<PassageTint>(spec, "tint", {"loss", "gate", "forget", "attention"});
  options.head = headOf(spec, "head");
  options.positions = rangeOf(spec, "rows", run->info().length);
  options.query = integerOf(spec, "position");
  return drawPassage(run, options, request.style, request.job);
}

}  // namespace foxscope::figure
