#pragma once

#include <functional>

#include <QRect>
#include <QSize>
#include <QString>

class QWidget;

namespace foxscope::gui {

/// The cells of a widget that paints them itself, as programs for those who cannot see them read them: as a table.
struct CellTable {
  std::function<QSize()> size = {};                       ///< columns and rows
  std::function<QString(int row, int column)> text = {};  ///< all that is to be said of a cell; empty: there is none
  std::function<QRect(int row, int column)> place = {};   ///< in the widget; empty where it is not seen
  std::function<bool(int row, int column)> isChosen = {};
  std::function<void(int row, int column)> choose = {};
  std::function<QString(int row)> rowName = {};        ///< may be empty
  std::function<QString(int column)> columnName = {};  ///< may be empty
};

/// Tells accessibility that the widget is this table, named by its accessible name (QAccessibleTableInterface).
void describeCells(QWidget& widget, CellTable table);
/// Another cell is chosen: where the widget has the keyboard it is read out.
void announceCell(QWidget& widget, int row, int column);
/// There are other cells.
void announceCells(QWidget& widget);

}  // namespace foxscope::gui
