#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "backend/base/job.h"
#include "backend/file/provenance.h"
#include "backend/file/run_check.h"
#include "backend/trace/trace.h"

namespace foxscope {

/// Writes a run file (schema 1, or 2 where there are linear mixers) of one or more traces on the same text. Nothing
/// appears under `path` before the file is whole and flushed; a process killed at any moment leaves the old file or
/// none.
/// @param seconds_without_flush  if not null: the time taken, the flush to disk left out
/// @returns false if the job was stopped (nothing is left behind)
/// @throws Error naming the file and the remedy (exists, not writable, disk full)
bool write_run_file(const std::filesystem::path& path, std::span<const std::shared_ptr<const Trace>> traces,
                    const Provenance& provenance, Overwrite overwrite, const Job& job,
                    double* seconds_without_flush = nullptr);

/// How far a run file is checked when it is opened (run_check.h).
enum class RunCheck {
  none,    ///< not at all: its traces are marked (TraceInfo::unchecked)
  glance,  ///< as far as it takes some milliseconds
  whole,   ///< all layers
};

/// A run file opened for reading: its traces read q and k by tile from the file.
struct RunFile {
  std::vector<std::shared_ptr<const Trace>> traces;  ///< in the order in which they were written
  std::vector<RunCheckReport> checks;                ///< of each trace
  std::string program_version;
  std::string command_line;
  std::string created;

  /// @throws Error naming the file, the object in it, and the remedy (not HDF5, not a run file, newer schema,
  ///         truncated, wrong shapes, arrays that contradict one another)
  static RunFile open(const std::filesystem::path& path, RunCheck check = RunCheck::whole);
  /// The same for who computes attention: row normalisers that the file lacks are computed (complete_rows.h), with
  /// progress. The file stays as it is.
  /// @returns nothing if it was stopped
  static std::optional<RunFile> open(const std::filesystem::path& path, const Job& job,
                                     RunCheck check = RunCheck::whole);

  /// The trace of that name; without a name the only one.
  /// @throws UsageError with the names that exist
  [[nodiscard]] std::shared_ptr<const Trace> trace(const std::optional<std::string>& name) const;
};

}  // namespace foxscope
