#pragma once

#include <QLabel>
#include <QToolButton>
#include <QWidget>

#include "app/gui/document/evaluation_list.h"
#include "app/gui/document/head_table.h"

namespace foxscope::gui {

/// Over the maps: the answer to the question of the first page that was opened, in numbers that are computed from the
/// runs. It is about what the question's session shows, and stays as it is when something else is chosen.
class AnswerBar : public QWidget {
  Q_OBJECT

 public:
  AnswerBar(RunList& runs, const HeadTable& table, const EvaluationList& evaluations, QWidget* parent = nullptr);

  /// @param question  "forgets", "wins", "remembers"; another one, or none, has no answer, and the bar goes
  void ask(const QString& question);
  [[nodiscard]] QString text() const { return m_text->text(); }
  [[nodiscard]] QToolButton& close() const { return *m_close; }

 protected:
  void paintEvent(QPaintEvent* event) override;

 private:
  enum Channel { kComparison };
  void follow();
  void answer(const QString& text);
  [[nodiscard]] QString held() const;
  [[nodiscard]] QString forgotten() const;
  void compare();

  RunList& m_runs;
  const HeadTable& m_table;
  const EvaluationList& m_evaluations;
  QLabel* m_text;
  QToolButton* m_close;
  QString m_question;  ///< that is still to be answered; empty: none
};

}  // namespace foxscope::gui
