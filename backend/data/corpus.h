#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace foxscope {

/// A document of a corpus.
struct CorpusDocument {
  /// A name for people and for files. A text file has its path below the corpus folder (the file's name where the
  /// corpus is one file); a line of JSON has its "id", else its "title", else FILE:LINE.
  std::string name;
  std::string text;  ///< UTF-8
};

/// Longest document: a text file, or a line of JSON, in bytes.
inline constexpr std::size_t kLongestDocument = std::size_t{1} << 28;

/// Reads the documents of a corpus one after the other; no more than one of them is in memory at a time.
///
/// A corpus is a `.txt` file (one document), a `.jsonl`, `.jsonl.xz` or `.jsonl.gz` file (one JSON object a line, the
/// text under "text"; empty lines are skipped), or a folder: all files of these kinds in it and below it, in the order
/// of their paths' bytes; hidden files and others are passed over.
class CorpusReader {
 public:
  /// @throws Error naming the path: missing, of no known kind, a folder without such files
  explicit CorpusReader(const std::filesystem::path& corpus, std::size_t longest_document = kLongestDocument);
  ~CorpusReader();
  CorpusReader(const CorpusReader&) = delete;
  CorpusReader& operator=(const CorpusReader&) = delete;

  /// The next document; nothing after the last.
  /// @throws Error naming the file and the line: unreadable, no UTF-8, no JSON, no "text", compressed data that is
  ///         damaged or cut short, a document that is too long; and for a corpus without documents
  std::optional<CorpusDocument> next();

  /// The files that documents come from, in their order.
  [[nodiscard]] const std::vector<std::filesystem::path>& files() const { return files_; }

  /// Size of all files as they lay on disk at first, and how much of it has been taken in, for progress. If files have
  /// grown since, the bytes taken in are the least that there are.
  [[nodiscard]] std::int64_t total_bytes() const { return std::max(total_bytes_, bytes_done()); }
  [[nodiscard]] std::int64_t bytes_done() const;

 private:
  struct Lines;
  CorpusDocument read_text_file(const std::filesystem::path& file);
  CorpusDocument parse_line(const std::string& line) const;
  [[nodiscard]] std::string name_of(const std::filesystem::path& file) const;

  std::filesystem::path corpus_;
  std::size_t longest_document_;
  std::vector<std::filesystem::path> files_;
  std::size_t next_file_ = 0;
  std::unique_ptr<Lines> lines_;  ///< of the file that is being read, if it is JSON
  std::int64_t total_bytes_ = 0;
  std::int64_t finished_bytes_ = 0;  ///< sizes of the files that were read whole
  std::int64_t documents_ = 0;
};

}  // namespace foxscope
