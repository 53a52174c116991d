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
#include <system_error>
#include <vector>

#include <fmt/format.h>

#include "backend/base/error.h"

namespace foxscope {
namespace {

constexpr std::string_view kMagic = "FOXPART2";
constexpr std::size_t kKind = 7;  ///< letters of it that all versions begin with
constexpr std::size_t kFingerprint = 64;

struct RecordHead {
  std::uint32_t model, window, tokens, checksum;
};

/// CRC-32 of all of a record but the checksum itself. That of zeros is not zero.
std::uint32_t checksum(const RecordHead& head, std::span<const float> losses) {
  const auto add = [](uLong sum, const void* bytes, std::size_t count) {
    return crc32_z(sum, static_cast<const unsigned char*>(bytes), static_cast<z_size_t>(count));
  };
  const uLong of_head = add(0, &head, offsetof(RecordHead, checksum));
  return static_cast<std::uint32_t>(losses.empty() ? of_head : add(of_head, losses.data(), losses.size_bytes()));
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
                         const Found& found)
    : path_(partial_path(output)) {
  open_file();
  std::array<char, kMagic.size() + kFingerprint> head{};
  const ssize_t got = ::pread(file_.number, head.data(), head.size(), 0);
  const std::string_view read(head.data(), static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
  const std::string expected = std::string(kMagic) + fingerprint;
  if (read == expected) {
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
  begin(fingerprint);
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
  if (::flock(file_.number, LOCK_EX | LOCK_NB) == 0) return;
  if (errno != EWOULDBLOCK) fail(path_, "lock", errno);
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

void LossPartial::read_records(const Found& found) {
  struct stat status {};
  if (::fstat(file_.number, &status) != 0) fail(path_, "read", errno);
  const auto size = static_cast<std::uint64_t>(status.st_size);
  std::uint64_t position = kMagic.size() + kFingerprint;
  std::vector<float> losses;
  while (size - position >= sizeof(RecordHead)) {
    RecordHead head{};
    if (!read(position, std::as_writable_bytes(std::span(&head, 1)))) break;
    const std::uint64_t bytes = std::uint64_t{head.tokens} * sizeof(float);
    if (size - position - sizeof head < bytes) break;
    losses.resize(head.tokens);
    if (!read(position + sizeof head, std::as_writable_bytes(std::span(losses)))) break;
    if (checksum(head, losses) != head.checksum) break;
    try {
      found(head.model, head.window, losses);
    } catch (const Error& error) {
      throw Error(fmt::format("{}: {}: delete it to start anew", path_.string(), error.what()));
    }
    position += sizeof head + bytes;
  }
  if (::ftruncate(file_.number, static_cast<off_t>(position)) != 0) fail(path_, "write", errno);
  ::lseek(file_.number, 0, SEEK_END);
}

void LossPartial::begin(const std::string& fingerprint) {
  if (::ftruncate(file_.number, 0) != 0) fail(path_, "write", errno);
  ::lseek(file_.number, 0, SEEK_SET);
  const std::string head = std::string(kMagic) + fingerprint;
  write(std::as_bytes(std::span(head)));
}

void LossPartial::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(file_.number, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail(path_, "write", errno);
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
}

void LossPartial::append(std::uint32_t model, std::uint32_t window, std::span<const float> losses) {
  RecordHead head{model, window, static_cast<std::uint32_t>(losses.size()), 0};
  head.checksum = checksum(head, losses);
  std::vector<std::byte> record(sizeof head + losses.size_bytes());
  std::memcpy(record.data(), &head, sizeof head);
  std::memcpy(record.data() + sizeof head, losses.data(), losses.size_bytes());
  write(record);
}

}  // namespace foxscope
