#pragma once

#include <map>
#include <string>
#include <vector>

#include <QWidget>

#include "app/gui/atlas/atlas_view.h"
#include "app/gui/document/evaluation_list.h"
#include "app/gui/document/file_writer.h"
#include "app/gui/document/runs/model_runs.h"
#include "app/gui/document/runs/run_list.h"
#include "app/gui/views/view_part.h"

class QLabel;
class QTabWidget;

namespace foxscope::gui {

class FlowLayout;

namespace evaluations {
class HeadsPage;
class LossPage;
class NeedlePage;
}  // namespace evaluations

/// The evaluations that are open, a tab a kind; those of one kind stand together in one plot.
class EvaluationsView : public QWidget, public ViewPart {
  Q_OBJECT

 public:
  EvaluationsView(EvaluationList& evaluations, RunList& runs, ModelRuns& modelRuns, FileWriter& files,
                  QWidget* parent = nullptr);

  [[nodiscard]] evaluations::LossPage& loss() { return *m_loss; }
  [[nodiscard]] evaluations::NeedlePage& needle() { return *m_needle; }
  [[nodiscard]] evaluations::HeadsPage& heads() { return *m_heads; }
  [[nodiscard]] AtlasView& atlas() { return *m_atlas; }
  /// The next tab, or the one before; round the ends.
  void stepTab(int by);
  /// The line below: the value under the mouse, or what is missing.
  [[nodiscard]] QString reading() const;
  /// Writes the figure of the losses, the needle test or the heads, whichever tab is shown, as `foxscope figure` draws
  /// it.
  void exportTo(const QString& path);
  /// The figures of the atlas, where its tab is shown; else none.
  [[nodiscard]] ShownPanels shownPanels() const;

  [[nodiscard]] QJsonObject saveState() const override;
  void restoreState(const QJsonObject& state) override;
  [[nodiscard]] QList<QAction*> commands() const override { return {m_export}; }
  [[nodiscard]] bool isSettled() const override;

 signals:
  /// Somebody wants to export the atlas.
  void panelsExportWanted();

 private:
  void follow();
  void followLooks();
  void fillFiles();
  void exportShown();
  /// Shows the last reading of the page that is shown.
  void showReading();

  EvaluationList& m_evaluations;
  RunList& m_runs;
  std::vector<std::string> m_hidden;  ///< models whose evaluations are left out
  FlowLayout* m_files = nullptr;
  QTabWidget* m_tabs = nullptr;
  QLabel* m_reading = nullptr;
  std::map<QWidget*, QString> m_told;  ///< by each page
  QAction* m_export = nullptr;
  evaluations::LossPage* m_loss = nullptr;
  evaluations::NeedlePage* m_needle = nullptr;
  evaluations::HeadsPage* m_heads = nullptr;
  AtlasView* m_atlas = nullptr;
};

}  // namespace foxscope::gui
