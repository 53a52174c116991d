#pragma once

#include <memory>
#include <optional>
#include <vector>

#include <QMainWindow>

#include "app/gui/document/autosave.h"
#include "app/gui/document/document.h"
#include "app/gui/document/head_table.h"
#include "app/gui/document/runs/sweeps.h"
#include "app/gui/document/trainings.h"
#include "app/gui/views/view_part.h"
#include "app/gui/window/figures/export_dialog.h"
#include "app/gui/window/file_commands.h"
#include "app/gui/window/menus.h"
#include "app/gui/window/settings.h"
#include "app/gui/window/view_history.h"

class QStackedWidget;

namespace foxscope::gui {

class AnswerBar;
class CurvesView;
class Docks;
class ComparisonView;
class EffectsView;
class EvaluationsView;
class ExtremeHeads;
class HeadsView;
class Help;
class MapsView;
class MessageBar;
class ExpertsView;
class PredictionsView;
class StartPage;
class TextView;
class TrainingView;
class WordsView;

/// The window: heads at the left, maps in the centre, text at the right, curves below, all on one document.
class MainWindow : public QMainWindow {
  Q_OBJECT

 public:
  /// @param demo  session file of the demo; empty where there is none
  explicit MainWindow(const QString& demo, QWidget* parent = nullptr);
  ~MainWindow() override;

  Document& document() { return m_document; }
  HeadTable& heads() { return m_headTable; }
  [[nodiscard]] Settings& settings() { return m_settings; }
  MapsView& maps() { return *m_maps; }
  TextView& text() { return *m_text; }
  CurvesView& curves() { return *m_curves; }
  EvaluationsView& evaluations() { return *m_evaluations; }
  HeadsView& headsView() { return *m_heads; }
  WordsView& words() { return *m_words; }
  ComparisonView& comparison() { return *m_comparison; }
  PredictionsView& predictions() { return *m_predictions; }
  ExpertsView& experts() { return *m_experts; }
  EffectsView& effects() { return *m_effects; }
  Sweeps& sweeps() { return m_sweeps; }
  TrainingView& training() { return *m_training; }
  Trainings& trainings() { return m_trainings; }
  Docks& docks() { return *m_docks; }
  Autosave& autosave() { return *m_autosave; }
  [[nodiscard]] QStringList messages() const;

  /// Size and docks as they were when the last window closed. @returns false where the size is still to be given: the
  /// first time, or on a screen of another size
  bool restorePlaces();
  /// Gives the window this size, or as much of it as its screen has room for beside the frame.
  void resizeToFit(const QSize& wanted);
  using Remembering = FileCommands::Remembering;
  /// Whether closing remembers places and asks about what is not saved, and opening remembers paths.
  void setRemembering(Remembering remembering);
  /// Whether everything that is shown is final.
  [[nodiscard]] bool isSettled() const;
  /// The same, whether files are being written or not.
  [[nodiscard]] bool isDrawn() const;
  /// Every command, as in the menus.
  [[nodiscard]] QList<QAction*> commands() const;

 signals:
  void themeChosen();

 protected:
  void closeEvent(QCloseEvent* event) override;
  void showEvent(QShowEvent* event) override;
  void resizeEvent(QResizeEvent* event) override;
  void dragEnterEvent(QDragEnterEvent* event) override;
  void dropEvent(QDropEvent* event) override;

 private:
  struct Part {
    QString key;  ///< in session files
    QString title;
    ViewPart* part = nullptr;
    Menus::Place menu = Menus::Place::bar;
  };
  void makeViews();
  void makeHistory();
  void makeMenus();
  void connectDocument();
  void followRuns();
  void followCentre();
  void followPlaces();
  void followEvaluations();
  void followTrainings();
  void followInputs();
  void followObstacle();
  void askForMissing(const QString& what, const QString& path);
  void exportShown(ExportDialog::Source source);
  void copyShown();
  void restoreViews(const QJsonObject& state);
  /// Whether there is anything that the docks of runs could show.
  [[nodiscard]] bool anythingOpen() const;
  /// Whether evaluations are all that is open.
  [[nodiscard]] bool evaluationsAlone() const;
  /// Colours the grid of heads by a number, and sorts their table by it, the largest first.
  void orderHeads(HeadQuantity quantity);
  void showExtremes();
  void openSession(const QJsonObject& state);
  [[nodiscard]] QJsonObject viewState() const;
  /// The paths whose picture the maps are: the session, and the file or model of the first map's run. Others were shown
  /// beside it.
  [[nodiscard]] QStringList picturedPaths() const;
  void showPreferences();

  Settings m_settings;
  Document m_document;
  HeadTable m_headTable;
  Sweeps m_sweeps;
  Trainings m_trainings;
  Remembering m_remembering = Remembering::on;
  std::vector<Part> m_parts;
  HeadsView* m_heads = nullptr;
  MapsView* m_maps = nullptr;
  TextView* m_text = nullptr;
  WordsView* m_words = nullptr;
  CurvesView* m_curves = nullptr;
  ComparisonView* m_comparison = nullptr;
  PredictionsView* m_predictions = nullptr;
  ExpertsView* m_experts = nullptr;
  EffectsView* m_effects = nullptr;
  EvaluationsView* m_evaluations = nullptr;
  TrainingView* m_training = nullptr;
  std::unique_ptr<Autosave> m_autosave;
  std::unique_ptr<ViewHistory> m_history;
  FileCommands* m_files = nullptr;
  Docks* m_docks = nullptr;
  Help* m_help = nullptr;
  StartPage* m_start = nullptr;
  QStackedWidget* m_centre = nullptr;
  MessageBar* m_messages = nullptr;
  QString m_obstacle;  ///< what a run waits for
  Menus* m_menus = nullptr;
  ExtremeHeads* m_extremes = nullptr;
  AnswerBar* m_answer = nullptr;
  QJsonObject m_firstViews;   ///< of the views before anybody changed them
  QJsonObject m_wantedViews;  ///< of a session whose runs are still being made
};

}  // namespace foxscope::gui
