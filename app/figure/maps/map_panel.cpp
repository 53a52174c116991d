#include "app/figure/maps/map_panel.h"

#include <algorithm>
#include <cmath>

#include <QTransform>

#include "app/figure/maps/map_numbers.h"
#include "app/figure/maps/map_raster.h"
#include "app/figure/quantity_text.h"
#include "backend/map/distance_axis.h"

namespace foxscope::figure {
namespace {

/// The length by which a title may stand over its map on either side, em: less than half of what lies between two
/// panels, and than the border of a page.
constexpr double kTitleOverhang = 0.33;

constexpr int kLeastTicks = 3;
constexpr int kMostMapTicks = 7;
constexpr double kLyingBar = 0.8;          ///< height of a colour bar that lies, font sizes
constexpr double kLeastEntryLabel = 0.55;  ///< of the font: labels of entries are not written smaller
constexpr double kEntryLine = 1.1;         ///< height of a line of such labels, in their font size
constexpr double kCellLine = 1.15;         ///< from one line of a cell's text to the next, in its font size
constexpr double kReadableCell = 0.7;      ///< of the font: smaller letters in cells are not worth reading
constexpr double kLongestLabel = 9;        ///< such a label is cut beyond this width, font sizes

double exactly(double length, double dots) { return std::floor(length * dots + 1e-6); }

QString cut(const QString& text, const TextStyle& style, double width) {
  if (textWidth(text, style) <= width) return text;
  QString part = text;
  while (part.size() > 1 && textWidth(part + QChar(0x2026), style) > width) part.chop(1);
  return part + QChar(0x2026);
}

}  // namespace

MapAxis numberedAxis(const char* name, int count) {
  MapAxis axis;
  axis.range = {0, count};
  axis.name = name;
  axis.crowded = MapAxis::Crowded::thinned;
  axis.are = MapAxis::Labels::values;
  for (int index = 0; index < count; ++index) axis.labels.push_back(std::to_string(index));
  return axis;
}

MapPanel::MapPanel(const FigureFormat& format, Content content)
    : m_format(format), m_content(std::move(content)), m_style(textStyleOf(format)) {}

SideDots MapPanel::dotsOf(Side side, double length) const {
  const int room = static_cast<int>(exactly(length, dotsPerPoint(m_format)));
  const std::int64_t entries = axis(side).range.size();
  if (entries >= room || axis(side).ofDistances) return {room, room};
  return sideDots(room, static_cast<int>(entries), m_format.kind);
}

PixelRoom MapPanel::pixelsIn(const QRectF& inner) const {
  const double dots = dotsPerPoint(m_format);
  const auto pixels = [&](Side side, double length) {
    const auto room = static_cast<std::int64_t>(exactly(length, dots));
    return axis(side).ofDistances ? room : std::min<std::int64_t>(axis(side).range.size(), room);
  };
  return {pixels(Side::rows, inner.height()), pixels(Side::columns, inner.width())};
}

void MapPanel::setImage(Image image, const ScaledColours& colours) {
  m_image = std::move(image);
  m_colours = colours;
}

QSizeF MapPanel::sizeIn(const QSizeF& room) const {
  const double dots = dotsPerPoint(m_format);
  return {dotsOf(Side::columns, room.width()).dots / dots, dotsOf(Side::rows, room.height()).dots / dots};
}

std::optional<TextStyle> MapPanel::entryStyle(Side side, double length) const {
  const MapAxis& which = axis(side);
  if (which.labels.empty()) return std::nullopt;
  const double size = which.crowded == MapAxis::Crowded::thinned
                          ? m_style.size
                          : length / static_cast<double>(which.labels.size()) / kEntryLine;
  if (size < kLeastEntryLabel * m_style.size) return std::nullopt;
  TextStyle style = m_style.scaled(std::min(em::kSmallFont, size / m_style.size));
  style.markup = Markup::none;
  return style;
}

double MapPanel::placeOn(Side side, double value) const {
  const MapAxis& which = axis(side);
  if (which.ofDistances) return DistanceAxis{which.range}.middle(value);
  const double at = (value - static_cast<double>(which.range.begin) + 0.5) / static_cast<double>(which.range.size());
  return side == Side::rows ? 1 - at : at;
}

Ticks MapPanel::ticksOf(Side side, double length) const {
  const Range& range = axis(side).range;
  if (axis(side).ofDistances) {
    return distanceTicks(range, std::clamp(static_cast<int>(length / (2.2 * m_style.size)), 2, kMostMapTicks));
  }
  const double room = side == Side::rows ? 2.2 * m_style.size : (digitsOf(range) * em::kDigit + 1.3) * m_style.size;
  const auto position = [&](double value) {
    return (value - static_cast<double>(range.begin) + 0.5) / static_cast<double>(range.size());
  };
  for (int most = std::clamp(static_cast<int>(length / room), kLeastTicks, kMostMapTicks);; --most) {
    Ticks ticks =
        linearTicks(static_cast<double>(range.begin), static_cast<double>(range.end - 1), most, TickValues::whole);
    if (side == Side::rows || labelsApart(ticks, position, length, m_style)) return ticks;
    if (most > kLeastTicks) continue;
    // Every other one keeps its label: the first and the last of three.
    for (std::size_t index = 1; index < ticks.major.size(); index += 2) ticks.major[index].label.clear();
    return ticks;
  }
}

double MapPanel::widestEntry(Side side, const TextStyle& style) const {
  double widest = 0;
  for (const std::string& label : axis(side).labels) {
    widest = std::max(widest, textWidth(QString::fromStdString(label), style));
  }
  return std::min(widest, kLongestLabel * m_style.size);
}

std::size_t MapPanel::labelStep(Side side, double length, const TextStyle& style) const {
  const MapAxis& which = axis(side);
  if (which.crowded == MapAxis::Crowded::none) return 1;
  const double cell = length / static_cast<double>(which.labels.size());
  const double room = side == Side::rows ? kEntryLine * style.size : widestEntry(side, style) + 0.5 * style.size;
  return std::max<std::size_t>(1, static_cast<std::size_t>(std::ceil(room / cell - 1e-9)));
}

bool MapPanel::upright(double length, const TextStyle& style) const {
  if (m_content.columns.crowded == MapAxis::Crowded::thinned) return false;
  const auto cells = static_cast<double>(m_content.columns.labels.size());
  return widestEntry(Side::columns, style) > 0.9 * length / cells;
}

double MapPanel::labelDepth(Side side, double length) const {
  if (const auto style = entryStyle(side, length)) {
    return side == Side::rows || upright(length, *style) ? widestEntry(side, *style) : em::kDigitHeight * style->size;
  }
  return side == Side::rows ? widestLabel(ticksOf(side, length), m_style) : em::kDigitHeight * m_style.size;
}

double MapPanel::titleWidth(double width) const { return width + 2 * kTitleOverhang * m_style.size; }

std::vector<QString> MapPanel::titleLines(double width) const {
  const std::string title = lettered(m_content.title);
  if (title.empty()) return {};
  return titleLinesOf(title, m_style, titleWidth(width), titlesBeside());
}

// Titles with one letter for all, so that every panel finds the same size.
std::vector<std::string> MapPanel::titlesBeside() const {
  std::vector<std::string> titles;
  const bool letters = !lettered("").empty();
  for (const std::string& beside : m_content.titlesBeside) {
    titles.push_back(letters ? "(b)\u00a0" + beside : beside);
  }
  return titles;
}

std::string MapPanel::acrossName() const { return nameOf(Side::columns); }
std::string MapPanel::upName() const { return nameOf(Side::rows); }

std::string MapPanel::nameOf(Side side) const {
  return axis(side).shown == AxisShown::ticksAndName ? axis(side).name : std::string();
}

Margins MapPanel::margins(const QSizeF& inner) const {
  const double font = m_style.size;
  const auto depth = [&](Side side, double length) {
    if (axis(side).shown == AxisShown::nothing) return 0.0;
    const std::string name = side == Side::columns ? ownAcrossName() : ownUpName();
    return labelDepth(side, length) + (em::kTick + em::kPad) * font +
           axisNameDepth(axisName(name, {}, length, m_style), m_style);
  };
  Margins margins;
  margins.left = depth(Side::rows, inner.height());
  margins.bottom = depth(Side::columns, inner.width());
  margins.top = static_cast<double>(titleLines(inner.width()).size()) * em::kLine * font;
  if (margins.top > 0) margins.top += 0.15 * font;
  const auto entries = entryStyle(Side::columns, inner.width());
  if (axis(Side::columns).shown != AxisShown::nothing && entries && !upright(inner.width(), *entries)) {
    const double cell = inner.width() / static_cast<double>(m_content.columns.labels.size());
    const double beyond = (widestEntry(Side::columns, *entries) - cell) / 2;
    margins.left = std::max(margins.left, beyond);
    margins.right = std::max(margins.right, beyond);
  }
  if (axis(Side::columns).shown != AxisShown::nothing && !entries) {
    // The outer labels are centred on their ticks, which can be at the very ends.
    const Ticks ticks = ticksOf(Side::columns, inner.width());
    const Range& range = axis(Side::columns).range;
    for (const Tick& tick : ticks.major) {
      const double at = (tick.value - static_cast<double>(range.begin) + 0.5) / static_cast<double>(range.size());
      const double half = textWidth(QString::fromStdString(tick.label), m_style) / 2;
      margins.left = std::max(margins.left, half - at * inner.width());
      margins.right = std::max(margins.right, half - (1 - at) * inner.width());
    }
  }
  return margins;
}

void MapPanel::drawSide(Canvas& canvas, Side side, const QRectF& inner) const {
  const MapAxis& which = axis(side);
  if (which.shown == AxisShown::nothing) return;
  const double length = side == Side::rows ? inner.height() : inner.width();
  const auto style = entryStyle(side, length);
  Ticks ticks;
  if (style) {
    drawEntryLabels(canvas, side, inner, *style);
  } else {
    ticks = ticksOf(side, length);
  }
  const AxisEdge edge{side == Side::rows ? AxisEdge::Side::left : AxisEdge::Side::bottom, inner,
                      [this, side](double value) { return placeOn(side, value); }};
  drawAxis(canvas, edge, ticks, side == Side::columns ? ownAcrossName() : ownUpName(), labelDepth(side, length),
           m_style);
}

void MapPanel::drawEntryLabels(Canvas& canvas, Side side, const QRectF& inner, const TextStyle& style) const {
  const std::vector<std::string>& labels = axis(side).labels;
  const double out = (em::kTick + em::kPad) * m_style.size;
  const QPen pen(Qt::black, em::kStroke * m_style.size, Qt::SolidLine, Qt::FlatCap);
  const std::size_t step = labelStep(side, side == Side::rows ? inner.height() : inner.width(), style);
  for (std::size_t index = 0; index < labels.size(); index += step) {
    const double at = (static_cast<double>(index) + 0.5) / static_cast<double>(labels.size());
    const QString text = cut(QString::fromStdString(labels[index]), style, kLongestLabel * m_style.size);
    if (side == Side::rows) {
      const double y = inner.top() + at * inner.height();
      canvas.line({inner.left(), y}, {inner.left() - em::kTick * m_style.size, y}, pen);
      canvas.text(text, {{inner.left() - out, y + kHalfDigit * style.size}, Align::right}, style);
    } else {
      const double x = inner.left() + at * inner.width();
      canvas.line({x, inner.bottom()}, {x, inner.bottom() + em::kTick * m_style.size}, pen);
      if (upright(inner.width(), style)) {
        canvas.text(text, {{x + kHalfDigit * style.size, inner.bottom() + out}, Align::right, Direction::upwards},
                    style);
      } else {
        canvas.text(text, {{x, inner.bottom() + out + em::kDigitHeight * style.size}, Align::centre}, style);
      }
    }
  }
}

double MapPanel::cellTextFactor(const std::vector<std::string>& texts, const QRectF& inner) const {
  const double width = inner.width() / static_cast<double>(m_content.columns.range.size());
  const double height = inner.height() / static_cast<double>(m_content.rows.range.size());
  double widest = 0;
  qsizetype most = 1;
  for (const std::string& text : texts) {
    const QStringList lines = QString::fromStdString(text).split('\n');
    most = std::max(most, lines.size());
    for (const QString& line : lines) widest = std::max(widest, textWidth(line, m_style.scaled(em::kSmallFont)));
  }
  const double lines = 1 + kCellLine * static_cast<double>(most - 1);
  return em::kSmallFont *
         std::min({1.0, 0.86 * width / std::max(widest, 1e-9), 0.8 * height / (lines * em::kSmallFont * m_style.size)});
}

bool MapPanel::fitsCells(const std::vector<std::string>& texts, const QRectF& inner) const {
  return cellTextFactor(texts, inner) >= kReadableCell;
}

void MapPanel::drawCellTexts(Canvas& canvas, const QRectF& inner) const {
  if (m_cellTexts.empty()) return;
  const double width = inner.width() / static_cast<double>(m_image.columns);
  const double height = inner.height() / static_cast<double>(m_image.rows);
  const double factor = cellTextFactor(m_cellTexts, inner);
  if (factor < 0.5) return;
  TextStyle style = m_style.scaled(factor);
  for (std::size_t index = 0; index < m_cellTexts.size(); ++index) {
    const Rgb colour = m_colours.colour(m_image.value[index]);
    const double luminance = 0.299 * colour.red + 0.587 * colour.green + 0.114 * colour.blue;
    style.colour = luminance > 140 ? Qt::black : Qt::white;
    const auto across = static_cast<std::size_t>(m_image.columns);
    const std::size_t rowOf = index / across;
    const auto row = static_cast<double>(rowOf);
    const auto column = static_cast<double>(index % across);
    const QStringList lines = QString::fromStdString(m_cellTexts[index]).split('\n');
    double baseline = inner.top() + (row + 0.5) * height + kHalfDigit * style.size -
                      kCellLine * style.size * static_cast<double>(lines.size() - 1) / 2;
    for (const QString& line : lines) {
      canvas.text(line, {{inner.left() + (column + 0.5) * width, baseline}, Align::centre}, style);
      baseline += kCellLine * style.size;
    }
  }
}

// Black dashes on white are seen on every colour.
void MapPanel::drawColumnMark(Canvas& canvas, const QRectF& inner) const {
  if (!m_columnMark) return;
  const double x = inner.left() + *m_columnMark / static_cast<double>(m_image.columns) * inner.width();
  const double width = 1.6 * em::kStroke * m_style.size;
  QPen pen(Qt::white, 2 * width, Qt::SolidLine, Qt::FlatCap);
  canvas.line({x, inner.top()}, {x, inner.bottom()}, pen);
  pen.setColor(Qt::black);
  pen.setWidthF(width);
  pen.setDashPattern({4, 2});
  canvas.line({x, inner.top()}, {x, inner.bottom()}, pen);
}

// As a staircase: a row's piece is as high as the row. Rows thinner than a dot are left out but for one of each dot.
void MapPanel::drawBoundary(Canvas& canvas, const QRectF& inner) const {
  if (m_boundary.empty()) return;
  const Range& columns = m_content.columns.range;
  const auto rows = static_cast<double>(m_boundary.size());
  const auto xOf = [&](std::int64_t key) {
    const auto place = static_cast<double>(std::clamp(key, columns.begin, columns.end) - columns.begin);
    return inner.left() + place / static_cast<double>(columns.size()) * inner.width();
  };
  const auto step = static_cast<std::size_t>(std::max(1.0, rows / (inner.height() * dotsPerPoint(m_format))));
  QPolygonF points;
  for (std::size_t row = 0; row < m_boundary.size(); row += step) {
    const double x = xOf(m_boundary[row]);
    const auto end = static_cast<double>(std::min(row + step, m_boundary.size()));
    points.append({x, inner.top() + static_cast<double>(row) / rows * inner.height()});
    points.append({x, inner.top() + end / rows * inner.height()});
  }
  const double width = 1.6 * em::kStroke * m_style.size;
  canvas.polyline(points, QPen(Qt::white, 2.2 * width, Qt::SolidLine, Qt::FlatCap, Qt::RoundJoin));
  canvas.polyline(points, QPen(Qt::black, width, Qt::SolidLine, Qt::FlatCap, Qt::RoundJoin));
}

void MapPanel::draw(Canvas& canvas, const QRectF& inner) const {
  const SideDots across = dotsOf(Side::columns, inner.width());
  const SideDots down = dotsOf(Side::rows, inner.height());
  canvas.image(inner, paintRaster(m_image, m_colours, {across.pixels, down.pixels}));
  drawCellTexts(canvas, inner);
  drawColumnMark(canvas, inner);
  drawBoundary(canvas, inner);
  canvas.frame(inner, em::kStroke * m_style.size, Qt::black);
  drawSide(canvas, Side::rows, inner);
  drawSide(canvas, Side::columns, inner);
  const auto lines = titleLines(inner.width());
  std::vector<QString> alike = lines;
  const std::vector<std::string> titles = titlesBeside();
  for (const std::string& beside : titles) {
    for (QString& line : titleLinesOf(beside, m_style, titleWidth(inner.width()), titles)) {
      alike.push_back(std::move(line));
    }
  }
  const TextStyle style = fitted(m_style, alike, titleWidth(inner.width()));
  double baseline =
      inner.top() - (static_cast<double>(lines.size()) - 1) * em::kLine * style.size - 0.45 * m_style.size;
  for (const QString& line : lines) {
    canvas.text(line, {{inner.center().x(), baseline}, Align::centre}, style);
    baseline += em::kLine * style.size;
  }
}

/// Each bin of distances once, the nearest first.
void MapPanel::addNumbersByDistance(NumberTable& numbers) const {
  const std::vector<std::int64_t> edges = DistanceAxis{m_content.rows.range, m_image.rows}.edges();
  Image bins{0, m_image.columns, {}};
  std::vector<std::string> names;
  for (std::size_t pixel = 0; pixel + 1 < edges.size(); ++pixel) {
    // The last of the pixels that begin within one distance has the bin's edges.
    if (edges[pixel] == edges[pixel + 1]) continue;
    names.push_back(positionsText({edges[pixel], edges[pixel + 1]}, 1, 0));
    const auto line = m_image.value.begin() + (m_image.rows - 1 - static_cast<std::int64_t>(pixel)) * m_image.columns;
    bins.value.insert(bins.value.end(), line, line + m_image.columns);
    ++bins.rows;
  }
  addPixels(
      numbers, "", bins, [&](std::int64_t row) { return names[static_cast<std::size_t>(row)]; },
      [this](std::int64_t column) { return positionsText(m_content.columns.range, m_image.columns, column); });
}

void MapPanel::addNumbers(NumberTable& numbers) const {
  numbers.setQuantity(m_colours.label);
  if (m_content.rows.ofDistances) return addNumbersByDistance(numbers);
  const auto text = [](const MapAxis& axis, std::int64_t pixels) {
    return [&axis, pixels](std::int64_t pixel) {
      const bool valued = axis.are == MapAxis::Labels::values && axis.labels.size() == static_cast<std::size_t>(pixels);
      return valued ? axis.labels[static_cast<std::size_t>(pixel)] : positionsText(axis.range, pixels, pixel);
    };
  };
  addPixels(numbers, "", m_image, text(m_content.rows, m_image.rows), text(m_content.columns, m_image.columns));
  if (m_boundary.empty()) return;
  numbers.setQuantity(m_boundaryName);
  for (std::size_t row = 0; row < m_boundary.size(); ++row) {
    const std::string query = std::to_string(m_content.rows.range.begin + static_cast<std::int64_t>(row));
    numbers.add({m_boundaryName, query, "", static_cast<double>(m_boundary[row])});
  }
}

ColourBarPanel::ColourBarPanel(const FigureFormat& format) : m_format(format), m_style(textStyleOf(format)) {}

ColourBarPanel::ColourBarPanel(const FigureFormat& format, double labelRoom)
    : m_format(format), m_style(textStyleOf(format)), m_labelRoom(labelRoom) {}

void ColourBarPanel::setColours(const ScaledColours& colours, Quantity quantity) {
  setColours(colours, quantityText(quantity), quantitySymbol(quantity));
}

void ColourBarPanel::setColours(const ScaledColours& colours, const std::string& label, const std::string& symbol) {
  m_colours = colours;
  m_label = label;
  m_symbol = symbol;
}

std::optional<double> ColourBarPanel::fixedWidth() const {
  if (!m_labelRoom) return std::nullopt;
  return em::kBarWidth * m_style.size;
}

std::optional<double> ColourBarPanel::heightFor(double /*width*/) const {
  if (m_labelRoom) return std::nullopt;
  return kLyingBar * m_style.size;
}

Margins ColourBarPanel::margins(const QSizeF& inner) const {
  // Half a label for those at the ends.
  if (!m_labelRoom) {
    const double half = 1.2 * m_style.size;
    const double name = axisNameDepth(axisName(m_label.empty() ? "1" : m_label, {}, inner.width(), m_style), m_style);
    return {half, half, 0.1 * m_style.size, (em::kDigitHeight + em::kTick + em::kPad) * m_style.size + name};
  }
  const double half = 0.4 * m_style.size;
  return {0.2 * m_style.size, em::axisDepth(*m_labelRoom) * m_style.size, half, half};
}

Ticks ColourBarPanel::ticks(double length) const {
  // Upper and lower may have changed places, where small values have the last colours.
  const double lower = std::min(m_colours.lower, m_colours.upper);
  const double upper = std::max(m_colours.lower, m_colours.upper);
  const int room = std::clamp(static_cast<int>(length / (2 * m_style.size)), 3, 9);
  const auto ticksOf = [&](int most) {
    return m_colours.scale == ColourScale::logarithmic ? logarithmicTicks(lower, upper, most)
                                                       : linearTicks(lower, upper, most, TickValues::any);
  };
  if (m_labelRoom) return ticksOf(room);
  const auto fit = [&](const Ticks& ticks) {
    const auto position = [this](double value) { return m_colours.position(value); };
    return ticks.major.size() >= 2 && labelsApart(ticks, position, length, m_style);
  };
  for (int most = room; most >= 2; --most) {
    Ticks ticks = ticksOf(most);
    if (fit(ticks)) return ticks;
  }
  // One number in the middle tells nothing of a scale: the outermost do.
  for (int most = room; most >= 2; --most) {
    Ticks ticks = ticksOf(most);
    if (ticks.major.size() > 2) ticks.major.erase(ticks.major.begin() + 1, ticks.major.end() - 1);
    if (fit(ticks)) return ticks;
  }
  return ticksOf(2);
}

void ColourBarPanel::draw(Canvas& canvas, const QRectF& inner) const {
  const QSizeF dots = inner.size() * dotsPerPoint(m_format);
  canvas.image(inner, m_labelRoom ? paintColourBar(m_colours, dots)
                                  : paintColourBar(m_colours, dots.transposed()).transformed(QTransform().rotate(90)));
  canvas.frame(inner, em::kStroke * m_style.size, Qt::black);
  const double length = m_labelRoom ? inner.height() : inner.width();
  const bool fits = !m_labelRoom || axisName(m_label, {}, length, m_style).size() == 1;
  const AxisEdge edge{m_labelRoom ? AxisEdge::Side::right : AxisEdge::Side::bottom, inner,
                      [this](double value) { return m_colours.position(value); },
                      m_labelRoom ? AxisEdge::Name::oneLine : AxisEdge::Name::lines};
  drawAxis(canvas, edge, ticks(length), fits ? m_label : m_symbol,
           m_labelRoom.value_or(em::kDigitHeight) * m_style.size, m_style);
}

}  // namespace foxscope::figure
