#include "app/figure/curve_figure.h"

#include <algorithm>
#include <array>
#include <cmath>

#include <fmt/format.h>

#include "app/figure/axis_drawing.h"
#include "app/figure/curve_limits.h"
#include "app/figure/curve_palette.h"
#include "app/figure/figure_measures.h"
#include "app/figure/page.h"
#include "backend/base/error.h"

namespace foxscope::figure {
namespace {

constexpr double kHeightOfWidth = 0.58;  ///< of the axes, where no height was chosen
constexpr int kMostTicks = 9;
constexpr double kLineWidth = 0.13;  ///< of a curve, in font sizes, like all that follow
constexpr double kRawWidth = 0.05;
constexpr double kLegendSample = 2.2;
constexpr double kLegendGap = 0.5;
constexpr double kLeastSide = 4;
constexpr double kFaint = 0.3;  ///< share of the colour in a raw line's
const QColor kGrid(232, 232, 232);
const QColor kMarker(110, 110, 110);

// On white, without transparency, which some printers and SVG readers lack.
QColor mixedWithWhite(const Rgb& colour, double share) {
  const auto mix = [share](int part) { return static_cast<int>(std::lround(255 + share * (part - 255))); };
  return {mix(colour.red), mix(colour.green), mix(colour.blue)};
}

QPen penOf(const QColor& colour, double width, LineStyle line) {
  QPen pen(colour, width, Qt::SolidLine, Qt::FlatCap, Qt::RoundJoin);
  if (line == LineStyle::dashed) pen.setDashPattern({4, 2});
  return pen;
}

FigureOrigin originOf(const CurveFigure& figure) {
  FigureOrigin origin;
  origin.title = figure.title;
  origin.command = figure.command;
  for (const Curve& curve : figure.curves) {
    if (!curve.name.empty()) origin.facts.emplace_back("curve", curve.name);
  }
  for (const auto& run : figure.runs) addRun(origin, *run);
  return origin;
}

/// Strokes of a curve on the page.
struct DrawnCurve {
  std::vector<Stroke> raw;
  std::vector<Stroke> smooth;
};

/// Works out where everything goes, then draws it.
class CurveDrawing {
 public:
  CurveDrawing(const CurveFigure& figure, const FigureFormat& format)
      : m_figure(figure), m_format(format), m_font(format.fontSizePt) {
    m_area.xScale = figure.xScale;
    m_area.x = limitsOfX(figure);
    m_area.y = limitsOfY(figure);
    placeAxes();
    placeLegend();
  }

  std::string draw() const {
    return paintPage(m_format, m_page, originOf(m_figure), [this](Canvas& canvas) {
      drawGrid(canvas);
      drawMarkers(canvas);
      for (std::size_t index = 0; index < m_drawn.size(); ++index) drawRaw(canvas, index);
      for (std::size_t index = 0; index < m_drawn.size(); ++index) drawCurve(canvas, index);
      drawFrame(canvas);
      drawLegend(canvas);
      drawTitle(canvas);
    });
  }

 private:
  [[nodiscard]] QRectF rect() const { return {QPointF(m_area.left, m_area.top), QPointF(m_area.right, m_area.bottom)}; }
  [[nodiscard]] TextStyle regular() const { return textStyleOf(m_format); }
  [[nodiscard]] TextStyle title() const { return regular().scaled(em::kTitleFont); }
  [[nodiscard]] TextStyle small() const { return regular().scaled(em::kSmallFont); }

  void placeAxes() {
    const double width = widthInPoints(m_format);
    const double border = em::kBorder * m_font;
    if (!m_figure.title.empty()) m_title = wrapped(m_figure.title, title(), width - 2 * border);
    m_area.top = border + (static_cast<double>(m_title.size()) * em::kLine * em::kTitleFont + 0.5) * m_font;
    const double below = em::axisDepth(em::kDigitHeight) * m_font + border;
    const double height = m_format.heightMm ? *m_format.heightMm / kMillimetresPerInch * kPointsPerInch
                                            : std::ceil(m_area.top + kHeightOfWidth * width + below);
    m_page = {width, height};
    m_area.bottom = height - below;
    if (m_format.heightMm) requireRoom("height", m_area.bottom - m_area.top, *m_format.heightMm);
    chooseTicksOfY();
    m_area.left = border + em::axisDepth(m_labelsOfY / m_font) * m_font;
    // The last tick label is centred on the end of its axis.
    m_area.right = width - border - 1.5 * m_font;
    requireRoom("width", m_area.right - m_area.left, m_format.widthMm);
    chooseTicksOfX();
  }

  void requireRoom(const char* name, double points, double millimetres) const {
    if (points >= kLeastSide * m_font) return;
    throw UsageError(
        fmt::format("figure {} {:g} mm: texts of {:g} pt leave no room for curves: use more or a smaller font", name,
                    millimetres, m_font));
  }

  void chooseTicksOfY() {
    const int most = std::clamp(static_cast<int>((m_area.bottom - m_area.top) / (2.6 * m_font)), 2, kMostTicks);
    m_ticksOfY = linearTicks(m_area.y.lower, m_area.y.upper, most, TickValues::any);
    m_labelsOfY = widestLabel(m_ticksOfY, regular());
  }

  void chooseTicksOfX() {
    const int most = std::clamp(static_cast<int>((m_area.right - m_area.left) / (4.5 * m_font)), 2, kMostTicks);
    if (m_area.xScale == AxisScale::logarithmic) {
      m_ticksOfX = logarithmicTicks(m_area.x.lower, m_area.x.upper, most);
      return;
    }
    const bool positions = m_area.x.upper - m_area.x.lower >= 2 * most && m_area.x.upper < 1e7;
    m_ticksOfX = linearTicks(m_area.x.lower, m_area.x.upper, most, positions ? TickValues::whole : TickValues::any);
  }

  void trace() {
    const double column = 1 / dotsPerPoint(m_format);
    m_drawn.clear();
    for (const Curve& curve : m_figure.curves) {
      DrawnCurve drawn{{}, strokesOf(curve.x, curve.y, m_area, column)};
      if (!curve.rawY.empty()) drawn.raw = strokesOf(curve.x, curve.rawY, m_area, column);
      m_drawn.push_back(std::move(drawn));
    }
  }

  // In the corner where it covers least; where it would cover a curve in all of them, above, with the curves lower.
  void placeLegend() {
    trace();
    QSizeF size(0, 0);
    for (const Curve& curve : m_figure.curves) {
      if (curve.name.empty()) continue;
      const double width = textWidth(QString::fromStdString(curve.name), small());
      size.setWidth(std::max(size.width(), width + (kLegendSample + 3 * kLegendGap) * m_font));
      size.setHeight(size.height() + em::kLine * m_font);
    }
    if (size.height() == 0) return;
    size.setHeight(size.height() + kLegendGap * m_font);
    const double gap = 0.4 * m_font;
    const double right = m_area.right - gap - size.width();
    const double lower = m_area.bottom - gap - size.height();
    const double upper = m_area.top + gap;
    const double left = m_area.left + gap;
    const std::array<QPointF, 4> corners = {{{right, upper}, {left, upper}, {right, lower}, {left, lower}}};
    std::size_t least = coveredBy({corners[0], size});
    m_legend = {corners[0], size};
    for (const QPointF& corner : corners) {
      const std::size_t covered = coveredBy({corner, size});
      if (covered < least) m_legend = {corner, size};
      least = std::min(least, covered);
    }
    // Under the markers' labels.
    const bool labels = std::any_of(m_figure.markers.begin(), m_figure.markers.end(),
                                    [this](const CurveMarker& marker) { return shown(marker); });
    const double above = gap + (labels ? em::kLine * m_font : 0);
    const double share = (above + size.height() + gap) / (m_area.bottom - m_area.top);
    if (least == 0 || share > 0.5 || m_figure.yLimits) return;
    m_legend = {{right, m_area.top + above}, size};
    m_area.y.upper += (m_area.y.upper - m_area.y.lower) * share / (1 - share);
    chooseTicksOfY();
    m_area.left = (em::kBorder + em::axisDepth(m_labelsOfY / m_font)) * m_font;
    trace();
  }

  // How many segments of curves and labels of markers would lie under the legend.
  [[nodiscard]] std::size_t coveredBy(const QRectF& legend) const {
    PlotArea box;
    box.left = legend.left();
    box.right = legend.right();
    box.top = legend.top();
    box.bottom = legend.bottom();
    std::size_t covered = 0;
    const auto count = [&](const std::vector<Stroke>& strokes) {
      for (const Stroke& stroke : strokes) covered += segmentsInside(stroke, box);
    };
    for (const DrawnCurve& drawn : m_drawn) {
      count(drawn.raw);
      count(drawn.smooth);
    }
    for (const CurveMarker& marker : m_figure.markers) {
      if (shown(marker) && labelBox(marker).intersects(legend)) covered += 1;
    }
    return covered;
  }

  [[nodiscard]] bool shown(const CurveMarker& marker) const {
    const double position = axisPosition(marker.x, m_area.x, m_area.xScale);
    return position >= 0 && position <= 1;
  }

  // Right of the line, or left of it where the page ends.
  [[nodiscard]] QRectF labelBox(const CurveMarker& marker) const {
    const double x = m_area.at(marker.x, m_area.y.lower).x;
    const double width = textWidth(QString::fromStdString(marker.label), small());
    const double gap = 0.3 * m_font;
    const double left = x + gap + width <= m_area.right ? x + gap : x - gap - width;
    return {left, m_area.top + 0.2 * m_font, width, em::kLine * m_font};
  }

  void drawGrid(Canvas& canvas) const {
    const QPen pen(kGrid, em::kStroke * m_font, Qt::SolidLine, Qt::FlatCap);
    for (const Tick& tick : m_ticksOfY.major) {
      const double y = m_area.at(m_area.x.upper, tick.value).y;
      canvas.line({m_area.left, y}, {m_area.right, y}, pen);
    }
  }

  void drawMarkers(Canvas& canvas) const {
    for (const CurveMarker& marker : m_figure.markers) {
      if (!shown(marker)) continue;
      const double x = m_area.at(marker.x, m_area.y.lower).x;
      canvas.line({x, m_area.top}, {x, m_area.bottom}, penOf(kMarker, 1.3 * em::kStroke * m_font, LineStyle::dashed));
      const QRectF box = labelBox(marker);
      TextStyle style = small();
      style.colour = kMarker;
      canvas.text(QString::fromStdString(marker.label), {{box.left(), box.bottom() - 0.35 * m_font}}, style);
    }
  }

  void drawRaw(Canvas& canvas, std::size_t index) const {
    const QColor colour = mixedWithWhite(curveColour(m_figure.curves[index].colour), kFaint);
    drawStrokes(canvas, m_drawn[index].raw, penOf(colour, kRawWidth * m_font, LineStyle::solid));
  }

  void drawCurve(Canvas& canvas, std::size_t index) const {
    const Curve& curve = m_figure.curves[index];
    const QColor colour = mixedWithWhite(curveColour(curve.colour), 1);
    drawStrokes(canvas, m_drawn[index].smooth, penOf(colour, kLineWidth * m_font, curve.line));
  }

  static void drawStrokes(Canvas& canvas, const std::vector<Stroke>& strokes, const QPen& pen) {
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

  void drawFrame(Canvas& canvas) const {
    canvas.frame(rect(), em::kStroke * m_font, Qt::black);
    drawAxis(
        canvas,
        {AxisEdge::Side::bottom, rect(), [this](double value) { return axisPosition(value, m_area.x, m_area.xScale); }},
        m_ticksOfX, m_figure.xLabel, em::kDigitHeight * m_font, regular());
    drawAxis(canvas,
             {AxisEdge::Side::left, rect(),
              [this](double value) { return axisPosition(value, m_area.y, AxisScale::linear); }},
             m_ticksOfY, m_figure.yLabel, m_labelsOfY, regular());
    if (!hasPoints(m_figure)) {
      canvas.text(QStringLiteral("no values"), {rect().center(), Align::centre}, {m_font, kMarker});
    }
  }

  void drawLegend(Canvas& canvas) const {
    if (m_legend.isEmpty()) return;
    canvas.fill(m_legend, Qt::white);
    double middle = m_legend.top() + (kLegendGap / 2 + em::kLine / 2) * m_font;
    for (const Curve& curve : m_figure.curves) {
      if (curve.name.empty()) continue;
      const double left = m_legend.left() + kLegendGap * m_font;
      const double right = left + kLegendSample * m_font;
      const QColor colour = mixedWithWhite(curveColour(curve.colour), 1);
      canvas.line({left, middle}, {right, middle}, penOf(colour, kLineWidth * m_font, curve.line));
      canvas.text(QString::fromStdString(curve.name),
                  {{right + kLegendGap * m_font, middle + kHalfDigit * small().size}}, small());
      middle += em::kLine * m_font;
    }
  }

  void drawTitle(Canvas& canvas) const {
    double baseline = (em::kBorder + 0.95) * m_font;
    for (const QString& line : m_title) {
      canvas.text(line, {{m_page.width() / 2, baseline}, Align::centre}, title());
      baseline += em::kLine * em::kTitleFont * m_font;
    }
  }

  const CurveFigure& m_figure;
  const FigureFormat& m_format;
  double m_font;
  QSizeF m_page;
  PlotArea m_area;
  std::vector<QString> m_title;
  Ticks m_ticksOfX;
  Ticks m_ticksOfY;
  double m_labelsOfY = 0;  ///< width of the y axis' tick labels, points
  std::vector<DrawnCurve> m_drawn;
  QRectF m_legend;
};

}  // namespace

std::string drawCurves(const CurveFigure& figure, const FigureFormat& format) {
  requireValid(format);
  const OffscreenApplication application;
  return CurveDrawing(figure, format).draw();
}

}  // namespace foxscope::figure
