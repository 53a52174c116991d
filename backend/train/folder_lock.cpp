#include "backend/train/folder_lock.h"

#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <string>
#include <system_error>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "backend/base/error.h"
#include "backend/file/provenance.h"

namespace foxscope {
namespace {

constexpr std::size_t kLargestHolder = 4096;

std::string host_name() {
  char name[HOST_NAME_MAX + 1] = "";
  ::gethostname(name, sizeof name - 1);
  return name;
}

void write_holder(int descriptor) {
  const nlohmann::ordered_json holder = {{"host", host_name()}, {"process", ::getpid()}, {"since", utc_now()}};
  const std::string text = holder.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
  // Text that cannot be written, on a full disk, is missing from a message alone.
  if (::ftruncate(descriptor, 0) != 0) return;
  [[maybe_unused]] const ssize_t written = ::pwrite(descriptor, text.data(), text.size(), 0);
}

/// "process 4711 on node3, since 2026-01-31T12:00:00Z,", as the file says.
std::string holder_text(int descriptor) {
  std::string text(kLargestHolder, '\0');
  const ssize_t size = ::pread(descriptor, text.data(), text.size(), 0);
  text.resize(size < 0 ? 0 : static_cast<std::size_t>(size));
  try {
    const auto holder = nlohmann::json::parse(text);
    return fmt::format("process {} on {}, since {},", holder.at("process").get<std::int64_t>(),
                       holder.at("host").get<std::string>(), holder.at("since").get<std::string>());
  } catch (const nlohmann::json::exception&) {
    return "another process";
  }
}

}  // namespace

FolderLock::FolderLock(const std::filesystem::path& folder) : file_(folder / kFile) {
  descriptor_ = ::open(file_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
  if (descriptor_ < 0) {
    throw Error(fmt::format("{}: cannot be opened: {}: check the folder, and that you may write to it", file_.string(),
                            std::generic_category().message(errno)));
  }
  // A lock of the open file, not of the process: closing another descriptor of the file does not give it up.
  struct flock whole {};
  whole.l_type = F_WRLCK;
  whole.l_whence = SEEK_SET;
  held_ = ::fcntl(descriptor_, F_OFD_SETLK, &whole) == 0;
  if (!held_ && (errno == EAGAIN || errno == EACCES)) {
    const std::string holder = holder_text(descriptor_);
    ::close(descriptor_);
    throw Error(
        fmt::format("{}: {} trains there, and a training's folder has one writer: wait until it has ended, or "
                    "stop it",
                    folder.string(), holder));
  }
  if (held_) write_holder(descriptor_);
}

bool FolderLock::is_held(const std::filesystem::path& folder) {
  const int descriptor = ::open((folder / kFile).c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (descriptor < 0) return false;
  struct flock asked {};
  asked.l_type = F_WRLCK;
  asked.l_whence = SEEK_SET;
  const bool known = ::fcntl(descriptor, F_OFD_GETLK, &asked) == 0;
  ::close(descriptor);
  return known && asked.l_type != F_UNLCK;
}

void FolderLock::require_there() const {
  struct stat own {};
  struct stat there {};
  if (!held_ || ::fstat(descriptor_, &own) != 0) return;
  if (::stat(file_.c_str(), &there) == 0 && there.st_dev == own.st_dev && there.st_ino == own.st_ino) return;
  throw Error(
      fmt::format("{}: was removed while this process trained: another one may train there, so this one ends; go on "
                  "with --resume once no other does",
                  file_.string()));
}

FolderLock::~FolderLock() {
  if (held_) [[maybe_unused]]
    const int emptied = ::ftruncate(descriptor_, 0);
  ::close(descriptor_);
}

}  // namespace foxscope
