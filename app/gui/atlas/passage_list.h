#pragma once

#include <optional>

#include <QStringList>

#include "app/gui/atlas/passages.h"
#include "app/gui/atlas/row_list.h"

namespace foxscope::gui::atlas {

/// Passages below each other, each a line of what it is and a line of its text, in which the place stands in the middle
/// with an outline; of passages that were looked for, what was found stands there, underlined. Tokens are tinted by 1 -
/// f where the file has f around places; else by that of the place, and for the others by the mean of the head at that
/// token. A click or Return opens one. The one whose
/// trace is shown is marked, and stays in sight when the list gets another size.
class PassageList : public RowList {
  Q_OBJECT

 public:
  explicit PassageList(QWidget* parent = nullptr);
  void setAnswer(PassageAnswer answer, const AtlasModel& model);
  [[nodiscard]] const PassageAnswer& answer() const { return m_answer; }
  /// Marks the passage whose trace is shown, and scrolls to it. @param place  nothing: none is
  void setOpened(std::optional<PassagePlace> place);
  /// The row of that passage; -1 where it is not listed.
  [[nodiscard]] int openedRow() const { return m_openedRow; }
  /// Where a row's text has a piece, in the viewport and beyond its sides.
  [[nodiscard]] QRectF pieceBox(int row, std::size_t piece) const;
  /// The words of a row: what it is, with its value.
  [[nodiscard]] QString heading(int row) const;
  [[nodiscard]] QSize minimumSizeHint() const override;
  [[nodiscard]] QRect place(int row) const { return rowPlace(row); }

 signals:
  void passageChosen(int row);

 protected:
  void paintEvent(QPaintEvent* event) override;
  bool viewportEvent(QEvent* event) override;

 private:
  [[nodiscard]] int count() const override { return static_cast<int>(m_answer.rows.size()); }
  [[nodiscard]] int rowHeight() const override { return 2 * fontMetrics().height() + 10; }
  [[nodiscard]] int scrollStep() const override { return rowHeight() / 2; }
  [[nodiscard]] QString wordsOf(int row) const override;
  void choose(int row) override { emit passageChosen(row); }
  [[nodiscard]] int keptRow() const override { return m_openedRow; }
  void findOpened();
  [[nodiscard]] QRect textLine(int row) const;
  [[nodiscard]] double widthOf(const PassagePiece& piece) const;
  void paintText(QPainter& painter, int row) const;

  PassageAnswer m_answer;
  AtlasModel m_model;
  std::optional<PassagePlace> m_opened;
  int m_openedRow = -1;
};

}  // namespace foxscope::gui::atlas
