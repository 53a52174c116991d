#include "app/figure/kinds/heads/scatter.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include <fmt/format.h>

#include "app/figure/curves/curve_panel.h"
#include "app/figure/figure_request.h"
#include "app/figure/figure_words.h"
#include "app/figure/heads/head_label_colour.h"
#include "app/figure/kinds/evaluated_heads.h"
#include "app/figure/kinds/training.h"
#include "app/figure/page/panel_page.h"
#include "backend/base/error.h"
#include "backend/base/index.h"
#include "backend/base/nearest_name.h"

namespace foxscope::figure {
namespace {

constexpr double kLogarithmicFrom = 50;  ///< ratio of the largest number to the smallest
constexpr double kRoomBeyond = 0.06;     ///< of an axis, so that no point lies on the frame
constexpr const char* kReach = "d90_without_first";
constexpr const char* kResets = "share_below_half";  ///< of an atlas without attention
constexpr int kMostLayersNamed = 6;
constexpr std::int64_t kMostNames = 20;
constexpr Rgb kWithoutLabel{150, 150, 150};

/// @param asked  empty: the usual one
const HeadArray& statistic(const EvaluatedHeads& model, const char* option, const std::string& asked,
                           const char* usual) {
  const std::string name = asked.empty() ? usual : asked;
  if (const HeadArray* found = find_array(model.numbers, name)) return *found;
  if (asked.empty()) {
    throw UsageError(
        fmt::format("model '{}': {} is not known without attention: choose another statistic with {}, or "
                    "run again with 'qk' and 'rows' in --keep",
                    model.info.name, name, option));
  }
  std::vector<std::string> names;
  for (const HeadArray& array : model.numbers) names.push_back(array.name);
  throw UsageError(fmt::format("{} {}: there is no such statistic{}: `foxscope heads --csv` names them", option, name,
                               nearest_question(name, names)));
}

/// "decay time (tokens)"
std::string axisOf(const HeadArray& statistic) {
  std::string words = statistic.name == "rate_decay_time" ? "decay time" : statistic.name;
  std::ranges::replace(words, '_', ' ');
  return statistic.unit.empty() || statistic.unit == "1" ? words : fmt::format("{} ({})", words, statistic.unit);
}

AxisScale scaleOf(const std::vector<double>& values) {
  const auto [lowest, highest] = std::ranges::minmax(values);
  return lowest > 0 && highest >= kLogarithmicFrom * lowest ? AxisScale::logarithmic : AxisScale::linear;
}

AxisLimits withRoomAround(const std::vector<double>& values, AxisScale scale) {
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

std::vector<Curve> curvesByLayer(const EvaluatedHeads& model, const std::vector<ScatterPoint>& points,
                                 std::vector<std::size_t>& curveOf) {
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
    curve.ownColour = layerColour(layer, model.info.layers);
  }
  for (const ScatterPoint& point : points)
    curveOf[point.head] = point.head / static_cast<std::size_t>(model.info.heads);
  return curves;
}

}  // namespace

DrawnFigure drawScatter(const EvaluatedHeads& model, const ScatterOptions& options, const FigureStyle& style) {
  if (model.numbers.empty()) {
    throw Error(fmt::format("model '{}': no number of its heads is known: none of them forgets", model.info.name));
  }
  const bool gated = forgets(model.info) && layersWithoutGate(model.info).empty();
  const HeadArray& x = statistic(model, "--x", options.x, gated ? "rate_decay_time" : "d50");
  const bool resetsAlone =
      find_array(model.numbers, kReach) == nullptr && find_array(model.numbers, kResets) != nullptr;
  const HeadArray& y = statistic(model, "--y", options.y, resetsAlone ? kResets : kReach);
  DrawnFigure drawn;
  std::vector<ScatterPoint> points;
  std::vector<double> across, up;
  std::size_t heads = 0;
  std::size_t left = 0;
  for (std::size_t head = 0; head < model.head_count(); ++head) {
    if (!model.has_head(head)) continue;
    ++heads;
    if (!std::isfinite(x.value[head]) || !std::isfinite(y.value[head])) {
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
    drawn.notes.push_back(fmt::format("{}: {} of {} heads are left out: {} or {} is not finite there", model.info.name,
                                      left, heads, x.name, y.name));
  }
  const auto labels = labelsOf(model);
  if (options.colours == ScatterOptions::Colours::label && !labels) {
    throw Error(fmt::format("model '{}': labels are not known: use --colour-by layer", model.info.name));
  }
  const bool byLabel =
      options.colours.value_or(labels ? ScatterOptions::Colours::label : ScatterOptions::Colours::layer) ==
      ScatterOptions::Colours::label;
  std::vector<std::size_t> curveOf(model.head_count());
  CurvePlot plot;
  plot.curves = byLabel ? curvesByLabel(*labels, points, curveOf) : curvesByLayer(model, points, curveOf);
  const std::vector<std::size_t> named = extremes(points, options.names);
  for (const ScatterPoint& point : points) {
    Curve& curve = plot.curves[curveOf[point.head]];
    curve.line = LineStyle::points;
    curve.x.push_back(point.x);
    curve.y.push_back(point.y);
    curve.pointNames.push_back(headWord(model, point.head));
    if (std::ranges::find(named, point.head) != named.end()) curve.writtenNames.push_back(curve.x.size() - 1);
  }
  plot.xLabel = axisOf(x);
  plot.yLabel = axisOf(y);
  plot.xScale = scaleOf(across);
  plot.yScale = scaleOf(up);
  plot.xLimits = withRoomAround(across, plot.xScale);
  plot.yLimits = withRoomAround(up, plot.yScale);
  plot.legend = LegendPlace::automatic;
  plot.heightOfWidth = 0.7;

  PanelPage page(style);
  page.add(std::make_unique<CurvePanel>(style.format, std::move(plot)), {});
  page.arrange();
  FigureOrigin origin = originOf({&model, 1}, style, "Heads by two statistics");
  origin.facts.emplace_back("across", x.name);
  origin.facts.emplace_back("up", y.name);
  drawn.file = page.paint(origin);
  return drawn;
}

std::optional<DrawnFigure> drawScatter(FigureRequest& request) {
  const FigureSpec& spec = request.spec;
  ScatterOptions options;
  options.x = spec.text("x");
  options.y = spec.text("y");
  if (spec.has("colour-by")) {
    options.colours = choiceOf<ScatterOptions::Colours>(spec, "colour-by", {"label", "layer"});
  }
  if (const auto names = integerOf(spec, "names")) {
    if (*names < 0 || *names > kMostNames) {
      throw UsageError(fmt::format("--names {}: use a number from 0 to {}", *names, kMostNames));
    }
    options.names = static_cast<std::size_t>(*names);
  }
  const auto models = request.heads();
  if (!models) return std::nullopt;
  return drawScatter(request.model(*models), options, request.style);
}

}  // namespace foxscope::figure
