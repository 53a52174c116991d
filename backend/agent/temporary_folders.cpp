#include "backend/agent/temporary_folders.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "backend/base/error.h"

namespace foxscope::agent {
namespace {

struct Folders {
  std::mutex mutex;
  std::vector<std::filesystem::path> paths;
};

Folders& folders() {
  static Folders* const all = new Folders;  // outlives every thread
  return *all;
}

}  // namespace

std::filesystem::path make_temporary_folder() {
  std::error_code failed;
  const std::filesystem::path place = std::filesystem::temp_directory_path(failed);
  std::string folder = ((failed ? std::filesystem::path("/tmp") : place) / "foxscope-XXXXXX").string();
  const std::lock_guard lock(folders().mutex);
  if (mkdtemp(folder.data()) == nullptr) {
    throw Error(fmt::format("{}: cannot write there ({}): set TMPDIR to a folder that you may write to", folder,
                            std::strerror(errno)));
  }
  return folders().paths.emplace_back(folder);
}

void leave_temporary_folder(const std::filesystem::path& folder) {
  const std::lock_guard lock(folders().mutex);
  std::erase(folders().paths, folder);
}

void remove_temporary_folders() {
  const std::lock_guard lock(folders().mutex);
  for (const std::filesystem::path& folder : std::exchange(folders().paths, {})) {
    std::error_code failed;
    std::filesystem::remove_all(folder, failed);
  }
}

}  // namespace foxscope::agent
