#include "app/gui/maps/map_pane.h"

#include <cmath>

#include <QEvent>
#include <QPainter>
#include <QVBoxLayout>

#include "app/gui/maps/colour_bar.h"
#include "app/gui/maps/map_gestures.h"
#include "app/gui/maps/map_plot.h"
#include "app/gui/maps/pane_texts.h"
#include "app/gui/maps/plot_area.h"
#include "app/gui/maps/view_motion.h"
#include "app/gui/views/theme.h"

namespace foxscope::gui {
namespace {

constexpr int kActiveLine = 2;  ///< logical pixels

}  // namespace

MapPane::MapPane(Document& document, const NearestHead& nearest, QWidget* parent)
    : QWidget(parent),
      m_document(document),
      m_heads(document, nearest),
      m_controls(new PaneControls),
      m_body(new QWidget),
      m_title(new PaneLine(PaneLine::Weight::bold)),
      m_detail(new PaneLine(PaneLine::Weight::muted)),
      m_readout(new PaneLine(PaneLine::Weight::regular)),
      m_failure(new QLabel),
      m_area(new PlotArea) {
  auto* all = new QVBoxLayout(this);
  all->setContentsMargins(4, kActiveLine + 2, 4, 2);
  all->setSpacing(2);
  all->addWidget(m_controls);
  all->addWidget(m_body, 1);
  auto* body = new QVBoxLayout(m_body);
  body->setContentsMargins(0, 0, 0, 0);
  body->setSpacing(1);
  body->addWidget(m_title);
  body->addWidget(m_detail);
  body->addWidget(m_readout);
  body->addWidget(m_failure);
  body->addWidget(m_area, 1);
  m_failure->setWordWrap(true);
  m_failure->hide();
  m_gestures = new MapGestures(m_area->plot());
  connectParts();
}

void MapPane::connectParts() {
  connect(m_controls, &PaneControls::stateWanted, this, &MapPane::change);
  connect(m_controls, &PaneControls::contrastWanted, this, &MapPane::setContrast);
  connect(m_controls, &PaneControls::nearestWanted, this, &MapPane::chooseNearest);
  MapPlot* plot = &m_area->plot();
  plot->installEventFilter(this);
  connect(plot, &MapPlot::shapeChanged, this, &MapPane::refreshLater);
  connect(plot, &MapPlot::painted, this, &MapPane::announce);
  ColourBar* bar = &m_area->bar();
  connect(bar, &ColourBar::limitsWanted, this, [this](double lower, double upper) {
    PaneState state = m_state;
    state.colours.lower = lower;
    state.colours.upper = upper;
    change(state);
  });
  connect(bar, &ColourBar::automaticWanted, this, [this] {
    PaneState state = m_state;
    state.colours.lower.reset();
    state.colours.upper.reset();
    change(state);
  });
  Selection* selection = &m_document.selection();
  connect(m_gestures, &MapGestures::touched, this, &MapPane::activated);
  connect(m_gestures, &MapGestures::viewWanted, selection, &Selection::setView);
  connect(m_gestures, &MapGestures::movementEnded, selection, &Selection::endMovement);
  connect(m_gestures, &MapGestures::hovered, selection, &Selection::setHover);
  connect(m_gestures, &MapGestures::clicked, this, [this, selection](const Cursor& entry, Qt::KeyboardModifiers keys) {
    m_pinBeforeClick = selection->pin();
    if (keys.testFlag(Qt::ShiftModifier)) {
      selection->pinKey(*entry.key);
    } else {
      selection->setPin(entry);
    }
  });
  connect(m_gestures, &MapGestures::fitWanted, this, [this, selection] {
    // The first click of a double click was not meant as a pin.
    selection->setPin(m_pinBeforeClick);
    emit fitWanted();
  });
  connect(m_gestures, &MapGestures::splitWanted, this, [this](double place) {
    PaneState state = m_state;
    state.split = place;
    change(state);
  });
}

void MapPane::setState(const PaneState& state) {
  if (state == m_state) return;
  PaneState recolouredOnly = state;
  recolouredOnly.colours = m_state.colours;
  recolouredOnly.split = m_state.split;
  // What is on its way for another head or quantity is never shown.
  if (recolouredOnly != m_state) cancelPictures();
  m_state = state;
  m_message.clear();
  m_refused.reset();
  m_area->plot().setDivider({m_state.sides, m_state.split});
  refreshLater();
}

void MapPane::change(const PaneState& state) {
  if (state == m_state) return;
  setState(state);
  emit activated();
  emit stateChanged();
}

void MapPane::setTool(MapTool tool) { m_gestures->setTool(tool); }

void MapPane::setProportions(Proportions proportions) { m_area->plot().setProportions(proportions); }

void MapPane::cancelGesture() { m_gestures->cancel(); }

void MapPane::setRole(Role role) {
  m_role = role;
  update();
}

void MapPane::setContrast() {
  const PicturePointer shown = picture();
  if (!shown || shown->summary->empty) return;
  PaneState state = m_state;
  const auto [lower, upper] = contrastLimits(*shown);
  if (!(lower < upper)) return;
  state.colours.lower = lower;
  state.colours.upper = upper;
  change(state);
}

void MapPane::chooseNearest() {
  const auto nearest = m_heads.nearest(m_state);
  if (!nearest) return;
  PaneState state = m_state;
  state.other = nearest;
  if (state.sides == Sides::left) state.setSides(Sides::right);
  change(state);
}

MapPlot& MapPane::plot() const { return m_area->plot(); }

ColourBar& MapPane::bar() const { return m_area->bar(); }

void MapPane::followRuns() {
  m_heads.forgetPlaces();
  for (PicturePointer* picture : {&m_exact, &m_coarse}) {
    if (*picture && !m_heads.holds((*picture)->request.content)) picture->reset();
  }
  m_area->plot().setTokens(m_heads.tokens());
  m_gestures->setLength(m_document.length());
  m_gestures->cancel();
  showPictures();
  refreshLater();
}

void MapPane::followHead() {
  cancelPictures();
  refreshLater();
}

void MapPane::refreshLater() {
  if (m_refreshQueued || isHidden()) return;
  m_refreshQueued = true;
  QMetaObject::invokeMethod(this, &MapPane::refresh, Qt::QueuedConnection);
}

View MapPane::view() const {
  const std::int64_t length = m_document.length();
  const View& view = m_document.selection().view();
  if (length < 1) return {{0, 1}, {0, 1}};
  if (view.rows.size() < 1 || view.columns.size() < 1) return wholeView(length);
  return clamped(view, length);
}

Shading MapPane::shading() const {
  const MapPlot& plot = m_area->plot();
  return {m_state.colours, m_state.effectiveScale(), plot.groundColour().rgb(), plot.blankColour().rgb()};
}

void MapPane::refresh() {
  m_refreshQueued = false;
  if (isHidden()) return cancelPictures();
  MapPlot& plot = m_area->plot();
  if (m_document.runs().empty()) return showNothing({});
  plot.setView(view());
  const WantedContent wanted = m_heads.content(m_state);
  if (!wanted.content) return showNothing(wanted.notice);
  if (!picture()) plot.setNotice({});
  request(completed(*wanted.content));
  showControls();
  showTexts();
  followCursor();
}

void MapPane::showPictures() {
  std::vector<PicturePointer> pictures;
  if (m_coarse) pictures.push_back(m_coarse);
  if (m_exact) pictures.push_back(m_exact);
  // The finer one lies on top.
  if (pictures.size() == 2 && m_coarse->tokensPerPixel() < m_exact->tokensPerPixel())
    std::swap(pictures[0], pictures[1]);
  const PicturePointer shown = picture();
  const bool empty = shown && shown->summary->empty;
  m_area->plot().setNotice(!empty ? QString()
                                  : tr("No key here is before its query: entries are at and below the diagonal. "
                                       "Backspace goes back."));
  m_area->plot().setPictures(std::move(pictures));
  m_area->bar().setPicture(picture());
  showTexts();
  showControls();
}

void MapPane::showNothing(const QString& notice) {
  cancelPictures();
  m_wanted.reset();
  m_exact.reset();
  m_coarse.reset();
  m_firstDue = false;
  m_message = notice;
  showPictures();
  m_area->plot().setNotice(notice);
}

void MapPane::announce() {
  if (std::exchange(m_firstPending, false)) emit firstPictureShown();
  if (std::exchange(m_exactPending, false)) emit exactPictureShown();
}

void MapPane::showTexts() {
  const PicturePointer shown = picture();
  const bool waiting = m_wanted && !isExact();
  if (shown) {
    m_title->setText(titleOf(shown->request.content, m_heads));
    const QString detail = detailOf(*shown, waiting ? Finality::coarse : Finality::exact, m_document.length());
    m_detail->setText(waiting && !m_progress.isEmpty() ? detail + QStringLiteral(" · ") + m_progress : detail);
  } else {
    m_title->setText(m_wanted ? titleOf(m_wanted->content, m_heads) : nameOf(m_state.quantity));
    m_detail->setText(m_wanted ? (m_progress.isEmpty() ? tr("computing …") : m_progress) : QString());
  }
  // A notice stands in the place of the picture; a failure above the one that stays.
  m_failure->setText(m_message);
  m_failure->setVisible(!m_message.isEmpty() && m_wanted.has_value());
  m_readout->setText(shown ? readoutOf(*shown, m_document, m_area->plot()) : QString());
}

void MapPane::showControls() {
  ControlsContext context;
  context.runs = m_heads.runs();
  if (const auto left = m_heads.left(m_state)) context.head = left->name;
  if (const auto right = m_heads.right(m_state)) context.other = right->name;
  context.nearestKnown = m_heads.nearest(m_state).has_value();
  context.picture = picture();
  m_controls->show(m_state, context);
}

void MapPane::followCursor() {
  const Selection& selection = m_document.selection();
  m_area->plot().setMarks(selection.pin(), selection.hover());
  const PicturePointer shown = picture();
  m_readout->setText(shown ? readoutOf(*shown, m_document, m_area->plot()) : QString());
}

bool MapPane::isSettled() const {
  if (isHidden()) return true;
  return !m_refreshQueued && !m_coarseFlight && !m_exactFlight && !m_colourFlight && m_area->plot().isDrawn();
}

std::optional<MapRequest> MapPane::request() const {
  return isExact() ? std::optional(m_exact->computed) : std::nullopt;
}

std::optional<figure::MapFigure> MapPane::figure() const {
  const auto computed = request();
  if (!computed) return std::nullopt;
  figure::MapFigure figure;
  figure.request = *computed;
  figure.image = *m_exact->computedValues;
  figure.scale = m_state.effectiveScale();
  figure.colours = m_state.colours.choice();
  figure.command = commandOf(*computed, m_document).toStdString();
  return figure;
}

QImage MapPane::grabPicture() const { return m_body->grab().toImage(); }

bool MapPane::eventFilter(QObject* watched, QEvent* event) {
  if (event->type() == QEvent::FocusIn) emit activated();
  return QWidget::eventFilter(watched, event);
}

void MapPane::changeEvent(QEvent* event) {
  if (event->type() == QEvent::PaletteChange) refreshLater();
  QWidget::changeEvent(event);
}

void MapPane::showEvent(QShowEvent* event) {
  QWidget::showEvent(event);
  refreshLater();
}

void MapPane::paintEvent(QPaintEvent* /*event*/) {
  if (m_role != Role::active) return;
  QPainter painter(this);
  painter.fillRect(QRect(0, 0, width(), kActiveLine), palette().color(QPalette::Highlight));
}

}  // namespace foxscope::gui
