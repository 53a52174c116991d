#include "app/figure/kinds/distance.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <utility>

#include <fmt/format.h>

#include "app/figure/curves/curve_panel.h"
#include "app/figure/figure_request.h"
#include "app/figure/figure_words.h"
#include "app/figure/kinds/evaluated_heads.h"
#include "app/figure/legend_panel.h"
#include "app/figure/page/panel_page.h"
#include "backend/base/count_text.h"
#include "backend/base/index.h"

namespace foxscope::figure {
namespace {

constexpr double kLeastLogit = -12;  ///< nats; below, nothing is left of a weight

/// One line of a panel.
struct Line {
  const char* array;
  const char* name;
  int colour;
  LineStyle line;
};
constexpr Line kMasses[] = {{"mass", "with the gate", 0, LineStyle::solid},
                            {"mass_without_gate", "without it", 1, LineStyle::dashed},
                            {"mass_without_content", "decay alone", 2, LineStyle::dotted}};
constexpr Line kLogits[] = {{"logit_content", "content", 1, LineStyle::dashed},
                            {"logit_decay", "decay", 2, LineStyle::dotted}};

/// Middles of the bins that are drawn on a logarithmic axis, of 1 + distance.
std::vector<double> middles(const EvaluatedHeads& model) {
  std::vector<double> places;
  for (const DistanceBin& bin : std::span(model.distances).first(drawn_bins(model.distances))) {
    places.push_back(std::sqrt(static_cast<double>(1 + bin.from) * static_cast<double>(bin.to)));
  }
  return places;
}

/// The meaning of a bin's value: sums over their distances, which are drawn by the octave, or means.
enum class Bins { sums, means };

Curve curveOf(const EvaluatedHeads& model, const HeadArray& array, std::size_t head, const Line& line, Bins kind) {
  const std::size_t first = head * model.distances.size();
  Curve curve;
  curve.name = line.name;
  curve.colour = line.colour;
  curve.line = line.line;
  curve.x = middles(model);
  bool known = false;
  for (std::size_t bin = 0; bin < curve.x.size(); ++bin) {
    const double width = kind == Bins::sums ? octaves(model.distances[bin]) : 1;
    const double value = array.value[first + bin] / width;
    const double error = array.error[first + bin] / width;
    known = known || !std::isnan(error);
    curve.y.push_back(value);
    curve.bandLower.push_back(value - error);
    curve.bandUpper.push_back(value + error);
  }
  if (!known) curve.bandLower = curve.bandUpper = {};
  return curve;
}

/// Whether a head's attention is split into content and decay: not that of linear mixers, which have no logits.
bool splits(const EvaluatedHeads& model, const HeadIndex& head) { return model.info.mixer(head.layer).has_softmax(); }

/// Whether it is drawn in parts: the decay of a head that does not forget is nothing.
bool hasParts(const EvaluatedHeads& model, const HeadIndex& head) {
  return splits(model, head) && forgets(model.info, head.layer);
}

CurvePlot emptyPlot(const EvaluatedHeads& model, bool first) {
  CurvePlot plot;
  plot.xLabel = "1 + distance (tokens)";
  plot.xScale = AxisScale::logarithmic;
  // One token alone has no other distance than 0.
  plot.xLimits = AxisLimits{1, static_cast<double>(std::max<std::int64_t>(2, model.info.length))};
  plot.heightOfWidth = 0.85;
  if (!first) plot.yLabel.clear();
  return plot;
}

/// @param logits  whether they are drawn below
CurvePlot massPlot(const EvaluatedHeads& model, const DistanceOptions& options, const HeadIndex& head, bool first,
                   bool logits) {
  CurvePlot plot = emptyPlot(model, first);
  plot.title = headTitle(head);
  plot.quantity = "attention per octave";
  if (first) plot.yLabel = plot.quantity;
  if (logits) plot.xLabels = CurvePlot::XLabels::hidden;
  const char* const suffix = options.first == FirstKey::left_out ? "_without_first" : "";
  for (const Line& line : kMasses) {
    if (line.colour > 0 && !hasParts(model, head)) break;
    const HeadArray& array = requireArray(model, model.by_distance, (std::string(line.array) + suffix).c_str());
    plot.curves.push_back(curveOf(model, array, placeOf(model, head), line, Bins::sums));
  }
  return plot;
}

CurvePlot logitPlot(const EvaluatedHeads& model, const HeadIndex& head, bool first) {
  CurvePlot plot = emptyPlot(model, first);
  plot.quantity = "mean logit (nats)";
  if (first) plot.yLabel = plot.quantity;
  plot.level = 0;
  for (const Line& line : kLogits) {
    if (!forgets(model.info, head.layer) && line.colour == 2) break;
    plot.curves.push_back(
        curveOf(model, requireArray(model, model.by_distance, line.array), placeOf(model, head), line, Bins::means));
  }
  return plot;
}

/// The head without a gate, in a model that has gates elsewhere, whose distance of half its attention is in the middle.
std::optional<Reach> headWithoutDecay(const EvaluatedHeads& model) {
  if (!forgets(model.info) || layersWithoutGate(model.info).empty()) return std::nullopt;
  const HeadArray& half = requireArray(model, model.numbers, "d50");
  std::vector<Reach> reaches;
  for (std::size_t place = 0; place < model.head_count(); ++place) {
    const auto layer = static_cast<int>(place) / model.info.heads;
    if (!model.has_head(place) || forgets(model.info, layer) || std::isnan(half.value[place])) continue;
    reaches.push_back({{layer, static_cast<int>(place) % model.info.heads}, half.value[place]});
  }
  if (reaches.empty()) return std::nullopt;
  std::ranges::stable_sort(reaches, std::less<>(), &Reach::tokens);
  return reaches[reaches.size() / 2];
}

/// Heads of short to long memory, and one without any decay where the model has such heads beside them.
ChosenHeads headsFor(const EvaluatedHeads& model) {
  ChosenHeads choice = representativeHeads(model);
  if (const auto other = headWithoutDecay(model)) {
    choice.heads.push_back(other->head);
    choice.note += fmt::format("; of layers without a gate {}:{}, half of whose attention is within {} tokens",
                               other->head.layer, other->head.head, tokens_text(other->tokens));
  }
  choice.note += "; --heads chooses others";
  return choice;
}

/// The same limits for all plots of a row, so that heads can be compared.
void shareLimits(std::vector<CurvePlot>& plots, double least) {
  AxisLimits limits{0, 0};
  for (const CurvePlot& plot : plots) {
    for (const Curve& curve : plot.curves) {
      for (const double y : curve.y) {
        if (std::isnan(y)) continue;
        limits.lower = std::min(limits.lower, y);
        limits.upper = std::max(limits.upper, y);
      }
    }
  }
  limits.lower = std::max(limits.lower, least);
  if (limits.lower == limits.upper)
    limits.upper = 1;  // nothing but 0, or nothing at all: there is an axis all the same
  const double room = 0.06 * (limits.upper - limits.lower);
  limits.upper += room;
  if (limits.lower < 0) limits.lower -= room;
  for (CurvePlot& plot : plots) plot.yLimits = limits;
}

/// Whether key 0 is left out; what bands are and what they are over, or that there are none although there are several
/// documents.
std::string massNote(const EvaluatedHeads& model, const std::vector<CurvePlot>& plots, FirstKey first) {
  const bool bands =
      std::any_of(plots.begin(), plots.end(), [](const CurvePlot& plot) { return haveBands(plot.curves); });
  const ErrorGroups over = model.documents();
  std::string note = first == FirstKey::left_out ? "key 0 left out" : "";
  if (!bands && over.count <= 1) return note;
  if (!note.empty()) note += '\n';
  return note + (bands ? "bands: ± 1 standard error over " : "no bands: ") + groups_text(over);
}

/// The legend of a row, whose panels are then without one of their own.
std::unique_ptr<LegendPanel> legendOf(std::vector<CurvePlot>& plots, std::string note, const FigureStyle& style) {
  const auto fewer = [](const CurvePlot& a, const CurvePlot& b) { return a.curves.size() < b.curves.size(); };
  std::vector<Curve> named = std::ranges::max_element(plots, fewer)->curves;
  if (named.size() < 2) named.clear();
  for (CurvePlot& plot : plots) {
    for (Curve& curve : plot.curves) curve.series = std::exchange(curve.name, {});
  }
  if (style.legend == LegendPlace::none) return std::make_unique<LegendPanel>(style.format, std::vector<Curve>(), "");
  return std::make_unique<LegendPanel>(style.format, std::move(named), std::move(note));
}

}  // namespace

DrawnFigure drawDistance(const EvaluatedHeads& model, const DistanceOptions& options, const FigureStyle& style) {
  DrawnFigure drawn;
  if (model.windows) drawn.notes.push_back(errors_text(model.documents()));
  if (options.first == FirstKey::left_out) {
    drawn.notes.push_back("attention on key 0 is left out: --with-first counts it");
  }
  std::vector<HeadIndex> heads = options.heads;
  if (heads.empty()) {
    ChosenHeads choice = headsFor(model);
    heads = std::move(choice.heads);
    drawn.notes.push_back(std::move(choice.note));
  }
  std::vector<CurvePlot> masses, logits;
  for (const HeadIndex& head : heads) (void)placeOf(model, head);
  const bool split = std::ranges::all_of(heads, [&](const HeadIndex& head) { return splits(model, head); });
  const bool linear = std::ranges::none_of(heads, [&](const HeadIndex& head) { return splits(model, head); });
  if (!split && !linear) drawn.notes.push_back("mean logits are left out: not all of these heads have a softmax");
  for (const HeadIndex& head : heads) {
    masses.push_back(massPlot(model, options, head, masses.empty(), split));
    if (split) logits.push_back(logitPlot(model, head, logits.empty()));
  }
  shareLimits(masses, 0);
  shareLimits(logits, kLeastLogit);
  PanelPage page(style);
  int row = 0;
  for (std::vector<CurvePlot>* plots : {&masses, &logits}) {
    if (plots->empty()) continue;
    const auto count = static_cast<int>(heads.size());
    page.add(legendOf(*plots, row == 0 ? massNote(model, *plots, options.first) : "", style), {row, 0, 1, count});
    ++row;
    for (int n = 0; n < count; ++n) {
      page.add(std::make_unique<CurvePanel>(style.format, std::move((*plots)[index_of(n)])), {row, n});
    }
    ++row;
  }
  page.arrange();
  FigureOrigin origin = originOf({&model, 1}, style, "Attention against distance");
  for (const HeadIndex& head : heads) origin.facts.emplace_back("head", headTitle(head));
  drawn.file = page.paint(origin);
  return drawn;
}

std::optional<DrawnFigure> drawDistance(FigureRequest& request) {
  const auto models = request.heads();
  if (!models) return std::nullopt;
  DistanceOptions options;
  for (const std::string& text : request.spec.list("heads")) options.heads.push_back(parseHead("--heads", text));
  options.first = request.spec.has("with-first") ? FirstKey::counted : FirstKey::left_out;
  return drawDistance(request.model(*models), options, request.style);
}

}  // namespace foxscope::figure
