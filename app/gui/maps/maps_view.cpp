#include "app/gui/maps/maps_view.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include <QActionGroup>
#include <QHBoxLayout>
#include <QJsonArray>
#include <QKeyEvent>
#include <QMenu>
#include <QPainter>
#include <QStyleOption>
#include <QStylePainter>
#include <QToolButton>
#include <QVBoxLayout>

#include "app/gui/maps/header_button.h"
#include "app/gui/maps/map_gestures.h"
#include "app/gui/maps/map_plot.h"
#include "app/gui/maps/pane/map_pane.h"
#include "app/gui/maps/pane/pane_grid.h"
#include "app/gui/maps/pane/pane_menu.h"
#include "app/gui/maps/view_motion.h"
#include "app/gui/views/icon.h"
#include "app/gui/views/theme.h"
#include "backend/base/index.h"

namespace foxscope::gui {
namespace {

constexpr std::array<int, 3> kCounts{1, 2, 4};
/// The quantities that panes show at first, in their order.
constexpr std::array<Quantity, MapsView::kMostPanes> kFirstQuantities{
    Quantity::forget, Quantity::attention, Quantity::attention_without_gate, Quantity::gate_effect};
constexpr std::array<Quantity, MapsView::kMostPanes> kUngatedQuantities{Quantity::attention, Quantity::logits,
                                                                        Quantity::attention, Quantity::logits};

/// The first quantities for a model whose first layer is a linear mixer, with and without a decay.
constexpr std::array<Quantity, MapsView::kMostPanes> kMixingQuantities{Quantity::mixing, Quantity::forget,
                                                                       Quantity::attention, Quantity::log_forget};
constexpr std::array<Quantity, MapsView::kMostPanes> kUndecayedQuantities{Quantity::mixing, Quantity::attention,
                                                                          Quantity::mixing, Quantity::attention};

/// Tokens that are shown around a pair: few enough to be named on the axes of most panes.
constexpr std::int64_t kPairTokens = 24;

/// Buttons of which one is chosen, in one frame.
class Segments : public QWidget {
 public:
  Segments() : m_row(new QHBoxLayout(this)) {
    m_row->setContentsMargins(2, 2, 2, 2);
    m_row->setSpacing(0);
  }
  QHBoxLayout& row() { return *m_row; }

 protected:
  void paintEvent(QPaintEvent* /*event*/) override {
    QPainter painter(this);
    painter.setRenderHint(QPainter::Antialiasing);
    painter.setPen(lineColour(palette()));
    painter.setBrush(palette().color(QPalette::Base));
    painter.drawRoundedRect(QRectF(rect()).adjusted(0.5, 0.5, -0.5, -0.5), 4, 4);
  }

 private:
  QHBoxLayout* m_row;
};

/// A button that gives up its words before its bar is wider than the maps.
class BarButton : public QToolButton {
 public:
  BarButton() { setSizePolicy(QSizePolicy::Maximum, QSizePolicy::Fixed); }
  [[nodiscard]] QSize minimumSizeHint() const override {
    const int high = sizeHint().height();
    return {std::min(high, sizeHint().width()), high};
  }

 protected:
  void paintEvent(QPaintEvent* /*event*/) override {
    QStylePainter painter(this);
    QStyleOptionToolButton option;
    initStyleOption(&option);
    if (width() < sizeHint().width()) option.toolButtonStyle = Qt::ToolButtonIconOnly;
    painter.drawComplexControl(QStyle::CC_ToolButton, option);
  }
};

}  // namespace

MapsView::MapsView(RunList& runs, QWidget* parent) : QWidget(parent), m_runs(runs), m_bar(new QHBoxLayout) {
  auto* all = new QVBoxLayout(this);
  all->setContentsMargins(0, 0, 0, 0);
  all->setSpacing(0);
  all->addLayout(m_bar);
  makePanes();
  all->addWidget(m_grid, 1);
  makeViewCommands();
  makePaneCommands();
  makePinCommands();
  makeBar();
  arrangePanes();
  connect(&m_runs, &RunList::runsChanged, this, &MapsView::followRuns);
  connect(&m_runs, &RunList::referenceChanged, this, &MapsView::followRuns);
  const Selection* selection = &m_runs.selection();
  connect(selection, &Selection::headChanged, this, [this] {
    showChosenHead();
    for (MapPane* pane : m_panes) pane->followHead();
  });
  connect(selection, &Selection::viewChanged, this, &MapsView::refreshAll);
  for (const auto signal : {&Selection::pinChanged, &Selection::hoverChanged, &Selection::locksChanged}) {
    connect(selection, signal, this, [this] {
      for (int pane = 0; pane < m_count; ++pane) this->pane(pane).followCursor();
    });
  }
  connect(selection, &Selection::locksChanged, this, &MapsView::fillLocks);
  connect(this, &MapsView::stateChanged, this, &MapsView::showChecks);
  fillLocks();
  followRuns();
}

MapsView::~MapsView() = default;

void MapsView::makePanes() {
  for (int index = 0; index < kMostPanes; ++index) {
    auto* pane = new MapPane(m_runs, m_nearest);
    m_panes[index_of(index)] = pane;
    pane->plot().setAccessibleName(tr("Map %1").arg(index + 1));
    m_first[index_of(index)].setQuantity(kFirstQuantities[index_of(index)]);
    pane->setState(m_first[index_of(index)]);
    connect(pane, &MapPane::activated, this, [this, index] { setActivePane(index); });
    connect(pane, &MapPane::stateChanged, this, &MapsView::stateChanged);
    connect(pane, &MapPane::fitWanted, this, &MapsView::fit);
    connect(pane, &MapPane::zoomWanted, this, &MapsView::zoomTo);
    connect(pane, &MapPane::profileWanted, this, &MapsView::profileWanted);
    connect(pane, &MapPane::exportWanted, this, [this, index] {
      setActivePane(index);
      emit exportWanted();
    });
    connect(pane, &MapPane::firstPictureShown, this, [this, index] { emit firstPictureShown(index); });
    connect(pane, &MapPane::exactPictureShown, this, [this, index] { emit exactPictureShown(index); });
  }
  m_grid = new PaneGrid({m_panes.begin(), m_panes.end()});
  // Tab goes from map to map first, then through their headers.
  for (int index = 1; index < kMostPanes; ++index) setTabOrder(&pane(index - 1).plot(), &pane(index).plot());
}

template <typename Run>
QAction* MapsView::addCommand(const CommandText& text, Run run) {
  auto* action = new QAction(text.text, this);
  action->setToolTip(text.toolTip);
  action->setShortcuts(text.shortcuts);
  connect(action, &QAction::triggered, this, run);
  addAction(action);
  m_commands += action;
  return action;
}

void MapsView::addSeparator() {
  auto* separator = new QAction(this);
  separator->setSeparator(true);
  m_commands += separator;
}

void MapsView::makeViewCommands() {
  auto* counts = new QActionGroup(this);
  const std::array<QString, 3> names{tr("One map"), tr("Two maps"), tr("Four maps")};
  for (std::size_t n = 0; n < kCounts.size(); ++n) {
    const int count = kCounts[n];
    m_countActions[n] =
        addCommand({names[n], tr("Show %n map(s)", nullptr, count), {QKeySequence(QString::number(count))}},
                   [this, count] { setPaneCount(count); });
    m_countActions[n]->setCheckable(true);
    counts->addAction(m_countActions[n]);
  }
  addSeparator();
  m_fitAction = addCommand({tr("Fit the whole text"), tr("Show the whole text"), {QKeySequence(Qt::CTRL | Qt::Key_0)}},
                           [this] { fit(); });
  m_backAction =
      addCommand({tr("Back to the view before"), tr("Back through the views"), {QKeySequence(Qt::Key_Backspace)}},
                 [this] { m_runs.selection().goBack(); });
  addCommand({tr("Zoom in"), tr("Zoom in"), {QKeySequence(Qt::Key_Plus), QKeySequence(Qt::Key_Equal)}},
             [this] { zoomBy(0.5); });
  addCommand({tr("Zoom out"), tr("Zoom out"), {QKeySequence(Qt::Key_Minus)}}, [this] { zoomBy(2); });
  m_bandAction = addCommand({tr("Zoom to a rectangle"),
                             tr("Drag a rectangle to zoom to it; the right button always does"),
                             {QKeySequence(Qt::Key_Z)}},
                            [this] { setTool(m_bandAction->isChecked() ? MapTool::zoomBand : MapTool::pan); });
  m_bandAction->setCheckable(true);
  addCommand({tr("Reset the tool"), tr("Dragging moves the map again"), {QKeySequence(Qt::Key_Escape)}}, [this] {
    for (MapPane* pane : m_panes) pane->cancelGesture();
    setTool(MapTool::pan);
  });
  m_squareAction =
      addCommand({tr("Square tokens"), tr("A token is as wide as it is high, and both axes zoom alike"), {}}, [this] {
        setProportions(m_squareAction->isChecked() ? Proportions::square : Proportions::free);
        emit stateChanged();
      });
  m_squareAction->setCheckable(true);
  m_squareAction->setChecked(true);
}

void MapsView::makePaneCommands() {
  addSeparator();
  m_sideActions = new QActionGroup(this);
  const auto compare = [this](const CommandText& text, Sides wanted) {
    QAction* action =
        addCommand(text, [this, wanted] { changeActive([wanted](PaneState& state) { state.setSides(wanted); }); });
    action->setCheckable(true);
    action->setData(static_cast<int>(wanted));
    m_sideActions->addAction(action);
  };
  compare({tr("Compare: A only"), tr("Show the pane's own head"), {QKeySequence(Qt::Key_A)}}, Sides::left);
  compare({tr("Compare: B only"), tr("Show the head on the other side"), {QKeySequence(Qt::Key_B)}}, Sides::right);
  compare(
      {tr("Compare: split vertically"), tr("A left, B right of a line that can be dragged"), {QKeySequence(Qt::Key_V)}},
      Sides::splitVertically);
  compare(
      {tr("Compare: split horizontally"), tr("A above, B below a line that can be dragged"), {QKeySequence(Qt::Key_H)}},
      Sides::splitHorizontally);
  compare({tr("Compare: difference A − B"), tr("Entry by entry, on a diverging scale"), {QKeySequence(Qt::Key_D)}},
          Sides::difference);
  addCommand({tr("Compare with the nearest head"),
              tr("The head of the other model whose attention reaches as far, beside the pane's own"),
              {QKeySequence(Qt::Key_N)}},
             [this] { pane(m_active).chooseNearest(); });
  m_keepAction = addCommand({tr("Keep this head in the pane"),
                             tr("The pane keeps its head, or follows the chosen one again"),
                             {QKeySequence(Qt::Key_K)}},
                            [this] {
                              const PaneHeads heads(m_runs, m_nearest);
                              changeActive([&](PaneState& state) {
                                const auto shown = heads.left(state);
                                state.own = state.own || !shown ? std::nullopt : std::optional(shown->name);
                              });
                              showChecks();
                            });
  m_keepAction->setCheckable(true);
  addSeparator();
  addCommand(
      {tr("Next quantity"),
       tr("F, log F, logits, attention, attention without the gate, gate effect, mixing: those that the head has"),
       {QKeySequence(Qt::Key_Q)}},
      [this] {
        const auto lacks = m_panes[index_of(m_active)]->lacks();
        changeActive([&](PaneState& state) {
          constexpr int kQuantities = 7;
          auto next = state.quantity;
          do {
            next = static_cast<Quantity>((static_cast<int>(next) + 1) % kQuantities);
          } while (next != state.quantity && lacks.contains(next));
          state.setQuantity(next);
        });
      });
  addCommand({tr("Axes: key or distance"),
              tr("Keys beside queries, or distances above queries on a logarithmic axis, where fast heads can be read"),
              {QKeySequence(Qt::Key_X)}},
             [this] {
               // Maps that are seen together are read together.
               const MapAxes wanted = pane(m_active).axes() == MapAxes::key ? MapAxes::distance : MapAxes::key;
               for (int index = 0; index < paneCount(); ++index) {
                 PaneState state = paneState(index);
                 state.axes = wanted;
                 pane(index).setState(state);
               }
               emit stateChanged();
             });
  m_firstKeyAction = addCommand({tr("Without key 0"),
                                 tr("Leave out the first key, where many heads park attention, in all panes of "
                                    "attention. Each row is divided by the rest"),
                                 {QKeySequence(Qt::Key_0)}},
                                [this] { toggleFirstKey(); });
  m_firstKeyAction->setCheckable(true);
  addSeparator();
  addCommand(
      {tr("Auto contrast"), tr("Limits at the 0.1 and 99.9 percentiles of what is shown"), {QKeySequence(Qt::Key_C)}},
      [this] { pane(m_active).setContrast(); });
  addCommand({tr("Automatic colours"),
              tr("Reset limits, scale and colours for this quantity"),
              {QKeySequence(Qt::SHIFT | Qt::Key_C)}},
             [this] { changeActive([](PaneState& state) { state.colours = {}; }); });
  addCommand({tr("Linear or logarithmic colours"), tr("Switches between the two scales"), {QKeySequence(Qt::Key_L)}},
             [this] {
               changeActive([](PaneState& state) {
                 if (!state.allowsLogarithm()) return;
                 const bool linear = state.effectiveScale() == figure::ColourScale::linear;
                 state.colours.lower.reset();
                 state.colours.upper.reset();
                 state.colours.scale = linear ? figure::ColourScale::logarithmic : figure::ColourScale::linear;
               });
             });
}

void MapsView::toggleFirstKey() {
  const FirstKey wanted = firstKeyIsLeftOut() ? FirstKey::counted : FirstKey::left_out;
  for (MapPane* pane : m_panes) {
    PaneState state = pane->state();
    state.setFirstKey(wanted);
    pane->setState(state);
  }
  emit stateChanged();
}

bool MapsView::firstKeyIsLeftOut() const {
  bool any = false;
  for (int index = 0; index < m_count; ++index) {
    const PaneState& state = paneState(index);
    if (!is_of_attention(state.quantity)) continue;
    if (state.firstKey == FirstKey::counted) return false;
    any = true;
  }
  return any || (paneState(m_active).firstKey == FirstKey::left_out);
}

void MapsView::showChecks() {
  const PaneState& state = paneState(m_active);
  m_equalAction->setChecked(limitsAreEqual());
  const bool comparable = !comparablePanes().empty();
  m_equalAction->setEnabled(comparable);
  m_equalAction->setToolTip(comparable ? tr("Panes of one quantity get the same limits, or each its own again (E)")
                                       : tr("No two maps show the same quantity on the same scale: choose one in their "
                                            "titles, or with Q, to give them the same limits"));
  m_firstKeyAction->setChecked(firstKeyIsLeftOut());
  m_keepAction->setChecked(state.own.has_value());
  for (QAction* action : m_sideActions->actions()) {
    if (action->data().toInt() == static_cast<int>(state.sides)) action->setChecked(true);
  }
}

void MapsView::makePinCommands() {
  m_equalAction = addCommand({tr("Equal colour limits"),
                              tr("Panes of one quantity get the same limits, or each its own again"),
                              {QKeySequence(Qt::Key_E)}},
                             [this] { toggleEqualLimits(); });
  m_equalAction->setCheckable(true);
  addSeparator();
  addCommand({tr("Zoom to the pin"), tr("Show single tokens around the pinned pair"), {QKeySequence(Qt::Key_P)}},
             [this] { zoomTo(m_runs.selection().pin()); });
  addCommand({tr("Lock the pin"), tr("Keep the pinned pair marked while others are pinned"), {QKeySequence(Qt::Key_M)}},
             [this] { m_runs.lockPair(m_runs.selection().pin()); });
}

void MapsView::fillLocks() {
  const std::size_t count = m_runs.selection().locks().size();
  m_locks->setVisible(count > 0);
  const QString text = tr("Locked: %1").arg(count);
  m_locks->setTexts(text, text);
  m_locks->menu()->clear();
  listLocks(*m_locks->menu(), m_runs, [this](const Cursor& pair) { zoomTo(pair); });
}

void MapsView::makeBar() {
  m_bar->setContentsMargins(4, 2, 4, 0);
  m_bar->setSpacing(2);
  enum class Words { hidden, shown };
  const auto add = [](QHBoxLayout* row, QAction* action, const QString& icon, const QString& text, Words words) {
    // The button's text; the command's own is longer.
    action->setIconText(text);
    action->setIcon(themedIcon(icon));
    auto* button = new BarButton;
    button->setDefaultAction(action);
    button->setAutoRaise(true);
    button->setToolButtonStyle(words == Words::shown ? Qt::ToolButtonTextBesideIcon : Qt::ToolButtonIconOnly);
    const QKeySequence shortcut = action->shortcut();
    if (!shortcut.isEmpty()) {
      button->setToolTip(QStringLiteral("%1 (%2)").arg(action->toolTip(), shortcut.toString(QKeySequence::NativeText)));
    }
    row->addWidget(button);
  };
  auto* counts = new Segments;
  constexpr std::array kCountIcons{"one", "two", "four"};
  for (std::size_t n = 0; n < kCounts.size(); ++n) {
    add(&counts->row(), m_countActions[n], kCountIcons[n], QString::number(kCounts[n]), Words::hidden);
  }
  m_bar->addWidget(counts);
  m_bar->addSpacing(8);
  add(m_bar, m_fitAction, QStringLiteral("fit"), tr("Fit"), Words::shown);
  add(m_bar, m_backAction, QStringLiteral("back"), tr("Back"), Words::shown);
  m_bar->addSpacing(8);
  add(m_bar, m_bandAction, QStringLiteral("zoom"), tr("Zoom"), Words::shown);
  add(m_bar, m_squareAction, QStringLiteral("square"), tr("Square"), Words::shown);
  add(m_bar, m_equalAction, QStringLiteral("equal"), tr("Equal limits"), Words::shown);
  m_bar->addStretch(1);
  m_locks = new HeaderButton(HeaderButton::Weight::regular, new QMenu(this));
  m_locks->setToolTip(tr("Pairs that stay marked while others are pinned: zoom to one, pin it, remove it"));
  m_bar->addWidget(m_locks);
}

void MapsView::setNearestHead(NearestHead nearest) {
  m_nearest = std::move(nearest);
  refreshAll();
}

void MapsView::nearestHeadsChanged() { refreshAll(); }

void MapsView::setPaneCount(int count) {
  if (std::find(kCounts.begin(), kCounts.end(), count) == kCounts.end()) return;
  const bool changed = count != m_count;
  m_count = count;
  arrangePanes();
  if (changed) emit stateChanged();
}

void MapsView::arrangePanes() {
  m_grid->setCount(m_count);
  for (std::size_t n = 0; n < kCounts.size(); ++n) m_countActions[n]->setChecked(kCounts[n] == m_count);
  setActivePane(std::min(m_active, m_count - 1));
  refreshAll();
}

void MapsView::setActivePane(int pane) {
  m_active = std::clamp(pane, 0, m_count - 1);
  // A single pane needs no sign.
  for (int index = 0; index < kMostPanes; ++index) {
    this->pane(index).setRole(index == m_active && m_count > 1 ? MapPane::Role::active : MapPane::Role::ordinary);
  }
  showChecks();
}

// A head that is chosen is seen: where every pane keeps one, the active pane lets its own go.
void MapsView::showChosenHead() {
  const PaneHeads heads(m_runs, m_nearest);
  for (int index = 0; index < m_count; ++index) {
    if (!paneState(index).own) return;
  }
  const auto shown = heads.left(paneState(m_active));
  if (shown && shown->choice == m_runs.selection().head()) return;
  changeActive([](PaneState& state) { state.own.reset(); });
}

const PaneState& MapsView::paneState(int pane) const { return this->pane(pane).state(); }

void MapsView::setPaneState(int pane, const PaneState& state) {
  this->pane(pane).setState(state);
  emit stateChanged();
}

template <typename Change>
void MapsView::changeActive(Change change) {
  PaneState state = paneState(m_active);
  change(state);
  if (state != paneState(m_active)) setPaneState(m_active, state);
}

// Without gates F is 1 everywhere. A choice by hand stays.
void MapsView::chooseFirstQuantities() {
  const RunList& runs = m_runs;
  const bool gated =
      runs.empty() || std::any_of(runs.begin(), runs.end(), [](const Run& run) { return forgets(run.trace->info()); });
  const bool linear =
      std::any_of(runs.begin(), runs.end(), [](const Run& run) { return !run.trace->info().mixer(0).has_softmax(); });
  const auto& ofSoftmax = gated ? kFirstQuantities : kUngatedQuantities;
  const auto& ofMixing = gated ? kMixingQuantities : kUndecayedQuantities;
  const auto& quantities = linear ? ofMixing : ofSoftmax;
  for (std::size_t index = 0; index < m_panes.size(); ++index) {
    PaneState wanted;
    wanted.setQuantity(quantities[index]);
    // Axes that were chosen stay, and say nothing of the quantity.
    PaneState shown = m_panes[index]->state();
    const auto axes = std::exchange(shown.axes, std::nullopt);
    const bool untouched = shown == m_first[index];
    m_first[index] = wanted;
    wanted.axes = axes;
    if (untouched) m_panes[index]->setState(wanted);
  }
}

void MapsView::followRuns() {
  m_grid->setVisible(!m_runs.empty());
  chooseFirstQuantities();
  for (MapPane* pane : m_panes) pane->followRuns();
}

void MapsView::refreshAll() {
  for (MapPane* pane : m_panes) pane->refreshLater();
}

void MapsView::setTool(MapTool tool) {
  m_bandAction->setChecked(tool == MapTool::zoomBand);
  for (MapPane* pane : m_panes) pane->setTool(tool);
}

void MapsView::setProportions(Proportions proportions) {
  m_squareAction->setChecked(proportions == Proportions::square);
  for (MapPane* pane : m_panes) pane->setProportions(proportions);
}

std::vector<std::vector<int>> MapsView::comparablePanes() const {
  std::vector<std::vector<int>> groups;
  for (int index = 0; index < m_count; ++index) {
    const PaneState& state = paneState(index);
    const auto alike = [&](const std::vector<int>& group) {
      const PaneState& other = paneState(group.front());
      return other.quantity == state.quantity && other.hasSigns() == state.hasSigns() &&
             other.effectiveScale() == state.effectiveScale();
    };
    const auto group = std::find_if(groups.begin(), groups.end(), alike);
    if (group == groups.end()) {
      groups.push_back({index});
    } else {
      group->push_back(index);
    }
  }
  std::erase_if(groups, [](const std::vector<int>& group) { return group.size() < 2; });
  return groups;
}

bool MapsView::limitsAreEqual() const {
  const auto groups = comparablePanes();
  return !groups.empty() && std::all_of(groups.begin(), groups.end(), [&](const std::vector<int>& group) {
    const ColourState& first = paneState(group.front()).colours;
    return first.lower && std::all_of(group.begin(), group.end(), [&](int index) {
             const ColourState& colours = paneState(index).colours;
             return colours.lower == first.lower && colours.upper == first.upper;
           });
  });
}

void MapsView::toggleEqualLimits() {
  const bool free = limitsAreEqual();
  for (const std::vector<int>& group : comparablePanes()) {
    std::optional<double> lower;
    std::optional<double> upper;
    for (const int index : group) {
      const PicturePointer picture = pane(index).picture();
      if (free || !picture || picture->summary->empty) continue;
      lower = std::min(lower.value_or(picture->colours.lower), picture->colours.lower);
      upper = std::max(upper.value_or(picture->colours.upper), picture->colours.upper);
    }
    for (const int index : group) {
      PaneState state = paneState(index);
      state.colours.lower = lower;
      state.colours.upper = upper;
      pane(index).setState(state);
    }
  }
  // The check mark says what is, not what was pressed: there may be nothing to compare.
  emit stateChanged();
}

void MapsView::zoomTo(const Cursor& pair) {
  if (m_runs.length() < 1 || (!pair.query && !pair.key)) return;
  Selection& selection = m_runs.selection();
  selection.endMovement();
  selection.setView(viewAround(pair, kPairTokens, m_runs.length()));
  selection.endMovement();
}

void MapsView::fit() {
  if (m_runs.length() < 1) return;
  Selection& selection = m_runs.selection();
  selection.endMovement();
  selection.setView(wholeView(m_runs.length()));
  selection.endMovement();
}

void MapsView::zoomBy(double factor) {
  if (m_runs.length() < 1) return;
  Selection& selection = m_runs.selection();
  selection.endMovement();
  const View& view = selection.view();
  const bool byDistance = pane(m_active).axes() == MapAxes::distance;
  selection.setView(byDistance ? zoomedByDistance(view, factor, {}, ZoomAxes::columns, m_runs.length())
                               : zoomed(view, factor, {}, ZoomAxes::both, m_runs.length()));
  selection.endMovement();
}

void MapsView::panBy(double rows, double columns) {
  if (m_runs.length() < 1) return;
  Selection& selection = m_runs.selection();
  const View& view = selection.view();
  // A step is at least one token.
  const auto step = [](const Range& range, double share) {
    const double tokens = share * static_cast<double>(range.size());
    return static_cast<std::int64_t>(share < 0 ? std::floor(tokens) : std::ceil(tokens));
  };
  if (pane(m_active).axes() == MapAxes::distance) {
    return selection.setView(pannedByDistance(view, step(view.rows, columns), -rows, m_runs.length()));
  }
  selection.setView(panned(view, step(view.rows, rows), step(view.columns, columns), m_runs.length()));
}

void MapsView::keyPressEvent(QKeyEvent* event) {
  // A tenth of what is shown, with Ctrl nearly all of it; while the key is held it is one movement.
  const double share = event->modifiers().testFlag(Qt::ControlModifier) ? 0.9 : 0.1;
  if (!event->isAutoRepeat()) m_runs.selection().endMovement();
  switch (event->key()) {
    case Qt::Key_Left:
      return panBy(0, -share);
    case Qt::Key_Right:
      return panBy(0, share);
    case Qt::Key_Up:
      return panBy(-share, 0);
    case Qt::Key_Down:
      return panBy(share, 0);
    default:
      QWidget::keyPressEvent(event);
  }
}

std::optional<figure::MapFigure> MapsView::figureOfActivePane() const { return pane(m_active).figure(); }

std::optional<ShownMap> MapsView::shownMap() const { return pane(m_active).shownMap(); }

std::optional<MapRequest> MapsView::requestOfActivePane() const { return pane(m_active).request(); }

QImage MapsView::grabActivePane() const { return pane(m_active).grabPicture(); }

bool MapsView::isSettled() const {
  return m_runs.empty() ||
         std::all_of(m_panes.begin(), m_panes.end(), [](const MapPane* pane) { return pane->isSettled(); });
}

QJsonObject MapsView::saveState() const {
  QJsonArray panes;
  for (const MapPane* pane : m_panes) panes.append(pane->state().toJson());
  return {{"pane_count", m_count}, {"active", m_active}, {"square", m_squareAction->isChecked()}, {"panes", panes}};
}

void MapsView::restoreState(const QJsonObject& state) {
  const QJsonArray panes = state["panes"].toArray();
  for (int index = 0; index < kMostPanes && index < panes.size(); ++index) {
    if (panes[index].isObject()) setPaneState(index, PaneState::fromJson(panes[index].toObject()));
  }
  setPaneCount(state["pane_count"].toInt(m_count));
  setActivePane(state["active"].toInt(m_active));
  setProportions(state["square"].toBool(m_squareAction->isChecked()) ? Proportions::square : Proportions::free);
}

}  // namespace foxscope::gui
