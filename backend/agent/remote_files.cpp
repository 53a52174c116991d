#include "backend/agent/remote_files.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <map>
#include <mutex>
#include <utility>

#include <fmt/format.h>

#include "backend/agent/file_piece.h"
#include "backend/agent/remote.h"
#include "backend/agent/shown_names.h"
#include "backend/agent/taken.h"
#include "backend/agent/temporary_folders.h"
#include "backend/base/atomic_file.h"
#include "backend/base/error.h"
#include "backend/base/regular_file.h"
#include "backend/file/provenance.h"

namespace foxscope::agent {
namespace {

constexpr std::int64_t kPieceOfFile = std::int64_t{1} << 20;

Message request_about(const char* word, const RemotePath& path) {
  Message request = request_for(word);
  put(request, "path", path.path);
  return request;
}

template <typename T>
T answer_about(const char* word, const RemotePath& path) {
  const auto remote = Remote::at(path.host);
  return taken_from<T>(path.host, *remote->ask(request_about(word, path), {}), "answer");
}

/// @returns nothing if the job was stopped
template <typename T>
std::optional<T> answer_to(const Message& request, const RemoteHost& host, const Job& job, Again again = Again::once) {
  const auto answer = Remote::at(host)->ask(request, job, again);
  return answer ? std::optional(taken_from<T>(host, *answer, "answer")) : std::nullopt;
}

/// Copies of files from other machines.
class Copies {
 public:
  std::filesystem::path of(const RemotePath& path, const Job& job) {
    const auto facts = answer_about<FileFacts>("stat", path);
    const std::lock_guard lock(mutex_);
    auto& [identity, copy] = copies_[path.url()];
    if (identity == facts.identity && std::filesystem::exists(copy)) return copy;
    copy = make_temporary_folder() / std::filesystem::path(path.path).filename();
    show_copy_as(copy.string(), fmt::format("{} (copied to the temporary folder of this machine, TMPDIR)", path.url()));
    if (!fetch_file(path, copy, true, job)) return {};
    identity = facts.identity;
    show_copy_as(copy.string(), path.url());
    return copy;
  }

 private:
  std::mutex mutex_;
  std::map<std::string, std::pair<std::string, std::filesystem::path>> copies_;  ///< identity and place, by URL
};

Copies& copies() {
  static Copies all;
  return all;
}

}  // namespace

FileFacts file_facts(const std::string& path) { return answer_about<FileFacts>("stat", parse_remote_path(path)); }

std::string content_of(const FileFacts& facts) {
  return facts.holds == "runs" || facts.holds == "maps" ? "" : facts.holds;
}

std::string content_of(const std::string& path) {
  return is_remote(path) ? content_of(file_facts(path)) : read_content(path);
}

std::int64_t bytes_of(const std::string& path) {
  return is_remote(path) ? file_facts(path).bytes : static_cast<std::int64_t>(std::filesystem::file_size(path));
}

std::optional<double> round_trip(Remote& remote, const Job& job) {
  Message request = request_for("stat");
  put(request, "path", std::string("/"));
  // The connection may have to be made first, which takes longer.
  if (!remote.ask(request, job)) return std::nullopt;
  const auto start = std::chrono::steady_clock::now();
  if (!remote.ask(request, job)) return std::nullopt;
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

std::optional<FolderList> list_folder(const RemotePath& folder, const Job& job) {
  const auto came = answer_to<FolderList>(request_about("list", folder), folder.host, job);
  if (!came) return std::nullopt;
  FolderList list;
  list.resolved = came->resolved;
  list.more = came->more;
  const std::size_t least =
      std::min({came->names.size(), came->kinds.size(), came->bytes.size(), came->modified.size(), came->holds.size()});
  for (std::size_t n = 0; n < least; ++n) {
    const std::string& name = came->names[n];
    if (name.empty() || name == "." || name == ".." || name.find('/') != std::string::npos) continue;
    list.names.push_back(name);
    list.kinds.push_back(came->kinds[n]);
    list.bytes.push_back(came->bytes[n]);
    list.modified.push_back(came->modified[n]);
    list.holds.push_back(came->holds[n]);
  }
  return list;
}

std::optional<std::vector<DeviceFacts>> list_devices(const RemoteHost& host, const Job& job) {
  return answer_to<std::vector<DeviceFacts>>(request_for("devices"), host, job);
}

std::optional<RemotePath> place_for_run(const RemoteHost& host, const std::string& name, const Job& job,
                                        const std::string& ending) {
  Message request = request_for("place");
  put(request, "name", name);
  put(request, "ending", ending);
  auto path = answer_to<std::string>(request, host, job);
  if (!path) return std::nullopt;
  return RemotePath{host, std::move(*path)};
}

void forget_run(const RemotePath& run, const Job& job) {
  answer_to<bool>(request_about("forget", run), run.host, job, Again::never);
}

std::string path_from_root(const RemotePath& path) {
  if (!path.path.starts_with('~')) return path.path;
  return answer_about<FileFacts>("stat", RemotePath{path.host, "~"}).resolved + path.path.substr(1);
}

std::optional<std::string> weights_of(const RemotePath& folder, const Job& job) {
  return answer_to<std::string>(request_about("weights", folder), folder.host, job);
}

bool require_writable_there(const RemotePath& file, bool overwrite, const Job& job) {
  // It is begun, and none of its bytes follows.
  Message request = request_about("write", file);
  put(request, "begin", std::int64_t{0});
  put(request, "size", std::int64_t{1});
  put(request, "overwrite", overwrite);
  put(request, "bytes", std::vector<std::uint8_t>());
  return Remote::at(file.host)->ask(request, job).has_value();
}

std::filesystem::path file_here(const std::string& path, const Job& job) {
  return is_remote(path) ? copies().of(parse_remote_path(path), job) : std::filesystem::path(path);
}

bool fetch_file(const RemotePath& from, const std::filesystem::path& to, bool overwrite, const Job& job) {
  const auto facts = answer_about<FileFacts>("stat", from);
  if (facts.kind != "file") {
    const char* const what = facts.kind == "folder" ? "a folder" : "a device or a stream";
    throw Error(fmt::format("{}: is {}, and only files are copied from another machine", from.url(), what));
  }
  const auto remote = Remote::at(from.host);
  AtomicFile file(to, overwrite);
  file.require_space(static_cast<std::uint64_t>(std::max<std::int64_t>(0, facts.bytes)));
  for (std::int64_t done = 0; done < facts.bytes;) {
    job.tell({done, facts.bytes, "bytes", "fetching"});
    const std::int64_t count = std::min(kPieceOfFile, facts.bytes - done);
    Message request = request_about("fetch", from);
    put(request, "identity", facts.identity);
    put(request, "begin", done);
    put(request, "count", count);
    const auto answer = remote->ask(request, job);
    if (!answer) return false;
    const auto bytes = taken_from<std::vector<std::uint8_t>>(from.host, *answer, "answer");
    if (std::ssize(bytes) != count) throw Error(fmt::format("{}: came in another length", from.url()));
    file.write(bytes.data(), bytes.size());
    done += count;
  }
  file.commit();
  return true;
}

bool send_file(const std::filesystem::path& from, const RemotePath& to, bool overwrite, const Job& job) {
  const RegularFile file(from, "file");
  // The connection may have ended while the file was made.
  if (!require_writable_there(to, overwrite, job)) return false;
  const auto remote = Remote::at(to.host);
  const auto size = static_cast<std::int64_t>(file.size());
  std::int64_t done = 0;
  do {
    job.tell({done, size, "bytes", "sending"});
    std::vector<std::uint8_t> bytes(static_cast<std::size_t>(std::min(kPieceOfFile, size - done)));
    read_piece(file, from.string(), done, std::span(bytes));
    Message request = request_about("write", to);
    put(request, "begin", done);
    put(request, "size", size);
    put(request, "overwrite", overwrite);
    put(request, "bytes", bytes);
    // A new connection knows nothing of the pieces before.
    if (!remote->ask(request, job, Again::never)) return false;
    done += std::ssize(bytes);
  } while (done < size);
  return true;
}

bool copy_there(const RemotePath& from, const std::string& to, bool overwrite, const Job& job) {
  Message request = request_about("copy", from);
  put(request, "to", to);
  put(request, "overwrite", overwrite);
  return answer_to<bool>(request, from.host, job, Again::never).has_value();
}

}  // namespace foxscope::agent
