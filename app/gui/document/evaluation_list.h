#pragma once

#include <vector>

#include <QObject>
#include <QStringList>

#include "app/gui/document/evaluation.h"
#include "app/gui/document/undo_history.h"

namespace foxscope::gui {

/// Evaluations that were read from files, in the order in which they were opened.
class EvaluationList : public QObject {
  Q_OBJECT

 public:
  explicit EvaluationList(UndoHistory& history, QObject* parent = nullptr) : QObject(parent), m_history(history) {}

  [[nodiscard]] bool empty() const { return m_evaluations.empty(); }
  [[nodiscard]] std::size_t size() const { return m_evaluations.size(); }
  [[nodiscard]] auto begin() const { return m_evaluations.begin(); }
  [[nodiscard]] auto end() const { return m_evaluations.end(); }
  [[nodiscard]] const Evaluation& back() const { return m_evaluations.back(); }
  [[nodiscard]] const Evaluation& operator[](std::size_t place) const { return m_evaluations[place]; }

  /// Adds an evaluation. One of the same file gives its place to it: the file may have been made again.
  void take(Evaluation evaluation);
  /// Closes one; can be undone.
  void close(const QString& path);
  void clear();
  /// Files of a session, which are about to be read: their evaluations are the session's.
  void expect(const QStringList& paths) { m_ofSession = paths; }

 signals:
  void evaluationsChanged();

 private:
  class Closing;
  UndoHistory& m_history;
  std::vector<Evaluation> m_evaluations;
  QStringList m_ofSession;
};

}  // namespace foxscope::gui
