#pragma once

#include <filesystem>

namespace foxscope {

/// A folder that one process writes, for as long as the object lives: a lock of the kernel's on the file `lock` in it,
/// which holds host, process and start of who has it. The lock goes with its process, however that ends; the file
/// stays.
class FolderLock {
 public:
  /// @throws Error naming the folder, and the process and host that hold it; or that the file cannot be opened
  explicit FolderLock(const std::filesystem::path& folder);
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

  static constexpr const char* kFile = "lock";

  /// Whether a process holds the lock of a folder, as far as the file system knows; nothing is locked or made.
  static bool is_held(const std::filesystem::path& folder);

  /// False where the file system knows no locks: nobody is kept out.
  [[nodiscard]] bool held() const { return held_; }
  /// @throws Error where the file is no longer in the folder: another process may hold one of that name
  void require_there() const;

 private:
  std::filesystem::path file_;
  int descriptor_ = -1;
  bool held_ = false;
};

}  // namespace foxscope
