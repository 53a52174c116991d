#pragma once

#include <filesystem>
#include <memory>
#include <optional>

#include "backend/agent/remote_path.h"
#include "backend/base/job.h"
#include "backend/train/log_lines.h"
#include "backend/train/training_record.h"

namespace foxscope {

/// Reads the folder of a training on another machine, as often as it is asked to: only what was added to its logs since
/// the last time travels. The folders of its checkpoints are URLs.
class RemoteTrainingReader {
 public:
  explicit RemoteTrainingReader(agent::RemotePath folder);

  /// The folder as it stands.
  /// @returns null if the job was stopped
  /// @throws Error as TrainingReader::read, with the folder's URL, and where the machine cannot be reached
  std::shared_ptr<const TrainingRecord> read(const Job& job);

 private:
  /// @returns whether there is more, or nothing if the job was stopped
  std::optional<bool> fetch(const Job& job);

  agent::RemotePath folder_;
  std::filesystem::path copy_;  ///< a folder here with the lines that came
  LogPlace steps_;
  LogPlace measures_;
  std::vector<std::string> checkpoints_;
  bool running_ = false;
  std::unique_ptr<TrainingReader> reader_;  ///< of the copy
};

}  // namespace foxscope
