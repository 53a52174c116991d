#include "backend/train/log_lines.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <limits>
#include <optional>
#include <stdexcept>
#include <string_view>
#include <system_error>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "backend/base/error.h"
#include "backend/base/regular_file.h"
#include "backend/text/json_reading.h"

namespace foxscope {
namespace {

constexpr std::size_t kLargestLog = std::size_t{1} << 31;
/// Decay times of the most heads that are read take a tenth.
constexpr std::size_t kLongestLogLine = std::size_t{4} << 20;

/// Reads bytes of a file at a place until there are as many as wanted, or the file ends.
std::string bytes_at(const RegularFile& file, const std::filesystem::path& path, std::size_t begin, std::size_t count) {
  std::string bytes(count, '\0');
  std::size_t used = 0;
  while (used < count) {
    const ssize_t got = ::pread(file.descriptor(), bytes.data() + used, count - used, static_cast<off_t>(begin + used));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) {
      throw Error(fmt::format("{}: cannot read the training's log: {}; check the file and its disk", path.string(),
                              std::generic_category().message(errno)));
    }
    if (got == 0) break;
    used += static_cast<std::size_t>(got);
  }
  bytes.resize(used);
  return bytes;
}

/// The whole lines of a file, one by one.
class LogLines {
 public:
  LogLines(const std::filesystem::path& path, const LogPlace& place)
      : path_(path), file_(path, "training's log"), begin_(place.bytes), number_(place.lines) {
    if (file_.size() > kLargestLog) {
      throw Error(fmt::format("{}: the training's log is larger than {} MiB: is this another file?", path.string(),
                              kLargestLog >> 20U));
    }
  }

  /// The next, which is there until the one after it is asked for; nothing behind the last.
  std::optional<std::string_view> next() {
    constexpr std::size_t kPiece = std::size_t{1} << 20;
    buffer_.erase(0, used_);
    begin_ += used_;
    used_ = 0;
    std::size_t searched = 0;
    while (true) {
      const std::size_t end = buffer_.find('\n', searched);
      if (end != std::string::npos) {
        used_ = end + 1;
        ++number_;
        return std::string_view(buffer_).substr(0, end);
      }
      if (buffer_.size() > kLongestLogLine) {
        throw Error(fmt::format("{}: line {} is longer than {} MiB: is this another file?", path_.string(), number_ + 1,
                                kLongestLogLine >> 20U));
      }
      searched = buffer_.size();
      const std::size_t read = begin_ + searched;
      if (read >= file_.size()) return std::nullopt;  // what is added from now on is the next reading's
      const std::string piece = bytes_at(file_, path_, read, std::min<std::size_t>(kPiece, file_.size() - read));
      if (piece.empty()) return std::nullopt;
      buffer_ += piece;
    }
  }

  /// Where the line ends, and its number from 1.
  [[nodiscard]] std::size_t end() const { return begin_ + used_; }
  [[nodiscard]] std::int64_t number() const { return number_; }

 private:
  const std::filesystem::path& path_;
  RegularFile file_;
  std::string buffer_;
  std::size_t begin_;     ///< of the buffer in the file
  std::size_t used_ = 0;  ///< of the buffer, by the line that was given last
  std::int64_t number_;
};

}  // namespace

bool has_lines_up_to(const std::filesystem::path& path, const LogPlace& place) {
  std::error_code failed;
  if (place.bytes == 0) return true;
  if (!std::filesystem::exists(path, failed)) return false;
  const RegularFile file(path, "training's log");
  if (file.size() < place.bytes) return false;
  const std::size_t length = place.last.size() + 1;
  const std::size_t before = std::min<std::size_t>(1, place.bytes - length);  // a line feed, or the file begins
  return bytes_at(file, path, place.bytes - length - before, length + before) ==
         std::string(before, '\n') + place.last + '\n';
}

void read_lines(const std::filesystem::path& path, LogPlace& place,
                const std::function<bool(const nlohmann::json&, std::size_t end)>& take) {
  std::error_code failed;
  if (!std::filesystem::exists(path, failed)) return;
  LogLines lines(path, place);
  while (const auto text = lines.next()) {
    const std::string where = fmt::format("{}: line {}", path.string(), lines.number());
    check_json_bounds(*text, where);
    const auto line = nlohmann::json::parse(*text, nullptr, false);
    try {
      if (!line.is_object()) throw std::domain_error("no object");
      static_cast<void>(whole_number_of(line, "step", 1));
    } catch (const std::domain_error&) {
      throw Error(fmt::format("{} is not a step of a training: is this another file?", where));
    }
    try {
      if (!take(line, lines.end())) return;
    } catch (const nlohmann::json::exception&) {
      throw Error(fmt::format("{} lacks a figure, or one is of another kind: delete the line", where));
    } catch (const std::domain_error&) {
      throw Error(fmt::format("{} lacks a figure, or one is of another kind: delete the line", where));
    }
    place.bytes = lines.end();
    place.lines = lines.number();
    place.last = *text;
  }
}

void read_lines(const std::filesystem::path& path,
                const std::function<bool(const nlohmann::json&, std::size_t end)>& take) {
  LogPlace place;
  read_lines(path, place, take);
}

std::int64_t whole_number_of(const nlohmann::json& line, const char* key, std::int64_t least) {
  const auto found = line.find(key);
  const bool fits =
      found != line.end() && found->is_number_integer() &&
      (!found->is_number_unsigned() ||
       found->get<std::uint64_t>() <= static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()));
  if (!fits || found->get<std::int64_t>() < least) throw std::domain_error(key);
  return found->get<std::int64_t>();
}

}  // namespace foxscope
