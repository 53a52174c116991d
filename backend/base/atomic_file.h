#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

namespace foxscope {

/// A file that appears under its name only when it is whole. It is written without a name where the system allows
/// (O_TMPFILE), so that not even a killed process leaves anything; else under a temporary name beside the target, which
/// remove_unfinished_files() knows. commit() flushes it to disk and puts it in place. An object that goes away without
/// commit leaves nothing behind. A target that is a symbolic link stays one: the file that it points to is replaced. A
/// new file takes over the old one's permissions and access control list, and as far as this user may its owner and
/// group.
class AtomicFile {
 public:
  /// @param overwrite  false: refuse when the target exists
  /// @throws Error naming the target and the remedy (exists, is a folder, folder missing, not writable)
  AtomicFile(const std::filesystem::path& target, bool overwrite);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  /// Path under which other libraries can open the unfinished file for reading and writing.
  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] int descriptor() const { return descriptor_; }
  /// The name that the file will have, as the caller wrote it.
  [[nodiscard]] const std::filesystem::path& target() const { return shown_; }

  /// Says at once what would otherwise come out after minutes: that the disk has no room for so many bytes.
  /// @param remedy  what the message asks for
  /// @throws Error naming the target and both sizes
  void require_space(std::uint64_t bytes, std::string_view remedy = "free space there or write elsewhere") const;

  /// Appends.
  /// @throws Error naming the target when the disk is full or the write failed
  void write(const void* data, std::size_t bytes);

  /// Writes at an offset. Safe to call from several threads.
  /// @returns 0, or the system's error number: for callers that must not throw
  [[nodiscard]] int try_write_at(std::uint64_t offset, const void* data, std::size_t bytes) const;

  /// Throws the error of a write to this file that failed with the system's error number.
  [[noreturn]] void throw_write_error(int error_number) const;

  /// Flushes to disk and puts the file in place. The object is finished afterwards.
  /// @throws Error naming the target; nothing is left behind
  void commit();

 private:
  void open_without_name(const std::filesystem::path& folder, unsigned mode);
  void open_with_temporary_name(unsigned mode);
  void take_over_permissions() const;
  void link_into_place();
  void rename_into_place();

  std::filesystem::path shown_;      ///< the target as the caller wrote it, for messages
  std::filesystem::path target_;     ///< with symbolic links followed
  std::filesystem::path temporary_;  ///< empty while the file has no name
  std::string path_;
  int descriptor_ = -1;
  std::uint64_t appended_ = 0;
  bool overwrite_ = false;
};

/// Sets what is called before a file takes its name. It throws where the file must not: then nothing is left of it.
void guard_files(std::function<void()> guard);

/// Call this before the process ends past all destructors, on any thread. It removes every unfinished file that has a
/// temporary name. After that no file gets one, and none is put in place.
void remove_unfinished_files();

}  // namespace foxscope
