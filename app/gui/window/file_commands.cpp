#include "app/gui/window/file_commands.h"

#include <utility>

#include <QCheckBox>
#include <QFileDialog>
#include <QFileInfo>
#include <QGridLayout>
#include <QLineEdit>
#include <QLocale>
#include <QMenu>
#include <QMessageBox>
#include <QPushButton>

#include "app/gui/document/document.h"
#include "app/gui/document/remote/remote_place.h"
#include "app/gui/window/figures/page_export.h"
#include "app/gui/window/figures/thumbnails.h"
#include "app/gui/window/remote/remote_dialog.h"
#include "app/gui/window/settings.h"

namespace foxscope::gui {
namespace {

/// The machine where the run on the text shown was made, if it is the only one: its file can stay there. Else empty.
QString hostToSaveOn(const RunList& runs) {
  QString host;
  int count = 0;
  for (const Run& run : runs) {
    if (!runs.isOnText(run.id)) continue;
    ++count;
    if (isRemote(run.model)) host = hostOf(run.file);
  }
  return count == 1 ? host : QString();
}

}  // namespace

FileCommands::FileCommands(QWidget& window, Document& document, Settings& settings, const QString& demo,
                           std::function<QJsonObject()> viewState)
    : QObject(&window),
      m_window(window),
      m_document(document),
      m_settings(settings),
      m_demo(demo),
      m_viewState(std::move(viewState)) {
  connect(&m_document.files(), &FileWriter::notWritten, this, [this](const QString& path) {
    if (path == m_saving) m_afterSaving = nullptr;
  });
  connect(&m_document, &Document::pathOpened, this, &FileCommands::takePath);
  m_document.setReplaceGuard([this](std::function<void()> replace) { whenNothingIsLost(std::move(replace)); });
}

void FileCommands::takePath(const QString& path) {
  if (m_afterSaving && path == m_saving) saveUnsaved();
  if (m_remembering == Remembering::off || isDemo(path)) return;
  m_settings.addRecent(path);
  emit recentChanged();
}

// Demo sessions lie beside one another.
bool FileCommands::isDemo(const QString& path) const {
  return !m_demo.isEmpty() && path.endsWith(QStringLiteral(".json")) &&
         QFileInfo(path).absolutePath() == QFileInfo(m_demo).absolutePath();
}

void FileCommands::fillRecent(QMenu& menu) {
  const QStringList paths = m_settings.recent();
  menu.clear();
  for (const QString& path : paths) {
    connect(menu.addAction(path), &QAction::triggered, this, [this, path] { m_document.open({path}); });
  }
  menu.addSeparator();
  connect(menu.addAction(tr("Clear List")), &QAction::triggered, this, [this] {
    forgetThumbnails(m_settings.recent());
    m_settings.clearRecent();
    emit recentChanged();
  });
  menu.setEnabled(!paths.isEmpty());
}

void FileCommands::openModel() {
  const QString folder =
      QFileDialog::getExistingDirectory(&m_window, tr("Open checkpoint folder or training"), m_settings.folder());
  if (folder.isEmpty()) return;
  m_settings.setFolder(QFileInfo(folder).absolutePath());
  m_document.open({folder});
}

void FileCommands::openWith(const QString& title, const QString& filter) {
  const QStringList files = QFileDialog::getOpenFileNames(&m_window, title, m_settings.folder(), filter);
  if (files.isEmpty()) return;
  m_settings.setFolder(QFileInfo(files.front()).absolutePath());
  m_document.open(files);
}

void FileCommands::openText(const QString& filter) { openWith(tr("Open text"), filter); }

void FileCommands::openRunsOrSession() {
  openWith(tr("Open run file or session"), tr("Run files, evaluations, sessions (*.h5 *.hdf5 *.json);;All files (*)"));
}

void FileCommands::openEvaluation() { openWith(tr("Open evaluation"), tr("Evaluations (*.h5 *.hdf5);;All files (*)")); }

void FileCommands::openRemote() {
  auto* dialog = new RemoteDialog(m_document, m_settings, m_remembering == Remembering::on, &m_window);
  dialog->setAttribute(Qt::WA_DeleteOnClose);
  dialog->open();
}

void FileCommands::openDemo() {
  if (!m_demo.isEmpty()) m_document.open({m_demo});
}

void FileCommands::locate(const QString& what) {
  const QString title = tr("Where is the %1?").arg(what);
  const QString found = what == SessionStore::tr("checkpoint")
                            ? QFileDialog::getExistingDirectory(&m_window, title, m_settings.folder())
                            : QFileDialog::getOpenFileName(&m_window, title, m_settings.folder());
  if (!found.isEmpty()) m_document.open({found});
}

void FileCommands::saveSession() {
  SessionStore& sessions = m_document.sessions();
  const QString file = sessions.file();
  if (file.isEmpty() || isDemo(file)) return saveSessionAs();
  if (sessions.carriesRuns()) return sessions.saveWithRuns(m_document.files(), file, m_viewState());
  sessions.save(file, m_viewState());
}

void FileCommands::saveSessionAs() {
  std::uint64_t bytes = 0;
  for (const Run& run : std::as_const(m_document).runs()) {
    if (run.file.isEmpty()) bytes += bytesOfRun(*run.trace);
  }
  QFileDialog dialog(&m_window, tr("Save session"), m_settings.folder(), tr("Sessions (*.json)"));
  // The desktop's own dialog has no place for what is added.
  dialog.setOption(QFileDialog::DontUseNativeDialog, bytes > 0);
  dialog.setAcceptMode(QFileDialog::AcceptSave);
  dialog.setDefaultSuffix(QStringLiteral("json"));
  dialog.selectFile(QStringLiteral("session.foxscope.json"));
  QCheckBox* withRuns = nullptr;
  if (auto* grid = qobject_cast<QGridLayout*>(dialog.layout()); bytes > 0 && grid != nullptr) {
    const QString size = QLocale().formattedDataSize(static_cast<qint64>(bytes), 0, QLocale::DataSizeSIFormat);
    withRuns = new QCheckBox(tr("With &runs, %1: opening it computes nothing").arg(size));
    withRuns->setChecked(m_document.sessions().carriesRuns());
    grid->addWidget(withRuns, grid->rowCount(), 0, 1, grid->columnCount());
  }
  if (dialog.exec() != QDialog::Accepted || dialog.selectedFiles().isEmpty()) return;
  const QString path = dialog.selectedFiles().front();
  if (withRuns != nullptr && withRuns->isChecked()) {
    m_document.sessions().saveWithRuns(m_document.files(), path, m_viewState());
  } else {
    m_document.sessions().save(path, m_viewState());
  }
}

void FileCommands::saveRunFile() {
  const QString host = hostToSaveOn(std::as_const(m_document).runs());
  QFileDialog dialog(&m_window, tr("Save run file"), m_settings.folder(), tr("Run files (*.h5)"));
  // The desktop's own dialog has no place for what is added.
  dialog.setOption(QFileDialog::DontUseNativeDialog, !host.isEmpty());
  dialog.setAcceptMode(QFileDialog::AcceptSave);
  dialog.setDefaultSuffix(QStringLiteral("h5"));
  dialog.selectFile(QStringLiteral("run.h5"));
  QCheckBox* there = nullptr;
  QLineEdit* placeThere = nullptr;
  if (auto* grid = qobject_cast<QGridLayout*>(dialog.layout()); !host.isEmpty() && grid != nullptr) {
    there = new QCheckBox(tr("&On %1, as").arg(host));
    placeThere = new QLineEdit(QStringLiteral("~/run.h5"));
    placeThere->setAccessibleName(tr("Path on %1").arg(host));
    placeThere->setEnabled(false);
    connect(there, &QCheckBox::toggled, placeThere, &QWidget::setEnabled);
    // A file here of the name above is not written then.
    connect(there, &QCheckBox::toggled, &dialog,
            [&dialog](bool on) { dialog.setOption(QFileDialog::DontConfirmOverwrite, on); });
    const int row = grid->rowCount();
    grid->addWidget(there, row, 0);
    grid->addWidget(placeThere, row, 1);
  }
  if (dialog.exec() != QDialog::Accepted || dialog.selectedFiles().isEmpty()) return;
  if (there == nullptr || !there->isChecked()) return m_document.files().saveRunFile(dialog.selectedFiles().front());
  QString path = placeThere->text().trimmed();
  if (!path.startsWith('/') && !path.startsWith('~')) path = "~/" + path;
  m_document.files().saveRunFile(urlOn(host, path));
}

void FileCommands::savePage() {
  const QString path = QFileDialog::getSaveFileName(&m_window, tr("Export page"), m_settings.folder() + "/page.html",
                                                    tr("Pages (*.html)"));
  if (!path.isEmpty()) exportPage(m_document, path);
}

void FileCommands::whenNothingIsLost(std::function<void()> then) {
  const Unsaved unsaved = m_document.sessions().unsaved();
  if (unsaved.empty() || m_remembering == Remembering::off) return then();
  QStringList what = unsaved.parts;
  if (unsaved.text) what += tr("the text that was typed or changed");
  QMessageBox box(QMessageBox::Question, tr("Not saved"), tr("This is in no file and will be lost:"),
                  QMessageBox::NoButton, &m_window);
  box.setInformativeText(what.join('\n'));
  QString words = tr("&Save Text…");
  if (!unsaved.runs.isEmpty()) words = unsaved.text ? tr("&Save Runs and Text…") : tr("&Save Runs…");
  const QPushButton* save = box.addButton(words, QMessageBox::AcceptRole);
  const QPushButton* discard = box.addButton(tr("&Discard"), QMessageBox::DestructiveRole);
  box.setDefaultButton(box.addButton(QMessageBox::Cancel));
  box.exec();
  if (box.clickedButton() == discard) then();
  if (box.clickedButton() != save) return;
  m_afterSaving = std::move(then);
  saveUnsaved();
}

// One file after the other, each in the background; what waits for them goes on when nothing is left to save.
void FileCommands::saveUnsaved() {
  const Unsaved unsaved = m_document.sessions().unsaved();
  if (unsaved.empty()) return std::exchange(m_afterSaving, nullptr)();
  const auto ask = [this](const QString& title, const QString& name, const QString& filter) {
    return QFileDialog::getSaveFileName(&m_window, title, m_settings.folder() + name, filter);
  };
  QString path;
  if (!unsaved.runs.isEmpty()) {
    path = ask(tr("Save run file"), QStringLiteral("/run.h5"), tr("Run files (*.h5)"));
    if (!path.isEmpty()) m_document.files().saveUnsavedRuns(path);
  } else {
    path = ask(tr("Save text"), QStringLiteral("/text.txt"), tr("Texts (*.txt)"));
    if (!path.isEmpty()) m_document.files().saveText(path);
  }
  m_saving = path;
  if (path.isEmpty()) m_afterSaving = nullptr;
}

}  // namespace foxscope::gui
