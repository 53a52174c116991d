#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "backend/agent/connection.h"
#include "backend/agent/remote_path.h"

namespace foxscope::agent {

/// Whether a request that the end of the connection cut off is made once more over a new one. What changes something,
/// or takes long, is not: it would run twice.
enum class Again { once, never };

/// A machine that is reached by ssh, with the connection to the agent there. The connection is made when something is
/// first asked, and anew after it has ended. Safe to use from several threads.
class Remote {
 public:
  /// The machine of that name; the same object until close_all.
  static std::shared_ptr<Remote> at(const RemoteHost& host);
  /// Ends all connections that nobody holds any more.
  static void close_all();
  /// Calls say with each line of ssh and of the other machine, which is not made fit for a terminal. Without a function
  /// lines are dropped.
  static void listen(std::function<void(std::string_view line)> say);

  explicit Remote(RemoteHost host);
  ~Remote();
  Remote(const Remote&) = delete;
  Remote& operator=(const Remote&) = delete;

  [[nodiscard]] const RemoteHost& host() const { return host_; }

  /// Connection::ask over the connection, which is made where there is none.
  /// @throws Error where it cannot be made: no ssh, no such host, no program there, another protocol
  std::optional<Message> ask(const Message& request, const Job& job, Again again = Again::once,
                             const Connection::Output& output = {});

 private:
  struct Link;
  std::shared_ptr<Link> link(const Job& job);

  RemoteHost host_;
  std::mutex mutex_;
  std::shared_ptr<Link> link_;
};

}  // namespace foxscope::agent
