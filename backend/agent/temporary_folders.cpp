#include "backend/agent/temporary_folders.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "backend/agent/file_answers.h"
#include "backend/base/error.h"

namespace foxscope::agent {
namespace {

/// A file in a folder of the cache stays there until nobody has used it for so many days.
constexpr std::chrono::days kUnusedStay{7};

std::chrono::system_clock::time_point last_use(const std::filesystem::path& path) {
  struct stat status {};
  if (lstat(path.c_str(), &status) != 0) return std::chrono::system_clock::now();
  auto last = std::chrono::system_clock::from_time_t(std::max(status.st_mtim.tv_sec, status.st_atim.tv_sec));
  if (!S_ISDIR(status.st_mode)) return last;
  std::error_code failed;
  for (std::filesystem::directory_iterator entry(path, failed), end; !failed && entry != end; entry.increment(failed)) {
    last = std::max(last, last_use(entry->path()));
  }
  return last;
}

void remove_unused(const std::filesystem::path& folder) {
  std::error_code failed;
  for (std::filesystem::directory_iterator entry(folder, failed), end; !failed && entry != end;
       entry.increment(failed)) {
    std::error_code ignored;
    if (std::chrono::system_clock::now() - last_use(entry->path()) > kUnusedStay) {
      std::filesystem::remove_all(entry->path(), ignored);
    }
  }
}

constexpr std::string_view kFolder = "foxscope-";
constexpr std::string_view kFolderOfClient = "foxscope-agent-";
constexpr std::string_view kFolderOfCopies = "foxscope-copies-";
/// So many entries of the place for temporary files are looked at: a start waits for no longer list.
constexpr int kMostLooked = 20'000;

std::filesystem::path place_of_folders() {
  std::error_code failed;
  const std::filesystem::path place = std::filesystem::temp_directory_path(failed);
  return failed ? std::filesystem::path("/tmp") : place;
}

struct Folders {
  std::mutex mutex;
  std::vector<std::filesystem::path> paths;
  std::vector<int> locks;  ///< descriptors of locked folders, which the end of the process lets go
};

Folders& folders() {
  static Folders* const all = new Folders;  // outlives every thread
  return *all;
}

/// Under the mutex.
std::filesystem::path make_folder(std::string_view beginning) {
  std::string folder = (place_of_folders() / fmt::format("{}XXXXXX", beginning)).string();
  if (mkdtemp(folder.data()) == nullptr) {
    throw Error(fmt::format("{}: cannot write there ({}): set TMPDIR to a folder that you may write to", folder,
                            std::strerror(errno)));
  }
  return folders().paths.emplace_back(folder);
}

/// A descriptor of this user's folder, never of what a link names; negative where there is none.
int open_own_folder(const std::filesystem::path& folder) {
  const int descriptor = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  struct stat status {};
  if (descriptor < 0 || (fstat(descriptor, &status) == 0 && status.st_uid == geteuid())) return descriptor;
  ::close(descriptor);
  return -1;
}

/// Removes a folder unless a process holds it, or its file system has no locks to say so.
void remove_unheld(const std::filesystem::path& folder) {
  const int descriptor = open_own_folder(folder);
  if (descriptor < 0) return;
  std::error_code failed;
  if (flock(descriptor, LOCK_EX | LOCK_NB) == 0) std::filesystem::remove_all(folder, failed);
  ::close(descriptor);
}

}  // namespace

std::filesystem::path make_temporary_folder() {
  const std::lock_guard lock(folders().mutex);
  return make_folder(kFolder);
}

std::filesystem::path make_folder_of_client() {
  const std::lock_guard lock(folders().mutex);
  return make_folder(kFolderOfClient);
}

std::filesystem::path make_folder_of_copies() {
  const std::lock_guard lock(folders().mutex);
  for (;;) {
    const std::filesystem::path folder = make_folder(kFolderOfCopies);
    const int descriptor = open_own_folder(folder);
    const bool taken = descriptor >= 0 && flock(descriptor, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
    // Between the making and the locking another process may take it for one that is left.
    if (!taken && std::filesystem::exists(folder)) {
      if (descriptor >= 0) folders().locks.push_back(descriptor);
      return folder;
    }
    std::erase(folders().paths, folder);
    if (descriptor >= 0) ::close(descriptor);
  }
}

void remove_left_copies() {
  std::error_code failed;
  int looked = 0;
  for (std::filesystem::directory_iterator entry(place_of_folders(), failed), end;
       !failed && entry != end && looked < kMostLooked; entry.increment(failed), ++looked) {
    if (entry->path().filename().native().starts_with(kFolderOfCopies)) remove_unheld(entry->path());
  }
}

bool leave_temporary_folder(const std::filesystem::path& folder) {
  const std::lock_guard lock(folders().mutex);
  return std::erase(folders().paths, folder) > 0;
}

bool is_folder_of_client(const std::filesystem::path& folder) {
  return folder.parent_path() == place_of_folders() && folder.filename().native().starts_with(kFolderOfClient);
}

void remove_temporary_folders() {
  const std::lock_guard lock(folders().mutex);
  for (const std::filesystem::path& folder : std::exchange(folders().paths, {})) {
    std::error_code failed;
    std::filesystem::remove_all(folder, failed);
  }
  for (const int descriptor : std::exchange(folders().locks, {})) ::close(descriptor);
}

std::filesystem::path cache_folder(const std::string& name) {
  const char* const cache = std::getenv("XDG_CACHE_HOME");
  return std::filesystem::path(cache != nullptr && *cache == '/' ? cache : local_path("~/.cache")) / "foxscope" / name;
}

std::filesystem::path make_cache_folder(const std::string& name) {
  const std::filesystem::path folder = cache_folder(name);
  std::error_code failed;
  std::filesystem::create_directories(folder, failed);
  if (failed) {
    throw Error(fmt::format("{}: cannot be made ({}): set XDG_CACHE_HOME to a folder that you may write to",
                            folder.string(), failed.message()));
  }
  std::filesystem::permissions(folder, std::filesystem::perms::owner_all, failed);
  remove_unused(folder);
  return folder;
}

}  // namespace foxscope::agent
