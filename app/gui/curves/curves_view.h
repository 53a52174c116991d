#pragma once

#include <functional>
#include <optional>
#include <vector>

#include <QWidget>

#include "app/figure/curves/curve_figure.h"
#include "app/gui/document/runs/model_runs.h"
#include "app/gui/document/runs/run_list.h"
#include "app/gui/views/view_part.h"
#include "backend/map/map_line.h"

class QMimeData;
class QStackedWidget;
class QTabBar;

namespace foxscope::gui {

namespace curves {
class CurveTab;
class ProfileTab;
}  // namespace curves

/// The curves of runs: losses, perplexity against context, a line of the chosen head's map, its gate, the decay times
/// of all heads, attention against distance, and content and decay apart; one tab each.
class CurvesView : public QWidget, public ViewPart {
  Q_OBJECT

 public:
  CurvesView(RunList& runs, ModelRuns& modelRuns, QWidget* parent = nullptr);

  enum class Tab { loss, context, profile, gate, decay, distance, content, saliency };
  void setTab(Tab tab);
  /// The next tab, or the one before; round the ends.
  void stepTab(int by);
  /// Shows the line of the chosen head's map through what is pinned.
  void showProfile(MapLine::Along along);
  [[nodiscard]] Tab tab() const;

  [[nodiscard]] QJsonObject saveState() const override;
  void restoreState(const QJsonObject& state) override;
  [[nodiscard]] QList<QAction*> commands() const override { return m_commands; }
  [[nodiscard]] bool isSettled() const override;

  /// The figure of the current tab, for export; nothing where there is none yet, and for dots of decay times.
  [[nodiscard]] std::optional<figure::CurveFigure> figureOfCurrentTab() const;
  /// Picture and numbers of the current tab as one clipboard entry; null where there is nothing.
  [[nodiscard]] QMimeData* copied() const;
  /// The numbers behind it, at full resolution: CSV with a line of names and units; empty where there are none.
  [[nodiscard]] QString dataOfCurrentTab() const;

 signals:
  /// The current tab is to be exported.
  void exportWanted();

 private:
  /// @param command  that shows it; empty: others do
  void add(curves::CurveTab* tab, const QString& name, const QString& tip, const QString& command = {});
  void addCommand(const QString& text, const QString& tip, const std::function<void()>& act);
  void showCurrent();

  QTabBar* m_bar;
  QStackedWidget* m_pages;
  QWidget* m_controls;
  std::vector<curves::CurveTab*> m_tabs;  ///< by Tab
  curves::ProfileTab* m_profile;
  QList<QAction*> m_commands;
};

}  // namespace foxscope::gui
