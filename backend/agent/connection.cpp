#include "backend/agent/connection.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "backend/agent/fields.h"
#include "backend/agent/remote_path.h"
#include "backend/agent/said_progress.h"

namespace foxscope::agent {
namespace {

/// Messages that may wait for whoever asked; then the other side waits.
constexpr std::size_t kMostWaiting = 256;

bool is_last(const Message& message) {
  return message.header.contains("answer") || message.header.contains("error") || message.header.contains("stopped");
}

/// Shortens the text that came in the place of the first message, for an error.
std::string shown(std::string text) {
  constexpr std::size_t kMostShown = 400;
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r')) text.pop_back();
  if (text.size() > kMostShown) text = text.substr(0, kMostShown) + " ...";
  return text;
}

}  // namespace

Message hello_message(const Hello& hello) {
  // The names begin in the order in which JSON is written, so that this one is the first: skip_banner looks for it.
  Message message;
  message.header = {{"foxscope_agent", hello.protocol},
                    {"offers", hello.offers},
                    {"program", hello.program},
                    {"takes", hello.takes_zstd ? nlohmann::json::array({"zstd"}) : nlohmann::json::array()},
                    {"version", hello.version}};
  return message;
}

Hello read_hello(const Message& message) {
  Hello hello;
  hello.protocol = take<int>(message, "foxscope_agent");
  hello.program = take<std::string>(message, "program", std::string());
  hello.version = take<std::string>(message, "version", std::string());
  const auto words = [&](const char* name) {
    std::vector<std::string> list;
    const auto found = message.header.find(name);
    if (found == message.header.end() || !found->is_array()) return list;
    for (const auto& word : *found) {
      if (word.is_string()) list.push_back(word.get<std::string>());
    }
    return list;
  };
  hello.offers = words("offers");
  hello.takes_zstd = std::ranges::count(words("takes"), "zstd") > 0;
  return hello;
}

Hello own_hello() { return {kProtocol, "foxscope", FOXSCOPE_VERSION, {}, true}; }

Connection::Connection(int in, int out, std::string name, const std::stop_token& stop,
                       const std::function<void(std::string_view)>& say, const Message* first_request)
    : name_(std::move(name)), channel_(in, out) {
  const std::stop_callback stopped(stop, [this] { channel_.stop_reading(); });
  try {
    // Sent at once, so that the other side need not wait for it.
    channel_.send(hello_message(own_hello()));
    if (first_request != nullptr) {
      Message request = *first_request;
      request.header["id"] = begin();
      channel_.send(request);
    }
    const std::string banner = channel_.skip_banner();
    if (say && !banner.empty()) say(shown(banner));
    const std::optional<Message> first = channel_.receive();
    if (!first) throw ConnectionEnded("");
    other_ = read_hello(*first);
    if (other_.takes_zstd) channel_.compress();
  } catch (const ConnectionEnded& error) {
    throw ConnectionEnded(shown(error.what()));
  } catch (const ProtocolError& error) {
    throw Error(fmt::format("{}: what answers there is no foxscope agent: {}", name_, shown(error.what())));
  }
  if (other_.protocol != kProtocol) {
    const Hello own = own_hello();
    throw Error(
        fmt::format("{}: {} {} there speaks protocol {}, and {} {} here speaks protocol {}: install the same version "
                    "on both machines",
                    name_, other_.program, other_.version, other_.protocol, own.program, own.version, kProtocol));
  }
  reader_ = std::thread([this] { read_answers(); });
}

Connection::~Connection() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  came_.notify_all();
  channel_.stop_reading();
  reader_.join();
}

bool Connection::ended() const {
  const std::lock_guard lock(mutex_);
  return ended_;
}

void Connection::read_answers() {
  std::string reason;
  try {
    while (std::optional<Message> message = channel_.receive()) take_answer(std::move(*message));
  } catch (const ProtocolError& error) {
    reason = fmt::format("what came from there is no message of the protocol: {}", error.what());
  } catch (const std::exception&) {
    // Cut off in the middle of a message, which is an end like another.
  }
  const std::lock_guard lock(mutex_);
  ended_ = true;
  if (reason_.empty()) reason_ = reason;
  came_.notify_all();
}

/// @throws ProtocolError where nobody asked for it
void Connection::take_answer(Message message) {
  const auto id = take<std::int64_t>(message, "id");
  std::unique_lock lock(mutex_);
  const auto found = waiting_.find(id);
  if (found == waiting_.end() || found->second.answered)
    throw ProtocolError(fmt::format("an answer to a request {} that nobody made", id));
  // Its place in the map stays until the last message has come.
  came_.wait(lock,
             [&] { return stopping_ || found->second.abandoned || found->second.messages.size() < kMostWaiting; });
  if (stopping_) return;
  if (found->second.abandoned) {
    if (is_last(message)) waiting_.erase(found);
    return;
  }
  found->second.answered = is_last(message);
  // The newest progress replaces progress that nobody has looked at yet.
  std::vector<Message>& queue = found->second.messages;
  if (!queue.empty() && queue.back().header.contains("progress") && message.header.contains("progress")) {
    queue.back() = std::move(message);
  } else {
    queue.push_back(std::move(message));
  }
  came_.notify_all();
}

void Connection::fail_ended() const {
  if (!reason_.empty()) throw Error(fmt::format("{}: {}: install the same version on both machines", name_, reason_));
  throw ConnectionEnded(fmt::format("{}: the connection has ended", name_));
}

Message Connection::finished(const Message& message) const {
  if (const auto error = message.header.find("error"); error != message.header.end()) {
    const std::string text = error->is_string() ? error->get<std::string>() : "an error without words";
    const std::string line = said_there(name_, text);
    if (message.header.value("usage", false)) throw UsageError(line);
    if (message.header.value("changed", false)) throw RunChanged(line);
    throw Error(line);
  }
  return message;
}

/// Drops what still comes for a request, and tells the other side that nobody waits for it.
void Connection::abandon(std::int64_t id) {
  {
    const std::lock_guard lock(mutex_);
    const auto found = waiting_.find(id);
    if (found == waiting_.end()) return;
    found->second.messages.clear();
    found->second.abandoned = true;
    if (found->second.answered) waiting_.erase(found);
  }
  came_.notify_all();
  Message cancel;
  cancel.header = {{"id", id}, {"do", "cancel"}};
  try {
    channel_.send(cancel);
  } catch (const ConnectionEnded&) {
    // Then nothing goes on there.
  }
}

/// Messages of a request, at least one; none if the job was stopped.
std::vector<Message> Connection::wait_for(std::int64_t id, const Job& job) {
  std::unique_lock lock(mutex_);
  Waiting& own = waiting_[id];
  came_.wait(lock, job.stop, [&] { return ended_ || !own.messages.empty(); });
  if (job.stopped()) return {};
  if (own.messages.empty()) fail_ended();
  std::vector<Message> came = std::exchange(own.messages, {});
  if (is_last(came.back())) waiting_.erase(id);
  came_.notify_all();  // there is room again
  return came;
}

/// The number of a request that is about to be sent.
std::int64_t Connection::begin() {
  const std::lock_guard lock(mutex_);
  if (ended_) fail_ended();
  const std::int64_t id = ++last_id_;
  waiting_[id];
  return id;
}

std::optional<Message> Connection::ask(Message request, const Job& job, const Output& output) {
  const std::int64_t id = begin();
  request.header["id"] = id;
  return answer_of(id, &request, job, output);
}

std::optional<Message> Connection::ask_first(const Job& job, const Output& output) {
  return answer_of(1, nullptr, job, output);
}

/// @param request  null: it was sent
std::optional<Message> Connection::answer_of(std::int64_t id, const Message* request, const Job& job,
                                             const Output& output) {
  try {
    if (request != nullptr) channel_.send(*request);
    while (true) {
      const std::vector<Message> came = wait_for(id, job);
      if (came.empty()) break;
      for (const Message& message : came) {
        if (const auto progress = message.header.find("progress"); progress != message.header.end()) {
          job.tell(SaidProgress(*progress).progress());
        } else if (!is_last(message) && output) {
          output(message);
        }
      }
      if (!is_last(came.back())) continue;
      // Nobody here has stopped it: the agent was ended.
      if (came.back().header.contains("stopped"))
        throw ConnectionEnded(fmt::format("{}: foxscope was ended there", name_));
      return finished(came.back());
    }
  } catch (...) {
    abandon(id);  // nothing where the answer has come
    throw;
  }
  abandon(id);
  return std::nullopt;
}

}  // namespace foxscope::agent
