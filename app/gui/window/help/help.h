#pragma once

#include <QObject>
#include <QString>

namespace foxscope::gui {

class Glossary;
class MainWindow;

/// The help of the window: commands, keys, glossary, tour.
class Help : public QObject {
  Q_OBJECT

 public:
  /// @param demo  session file of the demo; empty where there is none
  Help(MainWindow& window, const QString& demo);

  void showCommands();
  void showKeys();
  void showGlossary(const QString& term);
  void showAbout();
  /// Walks through the window, which shows the demo where it has shown nothing.
  void startTour();

 private:
  void showTour();

  MainWindow& m_window;
  QString m_demo;
  Glossary* m_glossary = nullptr;  ///< once it was opened
};

}  // namespace foxscope::gui
