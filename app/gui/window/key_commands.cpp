#include "app/gui/window/key_commands.h"

#include <algorithm>

#include <QApplication>
#include <QDockWidget>
#include <QKeySequence>

#include "app/gui/curves/curves_view.h"
#include "app/gui/document/head_steps.h"
#include "app/gui/evaluations/evaluations_view.h"
#include "app/gui/heads/heads_view.h"
#include "app/gui/maps/map_plot.h"
#include "app/gui/maps/maps_view.h"
#include "app/gui/maps/pane/map_pane.h"
#include "app/gui/window/docks.h"
#include "app/gui/window/main_window.h"
#include "backend/base/index.h"

namespace foxscope::gui {
namespace {

/// The widget of a part that the keyboard goes to: the one that had it last, else the largest that takes it, which is
/// what the part shows.
QWidget* mainWidgetOf(QWidget& part) {
  QWidget* last = part.focusWidget();
  if (last != nullptr && last != &part && last->isVisible() && last->isEnabled()) return last;
  QWidget* largest = nullptr;
  const auto size = [](const QWidget& widget) { return widget.width() * widget.height(); };
  for (QWidget* widget : part.findChildren<QWidget*>()) {
    const bool takes = widget->isVisible() && widget->isEnabled() && (widget->focusPolicy() & Qt::TabFocus) != 0;
    if (takes && (largest == nullptr || size(*widget) > size(*largest))) largest = widget;
  }
  return largest;
}

bool isInSight(const QWidget& widget) { return widget.isVisible() && !widget.visibleRegion().isEmpty(); }

}  // namespace

KeyCommands::KeyCommands(MainWindow& window) : QObject(&window), m_window(window) {
  add(m_ofView, tr("Next &Part"), QKeySequence("F6"), tr("The keyboard goes to heads, maps, text, what stands below"),
      [this] { goToPart(1); });
  add(m_ofView, tr("Pre&vious Part"), QKeySequence("Shift+F6"), tr("The keyboard goes back by a part"),
      [this] { goToPart(-1); });
  add(m_ofHeads, tr("Next head in order"), QKeySequence("]"),
      tr("The head whose number, by which heads are coloured, is the next smaller one"), [this] { stepHead(1); });
  add(m_ofHeads, tr("Previous head in order"), QKeySequence("["),
      tr("The head whose number, by which heads are coloured, is the next larger one"), [this] { stepHead(-1); });
  add(m_ofHeads, tr("Same head of the next layer"), QKeySequence(">"), tr("The head of this number a layer further up"),
      [this] { stepLayer(1); });
  add(m_ofHeads, tr("Same head of the layer before"), QKeySequence("<"), tr("The head of this number a layer before"),
      [this] { stepLayer(-1); });
  for (int pane = 0; pane < MapsView::kMostPanes; ++pane) {
    add(m_ofMaps, tr("Go to map %1").arg(pane + 1), QKeySequence(QStringLiteral("Ctrl+%1").arg(pane + 1)),
        tr("The keyboard goes to this map"), [this, pane] { goToPane(pane); });
  }
  add(m_ofCurves, tr("Next curves"), QKeySequence("Ctrl+Tab"), tr("The next tab of the curves, or of the evaluations"),
      [this] { stepTab(1); });
  add(m_ofCurves, tr("Previous curves"), QKeySequence("Ctrl+Shift+Tab"), tr("The tab before"), [this] { stepTab(-1); });
  add(m_ofText, tr("Move the pinned key back"), QKeySequence("Shift+Left"), tr("Pins the key a token before"),
      [this] { moveKey(-1); });
  add(m_ofText, tr("Move the pinned key on"), QKeySequence("Shift+Right"), tr("Pins the key a token further on"),
      [this] { moveKey(1); });
}

QAction* KeyCommands::add(QList<QAction*>& to, const QString& words, const QKeySequence& keys, const QString& tip,
                          const std::function<void()>& act) {
  auto* action = new QAction(words, &m_window);
  action->setShortcut(keys);
  action->setToolTip(tip);
  action->setStatusTip(tip);
  connect(action, &QAction::triggered, this, act);
  to += action;
  return action;
}

std::vector<QWidget*> KeyCommands::parts() const {
  Docks& docks = m_window.docks();
  std::vector<QWidget*> all{docks.heads().widget(), &m_window.maps(), docks.runs().widget(), docks.text().widget()};
  for (const QDockWidget* dock : {&docks.curves(), &docks.words(), &docks.comparison(), &docks.effects(),
                                  &docks.evaluations(), &docks.training()}) {
    all.push_back(dock->widget());
  }
  all.push_back(&m_window.evaluations());  // which may stand in the centre
  std::vector<QWidget*> shown;
  for (QWidget* part : all) {
    const bool listed = part == nullptr || std::ranges::find(shown, part) != shown.end();
    if (!listed && isInSight(*part) && mainWidgetOf(*part) != nullptr) shown.push_back(part);
  }
  return shown;
}

void KeyCommands::goToPart(int by) {
  const std::vector<QWidget*> shown = parts();
  if (shown.empty()) return;
  const QWidget* focus = QApplication::focusWidget();
  const auto here = std::ranges::find_if(shown, [&](const QWidget* part) { return part->isAncestorOf(focus); });
  const auto count = std::ssize(shown);
  const auto from = here == shown.end() ? (by > 0 ? -1 : count) : here - shown.begin();
  QWidget& part = *shown[index_of((from + by + count) % count)];
  // In the maps it is the active one's.
  QWidget* wanted =
      &part == &m_window.maps() ? &m_window.maps().pane(m_window.maps().activePane()).plot() : mainWidgetOf(part);
  wanted->setFocus(Qt::TabFocusReason);
}

void KeyCommands::stepHead(int by) {
  RunList& runs = m_window.document().runs();
  HeadGrid& grid = m_window.headsView().grid();
  const auto head =
      headInOrder(runs, runs.selection().head(), by, [&](const HeadChoice& each) { return grid.shownValue(each); });
  if (head) runs.selection().setHead(*head);
}

void KeyCommands::stepLayer(int by) {
  RunList& runs = m_window.document().runs();
  if (const auto head = headOfLayer(runs, runs.selection().head(), by)) runs.selection().setHead(*head);
}

void KeyCommands::goToPane(int pane) {
  MapsView& maps = m_window.maps();
  if (pane >= maps.paneCount() || !maps.isVisible()) return;
  maps.setActivePane(pane);
  maps.pane(pane).plot().setFocus(Qt::TabFocusReason);
}

void KeyCommands::stepTab(int by) {
  if (m_window.evaluations().isAncestorOf(QApplication::focusWidget())) return m_window.evaluations().stepTab(by);
  m_window.curves().stepTab(by);
}

void KeyCommands::moveKey(int by) {
  RunList& runs = m_window.document().runs();
  if (runs.length() < 1) return;
  const Cursor& pin = runs.selection().pin();
  // A key behind its query is no pair: it stops at the query.
  const std::int64_t last = std::min(runs.length() - 1, pin.query.value_or(runs.length() - 1));
  const std::int64_t from = pin.key.value_or(pin.query.value_or(0) - by);
  runs.selection().pinKey(std::clamp<std::int64_t>(from + by, 0, last));
}

}  // namespace foxscope::gui
