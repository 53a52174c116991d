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
/// A folder has this bit until it is left for good: it says that it goes with its process. To a folder that only its
/// owner may enter it does nothing else.
constexpr mode_t kGoesWithProcess = S_ISVTX;
/// So many entries of the place for temporary files are looked at: a start waits for no longer list.
constexpr int kMostLooked = 20'000;

std::filesystem::path place_of_folders() {
  std::error_code failed;
  const std::filesystem::path place = std::filesystem::temp_directory_path(failed);
  return failed ? std::filesystem::path("/tmp") : place;
}

struct Folder {
  std::filesystem::path path;
  int descriptor = -1;  ///< holds a lock on it, which the end of the process lets go
};

struct Folders {
  std::mutex mutex;
  std::vector<Folder> made;
};

Folders& folders() {
  static Folders* const all = new Folders;  // outlives every thread
  return *all;
}

/// A descriptor of this user's folder, never of what a link names; negative where there is none.
int open_own_folder(const std::filesystem::path& folder) {
  const int descriptor = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  struct stat status {};
  if (descriptor < 0 || (fstat(descriptor, &status) == 0 && status.st_uid == geteuid())) return descriptor;
  ::close(descriptor);
  return -1;
}

bool goes_with_process(int descriptor) {
  struct stat status {};
  return fstat(descriptor, &status) == 0 && (status.st_mode & kGoesWithProcess) != 0;
}

std::filesystem::path make_folder(std::string_view beginning) {
  std::string folder = (place_of_folders() / fmt::format("{}XXXXXX", beginning)).string();
  const std::lock_guard lock(folders().mutex);
  if (mkdtemp(folder.data()) == nullptr) {
    throw Error(fmt::format("{}: cannot write there ({}): set TMPDIR to a folder that you may write to", folder,
                            std::strerror(errno)));
  }
  const int descriptor = open_own_folder(folder);
  if (descriptor >= 0 && flock(descriptor, LOCK_SH | LOCK_NB) == 0) {
    fchmod(descriptor, S_IRWXU | kGoesWithProcess);  // not before it is locked
  }
  folders().made.push_back({folder, descriptor});
  return folder;
}

/// Removes a folder that went with its process, unless a process holds it, or its file system has no locks to say so.
void remove_unheld(const std::filesystem::path& folder) {
  const int descriptor = open_own_folder(folder);
  if (descriptor < 0) return;
  std::error_code failed;
  const bool left = goes_with_process(descriptor) && flock(descriptor, LOCK_EX | LOCK_NB) == 0;
  // It may have been left for good between the two.
  if (left && goes_with_process(descriptor)) std::filesystem::remove_all(folder, failed);
  ::close(descriptor);
}

}  // namespace

std::filesystem::path make_temporary_folder() { return make_folder(kFolder); }

std::filesystem::path make_folder_of_client() { return make_folder(kFolderOfClient); }

void remove_left_folders() {
  std::error_code failed;
  int looked = 0;
  for (std::filesystem::directory_iterator entry(place_of_folders(), failed), end;
       !failed && entry != end && looked < kMostLooked; entry.increment(failed), ++looked) {
    if (entry->path().filename().native().starts_with(kFolder)) remove_unheld(entry->path());
  }
}

bool leave_temporary_folder(const std::filesystem::path& folder) {
  const std::lock_guard lock(folders().mutex);
  const auto found = std::ranges::find(folders().made, folder, &Folder::path);
  if (found == folders().made.end()) return false;
  if (found->descriptor >= 0) {
    fchmod(found->descriptor, S_IRWXU);
    if (goes_with_process(found->descriptor)) return false;
    ::close(found->descriptor);
  }
  folders().made.erase(found);
  return true;
}

bool is_folder_of_client(const std::filesystem::path& folder) {
  return folder.parent_path() == place_of_folders() && folder.filename().native().starts_with(kFolderOfClient);
}

void remove_temporary_folders() {
  const std::lock_guard lock(folders().mutex);
  for (const Folder& folder : std::exchange(folders().made, {})) {
    std::error_code failed;
    std::filesystem::remove_all(folder.path, failed);
    if (folder.descriptor >= 0) ::close(folder.descriptor);
  }
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
