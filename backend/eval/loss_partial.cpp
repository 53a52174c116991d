#include "backend/eval/loss_partial.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "backend/base/error.h"
#include "backend/text/file_bytes.h"

namespace foxscope {
namespace {

constexpr std::string_view kMagic = "FOXPART1";
constexpr std::size_t kFingerprint = 64;
constexpr std::size_t kLargestPartial = std::size_t{1} << 40;

struct RecordHead {
  std::uint32_t model, window, tokens, checksum;
};

std::uint32_t checksum(std::span<const std::byte> bytes) {
  return static_cast<std::uint32_t>(
      crc32_z(0, reinterpret_cast<const unsigned char*>(bytes.data()), static_cast<z_size_t>(bytes.size())));
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
  const ssize_t got = ::pread(descriptor_, head.data(), head.size(), 0);
  const std::string_view read(head.data(), static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
  const std::string expected = std::string(kMagic) + fingerprint;
  if (read == expected) {
    read_records(found);
    return;
  }
  // An empty file, or the beginning of a header, is what a process leaves that was killed at once.
  const bool other_kind = !kMagic.starts_with(read.substr(0, kMagic.size()));
  const bool other_settings = read.size() == head.size() && !other_kind;
  if (other_kind || (other_settings && !start_anew)) {
    const std::string name = path_.string();
    ::close(std::exchange(descriptor_, -1));
    if (other_kind) throw Error(fmt::format("{}: is in the way and no work of Foxscope's: move it away", name));
    throw Error(
        fmt::format("{}: holds unfinished work of other settings: finish it with the command that began it, "
                    "delete it, or use --force to start anew",
                    name));
  }
  begin(fingerprint);
}

LossPartial::~LossPartial() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

void LossPartial::open_file() {
  constexpr mode_t kMode = 0666;
  descriptor_ = ::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, kMode);
  if (descriptor_ < 0) fail(path_, "open", errno);
  if (::flock(descriptor_, LOCK_EX | LOCK_NB) == 0) return;
  const int code = errno;
  ::close(std::exchange(descriptor_, -1));
  if (code != EWOULDBLOCK) fail(path_, "lock", code);
  throw Error(
      fmt::format("{}: another process is at work on it: wait for it, or choose another name for -o", path_.string()));
}

void LossPartial::read_records(const Found& found) {
  const std::string content = read_file_bytes(path_, "unfinished work", kLargestPartial);
  std::size_t position = kMagic.size() + kFingerprint;
  std::vector<float> losses;
  while (content.size() - position >= sizeof(RecordHead)) {
    RecordHead head{};
    std::memcpy(&head, content.data() + position, sizeof head);
    const std::size_t bytes = std::size_t{head.tokens} * sizeof(float);
    if (content.size() - position - sizeof head < bytes) break;
    losses.resize(head.tokens);
    std::memcpy(losses.data(), content.data() + position + sizeof head, bytes);
    if (checksum(std::as_bytes(std::span(losses))) != head.checksum) break;
    found(head.model, head.window, losses);
    position += sizeof head + bytes;
  }
  if (::ftruncate(descriptor_, static_cast<off_t>(position)) != 0) fail(path_, "write", errno);
  ::lseek(descriptor_, 0, SEEK_END);
}

void LossPartial::begin(const std::string& fingerprint) {
  if (::ftruncate(descriptor_, 0) != 0) fail(path_, "write", errno);
  ::lseek(descriptor_, 0, SEEK_SET);
  const std::string head = std::string(kMagic) + fingerprint;
  write(std::as_bytes(std::span(head)));
}

void LossPartial::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(descriptor_, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail(path_, "write", errno);
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
}

void LossPartial::append(std::uint32_t model, std::uint32_t window, std::span<const float> losses) {
  const RecordHead head{model, window, static_cast<std::uint32_t>(losses.size()), checksum(std::as_bytes(losses))};
  std::vector<std::byte> record(sizeof head + losses.size_bytes());
  std::memcpy(record.data(), &head, sizeof head);
  std::memcpy(record.data() + sizeof head, losses.data(), losses.size_bytes());
  write(record);
}

}  // namespace foxscope
