#include "app/gui/window/docks.h"

#include <algorithm>
#include <utility>

#include <QDataStream>
#include <QIODevice>
#include <QMainWindow>
#include <QMap>
#include <QTabBar>
#include <QTimer>

namespace foxscope::gui {
namespace {

// First sizes of parts, logical pixels: least and most.
constexpr std::pair kHeadsWidth{160, 190};
constexpr std::pair kTextWidth{240, 340};
constexpr int kMostTextShare = 24;  ///< of the width, percent
constexpr int kLowWindow = 800;     ///< height below which curves have a fixed share, percent
constexpr int kCurvesShare = 30;
constexpr int kAroundCentre = 110;  ///< height of menus, bars and the status line
constexpr int kBesideMap = 25;      ///< by how much a pane is wider than high

/// Qt's state of docks knows no sizes of the window: with them a smaller window shares its room in the same
/// proportions.
struct SizedState {
  QSize window;  ///< not valid in older states
  QMap<QString, QSize> docks;
  QByteArray state;
  double evaluations = 0;  ///< Docks::evaluationsShare; absent in older states
};
constexpr quint32 kSizedState = 0x464f5831;

QByteArray packed(const SizedState& sized) {
  QByteArray bytes;
  QDataStream stream(&bytes, QIODevice::WriteOnly);
  stream << kSizedState << sized.window << sized.docks << sized.state << sized.evaluations;
  return bytes;
}

SizedState unpacked(const QByteArray& bytes) {
  SizedState sized;
  QDataStream stream(bytes);
  quint32 kind = 0;
  stream >> kind;
  if (kind != kSizedState) return {{}, {}, bytes, 0};
  stream >> sized.window >> sized.docks >> sized.state;
  if (!stream.atEnd()) stream >> sized.evaluations;
  return sized;
}

}  // namespace

Docks::Docks(QMainWindow& window, const Views& views, std::function<Content()> content)
    : QObject(&window), m_window(window), m_content(std::move(content)) {
  m_heads = add(views.heads, tr("Heads"), QStringLiteral("heads"));
  m_runs = add(views.runs, tr("Runs"), QStringLiteral("runs"));
  m_text = add(views.text, tr("Text"), QStringLiteral("text"));
  m_curves = add(views.curves, tr("Curves"), QStringLiteral("curves"));
  m_words = add(views.words, tr("Words"), QStringLiteral("words"));
  m_comparison = add(views.comparison, tr("Compare"), QStringLiteral("comparison"));
  m_predictions = add(views.predictions, tr("Predictions"), QStringLiteral("predictions"));
  m_experts = add(views.experts, tr("Experts"), QStringLiteral("experts"));
  m_effects = add(views.effects, tr("Effects"), QStringLiteral("effects"));
  m_evaluations = add(views.evaluations, tr("Evaluations"), QStringLiteral("evaluations"));
  m_training = add(views.training, tr("Training"), QStringLiteral("training"));
  m_window.setDockNestingEnabled(true);
  // The corners belong to the sides, so that curves stand under the maps.
  m_window.setCorner(Qt::BottomLeftCorner, Qt::LeftDockWidgetArea);
  m_window.setCorner(Qt::BottomRightCorner, Qt::RightDockWidgetArea);
  reset();
}

QDockWidget* Docks::add(QWidget* view, const QString& title, const QString& key) {
  auto* dock = new QDockWidget(title, &m_window);
  dock->setObjectName(key);
  dock->setWidget(view);
  return dock;
}

void Docks::bringForward(QDockWidget& dock) {
  dock.show();
  dock.raise();
}

void Docks::reset() {
  // Maps and text have the room until somebody asks for the list of runs; behind the curves stands what is asked for,
  // or there is something to be seen of.
  struct Place {
    QDockWidget* dock;
    Qt::DockWidgetArea area;
    bool shown;
  };
  const Content content = m_content();
  const Place places[] = {{m_heads, Qt::LeftDockWidgetArea, true},
                          {m_runs, Qt::RightDockWidgetArea, false},
                          {m_text, Qt::RightDockWidgetArea, true},
                          {m_curves, Qt::BottomDockWidgetArea, true},
                          {m_words, Qt::BottomDockWidgetArea, false},
                          {m_comparison, Qt::BottomDockWidgetArea, content.comparison},
                          {m_predictions, Qt::BottomDockWidgetArea, content.predictions},
                          {m_experts, Qt::BottomDockWidgetArea, content.experts},
                          {m_effects, Qt::BottomDockWidgetArea, content.effects},
                          {m_evaluations, Qt::BottomDockWidgetArea, content.evaluations},
                          {m_training, Qt::BottomDockWidgetArea, content.training}};
  // Each dock that comes into sight asks for its least width at once: those of the bottom, side by side until they lie
  // behind one another, would widen the window.
  for (const Place& place : places) place.dock->hide();
  for (const Place& place : places) {
    place.dock->setFloating(false);
    m_window.addDockWidget(place.area, place.dock);
  }
  for (QDockWidget* dock : {m_comparison, m_words, m_predictions, m_experts, m_effects, m_evaluations, m_training})
    m_window.tabifyDockWidget(m_curves, dock);
  for (const Place& place : places) place.dock->setVisible(place.shown);
  m_firstRuns = true;
  m_curves->raise();
  const int width = m_window.width();
  const int height = m_window.height();
  const int heads = std::clamp(width * 12 / 100, kHeadsWidth.first, kHeadsWidth.second);
  const int text =
      std::min(std::clamp(width * 21 / 100, kTextWidth.first, kTextWidth.second), width * kMostTextShare / 100);
  m_window.resizeDocks({m_heads, m_text}, {heads, text}, Qt::Horizontal);
  // Two maps beside each other are about as high as they are wide; curves take what that leaves.
  const int map = (width - heads - text) / 2 - kBesideMap;
  const int curves = height < kLowWindow ? height * kCurvesShare / 100
                                         : std::clamp(height - kAroundCentre - map, height / 4, height * 2 / 5);
  m_window.resizeDocks({m_curves}, {curves}, Qt::Vertical);
}

void Docks::resetLayout() {
  m_away.reset();
  reset();
  follow();
}

void Docks::follow() {
  const Content content = m_content();
  if (!m_window.isVisible() || content.anything != m_away.has_value()) return;
  if (!m_away) {
    m_away = m_untouched ? QByteArray() : state();
    m_wanted.clear();
    for (QDockWidget* dock : {m_heads, m_runs, m_text, m_words, m_curves}) dock->hide();
    m_comparison->setVisible(content.comparison);
    m_predictions->setVisible(content.predictions);
    m_experts->setVisible(content.experts);
    m_effects->setVisible(content.effects);
    m_evaluations->setVisible(content.evaluations);
    m_training->setVisible(content.training);
    return;
  }
  const QByteArray before = *std::exchange(m_away, std::nullopt);
  if (before.isEmpty()) return reset();
  m_wanted = before;
  place(Size::pending);
  // Evaluations may have come while the others were away.
  if (content.evaluations) m_evaluations->show();
  if (content.comparison) m_comparison->show();
  if (content.predictions) m_predictions->show();
  if (content.experts) m_experts->show();
  if (content.effects) m_effects->show();
  if (content.training) m_training->show();
}

double Docks::evaluationsShare() const {
  if (!m_evaluations->isVisible() || m_evaluations->isFloating() || m_window.height() < 1) return m_evaluationsShare;
  return static_cast<double>(m_evaluations->height()) / m_window.height();
}

void Docks::giveEvaluationsRoom() {
  constexpr double kHalf = 0.5;
  constexpr double kOfLowWindow = 0.6;
  constexpr double kMost = 0.8;
  const double first = m_window.height() < kLowWindow ? kOfLowWindow : kHalf;
  const double share = m_evaluationsShare > 0 ? std::min(m_evaluationsShare, kMost) : first;
  m_window.resizeDocks({m_evaluations}, {static_cast<int>(share * m_window.height())}, Qt::Vertical);
}

void Docks::fitRuns() {
  if (!std::exchange(m_firstRuns, false)) return;
  const QWidget& list = *m_runs->widget();
  const int rows = m_runs->height() - list.height() + list.sizeHint().height();
  m_window.resizeDocks({m_runs, m_text}, {rows, m_window.height() - rows}, Qt::Vertical);
}

// Empty where they were put away before anybody placed them.
QByteArray Docks::state() const {
  if (m_away) return *m_away;
  if (!m_wanted.isEmpty()) return m_wanted;
  SizedState sized{m_window.size(), {}, m_window.saveState(), evaluationsShare()};
  for (const QDockWidget* dock : m_window.findChildren<QDockWidget*>()) {
    if (dock->isVisible() && !dock->isFloating()) sized.docks[dock->objectName()] = dock->size();
  }
  return packed(sized);
}

void Docks::restore(const QByteArray& state) {
  if (state.isEmpty()) return;
  m_first = false;
  m_evaluationsShare = unpacked(state).evaluations;
  if (m_away) {
    m_away = state;
    return;
  }
  m_wanted = state;
  place(Size::pending);
}

// A window that is to be maximised gets its size from the window manager, some time after it was shown.
bool Docks::hasItsSize() const {
  if (!m_window.isMaximized() && !m_window.isFullScreen()) return true;
  return m_window.isVisible() && m_window.size() != m_window.normalGeometry().size();
}

// Docks behind one another have their tabs below them, which are no part of a dock's height.
int Docks::tabsBelow(QDockWidget& dock) const {
  int height = 0;
  if (m_window.tabifiedDockWidgets(&dock).isEmpty()) return height;
  for (const auto* tabs : m_window.findChildren<QTabBar*>(QString(), Qt::FindDirectChildrenOnly)) {
    if (tabs->count() > 0) height = std::max(height, tabs->sizeHint().height());
  }
  return height;
}

// QMainWindow keeps a state that does not fit a window yet to be maximised, and applies it at a later resize even if
// another state was restored meanwhile, whose items are then gone: so it is given one state, when it has the room.
void Docks::place(Size size) {
  // Docks of a window that was not laid out yet take no sizes.
  if (m_wanted.isEmpty() || !m_window.isVisible() || (size == Size::pending && !hasItsSize())) return;
  const SizedState sized = unpacked(std::exchange(m_wanted, {}));
  m_window.restoreState(sized.state);
  // The maps would bear all of the loss.
  for (QDockWidget* dock : m_window.findChildren<QDockWidget*>()) {
    const QSize before = sized.docks.value(dock->objectName());
    if (!before.isValid() || !sized.window.isValid() || dock->isHidden() || dock->isFloating()) continue;
    const Qt::DockWidgetArea area = m_window.dockWidgetArea(dock);
    const bool across = area == Qt::LeftDockWidgetArea || area == Qt::RightDockWidgetArea;
    const int had = across ? sized.window.width() : sized.window.height();
    const int has = across ? m_window.width() : m_window.height();
    if (has >= had) continue;
    const int below = across ? 0 : tabsBelow(*dock);
    const int wanted = (across ? before.width() : before.height() + below) * has / had;
    m_window.resizeDocks({dock}, {wanted}, across ? Qt::Horizontal : Qt::Vertical);
  }
}

void Docks::followShow() {
  // Without a window manager no other size comes.
  constexpr int kPatienceMs = 1000;
  if (std::exchange(m_first, false)) {
    reset();
    m_untouched = true;
  }
  follow();
  m_untouched = false;
  place(Size::pending);
  if (!m_wanted.isEmpty()) QTimer::singleShot(kPatienceMs, this, [this] { place(Size::final); });
}

void Docks::followResize() {
  if (m_wanted.isEmpty()) return;
  // When this size has been laid out.
  QMetaObject::invokeMethod(
      this, [this] { place(Size::pending); }, Qt::QueuedConnection);
}

}  // namespace foxscope::gui
