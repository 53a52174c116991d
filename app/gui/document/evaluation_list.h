#pragma once

#include <vector>

#include <QObject>
#include <QStringList>

#include "app/gui/document/evaluation.h"

namespace foxscope::gui {

/// Evaluations that were read from files, in the order in which they were opened.
class EvaluationList : public QObject {
  Q_OBJECT

 public:
  using QObject::QObject;

  [[nodiscard]] bool empty() const { return m_evaluations.empty(); }
  [[nodiscard]] std::size_t size() const { return m_evaluations.size(); }
  [[nodiscard]] auto begin() const { return m_evaluations.begin(); }
  [[nodiscard]] auto end() const { return m_evaluations.end(); }
  [[nodiscard]] const Evaluation& back() const { return m_evaluations.back(); }
  [[nodiscard]] const Evaluation& operator[](std::size_t place) const { return m_evaluations[place]; }

  /// Adds an evaluation. One of the same file gives its place to it: the file may have been made again.
  void take(Evaluation evaluation);
  void close(const QString& path);
  void clear();
  /// Files of a session, which are about to be read: their evaluations are the session's.
  void expect(const QStringList& paths) { m_ofSession = paths; }

 signals:
  void evaluationsChanged();

 private:
  std::vector<Evaluation> m_evaluations;
  QStringList m_ofSession;
};

}  // namespace foxscope::gui
