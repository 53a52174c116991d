#pragma once

#include <QLabel>
#include <QToolButton>

#include "app/gui/document/file_writer.h"
#include "app/gui/document/runs/model_runs.h"
#include "app/gui/document/runs/run_list.h"
#include "app/gui/experts/expert_list.h"
#include "app/gui/views/elided_label.h"
#include "app/gui/views/message_pages.h"
#include "app/gui/views/view_part.h"

namespace foxscope::gui {

/// How the chosen head's run uses the experts of its layer, as a table: of a layer without experts those of the next
/// layers, up to one with heads.
class ExpertsView : public QWidget, public ViewPart {
  Q_OBJECT

 public:
  ExpertsView(RunList& runs, const ModelRuns& modelRuns, FileWriter& files, QWidget* parent = nullptr);

  [[nodiscard]] ExpertList& list() { return *m_list; }
  [[nodiscard]] QString caption() const { return m_caption->text(); }
  /// The line instead of the table; empty while that is shown.
  [[nodiscard]] QString message() const { return m_pages->message(); }
  /// Writes the tables of all layers as `foxscope info --experts --csv` does, in the background.
  void exportTo(const QString& path);

  [[nodiscard]] QJsonObject saveState() const override { return {}; }
  void restoreState(const QJsonObject& /*state*/) override {}
  [[nodiscard]] QList<QAction*> commands() const override { return m_commands; }
  [[nodiscard]] bool isSettled() const override { return !isVisible() || m_fresh; }

 signals:
  void available();  ///< a run that kept its experts is there, for the first time

 protected:
  void showEvent(QShowEvent* event) override;

 private:
  enum Channel { kTable };
  void makeCommands();
  void followRuns();
  void outdate();
  void refresh();
  void take(const ExpertTable& table, const QString& run);
  void showMessage(const QString& message);
  void exportShown();

  RunList& m_runs;
  const ModelRuns& m_modelRuns;
  FileWriter& m_files;
  ElidedLabel* m_caption;
  QToolButton* m_export;
  ExpertList* m_list;
  MessagePages* m_pages;
  QList<QAction*> m_commands;
  bool m_any = false;
  bool m_fresh = false;
};

}  // namespace foxscope::gui
