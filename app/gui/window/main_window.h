#pragma once

#include <functional>
#include <optional>
#include <vector>

#include <QMainWindow>

#include "app/gui/document/document.h"
#include "app/gui/document/head_table.h"
#include "app/gui/document/sweeps.h"
#include "app/gui/document/trainings.h"
#include "app/gui/views/view_part.h"
#include "app/gui/window/figures/export_dialog.h"
#include "app/gui/window/settings.h"

class QDockWidget;
class QMenu;
class QStackedWidget;

namespace foxscope::gui {

class CurvesView;
class EffectsView;
class EvaluationsView;
class Glossary;
class HeadsView;
class MapsView;
class MessageBar;
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
  EffectsView& effects() { return *m_effects; }
  Sweeps& sweeps() { return m_sweeps; }
  TrainingView& training() { return *m_training; }
  Trainings& trainings() { return m_trainings; }
  [[nodiscard]] QStringList messages() const;

  /// Size and docks as they were when the last window closed. @returns false the first time
  bool restorePlaces();
  enum class Remembering { on, off };
  /// Whether closing remembers places and asks about what is not saved, and opening remembers paths.
  void setRemembering(Remembering remembering);
  /// Everything that is shown is final.
  [[nodiscard]] bool isSettled() const;
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
  };
  void makeViews();
  /// Where the parts are at first.
  void resetDocks();
  void makeMenus();
  void makeFileMenu();
  void makeEditMenu();
  void makeRunMenu();
  void makeViewMenu();
  void makeHelpMenu();
  struct CommandText {
    QString words;
    QString icon = {};  ///< of resources/icons; empty: none
  };
  QAction* addCommand(QMenu* menu, const CommandText& text, const QKeySequence& keys, const QString& tip,
                      const std::function<void()>& act);
  void connectDocument();
  void followRuns();
  void showEffects();
  void followEvaluations();
  void followTrainings();
  void followInputs();
  void fillRecent();
  [[nodiscard]] bool isDemo(const QString& path) const;
  void openWith(const QString& title, const QString& filter);
  void openModel();
  void askForMemory(const MemoryQuestion& question);
  void askForMissing(const QString& what, const QString& path);
  void saveSession(const QString& path);
  void saveSessionAs();
  void saveRunFile();
  /// Does it at once where nothing would be lost; else asks, and does it when what there is was saved or given up.
  void whenNothingIsLost(std::function<void()> then);
  void saveUnsaved();
  void exportShown(ExportDialog::Source source);
  void copyShown();
  void restoreViews(const QJsonObject& state);
  /// Docks as they were, as soon as the window has its size. Those wanted last win.
  void restoreDocks(const QByteArray& docks);
  enum class Size { pending, final };
  void placeDocks(Size size);
  [[nodiscard]] bool hasItsSize() const;
  [[nodiscard]] QByteArray docks() const;
  /// Where there is none, what it waits for is told.
  bool isAnyRun();
  /// Whether there is anything that the docks of runs could show.
  [[nodiscard]] bool anythingOpen() const;
  /// F and A of the head of the chosen run that forgets fastest, above those of the one that forgets slowest.
  void showExtremes();
  /// Docks stand beside what is open, not beside the first page; those of evaluations and effects come by themselves.
  void followDocks();
  [[nodiscard]] QJsonObject viewState() const;
  void showPreferences();
  void showAbout();
  void showGlossary(const QString& term);
  void startTour();
  void showTour();

  Settings m_settings;
  Document m_document;
  HeadTable m_headTable;
  Sweeps m_sweeps;
  Trainings m_trainings;
  QString m_demo;
  Remembering m_remembering = Remembering::on;
  std::vector<Part> m_parts;
  HeadsView* m_heads = nullptr;
  MapsView* m_maps = nullptr;
  TextView* m_text = nullptr;
  WordsView* m_words = nullptr;
  CurvesView* m_curves = nullptr;
  EffectsView* m_effects = nullptr;
  EvaluationsView* m_evaluations = nullptr;
  TrainingView* m_training = nullptr;
  QDockWidget* m_headsDock = nullptr;
  QDockWidget* m_runsDock = nullptr;
  QDockWidget* m_textDock = nullptr;
  QDockWidget* m_wordsDock = nullptr;
  QDockWidget* m_curvesDock = nullptr;
  QDockWidget* m_effectsDock = nullptr;
  QDockWidget* m_evaluationsDock = nullptr;
  QDockWidget* m_trainingDock = nullptr;
  StartPage* m_start = nullptr;
  QStackedWidget* m_centre = nullptr;
  MessageBar* m_messages = nullptr;
  Glossary* m_glossary = nullptr;  ///< once it was opened
  QMenu* m_recentMenu = nullptr;
  std::function<void()> m_afterSaving;  ///< what waits for unsaved work to be saved
  QStringList m_shownFiles;             ///< opened in this window, for their small pictures
  QString m_saving;                     ///< the file that it is being saved to
  bool m_firstDocks = true;             ///< nobody has placed them: they follow from the window's first size
  bool m_firstRuns = true;              ///< the list of runs has not been shown since docks went to their places
  bool m_docksUntouched = false;        ///< they stand as the first size has them
  QByteArray m_wantedDocks;             ///< to be restored when the window has its size; empty: none
  /// With nothing open docks are put away, and come back as they were: an empty state is that of the first size.
  std::optional<QByteArray> m_docksAway;
  std::optional<QJsonObject> m_beforeExtremes;  ///< the maps before showExtremes
  QJsonValue m_extremes;                        ///< its panes
  QJsonObject m_wantedViews;                    ///< of a session whose runs are still being made
};

}  // namespace foxscope::gui
