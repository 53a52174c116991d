#include "app/gui/curves/position_plot.h"

#include <algorithm>
#include <array>
#include <cmath>

#include <QPainter>
#include <QVBoxLayout>
#include <qcustomplot.h>

#include "app/gui/curves/position_gestures.h"
#include "app/gui/curves/stripe.h"
#include "app/gui/views/plot_style.h"
#include "app/gui/views/theme.h"
#include "backend/base/index.h"

namespace foxscope::gui::curves {
namespace {

enum { kPoints };
constexpr double kLinesForStrip = 8;  // height, in lines of text, from which a second strip has room
constexpr double kLinesForTitle = 8;  // height, in lines of text, from which the horizontal axis has one
constexpr double kSparse = 3;         // pixels a token from which each is seen
constexpr double kDotted = 10;        // pixels a token from which each is a dot

/// A curve whose every other dash may have a second colour.
class DashedGraph : public QCPGraph {
 public:
  DashedGraph(QCPAxis* x, QCPAxis* y, const QColor& second) : QCPGraph(x, y), m_second(second) {}

 protected:
  void draw(QCPPainter* painter) override {
    QCPGraph::draw(painter);
    if (!m_second.isValid()) return;
    const QPen own = mPen;
    mPen.setColor(m_second);
    mPen.setDashPattern({kDash, kDash});
    QCPGraph::draw(painter);
    mPen = own;
  }

 private:
  static constexpr double kDash = 5;  // widths of the line
  QColor m_second;
};

/// @param pixels  of a token
void styleGraph(QCPGraph& graph, const Line& line, double pixels) {
  // Single tokens go up and down across the whole plot: where several share a pixel they fill an area, which thin lines
  // fill far faster than smooth ones.
  const bool filling = line.dots == Dots::whereTheyFit && pixels < 1;
  graph.setAntialiased(!filling);
  graph.setPen(
      QPen(line.colour, filling ? 0 : line.width, filling ? Qt::SolidLine : line.style, Qt::FlatCap, Qt::BevelJoin));
  const bool dotted = line.dots == Dots::whereTheyFit && pixels >= kDotted;
  graph.setScatterStyle(dotted ? QCPScatterStyle(QCPScatterStyle::ssDisc, line.width > 1 ? 6 : 4)
                               : QCPScatterStyle(QCPScatterStyle::ssNone));
}

}  // namespace

/// A content with the points that a job has decimated.
struct PositionPlot::Prepared {
  PlotContent content;
  PositionAxis axis;
  int number = 0;
  std::vector<std::vector<Point>> points;
};

PositionPlot::PositionPlot(RunList& runs, QWidget* parent)
    : QWidget(parent), m_runs(runs), m_plot(new QCustomPlot(this)), m_margins(new QCPMarginGroup(m_plot)) {
  // The plot only paints: mouse and keys are this widget's.
  m_plot->setAttribute(Qt::WA_TransparentForMouseEvents);
  m_plot->setFocusPolicy(Qt::NoFocus);
  m_plot->setMinimumSize(20, 20);
  m_plot->setPlottingHint(QCP::phFastPolylines);
  m_plot->addLayer(QStringLiteral("cursor"));
  m_plot->layer(QStringLiteral("cursor"))->setMode(QCPLayer::lmBuffered);
  m_plot->plotLayout()->clear();
  m_plot->setPlottingHint(QCP::phImmediateRefresh, false);
  connect(m_plot, &QCustomPlot::afterLayout, this, &PositionPlot::placeLabels);
  connect(m_plot, &QCustomPlot::afterReplot, this, [this] { m_stale = false; });
  auto* layout = new QVBoxLayout(this);
  layout->setContentsMargins(1, 1, 1, 1);
  layout->addWidget(m_plot);
  setFocusPolicy(Qt::StrongFocus);
  setMouseTracking(true);
  connect(new PositionGestures(*this, m_runs), &PositionGestures::menuAsked, this, &PositionPlot::menuAsked);
  connect(&m_runs.selection(), &Selection::viewChanged, this, &PositionPlot::followView);
  connect(&m_runs.selection(), &Selection::pinChanged, this, &PositionPlot::followCursor);
  connect(&m_runs.selection(), &Selection::hoverChanged, this, &PositionPlot::followCursor);
}

PositionPlot::~PositionPlot() { disconnect(m_plot, nullptr, this, nullptr); }

void PositionPlot::setContent(const PlotContent& content, const PositionAxis& axis) {
  m_wanted = content;
  m_axis = axis;
  ask();
}

int PositionPlot::stripsWithRoom(const PlotContent& content) const {
  const int strips = static_cast<int>(content.strips.size());
  return height() < kLinesForStrip * fontMetrics().height() ? std::min(1, strips) : strips;
}

QString PositionPlot::xTitle() const {
  return height() < kLinesForTitle * fontMetrics().height() ? QString() : m_content.xLabel;
}

// A job decimates what the axis shows, and as much to each side, so that panning has something to show.
void PositionPlot::ask() {
  if (m_wanted.strips.empty() || !isVisible() || width() <= 1) return;
  Prepared wanted{m_wanted, m_axis, ++m_asked, {}};
  const int columns = std::max(1, static_cast<int>(std::ceil(width() * devicePixelRatioF())));
  JobRunner::Request<Prepared> request;
  request.work = [wanted, limits = m_axis.limitsOf(range()), columns](const Job& job) -> std::optional<Prepared> {
    Prepared prepared = wanted;
    const std::vector<double> edges = prepared.axis.edges(limits, columns);
    for (const Line& line : prepared.content.lines) {
      if (job.stopped()) return std::nullopt;
      prepared.points.push_back(decimated(*line.series, edges));
    }
    return prepared;
  };
  request.done = [this](Prepared prepared) { take(std::move(prepared)); };
  m_runs.quickJobs().submit(this, kPoints, std::move(request));
}

void PositionPlot::take(Prepared prepared) {
  m_content = std::move(prepared.content);
  m_points = std::move(prepared.points);
  m_drawn = prepared.number;
  const bool rebuilt = rebuildStripes();
  rebuildGraphs();
  followView();
  // Ticks go by the lengths of the axes, which new ones get in a first pass.
  if (rebuilt && !m_plot->viewport().isEmpty()) m_plot->replot();
  redraw();
  followCursor();
  emit drawnAnew();
}

bool PositionPlot::rebuildStripes() {
  const auto wanted = static_cast<std::size_t>(stripsWithRoom(m_content));
  const auto same = [](const Stripe& stripe, const Strip& strip) { return stripe.strip == strip; };
  const bool stays =
      wanted == m_stripes.size() && std::equal(m_stripes.begin(), m_stripes.end(), m_content.strips.begin(), same);
  if (!stays) {
    m_plot->clearItems();
    m_plot->clearPlottables();
    m_labels.clear();
    m_graphs.clear();
    m_stripes.clear();
    m_plot->plotLayout()->clear();
    for (std::size_t index = 0; index < wanted; ++index) {
      m_stripes.emplace_back(*m_plot, m_content.strips[index],
                             index + 1 == wanted ? Stripe::Place::lowest : Stripe::Place::above);
      m_stripes.back().rect->setMarginGroup(QCP::msLeft | QCP::msRight, m_margins);
    }
    m_plot->plotLayout()->setRowSpacing(0);
  }
  applyPalette(*m_plot, palette());
  for (Stripe& stripe : m_stripes) stripe.restyle(palette(), m_axis.scale, xTitle());
  return !stays;
}

void PositionPlot::rebuildGraphs() {
  m_plot->clearGraphs();
  m_graphs.assign(m_content.lines.size(), nullptr);
  for (std::size_t index = 0; index < m_graphs.size(); ++index) {
    const Line& line = m_content.lines[index];
    if (static_cast<std::size_t>(line.strip) >= m_stripes.size()) continue;
    Stripe& stripe = m_stripes[index_of(line.strip)];
    QCPGraph* graph = new DashedGraph(stripe.x(), stripe.y(line.side), line.second);  // the plot's
    QVector<QCPGraphData> drawn;
    drawn.reserve(static_cast<qsizetype>(m_points[index].size()));
    for (const Point& point : m_points[index]) drawn.push_back({m_axis.coordinate(point.position), point.value});
    graph->data()->set(drawn, m_axis.ascends());
    m_graphs[index] = graph;
  }
  if (m_stripes.empty()) return;
  for (const Side side : {Side::left, Side::right}) {
    QVector<QCPGraphData> drawn;
    for (const Mark& mark : m_content.marks) {
      if (mark.side == side) drawn.push_back({m_axis.coordinate(mark.point.position), mark.point.value});
    }
    if (drawn.isEmpty()) continue;
    QCPGraph* graph = m_plot->addGraph(m_stripes.front().x(), m_stripes.front().y(side));
    graph->setLineStyle(QCPGraph::lsNone);
    graph->setScatterStyle(QCPScatterStyle(QCPScatterStyle::ssCircle, QPen(m_content.markColour, 1.5),
                                           QBrush(palette().color(QPalette::Base)), 6));
    graph->data()->set(drawn, false);
  }
}

Range PositionPlot::range() const {
  const View& view = m_runs.selection().view();
  return m_axis.isOfKeys() ? view.columns : view.rows;
}

// Points that have come into sight are asked for, and drawn when they come: drawing lines costs the window more than a
// job takes to find their points.
void PositionPlot::followView() {
  if (m_stripes.empty()) {
    ask();
    return;
  }
  const figure::AxisLimits limits = m_axis.limitsOf(range());
  const bool moved = m_stripes.front().x()->range() != QCPRange(limits.lower, limits.upper);
  for (Stripe& stripe : m_stripes) stripe.x()->setRange(limits.lower, limits.upper);
  fitVertically();
  if (moved) return ask();
  redraw();
}

void PositionPlot::redraw() {
  if (!isVisible() || m_plot->viewport().isEmpty()) return;
  m_stale = true;
  m_plot->replot(QCustomPlot::rpQueuedReplot);
}

void PositionPlot::fitVertically() {
  const Range shown = range();
  const double pixels = static_cast<double>(width()) / static_cast<double>(std::max<std::int64_t>(1, shown.size()));
  const std::int64_t first = shown.end > 8 * m_content.quietStart ? m_content.quietStart : 0;
  const double begin = static_cast<double>(std::max(shown.begin, first)) - 0.5;
  const double end = static_cast<double>(shown.end) - 0.5;
  for (Stripe& stripe : m_stripes) stripe.beginFit();
  for (std::size_t index = 0; index < m_graphs.size(); ++index) {
    if (m_graphs[index] == nullptr) continue;
    const Line& line = m_content.lines[index];
    const bool drawn = line.shown == Shown::always || pixels >= kSparse;
    m_graphs[index]->setVisible(drawn);
    if (!drawn) continue;
    styleGraph(*m_graphs[index], line, pixels);
    Stripe& stripe = m_stripes[index_of(line.strip)];
    for (const Point& point : m_points[index]) {
      if (point.position >= begin && point.position <= end) stripe.include(line.side, point.value);
    }
  }
  for (Stripe& stripe : m_stripes) stripe.endFit();
}

// Called when the axes know their places: labels stand above their marks where none is in the way.
void PositionPlot::placeLabels() {
  for (QCPItemText* label : m_labels) m_plot->removeItem(label);
  m_labels.clear();
  if (m_stripes.empty()) return;
  const Stripe& stripe = m_stripes.front();
  const QRectF room = stripe.rect->rect();
  std::vector<QRectF> taken;
  const QFontMetricsF metrics(font());
  for (const Mark& mark : m_content.marks) {
    const double coordinate = m_axis.coordinate(mark.point.position);
    const double x = stripe.x()->coordToPixel(coordinate);
    const double y = stripe.y(mark.side)->coordToPixel(mark.point.value);
    if (!room.adjusted(-1, -4, 1, 4).contains(x, y)) continue;
    const QSizeF size(metrics.horizontalAdvance(mark.label) + 6, metrics.height());
    QRectF place(QPointF(x - size.width() / 2, y - size.height() - 5), size);
    // Below where there is no room above, and never past the sides.
    if (place.top() < room.top()) place.moveTop(y + 5);
    place.moveLeft(std::clamp(place.left(), room.left() + 1, std::max(room.left() + 1, room.right() - size.width())));
    const auto collides = [&](const QRectF& other) { return other.intersects(place); };
    if (std::any_of(taken.begin(), taken.end(), collides)) continue;
    taken.push_back(place);
    auto* label = new QCPItemText(m_plot);
    label->position->setType(QCPItemPosition::ptAbsolute);
    label->setPositionAlignment(Qt::AlignLeft | Qt::AlignTop);
    label->position->setPixelPosition(place.topLeft());
    label->setText(mark.label);
    label->setFont(font());
    label->setColor(palette().color(QPalette::Text));
    label->setPadding(QMargins(3, 0, 3, 0));
    QColor ground = palette().color(QPalette::Base);
    ground.setAlphaF(0.8F);
    label->setBrush(ground);
    label->setLayer(QStringLiteral("overlay"));
    m_labels.push_back(label);
  }
}

std::optional<double> PositionPlot::visibleCoordinate(const std::optional<std::int64_t>& position) const {
  if (!position || m_stripes.empty()) return std::nullopt;
  const double coordinate = m_axis.coordinate(static_cast<double>(*position));
  if (!m_stripes.front().x()->range().contains(coordinate)) return std::nullopt;
  return coordinate;
}

// Only the cursor's own layer is painted anew.
void PositionPlot::followCursor() {
  if (!isVisible()) return;
  const Selection& selection = m_runs.selection();
  const std::array<std::optional<double>, kCursorLines> places{
      visibleCoordinate(selection.pin().query), visibleCoordinate(selection.pin().key),
      visibleCoordinate(selection.hover().query), visibleCoordinate(selection.hover().key)};
  for (Stripe& stripe : m_stripes) stripe.setCursor(places);
  // The whole plot is about to be painted where it is stale, and has no size yet where it was never shown.
  if (!m_stale && !m_plot->viewport().isEmpty()) m_plot->layer(QStringLiteral("cursor"))->replot();
}

void PositionPlot::fit() {
  const Range all{0, m_runs.length()};
  if (all.size() == 0) return;
  Selection& selection = m_runs.selection();
  selection.endMovement();
  selection.setView({all, all});
  selection.endMovement();
}

figure::AxisLimits PositionPlot::horizontalLimits() const { return m_axis.limitsOf(range()); }

figure::AxisLimits PositionPlot::verticalLimits(int strip, Side side) const {
  const QCPRange range = m_stripes.at(static_cast<std::size_t>(strip)).y(side)->range();
  return {range.lower, range.upper};
}

int PositionPlot::strips() const { return static_cast<int>(m_stripes.size()); }

bool PositionPlot::isDrawn(std::size_t line) const {
  return line < m_graphs.size() && m_graphs[line] != nullptr && m_graphs[line]->visible();
}

std::set<QString> PositionPlot::entriesWithoutRoom() const {
  std::set<QString> without;
  std::set<QString> with;
  for (const Line& line : m_content.lines) {
    const bool room = static_cast<std::size_t>(line.strip) < m_stripes.size();
    (room ? with : without).insert(line.entry.isEmpty() ? line.name : line.entry);
  }
  std::erase_if(without, [&](const QString& entry) { return with.contains(entry); });
  return without;
}

QRect PositionPlot::stripsRect() const {
  QRect all;
  for (const Stripe& stripe : m_stripes) all |= stripe.rect->rect();
  return all.translated(m_plot->pos());
}

double PositionPlot::pixelOf(double position) const {
  if (m_stripes.empty()) return 0;
  return m_plot->x() + m_stripes.front().x()->coordToPixel(m_axis.coordinate(position));
}

std::int64_t PositionPlot::positionAt(double pixel) const {
  if (m_stripes.empty()) return 0;
  return m_axis.nearest(m_stripes.front().x()->pixelToCoord(pixel - m_plot->x()));
}

void PositionPlot::resizeEvent(QResizeEvent* event) {
  QWidget::resizeEvent(event);
  ask();
}

void PositionPlot::showEvent(QShowEvent* event) {
  QWidget::showEvent(event);
  ask();
}

void PositionPlot::changeEvent(QEvent* event) {
  QWidget::changeEvent(event);
  if (event->type() != QEvent::PaletteChange && event->type() != QEvent::FontChange) return;
  applyPalette(*m_plot, palette());
  for (Stripe& stripe : m_stripes) stripe.restyle(palette(), m_axis.scale, xTitle());
  redraw();
}

void PositionPlot::focusInEvent(QFocusEvent* event) {
  QWidget::focusInEvent(event);
  update();
}

void PositionPlot::focusOutEvent(QFocusEvent* event) {
  QWidget::focusOutEvent(event);
  update();
}

void PositionPlot::paintEvent(QPaintEvent* /*event*/) {
  QPainter painter(this);
  painter.setPen(palette().color(hasFocus() ? QPalette::Highlight : QPalette::Base));
  painter.drawRect(QRectF(rect()).adjusted(0.5, 0.5, -0.5, -0.5));
}

}  // namespace foxscope::gui::curves
