#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include <QObject>
#include <QString>

#include "app/gui/document/job_runner.h"
#include "app/gui/document/runs/run.h"

namespace foxscope::gui {

class ModelRuns;
class RunList;

/// Writes files in the background, one after the other, on a thread of its own, so that no picture waits for them.
/// Messages report success, failure and cancelling.
class FileWriter : public QObject {
  Q_OBJECT

 public:
  FileWriter(RunList& runs, ModelRuns& models, QObject* parent = nullptr);
  ~FileWriter() override;

  /// Writes a whole file, or none and returns nothing if it was stopped.
  using FileWork = std::function<std::optional<bool>(const Job&)>;
  /// @param written  called when the file is there; may be empty
  void writeFile(const QString& path, FileWork work, std::function<void()> written = {});
  /// Writes the runs on the text shown to a run file, which holds runs on one text; a message names what was left
  /// out.
  void saveRunFile(const QString& path);
  /// Writes runs that are in no file yet, all those on one text, likewise.
  void saveUnsavedRuns(const QString& path);
  /// Writes the text that is to be run.
  void saveText(const QString& path);

  /// Files that are being written, or wait for that, oldest first.
  [[nodiscard]] std::vector<ExportStatus> exports() const;
  void cancelExport(const QString& path);
  [[nodiscard]] bool busy() const { return m_writer.busy(); }

 signals:
  void exportsChanged();                  ///< one came, moved on or went
  void notWritten(const QString& path);   ///< writing this file was cancelled or failed
  void pathWritten(const QString& path);  ///< a run file or a text, which can be opened again
  void messageRaised(const foxscope::gui::Message& message);
  void idle();

 private:
  struct Export;
  void writeRuns(const QString& path, const std::vector<RunId>& ids);
  void tell(Message::Kind kind, const QString& text);

  RunList& m_runs;
  ModelRuns& m_models;
  std::vector<std::shared_ptr<Export>> m_exports;  ///< the first of them is being written
  int m_exportChannel = 0;
  JobRunner m_writer;  ///< last, so that its thread ends first
};

}  // namespace foxscope::gui
