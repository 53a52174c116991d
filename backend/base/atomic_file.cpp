#include "backend/base/atomic_file.h"

#include <fcntl.h>
#include <linux/limits.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <mutex>
#include <random>
#include <set>
#include <system_error>
#include <tuple>
#include <vector>

#include <fmt/format.h>

#include "backend/base/error.h"

namespace foxscope {
namespace {

namespace fs = std::filesystem;

constexpr int kLinksFollowed = 40;  // as many as Linux follows before it says ELOOP
constexpr int kNameAttempts = 100;
constexpr std::chrono::milliseconds kLockPatience{100};
constexpr const char* kAccessList = "system.posix_acl_access";

/// A write beyond the process's file size limit should be an error that can be shown, not the end of the process.
void ignore_file_size_signal() {
  static std::once_flag once;
  std::call_once(once, [] {
    struct sigaction current {};
    if (sigaction(SIGXFSZ, nullptr, &current) == 0 && current.sa_handler == SIG_DFL) std::signal(SIGXFSZ, SIG_IGN);
  });
}

fs::path follow_links(const fs::path& path) {
  fs::path target = path;
  for (int links = 0; links < kLinksFollowed; ++links) {
    std::error_code error;
    if (!fs::is_symlink(target, error)) return target;
    const fs::path next = fs::read_symlink(target, error);
    if (error) return target;
    target = next.is_absolute() ? next : target.parent_path() / next;
  }
  throw Error(fmt::format("{}: a circle of symbolic links: write to another name", path.string()));
}

fs::path folder_of(const fs::path& target) { return target.has_parent_path() ? target.parent_path() : fs::path("."); }

void check_target(const fs::path& shown, const fs::path& target, bool overwrite) {
  if (target.empty()) throw Error("the name of the file to write is empty: name a file");
  std::error_code error;
  const fs::file_status status = fs::status(target, error);
  if (fs::is_directory(status) || !target.has_filename()) {
    throw Error(fmt::format("{}: is a folder: name a file to write", shown.string()));
  }
  if (fs::exists(status)) {
    if (!fs::is_regular_file(status)) {
      throw Error(
          fmt::format("{}: is not a regular file and cannot be replaced: write to another name", shown.string()));
    }
    if (!overwrite) {
      throw Error(
          fmt::format("{}: exists already: use --force to overwrite it, or write to another name", shown.string()));
    }
  }
  if (!fs::is_directory(folder_of(target), error)) {
    throw Error(fmt::format("{}: the folder {} does not exist: create it, or write elsewhere", shown.string(),
                            folder_of(target).string()));
  }
}

[[noreturn]] void throw_cannot_create(const fs::path& shown, int error_number) {
  throw Error(fmt::format("{}: cannot write to its folder ({}): choose a folder that you may write to", shown.string(),
                          std::strerror(error_number)));
}

/// A name beside the target that nobody else will think of.
fs::path temporary_name(const fs::path& target) {
  std::random_device random;
  return folder_of(target) / fmt::format(".{}.{:08x}", target.filename().string().substr(0, 200), random());
}

/// The new name, or the removal of the old one, survives a power failure only when the folder too is on disk. Some file
/// systems cannot flush folders, and then there is nothing to be done.
void flush_folder(const fs::path& folder) {
  const int descriptor = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) return;
  fsync(descriptor);
  close(descriptor);
}

/// The temporary names of this process's unfinished files.
struct UnfinishedFiles {
  std::timed_mutex mutex;  ///< held while a name is made, or made the target's
  std::set<fs::path> names;
};
std::function<void()>& guard_of_files() {
  static std::function<void()> guard;
  return guard;
}

UnfinishedFiles& unfinished_files() {
  static UnfinishedFiles files;
  return files;
}

std::string gigabytes(std::uint64_t bytes) { return fmt::format("{:.3g} GB", static_cast<double>(bytes) / 1e9); }

}  // namespace

AtomicFile::AtomicFile(const fs::path& target, bool overwrite)
    : shown_(target), target_(follow_links(target)), overwrite_(overwrite) {
  check_target(shown_, target_, overwrite);
  ignore_file_size_signal();
  // The new file of a private one is private from its first byte on.
  struct stat old {};
  const mode_t mode = ::stat(target_.c_str(), &old) == 0 ? 0600 : 0666;
  open_without_name(folder_of(target_), mode);
  if (descriptor_ < 0) open_with_temporary_name(mode);
}

AtomicFile::~AtomicFile() {
  if (descriptor_ >= 0) close(descriptor_);
  if (temporary_.empty()) return;
  const std::lock_guard lock(unfinished_files().mutex);
  unlink(temporary_.c_str());
  unfinished_files().names.erase(temporary_);
}

void AtomicFile::open_without_name(const fs::path& folder, unsigned mode) {
  descriptor_ = open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, mode);
  if (descriptor_ < 0) {
    // These three say that the kernel or the file system knows no files without names.
    if (errno != EOPNOTSUPP && errno != EISDIR && errno != ENOENT) throw_cannot_create(shown_, errno);
    return;
  }
  path_ = fmt::format("/proc/self/fd/{}", descriptor_);
  if (access(path_.c_str(), F_OK) != 0) {  // without /proc such a file can never get a name
    close(descriptor_);
    descriptor_ = -1;
  }
}

void AtomicFile::open_with_temporary_name(unsigned mode) {
  for (int attempt = 0; attempt < kNameAttempts; ++attempt) {
    const fs::path name = temporary_name(target_);
    const std::lock_guard lock(unfinished_files().mutex);
    descriptor_ = open(name.c_str(), O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, mode);
    if (descriptor_ >= 0) {
      temporary_ = *unfinished_files().names.insert(name).first;
      path_ = name.string();
      return;
    }
    if (errno != EEXIST) throw_cannot_create(shown_, errno);
  }
  throw_cannot_create(shown_, EEXIST);
}

void AtomicFile::require_space(std::uint64_t bytes, std::string_view remedy) const {
  struct statvfs space {};
  if (fstatvfs(descriptor_, &space) == 0) {
    const std::uint64_t available = static_cast<std::uint64_t>(space.f_bavail) * space.f_frsize;
    // A file system that does not tell reports no blocks at all.
    if (space.f_blocks != 0 && available < bytes) {
      throw Error(fmt::format("{}: needs {} but the disk has {} left: {}", shown_.string(), gigabytes(bytes),
                              gigabytes(available), remedy));
    }
  }
  struct rlimit limit {};
  if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY && limit.rlim_cur < bytes) {
    throw Error(fmt::format("{}: needs {} but files of this process are limited to {}: raise `ulimit -f`",
                            shown_.string(), gigabytes(bytes), gigabytes(limit.rlim_cur)));
  }
}

int AtomicFile::try_write_at(std::uint64_t offset, const void* data, std::size_t bytes) const {
  const auto* next = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t written =
        pwrite(descriptor_, next, std::min<std::size_t>(bytes, std::size_t{1} << 30U), static_cast<off_t>(offset));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return errno;
    if (written == 0) return ENOSPC;
    next += written;
    offset += static_cast<std::uint64_t>(written);
    bytes -= static_cast<std::size_t>(written);
  }
  return 0;
}

void AtomicFile::write(const void* data, std::size_t bytes) {
  if (const int error = try_write_at(appended_, data, bytes); error != 0) throw_write_error(error);
  appended_ += bytes;
}

void AtomicFile::throw_write_error(int error_number) const {
  const char* remedy = "check the disk or write elsewhere";
  const char* problem = "writing failed";
  if (error_number == ENOSPC) {
    problem = "the disk is full";
    remedy = "free space there or write elsewhere";
  } else if (error_number == EDQUOT) {
    problem = "the disk quota is used up";
    remedy = "free space there or write elsewhere";
  } else if (error_number == EFBIG) {
    problem = "larger than files may be here";
    remedy = "raise `ulimit -f`, or write to another file system";
  }
  throw Error(fmt::format("{}: {} ({}): {}", shown_.string(), problem, std::strerror(error_number), remedy));
}

void guard_files(std::function<void()> guard) { guard_of_files() = std::move(guard); }

void AtomicFile::commit() {
  if (guard_of_files()) guard_of_files()();
  if (overwrite_) take_over_permissions();
  if (fsync(descriptor_) != 0 && errno != EINVAL && errno != EROFS) throw_write_error(errno);
  {
    const std::lock_guard lock(unfinished_files().mutex);
    if (temporary_.empty()) link_into_place();
    if (!temporary_.empty()) rename_into_place();
  }
  flush_folder(folder_of(target_));
  const int descriptor = descriptor_;
  descriptor_ = -1;
  if (close(descriptor) != 0 && errno != EINTR) throw_write_error(errno);
}

/// Where nothing is replaced the umask has said who may read the file.
void AtomicFile::take_over_permissions() const {
  struct stat old {};
  struct stat own {};
  if (::stat(target_.c_str(), &old) != 0 || !S_ISREG(old.st_mode) || fstat(descriptor_, &own) != 0) return;
  const mode_t mode = old.st_mode & 0777U;
  // Another group gets no more than everybody; nor where the group's bits are the mask of a list that cannot be kept.
  const mode_t group_as_others = (mode & ~070U) | (mode & (mode << 3U) & 070U);
  const bool same_group = old.st_gid == own.st_gid || fchown(descriptor_, static_cast<uid_t>(-1), old.st_gid) == 0;
  std::vector<char> list(XATTR_SIZE_MAX);
  const ssize_t list_bytes = getxattr(target_.c_str(), kAccessList, list.data(), list.size());
  fremovexattr(descriptor_, kAccessList);  // one that the folder gives to new files
  if (list_bytes <= 0) {
    fchmod(descriptor_, same_group ? mode : group_as_others);
  } else if (!same_group ||
             fsetxattr(descriptor_, kAccessList, list.data(), static_cast<std::size_t>(list_bytes), 0) != 0) {
    fchmod(descriptor_, group_as_others);
  }
  // Only root gives files away; anybody else's new file is their own.
  if (old.st_uid != own.st_uid) std::ignore = fchown(descriptor_, old.st_uid, static_cast<gid_t>(-1));
}

/// A link cannot replace a file: over an old one the new file gets a temporary name first, for the moment before it is
/// renamed.
void AtomicFile::link_into_place() {
  if (linkat(AT_FDCWD, path_.c_str(), AT_FDCWD, target_.c_str(), AT_SYMLINK_FOLLOW) == 0) return;
  for (int attempt = 0; errno == EEXIST && attempt < kNameAttempts; ++attempt) {
    if (!overwrite_) {
      throw Error(fmt::format("{}: was created meanwhile: use --force to overwrite it, or write to another name",
                              shown_.string()));
    }
    const fs::path name = temporary_name(target_);
    if (linkat(AT_FDCWD, path_.c_str(), AT_FDCWD, name.c_str(), AT_SYMLINK_FOLLOW) == 0) {
      temporary_ = *unfinished_files().names.insert(name).first;
      return;
    }
  }
  throw_cannot_create(shown_, errno);
}

void AtomicFile::rename_into_place() {
  if (!overwrite_) {
    if (link(temporary_.c_str(), target_.c_str()) == 0) {
      unlink(temporary_.c_str());
      unfinished_files().names.erase(temporary_);
      temporary_.clear();
      return;
    }
    if (errno == EEXIST) {
      throw Error(fmt::format("{}: was created meanwhile: use --force to overwrite it, or write to another name",
                              shown_.string()));
    }
    // A file system without links: the name was free when this began, and a rename is all that there is.
  }
  if (rename(temporary_.c_str(), target_.c_str()) != 0) throw_cannot_create(shown_, errno);
  unfinished_files().names.erase(temporary_);
  temporary_.clear();
}

void remove_unfinished_files() {
  UnfinishedFiles& files = unfinished_files();
  // A file system that does not answer may hold the lock. It is not given back: nothing gets a name any more.
  if (!files.mutex.try_lock_for(kLockPatience)) return;
  for (const fs::path& name : files.names) unlink(name.c_str());
}

}  // namespace foxscope
