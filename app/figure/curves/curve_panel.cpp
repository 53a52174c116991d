#include "app/figure/curves/curve_panel.h"

#include <algorithm>
#include <array>
#include <cmath>

#include <fmt/format.h>

#include "app/figure/curves/curve_legend.h"
#include "app/figure/curves/curve_limits.h"
#include "app/figure/curves/curve_pen.h"
#include "app/figure/page/axis_drawing.h"

namespace foxscope::figure {
namespace {

constexpr int kMostTicks = 9;
constexpr int kMoreTicks = 2;        ///< than there is room for, where one label alone would be written
constexpr double kRawWidth = 0.05;   ///< of a curve, in font sizes, like all that follow
constexpr double kFaint = 0.3;       ///< share of the colour in a raw line's
constexpr double kBandAlpha = 0.22;  ///< bands lie over each other
constexpr double kBarWidth = 0.7;    ///< of a bar of errors, widths of a curve
constexpr double kPointRoom = 0.3;   ///< around the middle of a point, font sizes
constexpr double kMostLegend = 0.5;  ///< share of the axes that a legend above the curves may take
const QColor kGrid(232, 232, 232);
const QColor kMarker(110, 110, 110);

// Mixes a colour with white, without transparency, which some printers and SVG readers lack.
QColor mixedWithWhite(const QColor& colour, double share) {
  const auto mix = [share](int part) { return static_cast<int>(std::lround(255 + share * (part - 255))); };
  return {mix(colour.red()), mix(colour.green()), mix(colour.blue())};
}

void drawStrokes(Canvas& canvas, const std::vector<Stroke>& strokes, const QPen& pen) {
  for (const Stroke& stroke : strokes) {
    if (stroke.size() == 1) {
      canvas.disc({stroke[0].x, stroke[0].y}, pen.widthF(), pen.color());
      continue;
    }
    QPolygonF points;
    for (const CurvePoint& point : stroke) points.append({point.x, point.y});
    canvas.polyline(points, pen);
  }
}

QRectF rectOf(const PlotArea& area) { return {QPointF(area.left, area.top), QPointF(area.right, area.bottom)}; }

bool shown(const CurveMarker& marker, const PlotArea& area) {
  const double position = axisPosition(marker.x, area.x, area.xScale);
  return position >= 0 && position <= 1;
}

bool within(const std::optional<AxisLimits>& limits, double x) {
  return !limits || (x >= limits->lower && x <= limits->upper);
}

// The limit that leaves this share of the axis above the present one.
double raised(const AxisLimits& limits, AxisScale scale, double share) {
  if (scale == AxisScale::logarithmic) return limits.upper * std::pow(limits.upper / limits.lower, share / (1 - share));
  return limits.upper + (limits.upper - limits.lower) * share / (1 - share);
}

}  // namespace

/// Strokes of a curve on the page.
struct CurvePanel::Strokes {
  std::vector<Stroke> raw;
  std::vector<Stroke> smooth;
};

/// Where everything goes for one inner rectangle.
struct CurvePanel::Arrangement {
  QRectF inner;
  PlotArea area;
  Ticks xTicks;
  Ticks yTicks;
  double yLabels = 0;  ///< width of the y axis' tick labels
  std::vector<Strokes> strokes;
  QRectF box;  ///< of a legend inside the axes
  TextStyle legendStyle;
  std::vector<LegendEntry> legend;
  double above = 0;  ///< height of a legend above the axes
};

CurvePanel::CurvePanel(const FigureFormat& format, CurvePlot plot)
    : m_format(format), m_plot(std::move(plot)), m_style(textStyleOf(format)) {
  (void)limitsOfX(m_plot);
  (void)limitsOfY(m_plot);
}

CurvePanel::~CurvePanel() = default;

double CurvePanel::lineWidth() const { return lineWidthOf(m_format); }

std::vector<QString> CurvePanel::titleLines(double width) const {
  const std::string title = lettered(m_plot.title);
  if (title.empty()) return {};
  return titleLinesOf(title, m_style, width);
}

const CurvePanel::Arrangement& CurvePanel::arranged(const QRectF& inner) const {
  if (!m_arrangement || m_arrangement->inner != inner) m_arrangement = std::make_unique<Arrangement>(arrange(inner));
  return *m_arrangement;
}

CurvePanel::Arrangement CurvePanel::arrange(const QRectF& inner) const {
  Arrangement arrangement;
  arrangement.inner = inner;
  arrangement.area = {inner.left(),      inner.top(),       inner.right(), inner.bottom(),
                      limitsOfX(m_plot), limitsOfY(m_plot), m_plot.xScale, m_plot.yScale};
  chooseTicks(arrangement);
  trace(arrangement);
  placeLegend(arrangement);
  return arrangement;
}

std::string CurvePanel::acrossName() const {
  return m_plot.xLabels == CurvePlot::XLabels::hidden ? std::string() : m_plot.xLabel;
}

// As many ticks as stand apart, two at the least.
Ticks CurvePanel::xTicks(const PlotArea& area) const {
  for (int most = kMostTicks;; --most) {
    const bool positions = area.x.upper - area.x.lower >= 2 * most && area.x.upper < 1e7;
    Ticks ticks = area.xScale == AxisScale::logarithmic
                      ? logarithmicTicks(area.x.lower, area.x.upper, most)
                      : linearTicks(area.x.lower, area.x.upper, most, positions ? TickValues::whole : TickValues::any);
    const auto position = [&area](double value) { return axisPosition(value, area.x, area.xScale); };
    if (most <= 2 || labelsApart(ticks, position, area.right - area.left, m_style)) return ticks;
  }
}

void CurvePanel::chooseTicks(Arrangement& arrangement) const {
  const PlotArea& area = arrangement.area;
  arrangement.yTicks = {};
  const int mostY = std::clamp(static_cast<int>((area.bottom - area.top) / (2.2 * m_style.size)), 2, kMostTicks);
  if (!m_plot.yTicks.empty()) {
    arrangement.yTicks = ticksAt(m_plot.yTicks, area.y.lower, area.y.upper);
  } else if (area.yScale == AxisScale::logarithmic) {
    arrangement.yTicks = logarithmicTicks(area.y.lower, area.y.upper, mostY);
  } else {
    for (int most = mostY; most <= mostY + kMoreTicks && arrangement.yTicks.major.size() < 2; ++most) {
      arrangement.yTicks = linearTicks(area.y.lower, area.y.upper, most, TickValues::any);
    }
  }
  if (!m_plot.categories.empty()) {
    arrangement.xTicks = {};
    for (std::size_t index = 0; index < m_plot.categories.size(); ++index) {
      arrangement.xTicks.major.push_back({static_cast<double>(index), m_plot.categories[index]});
    }
  } else if (!m_plot.xTicks.empty()) {
    arrangement.xTicks = ticksAt(m_plot.xTicks, area.x.lower, area.x.upper);
  } else {
    arrangement.xTicks = xTicks(area);
  }
  if (m_plot.xLabels == CurvePlot::XLabels::hidden) {
    for (Tick& tick : arrangement.xTicks.major) tick.label.clear();
    arrangement.xTicks.factor.clear();
  }
  arrangement.yLabels = widestLabel(arrangement.yTicks, m_style);
}

void CurvePanel::trace(Arrangement& arrangement) const {
  const double column = 1 / dotsPerPoint(m_format);
  arrangement.strokes.clear();
  for (const Curve& curve : m_plot.curves) {
    Strokes strokes;
    if (curve.line != LineStyle::points) strokes.smooth = strokesOf(curve.x, curve.y, arrangement.area, column);
    if (!curve.rawY.empty()) strokes.raw = strokesOf(curve.x, curve.rawY, arrangement.area, column);
    arrangement.strokes.push_back(std::move(strokes));
  }
}

// Places the legend in the corner where it covers nothing; else above, with the curves lower; where their limits were
// chosen above the axes.
void CurvePanel::placeLegend(Arrangement& arrangement) const {
  arrangement.legendStyle = small();
  const Legend legend{m_plot.curves, m_plot.note};
  const QSizeF size = legendSize(legend, small());
  if (size.isEmpty() || m_plot.legend == LegendPlace::none) return;
  PlotArea& area = arrangement.area;
  const double gap = 0.4 * m_style.size;
  const double right = area.right - gap - size.width();
  const double lower = area.bottom - gap - size.height();
  const double upper = area.top + gap;
  const double left = area.left + gap;
  const std::array<QPointF, 4> corners = {{{right, upper}, {left, upper}, {right, lower}, {left, lower}}};
  const bool fits = right > left && lower > upper;
  const bool above = m_plot.legend == LegendPlace::above;
  for (const QPointF& corner : corners) {
    if (!fits || above || coveredBy({corner, size}, arrangement) > 0) continue;
    arrangement.box = {corner, size};
    arrangement.legend = stackedLegend(legend, arrangement.box, small());
    return;
  }
  // The legend stands beside the markers' lines if it can, and under their labels.
  const bool crossed = crossedByMarker({{right, upper}, size}, area) && !crossedByMarker({{left, upper}, size}, area);
  const double side = crossed ? left : right;
  const bool labelled = meetsLabel({{side, upper}, size}, area);
  const double below = gap + (labelled ? em::kLine * m_style.size : 0);
  const double share = (below + size.height() + gap) / (area.bottom - area.top);
  if (!fits || above || share > kMostLegend || m_plot.yLimits) {
    const double width = area.right - area.left;
    arrangement.legendStyle = legendStyle(legend, small(), width);
    const auto entries = flowingLegend(legend, {area.left, 0}, width, arrangement.legendStyle);
    arrangement.above = entries.back().place.bottom() + 0.2 * m_style.size;
    arrangement.legend =
        flowingLegend(legend, {area.left, area.top - arrangement.above}, width, arrangement.legendStyle);
    return;
  }
  arrangement.box = {{side, area.top + below}, size};
  arrangement.legend = stackedLegend(legend, arrangement.box, small());
  area.y.upper = raised(area.y, area.yScale, share);
  chooseTicks(arrangement);
  trace(arrangement);
}

// How many parts of curves, markers and their labels would lie under the legend.
std::size_t CurvePanel::coveredBy(const QRectF& legend, const Arrangement& arrangement) const {
  PlotArea box;
  box.left = legend.left();
  box.right = legend.right();
  box.top = legend.top();
  box.bottom = legend.bottom();
  std::size_t covered = 0;
  for (std::size_t index = 0; index < m_plot.curves.size(); ++index) {
    for (const Stroke& stroke : arrangement.strokes[index].raw) covered += segmentsInside(stroke, box);
    for (const Stroke& stroke : arrangement.strokes[index].smooth) covered += segmentsInside(stroke, box);
    const Curve& curve = m_plot.curves[index];
    const auto at = [&](const std::vector<double>& ys, std::size_t point) {
      const CurvePoint place = arrangement.area.at(curve.x[point], ys[point]);
      return legend.contains(place.x, place.y);
    };
    for (std::size_t point = 0; point < curve.x.size(); ++point) {
      if (curve.line == LineStyle::points && at(curve.y, point)) ++covered;
      if (!curve.bandLower.empty() && (at(curve.bandLower, point) || at(curve.bandUpper, point))) ++covered;
    }
  }
  if (m_plot.level) {
    const double y = arrangement.area.at(arrangement.area.x.upper, *m_plot.level).y;
    covered += y > legend.top() && y < legend.bottom() ? 1 : 0;
  }
  if (crossedByMarker(legend, arrangement.area) || meetsLabel(legend, arrangement.area)) ++covered;
  return covered;
}

bool CurvePanel::crossedByMarker(const QRectF& legend, const PlotArea& area) const {
  const double pad = em::kPad * m_style.size;
  return std::any_of(m_plot.markers.begin(), m_plot.markers.end(), [&](const CurveMarker& marker) {
    const double x = area.at(marker.x, area.y.lower).x;
    return shown(marker, area) && x > legend.left() - pad && x < legend.right() + pad;
  });
}

bool CurvePanel::meetsLabel(const QRectF& legend, const PlotArea& area) const {
  return std::any_of(m_plot.markers.begin(), m_plot.markers.end(), [&](const CurveMarker& marker) {
    return !marker.label.empty() && shown(marker, area) && labelBox(marker, area).intersects(legend);
  });
}

// Right of the line, or left of it where the page ends.
QRectF CurvePanel::labelBox(const CurveMarker& marker, const PlotArea& area) const {
  const double x = area.at(marker.x, area.y.lower).x;
  const double width = textWidth(QString::fromStdString(marker.label), small());
  const double gap = 0.3 * m_style.size;
  const double left = x + gap + width <= area.right ? x + gap : x - gap - width;
  return {left, area.top + 0.2 * m_style.size, width, em::kLine * m_style.size};
}

Margins CurvePanel::margins(const QSizeF& inner) const {
  const Arrangement& arrangement = arranged({QPointF(0, 0), inner});
  const double font = m_style.size;
  Margins margins;
  margins.left = arrangement.yLabels + (em::kTick + em::kPad) * font +
                 axisNameDepth(axisName(ownUpName(), arrangement.yTicks, inner.height(), m_style), m_style);
  if (m_plot.xLabels == CurvePlot::XLabels::hidden) {
    margins.bottom = em::kTick * font;
  } else {
    margins.bottom = (em::kDigitHeight + em::kTick + em::kPad) * font +
                     axisNameDepth(axisName(ownAcrossName(), arrangement.xTicks, inner.width(), m_style), m_style);
  }
  const auto lines = titleLines(inner.width());
  margins.top = 0.4 * font + arrangement.above;
  if (!lines.empty()) margins.top += (static_cast<double>(lines.size()) * em::kLine + 0.1) * font;
  // Labels are centred on their ticks, which can be at the ends.
  for (const Tick& tick : arrangement.xTicks.major) {
    const double at = axisPosition(tick.value, arrangement.area.x, arrangement.area.xScale) * inner.width();
    const double half = textWidth(QString::fromStdString(tick.label), m_style) / 2;
    margins.right = std::max(margins.right, half - (inner.width() - at));
    margins.left = std::max(margins.left, half - at);
  }
  return margins;
}

std::string CurvePanel::xText(double x) const {
  const double place = std::round(x);
  const bool named = place >= 0 && place < static_cast<double>(m_plot.categories.size());
  return named ? plainLabel(m_plot.categories[static_cast<std::size_t>(place)]) : fmt::format("{}", x);
}

void CurvePanel::addNumbers(NumberTable& numbers) const {
  numbers.setQuantity(m_plot.quantity.empty() ? m_plot.yLabel : m_plot.quantity);
  for (const Curve& curve : m_plot.curves) {
    const std::string name = plainLabel(curve.series.empty() ? curve.name : curve.series);
    for (std::size_t n = 0; n < curve.x.size(); ++n) {
      if (std::isnan(curve.x[n]) || !within(m_plot.xLimits, curve.x[n])) continue;
      DrawnNumber number{name, curve.pointNames.empty() ? "" : curve.pointNames[n], xText(curve.x[n]), curve.y[n]};
      if (!curve.bandLower.empty()) {
        number.lower = curve.bandLower[n];
        number.upper = curve.bandUpper[n];
      }
      numbers.add(number);
      if (!curve.rawY.empty()) numbers.add({name + " (not smoothed)", "", number.x, curve.rawY[n]});
    }
  }
}

void CurvePanel::draw(Canvas& canvas, const QRectF& inner) const {
  const Arrangement& arrangement = arranged(inner);
  const PlotArea& area = arrangement.area;
  const QPen grid(kGrid, em::kStroke * m_style.size, Qt::SolidLine, Qt::FlatCap);
  for (const Tick& tick : arrangement.yTicks.major) {
    const double y = area.at(area.x.upper, tick.value).y;
    canvas.line({area.left, y}, {area.right, y}, grid);
  }
  if (m_plot.level && *m_plot.level > area.y.lower && *m_plot.level < area.y.upper) {
    const double y = area.at(area.x.upper, *m_plot.level).y;
    canvas.line({area.left, y}, {area.right, y}, QPen(kMarker, 1.3 * em::kStroke * m_style.size));
  }
  drawMarkers(canvas, area);
  for (const Curve& curve : m_plot.curves) drawBand(canvas, curve, area);
  for (std::size_t index = 0; index < m_plot.curves.size(); ++index) {
    const QColor colour = mixedWithWhite(colourOf(m_plot.curves[index]), kFaint);
    drawStrokes(canvas, arrangement.strokes[index].raw, penOf(colour, kRawWidth * m_style.size, LineStyle::solid));
  }
  for (std::size_t index = 0; index < m_plot.curves.size(); ++index) {
    const Curve& curve = m_plot.curves[index];
    drawStrokes(canvas, arrangement.strokes[index].smooth, penOf(colourOf(curve), lineWidth(), curve.line));
    for (std::size_t point = 0; curve.line == LineStyle::points && point < curve.x.size(); ++point) {
      const CurvePoint at = area.at(curve.x[point], curve.y[point]);
      if (std::isfinite(at.x) && std::isfinite(at.y) && rectOf(area).contains(at.x, at.y)) {
        drawPoint(canvas, {at.x, at.y}, curve, lineWidth());
      }
    }
  }
  drawNames(canvas, arrangement);
  drawAxes(canvas, inner, arrangement);
  drawLegend(canvas, arrangement);
  drawTitle(canvas, inner, arrangement);
}

void CurvePanel::drawBand(Canvas& canvas, const Curve& curve, const PlotArea& area) const {
  if (curve.bandLower.empty()) return;
  if (curve.line == LineStyle::points) return drawBars(canvas, curve, area);
  QColor colour = colourOf(curve);
  colour.setAlphaF(static_cast<float>(kBandAlpha));
  for (const auto& [upper, lower] :
       bandsOf(curve.x, curve.bandLower, curve.bandUpper, area, 1 / dotsPerPoint(m_format))) {
    QPolygonF corners;
    for (const CurvePoint& point : upper) corners.append({point.x, point.y});
    for (auto point = lower.rbegin(); point != lower.rend(); ++point) corners.append({point->x, point->y});
    canvas.polygon(corners, colour);
  }
}

void CurvePanel::drawBars(Canvas& canvas, const Curve& curve, const PlotArea& area) const {
  const QPen pen = penOf(colourOf(curve), kBarWidth * lineWidth(), LineStyle::solid);
  for (std::size_t point = 0; point < curve.x.size(); ++point) {
    CurvePoint lower = area.at(curve.x[point], curve.bandLower[point]);
    CurvePoint upper = area.at(curve.x[point], curve.bandUpper[point]);
    const bool known = std::isfinite(lower.x) && std::isfinite(lower.y) && std::isfinite(upper.y);
    if (!known || lower.x < area.left || lower.x > area.right) continue;
    lower.y = std::clamp(lower.y, area.top, area.bottom);
    upper.y = std::clamp(upper.y, area.top, area.bottom);
    if (lower.y > upper.y) canvas.line({lower.x, lower.y}, {upper.x, upper.y}, pen);
  }
}

void CurvePanel::drawMarkers(Canvas& canvas, const PlotArea& area) const {
  for (const CurveMarker& marker : m_plot.markers) {
    if (!shown(marker, area)) continue;
    const double x = area.at(marker.x, area.y.lower).x;
    canvas.line({x, area.top}, {x, area.bottom}, penOf(kMarker, 1.3 * em::kStroke * m_style.size, LineStyle::dashed));
    const QRectF box = labelBox(marker, area);
    TextStyle style = small();
    style.colour = kMarker;
    canvas.text(QString::fromStdString(marker.label), {{box.left(), box.bottom() - 0.35 * m_style.size}}, style);
  }
}

// Beside its point each, where it covers no point, no other name and no legend; else it is left out.
void CurvePanel::drawNames(Canvas& canvas, const Arrangement& arrangement) const {
  const PlotArea& area = arrangement.area;
  const double size = m_style.size;
  const QRectF inside = rectOf(area).adjusted(0.2 * size, 0.2 * size, -0.2 * size, -0.2 * size);
  std::vector<QRectF> taken{arrangement.box};
  const double half = kPointRoom * size;
  for (const Curve& curve : m_plot.curves) {
    for (std::size_t point = 0; curve.line == LineStyle::points && point < curve.x.size(); ++point) {
      const CurvePoint at = area.at(curve.x[point], curve.y[point]);
      if (std::isfinite(at.x) && std::isfinite(at.y)) taken.emplace_back(at.x - half, at.y - half, 2 * half, 2 * half);
    }
  }
  const double height = 1.05 * small().size;
  for (const Curve& curve : m_plot.curves) {
    for (const std::size_t point : curve.writtenNames) {
      const QString text = QString::fromStdString(curve.pointNames[point]);
      const double width = textWidth(text, small());
      const CurvePoint at = area.at(curve.x[point], curve.y[point]);
      const double gap = half + 0.1 * size;
      const std::array<QPointF, 8> corners = {{{at.x + gap, at.y - height / 2},
                                               {at.x - gap - width, at.y - height / 2},
                                               {at.x - width / 2, at.y - gap - height},
                                               {at.x - width / 2, at.y + gap},
                                               {at.x + gap, at.y - gap - height},
                                               {at.x - gap - width, at.y - gap - height},
                                               {at.x + gap, at.y + gap},
                                               {at.x - gap - width, at.y + gap}}};
      const auto free = std::ranges::find_if(corners, [&](const QPointF& corner) {
        const QRectF box(corner, QSizeF(width, height));
        return inside.contains(box) &&
               std::ranges::none_of(taken, [&](const QRectF& one) { return one.intersects(box); });
      });
      if (free == corners.end()) continue;
      taken.emplace_back(*free, QSizeF(width, height));
      canvas.text(text, {{free->x(), free->y() + height / 2 + kHalfDigit * small().size}}, small());
    }
  }
}

void CurvePanel::drawAxes(Canvas& canvas, const QRectF& inner, const Arrangement& arrangement) const {
  const PlotArea& area = arrangement.area;
  canvas.frame(inner, em::kStroke * m_style.size, Qt::black);
  drawAxis(canvas,
           {AxisEdge::Side::bottom, inner, [&](double value) { return axisPosition(value, area.x, area.xScale); }},
           arrangement.xTicks, ownAcrossName(), em::kDigitHeight * m_style.size, m_style);
  drawAxis(canvas,
           {AxisEdge::Side::left, inner, [&](double value) { return axisPosition(value, area.y, area.yScale); }},
           arrangement.yTicks, ownUpName(), arrangement.yLabels, m_style);
  if (!hasPoints(m_plot)) {
    TextStyle style = m_style;
    style.colour = kMarker;
    canvas.text(QStringLiteral("no values"), {inner.center(), Align::centre}, style);
  }
}

void CurvePanel::drawLegend(Canvas& canvas, const Arrangement& arrangement) const {
  if (!arrangement.box.isEmpty()) canvas.fill(arrangement.box, Qt::white);
  drawLegendEntries(canvas, arrangement.legend, arrangement.legendStyle, lineWidth());
}

void CurvePanel::drawTitle(Canvas& canvas, const QRectF& inner, const Arrangement& arrangement) const {
  const auto lines = titleLines(inner.width());
  const TextStyle style = fitted(m_style, lines, inner.width());
  double baseline = inner.top() - arrangement.above - 0.5 * m_style.size -
                    (static_cast<double>(lines.size()) - 1) * em::kLine * style.size;
  for (const QString& line : lines) {
    canvas.text(line, {{inner.center().x(), baseline}, Align::centre}, style);
    baseline += em::kLine * style.size;
  }
}

}  // namespace foxscope::figure
