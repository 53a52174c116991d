#pragma once

#include <optional>

#include <QComboBox>
#include <QDialog>
#include <QLabel>
#include <QLineEdit>
#include <QListWidget>
#include <QPushButton>
#include <QToolButton>
#include <QTreeView>

#include "app/gui/window/remote/folder_model.h"
#include "backend/agent/remote_path.h"

class QCheckBox;

namespace foxscope::gui {

class Document;
class ElidedLabel;
class Settings;

/// File, "Open on another machine…": a machine of ssh's configuration or a typed one, then its folders. Everything that
/// the window opens is recognised there. It asks the machine on a thread of its own, and says errors in a line.
class RemoteDialog : public QDialog {
  Q_OBJECT

 public:
  /// @param remembers  whether places are remembered
  RemoteDialog(Document& document, Settings& settings, bool remembers, QWidget* parent = nullptr);

  /// Lists a folder: "ssh://HOST/PATH".
  void go(const QString& url);

  QLineEdit& machine() { return *m_machine; }
  QLineEdit& folder() { return *m_folder; }
  QListWidget& places() { return *m_places; }
  QTreeView& entries() { return *m_entries; }
  QComboBox& device() { return *m_device; }
  QPushButton& openButton() { return *m_open; }
  [[nodiscard]] QString message() const { return m_message->text(); }
  /// Whether an answer is on its way.
  [[nodiscard]] bool isAsking() const { return m_asking || m_askingModel; }

 protected:
  void done(int result) override;
  bool eventFilter(QObject* watched, QEvent* event) override;

 private:
  enum Channel { kHosts, kFolder, kModel };
  void makeWidgets();
  void fillPlaces(const QStringList& hosts);
  void connectMachine();
  void list(const agent::RemotePath& folder, const QString& select = {});
  void receive(const agent::RemotePath& asked, const agent::FolderList& list, const QString& select);
  void tellCount(bool more);
  void goUp();
  void activate(const QModelIndex& index);
  void enter(const QModelIndex& index);
  void openChosen();
  void followChoice();
  void describeModel(const QString& path);
  void tell(const QString& message, bool isError = false);
  [[nodiscard]] QString urlOf(int row) const;
  [[nodiscard]] QList<int> chosenRows() const;

  Document& m_document;
  Settings& m_settings;
  bool m_remembers;
  std::optional<agent::RemotePath> m_shown;  ///< the folder that is listed
  QString m_described;                       ///< URL of the model whose facts are shown
  bool m_more = false;                       ///< it has more entries than were listed
  bool m_asking = false;
  bool m_askingModel = false;
  FolderModel m_list;
  FolderRows m_rows;
  QListWidget* m_places = nullptr;
  QLineEdit* m_machine = nullptr;
  QPushButton* m_connect = nullptr;
  QToolButton* m_up = nullptr;
  QLineEdit* m_folder = nullptr;
  QTreeView* m_entries = nullptr;
  QCheckBox* m_all = nullptr;
  QWidget* m_model = nullptr;  ///< facts of the chosen model, and its devices
  ElidedLabel* m_facts = nullptr;
  QComboBox* m_device = nullptr;
  QLabel* m_message = nullptr;
  QPushButton* m_open = nullptr;
};

}  // namespace foxscope::gui
