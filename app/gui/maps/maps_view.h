#pragma once

#include <array>
#include <optional>
#include <vector>

#include <QActionGroup>
#include <QLabel>
#include <QStackedWidget>
#include <QToolButton>
#include <QWidget>

#include "app/figure/maps/map_figure.h"
#include "app/gui/document/runs/run_list.h"
#include "app/gui/maps/map_export.h"
#include "app/gui/maps/pane/pane_heads.h"
#include "app/gui/maps/pane/pane_state.h"
#include "app/gui/views/view_part.h"
#include "backend/base/index.h"
#include "backend/map/map_line.h"

class QHBoxLayout;

namespace foxscope::gui {

class HeaderButton;
class MapPane;
class PaneGrid;
enum class MapTool;
enum class Proportions;

/// The window's centre: one, two or four maps that zoom and pan together.
class MapsView : public QWidget, public ViewPart {
  Q_OBJECT

 public:
  static constexpr int kMostPanes = 4;

  explicit MapsView(RunList& runs, QWidget* parent = nullptr);
  ~MapsView() override;

  /// Sets the function that knows which heads of two models are alike: the heads view's. The heads view does.
  void setNearestHead(NearestHead nearest);

  [[nodiscard]] int paneCount() const { return m_count; }
  /// @param count  1, 2 or 4; others are ignored
  void setPaneCount(int count);
  [[nodiscard]] int activePane() const { return m_active; }
  void setActivePane(int pane);
  [[nodiscard]] const PaneState& paneState(int pane) const;
  void setPaneState(int pane, const PaneState& state);
  [[nodiscard]] MapPane& pane(int pane) const { return *m_panes[index_of(pane)]; }

  /// The picture of the active pane, once it is exact: for a figure, for its data, as it stands on the screen.
  [[nodiscard]] std::optional<figure::MapFigure> figureOfActivePane() const;
  [[nodiscard]] std::optional<ShownMap> shownMap() const;
  [[nodiscard]] std::optional<MapRequest> requestOfActivePane() const;
  [[nodiscard]] QImage grabActivePane() const;

  [[nodiscard]] QJsonObject saveState() const override;
  void restoreState(const QJsonObject& state) override;
  [[nodiscard]] QList<QAction*> commands() const override { return m_commands; }
  [[nodiscard]] bool isSettled() const override;

 public slots:
  /// Statistics came: the nearest heads may be others.
  void nearestHeadsChanged();
  /// Shows the whole text.
  void fit();
  /// Shows single tokens around a pair.
  void zoomTo(const foxscope::gui::Cursor& pair);

 signals:
  void firstPictureShown(int pane);
  void exactPictureShown(int pane);
  void stateChanged();  ///< something that saveState keeps
  void exportWanted();  ///< of the active pane
  /// The line through the pinned pair, in the chosen head, as a curve.
  void profileWanted(foxscope::MapLine::Along along);

 protected:
  void keyPressEvent(QKeyEvent* event) override;

 private:
  void makePanes();
  void makeBar();
  void makeViewCommands();
  void makePaneCommands();
  void makePinCommands();
  void fillLocks();
  struct CommandText {
    QString text;
    QString toolTip;
    QList<QKeySequence> shortcuts;
  };
  template <typename Run>
  QAction* addCommand(const CommandText& text, Run run);
  void addSeparator();
  void toggleFirstKey();
  /// Whether all panes that show attention leave key 0 out.
  [[nodiscard]] bool firstKeyIsLeftOut() const;
  /// Check marks of commands say what is.
  void showChecks();
  template <typename Change>
  void changeActive(Change change);
  void arrangePanes();
  void showChosenHead();
  void chooseFirstQuantities();
  void followRuns();
  void refreshAll();
  void setTool(MapTool tool);
  /// Visible panes whose colours can be compared: of one quantity on one scale, two at least.
  [[nodiscard]] std::vector<std::vector<int>> comparablePanes() const;
  [[nodiscard]] bool limitsAreEqual() const;
  /// Gives comparable panes common limits that cover the limits of each, or gives each its own again.
  void toggleEqualLimits();
  void setProportions(Proportions proportions);
  void zoomBy(double factor);
  void panBy(double rows, double columns);

  RunList& m_runs;
  NearestHead m_nearest;
  std::array<MapPane*, kMostPanes> m_panes{};
  std::array<PaneState, kMostPanes> m_first;  ///< that panes were given while nobody had chosen
  int m_count = 2;
  int m_active = 0;
  PaneGrid* m_grid = nullptr;
  QHBoxLayout* m_bar;
  QList<QAction*> m_commands;
  std::array<QAction*, 3> m_countActions{};
  QActionGroup* m_sideActions = nullptr;
  QAction* m_fitAction = nullptr;
  QAction* m_backAction = nullptr;
  QAction* m_keepAction = nullptr;
  QAction* m_firstKeyAction = nullptr;
  QAction* m_squareAction = nullptr;
  QAction* m_bandAction = nullptr;
  QAction* m_equalAction = nullptr;
  HeaderButton* m_locks = nullptr;
};

}  // namespace foxscope::gui
