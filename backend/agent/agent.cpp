#include "backend/agent/agent.h"

#include <chrono>
#include <new>
#include <utility>

#include <fmt/format.h>

#include "backend/agent/connection.h"
#include "backend/agent/fields.h"
#include "backend/agent/said_progress.h"

namespace foxscope::agent {
namespace {

/// Requests that are answered at the same time: a map, what is asked about it, and work in the background.
constexpr int kThreads = 3;
constexpr std::size_t kMostRequests = 256;
constexpr std::size_t kMostWaitingBytes = 2 * kMostParts;
constexpr std::chrono::milliseconds kBetweenProgress{100};

/// A job that tells who asked of its progress: ten times a second, and of each stage's beginning.
class Telling {
 public:
  explicit Telling(std::function<void(Message)> send) : send_(std::move(send)) {}

  void tell(const Progress& progress) {
    const auto now = std::chrono::steady_clock::now();
    const std::lock_guard lock(mutex_);
    if (stage_ == progress.stage && now - last_ < kBetweenProgress) return;
    stage_ = progress.stage;
    last_ = now;
    Message message;
    message.header["progress"] = progress_json(progress);
    send_(std::move(message));
  }

 private:
  std::function<void(Message)> send_;
  std::mutex mutex_;
  std::string stage_;
  std::chrono::steady_clock::time_point last_{};
};

std::size_t size_of(const Message& message) {
  std::size_t bytes = 0;
  for (const Part& part : message.parts) bytes += part.bytes.size();
  return bytes;
}

Message error_message(const std::string& text, bool usage) {
  Message message;
  message.header["error"] = text;
  if (usage) message.header["usage"] = true;
  return message;
}

}  // namespace

void Agent::greet() {
  Hello own = own_hello();
  for (const auto& [request, answer] : answers_) own.offers.push_back(request);
  channel_.send(hello_message(own));
  const std::optional<Message> first = channel_.receive();
  if (!first) throw ConnectionEnded("the client has ended without a word");
  const Hello client = read_hello(*first);
  if (client.takes_zstd) channel_.compress();
  if (client.protocol == kProtocol) return;
  throw ProtocolError(
      fmt::format("{} {} asks by protocol {}, and {} {} answers by protocol {}: install the same "
                  "version on both machines",
                  client.program, client.version, client.protocol, own.program, own.version, kProtocol));
}

void Agent::serve(const std::function<void()>& ended) {
  std::vector<std::thread> threads;
  const auto finish = [&] {
    {
      const std::lock_guard lock(mutex_);
      ended_ = true;
      for (auto& [id, task] : tasks_) task.stop.request_stop();
    }
    if (ended) ended();
    came_.notify_all();
    for (std::thread& thread : threads) thread.join();
  };
  try {
    greet();
    for (int n = 0; n < kThreads; ++n) threads.emplace_back([this] { work(); });
    read_requests();
  } catch (const ConnectionEnded&) {
    // Cut off, as a client that ends.
  } catch (...) {
    finish();
    throw;
  }
  finish();
}

void Agent::read_requests() {
  while (std::optional<Message> request = channel_.receive()) take(std::move(*request));
}

void Agent::cancel(std::int64_t id) {
  const std::lock_guard lock(mutex_);
  const auto found = tasks_.find(id);
  // A request that was answered meanwhile is no longer there.
  if (found != tasks_.end()) found->second.stop.request_stop();
}

void Agent::take(Message request) {
  const auto id = foxscope::agent::take<std::int64_t>(request, "id");
  const auto word = foxscope::agent::take<std::string>(request, "do");
  if (word == "cancel") return cancel(id);
  const std::size_t bytes = size_of(request);
  {
    const std::lock_guard lock(mutex_);
    if (tasks_.contains(id)) throw ProtocolError(fmt::format("a request has the number {} of another one", id));
    if (tasks_.size() < kMostRequests && waiting_bytes_ + bytes <= kMostWaitingBytes) {
      waiting_bytes_ += bytes;
      Task& task = tasks_[id];
      task.request = std::move(request);
      task.bytes = bytes;
      queue_.push_back(id);
      came_.notify_one();
      return;
    }
  }
  send_last(id, error_message("too many requests at once: wait for answers", false));
}

void Agent::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    came_.wait(lock, [&] { return ended_ || !queue_.empty(); });
    if (ended_) return;
    const std::int64_t id = queue_.front();
    queue_.pop_front();
    Task& task = tasks_.at(id);  // its place in the map stays
    lock.unlock();
    Message last = answer(id, task);
    lock.lock();
    waiting_bytes_ -= task.bytes;
    tasks_.erase(id);  // before its answer is out: then the client may use the number again
    lock.unlock();
    send_last(id, std::move(last));
    lock.lock();
  }
}

void Agent::send_last(std::int64_t id, Message message) {
  try {
    try {
      send(id, std::move(message));
    } catch (const ConnectionEnded&) {
      throw;
    } catch (const Error& error) {
      send(id, error_message(error.what(), false));  // it is too large
    }
  } catch (const ConnectionEnded&) {
    // Whoever reads requests finds out.
  }
}

void Agent::send(std::int64_t id, Message message) {
  message.header["id"] = id;
  channel_.send(message);
}

Message Agent::answer(std::int64_t id, Task& task) {
  Telling telling([this, id](Message message) { send(id, std::move(message)); });
  const Job job{task.stop.get_token(), [&](const Progress& progress) { telling.tell(progress); }, nullptr};
  const std::function<void(Message)> put_out = [this, id](Message message) { send(id, std::move(message)); };
  try {
    const auto word = foxscope::agent::take<std::string>(task.request, "do");
    const auto known = answers_.find(word);
    if (known == answers_.end()) {
      throw Error(fmt::format("the request \"{}\" is not known: install the same version on both machines", word));
    }
    std::optional<Message> answer;
    if (!job.stopped()) answer = known->second({task.request, job, put_out});
    if (answer) return std::move(*answer);
    answer.emplace();
    answer->header["stopped"] = true;
    return std::move(*answer);
  } catch (const UsageError& error) {
    return error_message(error.what(), true);
  } catch (const RunChanged& error) {
    Message message = error_message(error.what(), false);
    message.header["changed"] = true;
    return message;
  } catch (const std::bad_alloc&) {
    return error_message("out of memory there", false);
  } catch (const std::exception& error) {
    return error_message(error.what(), false);
  }
}

}  // namespace foxscope::agent
