#include "app/figure/kinds/heads/scatter.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "app/figure/curves/curve_panel.h"
#include "app/figure/figure_request.h"
#include "app/figure/figure_words.h"
#include "app/figure/heads/head_label_colour.h"
#include "app/figure/kinds/evaluated_heads.h"
#include "app/figure/kinds/training.h"
#include "app/figure/maps/map_panel.h"
#include "app/figure/page/panel_page.h"
#include "backend/base/error.h"
#include "backend/base/index.h"
#include "backend/base/nearest_name.h"

namespace foxscope::figure {
namespace {

constexpr double kMostLayer = 1e6;  ///< of the ends of colours

constexpr double kLogarithmicFrom = 50;  ///< ratio of the largest number to the smallest
constexpr double kRoomBeyond = 0.06;     ///< of an axis, so that no point lies on the frame
constexpr const char* kReach = "d90_without_first";
constexpr const char* kResets = "share_below_half";  ///< of an atlas without attention
constexpr int kMostLayersNamed = 6;
constexpr std::int64_t kMostNames = 20;
constexpr Rgb kWithoutLabel{150, 150, 150};
constexpr double kRingSize = 2.2;  ///< around the disc of a chosen head

/// "layer" and "head" of every head, which are numbers too.
HeadArray placesOf(const EvaluatedHeads& model, const std::string& name) {
  HeadArray places{name, "1", {}, {}};
  const auto heads = static_cast<std::size_t>(model.info.heads);
  for (std::size_t head = 0; head < model.head_count(); ++head) {
    places.value.push_back(static_cast<double>(name == "layer" ? head / heads : head % heads));
  }
  return places;
}

/// @param asked  empty: the usual one
HeadArray statistic(const EvaluatedHeads& model, const char* option, const std::string& asked, const char* usual) {
  const std::string name = asked.empty() ? usual : asked;
  if (const HeadArray* found = find_array(model.numbers, name)) return *found;
  if (name == "layer" || name == "head") return placesOf(model, name);
  if (asked.empty()) {
    throw UsageError(
        fmt::format("model '{}': {} is not known without attention: choose another statistic with {}, or "
                    "run again with 'qk' and 'rows' in --keep",
                    model.info.name, name, option));
  }
  std::vector<std::string> names;
  for (const HeadArray& array : model.numbers) names.push_back(array.name);
  throw UsageError(fmt::format("{} {}: there is no such statistic{}: `foxscope heads --csv` names them{}", option, name,
                               nearest_question(name, names),
                               option == std::string_view("--colour-by") ? ", and label and layer are known too" : ""));
}

/// "decay time (tokens)"
std::string axisOf(const HeadArray& statistic) {
  std::string words = statistic.name == "rate_decay_time" ? "decay time" : statistic.name;
  std::ranges::replace(words, '_', ' ');
  return statistic.unit.empty() || statistic.unit == "1" ? words : fmt::format("{} ({})", words, statistic.unit);
}

AxisScale scaleOf(const std::vector<double>& values, const std::optional<AxisScale>& chosen) {
  if (chosen) return *chosen;
  const auto [lowest, highest] = std::ranges::minmax(values);
  return lowest > 0 && highest >= kLogarithmicFrom * lowest ? AxisScale::logarithmic : AxisScale::linear;
}

/// Whether an axis of the chosen scale has a place for a value.
bool holds(const std::optional<AxisScale>& scale, double value) {
  return std::isfinite(value) && (scale != AxisScale::logarithmic || value > 0);
}

/// @throws UsageError for a logarithmic axis that does not begin above 0
AxisLimits limitsOf(const std::vector<double>& values, AxisScale scale, const std::optional<AxisLimits>& chosen,
                    const char* option) {
  if (chosen) {
    if (scale != AxisScale::logarithmic || chosen->lower > 0) return *chosen;
    throw UsageError(fmt::format("{} {}:{}: a logarithmic axis begins above 0", option, chosen->lower, chosen->upper));
  }
  auto [lowest, highest] = std::ranges::minmax(values);
  if (scale == AxisScale::logarithmic) {
    const double factor = std::pow(highest / lowest, kRoomBeyond);
    return {lowest / factor, highest * factor};
  }
  const double room = highest > lowest ? kRoomBeyond * (highest - lowest) : std::max(1e-9, 0.1 * std::abs(lowest));
  return {lowest - room, highest + room};
}

/// The strongest label of each head; nothing where labels are not known at all.
std::optional<std::vector<std::optional<HeadLabel>>> labelsOf(const EvaluatedHeads& model) {
  std::vector<std::optional<HeadLabel>> strongest;
  for (std::size_t head = 0; head < model.head_count(); ++head) {
    LabelScores scores = no_label_scores();
    for (int n = 0; n < kHeadLabels; ++n) {
      const HeadArray* array =
          find_array(model.numbers, std::string("label_") + text_of(static_cast<HeadLabel>(n)).key);
      if (array == nullptr) return std::nullopt;
      scores[index_of(n)] = array->value[head];
    }
    const std::vector<HeadLabel> labels = labels_of(scores);
    strongest.push_back(labels.empty() ? std::nullopt : std::optional(labels.front()));
  }
  return strongest;
}

/// One head with both numbers.
struct ScatterPoint {
  std::size_t head = 0;
  double x = 0;
  double y = 0;
};

/// The heads at the ends of the axes: the largest across first.
std::vector<std::size_t> extremes(const std::vector<ScatterPoint>& points, std::size_t names) {
  std::vector<std::size_t> chosen;
  const auto take = [&](auto number, auto before) {
    std::vector<ScatterPoint> sorted = points;
    std::ranges::stable_sort(sorted, before, number);
    // Equal heads are at no end.
    std::size_t count = std::min(names, sorted.size());
    while (count > 0 && count < sorted.size() && !before(sorted[count - 1].*number, sorted[count].*number)) --count;
    for (std::size_t n = 0; n < count; ++n) {
      if (std::ranges::find(chosen, sorted[n].head) == chosen.end()) chosen.push_back(sorted[n].head);
    }
  };
  take(&ScatterPoint::x, std::greater<>());
  take(&ScatterPoint::y, std::greater<>());
  take(&ScatterPoint::x, std::less<>());
  take(&ScatterPoint::y, std::less<>());
  return chosen;
}

/// Curves of points, one for each label that a head has, then those without; in shapes that differ in grey print.
std::vector<Curve> curvesByLabel(const std::vector<std::optional<HeadLabel>>& labels,
                                 const std::vector<ScatterPoint>& points, std::vector<std::size_t>& curveOf) {
  std::vector<Curve> curves;
  constexpr int kShapes = 7;
  for (int n = 0; n <= kHeadLabels; ++n) {
    const bool labelled = n < kHeadLabels;
    const auto label = static_cast<HeadLabel>(std::min(n, kHeadLabels - 1));
    Curve curve;
    curve.name = labelled ? text_of(label).name : "no label";
    curve.ownColour = labelled ? labelColour(label) : kWithoutLabel;
    curve.shape = static_cast<PointShape>(n % kShapes);
    bool any = false;
    for (const ScatterPoint& point : points) {
      const auto& own = labels[point.head];
      if (labelled ? own != label : own.has_value()) continue;
      curveOf[point.head] = curves.size();
      any = true;
    }
    if (any) curves.push_back(std::move(curve));
  }
  return curves;
}

std::vector<Curve> curvesByLayer(const EvaluatedHeads& model, const ScatterOptions& options,
                                 const std::vector<ScatterPoint>& points, std::vector<std::size_t>& curveOf) {
  const int first = static_cast<int>(std::clamp(options.colourLower.value_or(0), 0.0, kMostLayer));
  const int last = static_cast<int>(std::clamp(options.colourUpper.value_or(model.info.layers - 1), 0.0, kMostLayer));
  std::vector<Curve> curves(static_cast<std::size_t>(model.info.layers));
  std::vector<bool> drawn(curves.size());
  for (const ScatterPoint& point : points) drawn[point.head / static_cast<std::size_t>(model.info.heads)] = true;
  const auto layers = static_cast<int>(std::ranges::count(drawn, true));
  const int step = (layers + kMostLayersNamed - 1) / kMostLayersNamed;
  int place = 0;  // among the layers that are drawn
  for (int layer = 0; layer < model.info.layers; ++layer) {
    Curve& curve = curves[index_of(layer)];
    if (drawn[index_of(layer)] && place++ % step == 0) curve.name = fmt::format("layer {}", layer);
    curve.series = fmt::format("layer {}", layer);
    curve.ownColour = layerColour(std::clamp(layer, first, std::max(first, last)) - first, last - first + 1);
  }
  for (const ScatterPoint& point : points)
    curveOf[point.head] = point.head / static_cast<std::size_t>(model.info.heads);
  return curves;
}

/// The colours of a number over the heads that are drawn: diverging around 0 where it has both signs.
ScaledColours coloursOf(const HeadArray& number, const std::vector<ScatterPoint>& points,
                        const ScatterOptions& options) {
  const std::optional<AxisScale>& chosen = options.colourScale;
  std::vector<double> values;
  for (const ScatterPoint& point : points) {
    if (holds(chosen, number.value[point.head])) values.push_back(number.value[point.head]);
  }
  ScaledColours colours;
  colours.map = &viridis();
  colours.label = axisOf(number);
  if (values.empty()) return colours;
  const auto [least, most] = std::ranges::minmax(values);
  const double lowest = options.colourLower.value_or(least);
  const double highest = options.colourUpper.value_or(most);
  if (scaleOf(values, chosen) == AxisScale::logarithmic) {
    colours.scale = ColourScale::logarithmic;
    if (lowest <= 0) throw UsageError(fmt::format("--colour-limits {}: logarithmic colours begin above 0", lowest));
  }
  if (lowest < 0 && highest > 0) {
    colours.map = &diverging();
    colours.upper = std::max(-lowest, highest);
    colours.lower = -colours.upper;
  } else {
    colours.lower = lowest;
    colours.upper = highest > lowest ? highest : lowest + 1;
  }
  return colours;
}

/// A curve for each head, as each has a colour of its own.
std::vector<Curve> curvesByNumber(const HeadArray& number, const ScaledColours& colours, AxisScale scale,
                                  const std::vector<ScatterPoint>& points, std::vector<std::size_t>& curveOf) {
  std::vector<Curve> curves;
  for (const ScatterPoint& point : points) {
    const double value = number.value[point.head];
    curveOf[point.head] = curves.size();
    Curve& curve = curves.emplace_back();
    curve.series = fmt::format("{} {}", number.name, value);
    curve.ownColour = holds(scale, value) ? colours.colour(value) : kWithoutLabel;
  }
  return curves;
}

/// Rings around heads, which lie below the points.
Curve ringsAround(const EvaluatedHeads& model, const std::vector<std::size_t>& marked,
                  const std::vector<ScatterPoint>& points) {
  Curve rings;
  rings.name = "chosen";
  rings.ownColour = Rgb{0, 0, 0};
  rings.line = LineStyle::points;
  rings.shape = PointShape::ring;
  rings.pointSize = kRingSize;
  for (const ScatterPoint& point : points) {
    if (std::ranges::find(marked, point.head) == marked.end()) continue;
    rings.writtenNames.push_back(rings.x.size());
    rings.x.push_back(point.x);
    rings.y.push_back(point.y);
    rings.pointNames.push_back(headWord(model, point.head));
  }
  return rings;
}

std::optional<AxisScale> scaleChosen(const FigureSpec& spec, const std::string& option) {
  if (!spec.has(option)) return std::nullopt;
  const std::size_t place = placeOf(spec, option, {"auto", "linear", "log"});
  if (place == 0) return std::nullopt;
  return place == 1 ? AxisScale::linear : AxisScale::logarithmic;
}

}  // namespace

DrawnFigure drawScatter(const EvaluatedHeads& model, const ScatterOptions& options, const FigureStyle& style) {
  if (model.numbers.empty()) {
    throw Error(fmt::format("model '{}': no number of its heads is known: none of them forgets", model.info.name));
  }
  const bool gated = forgets(model.info) && layersWithoutGate(model.info).empty();
  const HeadArray x = statistic(model, "--x", options.x, gated ? "rate_decay_time" : "d50");
  const bool resetsAlone =
      find_array(model.numbers, kReach) == nullptr && find_array(model.numbers, kResets) != nullptr;
  const HeadArray y = statistic(model, "--y", options.y, resetsAlone ? kResets : kReach);
  DrawnFigure drawn;
  std::vector<ScatterPoint> points;
  std::vector<double> across, up;
  std::size_t heads = 0;
  std::size_t left = 0;
  for (std::size_t head = 0; head < model.head_count(); ++head) {
    if (!model.has_head(head)) continue;
    ++heads;
    if (!holds(options.xScale, x.value[head]) || !holds(options.yScale, y.value[head])) {
      ++left;
      continue;
    }
    points.push_back({head, x.value[head], y.value[head]});
    across.push_back(x.value[head]);
    up.push_back(y.value[head]);
  }
  if (points.empty()) {
    throw Error(fmt::format("model '{}': no head has both {} and {}: choose others by --x and --y", model.info.name,
                            x.name, y.name));
  }
  if (left > 0) {
    const bool above = options.xScale == AxisScale::logarithmic || options.yScale == AxisScale::logarithmic;
    drawn.notes.push_back(fmt::format("{}: {} of {} heads are left out: {} or {} is not {} there", model.info.name,
                                      left, heads, x.name, y.name, above ? "above 0 on a logarithmic axis" : "finite"));
  }
  const auto labels = labelsOf(model);
  const std::string colourBy = options.colourBy.empty() ? labels ? "label" : "layer" : options.colourBy;
  if (colourBy == "label" && (options.colourLower || options.colourUpper)) {
    throw UsageError("--colour-limits: labels have no ends: use --colour-by layer, or a statistic");
  }
  if (options.colourBy == "label" && !labels) {
    throw Error(fmt::format("model '{}': labels are not known: use --colour-by layer", model.info.name));
  }
  const bool byNumber = colourBy != "label" && colourBy != "layer";
  std::vector<std::size_t> curveOf(model.head_count());
  CurvePlot plot;
  ScaledColours colours;
  if (byNumber) {
    const HeadArray number = statistic(model, "--colour-by", colourBy, "");
    colours = coloursOf(number, points, options);
    const bool logarithmic = colours.scale == ColourScale::logarithmic;
    plot.curves =
        curvesByNumber(number, colours, logarithmic ? AxisScale::logarithmic : AxisScale::linear, points, curveOf);
  } else {
    plot.curves =
        colourBy == "label" ? curvesByLabel(*labels, points, curveOf) : curvesByLayer(model, options, points, curveOf);
  }
  std::vector<std::size_t> marked;
  for (const HeadIndex& head : options.marked) marked.push_back(placeOf(model, head));
  const std::vector<std::size_t> named = extremes(points, options.names);
  for (const ScatterPoint& point : points) {
    Curve& curve = plot.curves[curveOf[point.head]];
    curve.line = LineStyle::points;
    curve.x.push_back(point.x);
    curve.y.push_back(point.y);
    curve.pointNames.push_back(headWord(model, point.head));
    const bool ringed = std::ranges::find(marked, point.head) != marked.end();
    if (!ringed && std::ranges::find(named, point.head) != named.end())
      curve.writtenNames.push_back(curve.x.size() - 1);
  }
  Curve rings = ringsAround(model, marked, points);
  if (!rings.x.empty()) plot.curves.insert(plot.curves.begin(), std::move(rings));
  if (options.modelNamed) plot.title = style.label(model.info.name);
  plot.xLabel = axisOf(x);
  plot.yLabel = axisOf(y);
  plot.xScale = scaleOf(across, options.xScale);
  plot.yScale = scaleOf(up, options.yScale);
  plot.xLimits = limitsOf(across, plot.xScale, options.xLimits, "--x-limits");
  plot.yLimits = limitsOf(up, plot.yScale, options.yLimits, "--y-limits");
  plot.legend = LegendPlace::automatic;
  plot.heightOfWidth = 0.7;

  PanelPage page(style);
  page.add(std::make_unique<CurvePanel>(style.format, std::move(plot)), {0, 0});
  if (byNumber) {
    ColourBarPanel& bar = page.add(std::make_unique<ColourBarPanel>(style.format), {1, 0});
    bar.setColours(colours, colours.label, colours.label);
  }
  page.arrange();
  FigureOrigin origin = originOf({&model, 1}, style, "Heads by two statistics");
  origin.facts.emplace_back("across", x.name);
  origin.facts.emplace_back("up", y.name);
  origin.facts.emplace_back("colours", colourBy);
  drawn.file = page.paint(origin);
  return drawn;
}

std::optional<DrawnFigure> drawScatter(FigureRequest& request) {
  const FigureSpec& spec = request.spec;
  ScatterOptions options;
  options.x = spec.text("x");
  options.y = spec.text("y");
  options.colourBy = spec.text("colour-by");
  options.xScale = scaleChosen(spec, "x-scale");
  options.yScale = scaleChosen(spec, "y-scale");
  options.colourScale = scaleChosen(spec, "colour-scale");
  const CurveChoice axes = curvesOf(spec);
  options.xLimits = axes.xLimits;
  options.yLimits = axes.yLimits;
  if (spec.has("colour-limits")) {
    const auto [lower, upper] = parseOpenLimits("--colour-limits", spec.text("colour-limits"));
    options.colourLower = lower;
    options.colourUpper = upper;
  }
  for (const std::string& head : spec.list("heads")) options.marked.push_back(parseHead("--heads", head));
  if (const auto names = integerOf(spec, "names")) {
    if (*names < 0 || *names > kMostNames) {
      throw UsageError(fmt::format("--names {}: use a number from 0 to {}", *names, kMostNames));
    }
    options.names = static_cast<std::size_t>(*names);
  }
  const auto models = request.heads();
  if (!models) return std::nullopt;
  options.modelNamed = models->size() > 1 && !request.ofRuns();
  return drawScatter(request.model(*models), options, request.style);
}

}  // namespace foxscope::figure
