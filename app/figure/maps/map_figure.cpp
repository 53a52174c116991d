#include "app/figure/maps/map_figure.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "app/figure/colour_scale.h"
#include "app/figure/figure_measures.h"
#include "app/figure/maps/map_layout.h"
#include "app/figure/maps/map_raster.h"
#include "app/figure/page/axis_drawing.h"
#include "app/figure/page/page.h"
#include "app/figure/quantity_text.h"
#include "backend/base/error.h"
#include "backend/map/distance_axis.h"

namespace foxscope::figure {
namespace {

constexpr int kMostFigureTicks = 9;
constexpr const char* kDistanceName = "distance *i* − *j* + 1 (tokens)";
const QColor kNoteColour(70, 70, 70);

const char* reductionText(Reduction reduction) {
  switch (reduction) {
    case Reduction::max:
      return "largest";
    case Reduction::mean:
      return "mean";
    case Reduction::min:
      return "smallest";
    case Reduction::absmax:
      return "one of largest size";
  }
  return "";
}

// "a pixel is the largest of 8 × 8 entries", or that pixels are entries.
std::string resolutionText(const MapRequest& request) {
  const double rows = static_cast<double>(request.rows.size()) / static_cast<double>(request.pixel_rows);
  if (request.by_distance()) {
    const std::string queries = rows == 1 ? "one query" : fmt::format("{:.3g} queries", rows);
    return fmt::format("a pixel is the {} of {} and a bin of distances", reductionText(request.reduction), queries);
  }
  const double columns = static_cast<double>(request.columns.size()) / static_cast<double>(request.pixel_columns);
  if (rows == 1 && columns == 1) return "a pixel is an entry";
  return fmt::format("a pixel is the {} of {:.3g} × {:.3g} entries", reductionText(request.reduction), rows, columns);
}

std::string titleText(const MapFigure& figure) {
  if (!figure.title.empty()) return figure.title;
  std::string title = headText(figure.request.head);
  if (figure.request.minus) title += " − " + headText(*figure.request.minus);
  if (figure.request.channel) title += ", " + channelText(figure.request);
  if (figure.cropped) {
    title += ", " + firstPositions(figure.request.columns, figure.request.head.trace->info().length);
  }
  return title;
}

FigureOrigin originOf(const MapFigure& figure, const ScaledColours& colours) {
  const MapRequest& request = figure.request;
  FigureOrigin origin;
  origin.title = fmt::format("{}: {}", titleText(figure), to_string(request.quantity));
  origin.command = figure.command;
  origin.facts = {
      {"quantity", to_string(request.quantity)},
      {"head", titleText(figure)},
      {"queries", fmt::format("{}:{}", request.rows.begin, request.rows.end)},
      {request.by_distance() ? "distances" : "keys", fmt::format("{}:{}", request.columns.begin, request.columns.end)},
      {"pixels", fmt::format("{} x {}, {}", request.pixel_rows, request.pixel_columns, to_string(request.reduction))},
      {"colours", fmt::format("{} from {:g} to {:g}", colours.scale == ColourScale::linear ? "linear" : "logarithmic",
                              colours.lower, colours.upper)},
  };
  addRun(origin, *request.head.trace);
  if (request.minus) addRun(origin, *request.minus->trace);
  return origin;
}

/// One line of text above or below the map.
struct TextLine {
  QString text;
  TextStyle style;
};

double heightOf(const std::vector<TextLine>& lines) {
  double height = 0;
  for (const TextLine& line : lines) height += line.style.size * em::kLine;
  return height;
}

/// Works out where everything goes, then draws it.
class MapDrawing {
 public:
  MapDrawing(const MapFigure& figure, const FigureFormat& format)
      : m_figure(figure),
        m_format(format),
        m_font(fontSize(format)),
        m_style(textStyleOf(format)),
        m_colours(chooseColours(figure)) {
    collectTexts();
    chooseBarTicks();
    placeParts();
  }

  std::string draw() const {
    return paintPage(m_format, m_page, originOf(m_figure, m_colours), [this](Canvas& canvas) {
      const bool turned = m_figure.request.by_distance();
      canvas.image(m_raster,
                   paintRaster(turned ? drawn_by_distance(m_figure.image) : m_figure.image, m_colours, m_rasterPixels));
      canvas.frame(m_raster, stroke(), Qt::black);
      drawAxes(canvas);
      drawColourBar(canvas);
      drawTexts(canvas);
    });
  }

 private:
  [[nodiscard]] double stroke() const { return em::kStroke * m_font; }

  void collectTexts() {
    const MapRequest& request = m_figure.request;
    const TextStyle title = m_style.scaled(em::kTitleFont);
    TextStyle small = m_style.scaled(em::kSmallFont);
    small.colour = kNoteColour;
    if (!m_figure.plain || !m_figure.title.empty()) addLines(m_above, titleText(m_figure), title);
    if (m_figure.plain) return;
    const std::string channels = channelText(request);
    addLines(m_above,
             fmt::format("{}{}{}: {}", to_string(request.quantity), channels.empty() ? "" : ", ", channels,
                         resolutionText(request)),
             small);
    const auto& value = m_figure.image.value;
    if (std::any_of(value.begin(), value.end(), [](float pixel) { return std::isnan(pixel); })) {
      const bool window = window_of(request.head.trace->info(), request.head.layer) > 0;
      if (request.by_distance()) {
        addLines(m_below, std::string("grey: before the text's start") + (window ? " or outside the window" : ""),
                 small);
      } else {
        addLines(m_below,
                 std::string("grey: nothing, since a query sees no later key") +
                     (window ? " and none before its window" : ""),
                 small);
      }
    }
    if (!m_colours.note.empty()) addLines(m_below, m_colours.note, small);
  }

  void addLines(std::vector<TextLine>& lines, const std::string& text, const TextStyle& style) const {
    const double width = widthInPoints(m_format) - 2 * em::kBorder * m_font;
    for (const QString& line : wrapped(text, style, width)) lines.push_back({line, fitted(style, line, width)});
  }

  // Before the bar's length is known, since its labels decide how much is left for the map: from the least room.
  void chooseBarTicks() {
    const MapRequest& request = m_figure.request;
    const double length = static_cast<double>(mapRoom(request, m_format).rows) / dotsPerPoint(m_format);
    const int most = std::clamp(static_cast<int>(length / (2 * m_font)), 3, kMostFigureTicks);
    m_barTicks = m_colours.scale == ColourScale::logarithmic
                     ? logarithmicTicks(m_colours.lower, m_colours.upper, most)
                     : linearTicks(m_colours.lower, m_colours.upper, most, TickValues::any);
    m_barLabels = widestLabel(m_barTicks, m_style);
  }

  void placeParts() {
    const MapRequest& request = m_figure.request;
    const double dots = dotsPerPoint(m_format);
    const double border = em::kBorder * m_font;
    m_rowLabels = digitsOf(upRange(request)) * em::kDigit * m_font;
    const double barLabels = std::max(barLabelRoom(request), m_barLabels / m_font);
    Margins margins;
    margins.left = border + em::axisDepth(m_rowLabels / m_font) * m_font;
    margins.right = border + (em::kBarGap + em::kBarWidth + em::axisDepth(barLabels)) * m_font;
    margins.top = border + heightOf(m_above) + 0.4 * m_font;
    const double below = m_below.empty() ? 0 : heightOf(m_below) + 0.3 * m_font;
    margins.bottom = em::axisDepth(em::kDigitHeight) * m_font + below + border;
    const RasterRoom room = rasterRoom(request, m_format, margins);
    const auto side = [&](double length, std::int64_t pixels) {
      return sideDots(static_cast<int>(length * dots + 1e-6), static_cast<int>(pixels), m_format.kind);
    };
    const bool turned = request.by_distance();
    const SideDots across = side(room.width, turned ? request.pixel_rows : request.pixel_columns);
    const SideDots down = side(room.height, turned ? request.pixel_columns : request.pixel_rows);
    m_rasterPixels = {across.pixels, down.pixels};

    const double slack = widthInPoints(m_format) - margins.left - margins.right - across.dots / dots;
    const auto onDot = [&](double length) { return std::round(length * dots) / dots; };
    m_raster = QRectF(onDot(margins.left + slack / 2), onDot(margins.top), across.dots / dots, down.dots / dots);
    m_bar = QRectF(onDot(m_raster.right() + em::kBarGap * m_font), m_raster.top(), onDot(em::kBarWidth * m_font),
                   m_raster.height());
    const double height = m_format.heightMm ? *m_format.heightMm / kMillimetresPerInch * kPointsPerInch
                                            : std::ceil(m_raster.bottom() + margins.bottom);
    m_page = {widthInPoints(m_format), height};
  }

  void drawAxes(Canvas& canvas) const {
    const MapRequest& request = m_figure.request;
    const Range& rows = upRange(request);
    const Range& columns = acrossRange(request);
    // An entry's cell is centred at its position.
    const auto along = [](const Range& range, double value) {
      return (value - static_cast<double>(range.begin) + 0.5) / static_cast<double>(range.size());
    };
    const auto ticks = [](const Range& range, double room) {
      return linearTicks(static_cast<double>(range.begin), static_cast<double>(range.end - 1),
                         std::clamp(static_cast<int>(room), 2, kMostFigureTicks), TickValues::whole);
    };
    const double labelWidth = (digitsOf(columns) * em::kDigit + 1.5) * m_font;
    constexpr auto oneLine = AxisEdge::Name::oneLine;
    drawAxis(canvas, {AxisEdge::Side::bottom, m_raster, [&](double value) { return along(columns, value); }, oneLine},
             ticks(columns, m_raster.width() / labelWidth),
             request.by_distance() ? "query position (token)" : "key position (token)", em::kDigitHeight * m_font,
             m_style);
    if (request.by_distance()) {
      const DistanceAxis axis = distanceAxisOf(request);
      drawAxis(canvas, {AxisEdge::Side::left, m_raster, [&](double value) { return axis.middle(value); }, oneLine},
               distanceTicks(rows, kMostFigureTicks), kDistanceName, m_rowLabels, m_style);
      return;
    }
    drawAxis(canvas, {AxisEdge::Side::left, m_raster, [&](double value) { return 1 - along(rows, value); }, oneLine},
             ticks(rows, m_raster.height() / (2.5 * m_font)), "query position (token)", m_rowLabels, m_style);
  }

  void drawColourBar(Canvas& canvas) const {
    const QImage bar = paintColourBar(m_colours, m_bar.size() * dotsPerPoint(m_format));
    canvas.image(m_bar, bar);
    canvas.frame(m_bar, stroke(), Qt::black);
    drawAxis(canvas,
             {AxisEdge::Side::right, m_bar, [this](double value) { return m_colours.position(value); },
              AxisEdge::Name::oneLine},
             m_barTicks, m_colours.label, m_barLabels, m_style);
  }

  void drawTexts(Canvas& canvas) const {
    double bottom = em::kBorder * m_font;
    const auto lines = [&](const std::vector<TextLine>& texts) {
      for (const TextLine& line : texts) {
        bottom += line.style.size * em::kLine;
        canvas.text(line.text, {QPointF(m_page.width() / 2, bottom - 0.3 * line.style.size), Align::centre},
                    line.style);
      }
    };
    lines(m_above);
    bottom = m_raster.bottom() + em::axisDepth(em::kDigitHeight) * m_font + 0.3 * m_font;
    lines(m_below);
  }

  const MapFigure& m_figure;
  const FigureFormat& m_format;
  double m_font;
  TextStyle m_style;
  ScaledColours m_colours;
  std::vector<TextLine> m_above;
  std::vector<TextLine> m_below;
  Ticks m_barTicks;
  double m_barLabels = 0;  ///< width of the bar's tick labels, points, like all that follow
  double m_rowLabels = 0;
  QSizeF m_page;
  QRectF m_raster;
  QRectF m_bar;
  QSize m_rasterPixels;
};

}  // namespace

void requireDrawing() {}

std::string drawMap(const MapFigure& figure, const FigureFormat& format) {
  requireValid(format);
  const OffscreenApplication application;
  requireFont(format);
  return MapDrawing(figure, format).draw();
}

}  // namespace foxscope::figure
