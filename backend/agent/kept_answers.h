#pragma once

#include <cstdint>
#include <filesystem>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "backend/agent/message.h"
#include "backend/agent/remote_path.h"

namespace foxscope::agent {

/// Answers of other machines, by machine and request. A request about a run names its file by identity (size, time of
/// change, inode, what it begins with), so that an answer stays right as long as it is asked. Those used last are held
/// in memory, and in a folder if there is one. Safe to use from several threads, and the folder from several processes.
class KeptAnswers {
 public:
  /// Bytes of answers in memory, and of one that is kept.
  static constexpr std::size_t kMemory = std::size_t{64} << 20;
  static constexpr std::size_t kMostBytes = std::size_t{8} << 20;
  static constexpr std::uint64_t kFolderBytes = std::uint64_t{256} << 20;

  /// The answers that the whole program keeps.
  static KeptAnswers& all();

  /// Keeps answers in a folder too, which is made where it is missing; at most so many bytes, of which the ones that
  /// were not used for longest go first. Where it cannot be written, nothing is kept there.
  void use_folder(const std::filesystem::path& folder, std::uint64_t most = kFolderBytes);

  [[nodiscard]] std::optional<Message> find(const RemoteHost& host, const Message& request);
  void keep(const RemoteHost& host, const Message& request, const Message& answer);
  /// Whether it is in memory.
  [[nodiscard]] bool has(const RemoteHost& host, const Message& request) const;

  /// The same for a request that names no identity, as "open": in the folder alone, and perhaps of another time.
  [[nodiscard]] std::optional<Message> find_older(const RemoteHost& host, const Message& request) const;
  void keep_older(const RemoteHost& host, const Message& request, const Message& answer);
  void forget_older(const RemoteHost& host, const Message& request) const;

 private:
  struct Held {
    std::string key;
    std::shared_ptr<const Message> answer;
    std::size_t bytes = 0;
  };
  void hold(const std::string& key, std::shared_ptr<const Message> answer);
  [[nodiscard]] std::optional<Message> read(const std::string& key) const;
  void write(const std::string& key, const Message& answer);
  void trim() const;
  [[nodiscard]] std::filesystem::path folder() const;

  mutable std::mutex mutex_;
  std::list<Held> held_;  ///< the one used last comes first
  std::map<std::string, std::list<Held>::iterator> places_;
  std::size_t bytes_ = 0;
  std::filesystem::path folder_;
  std::uint64_t most_ = kFolderBytes;
  std::uint64_t written_ = 0;  ///< since the folder was last looked through
};

}  // namespace foxscope::agent
