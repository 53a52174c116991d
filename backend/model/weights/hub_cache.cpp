#include "backend/model/weights/hub_cache.h"

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <regex>
#include <sstream>
#include <string>
#include <system_error>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "backend/base/error.h"
#include "backend/base/log.h"
#include "backend/text/file_bytes.h"

namespace foxscope {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMaxRevisionBytes = 4096;

std::optional<std::string> environment(const char* name) {
  const char* value = std::getenv(name);
  if (value == nullptr || *value == '\0') return std::nullopt;
  return value;
}

/// The hub's cache folder: HF_HUB_CACHE, else HF_HOME/hub, else ~/.cache/huggingface/hub.
fs::path hub_cache() {
  if (const auto cache = environment("HF_HUB_CACHE")) return *cache;
  if (const auto home = environment("HF_HOME")) return fs::path(*home) / "hub";
  if (const auto cache = environment("XDG_CACHE_HOME")) return fs::path(*cache) / "huggingface" / "hub";
  return fs::path(environment("HOME").value_or(".")) / ".cache" / "huggingface" / "hub";
}

/// The revision that refs/main names, if its snapshot is there; else the only snapshot.
fs::path choose_snapshot(const fs::path& model, const std::string& id) {
  const fs::path snapshots = model / "snapshots";
  std::string revision;
  const fs::path main = model / "refs" / "main";
  std::error_code ignored;
  if (fs::is_regular_file(main, ignored)) {
    std::istringstream(read_file_bytes(main, "revision", kMaxRevisionBytes)) >> revision;
  }
  const bool plain = !revision.empty() && revision.find('/') == std::string::npos && revision.front() != '.';
  if (plain && fs::is_directory(snapshots / revision)) return snapshots / revision;
  std::vector<std::string> found;
  for (const fs::directory_entry& entry : fs::directory_iterator(snapshots, ignored)) {
    if (entry.is_directory()) found.push_back(entry.path().string());
  }
  std::sort(found.begin(), found.end());
  if (found.size() == 1) return found.front();
  if (found.empty()) {
    throw Error(fmt::format("{}: the cache holds no snapshot of {}: run `hf download {}`, or give a folder",
                            model.string(), id, id));
  }
  throw Error(fmt::format("{}: the cache holds several snapshots of {} and no refs/main: give one of these folders: {}",
                          model.string(), id, fmt::join(found, ", ")));
}

}  // namespace

bool is_hub_id(const std::string& path) {
  static const std::regex kHubId("[A-Za-z0-9][A-Za-z0-9._-]*/[A-Za-z0-9][A-Za-z0-9._-]*");
  std::error_code ignored;
  return path.size() <= 200 && std::regex_match(path, kHubId) && !fs::exists(path, ignored);
}

fs::path resolve_checkpoint_folder(const std::string& path) {
  std::error_code ignored;
  if (fs::is_directory(path, ignored)) return path;
  if (fs::exists(path, ignored)) {
    throw Error(fmt::format("{}: is a file: give the checkpoint folder that holds config.json", path));
  }
  if (!is_hub_id(path)) {
    throw Error(fmt::format("{}: no such folder or file: give a checkpoint folder, or a hub id like owner/name", path));
  }
  const std::size_t slash = path.find('/');
  const fs::path model = hub_cache() / fmt::format("models--{}--{}", path.substr(0, slash), path.substr(slash + 1));
  if (!fs::is_directory(model, ignored)) {
    throw Error(
        fmt::format("{}: no such folder, and no such model in the hub cache {}: run `hf download {}` first "
                    "(nothing is downloaded here)",
                    path, hub_cache().string(), path));
  }
  fs::path folder = choose_snapshot(model, path);
  log_line(LogCategory::model, [&] { return fmt::format("{} is {}", path, folder.string()); });
  return folder;
}

}  // namespace foxscope
