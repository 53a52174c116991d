#pragma once

#include <optional>
#include <string>

#include "backend/agent/file_reference.h"
#include "backend/agent/message.h"
#include "backend/agent/remote_path.h"
#include "backend/base/job.h"
#include "backend/file/run_file.h"

namespace foxscope::agent {

/// Opens a run file here or on another machine (is_remote). There its arrays stay where they are: a trace asks for one
/// head's part of an array when it is first wanted, and its maps and statistics are computed there (MapsElsewhere). Row
/// normalisers that the file lacks are computed where it lies, for who computes attention. Of RunCheck::whole only a
/// glance comes before the run: the rest goes on meanwhile (require_checked).
/// @param device  for traces on another machine: the device there that computes, "auto", "cpu", "cuda", "cuda:N"
/// @returns nothing if the job was stopped
/// @throws Error as RunFile::open, and where the machine cannot be reached
std::optional<RunFile> open_run(const std::string& path, RunCheck check, const Job& job,
                                const std::string& device = "auto");
/// The same as it is stored.
RunFile open_run(const std::string& path, RunCheck check = RunCheck::whole, const std::string& device = "auto");

/// A path on another machine that was opened, or described where it holds no runs.
struct OpenedThere {
  FileFacts facts;
  std::optional<RunFile> run;
};

/// Opens a path on another machine for who shows it: with losses, and in one request whatever it is. The run is the one
/// of last time where that answer is kept in a folder (KeptAnswers): whether its file has changed, and whether all its
/// arrays fit each other, is looked at once nothing else is asked, and said to the listener of Remote if it is so.
/// @returns nothing if the job was stopped
/// @throws Error as open_run
std::optional<OpenedThere> open_path(const std::string& path, RunCheck check, const Job& job,
                                     const std::string& device = "auto");

/// The GPU here that computes maps and statistics of a run file; none of one on another machine, where its own device
/// computes. @throws Error as gpu_chosen
std::optional<int> gpu_for(const std::string& path, const std::string& device);

/// A run file from the answer to a request "open", and where it lies.
/// @throws Error where the answer contradicts itself
RunFile run_of_answer(const RemoteHost& host, const Message& answer, const std::string& device);

}  // namespace foxscope::agent
