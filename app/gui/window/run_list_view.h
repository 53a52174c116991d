#pragma once

#include <QTreeView>

#include "app/gui/window/run_list_model.h"

namespace foxscope::gui {

/// The list of runs. A click on the colour offers others, on the name shows the run, on the eye hides it, on the i
/// shows its details, on the x removes it, on a title sorts the runs. Names can be edited and rows dragged; everything
/// has a key too.
class RunListView : public QTreeView {
  Q_OBJECT

 public:
  RunListView(RunList& runs, const RunNumbers& numbers, QWidget* parent = nullptr);
  [[nodiscard]] RunListModel& list() { return m_list; }
  [[nodiscard]] QSize sizeHint() const override;
  [[nodiscard]] QSize minimumSizeHint() const override;

 protected:
  bool event(QEvent* event) override;
  void keyPressEvent(QKeyEvent* event) override;
  void changeEvent(QEvent* event) override;
  void resizeEvent(QResizeEvent* event) override;

 private:
  void act(const QModelIndex& index, int column);
  void move(int by);
  void sortBy(int column);
  /// Shows as many columns of numbers as there is room for beside the name.
  void fitColumns();
  void offerColours(const QModelIndex& index);
  void tellOf(const ListRow& row);

  RunList& m_runs;
  RunListModel m_list;
  int m_sorted = -1;  ///< column that the runs were sorted by last
  Qt::SortOrder m_order = Qt::AscendingOrder;
};

/// Shows the same head of a run, or the one to look at first where it has no such head.
void showRun(RunList& runs, RunId id);

}  // namespace foxscope::gui
