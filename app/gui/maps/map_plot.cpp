#include "app/gui/maps/map_plot.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include <QFontInfo>

#include "app/gui/views/theme.h"

namespace foxscope::gui {
namespace {

constexpr int kTick = 3;      ///< logical pixels
constexpr int kPadding = 2;   ///< between ticks and labels
constexpr int kEdge = 2;      ///< beside a map where nothing is written
constexpr int kLeastMap = 8;  ///< a side of the map itself
/// Widths of token labels, in widths of an average character; with the sign that says "cut off".
constexpr double kTokenWidth = 8.5;
/// Height of the smallest letters that name tokens, logical pixels, and of the cell of a named token.
constexpr int kSmallestName = 8;
/// How much longer one side of a map may be than the other where tokens are square.
constexpr double kMostOblong = 4;

QColor mixed(const QColor& a, const QColor& b, double share) {
  const auto part = [&](int from, int to) { return static_cast<int>(std::lround(from + (to - from) * share)); };
  return {part(a.red(), b.red()), part(a.green(), b.green()), part(a.blue(), b.blue())};
}

int digitsOf(std::int64_t position) { return QString::number(position).size(); }

}  // namespace

MapPlot::MapPlot(QWidget* parent)
    : QCustomPlot(parent),
      m_geometry{{0, 0, kLeastMap, kLeastMap}, {{0, 1}, {0, 1}}, MapAxes::key},
      m_rowTicker(new PositionTicker),
      m_columnTicker(new PositionTicker),
      m_distanceTicker(new DistanceTicker) {
  setFocusPolicy(Qt::StrongFocus);
  setMouseTracking(true);
  setMinimumSize(60, 60);
  m_raster = new RasterItem(this, m_geometry);
  m_raster->setLayer(QStringLiteral("main"));
  m_marks = new MarksItem(this, m_geometry);
  m_marks->setLayer(QStringLiteral("overlay"));
  layer(QStringLiteral("overlay"))->setMode(QCPLayer::lmBuffered);
  axisRect()->setAutoMargins(QCP::msNone);
  axisRect()->setMinimumSize(kLeastMap, kLeastMap);
  axisRect()->setupFullAxesBox();
  yAxis->setRangeReversed(true);
  yAxis->setTicker(m_rowTicker);
  xAxis->setTicker(m_columnTicker);
  for (QCPAxis* axis : {xAxis, yAxis}) {
    axis->grid()->setVisible(false);
    axis->setTickLength(0, kTick);
    axis->setTickLabelPadding(kPadding);
  }
  for (QCPAxis* axis : {xAxis2, yAxis2}) {
    axis->setTicks(false);
    axis->setTickLabels(false);
  }
  // Painted with all else that has changed, after afterReplot.
  setPlottingHint(QCP::phImmediateRefresh, false);
  connect(this, &QCustomPlot::afterReplot, this, [this] {
    m_replotDue = false;
    m_replotted = true;
  });
  applyColours();
}

void MapPlot::setPictures(std::vector<PicturePointer> pictures) {
  m_raster->pictures = std::move(pictures);
  replotSoon();
}

void MapPlot::setView(const View& view, MapAxes axes) {
  if (view.rows.size() < 1 || view.columns.size() < 1) return;
  const bool others = axes != m_geometry.axes;
  if (view == m_geometry.view && !others) return;
  m_geometry.view = view;
  m_geometry.axes = axes;
  place();
  if (others) emit axesChanged();
}

void MapPlot::setCaption(const QString& caption) {
  if (caption == m_caption) return;
  m_caption = caption;
  update();
}

const Range& MapPlot::across() const {
  return m_geometry.byDistance() ? m_geometry.view.rows : m_geometry.view.columns;
}

void MapPlot::setRun(const AxisRun& run) {
  if (run == m_run) return;
  m_run = run;
  m_rowTicker->setRun(run);
  m_columnTicker->setRun(run);
  m_marks->covered = run.covered();
  place();
  emit axesChanged();
}

void MapPlot::setLabelledAxes(const LabelledAxes& labelled) {
  if (labelled == m_labelled) return;
  m_labelled = labelled;
  place();
}

void MapPlot::setRightRoom(int room) {
  if (room == m_rightRoom) return;
  m_rightRoom = room;
  place();
}

void MapPlot::setMarks(const Cursor& pin, const Cursor& hover, const std::vector<Cursor>& locks) {
  if (m_marks->pin == pin && m_marks->hover == hover && m_marks->locks == locks) return;
  m_marks->locks = locks;
  m_marks->pin = pin;
  m_marks->hover = hover;
  m_marks->layer()->replot();
}

void MapPlot::setDivider(const Divider& divider) {
  m_raster->divider = divider;
  m_marks->divider = divider;
  replotSoon();
}

void MapPlot::setBand(const std::optional<QRectF>& band) {
  m_marks->band = band;
  m_marks->layer()->replot();
}

void MapPlot::setProportions(Proportions proportions) {
  m_proportions = proportions;
  place();
}

void MapPlot::setNotice(const QString& notice) {
  if (notice == m_notice) return;
  m_notice = notice;
  update();
  emit axesChanged();
}

void MapPlot::replotSoon() {
  m_replotDue = true;
  replot(rpQueuedReplot);
}

void MapPlot::drawNow() {
  replot(rpImmediateRefresh);
  if (std::exchange(m_replotted, false)) emit painted();
}

PixelSize MapPlot::devicePixels() const {
  const double ratio = devicePixelRatioF();
  return {std::max<std::int64_t>(1, std::lround(m_geometry.rect.height() * ratio)),
          std::max<std::int64_t>(1, std::lround(m_geometry.rect.width() * ratio))};
}

double MapPlot::lineHeight() const { return QFontMetricsF(m_tickFont).height(); }

// Names of tokens that are closer than lines of text have smaller letters.
QFont MapPlot::nameFont(PositionTicker::Labels labels, double cell) const {
  QFont names = m_tickFont;
  if (labels == PositionTicker::Labels::tokens && cell < lineHeight()) {
    names.setPixelSize(
        std::max(kSmallestName, static_cast<int>(cell * QFontInfo(m_tickFont).pixelSize() / lineHeight())));
  }
  return names;
}

QMargins MapPlot::roomAround(const LabelledAxes& labelled) const { return roomAround(labelled, m_names); }

QMargins MapPlot::roomAround(const LabelledAxes& labelled, const TickNames& names) const {
  using Labels = PositionTicker::Labels;
  const QFontMetricsF metrics(m_tickFont);
  // Letters wider than most: names are not cut off.
  const double tokens = kTokenWidth * metrics.horizontalAdvance(QLatin1Char('n'));
  // The longest position of the text decides, so that panning does not move the map.
  const auto length =
      m_run.tokens ? static_cast<std::int64_t>(m_run.tokens->input_id.size()) : m_geometry.view.rows.end;
  const double numbers = digitsOf(length) * metrics.horizontalAdvance(QLatin1Char('0'));
  const double ticks = kTick + 2 * kPadding;
  const double beside = names.rows == Labels::tokens ? std::max(tokens, numbers) : numbers;
  const double below = names.columns == Labels::tokens ? tokens : metrics.height();
  return {labelled.queries ? static_cast<int>(std::ceil(ticks + beside)) : kEdge,
          static_cast<int>(std::ceil(metrics.height())) + 1, std::max(m_rightRoom, kEdge),
          labelled.keys ? static_cast<int>(std::ceil(ticks + below)) : kEdge};
}

double MapPlot::viewShape() const {
  const double shape =
      static_cast<double>(m_geometry.view.columns.size()) / static_cast<double>(m_geometry.view.rows.size());
  return std::clamp(shape, 1 / kMostOblong, kMostOblong);
}

QSize MapPlot::mapSize(const QMargins& room) const {
  int across = std::max(kLeastMap, width() - room.left() - room.right());
  int down = std::max(kLeastMap, height() - room.top() - room.bottom());
  if (!isSquare()) return {across, down};
  const int fitting = static_cast<int>(std::lround(down * viewShape()));
  if (fitting > across) {
    down = std::max(kLeastMap, static_cast<int>(std::lround(across / viewShape())));
  } else {
    across = std::max(kLeastMap, fitting);
  }
  return {across, down};
}

MapPlot::TickNames MapPlot::fittingNames() const {
  using Labels = PositionTicker::Labels;
  if (!m_run.tokens) return {};
  constexpr double least = kSmallestName;
  // Tokens need more room, which makes cells smaller: they are named where they still fit then.
  for (const TickNames& names : {TickNames{Labels::tokens, Labels::tokens}, TickNames{Labels::tokens, Labels::numbers},
                                 TickNames{Labels::numbers, Labels::tokens}}) {
    const QSize map = mapSize(roomAround(m_labelled, names));
    const bool rows =
        !m_geometry.byDistance() && map.height() / static_cast<double>(m_geometry.view.rows.size()) >= least;
    const bool columns = map.width() / static_cast<double>(across().size()) >= least;
    if ((rows || names.rows == Labels::numbers) && (columns || names.columns == Labels::numbers)) return names;
  }
  return {};
}

int MapPlot::usefulWidth(int height) const {
  if (!isSquare()) return QWIDGETSIZE_MAX;
  const QMargins room = roomAround(m_labelled);
  const int map = std::max(kLeastMap, height - room.top() - room.bottom());
  return static_cast<int>(map * viewShape()) + room.left() + room.right();
}

bool MapPlot::sharesPositionsWith(const MapPlot& other) const {
  if (!m_notice.isEmpty() || !other.m_notice.isEmpty() || m_geometry.axes != other.m_geometry.axes) return false;
  if (m_run.tokens == other.m_run.tokens) return true;
  return m_run.tokens && other.m_run.tokens && m_run.tokens->input_id == other.m_run.tokens->input_id;
}

void MapPlot::place() {
  const TickNames names = fittingNames();
  const bool otherNames = names != std::exchange(m_names, names);
  const QMargins room = roomAround(m_labelled);
  const QSize map = mapSize(room);
  const QRect before = m_geometry.rect;
  m_geometry.rect = QRect(QPoint(room.left(), room.top()), map);
  axisRect()->setMargins({room.left(), room.top(), std::max(0, width() - room.left() - map.width()),
                          std::max(0, height() - room.top() - map.height())});
  xAxis->setRange(static_cast<double>(across().begin) - 0.5, static_cast<double>(across().end) - 0.5);
  yAxis->setRangeReversed(!m_geometry.byDistance());
  if (m_geometry.byDistance()) {
    m_distanceTicker->setAxis(m_geometry.distanceAxis());
    yAxis->setTicker(m_distanceTicker);
    yAxis->setRange(0, 1);
  } else {
    yAxis->setTicker(m_rowTicker);
    yAxis->setRange(static_cast<double>(m_geometry.view.rows.begin) - 0.5,
                    static_cast<double>(m_geometry.view.rows.end) - 0.5);
  }
  labelAxes();
  replotSoon();
  if (otherNames) emit axesChanged();
  const int useful = usefulWidth(height());
  if (before == m_geometry.rect && useful == m_usefulWidth) return;
  m_usefulWidth = useful;
  emit shapeChanged();
}

void MapPlot::labelAxes() {
  const QFontMetricsF metrics(m_tickFont);
  const double line = lineHeight();
  m_rowTicker->setLabels(m_names.rows);
  m_columnTicker->setLabels(m_names.columns);
  yAxis->setTickLabels(m_labelled.queries);
  yAxis->setTicks(m_labelled.queries);
  xAxis->setTickLabels(m_labelled.keys);
  xAxis->setTicks(m_labelled.keys);
  const bool upright = m_names.columns == PositionTicker::Labels::tokens &&
                       m_geometry.cellWidth() < (kTokenWidth + 2) * metrics.averageCharWidth();
  xAxis->setTickLabelRotation(upright ? -90 : 0);
  yAxis->setTickLabelFont(nameFont(m_names.rows, m_geometry.cellHeight()));
  xAxis->setTickLabelFont(upright ? nameFont(m_names.columns, m_geometry.cellWidth()) : m_tickFont);
  const double number = metrics.horizontalAdvance(QString::number(across().end)) + line;
  m_columnTicker->setMost(static_cast<int>(m_geometry.rect.width() / number));
  m_rowTicker->setMost(static_cast<int>(m_geometry.rect.height() / (2.2 * line)));
  m_distanceTicker->setMost(static_cast<int>(m_geometry.rect.height() / (2.2 * line)));
}

/// Titles lie in one line above the map, where they take no width.
void MapPlot::drawTitles() {
  QPainter painter(this);
  painter.setFont(m_tickFont);
  painter.setPen(mutedTextColour(palette()));
  QStringList titles;
  const bool byDistance = m_geometry.byDistance();
  if (m_labelled.queries) titles += byDistance ? tr("↑ distance i − j + 1") : tr("↓ query i");
  if (m_labelled.keys) titles += byDistance ? tr("→ query i") : tr("→ key j");
  if (!m_caption.isEmpty()) titles += m_caption;
  const QRect& map = m_geometry.rect;
  const QString line =
      QFontMetrics(painter.font()).elidedText(titles.join(QStringLiteral("   ")), Qt::ElideRight, map.width());
  painter.drawText(QRect(map.left(), 0, map.width(), map.top() - 1), Qt::AlignLeft | Qt::AlignVCenter, line);
}

QColor MapPlot::groundColour() const {
  return mixed(palette().color(QPalette::Base), palette().color(QPalette::Text), 0.12);
}

void MapPlot::applyColours() {
  QFont small = font();
  small.setPointSizeF(font().pointSizeF() * 0.9);
  setFont(font());
  setBackground(QBrush(palette().color(QPalette::Window)));
  m_raster->ground = groundColour();
  m_marks->palette = palette();
  m_tickFont = small;
  const QPen pen(mutedTextColour(palette()), 1);
  for (QCPAxis* axis : {xAxis, yAxis, xAxis2, yAxis2}) {
    axis->setBasePen(pen);
    axis->setTickPen(pen);
    axis->setSubTickPen(Qt::NoPen);
    axis->setTickLabelFont(small);
    axis->setTickLabelColor(palette().color(QPalette::Text));
  }
  replotSoon();
}

QVector<QString> MapPlot::tickLabels(Qt::Orientation orientation) const {
  const QCPAxis* axis = orientation == Qt::Horizontal ? xAxis : yAxis;
  return axis->tickLabels() ? axis->tickVectorLabels() : QVector<QString>();
}

void MapPlot::paintEvent(QPaintEvent* event) {
  QCustomPlot::paintEvent(event);
  drawTitles();
  if (!m_notice.isEmpty()) {
    QPainter painter(this);
    painter.setPen(mutedTextColour(palette()));
    const int gap = static_cast<int>(lineHeight());
    painter.drawText(rect().adjusted(gap, gap, -gap, -gap), Qt::AlignCenter | Qt::TextWordWrap, m_notice);
  }
  if (!m_replotted) return;
  m_replotted = false;
  emit painted();
}

void MapPlot::resizeEvent(QResizeEvent* event) {
  setBufferDevicePixelRatio(devicePixelRatioF());
  place();
  QCustomPlot::resizeEvent(event);
}

void MapPlot::changeEvent(QEvent* event) {
  if (event->type() == QEvent::PaletteChange || event->type() == QEvent::FontChange) {
    applyColours();
    place();
  }
  QCustomPlot::changeEvent(event);
}

}  // namespace foxscope::gui
