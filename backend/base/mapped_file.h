#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>

namespace foxscope {

/// A regular file, memory-mapped read-only while the object lives. Where somebody cuts it short meanwhile, there is
/// nothing to read on: the process ends with status 1 and one line on standard error that names the file.
class MappedFile {
 public:
  /// @param what  what the file should be, in errors: "safetensors"
  /// @throws Error naming the file: what RegularFile refuses, and one that cannot be mapped
  MappedFile(const std::filesystem::path& path, const std::string& what);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  [[nodiscard]] std::span<const std::byte> bytes() const { return {data_, size_}; }
  /// Whether an address is one of the file's.
  [[nodiscard]] bool holds(const void* address) const { return data_ <= address && address < data_ + size_; }
  [[nodiscard]] const std::string& line_when_cut() const { return line_; }

 private:
  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
  std::string line_;  ///< the message if the file is cut short while it is mapped
};

}  // namespace foxscope
