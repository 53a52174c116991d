#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

namespace foxscope {

/// Bytes of a file one after the other, decompressed.
class ByteSource {
 public:
  virtual ~ByteSource() = default;
  /// Fills up to `size` bytes; 0 only at the end.
  /// @throws Error naming the file: unreadable, damaged, cut short
  virtual std::size_t read(char* data, std::size_t size) = 0;
  /// Bytes of the file itself that have been taken in.
  [[nodiscard]] virtual std::int64_t position() const = 0;
};

/// Opens a file; `.xz` and `.gz` at the end of its name say that it is compressed.
/// @throws Error naming the file
std::unique_ptr<ByteSource> open_byte_source(const std::filesystem::path& file);

/// Lines of a file, without their line feeds.
class LineReader {
 public:
  /// @param longest_line  in bytes
  LineReader(const std::filesystem::path& file, std::size_t longest_line);
  /// The next line; nothing at the end. An empty line after the last line feed does not count.
  /// @throws Error as ByteSource does, and for a line that is too long
  std::optional<std::string> next();
  [[nodiscard]] std::int64_t line_number() const { return line_number_; }  ///< of the last line, from 1
  [[nodiscard]] const std::filesystem::path& file() const { return file_; }
  [[nodiscard]] std::int64_t position() const { return source_->position(); }

 private:
  std::filesystem::path file_;
  std::size_t longest_line_;
  std::unique_ptr<ByteSource> source_;
  std::string buffer_;        ///< what was read and not yet given
  std::size_t given_ = 0;     ///< bytes at its beginning that were
  std::size_t searched_ = 0;  ///< up to here there is no line feed
  bool ended_ = false;
  std::int64_t line_number_ = 0;
};

}  // namespace foxscope
