#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

namespace foxscope::cli {

/// Files larger than this are announced before they are written, with what makes them smaller.
inline constexpr std::int64_t kAnnouncedFileBytes = 1'000'000'000;

/// Whether a command's output is standard output, written "-".
bool isStandardOutput(const std::string& output);

/// Refuses bytes that are no text where standard output is a terminal.
/// @throws UsageError that says to redirect it
void requireNoTerminal(const std::string& output);

/// Writes a whole file, or to standard output.
/// @throws Error as AtomicFile and Console::write
void writeOutput(const std::string& output, bool force, std::string_view bytes);

/// A path for what is written by file name: the output itself, or for standard output a file in the temporary folder,
/// which goes away with this.
class OutputPath {
 public:
  explicit OutputPath(const std::string& output);
  ~OutputPath();
  OutputPath(const OutputPath&) = delete;
  OutputPath& operator=(const OutputPath&) = delete;

  [[nodiscard]] const std::filesystem::path& path() const { return m_path; }
  /// Passes the file on to standard output, where that is the output.
  void deliver() const;

 private:
  std::filesystem::path m_folder;  ///< empty: the output is a file
  std::filesystem::path m_path;
};

}  // namespace foxscope::cli
