#include "app/gui/window/menus.h"

#include <algorithm>

#include <QActionGroup>
#include <QApplication>
#include <QCursor>
#include <QDockWidget>
#include <QMainWindow>
#include <QMenu>
#include <QMenuBar>

#include "app/gui/heads/head_grid.h"
#include "app/gui/views/icon.h"
#include "app/gui/window/docks.h"
#include "app/gui/window/file_commands.h"
#include "app/gui/window/help/glossary.h"
#include "app/gui/window/help/help.h"
#include "app/gui/window/intervention_dialog.h"
#include "app/gui/window/settings.h"
#include "app/gui/window/sweep_dialog.h"

namespace foxscope::gui {

Menus::Menus(QMainWindow& window, const Subjects& subjects) : QObject(&window), m_window(window), m_of(subjects) {
  makeFile();
  makeEdit();
  makeRun();
  makeView();
  connect(&m_of.files, &FileCommands::recentChanged, this, &Menus::fillRecent);
  fillRecent();
}

QAction* Menus::addCommand(QMenu* menu, const Words& words, const QKeySequence& keys, const QString& tip,
                           const std::function<void()>& act) {
  auto* action = new QAction(words.text, &m_window);
  if (!words.icon.isEmpty()) action->setIcon(themedIcon(words.icon));
  action->setShortcut(keys);
  action->setToolTip(tip);
  action->setStatusTip(tip);
  connect(action, &QAction::triggered, this, act);
  menu->addAction(action);
  return action;
}

QMenu* Menus::addMenu(const QString& title, Place place) {
  if (place == Place::view) return m_view->addMenu(title);
  if (place == Place::run) return m_run->addMenu(title);
  return m_window.menuBar()->addMenu(title);
}

bool Menus::isAnyRun() {
  const bool none = m_of.document.runs().empty();
  if (none) emit messageRaised({Message::Kind::warning, m_of.document.modelRuns().noRunText()});
  return !none;
}

void Menus::fillRecent() { m_of.files.fillRecent(*m_recent); }

void Menus::makeFile() {
  QMenu* menu = m_window.menuBar()->addMenu(tr("&File"));
  addCommand(menu, {tr("Open &Model…"), "model"}, QKeySequence("Ctrl+O"),
             tr("Add a checkpoint folder, or the folder of a training, to the models"),
             [this] { m_of.files.openModel(); });
  addCommand(menu, {tr("Open &Text…"), "text"}, QKeySequence("Ctrl+Shift+O"),
             tr("Choose the text that the models read"),
             [this] { m_of.files.openText(tr("Texts (*.txt *.md *.json *.csv *.tex *.py *.cpp);;All files (*)")); });
  addCommand(menu, {tr("Open &Run or Session…"), "file"}, QKeySequence("Ctrl+Alt+O"),
             tr("Open a run file or an evaluation (.h5), beside what is open, or a session (.json)"),
             [this] { m_of.files.openRunsOrSession(); });
  addCommand(menu, {tr("Open on Another Ma&chine…"), "machine"}, QKeySequence("Ctrl+Alt+M"),
             tr("Run files, models, trainings and texts on a machine that ssh reaches: they stay there"),
             [this] { m_of.files.openRemote(); });
  m_recent = menu->addMenu(tr("Open R&ecent"));
  addCommand(menu, {tr("Open &Demo"), "demo"}, {}, tr("Both demo models on a chapter of a book"), [this] {
    m_of.files.openDemo();
  })->setEnabled(!m_of.files.demo().isEmpty());
  menu->addSeparator();
  addCommand(menu, {tr("&Save Session"), "save"}, QKeySequence::Save, tr("Save models, text, panes, pins and places"),
             [this] { m_of.files.saveSession(); });
  addCommand(menu, {tr("Save Session &As…")}, QKeySequence("Ctrl+Shift+S"), tr("Save the session under another name"),
             [this] { m_of.files.saveSessionAs(); });
  addCommand(menu, {tr("Save R&un File…")}, {},
             tr("Save the runs on the text shown to an HDF5 file that opens without a model"), [this] {
               if (isAnyRun()) m_of.files.saveRunFile();
             });
  menu->addSeparator();
  addCommand(menu, {tr("&Export…"), "export"}, QKeySequence("Ctrl+E"),
             tr("Save what is shown as PNG, SVG or PDF, or its data"), [this] { emit exportWanted(); });
  addCommand(menu, {tr("Export Pa&ge (.html)…"), "export"}, {},
             tr("Save the runs on the text shown as one HTML file that anyone opens in a browser"), [this] {
               if (isAnyRun()) m_of.files.savePage();
             });
  addCommand(menu, {tr("&Copy"), "copy"}, QKeySequence::Copy,
             tr("Copy the part that has the keyboard: curves and rows of tables with their numbers, or text; otherwise "
                "the maps"),
             [this] { emit copyWanted(); });
  menu->addSeparator();
  addCommand(menu, {tr("&Preferences…"), "preferences"}, QKeySequence("Ctrl+,"), tr("Theme, device, what runs keep"),
             [this] { emit preferencesWanted(); });
  addCommand(menu, {tr("Close &All")}, {}, tr("Close all runs, models and the text"),
             [this] { m_of.files.whenNothingIsLost([this] { m_of.document.clear(); }); });
  addCommand(menu, {tr("&Quit")}, QKeySequence("Ctrl+Q"), tr("Close the window"), [this] { m_window.close(); });
}

void Menus::makeEdit() {
  QMenu* menu = m_window.menuBar()->addMenu(tr("&Edit"));
  UndoHistory& stack = m_of.document.runs().undoStack();
  const auto add = [&](const QString& words, const QKeySequence& keys, const QString& tip, void (UndoHistory::*act)()) {
    return addCommand(menu, {words}, keys, tip, [&stack, act] { (stack.*act)(); });
  };
  QAction* undo = add(tr("&Undo"), QKeySequence("Ctrl+Z"), tr("Undo what was changed last"), &UndoHistory::undo);
  QAction* redo = add(tr("&Redo"), QKeySequence("Ctrl+Shift+Z"), tr("Do again what was undone"), &UndoHistory::redo);
  const auto follow = [undo, redo, &stack] {
    undo->setText(stack.canUndo() ? tr("&Undo: %1").arg(stack.undoText()) : tr("&Undo"));
    redo->setText(stack.canRedo() ? tr("&Redo: %1").arg(stack.redoText()) : tr("&Redo"));
    undo->setEnabled(stack.canUndo());
    redo->setEnabled(stack.canRedo());
  };
  connect(&stack, &UndoHistory::changed, this, follow);
  follow();
}

void Menus::makeRun() {
  QMenu* menu = m_run = m_window.menuBar()->addMenu(tr("&Run"));
  QAction* run = addCommand(menu, {tr("&Run"), "run"}, QKeySequence("F5"), tr("Run the models on the text"),
                            [this] { m_of.document.modelRuns().startRun(); });
  QAction* cancel = addCommand(menu, {tr("&Cancel Run"), "cancel"}, QKeySequence("Shift+F5"),
                               tr("Stop; the results so far stay"), [this] { m_of.document.modelRuns().cancelRun(); });
  addChanges(*menu);
  addMachines(*menu);
  addCommand(menu, {tr("Remove &Shown Run")}, {}, tr("Remove the run of the chosen head from the window"),
             [this] { m_of.document.runs().removeRun(m_of.document.runs().selection().head().run); });
  const auto follow = [this, run, cancel] {
    run->setEnabled(!m_of.document.modelRuns().runStatus().running);
    cancel->setEnabled(m_of.document.modelRuns().runStatus().running);
  };
  connect(&m_of.document.modelRuns(), &ModelRuns::runStatusChanged, this, follow);
  follow();
}

void Menus::addChanges(QMenu& menu) {
  QAction* change =
      addCommand(&menu, {tr("Run with a C&hange…"), "intervene"}, QKeySequence("Ctrl+I"),
                 tr("Change the gate of the chosen head, cut it, and see what that does to the loss"), [this] {
                   if (!isAnyRun()) return;
                   InterventionDialog(m_of.document.runs(), m_of.document.modelRuns(),
                                      m_of.document.runs().selection().head(), &m_window)
                       .exec();
                 });
  QAction* sweep =
      addCommand(&menu, {tr("S&weep over All Heads…"), "intervene"}, QKeySequence("Ctrl+Shift+I"),
                 tr("Change each head in turn, in the background, and see what that does to the loss"), [this] {
                   if (!isAnyRun()) return;
                   SweepDialog(m_of.document.runs(), m_of.sweeps, &m_window).exec();
                 });
  m_of.heads.addAction(sweep);
  m_of.heads.setContextMenuPolicy(Qt::ActionsContextMenu);
  m_of.heads.addAction(change);
}

void Menus::addMachines(QMenu& menu) {
  QAction* requests = addCommand(&menu, {tr("Cancel Re&quests to Other Machines"), "cancel"}, {},
                                 tr("Stop what is on its way from other machines; what is shown stays"),
                                 [this] { m_of.document.machines().cancel(); });
  QAction* reconnect =
      addCommand(&menu, {tr("Re&connect to Other Machines"), "machine"}, {},
                 tr("Make connections anew that were lost, and ask again for what was cancelled"), [this] {
                   Machines& machines = m_of.document.machines();
                   const auto all = machines.status();
                   for (const MachineStatus& machine : all) {
                     if (!machine.connected) machines.reconnect(machine.name);
                   }
                   machines.goOn();
                 });
  const auto followMachines = [this, requests, reconnect] {
    const auto& machines = m_of.document.machines().status();
    requests->setEnabled(std::ranges::any_of(machines, &MachineStatus::asking));
    reconnect->setEnabled(m_of.document.machines().cancelled() ||
                          std::ranges::any_of(machines, [](const auto& machine) { return !machine.connected; }));
  };
  connect(&m_of.document.machines(), &Machines::changed, this, followMachines);
  followMachines();
}

void Menus::makeView() {
  QMenu* menu = m_view = m_window.menuBar()->addMenu(tr("&View"));
  for (QDockWidget* dock : m_window.findChildren<QDockWidget*>()) {
    QAction* toggle = dock->toggleViewAction();
    toggle->setText(tr("Show %1").arg(dock->windowTitle()));
    toggle->setToolTip(tr("Show or hide this part of the window"));
    menu->addAction(toggle);
  }
  menu->addSeparator();
  addCommand(
      menu, {tr("Fastest and Slowest &Head")}, QKeySequence(Qt::Key_S),
      tr("F and A of the head that forgets fastest, which becomes the chosen one, above F and A of the head that "
         "forgets slowest. Again: back to the maps before"),
      [this] { emit extremesWanted(); });
  menu->addSeparator();
  addThemes(*menu);
  menu->addSeparator();
  QAction* full =
      addCommand(menu, {tr("&Full Screen")}, QKeySequence("F11"), tr("Fill the screen, or go back to a window"),
                 [this] { m_window.setWindowState(m_window.windowState() ^ Qt::WindowFullScreen); });
  full->setCheckable(true);
  connect(menu, &QMenu::aboutToShow, full, [this, full] { full->setChecked(m_window.isFullScreen()); });
  addCommand(menu, {tr("Reset &Layout")}, {}, tr("Put all parts of the window where they were at first"),
             [this] { m_of.docks.resetLayout(); });
}

void Menus::addThemes(QMenu& menu) {
  auto* themes = new QActionGroup(this);
  const auto theme = [&](const QString& text, ThemeChoice choice) {
    QAction* action =
        addCommand(&menu, {text}, {}, tr("Colours of the window; exports are always white"), [this, choice] {
          m_of.settings.setTheme(choice);
          emit themeChosen();
        });
    action->setCheckable(true);
    themes->addAction(action);
    // The preferences choose it too.
    connect(&menu, &QMenu::aboutToShow, action,
            [this, action, choice] { action->setChecked(m_of.settings.theme() == choice); });
  };
  theme(tr("&Light"), ThemeChoice::light);
  theme(tr("&Dark"), ThemeChoice::dark);
  theme(tr("As the &System"), ThemeChoice::system);
}

void Menus::addHelp() {
  QMenu* menu = m_window.menuBar()->addMenu(tr("He&lp"));
  addCommand(menu, {tr("&Commands…"), "commands"}, QKeySequence("Ctrl+K"), tr("All commands, found by typing"),
             [this] { m_of.help.showCommands(); });
  addCommand(menu, {tr("&Glossary…")}, QKeySequence("F1"),
             tr("Terms and their equations; F1 opens the entry of what is under the mouse, or else has the keyboard"),
             [this] {
               const QString term = termAt(QCursor::pos());
               m_of.help.showGlossary(term.isEmpty() ? termOf(QApplication::focusWidget()) : term);
             });
  addCommand(menu, {tr("&Tour")}, {}, tr("Six steps through the window"), [this] { m_of.help.startTour(); });
  addCommand(menu, {tr("&Keys and Mouse…"), "keys"}, QKeySequence("Shift+F1"), tr("What keys and the mouse do"),
             [this] { m_of.help.showKeys(); });
  addCommand(menu, {tr("&About Foxscope")}, {}, tr("Version, licence, libraries"), [this] { m_of.help.showAbout(); });
}

QList<QAction*> Menus::commands() const {
  QList<QAction*> actions;
  const std::function<void(const QMenu&)> collect = [&](const QMenu& menu) {
    for (QAction* action : menu.actions()) {
      if (action->menu() != nullptr && action->menu() != m_recent) collect(*action->menu());
      if (!action->isSeparator() && action->menu() == nullptr) actions += action;
    }
  };
  for (const QAction* top : m_window.menuBar()->actions()) {
    if (top->menu() != nullptr) collect(*top->menu());
  }
  return actions;
}

}  // namespace foxscope::gui
