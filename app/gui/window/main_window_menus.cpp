// The window's menus, whose actions are its commands.
#include <QActionGroup>
#include <QDockWidget>
#include <QMenu>
#include <QMenuBar>

#include "app/gui/evaluations/evaluations_view.h"
#include "app/gui/heads/heads_view.h"
#include "app/gui/views/icon.h"
#include "app/gui/window/intervention_dialog.h"
#include "app/gui/window/main_window.h"
#include "app/gui/window/sweep_dialog.h"

namespace foxscope::gui {

QAction* MainWindow::addCommand(QMenu* menu, const CommandText& text, const QKeySequence& keys, const QString& tip,
                                const std::function<void()>& act) {
  auto* action = new QAction(text.words, this);
  if (!text.icon.isEmpty()) action->setIcon(themedIcon(text.icon));
  action->setShortcut(keys);
  action->setToolTip(tip);
  action->setStatusTip(tip);
  connect(action, &QAction::triggered, this, act);
  menu->addAction(action);
  return action;
}

void MainWindow::makeMenus() {
  makeFileMenu();
  makeEditMenu();
  makeRunMenu();
  makeViewMenu();
  for (const Part& part : m_parts) {
    if (part.part->commands().isEmpty()) continue;
    QMenu* menu = menuBar()->addMenu(part.title);
    if (part.part == m_evaluations) {
      addCommand(menu, {tr("&Open Evaluation…"), "file"}, {},
                 tr("Losses of a corpus, a needle test or heads over a corpus, as foxscope eval writes them"),
                 [this] { openWith(tr("Open evaluation"), tr("Evaluations (*.h5 *.hdf5);;All files (*)")); });
    }
    menu->addActions(part.part->commands());
  }
  makeHelpMenu();
}

void MainWindow::makeFileMenu() {
  QMenu* menu = menuBar()->addMenu(tr("&File"));
  addCommand(menu, {tr("Open &Model…"), "model"}, QKeySequence("Ctrl+O"),
             tr("Add a checkpoint folder, or the folder of a training, to what is run"), [this] { openModel(); });
  addCommand(
      menu, {tr("Open &Text…"), "text"}, QKeySequence("Ctrl+Shift+O"), tr("Choose the text that the models read"),
      [this] { openWith(tr("Open text"), tr("Texts (*.txt *.md *.json *.csv *.tex *.py *.cpp);;All files (*)")); });
  addCommand(menu, {tr("Open &Run or Session…"), "file"}, QKeySequence("Ctrl+Alt+O"),
             tr("Open a run file or an evaluation (.h5), beside what is open, or a session (.json)"), [this] {
               openWith(tr("Open run file or session"),
                        tr("Run files, evaluations, sessions (*.h5 *.hdf5 *.json);;All files (*)"));
             });
  m_recentMenu = menu->addMenu(tr("Open R&ecent"));
  addCommand(menu, {tr("Open &Demo"), "demo"}, {}, tr("Both demo models on a chapter of a book"), [this] {
    if (!m_demo.isEmpty()) m_document.open({m_demo});
  })->setEnabled(!m_demo.isEmpty());
  menu->addSeparator();
  addCommand(menu, {tr("&Save Session"), "save"}, QKeySequence::Save, tr("Save models, text, panes, pins and places"),
             [this] {
               if (m_document.sessions().file().isEmpty() || isDemo(m_document.sessions().file())) return saveSessionAs();
               saveSession(m_document.sessions().file());
             });
  addCommand(menu, {tr("Save Session &As…")}, QKeySequence("Ctrl+Shift+S"), tr("Save the session under another name"),
             [this] { saveSessionAs(); });
  addCommand(menu, {tr("Save R&un File…")}, {},
             tr("Save the runs on the text shown to an HDF5 file that opens without a model"),
             [this] { saveRunFile(); });
  menu->addSeparator();
  addCommand(menu, {tr("&Export…"), "export"}, QKeySequence("Ctrl+E"),
             tr("Save what is shown as PNG, SVG or PDF, or its data"),
             [this] { exportShown(ExportDialog::Source::map); });
  addCommand(menu, {tr("&Copy"), "copy"}, QKeySequence::Copy,
             tr("Copy what has the keyboard: curves and rows of tables with their numbers, text; else the maps"),
             [this] { copyShown(); });
  menu->addSeparator();
  addCommand(menu, {tr("&Preferences…"), "preferences"}, QKeySequence("Ctrl+,"), tr("Theme, device, what runs keep"),
             [this] { showPreferences(); });
  addCommand(menu, {tr("Close &All")}, {}, tr("Close all runs, models and the text"),
             [this] { whenNothingIsLost([this] { m_document.clear(); }); });
  addCommand(menu, {tr("&Quit")}, QKeySequence("Ctrl+Q"), tr("Close the window"), [this] { close(); });
}

void MainWindow::makeEditMenu() {
  QMenu* menu = menuBar()->addMenu(tr("&Edit"));
  QUndoStack& stack = m_document.runs().undoStack();
  const auto add = [&](const QString& words, const QKeySequence& keys, const QString& tip, void (QUndoStack::*act)()) {
    return addCommand(menu, {words}, keys, tip, [&stack, act] { (stack.*act)(); });
  };
  QAction* undo = add(tr("&Undo"), QKeySequence("Ctrl+Z"), tr("Bring back the model, run or text that went last"),
                      &QUndoStack::undo);
  QAction* redo = add(tr("&Redo"), QKeySequence("Ctrl+Shift+Z"), tr("Do again what was undone"), &QUndoStack::redo);
  const auto follow = [undo, redo, &stack] {
    undo->setText(stack.canUndo() ? tr("&Undo: %1").arg(stack.undoText()) : tr("&Undo"));
    redo->setText(stack.canRedo() ? tr("&Redo: %1").arg(stack.redoText()) : tr("&Redo"));
    undo->setEnabled(stack.canUndo());
    redo->setEnabled(stack.canRedo());
  };
  connect(&stack, &QUndoStack::indexChanged, this, follow);
  follow();
}

void MainWindow::makeRunMenu() {
  QMenu* menu = menuBar()->addMenu(tr("&Run"));
  QAction* run = addCommand(menu, {tr("&Run"), "run"}, QKeySequence("F5"), tr("Run the models on the text"),
                            [this] { m_document.modelRuns().startRun(); });
  QAction* cancel = addCommand(menu, {tr("&Cancel Run"), "cancel"}, QKeySequence("Shift+F5"),
                               tr("Stop; what is there already stays"), [this] { m_document.modelRuns().cancelRun(); });
  QAction* change =
      addCommand(menu, {tr("Run with a C&hange…"), "intervene"}, QKeySequence("Ctrl+I"),
                 tr("Change the gate of the chosen head, cut it, and see what that does to the loss"), [this] {
                   if (!isAnyRun()) return;
                   InterventionDialog(m_document.runs(), m_document.modelRuns(), m_document.runs().selection().head(), this).exec();
                 });
  QAction* sweep =
      addCommand(menu, {tr("S&weep over All Heads…"), "intervene"}, QKeySequence("Ctrl+Shift+I"),
                 tr("Change each head in turn, in the background, and see what that does to the loss"), [this] {
                   if (!isAnyRun()) return;
                   SweepDialog(m_document.runs(), m_sweeps, this).exec();
                 });
  m_heads->grid().addAction(sweep);
  m_heads->grid().setContextMenuPolicy(Qt::ActionsContextMenu);
  m_heads->grid().addAction(change);
  addCommand(menu, {tr("Remove &Shown Run")}, {}, tr("Take the run of the chosen head out of the window"),
             [this] { m_document.runs().removeRun(m_document.runs().selection().head().run); });
  const auto follow = [this, run, cancel] {
    run->setEnabled(!m_document.modelRuns().runStatus().running);
    cancel->setEnabled(m_document.modelRuns().runStatus().running);
  };
  connect(&m_document.modelRuns(), &ModelRuns::runStatusChanged, this, follow);
  follow();
}

void MainWindow::makeViewMenu() {
  QMenu* menu = menuBar()->addMenu(tr("&View"));
  for (QDockWidget* dock : findChildren<QDockWidget*>()) {
    QAction* toggle = dock->toggleViewAction();
    toggle->setText(tr("Show %1").arg(dock->windowTitle()));
    toggle->setToolTip(tr("Show or hide this part of the window"));
    menu->addAction(toggle);
  }
  menu->addSeparator();
  addCommand(menu, {tr("Fastest and Slowest &Head")}, QKeySequence(Qt::Key_S),
             tr("F and A of the head that forgets fastest, above those of the one that forgets slowest; once more: the "
                "maps that were there before"),
             [this] { showExtremes(); });
  menu->addSeparator();
  auto* themes = new QActionGroup(this);
  const auto theme = [&](const QString& text, ThemeChoice choice) {
    QAction* action =
        addCommand(menu, {text}, {}, tr("Colours of the window; exports are always white"), [this, choice] {
          m_settings.setTheme(choice);
          emit themeChosen();
        });
    action->setCheckable(true);
    themes->addAction(action);
    // The preferences choose it too.
    connect(menu, &QMenu::aboutToShow, action,
            [this, action, choice] { action->setChecked(m_settings.theme() == choice); });
  };
  theme(tr("&Light"), ThemeChoice::light);
  theme(tr("&Dark"), ThemeChoice::dark);
  theme(tr("As the &System"), ThemeChoice::system);
  menu->addSeparator();
  QAction* full =
      addCommand(menu, {tr("&Full Screen")}, QKeySequence("F11"), tr("Fill the screen, or go back to a window"),
                 [this] { setWindowState(windowState() ^ Qt::WindowFullScreen); });
  full->setCheckable(true);
  connect(menu, &QMenu::aboutToShow, full, [this, full] { full->setChecked(isFullScreen()); });
  addCommand(menu, {tr("Reset &Layout")}, {}, tr("Put all parts of the window where they were at first"), [this] {
    m_docksAway.reset();
    resetDocks();
    followDocks();
  });
}

QList<QAction*> MainWindow::commands() const {
  QList<QAction*> actions;
  for (const QAction* top : menuBar()->actions()) {
    if (top->menu() == nullptr) continue;
    for (QAction* action : top->menu()->actions()) {
      if (!action->isSeparator() && action->menu() == nullptr) actions += action;
    }
  }
  return actions;
}

}  // namespace foxscope::gui
