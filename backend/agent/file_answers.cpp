#include "backend/agent/file_answers.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <span>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "backend/agent/fields.h"
#include "backend/agent/file_piece.h"
#include "backend/agent/temporary_folders.h"
#include "backend/base/atomic_file.h"
#include "backend/base/error.h"
#include "backend/base/regular_file.h"
#include "backend/base/sha256.h"
#include "backend/base/system_memory.h"
#include "backend/file/file_trace.h"
#include "backend/file/provenance.h"
#include "backend/text/tokenizer.h"
#include "kernels/cuda/device.h"

namespace foxscope::agent {
namespace {

constexpr std::size_t kMostEntries = 10'000;
constexpr std::size_t kMostUploads = 8;
constexpr std::int64_t kCopiedAtOnce = std::int64_t{4} << 20;
/// Bytes of a file's beginning that are part of its identity.
constexpr std::size_t kIdentifyingBytes = 4096;

bool is_hdf5(const std::string& path) {
  char letters[4] = {};
  std::ifstream(path, std::ios::binary).read(letters, sizeof letters);
  return std::string_view(letters, sizeof letters) == "\x89HDF";
}

std::string held_by_file(const std::filesystem::path& path) {
  const std::string ending = path.extension().string();
  if (ending == ".txt" || ending == ".md") return "text";
  if (!is_hdf5(path.string())) return "";
  try {
    // The file may be damaged elsewhere too: who reads it says what is wrong.
    if (const std::string content = read_content(path); !content.empty()) {
      return find_invalid_utf8(content) ? "" : content;
    }
    const FileOrigin origin = read_origin(path);
    if (!origin.models.empty()) return "runs";
    return origin.maps.empty() ? "" : "maps";
  } catch (const Error&) {
    return "";
  }
}

std::string held_by_folder(const std::filesystem::path& path) {
  std::error_code failed;
  if (std::filesystem::exists(path / "recipe.json", failed)) return "training";
  return std::filesystem::exists(path / "config.json", failed) ? "checkpoint" : "";
}

std::optional<Message> answer_stat(const Asked& asked) {
  Message answer;
  put(answer, "answer", file_facts_of(local_path(take<std::string>(asked.request, "path"))));
  return answer;
}

std::optional<Message> answer_list(const Asked& asked) {
  const std::string path = local_path(take<std::string>(asked.request, "path"));
  std::error_code failed;
  std::vector<std::string> names;
  FolderList list;
  for (std::filesystem::directory_iterator entry(path, failed), end; !failed && entry != end; entry.increment(failed)) {
    list.more = names.size() == kMostEntries;
    if (list.more || asked.job.stopped()) break;
    std::string name = entry->path().filename().string();
    if (!find_invalid_utf8(name)) names.push_back(std::move(name));  // no request could name it
  }
  if (failed) throw Error(fmt::format("{}: cannot be listed ({})", path, failed.message()));
  std::ranges::sort(names);
  list.resolved = std::filesystem::weakly_canonical(path, failed).string();
  for (const std::string& name : names) {
    if (asked.job.stopped()) return std::nullopt;
    FileFacts facts;
    try {
      facts = file_facts_of((std::filesystem::path(path) / name).string());
    } catch (const Error&) {
      continue;  // it has gone meanwhile, or is a link to nothing
    }
    list.names.push_back(name);
    list.kinds.push_back(facts.kind);
    list.bytes.push_back(facts.bytes);
    list.modified.push_back(facts.modified);
    list.holds.push_back(facts.holds);
  }
  Message answer;
  put(answer, "answer", list);
  return answer;
}

std::optional<Message> answer_fetch(const Asked& asked) {
  const std::string path = local_path(take<std::string>(asked.request, "path"));
  if (file_identity(path) != take<std::string>(asked.request, "identity")) {
    throw Error(fmt::format("{}: has changed meanwhile: fetch it again", path));
  }
  const RegularFile file(path, "file");
  const auto begin = take<std::int64_t>(asked.request, "begin");
  const auto count = take<std::int64_t>(asked.request, "count");
  const auto size = static_cast<std::int64_t>(file.size());
  if (begin < 0 || count < 0 || begin > size || count > size - begin || count > static_cast<std::int64_t>(kMostParts)) {
    throw Error(fmt::format("{}: has {} bytes, and no {} from {} on", path, size, count, begin));
  }
  Message answer;
  answer.header["answer"] = {{"part", 0}};
  Part part{"uint8", {static_cast<std::uint64_t>(count)}, std::vector<std::byte>(static_cast<std::size_t>(count))};
  read_piece(file, path, begin, std::span(part.bytes));
  answer.parts.push_back(std::move(part));
  return answer;
}

/// A second file of the same bytes, which appears under its name when it is whole.
std::optional<Message> answer_copy(const Asked& asked) {
  const std::string path = local_path(take<std::string>(asked.request, "path"));
  const RegularFile file(path, "file");
  const auto size = static_cast<std::int64_t>(file.size());
  AtomicFile copy(local_path(take<std::string>(asked.request, "to")), take<bool>(asked.request, "overwrite"));
  copy.require_space(file.size());
  std::vector<std::byte> bytes;
  for (std::int64_t done = 0; done < size; done += std::ssize(bytes)) {
    if (asked.job.stopped()) return std::nullopt;
    asked.job.tell({done, size, "bytes", "copying"});
    bytes.resize(static_cast<std::size_t>(std::min(kCopiedAtOnce, size - done)));
    read_piece(file, path, done, std::span(bytes));
    copy.write(bytes.data(), bytes.size());
  }
  copy.commit();
  Message answer;
  answer.header["answer"] = true;
  return answer;
}

/// Files that come piece by piece. One appears under its name when its last piece has come; a client that ends before
/// leaves nothing.
class Uploads {
 public:
  std::optional<Message> write(const Asked& asked) {
    const std::string path = local_path(take<std::string>(asked.request, "path"));
    const auto begin = take<std::int64_t>(asked.request, "begin");
    const auto size = take<std::int64_t>(asked.request, "size");
    const auto bytes = take<std::vector<std::uint8_t>>(asked.request, "bytes");
    const std::lock_guard lock(mutex_);
    if (begin == 0) start(path, size, take<bool>(asked.request, "overwrite"));
    const auto found = uploads_.find(path);
    if (found == uploads_.end() || found->second.written != begin || found->second.size != size ||
        std::ssize(bytes) > size - begin) {
      throw Error(fmt::format("{}: a piece of the file came out of its turn", path));
    }
    try {
      found->second.file->write(bytes.data(), bytes.size());
      found->second.written += std::ssize(bytes);
      if (found->second.written == size) {
        found->second.file->commit();
        uploads_.erase(found);
      }
    } catch (...) {
      uploads_.erase(path);
      throw;
    }
    Message answer;
    answer.header["answer"] = true;
    return answer;
  }

 private:
  struct Upload {
    std::unique_ptr<AtomicFile> file;
    std::int64_t size = 0;
    std::int64_t written = 0;
  };
  void start(const std::string& path, std::int64_t size, bool overwrite) {
    uploads_.erase(path);
    if (uploads_.size() >= kMostUploads || size < 0) throw Error("too many files are being written at once");
    Upload upload{std::make_unique<AtomicFile>(path, overwrite), size, 0};
    upload.file->require_space(static_cast<std::uint64_t>(size));
    uploads_.emplace(path, std::move(upload));
  }

  std::mutex mutex_;
  std::map<std::string, Upload> uploads_;
};

std::string title_of_cpu() {
  std::ifstream file("/proc/cpuinfo");
  std::string title = "CPU";
  for (std::string line; std::getline(file, line);) {
    const std::size_t value = line.find(": ");
    if (!line.starts_with("model name") || value == std::string::npos) continue;
    title = line.substr(value + 2);
    break;
  }
  return fmt::format("{}, {} threads", title, std::max(1U, std::thread::hardware_concurrency()));
}

/// The memory of a GPU is not looked at: that would start CUDA on it, which takes some of it.
std::optional<Message> answer_devices(const Asked& /*asked*/) {
  std::vector<DeviceFacts> devices;
  for (int index = 0; index < kernels::cuda::device_count(); ++index) {
    devices.push_back({fmt::format("cuda:{}", index), kernels::cuda::device_name(index), 0});
  }
  devices.push_back({"cpu", title_of_cpu(), available_memory()});
  Message answer;
  put(answer, "answer", devices);
  return answer;
}

/// Runs that are made through an agent stay in this folder of the cache until they are saved, or nobody uses them.
constexpr const char* kRuns = "runs";
constexpr std::size_t kLongestName = 100;
constexpr std::size_t kLongestEnding = 12;

/// A path of a name that no other run has.
std::optional<Message> answer_place(const Asked& asked) {
  const std::string name = take<std::string>(asked.request, "name");
  if (!is_model_name(name) || name.size() > kLongestName) {
    throw Error(fmt::format("{}: a run's name has letters, digits, '.', '_' and '-', at most {}", name, kLongestName));
  }
  const auto ending = take<std::string>(asked.request, "ending", ".h5");
  if (!is_model_name("x" + ending) || ending.size() > kLongestEnding) {
    throw Error(fmt::format("a file's ending has letters and digits, at most {}, not {}", kLongestEnding, ending));
  }
  const std::filesystem::path folder = make_cache_folder(kRuns);
  static std::atomic<unsigned> count = 0;
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  Message answer;
  put(answer, "answer",
      (folder / fmt::format("{}-{:x}-{:x}-{}{}", name, std::chrono::duration_cast<std::chrono::seconds>(now).count(),
                            getpid(), ++count, ending))
          .string());
  return answer;
}

std::optional<Message> answer_forget(const Asked& asked) {
  const std::filesystem::path path = local_path(take<std::string>(asked.request, "path"));
  std::error_code failed;
  const bool left = is_folder_of_client(path.parent_path());
  const bool own = left || (path.parent_path() == cache_folder(kRuns) && path.native().ends_with(".h5"));
  Message answer;
  put(answer, "answer", own && std::filesystem::remove(path, failed));
  if (left) std::filesystem::remove(path.parent_path(), failed);  // unless something else is in it
  return answer;
}

}  // namespace

void add_file_answers(Agent& agent) {
  agent.answers("stat", answer_stat);
  agent.answers("list", answer_list);
  agent.answers("fetch", answer_fetch);
  agent.answers("copy", answer_copy);
  agent.answers("devices", answer_devices);
  agent.answers("place", answer_place);
  agent.answers("forget", answer_forget);
  agent.answers("write", [uploads = std::make_shared<Uploads>()](const Asked& asked) { return uploads->write(asked); });
}

std::string local_path(const std::string& path) {
  if (path.starts_with('/')) return path;
  if (path == "~" || path.starts_with("~/")) {
    const char* const home = std::getenv("HOME");
    if (home == nullptr) throw Error(fmt::format("{}: there is no home folder: name the path from / on", path));
    return home + path.substr(1);
  }
  throw Error(fmt::format("{}: name the path from / on, or from ~/ on", path));
}

FileFacts file_facts_of(const std::string& path) {
  struct stat status {};
  FileFacts facts;
  facts.identity = file_identity(path);
  if (stat(path.c_str(), &status) != 0) status = {};
  facts.bytes = status.st_size;
  facts.modified = status.st_mtim.tv_sec;
  facts.kind = S_ISREG(status.st_mode) ? "file" : S_ISDIR(status.st_mode) ? "folder" : "other";
  if (facts.kind == "file") facts.holds = held_by_file(path);
  if (facts.kind == "folder") facts.holds = held_by_folder(path);
  std::error_code failed;
  facts.resolved = std::filesystem::weakly_canonical(path, failed).string();
  return facts;
}

std::string file_identity(const std::string& path) {
  struct stat status {};
  if (stat(path.c_str(), &status) != 0) {
    throw Error(
        fmt::format("{}: cannot be opened ({}): check the path and its permissions", path, std::strerror(errno)));
  }
  std::string first(S_ISREG(status.st_mode) ? kIdentifyingBytes : 0, '\0');
  std::ifstream file(first.empty() ? "" : path, std::ios::binary);
  file.read(first.data(), static_cast<std::streamsize>(first.size()));
  first.resize(static_cast<std::size_t>(file.gcount()));
  return fmt::format("{}:{}.{:09}:{}:{}:{:.16}", status.st_size, status.st_mtim.tv_sec, status.st_mtim.tv_nsec,
                     status.st_dev, status.st_ino, sha256(first));
}

}  // namespace foxscope::agent
