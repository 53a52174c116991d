#pragma once

#include <filesystem>
#include <string>

namespace foxscope {

/// A file that appears under its name only when it is whole. It is written without a name where the system allows
/// (O_TMPFILE), else under a temporary name beside the target; commit() flushes it to disk and renames it. An object
/// that goes away without commit leaves nothing behind.
class AtomicFile {
 public:
  /// @param overwrite  false: refuse when the target exists
  /// @throws Error naming the target and the remedy (exists, folder missing, not writable)
  AtomicFile(const std::filesystem::path& target, bool overwrite);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  /// Path under which other libraries can open the unfinished file for reading and writing.
  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] int descriptor() const { return descriptor_; }

  /// @throws Error naming the target when the disk is full or the write failed
  void write(const void* data, std::size_t bytes);

  /// Flushes to disk and puts the file in place. The object is finished afterwards.
  /// @throws Error naming the target; nothing is left behind
  void commit();

 private:
  std::filesystem::path target_;
  std::filesystem::path temporary_;  ///< empty while the file has no name
  std::string path_;
  int descriptor_ = -1;
  bool overwrite_ = false;
};

}  // namespace foxscope
