#include "backend/eval/loss/loss_partial.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <string_view>
#include <system_error>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "backend/base/atomic_file.h"
#include "backend/base/error.h"

namespace foxscope {
namespace {

constexpr std::string_view kMagic = "FOXPART3";
constexpr std::size_t kKind = 7;  ///< letters of it that all versions begin with
constexpr std::size_t kFingerprint = 64;

struct RecordHead {
  std::uint32_t model, window, tokens, losses_sum, sum;
};

std::uint32_t checksum(std::span<const std::byte> bytes) {
  if (bytes.empty()) return 0;  // of no bytes there is no address
  return static_cast<std::uint32_t>(
      crc32_z(0, reinterpret_cast<const unsigned char*>(bytes.data()), static_cast<z_size_t>(bytes.size())));
}

/// That of zeros is not zero.
std::uint32_t sum_of(const RecordHead& head) {
  return checksum(std::as_bytes(std::span(&head, 1)).first(offsetof(RecordHead, sum)));
}

RecordHead head_of(std::uint32_t model, std::uint32_t window, std::span<const float> losses) {
  RecordHead head{model, window, static_cast<std::uint32_t>(losses.size()), checksum(std::as_bytes(losses)), 0};
  head.sum = sum_of(head);
  return head;
}

[[noreturn]] void fail(const std::filesystem::path& path, const char* what, int code) {
  throw Error(fmt::format("{}: cannot {} the unfinished work: {}; check the folder and its disk", path.string(), what,
                          std::generic_category().message(code)));
}

}  // namespace

std::filesystem::path partial_path(const std::filesystem::path& output) {
  std::filesystem::path path = output;
  path += ".partial";
  return path;
}

LossPartial::LossPartial(const std::filesystem::path& output, const std::string& fingerprint, bool start_anew,
                         const Found& found, Note note)
    : path_(partial_path(output)), head_(std::string(kMagic) + fingerprint), note_(std::move(note)) {
  open_file();
  std::array<char, kMagic.size() + kFingerprint> head{};
  const ssize_t got = ::pread(file_.number, head.data(), head.size(), 0);
  const std::string_view read(head.data(), static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
  if (read == head_) {
    read_records(found);
    return;
  }
  // An empty file, or the beginning of a header, is what a process leaves that was killed at once.
  const std::string name = path_.string();
  if (!kMagic.substr(0, kKind).starts_with(read.substr(0, kKind))) {
    throw Error(fmt::format("{}: is in the way, and Foxscope did not write it: move it away", name));
  }
  if (read.size() == head.size() && !start_anew) {
    if (!read.starts_with(kMagic)) {
      throw Error(fmt::format(
          "{}: holds unfinished work of another version of Foxscope: finish it with that version, delete it, or use "
          "--force to start anew",
          name));
    }
    throw Error(
        fmt::format("{}: holds unfinished work with other settings: finish it with the command that began it, delete "
                    "it, or use --force to start anew",
                    name));
  }
  begin();
}

LossPartial::Descriptor::~Descriptor() {
  if (number >= 0) ::close(number);
}

void LossPartial::open_file() {
  // In a folder that others write to, a link under this name could lead to any file of this user's.
  constexpr int kFlags = O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;
  constexpr mode_t kMode = 0600;
  file_.number = ::open(path_.c_str(), kFlags | O_CREAT | O_EXCL, kMode);
  if (file_.number < 0 && errno == EEXIST) {
    file_.number = ::open(path_.c_str(), kFlags);
    if (file_.number < 0 && errno == ELOOP) {
      throw Error(fmt::format(
          "{}: is a symbolic link, and unfinished work is not written through one: remove it, or choose another name "
          "for -o",
          path_.string()));
    }
    if (file_.number >= 0) check_found();
  }
  if (file_.number < 0) fail(path_, "open", errno);
  struct stat status {};
  // One that was put together meanwhile has no name any more: its owner has another.
  if (::flock(file_.number, LOCK_EX | LOCK_NB) == 0) {
    if (::fstat(file_.number, &status) == 0 && status.st_nlink > 0) return;
  } else if (errno != EWOULDBLOCK) {
    fail(path_, "lock", errno);
  }
  throw Error(
      fmt::format("{}: another process is working on it: wait for it, or choose another name for -o", path_.string()));
}

/// A partial file is taken up again only where nobody else can have put it there.
void LossPartial::check_found() const {
  struct stat status {};
  if (::fstat(file_.number, &status) != 0) fail(path_, "open", errno);
  const auto refuse = [this](const char* what) {
    throw Error(fmt::format("{}: {}: remove it or move it away, or choose another name for -o", path_.string(), what));
  };
  if (!S_ISREG(status.st_mode)) refuse("is not a regular file");
  if (status.st_uid != ::geteuid()) refuse("belongs to another user");
  if (status.st_nlink != 1) refuse("has another name too (a hard link), whose file would be overwritten");
}

bool LossPartial::read(std::uint64_t offset, std::span<std::byte> bytes) const {
  while (!bytes.empty()) {
    const ssize_t got = ::pread(file_.number, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail(path_, "read", errno);
    if (got == 0) return false;
    offset += static_cast<std::uint64_t>(got);
    bytes = bytes.subspan(static_cast<std::size_t>(got));
  }
  return true;
}

std::uint64_t LossPartial::find_record(std::uint64_t offset, std::uint64_t size, bool& zeros) const {
  constexpr std::size_t kAtOnce = std::size_t{1} << 20;
  constexpr std::size_t kStep = sizeof(float);  // the file is made of these
  zeros = true;
  std::vector<std::byte> bytes;
  while (size - offset >= sizeof(RecordHead)) {
    bytes.resize(static_cast<std::size_t>(std::min<std::uint64_t>(kAtOnce, size - offset)));
    if (!read(offset, bytes)) return size;
    std::size_t at = 0;
    for (; bytes.size() - at >= sizeof(RecordHead); at += kStep) {
      RecordHead head;
      std::memcpy(&head, bytes.data() + at, sizeof head);
      if (sum_of(head) == head.sum) return offset + at;
      const auto passed = std::span(bytes).subspan(at, kStep);
      zeros = zeros && std::ranges::count(passed, std::byte{0}) == std::ssize(passed);
    }
    offset += at;
  }
  return size;
}

void LossPartial::read_records(const Found& found) {
  struct stat status {};
  if (::fstat(file_.number, &status) != 0) fail(path_, "read", errno);
  const auto size = static_cast<std::uint64_t>(status.st_size);
  std::uint64_t position = head_.size();
  std::vector<Part> sound;
  std::size_t damaged = 0;
  std::vector<float> losses;
  while (size - position >= sizeof(RecordHead)) {
    bool zeros = false;
    const std::uint64_t begin = find_record(position, size, zeros);
    // Zeros at the end are what a crash leaves.
    if (begin > position && (begin < size || !zeros)) ++damaged;
    if (begin == size) break;
    RecordHead head{};
    if (!read(begin, std::as_writable_bytes(std::span(&head, 1)))) break;
    const std::uint64_t bytes = std::uint64_t{head.tokens} * sizeof(float);
    if (size - begin - sizeof head < bytes) break;
    losses.resize(head.tokens);
    if (!read(begin + sizeof head, std::as_writable_bytes(std::span(losses)))) break;
    position = begin + sizeof head + bytes;
    if (checksum(std::as_bytes(std::span(losses))) != head.losses_sum) {
      ++damaged;
      continue;
    }
    sound.push_back({begin, position});
    together_ = std::max(together_, sound.back().end - sound.back().begin);
    try {
      found(head.model, head.window, losses);
    } catch (const Error& error) {
      throw Error(fmt::format("{}: {}: delete it to start anew", path_.string(), error.what()));
    }
  }
  leave_out(sound, damaged);
}

void LossPartial::leave_out(const std::vector<Part>& sound, std::size_t damaged) {
  cut(sound.empty() ? head_.size() : sound.back().end);
  if (damaged == 0) return;
  if (note_) {
    note_(fmt::format("{}: {} of {} parts {} damaged: what {} held is computed again", path_.string(), damaged,
                      sound.size() + damaged, damaged == 1 ? "is" : "are", damaged == 1 ? "it" : "they"));
  }
  replace([&](AtomicFile& file) {
    std::vector<std::byte> record;
    for (const Part& part : sound) {
      record.resize(static_cast<std::size_t>(part.end - part.begin));
      if (read(part.begin, record)) file.write(record.data(), record.size());
    }
  });
}

void LossPartial::replace(const std::function<void(AtomicFile&)>& write) {
  try {
    AtomicFile file(path_, true);
    Descriptor fresh;
    fresh.number = ::fcntl(file.descriptor(), F_DUPFD_CLOEXEC, 0);
    // Nobody else can have opened it before it has its name.
    if (fresh.number < 0 || ::flock(fresh.number, LOCK_EX | LOCK_NB) != 0) return;
    file.write(head_.data(), head_.size());
    write(file);
    struct stat status {};
    if (::fstat(fresh.number, &status) != 0) return;
    file.commit();
    std::swap(file_.number, fresh.number);
    size_ = static_cast<std::uint64_t>(status.st_size);
  } catch (const Error&) {
    // The disk is full, or the folder takes no new file: the old one goes on.
  }
}

void LossPartial::begin() {
  cut(0);
  if (const int error = write(std::as_bytes(std::span(head_))); error != 0) fail(path_, "write", error);
  size_ = head_.size();
}

void LossPartial::cut(std::uint64_t size) {
  if (::ftruncate(file_.number, static_cast<off_t>(size)) != 0) fail(path_, "write", errno);
  size_ = size;
}

int LossPartial::write(std::span<const std::byte> bytes) {
  std::uint64_t offset = size_;
  while (!bytes.empty()) {
    const ssize_t written = ::pwrite(file_.number, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return errno;
    offset += static_cast<std::uint64_t>(written);
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
  size_ = offset;
  return 0;
}

void LossPartial::append(std::uint32_t model, std::uint32_t window, std::span<const float> losses) {
  if (!keeps_) return;
  const std::uint64_t before = size_;
  const RecordHead head = head_of(model, window, losses);
  int error = write(std::as_bytes(std::span(&head, 1)));
  if (error == 0) error = write(std::as_bytes(losses));
  if (error == 0) {
    together_ = std::max(together_, size_ - before);
    return;
  }
  keeps_ = false;
  size_ = before;
  // Where not even this works, the record is one that is cut short.
  std::ignore = ::ftruncate(file_.number, static_cast<off_t>(before));
  if (!note_) return;
  note_(
      fmt::format("{}: cannot write the unfinished work: {}; the work goes on, and what is computed from now on is "
                  "lost if it is interrupted",
                  path_.string(), std::generic_category().message(error)));
}

void LossPartial::put_together(const std::function<void(const Found& add)>& all) {
  if (!keeps_ || size_ <= 2 * together_) return;
  replace([&](AtomicFile& file) {
    all([&file](std::uint32_t model, std::uint32_t window, std::span<const float> losses) {
      const RecordHead head = head_of(model, window, losses);
      file.write(&head, sizeof head);
      file.write(losses.data(), losses.size_bytes());
    });
  });
  together_ = size_;
}

}  // namespace foxscope
