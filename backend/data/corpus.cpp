#include "backend/data/corpus.h"

#include <algorithm>
#include <system_error>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "backend/base/command_line.h"
#include "backend/base/error.h"
#include "backend/base/log.h"
#include "backend/data/corpus_lines.h"
#include "backend/text/json_reading.h"
#include "backend/text/read_text.h"
#include "backend/text/tokenizer.h"

namespace foxscope {
namespace {

constexpr const char* kKinds = ".txt, .jsonl, .jsonl.xz and .jsonl.gz";

bool is_text(const std::filesystem::path& file) { return file.extension() == ".txt"; }

bool is_corpus_file(const std::filesystem::path& file) {
  const std::string name = file.filename().string();
  return is_text(file) || name.ends_with(".jsonl") || name.ends_with(".jsonl.xz") || name.ends_with(".jsonl.gz");
}

/// All files of a corpus folder, in the order of their paths' bytes.
std::vector<std::filesystem::path> files_below(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> files;
  std::size_t skipped = 0;
  std::error_code failed;
  std::filesystem::recursive_directory_iterator entries(folder, failed);
  for (const auto end = std::filesystem::recursive_directory_iterator(); !failed && entries != end;
       entries.increment(failed)) {
    std::error_code unreadable;
    if (entries->path().filename().string().starts_with('.')) {
      entries.disable_recursion_pending();
      ++skipped;
    } else if (is_corpus_file(entries->path()) && entries->is_regular_file(unreadable)) {
      files.push_back(entries->path());
    } else if (!entries->is_directory(unreadable)) {
      ++skipped;
    }
  }
  if (failed) throw Error(fmt::format("{}: cannot list the folder: {}", folder.string(), failed.message()));
  std::sort(files.begin(), files.end(), [](const auto& a, const auto& b) { return a.string() < b.string(); });
  log_line(LogCategory::eval, [&] {
    return fmt::format("{}: {} corpus files, skipped {} that are hidden or of another kind", folder.string(),
                       files.size(), skipped);
  });
  return files;
}

/// A name out of a JSON line: a string that is not empty, or a whole number.
std::optional<std::string> name_in(const nlohmann::json& line, const char* key) {
  const nlohmann::json* value = member(line, key);
  if (value == nullptr) return std::nullopt;
  if (value->is_string() && !value->get_ref<const std::string&>().empty()) return value->get<std::string>();
  if (value->is_number_integer()) return value->dump();
  return std::nullopt;
}

/// Names stand in one line of messages and in HDF5 strings, which end at NUL.
std::string without_controls(std::string name) {
  for (char& c : name) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) c = ' ';
  }
  return name;
}

}  // namespace

struct CorpusReader::Lines : LineReader {
  using LineReader::LineReader;
};

CorpusReader::CorpusReader(const std::filesystem::path& corpus, std::size_t longest_document)
    : corpus_(corpus), longest_document_(longest_document) {
  std::error_code failed;
  const auto status = std::filesystem::status(corpus, failed);
  if (!std::filesystem::exists(status)) {
    throw Error(fmt::format("{}: no such corpus: give a file ({}) or a folder of such files", corpus.string(), kKinds));
  }
  if (std::filesystem::is_directory(status)) {
    files_ = files_below(corpus);
    if (files_.empty()) {
      throw Error(fmt::format("{}: the folder holds no corpus files: they end in {}", corpus.string(), kKinds));
    }
  } else if (!is_corpus_file(corpus) || !std::filesystem::is_regular_file(status)) {
    throw Error(fmt::format("{}: is no corpus: its files end in {}", corpus.string(), kKinds));
  } else {
    files_ = {corpus};
  }
  for (const auto& file : files_) {
    const auto size = std::filesystem::file_size(file, failed);
    if (!failed) total_bytes_ += static_cast<std::int64_t>(size);
  }
}

CorpusReader::~CorpusReader() = default;

std::int64_t CorpusReader::bytes_done() const { return finished_bytes_ + (lines_ ? lines_->position() : 0); }

std::string CorpusReader::name_of(const std::filesystem::path& file) const {
  const auto relative = file == corpus_ ? file.filename() : file.lexically_relative(corpus_);
  std::string name = relative.string();
  return without_controls(find_invalid_utf8(name) ? replace_invalid_utf8(name) : std::move(name));
}

CorpusDocument CorpusReader::read_text_file(const std::filesystem::path& file) {
  std::error_code failed;
  if (std::filesystem::file_size(file, failed) > longest_document_ && !failed) {
    throw Error(fmt::format("{}: is longer than {} MiB: cut it into smaller documents", file.string(),
                            std::max<std::size_t>(1, longest_document_ >> 20U)));
  }
  CorpusDocument document{name_of(file), read_text(file, InvalidUtf8::refuse)};
  finished_bytes_ += static_cast<std::int64_t>(document.text.size());
  return document;
}

CorpusDocument CorpusReader::parse_line(const std::string& line) const {
  const std::string where = fmt::format("{}: line {}", lines_->file().string(), lines_->line_number());
  if (const auto offset = find_invalid_utf8(line)) {
    throw Error(fmt::format("{}: byte {} is not UTF-8: convert the file (for instance with iconv)", where, *offset));
  }
  const nlohmann::json json = parse_plain_members(line, where);
  const nlohmann::json* text = member(json, "text");
  if (text == nullptr || !text->is_string()) {
    throw Error(
        fmt::format("{}: has no string under \"text\": a line is an object such as {{\"text\": \"...\"}}", where));
  }
  CorpusDocument document{"", text->get<std::string>()};
  const auto id = name_in(json, "id");
  const auto name = id ? id : name_in(json, "title");
  // Ids may be paths, and names go into files that are published.
  const bool path = name && name->starts_with('/');
  document.name = path   ? without_controls(without_folder(*name))
                  : name ? without_controls(*name)
                         : fmt::format("{}:{}", name_of(lines_->file()), lines_->line_number());
  return document;
}

std::optional<CorpusDocument> CorpusReader::next() {
  constexpr const char* kWhiteSpace = " \t\r";
  while (true) {
    if (lines_) {
      while (const auto line = lines_->next()) {
        if (line->find_first_not_of(kWhiteSpace) == std::string::npos) continue;
        ++documents_;
        return parse_line(*line);
      }
      finished_bytes_ += lines_->position();
      lines_.reset();
    }
    if (next_file_ == files_.size()) break;
    const std::filesystem::path& file = files_[next_file_++];
    if (is_text(file)) {
      ++documents_;
      return read_text_file(file);
    }
    lines_ = std::make_unique<Lines>(file, longest_document_);
  }
  if (documents_ == 0)
    throw Error(fmt::format("{}: the corpus holds no documents: give one with text", corpus_.string()));
  return std::nullopt;
}

}  // namespace foxscope
