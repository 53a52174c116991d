#pragma once

#include <functional>

#include <QKeySequence>
#include <QList>
#include <QObject>
#include <QString>

#include "app/gui/document/document.h"
#include "app/gui/document/runs/sweeps.h"

class QAction;
class QMainWindow;
class QMenu;

namespace foxscope::gui {

class Docks;
class FileCommands;
class HeadGrid;
class Help;
class Settings;

/// The menus of the window with their commands, each with its keys and its tip, and which of them can be given now.
class Menus : public QObject {
  Q_OBJECT

 public:
  /// The objects that commands act on.
  struct Subjects {
    Document& document;
    FileCommands& files;
    Sweeps& sweeps;
    Settings& settings;
    Docks& docks;
    Help& help;
    HeadGrid& heads;  ///< whose own menu has the commands that change a head
  };
  /// Makes the menus of files, changes, runs and views; those of parts follow, and help comes last.
  Menus(QMainWindow& window, const Subjects& subjects);

  /// The menu that the one of a part stands in.
  enum class Place { bar, view, run };
  QMenu* addMenu(const QString& title, Place place);
  void addHelp();
  [[nodiscard]] QMenu& view() const { return *m_view; }
  [[nodiscard]] QMenu& run() const { return *m_run; }

  struct Words {
    QString text;
    QString icon = {};  ///< of resources/icons; empty: none
  };
  /// @param tip  what it does, for its tooltip and the status line
  QAction* addCommand(QMenu* menu, const Words& words, const QKeySequence& keys, const QString& tip,
                      const std::function<void()>& act);
  /// Every command, but for what was opened lately.
  [[nodiscard]] QList<QAction*> commands() const;
  /// Follows what was opened lately.
  void fillRecent();

 signals:
  void exportWanted();
  void copyWanted();
  void preferencesWanted();
  void extremesWanted();
  void themeChosen();
  void messageRaised(const foxscope::gui::Message& message);

 private:
  void makeFile();
  void makeEdit();
  void makeRun();
  void addChanges(QMenu& menu);
  void addMachines(QMenu& menu);
  void makeView();
  void addThemes(QMenu& menu);
  /// If there is none, a message says what the window waits for.
  bool isAnyRun();

  QMainWindow& m_window;
  Subjects m_of;
  QMenu* m_recent = nullptr;
  QMenu* m_run = nullptr;
  QMenu* m_view = nullptr;
};

}  // namespace foxscope::gui
