#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include <QJsonObject>
#include <QString>
#include <QStringList>

#include "app/gui/document/evaluation.h"
#include "app/gui/document/representative_head.h"
#include "backend/eval/sweep/sweep_file.h"
#include "backend/file/run_file.h"

namespace foxscope::gui {

struct OpenedCheckpoint {
  QStringList notes;  ///< what the user should be told of it
};
struct OpenedTraining {
  QString checkpoint;  ///< folder of the newest
};
struct OpenedText {
  std::string content;  ///< UTF-8
  bool ids = false;     ///< TextInput::ids
};
struct OpenedRunFile {
  RunFile file;
  std::vector<RepresentativeHead> representative;  ///< of each of its traces
};
struct OpenedSweep {
  std::shared_ptr<const SweepEvaluation> evaluation;
  std::vector<HeadChange> changes;  ///< of all its heads
};
struct OpenedSession {
  QJsonObject session;
  QStringList notes = {};  ///< what the user should be told of it
};

using OpenedContent =
    std::variant<OpenedCheckpoint, OpenedTraining, OpenedText, OpenedRunFile, OpenedSweep, Evaluation, OpenedSession>;

/// Schema of session files that this program writes, and the newest that it reads.
inline constexpr int kSessionSchema = 1;
inline constexpr const char* kSessionKey = "foxscope_session";
/// Bytes at the beginning of a session in which its key stands: names of files and runs come before it.
inline constexpr std::size_t kSessionHead = 1U << 16U;

/// Opens a path by what it holds: a folder with recipe.json and checkpoints is a training, another one or a hub id a
/// checkpoint, a file with HDF5's signature a sweep over heads, an evaluation or a run file, as its `content` says, a
/// JSON object with `foxscope_session` a session, a .json file that is a list of numbers or has input_ids token ids,
/// anything else a text.
/// @throws Error with the remedy: missing, neither of these, a session of a newer version, a text that is not UTF-8 or
///         larger than a window can hold
/// @param job    of a run file, whose row normalisers may have to be computed (RunFile::open); what is returned when it
///               was stopped is to be thrown away
/// @param check  of run files
OpenedContent openPath(const QString& path, const Job& job = {}, RunCheck check = RunCheck::whole);

/// Opens a file in which a session keeps a run, which is to be a run file.
/// @param name  of the run
/// @throws Error that names the run and F5, which makes it again, where it is none or is damaged
OpenedContent openKeptRun(const QString& path, const QString& name, const Job& job, RunCheck check);

}  // namespace foxscope::gui
