#include "backend/model/weights/weight_checksums.h"

#include <sys/stat.h>

#include <filesystem>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "backend/model/weights/checkpoint.h"

namespace foxscope {

std::string weight_files_of(const Checkpoint& checkpoint) {
  std::string files;
  for (const std::filesystem::path& file : checkpoint.weight_files()) {
    struct stat status {};
    if (stat(file.c_str(), &status) != 0) status = {};
    std::error_code failed;
    files += fmt::format("\n{} {} {}.{:09} {}:{}", std::filesystem::weakly_canonical(file, failed).string(),
                         status.st_size, status.st_mtim.tv_sec, status.st_mtim.tv_nsec, status.st_dev, status.st_ino);
  }
  return files;
}

std::optional<std::string> WeightChecksums::of(const Checkpoint& checkpoint, const Job& job) {
  const std::string files = weight_files_of(checkpoint);
  {
    const std::scoped_lock lock(mutex_);
    const auto found = known_.find(files);
    if (found != known_.end()) return found->second;
  }
  auto checksum = checkpoint.weights_sha256(job);
  if (!checksum) return std::nullopt;
  const std::scoped_lock lock(mutex_);
  return known_[files] = std::move(*checksum);
}

}  // namespace foxscope
