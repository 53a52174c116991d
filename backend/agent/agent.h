#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "backend/agent/channel.h"
#include "backend/base/job.h"

namespace foxscope::agent {

/// A request that is being answered.
struct Asked {
  const Message& request;
  const Job& job;                               ///< stopped by a cancel; its progress goes to who asked
  const std::function<void(Message)>& put_out;  ///< sends output before the answer: {"output": ...}
};

/// Answers requests of one client, in any order, on a few threads.
class Agent {
 public:
  /// @returns the answer's message, with "answer" in its header; nothing if the job was stopped
  /// @throws Error and UsageError, which the client gets in words
  using Answer = std::function<std::optional<Message>(const Asked&)>;

  Agent(int in, int out) : channel_(in, out) {}

  /// Before serve().
  void answers(const std::string& request, Answer answer) { answers_[request] = std::move(answer); }

  /// Answers until the client ends, which stops all that is going on.
  /// @param ended  called as soon as it has, before what goes on is waited for
  /// @throws ProtocolError for a client that speaks another protocol, or none
  void serve(const std::function<void()>& ended = {});
  /// Ends serve() as if the client had ended; from any thread.
  void stop() const { channel_.stop_reading(); }

 private:
  struct Task {
    Message request;
    std::stop_source stop;
    std::size_t bytes = 0;
    bool running = false;
  };
  void greet();
  void read_requests();
  void take(Message request);
  void cancel(std::int64_t id);
  void work();
  void answer(std::int64_t id, Task& task);
  void send(std::int64_t id, Message message);
  void send_error(std::int64_t id, const std::string& text, bool usage);

  Channel channel_;
  std::map<std::string, Answer> answers_;
  std::mutex mutex_;
  std::condition_variable came_;
  std::map<std::int64_t, Task> tasks_;  ///< that wait or are being answered, by their ids
  std::deque<std::int64_t> queue_;      ///< those that wait
  std::size_t waiting_bytes_ = 0;
  bool ended_ = false;
};

}  // namespace foxscope::agent
