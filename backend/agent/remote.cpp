#include "backend/agent/remote.h"

#include <unistd.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <map>
#include <set>
#include <thread>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "backend/agent/child.h"
#include "backend/agent/kept_answers.h"
#include "backend/agent/late_check.h"
#include "backend/base/log.h"

namespace foxscope::agent {
namespace {

/// How long ssh may take to end once the agent has: what it says is read until then.
constexpr std::chrono::milliseconds kEndOfSsh{1500};
/// Bytes of ssh's words that are kept for an error.
constexpr std::size_t kKeptText = 2000;
constexpr int kNoProgram = 127;  ///< of a shell that found no such program
constexpr int kNoConnection = 255;
/// A guess is asked where nothing else was for so long.
constexpr std::chrono::milliseconds kQuietBeforeGuess{150};

struct Listener {
  std::mutex mutex;
  std::function<void(std::string_view)> say;
};

Listener& listener() {
  static Listener one;
  return one;
}

void say_line(std::string_view line) {
  const std::lock_guard lock(listener().mutex);
  if (listener().say) listener().say(line);
}

struct KnownRemotes {
  std::mutex mutex;
  std::map<RemoteHost, std::shared_ptr<Remote>> remotes;
};

std::atomic<bool>& staying_lost() {
  static std::atomic<bool> stay = false;
  return stay;
}

struct AskingThreads {
  std::mutex mutex;
  std::multiset<std::thread::id> threads;
};

AskingThreads& asking_threads() {
  static AskingThreads* const all = new AskingThreads;  // outlives every thread
  return *all;
}

std::stop_token& token_of_thread() {
  thread_local std::stop_token token;
  return token;
}

KnownRemotes& known() {
  static KnownRemotes* const all = new KnownRemotes;  // outlives every trace
  return *all;
}

}  // namespace

/// Lines of a program's standard error, given to the listener as they come. Until there is a connection the last one is
/// held back: where none can be made, it says why.
class ErrorLines {
 public:
  explicit ErrorLines(int descriptor) : thread_([this, descriptor] { read(descriptor); }) {}
  ~ErrorLines() {
    wake_.call();
    thread_.join();
  }
  ErrorLines(const ErrorLines&) = delete;
  ErrorLines& operator=(const ErrorLines&) = delete;

  /// Gives the line that was held back, and from now on every line at once.
  void connected() {
    const std::lock_guard lock(mutex_);
    if (!held_.empty()) say_line(held_);
    holds_ = false;
  }
  /// The line that was held back, of a program that has ended.
  [[nodiscard]] std::string held() {
    std::unique_lock lock(mutex_);
    done_.wait_for(lock, kEndOfSsh, [&] { return ended_; });  // another may still have the pipe
    return held_.empty() ? rest_ : held_;
  }

 private:
  void read(int descriptor) {
    while (wake_.wait_for(descriptor)) {
      char piece[4096];
      const ssize_t got = ::read(descriptor, piece, sizeof piece);
      if (got <= 0) break;
      take({piece, static_cast<std::size_t>(got)});
    }
    const std::lock_guard lock(mutex_);
    ended_ = true;
    done_.notify_all();
  }
  void take(std::string_view text) {
    const std::lock_guard lock(mutex_);
    rest_ += text;
    for (std::size_t end = rest_.find('\n'); end != std::string::npos || rest_.size() > kKeptText;
         end = rest_.find('\n')) {
      std::string line = rest_.substr(0, end);
      rest_.erase(0, end == std::string::npos ? end : end + 1);
      if (!line.empty() && line.back() == '\r') line.pop_back();
      if (line.empty()) continue;
      if (holds_) std::swap(line, held_);
      if (!line.empty()) say_line(line);
    }
  }

  Wake wake_;
  mutable std::mutex mutex_;
  std::string rest_;
  std::string held_;
  bool holds_ = true;
  bool ended_ = false;
  std::condition_variable done_;
  std::thread thread_;
};

AskingFor::AskingFor(std::stop_token stop) : before_(std::exchange(token_of_thread(), std::move(stop))) {}

AskingFor::~AskingFor() { token_of_thread() = std::move(before_); }

/// ssh, what it says, and the connection that goes through it.
struct Remote::Link {
  explicit Link(const std::vector<std::string>& words) : child(words), errors(child.errors()) {}
  ~Link() {
    connection.reset();
    child.close_input();
    child.finish(kEndOfSsh);
  }
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;

  Child child;
  ErrorLines errors;
  std::unique_ptr<Connection> connection;
};

std::shared_ptr<Remote> Remote::at(const RemoteHost& host) {
  const std::lock_guard lock(known().mutex);
  std::shared_ptr<Remote>& remote = known().remotes[host];
  if (!remote) remote = std::make_shared<Remote>(host);
  return remote;
}

/// A request that is no guess, as long as it goes on.
class Remote::Asking {
 public:
  explicit Asking(Remote& remote) : remote_(remote) {
    {
      const std::lock_guard lock(asking_threads().mutex);
      asking_threads().threads.insert(std::this_thread::get_id());
    }
    const std::lock_guard lock(remote_.idle_mutex_);
    ++remote_.asking_;
    remote_.guessing_.request_stop();
  }
  ~Asking() {
    {
      const std::lock_guard lock(asking_threads().mutex);
      asking_threads().threads.extract(std::this_thread::get_id());
    }
    const std::lock_guard lock(remote_.idle_mutex_);
    --remote_.asking_;
    remote_.last_asked_ = std::chrono::steady_clock::now();
    remote_.idle_changed_.notify_all();
  }
  Asking(const Asking&) = delete;
  Asking& operator=(const Asking&) = delete;

 private:
  Remote& remote_;
};

void Remote::close_all() {
  end_late_checks();
  std::map<RemoteHost, std::shared_ptr<Remote>> remotes;  // closed without the lock
  const std::lock_guard lock(known().mutex);
  remotes.swap(known().remotes);
}

std::vector<std::shared_ptr<Remote>> Remote::all() {
  const std::lock_guard lock(known().mutex);
  std::vector<std::shared_ptr<Remote>> list;
  for (const auto& [host, remote] : known().remotes) list.push_back(remote);
  return list;
}

bool Remote::is_asking(std::thread::id thread) {
  const std::lock_guard lock(asking_threads().mutex);
  return asking_threads().threads.contains(thread);
}

void Remote::stay_lost(bool stay) { staying_lost() = stay; }

void Remote::listen(std::function<void(std::string_view line)> say) {
  const std::lock_guard lock(listener().mutex);
  listener().say = std::move(say);
}

void Remote::say(std::string_view line) { say_line(line); }

Remote::Remote(RemoteHost host) : host_(std::move(host)) {}

Remote::~Remote() = default;

RemoteState Remote::state() const {
  RemoteState state;
  {
    const std::lock_guard lock(idle_mutex_);
    state.asking = asking_;
  }
  const std::lock_guard lock(state_mutex_);
  state.lost = state_.lost;
  state.was_connected = state_.was_connected;
  state.received = state_.received;
  state.sent = state_.sent;
  if (!link_) return state;
  state.connected = !link_->connection->ended();
  state.received += link_->connection->bytes_received();
  state.sent += link_->connection->bytes_sent();
  return state;
}

void Remote::disconnect() {
  const std::lock_guard lock(state_mutex_);
  if (link_) link_->connection->end();
}

void Remote::reconnect() {
  const std::lock_guard lock(state_mutex_);
  state_.lost.clear();
}

/// Puts a connection, or none, in the place of the one before.
void Remote::take_link(std::shared_ptr<Link> link) {
  std::shared_ptr<Link> before;  // ends without the lock
  const std::lock_guard lock(state_mutex_);
  before = std::exchange(link_, std::move(link));
  if (before) state_.received += before->connection->bytes_received();
  if (before) state_.sent += before->connection->bytes_sent();
  state_.was_connected = state_.was_connected || link_ != nullptr;
  if (link_) state_.lost.clear();
}

/// @param first  is sent at once over a connection that has to be made
/// @param sent   whether that was done
std::shared_ptr<Remote::Link> Remote::link(const Job& job, const Message& first, bool& sent) {
  const std::lock_guard lock(mutex_);
  sent = false;
  {
    const std::lock_guard state(state_mutex_);
    if (link_ && !link_->connection->ended()) return link_;
    if (!state_.lost.empty() && staying_lost()) throw ConnectionLost(state_.lost);
  }
  take_link(nullptr);
  try {
    std::shared_ptr<Link> made = new_link(job, first);
    sent = made != nullptr;
    if (made) take_link(made);
    return made;
  } catch (const Error& error) {
    const std::lock_guard state(state_mutex_);
    if (!state_.was_connected) throw;
    state_.lost = error.what();
    throw ConnectionLost(state_.lost);
  }
}

/// @returns null if the job was stopped
std::shared_ptr<Remote::Link> Remote::new_link(const Job& job, const Message& first) {
  const std::string name = host_.words();
  const std::vector<std::string> words = agent_command(host_);
  job.tell({0, 0, "", "connecting"});
  std::shared_ptr<Link> made;
  try {
    made = std::make_shared<Link>(words);
  } catch (const Error& error) {
    throw Error(fmt::format("{}: install OpenSSH's client, or name another program in FOXSCOPE_SSH", error.what()));
  }
  try {
    made->connection =
        std::make_unique<Connection>(made->child.output(), made->child.input(), name, job.stop, say_line, &first);
  } catch (const ConnectionEnded& error) {
    if (job.stopped()) return nullptr;
    const std::string came = error.what();
    made->child.close_input();
    const int status = made->child.finish(kEndOfSsh);
    const std::string said = made->errors.held();
    const std::string& why = came.empty() ? said : came;
    if (status == kNoProgram) {
      throw Error(
          fmt::format("{}: there is no program {} there ({}): install foxscope there (./dev install ~/.local), or say "
                      "where it is in FOXSCOPE_REMOTE_PROGRAM",
                      name, words[words.size() - 2], why));
    }
    if (status == kNoConnection || came.empty()) {
      throw Error(fmt::format("{}: cannot be reached: {}: look whether `{}` works", name,
                              why.empty() ? fmt::format("{} ended with status {}", words.front(), status) : why,
                              fmt::join(words.begin(), words.end() - 2, " ")));
    }
    throw Error(fmt::format("{}: what answers there is no foxscope agent: {}", name, why));
  }
  made->errors.connected();
  const Hello& other = made->connection->other();
  log_line(LogCategory::file, [&] { return fmt::format("{}: {} {}", name, other.program, other.version); });
  return made;
}

std::optional<Message> Remote::ask_kept(const Message& request, const Job& job, const Connection::Output& output) {
  if (auto known = KeptAnswers::all().find(host_, request)) return known;
  if (job.stopped()) return std::nullopt;
  std::optional<Message> answer = ask(request, job, Again::once, output);
  if (answer) {
    answer->header.erase("id");
    KeptAnswers::all().keep(host_, request, *answer);
  }
  return answer;
}

bool Remote::wait_until_idle(std::chrono::milliseconds quiet, const std::stop_token& stop) {
  std::unique_lock lock(idle_mutex_);
  while (!stop.stop_requested()) {
    const auto now = std::chrono::steady_clock::now();
    const auto due = last_asked_ + quiet;
    if (asking_ == 0 && now >= due) return true;
    idle_changed_.wait_until(lock, stop, asking_ > 0 ? now + quiet : due, [] { return false; });
  }
  return false;
}

void Remote::guess(std::vector<Message> requests) {
  const std::lock_guard lock(idle_mutex_);
  guesses_.assign(std::make_move_iterator(requests.rbegin()), std::make_move_iterator(requests.rend()));
  idle_changed_.notify_all();
  if (!guesser_.joinable()) {
    guesser_ = std::jthread([this](const std::stop_token& stop) { ask_guesses(stop); });
  }
}

void Remote::ask_guesses(const std::stop_token& stop) {
  while (true) {
    {
      std::unique_lock lock(idle_mutex_);
      if (!idle_changed_.wait(lock, stop, [&] { return !guesses_.empty(); })) return;
    }
    if (!wait_until_idle(kQuietBeforeGuess, stop)) return;
    Message request;
    std::stop_token wanted;
    {
      const std::lock_guard lock(idle_mutex_);
      if (guesses_.empty() || asking_ > 0) continue;
      request = std::move(guesses_.back());
      guesses_.pop_back();
      guessing_ = std::stop_source();
      wanted = guessing_.get_token();
    }
    const std::stop_callback ending(stop, [this] {
      const std::lock_guard lock(idle_mutex_);
      guessing_.request_stop();
    });
    std::shared_ptr<Link> way;
    {
      const std::lock_guard lock(state_mutex_);
      way = link_;
    }
    try {
      if (!way || way->connection->ended() || KeptAnswers::all().has(host_, request)) continue;
      std::optional<Message> answer = way->connection->ask(request, Job{wanted, {}, nullptr});
      if (!answer) continue;
      answer->header.erase("id");
      KeptAnswers::all().keep(host_, request, *answer);
    } catch (const std::exception& error) {
      log_line(LogCategory::file, [&] { return fmt::format("{}: a guess failed: {}", host_.words(), error.what()); });
    }
  }
}

std::optional<Message> Remote::ask(const Message& request, const Job& job, Again again,
                                   const Connection::Output& output) {
  if (!job.stop.stop_possible() && token_of_thread().stop_possible()) {
    auto answer = ask(request, Job{token_of_thread(), job.report, job.executor}, again, output);
    if (!answer) throw AskingStopped();
    return answer;
  }
  const Asking asking(*this);
  return ask_now(request, job, again, output);
}

std::optional<Message> Remote::ask_behind(const Message& request, const Job& job) {
  return ask_now(request, job, Again::once, {});
}

std::optional<Message> Remote::ask_now(const Message& request, const Job& job, Again again,
                                       const Connection::Output& output) {
  for (int attempt = 0;; ++attempt) {
    bool sent = false;
    const std::shared_ptr<Link> way = link(job, request, sent);
    if (!way) return std::nullopt;
    try {
      return sent ? way->connection->ask_first(job, output) : way->connection->ask(request, job, output);
    } catch (const ConnectionEnded& error) {
      if (job.stopped()) return std::nullopt;
      {
        // An agent that was ended may still be on its way out: nothing more is asked of it.
        const std::lock_guard making(mutex_);
        const bool newest = [&] {
          const std::lock_guard lock(state_mutex_);
          return link_ == way;
        }();
        if (newest) take_link(nullptr);
      }
      if (again == Again::once && attempt == 0) {
        log_line(LogCategory::file, [&] { return fmt::format("{}: the connection ended, once more", host_.words()); });
        continue;
      }
      if (again == Again::never) {
        throw ConnectionCut(fmt::format("{}: what was going on there has ended with it: start it again", error.what()));
      }
      const std::lock_guard lock(state_mutex_);
      state_.lost = fmt::format("{}: look after the machine and the network, and try again", error.what());
      throw ConnectionLost(state_.lost);
    }
  }
}

}  // namespace foxscope::agent
