#pragma once

#include <map>
#include <mutex>
#include <optional>
#include <string>

#include "backend/base/job.h"

namespace foxscope {

class Checkpoint;

/// The files of a checkpoint's weights: of each its path, size, time of change and inode. Equal texts are of equal
/// weights.
std::string weight_files_of(const Checkpoint& checkpoint);

/// Checksums of weights. Those of files that stay as they are are made once. From any thread.
class WeightChecksums {
 public:
  /// SHA-256 of a checkpoint's weights, lower-case hexadecimal, as Checkpoint::weights_sha256 makes it.
  /// @returns nothing if the job was stopped
  [[nodiscard]] std::optional<std::string> of(const Checkpoint& checkpoint, const Job& job);

 private:
  std::mutex mutex_;
  std::map<std::string, std::string> known_;  ///< by weight_files_of
};

}  // namespace foxscope
