#pragma once

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

/// A folder of this process, in memory, that goes with it: for readers that look for files of certain names.
class FuzzFolder {
 public:
  explicit FuzzFolder(const std::string& reader)
      : path_("/dev/shm/foxscope-fuzz-" + reader + "-" + std::to_string(getpid())) {
    std::filesystem::create_directories(path_);
  }
  ~FuzzFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  FuzzFolder(const FuzzFolder&) = delete;
  FuzzFolder& operator=(const FuzzFolder&) = delete;

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  /// @returns the file's path
  std::filesystem::path write(const char* name, std::string_view bytes) const {
    std::ofstream(path_ / name, std::ios::binary | std::ios::trunc)
        .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    return path_ / name;
  }

 private:
  std::filesystem::path path_;
};
