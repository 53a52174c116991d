#pragma once

#include <QAbstractScrollArea>
#include <QStringList>

#include "app/gui/atlas/passages.h"

namespace foxscope::gui::atlas {

/// Passages below each other, each a line of what it is and a line of its text, in which the place stands in the middle
/// with an outline. Tokens are tinted by 1 - f where the file has f around places; else by that of the place, and for
/// the others by the mean of the head at that token.
/// A click or Return opens one.
class PassageList : public QAbstractScrollArea {
  Q_OBJECT

 public:
  explicit PassageList(QWidget* parent = nullptr);
  void setAnswer(PassageAnswer answer, const AtlasModel& model);
  [[nodiscard]] const PassageAnswer& answer() const { return m_answer; }
  /// The words of a row: what it is, with its value.
  [[nodiscard]] QString heading(int row) const;
  [[nodiscard]] QSize minimumSizeHint() const override;
  [[nodiscard]] QRect place(int row) const;

 signals:
  void passageChosen(int row);
  void hovered(const QString& words);

 protected:
  void paintEvent(QPaintEvent* event) override;
  void resizeEvent(QResizeEvent* event) override;
  void changeEvent(QEvent* event) override;
  void mouseMoveEvent(QMouseEvent* event) override;
  void mouseReleaseEvent(QMouseEvent* event) override;
  void leaveEvent(QEvent* event) override;
  void keyPressEvent(QKeyEvent* event) override;

 private:
  [[nodiscard]] int count() const { return static_cast<int>(m_answer.rows.size()); }
  [[nodiscard]] int rowHeight() const { return 2 * fontMetrics().height() + 10; }
  [[nodiscard]] int rowAt(const QPointF& place) const;
  void paintText(QPainter& painter, const QRect& line, const PassageRow& row) const;
  void followSize();
  void point(int row);

  PassageAnswer m_answer;
  AtlasModel m_model;
  int m_row = -1;
};

}  // namespace foxscope::gui::atlas
