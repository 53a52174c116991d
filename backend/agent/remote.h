#pragma once

#include <chrono>
#include <condition_variable>
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

/// The connection ended while a request was answered that is not made once more (Again::never).
class ConnectionCut : public Error {
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
  /// Gives them a line of ours.
  static void say(std::string_view line);

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
  ///         where there was one before; ConnectionCut
  std::optional<Message> ask(const Message& request, const Job& job, Again again = Again::once,
                             const Connection::Output& output = {});

  /// The same for what nobody waits for: it does not count as something that is asked.
  std::optional<Message> ask_behind(const Message& request, const Job& job);

  /// The same for a request whose answer follows from it alone, because it names its file by identity: an answer that
  /// is kept (KeptAnswers) is not asked for again.
  std::optional<Message> ask_kept(const Message& request, const Job& job, const Connection::Output& output = {});

  /// Requests that may well come next, the likeliest first, in the place of those guessed before. They are asked one by
  /// one while nothing else is, their answers are kept, and the one that is on its way is stopped as soon as anything
  /// else is asked.
  void guess(std::vector<Message> requests);

  /// Waits until nothing was asked for so long. @returns false if it was stopped
  [[nodiscard]] bool wait_until_idle(std::chrono::milliseconds quiet, const std::stop_token& stop);

 private:
  struct Link;
  class Asking;
  std::optional<Message> ask_now(const Message& request, const Job& job, Again again, const Connection::Output& output);
  void ask_guesses(const std::stop_token& stop);
  std::shared_ptr<Link> link(const Job& job, const Message& first, bool& sent);
  std::shared_ptr<Link> new_link(const Job& job, const Message& first);
  void take_link(std::shared_ptr<Link> link);

  RemoteHost host_;
  std::mutex mutex_;  ///< held while a connection is made
  mutable std::mutex state_mutex_;
  std::shared_ptr<Link> link_;
  RemoteState state_;  ///< of the connections before link_

  mutable std::mutex idle_mutex_;
  std::condition_variable_any idle_changed_;
  int asking_ = 0;  ///< requests that are no guesses
  std::chrono::steady_clock::time_point last_asked_;
  std::vector<Message> guesses_;  ///< the likeliest last
  std::stop_source guessing_;
  std::jthread guesser_;  ///< ends before the rest goes
};

}  // namespace foxscope::agent
