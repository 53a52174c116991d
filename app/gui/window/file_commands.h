#pragma once

#include <functional>

#include <QJsonObject>
#include <QObject>
#include <QString>
#include <QStringList>

class QMenu;
class QWidget;

namespace foxscope::gui {

class Document;
class Settings;

/// Opens and saves by dialogs, remembers what was opened lately, and asks before unsaved work is lost.
class FileCommands : public QObject {
  Q_OBJECT

 public:
  /// @param window     above which dialogs stand
  /// @param demo       session file of the demo; empty where there is none
  /// @param viewState  the views' part of a session
  FileCommands(QWidget& window, Document& document, Settings& settings, const QString& demo,
               std::function<QJsonObject()> viewState);

  enum class Remembering { on, off };
  /// Whether what is not saved is asked about, and paths are remembered.
  void setRemembering(Remembering remembering) { m_remembering = remembering; }

  void openModel();
  void openText(const QString& filter);
  void openRunsOrSession();
  void openEvaluation();
  /// Shows the dialog of other machines.
  void openRemote();
  /// Opens the demo; nothing where there is none.
  void openDemo();
  [[nodiscard]] const QString& demo() const { return m_demo; }
  /// Asks where a file of a session is by now, and opens that.
  void locate(const QString& what);
  /// Into the file that it came from; asks for one where there is none, or it is the demo's.
  void saveSession();
  void saveSessionAs();
  void saveRunFile();
  /// Asks for the file of a page, and writes it in the background.
  void savePage();
  /// Does it at once where nothing would be lost; else asks, and does it when what there is was saved or given up.
  void whenNothingIsLost(std::function<void()> then);

  /// Fills a menu with the paths that were opened lately.
  void fillRecent(QMenu& menu);

 signals:
  void recentChanged();

 private:
  void openWith(const QString& title, const QString& filter);
  void saveUnsaved();
  void takePath(const QString& path);
  [[nodiscard]] bool isDemo(const QString& path) const;

  QWidget& m_window;
  Document& m_document;
  Settings& m_settings;
  QString m_demo;
  std::function<QJsonObject()> m_viewState;
  Remembering m_remembering = Remembering::on;
  std::function<void()> m_afterSaving;  ///< what waits for unsaved work to be saved
  QString m_saving;                     ///< the file that it is being saved to
};

}  // namespace foxscope::gui
