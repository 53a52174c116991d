#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include <QString>

#include "app/gui/document/runs/run_list.h"

namespace foxscope::gui {

/// Where the command line finds the runs of a figure: in their files, or in files that it makes before it draws. A run
/// that is in no file can be made again where its checkpoint and its text are on the disk.
class RunCommands {
 public:
  using Traces = std::vector<std::shared_ptr<const Trace>>;
  /// @param text    what is to be run
  /// @param shown   the traces of runs that are open; others have no file
  /// @param output  the figure: run files that are made stand beside it, under its name
  RunCommands(const RunList& runs, const TextInput& text, const Traces& shown, const QString& output);

  /// The reason why one of the runs can neither be read nor made again, in one sentence; empty where all can.
  [[nodiscard]] const QString& obstacle() const { return m_obstacle; }
  /// The run file that holds a run, or will; empty where none can.
  [[nodiscard]] QString fileOf(const Trace& trace) const;
  /// "foxscope run … && ", as a shell takes it; empty where all runs are in files.
  [[nodiscard]] QString before() const;

 private:
  /// `foxscope run`: models with the same changes and the same number of tokens.
  struct Made {
    QString file;
    std::vector<const Run*> runs;
  };
  void make(const Run& run, const QString& output);
  [[nodiscard]] std::string commandOf(const Made& made) const;

  QString m_obstacle;
  QString m_text;  ///< file that the runs have read
  std::map<const Trace*, QString> m_files;
  std::vector<Made> m_made;
};

}  // namespace foxscope::gui
