#include "app/gui/maps/map_plot.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "app/gui/views/theme.h"

namespace foxscope::gui {
namespace {

constexpr int kTick = 4;      ///< logical pixels
constexpr int kPadding = 3;   ///< between ticks, labels and axis label
constexpr int kLeastMap = 8;  ///< a side of the map itself
/// Widths of token labels, in widths of an average character; with the sign that says "cut off".
constexpr double kTokenWidth = 8.5;
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
      m_geometry{{0, 0, kLeastMap, kLeastMap}, {{0, 1}, {0, 1}}},
      m_rowTicker(new PositionTicker),
      m_columnTicker(new PositionTicker) {
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
    axis->setLabelPadding(kPadding);
  }
  for (QCPAxis* axis : {xAxis2, yAxis2}) {
    axis->setTicks(false);
    axis->setTickLabels(false);
  }
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

void MapPlot::setView(const View& view) {
  if (view == m_geometry.view || view.rows.size() < 1 || view.columns.size() < 1) return;
  m_geometry.view = view;
  place();
}

void MapPlot::setRun(const AxisRun& run) {
  if (run == m_run) return;
  m_run = run;
  m_rowTicker->setRun(run);
  m_columnTicker->setRun(run);
  m_marks->covered = run.covered();
  place();
}

void MapPlot::setMarks(const Cursor& pin, const Cursor& hover) {
  if (m_marks->pin == pin && m_marks->hover == hover) return;
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
}

void MapPlot::replotSoon() {
  m_replotDue = true;
  replot(rpQueuedReplot);
}

PixelSize MapPlot::devicePixels() const {
  const double ratio = devicePixelRatioF();
  return {std::max<std::int64_t>(1, std::lround(m_geometry.rect.height() * ratio)),
          std::max<std::int64_t>(1, std::lround(m_geometry.rect.width() * ratio))};
}

double MapPlot::lineHeight() const { return QFontMetricsF(xAxis->tickLabelFont()).height(); }

QMargins MapPlot::margins() const {
  const QFontMetricsF metrics(xAxis->tickLabelFont());
  const double letter = metrics.horizontalAdvance(QLatin1Char('n'));  // wider than most: names are not cut off
  const double digit = metrics.horizontalAdvance(QLatin1Char('0'));
  const double tokens = kTokenWidth * letter;
  // By the longest position of the text, so that panning does not move the map.
  const auto length =
      m_run.tokens ? static_cast<std::int64_t>(m_run.tokens->input_id.size()) : m_geometry.view.rows.end;
  const double numbers = digitsOf(length) * digit;
  const double label = QFontMetricsF(xAxis->labelFont()).height() + kPadding;
  const double beside = m_run.tokens ? std::max(tokens, numbers) : numbers;
  const bool labelledColumns = m_run.tokens && m_geometry.view.columns.size() <= 200;
  const double below = labelledColumns ? tokens : metrics.height();
  return {static_cast<int>(std::ceil(kTick + 2 * kPadding + beside + label)),
          static_cast<int>(std::ceil(metrics.height() / 2)) + kPadding, static_cast<int>(std::ceil(numbers / 2)),
          static_cast<int>(std::ceil(kTick + 2 * kPadding + below + label))};
}

int MapPlot::usefulWidth(int height) const {
  if (m_proportions == Proportions::free) return QWIDGETSIZE_MAX;
  const QMargins room = margins();
  const double shape =
      static_cast<double>(m_geometry.view.columns.size()) / static_cast<double>(m_geometry.view.rows.size());
  const int map = std::max(kLeastMap, height - room.top() - room.bottom());
  return static_cast<int>(map * std::clamp(shape, 1 / kMostOblong, kMostOblong)) + room.left() + room.right();
}

void MapPlot::place() {
  const QMargins room = margins();
  int across = std::max(kLeastMap, width() - room.left() - room.right());
  int down = std::max(kLeastMap, height() - room.top() - room.bottom());
  if (m_proportions == Proportions::square) {
    const double shape = std::clamp(
        static_cast<double>(m_geometry.view.columns.size()) / static_cast<double>(m_geometry.view.rows.size()),
        1 / kMostOblong, kMostOblong);
    const int fitting = static_cast<int>(std::lround(down * shape));
    if (fitting > across) {
      down = std::max(kLeastMap, static_cast<int>(std::lround(across / shape)));
    } else {
      across = std::max(kLeastMap, fitting);
    }
  }
  const QRect before = m_geometry.rect;
  m_geometry.rect = QRect(room.left(), room.top(), across, down);
  axisRect()->setMargins({room.left(), room.top(), std::max(0, width() - room.left() - across),
                          std::max(0, height() - room.top() - down)});
  xAxis->setRange(static_cast<double>(m_geometry.view.columns.begin) - 0.5,
                  static_cast<double>(m_geometry.view.columns.end) - 0.5);
  yAxis->setRange(static_cast<double>(m_geometry.view.rows.begin) - 0.5,
                  static_cast<double>(m_geometry.view.rows.end) - 0.5);
  labelAxes();
  replotSoon();
  const int useful = usefulWidth(height());
  if (before == m_geometry.rect && useful == m_usefulWidth) return;
  m_usefulWidth = useful;
  emit shapeChanged();
}

void MapPlot::labelAxes() {
  const QFontMetricsF metrics(xAxis->tickLabelFont());
  const double line = lineHeight();
  const auto labels = [&](double cell) {
    return m_run.tokens && cell >= line * 0.95 ? PositionTicker::Labels::tokens : PositionTicker::Labels::numbers;
  };
  m_rowTicker->setLabels(labels(m_geometry.cellHeight()));
  const auto columns = labels(m_geometry.cellWidth());
  m_columnTicker->setLabels(columns);
  const bool upright = columns == PositionTicker::Labels::tokens &&
                       m_geometry.cellWidth() < (kTokenWidth + 2) * metrics.averageCharWidth();
  xAxis->setTickLabelRotation(upright ? -90 : 0);
  const double number = metrics.horizontalAdvance(QString::number(m_geometry.view.columns.end)) + line;
  m_columnTicker->setMost(static_cast<int>(m_geometry.rect.width() / number));
  m_rowTicker->setMost(static_cast<int>(m_geometry.rect.height() / (2.2 * line)));
  const auto label = [this](const QString& what, const Range& shown, double room, const QFontMetricsF& font) {
    const Range range = m_run.own(shown);
    const QString all = tr("%1 %2 to %3").arg(what).arg(range.begin).arg(range.end - 1);
    return range.size() > 0 && font.horizontalAdvance(all) <= room ? all : what;
  };
  const QFontMetricsF font(xAxis->labelFont());
  yAxis->setLabel(label(tr("query i,"), m_geometry.view.rows, m_geometry.rect.height(), font));
  xAxis->setLabel(label(tr("key j,"), m_geometry.view.columns, m_geometry.rect.width(), font));
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
  const QPen pen(mutedTextColour(palette()), 1);
  for (QCPAxis* axis : {xAxis, yAxis, xAxis2, yAxis2}) {
    axis->setBasePen(pen);
    axis->setTickPen(pen);
    axis->setSubTickPen(Qt::NoPen);
    axis->setTickLabelFont(small);
    axis->setLabelFont(small);
    axis->setTickLabelColor(palette().color(QPalette::Text));
    axis->setLabelColor(mutedTextColour(palette()));
  }
  replotSoon();
}

QVector<QString> MapPlot::tickLabels(Qt::Orientation orientation) const {
  return (orientation == Qt::Horizontal ? xAxis : yAxis)->tickVectorLabels();
}

void MapPlot::paintEvent(QPaintEvent* event) {
  QCustomPlot::paintEvent(event);
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
