#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "backend/agent/connection.h"
#include "backend/agent/remote_path.h"
#include "backend/base/error.h"

namespace foxscope::agent {

/// Whether a request that the end of the connection cut off is made once more over a new one. What changes something,
/// or takes long, is not: it would run twice.
enum class Again { once, never };

/// The connection to a machine ended and could not be made anew. The request may be made again when it is there.
class ConnectionLost : public Error {
 public:
  using Error::Error;
};

/// A request that named no job of its own was stopped (AskingFor).
class AskingStopped : public Error {
 public:
  AskingStopped() : Error("stopped") {}
};

/// The state of the connection to a machine.
struct RemoteState {
  bool connected = false;
  bool was_connected = false;  ///< now or before
  std::uint64_t received = 0;  ///< bytes, over all connections
  std::uint64_t sent = 0;
  int asking = 0;    ///< requests on their way
  std::string lost;  ///< the reason why it ended and could not be made anew; empty: it was not lost
};

/// While this object lives, requests of its thread that name no job of their own are stopped with this token; they
/// throw AskingStopped then.
class AskingFor {
 public:
  explicit AskingFor(std::stop_token stop);
  ~AskingFor();
  AskingFor(const AskingFor&) = delete;
  AskingFor& operator=(const AskingFor&) = delete;

 private:
  std::stop_token before_;
};

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

  /// All machines that were asked for since the last close_all.
  static std::vector<std::shared_ptr<Remote>> all();
  /// Whether a thread waits for an answer.
  static bool is_asking(std::thread::id thread);
  /// Whether requests after a lost connection fail at once, until reconnect() is called. Otherwise each tries anew.
  static void stay_lost(bool stay);

  [[nodiscard]] const RemoteHost& host() const { return host_; }
  /// The state now. Never waits.
  [[nodiscard]] RemoteState state() const;
  /// Ends the connection, as if it had ended by itself: requests on their way are made once more over a new one.
  void disconnect();
  /// The next request makes a connection, also after one was lost.
  void reconnect();

  /// Connection::ask over the connection, which is made where there is none.
  /// @throws Error where it cannot be made: no ssh, no such host, no program there, another protocol; ConnectionLost
  ///         where there was one before
  std::optional<Message> ask(const Message& request, const Job& job, Again again = Again::once,
                             const Connection::Output& output = {});

 private:
  struct Link;
  struct Count;
  std::shared_ptr<Link> link(const Job& job);
  std::shared_ptr<Link> new_link(const Job& job);
  void take_link(std::shared_ptr<Link> link);

  RemoteHost host_;
  std::mutex mutex_;  ///< held while a connection is made
  mutable std::mutex state_mutex_;
  std::shared_ptr<Link> link_;
  RemoteState state_;  ///< of the connections before link_
};

}  // namespace foxscope::agent
