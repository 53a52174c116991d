#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>

namespace foxscope {

/// A regular file, memory-mapped read-only while the object lives.
class MappedFile {
 public:
  /// @param what  what the file should be, in errors: "safetensors"
  /// @throws Error naming the file: what RegularFile refuses, and one that cannot be mapped
  MappedFile(const std::filesystem::path& path, const std::string& what);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  [[nodiscard]] std::span<const std::byte> bytes() const { return {data_, size_}; }

 private:
  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace foxscope
