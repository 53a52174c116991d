#pragma once

#include <QHeaderView>
#include <QTableView>

namespace foxscope::gui {

/// A table of numbers whose rows are chosen, sorted by a click on a column's title. Letters do not move
/// through it: they are the window's commands, or its owner's.
class NumberTable : public QTableView {
 public:
  explicit NumberTable(QWidget* parent = nullptr) : QTableView(parent) {
    setSelectionBehavior(QAbstractItemView::SelectRows);
    setSelectionMode(QAbstractItemView::ExtendedSelection);
    setEditTriggers(QAbstractItemView::NoEditTriggers);
    setAlternatingRowColors(true);
    setTabKeyNavigation(false);
    verticalHeader()->hide();
    verticalHeader()->setDefaultSectionSize(fontMetrics().height() + kRowGap);
    setToolTip(tr("Click a column's title to sort by it"));
  }
  void keyboardSearch(const QString& /*search*/) override {}

 private:
  static constexpr int kRowGap = 6;  ///< logical pixels
};

}  // namespace foxscope::gui
