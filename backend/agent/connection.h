#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "backend/agent/channel.h"
#include "backend/base/job.h"

namespace foxscope::agent {

/// Each side says this of itself first.
struct Hello {
  int protocol = kProtocol;
  std::string program;  ///< "foxscope"
  std::string version;
  std::vector<std::string> offers;  ///< requests that it answers; empty of a client
  bool takes_zstd = false;          ///< it takes parts that are compressed so
};
Message hello_message(const Hello& hello);
/// @throws ProtocolError for a message that is none
Hello read_hello(const Message& message);
/// This program's hello, as a client.
Hello own_hello();

/// The side that asks. One thread reads answers and gives each to whoever waits for it; any may ask.
class Connection {
 public:
  /// Waits for the other side's first message. The descriptors stay open when the object goes.
  /// @param name   of the other side, in errors
  /// @param stop   ends the waiting, as if the other side had ended
  /// @param say    gets what came before that message: a login shell's banner
  /// @param first  a request that is sent before that message has come, which saves the way there and back; its answer
  ///               is what ask_first gives
  /// @throws ConnectionEnded where none comes, with what came instead; Error where it speaks another protocol, which
  ///         names both versions
  Connection(int in, int out, std::string name, const std::stop_token& stop,
             const std::function<void(std::string_view)>& say, const Message* first = nullptr);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  [[nodiscard]] const Hello& other() const { return other_; }
  [[nodiscard]] bool ended() const;
  /// Ends it on this side, as if the other side had ended; from any thread.
  void end() const { channel_.stop_reading(); }
  [[nodiscard]] std::uint64_t bytes_received() const { return channel_.bytes_received(); }
  [[nodiscard]] std::uint64_t bytes_sent() const { return channel_.bytes_sent(); }

  /// Messages that come before the answer of a request: its output.
  using Output = std::function<void(const Message&)>;

  /// Asks, and waits for the answer; progress goes to the job.
  /// @param output  called on the calling thread
  /// @returns nothing if the job was stopped: then the other side is told, and its answer dropped
  /// @throws ConnectionEnded, also where the other side was ended; Error or UsageError in the other side's words, with
  ///         its name
  std::optional<Message> ask(Message request, const Job& job, const Output& output = {});
  /// The same for the request that the constructor sent; once.
  std::optional<Message> ask_first(const Job& job, const Output& output = {});

 private:
  struct Waiting {
    std::vector<Message> messages;  ///< that came and were not taken
    bool answered = false;          ///< the last of them came
    bool abandoned = false;         ///< nobody waits any more
  };
  void read_answers();
  void take_answer(Message message);
  std::int64_t begin();
  std::optional<Message> answer_of(std::int64_t id, const Message* request, const Job& job, const Output& output);
  std::vector<Message> wait_for(std::int64_t id, const Job& job);
  void abandon(std::int64_t id);
  [[noreturn]] void fail_ended() const;
  Message finished(const Message& message) const;

  std::string name_;
  Channel channel_;
  Hello other_;
  mutable std::mutex mutex_;
  std::condition_variable_any came_;
  std::map<std::int64_t, Waiting> waiting_;
  std::int64_t last_id_ = 0;
  bool ended_ = false;
  bool stopping_ = false;
  std::string reason_;
  std::thread reader_;
};

}  // namespace foxscope::agent
