#include "backend/agent/kept_answers.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <ctime>
#include <span>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "backend/base/sha256.h"

namespace foxscope::agent {
namespace {

namespace fs = std::filesystem;

/// The first line of an entry of the folder; behind it stand the SHA-256 of the message and the message.
constexpr std::string_view kFirstLine = "foxscope answer 1\n";
constexpr std::size_t kHashLetters = 64;
constexpr const char* kEnding = ".answer";
constexpr const char* kUnfinished = ".new";
/// The folder is looked through each time that a part of its bytes was written, and then emptied to a part.
constexpr std::uint64_t kLooks = 16;
constexpr std::chrono::hours kForgotten{1};  ///< of an entry that a process has not finished

std::string key_of(const RemoteHost& host, const Message& request) {
  std::string text = fmt::format("{}\n{}\n{}\n", FOXSCOPE_VERSION, kProtocol, host.words());
  text += request.header.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  for (const Part& part : request.parts) {
    text += '\n' + part.dtype + '\n';
    text.append(reinterpret_cast<const char*>(part.bytes.data()), part.bytes.size());
  }
  return sha256(text);
}

std::size_t bytes_of(const Message& message) {
  std::size_t bytes = 1024;  // of its header, about
  for (const Part& part : message.parts) bytes += part.bytes.size();
  return bytes;
}

/// A descriptor that is closed.
class Opened {
 public:
  explicit Opened(int descriptor) : descriptor_(descriptor) {}
  ~Opened() {
    if (descriptor_ >= 0) close(descriptor_);
  }
  Opened(const Opened&) = delete;
  Opened& operator=(const Opened&) = delete;
  [[nodiscard]] int get() const { return descriptor_; }

 private:
  int descriptor_;
};

/// The bytes of a file of this user that is no larger than an entry may be; empty where there is none.
std::string read_entry(const fs::path& path) {
  const Opened file(open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK));
  struct stat status {};
  if (file.get() < 0 || fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode) || status.st_uid != geteuid() ||
      status.st_size > static_cast<off_t>(KeptAnswers::kMostBytes + kMostHeader)) {
    return {};
  }
  std::string bytes(static_cast<std::size_t>(status.st_size), '\0');
  std::size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t got = ::read(file.get(), bytes.data() + done, bytes.size() - done);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return {};
    done += static_cast<std::size_t>(got);
  }
  futimens(file.get(), nullptr);  // it was used now
  return bytes;
}

bool write_whole_entry(int descriptor, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(descriptor, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
  return true;
}

}  // namespace

KeptAnswers& KeptAnswers::all() {
  static KeptAnswers* const all = new KeptAnswers;  // outlives every trace
  return *all;
}

void KeptAnswers::use_folder(const fs::path& folder, std::uint64_t most) {
  std::error_code failed;
  fs::create_directories(folder, failed);
  struct stat status {};
  const bool ours = lstat(folder.c_str(), &status) == 0 && S_ISDIR(status.st_mode) && status.st_uid == geteuid();
  if (ours) fs::permissions(folder, fs::perms::owner_all, failed);
  const std::lock_guard lock(mutex_);
  folder_ = ours ? folder : fs::path();
  most_ = most;
  written_ = most;  // it is looked through with the first entry
}

fs::path KeptAnswers::folder() const {
  const std::lock_guard lock(mutex_);
  return folder_;
}

void KeptAnswers::hold(const std::string& key, std::shared_ptr<const Message> answer) {
  const std::lock_guard lock(mutex_);
  if (places_.contains(key)) return;
  const std::size_t bytes = bytes_of(*answer);
  held_.push_front({key, std::move(answer), bytes});
  places_[key] = held_.begin();
  bytes_ += bytes;
  while (bytes_ > kMemory && held_.size() > 1) {
    bytes_ -= held_.back().bytes;
    places_.erase(held_.back().key);
    held_.pop_back();
  }
}

bool KeptAnswers::has(const RemoteHost& host, const Message& request) const {
  const std::string key = key_of(host, request);
  const std::lock_guard lock(mutex_);
  return places_.contains(key);
}

std::optional<Message> KeptAnswers::find(const RemoteHost& host, const Message& request) {
  const std::string key = key_of(host, request);
  std::shared_ptr<const Message> known;
  {
    const std::lock_guard lock(mutex_);
    if (const auto found = places_.find(key); found != places_.end()) {
      held_.splice(held_.begin(), held_, found->second);
      known = found->second->answer;
    }
  }
  if (known) return *known;
  std::optional<Message> answer = read(key);
  if (answer) hold(key, std::make_shared<const Message>(*answer));
  return answer;
}

void KeptAnswers::keep(const RemoteHost& host, const Message& request, const Message& answer) {
  if (bytes_of(answer) > kMostBytes) return;
  const std::string key = key_of(host, request);
  hold(key, std::make_shared<const Message>(answer));
  write(key, answer);
}

std::optional<Message> KeptAnswers::find_older(const RemoteHost& host, const Message& request) const {
  return read(key_of(host, request));
}

void KeptAnswers::keep_older(const RemoteHost& host, const Message& request, const Message& answer) {
  if (bytes_of(answer) <= kMostBytes) write(key_of(host, request), answer);
}

void KeptAnswers::forget_older(const RemoteHost& host, const Message& request) const {
  std::error_code failed;
  if (const fs::path place = folder(); !place.empty()) fs::remove(place / (key_of(host, request) + kEnding), failed);
}

/// Nothing where there is no such entry. What is no whole entry is taken away.
std::optional<Message> KeptAnswers::read(const std::string& key) const {
  const fs::path place = folder();
  if (place.empty()) return std::nullopt;
  const fs::path path = place / (key + kEnding);
  const std::string bytes = read_entry(path);
  if (bytes.empty()) return std::nullopt;
  constexpr std::size_t kBefore = kFirstLine.size() + kHashLetters;
  try {
    const std::string_view all = bytes;
    if (all.size() > kBefore && all.starts_with(kFirstLine)) {
      const std::string_view message = all.substr(kBefore);
      if (sha256(message) == all.substr(kFirstLine.size(), kHashLetters)) {
        return decoded(std::as_bytes(std::span(message)));
      }
    }
  } catch (const Error&) {
    // Damaged, as one whose hash is another.
  }
  std::error_code failed;
  fs::remove(path, failed);
  return std::nullopt;
}

void KeptAnswers::write(const std::string& key, const Message& answer) {
  const fs::path place = folder();
  if (place.empty()) return;
  std::vector<std::byte> message;
  try {
    message = encoded(answer);
  } catch (const Error&) {
    return;
  }
  const std::string_view text(reinterpret_cast<const char*>(message.data()), message.size());
  const std::string bytes = fmt::format("{}{}{}", kFirstLine, sha256(text), text);
  std::string unfinished = (place / fmt::format("{}-XXXXXX{}", key.substr(0, 8), kUnfinished)).string();
  const Opened file(mkostemps(unfinished.data(), static_cast<int>(std::string_view(kUnfinished).size()), O_CLOEXEC));
  if (file.get() < 0) return;
  std::error_code failed;
  if (write_whole_entry(file.get(), bytes)) {
    fs::rename(unfinished, place / (key + kEnding), failed);
  } else {
    failed = std::make_error_code(std::errc::no_space_on_device);
  }
  if (failed) fs::remove(unfinished, failed);
  {
    const std::lock_guard lock(mutex_);
    written_ += bytes.size();
    if (written_ < most_ / kLooks) return;
    written_ = 0;
  }
  trim();
}

/// Takes away what was not used for longest. Other processes may do the same meanwhile.
void KeptAnswers::trim() const {
  struct Entry {
    fs::file_time_type used;
    std::uint64_t bytes = 0;
    fs::path path;
  };
  fs::path place;
  std::uint64_t most = 0;
  {
    const std::lock_guard lock(mutex_);
    place = folder_;
    most = most_;
  }
  std::vector<Entry> entries;
  std::uint64_t all = 0;
  std::error_code failed;
  const auto now = fs::file_time_type::clock::now();
  for (fs::directory_iterator entry(place, failed), end; !failed && entry != end; entry.increment(failed)) {
    std::error_code gone;
    Entry found{entry->last_write_time(gone), 0, entry->path()};
    if (!gone) found.bytes = entry->file_size(gone);
    if (gone) continue;
    if (found.path.extension() == kUnfinished && now - found.used > kForgotten) fs::remove(found.path, gone);
    if (found.path.extension() != kEnding) continue;
    all += found.bytes;
    entries.push_back(std::move(found));
  }
  if (all <= most) return;
  std::ranges::sort(entries, {}, &Entry::used);
  for (const Entry& entry : entries) {
    if (all <= most / 4 * 3) return;
    std::error_code gone;
    fs::remove(entry.path, gone);
    all -= entry.bytes;
  }
}

}  // namespace foxscope::agent
