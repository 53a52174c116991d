#include "app/gui/document/undo_history.h"

#include <algorithm>
#include <utility>

#include <QJsonArray>

namespace foxscope::gui {

QJsonValue patched(const QJsonValue& state, const QJsonValue& from, const QJsonValue& to) {
  if (from == to) return state;
  if (state.isObject() && from.isObject() && to.isObject()) {
    QJsonObject result = state.toObject();
    const QJsonObject before = from.toObject();
    const QJsonObject after = to.toObject();
    QStringList keys = before.keys() + after.keys();
    keys.removeDuplicates();
    for (const QString& key : keys) {
      const QJsonValue value = patched(result.value(key), before.value(key), after.value(key));
      if (value.isUndefined()) {
        result.remove(key);
      } else {
        result[key] = value;
      }
    }
    return result;
  }
  const QJsonArray before = from.toArray();
  const QJsonArray after = to.toArray();
  QJsonArray result = state.toArray();
  const bool alike = state.isArray() && from.isArray() && to.isArray() && result.size() == after.size() &&
                     before.size() == after.size();
  if (!alike) return to;
  for (qsizetype n = 0; n < after.size(); ++n) result[n] = patched(result[n], before[n], after[n]);
  return result;
}

UndoHistory::~UndoHistory() = default;

void UndoHistory::forgetUndone() { m_steps.resize(m_done); }

void UndoHistory::add(Step step) {
  forgetUndone();
  m_steps.push_back(std::move(step));
  const auto heavy = [this] { return std::ranges::count(m_steps, Weight::heavy, &Step::weight) > kMostHeavySteps; };
  while (m_steps.size() > kMostSteps || heavy()) m_steps.pop_front();
  m_done = m_steps.size();
}

void UndoHistory::push(QUndoCommand* command, Weight weight) {
  std::unique_ptr<QUndoCommand> owned(command);
  if (m_restoring) return owned->redo();
  const QJsonObject before = m_input ? m_before : shown();
  owned->redo();
  forgetUndone();
  Step* last = m_steps.empty() ? nullptr : &m_steps.back();
  const bool merges = last != nullptr && !last->commands.empty() && command->id() >= 0 &&
                      last->commands.back()->id() == command->id() && last->commands.back()->mergeWith(command);
  if (merges) {
    last->after = shown();
    // Typing that was taken back is no step.
    if (last->commands.size() == 1 && last->commands.back()->isObsolete()) m_steps.pop_back();
    m_done = m_steps.size();
    m_joins = m_input && !m_steps.empty();
  } else if (m_joins) {
    last->commands.push_back(std::move(owned));
    last->after = shown();
    last->goesOn = false;
    if (weight == Weight::heavy) last->weight = weight;
  } else {
    Step step;
    step.words = command->text();
    step.commands.push_back(std::move(owned));
    step.before = before;
    step.after = shown();
    step.weight = weight;
    add(std::move(step));
    m_joins = m_input;
  }
  emit changed();
}

void UndoHistory::beginInput() {
  if (m_input) return;
  m_input = true;
  m_joins = false;
  m_before = shown();
}

void UndoHistory::endInput() {
  if (!std::exchange(m_input, false)) return;
  const QJsonObject now = shown();
  if (std::exchange(m_joins, false)) {
    m_steps.back().after = now;
    return;
  }
  if (now == m_before) return;
  const StepName name = m_views.name(m_before, now);
  if (name.words.isEmpty()) return;
  forgetUndone();
  Step* last = m_steps.empty() ? nullptr : &m_steps.back();
  if (name.goesOn && last != nullptr && last->goesOn && last->words == name.words) {
    last->after = now;
  } else {
    Step step;
    step.words = name.words;
    step.before = m_before;
    step.after = now;
    step.goesOn = name.goesOn;
    add(std::move(step));
  }
  emit changed();
}

void UndoHistory::restore(const QJsonObject& from, const QJsonObject& to) {
  if (!m_views.restore) return;
  QJsonObject parts;
  const QJsonObject now = shown();
  for (const QString& part : to.keys()) {
    if (from[part] != to[part]) parts[part] = patched(now[part], from[part], to[part]);
  }
  if (!parts.isEmpty()) m_views.restore(parts);
}

void UndoHistory::undo() {
  endInput();
  if (!canUndo()) return;
  m_restoring = true;
  const Step& step = m_steps[--m_done];
  for (auto command = step.commands.rbegin(); command != step.commands.rend(); ++command) (*command)->undo();
  restore(step.after, step.before);
  m_restoring = false;
  emit changed();
}

void UndoHistory::redo() {
  endInput();
  if (!canRedo()) return;
  m_restoring = true;
  const Step& step = m_steps[m_done++];
  for (const auto& command : step.commands) command->redo();
  restore(step.before, step.after);
  m_restoring = false;
  emit changed();
}

void UndoHistory::clear() {
  m_steps.clear();
  m_done = 0;
  m_input = false;
  m_joins = false;
  emit changed();
}

}  // namespace foxscope::gui
