#pragma once

#include <optional>
#include <vector>

#include <QJsonObject>
#include <QString>
#include <QStringList>

#include "app/gui/document/runs/run.h"
#include "app/gui/document/selection.h"

namespace foxscope::gui {

/// The selection in a session, with the run by its name, as numbers of runs end with the window.
struct SelectionState {
  QString run;
  int layer = 0;
  int head = 0;
  Cursor pin;
  View view;
  std::vector<Cursor> locks = {};

  bool operator==(const SelectionState&) const = default;
  [[nodiscard]] QJsonObject toJson() const;
  static SelectionState fromJson(const QJsonObject& json);
};

/// A run that a session had open.
struct SessionRun {
  QString file;   ///< run file that it stood in; empty: it was in none and is made again
  QString model;  ///< its name there
  RunLook look = {};
  QString kept = {};       ///< run file that the session keeps of a run that was in none; empty: none
  QString path = {};       ///< model that made what is kept
  QString textFile = {};   ///< that it read
  QString textName = {};   ///< Run::textName
  QString base = {};       ///< Run::base
  double seconds = 0;      ///< Run::forwardSeconds
  bool ofSession = false;  ///< of a session that the user saved: closing loses nothing of it
  /// Runs that were made here may be in a file by now.
  [[nodiscard]] bool isOf(const Run& run) const {
    return model == run.plainName() && (file == run.file || (file.isEmpty() && !run.model.isEmpty()));
  }
};

/// Facts of a window's work that are told before it is opened again.
struct AutosaveNote {
  QString session = {};      ///< file of the session that was open; empty: none
  QString text = {};         ///< name of the text shown
  QStringList left = {};     ///< runs that are not kept, or not yet: F5 makes them again
  int runs = 0;              ///< that come back
  QStringList lost = {};     ///< runs that are not kept, and that nothing makes again: the text or the model is another
  QStringList waiting = {};  ///< models that were to run, or were running
};

/// A session file: everything that is needed to see the same again. JSON, `foxscope_session` is its schema number.
/// Paths are kept relative to the session's folder where they lie below it, so that a folder can be moved.
struct Session {
  std::vector<ModelInput> models;
  TextInput text;  ///< its content is kept only where it comes from no file
  RunSettings settings;
  QStringList runFiles;
  std::vector<SessionRun> runs;  ///< those that were open; empty in older sessions: all of the files
  QStringList evaluations;
  QJsonObject selection;  ///< SelectionState
  QJsonObject window;     ///< panes, docks, colours: the views' own
  bool withRuns = false;  ///< the user saves it with the runs that are in no file
  /// The note of a session that a window kept by itself (Autosave); nothing of one that the user saved.
  std::optional<AutosaveNote> autosave = {};

  /// Reads what is there; what is missing or of another type is left at its default.
  /// @throws as settingsOfSession does
  /// @param folder  of the session file
  static Session fromJson(const QJsonObject& json, const QString& folder);
  [[nodiscard]] QJsonObject toJson(const QString& folder) const;
  /// Writes the file whole or not at all, replacing an older one.
  /// @throws Error naming the file and the remedy
  void write(const QString& path) const;
};

/// How a session's models are run.
/// @throws UsageError for a device or numbers that are none
RunSettings settingsOfSession(const QJsonObject& session);

}  // namespace foxscope::gui
