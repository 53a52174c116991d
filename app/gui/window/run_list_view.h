#pragma once

#include <QTreeView>

#include "app/gui/window/run_list_model.h"

namespace foxscope::gui {

/// The list of runs. A click on the colour offers others, on the name shows the run, on the eye hides it, on the i
/// shows its details, on the x removes it. Names can be edited and rows dragged; everything has a key too.
class RunListView : public QTreeView {
  Q_OBJECT

 public:
  explicit RunListView(RunList& runs, QWidget* parent = nullptr);
  [[nodiscard]] RunListModel& list() { return m_list; }
  [[nodiscard]] QSize sizeHint() const override;
  [[nodiscard]] QSize minimumSizeHint() const override;

 protected:
  bool event(QEvent* event) override;
  void keyPressEvent(QKeyEvent* event) override;
  void changeEvent(QEvent* event) override;

 private:
  void act(const QModelIndex& index, int column);
  void move(int by);
  void offerColours(const QModelIndex& index);
  void tellOf(const ListRow& row);

  RunList& m_runs;
  RunListModel m_list;
};

/// Shows the same head of a run, or the one to look at first where it has no such head.
void showRun(RunList& runs, RunId id);

}  // namespace foxscope::gui
