#include "backend/base/system_memory.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <limits>
#include <string>
#include <string_view>

#include <fmt/format.h>

namespace foxscope {
namespace {

namespace fs = std::filesystem;

/// How a version of control groups names what it tells.
struct GroupFiles {
  const char* limit;
  const char* used;
  std::array<std::string_view, 3> reclaimable;  ///< lines of memory.stat: of the group and those inside it
};
constexpr GroupFiles kVersion1 = {
    "memory.limit_in_bytes", "memory.usage_in_bytes", {"total_active_file", "total_inactive_file"}};
constexpr GroupFiles kVersion2 = {"memory.max", "memory.current", {"active_file", "inactive_file", "slab_reclaimable"}};

void keep_least(std::optional<std::int64_t>& least, std::optional<std::int64_t> bytes) {
  if (bytes) least = std::min(least.value_or(*bytes), *bytes);
}

/// A number of bytes; nothing where the file says "max", is missing or says something else.
std::optional<std::int64_t> number_in(const fs::path& file) {
  std::int64_t bytes = 0;
  if (std::ifstream(file) >> bytes && bytes >= 0) return bytes;
  return std::nullopt;
}

std::int64_t reclaimable(const fs::path& group, const GroupFiles& files) {
  std::int64_t sum = 0;
  std::ifstream stream(group / "memory.stat");
  std::string name;
  std::int64_t bytes = 0;
  while (stream >> name >> bytes) {
    if (bytes > 0 && std::find(files.reclaimable.begin(), files.reclaimable.end(), name) != files.reclaimable.end()) {
      sum += bytes;
    }
  }
  return sum;
}

std::optional<std::int64_t> left_of_group(const fs::path& group, const GroupFiles& files) {
  const auto limit = number_in(group / files.limit);
  const auto used = number_in(group / files.used);
  if (!limit || !used) return std::nullopt;
  const std::int64_t held = std::max<std::int64_t>(0, *used - reclaimable(group, files));
  return std::max<std::int64_t>(0, *limit - held);
}

/// The least that a group and all groups above it leave. In a container the path may be the host's, of which only the
/// end or nothing at all is to be seen here ("/.." stands for what lies outside): the container's own group is then
/// the folder on top.
/// @param top   where the groups are mounted
/// @param path  the process's own group, as in proc/self/cgroup
std::optional<std::int64_t> left_on_the_way(const fs::path& top, const std::string& path, const GroupFiles& files) {
  std::optional<std::int64_t> least = left_of_group(top, files);
  fs::path group = top;
  for (const fs::path& part : fs::path(path).relative_path()) {
    if (part == ".." || part == ".") continue;
    group /= part;
    keep_least(least, left_of_group(group, files));
  }
  return least;
}

/// The memory that the process's own limit of address space (ulimit -v) leaves; nothing where there is no limit.
std::optional<std::int64_t> left_of_address_space() {
  rlimit limit{};
  if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return std::nullopt;
  std::int64_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  return std::max<std::int64_t>(0, static_cast<std::int64_t>(limit.rlim_cur) - pages * sysconf(_SC_PAGESIZE));
}

}  // namespace

std::optional<std::int64_t> left_of_system(const fs::path& root) {
  std::ifstream file(root / "proc/meminfo");
  for (std::string word; file >> word;) {
    std::int64_t kibibytes = 0;
    if (word == "MemAvailable:" && file >> kibibytes) return kibibytes * 1024;
  }
  return std::nullopt;
}

std::optional<std::int64_t> left_of_control_groups(const fs::path& root) {
  const fs::path groups = root / "sys/fs/cgroup";
  std::optional<std::int64_t> least;
  std::ifstream memberships(root / "proc/self/cgroup");
  // "0::/path" for version 2; "4:cpu,memory:/path" for a hierarchy of version 1.
  for (std::string line; std::getline(memberships, line);) {
    const std::size_t first = line.find(':');
    const std::size_t second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = fmt::format(",{},", line.substr(first + 1, second - first - 1));
    const std::string path = line.substr(second + 1);
    if (controllers == ",,") {
      // Beside version 1 the mount of version 2 lies one folder deeper.
      for (const fs::path& top : {groups, groups / "unified"}) keep_least(least, left_on_the_way(top, path, kVersion2));
    } else if (controllers.find(",memory,") != std::string::npos) {
      keep_least(least, left_on_the_way(groups / "memory", path, kVersion1));
    }
  }
  return least;
}

std::int64_t available_memory() {
  std::optional<std::int64_t> least = left_of_system("/");
  keep_least(least, left_of_control_groups("/"));
  keep_least(least, left_of_address_space());
  return least.value_or(std::numeric_limits<std::int64_t>::max());
}

}  // namespace foxscope
