#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>

namespace foxscope {

/// A regular file that is open for reading, and closed at the end. Anything else under that name is refused at once: to
/// open a FIFO would wait for whoever writes it, and a device may have no end.
class RegularFile {
 public:
  /// @param what  what the file should be, in errors: "tokenizer"
  /// @throws Error naming the file: missing, not permitted, a folder, a FIFO, a device
  RegularFile(const std::filesystem::path& path, const std::string& what);
  ~RegularFile();
  RegularFile(const RegularFile&) = delete;
  RegularFile& operator=(const RegularFile&) = delete;

  [[nodiscard]] int descriptor() const { return descriptor_; }
  /// Bytes of the file when it was opened.
  [[nodiscard]] std::uint64_t size() const { return size_; }

 private:
  int descriptor_ = -1;
  std::uint64_t size_ = 0;
};

/// Throws the error of a file that could not be opened, with the system's error number.
[[noreturn]] void throw_not_opened(const std::string& name, const std::string& what, int error_number);
/// Throws the error of a folder where a file should be.
[[noreturn]] void throw_folder(const std::string& name, const std::string& what);

}  // namespace foxscope
