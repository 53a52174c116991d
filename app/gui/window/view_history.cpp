#include "app/gui/window/view_history.h"

#include <algorithm>
#include <utility>

#include <QAction>
#include <QCoreApplication>
#include <QEvent>
#include <QKeyEvent>

#include "app/gui/document/runs/run_list.h"
#include "app/gui/document/session.h"
#include "app/gui/views/view_part.h"

namespace foxscope::gui {
namespace {

const QString kSelection = QStringLiteral("selection");
/// Keys of views that are no step by themselves: which of several things is in front.
constexpr const char* kInFront[] = {"active", "tab"};

QJsonObject withoutFront(QJsonObject state) {
  for (const char* key : kInFront) state.remove(QLatin1String(key));
  return state;
}

bool namesHead(const QString& key) { return key == "run" || key == "layer" || key == "head"; }

/// "Run with a C&hange…" as the words of a step.
QString wordsOfCommand(const QAction& command) { return command.text().remove('&').remove(QStringLiteral("…")); }

}  // namespace

ViewHistory::ViewHistory(RunList& runs, std::vector<Part> parts) : m_runs(runs), m_parts(std::move(parts)) {
  m_ending.setSingleShot(true);
  m_ending.setInterval(0);
  connect(&m_ending, &QTimer::timeout, this, &ViewHistory::end);
  const auto name = [this](const QJsonObject& before, const QJsonObject& after) -> StepName {
    QStringList changed;
    for (const QString& key : after.keys()) {
      if (withoutFront(before[key].toObject()) != withoutFront(after[key].toObject())) changed += key;
    }
    if (changed.isEmpty()) return {};
    if (changed == QStringList{kSelection}) {
      const QJsonObject from = before[kSelection].toObject();
      const QJsonObject to = after[kSelection].toObject();
      const QStringList keys = to.keys();
      const bool headAlone =
          std::ranges::all_of(keys, [&](const QString& key) { return namesHead(key) || from[key] == to[key]; });
      if (headAlone) return {tr("choose a head"), true};
      if (m_command.isEmpty()) return {tr("move the pin")};
    }
    if (!m_command.isEmpty()) return {m_command};
    const auto part = std::ranges::find_if(m_parts, [&](const Part& each) { return changed.contains(each.key); });
    return {part == m_parts.end() ? tr("move the pin") : part->words, part != m_parts.end() && part->key == "words"};
  };
  m_runs.undoStack().setViews(
      {[this] { return state(); }, [this](const QJsonObject& wanted) { restore(wanted); }, name});
  QCoreApplication::instance()->installEventFilter(this);
}

ViewHistory::~ViewHistory() { m_runs.undoStack().setViews({}); }

void ViewHistory::nameBy(QAction& command) {
  connect(&command, &QAction::triggered, this, [this, &command] { m_command = wordsOfCommand(command); });
}

bool ViewHistory::eventFilter(QObject* watched, QEvent* event) {
  switch (event->type()) {
    case QEvent::ShortcutOverride:
    case QEvent::KeyPress:
      if (!static_cast<const QKeyEvent*>(event)->isAutoRepeat() || !m_open) begin();
      break;
    case QEvent::MouseButtonPress:
    case QEvent::MouseButtonDblClick:
      begin();
      break;
    case QEvent::Wheel:
    case QEvent::Drop:
    case QEvent::InputMethod:
      begin();
      m_released = true;
      m_ending.start();
      break;
    case QEvent::KeyRelease:
      if (static_cast<const QKeyEvent*>(event)->isAutoRepeat()) break;
      [[fallthrough]];
    case QEvent::MouseButtonRelease:
      m_released = true;
      m_ending.start();
      break;
    case QEvent::ApplicationStateChange:
      m_ending.start();
      break;
    default:
      break;
  }
  return QObject::eventFilter(watched, event);
}

// The same event comes to several receivers, one after the other; another one comes when the first was let go.
void ViewHistory::begin() {
  if (m_open && m_released) end();
  if (m_open) return;
  m_open = true;
  m_released = false;
  m_command.clear();
  m_runs.undoStack().beginInput();
}

void ViewHistory::end() {
  m_ending.stop();
  if (!std::exchange(m_open, false)) return;
  m_runs.undoStack().endInput();
  emit inputEnded();
}

QJsonObject ViewHistory::state() const {
  QJsonObject state;
  for (const Part& part : m_parts) state[part.key] = part.view->saveState();
  QJsonObject selection = m_runs.selectionState().toJson();
  for (const char* own : {"rows", "columns", "locked"}) selection.remove(QLatin1String(own));
  state[kSelection] = selection;
  return state;
}

void ViewHistory::restore(const QJsonObject& wanted) {
  for (const Part& part : m_parts) {
    if (wanted.contains(part.key)) part.view->restoreState(wanted[part.key].toObject());
  }
  if (!wanted.contains(kSelection)) return;
  const SelectionState state = SelectionState::fromJson(wanted[kSelection].toObject());
  if (const Run* run = std::as_const(m_runs).runNamed(state.run)) {
    const HeadChoice choice{run->id, state.layer, state.head};
    if (m_runs.headOf(choice)) m_runs.selection().setHead(choice);
  }
  const auto inside = [this](const std::optional<std::int64_t>& position) {
    return position && *position < m_runs.length() ? position : std::nullopt;
  };
  m_runs.selection().setPin({inside(state.pin.query), inside(state.pin.key)});
}

}  // namespace foxscope::gui
