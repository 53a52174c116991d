#include "backend/serve/listener.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <functional>
#include <memory>
#include <string_view>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "backend/base/error.h"
#include "backend/base/log.h"

namespace foxscope {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kMostConnections = 256;
/// The stack of a connection's thread: it calls nothing that goes deep, whatever a client sends.
constexpr std::size_t kStackBytes = std::size_t{1} << 20;
constexpr std::chrono::seconds kIdle{75};        ///< between two requests
constexpr std::chrono::seconds kArrival{60};     ///< for all of a request, from its first byte
constexpr std::chrono::seconds kTaking{60};      ///< for a client to take up any byte of its answer
constexpr std::chrono::seconds kDiscarding{30};  ///< for the rest of what was refused
constexpr std::size_t kMostDiscarded = std::size_t{64} << 20;

struct FreeAddresses {
  void operator()(addrinfo* list) const { freeaddrinfo(list); }
};
using Addresses = std::unique_ptr<addrinfo, FreeAddresses>;

Addresses addresses_of(const std::string& host, int port) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  addrinfo* list = nullptr;
  if (getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &list) != 0) return nullptr;
  return Addresses(list);
}

/// Waits for an event of a socket.
/// @returns whether it came before the time
bool wait_for(int descriptor, short events, Clock::time_point end) {
  while (true) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - Clock::now()).count();
    pollfd one{descriptor, events, 0};
    const int ready = poll(&one, 1, static_cast<int>(std::max<std::int64_t>(0, left)));
    if (ready > 0) return true;
    if (ready == 0 || errno != EINTR) return false;
  }
}

}  // namespace

/// Whether a connection waits for its client, and since when. Shared by the connection's thread and the listener's.
class ConnectedClient {
 public:
  /// A request is waited for from now on.
  void await_request() {
    since_ = Clock::now().time_since_epoch().count();
    began_ = false;
  }
  /// The first byte of a request has come.
  void begin() { began_ = true; }
  [[nodiscard]] bool began() const { return began_; }
  [[nodiscard]] Clock::rep since() const { return since_; }

  void start_waiting() { change(State::busy, State::waits); }
  /// @returns whether the connection goes on: it does not if it was given up meanwhile
  bool stop_waiting() { return change(State::waits, State::busy); }
  [[nodiscard]] bool waits() const { return state_ == State::waits; }
  /// @returns whether it waited, and the connection is given up now
  bool give_up() { return change(State::waits, State::given_up); }

 private:
  enum class State { busy, waits, given_up };
  bool change(State from, State to) { return state_.compare_exchange_strong(from, to); }

  std::atomic<State> state_ = State::busy;
  std::atomic<bool> began_ = false;
  std::atomic<Clock::rep> since_ = 0;
};

namespace {

/// A connection's socket. Reads in blocks; every wait has an end.
class SocketStream final : public ByteStream {
 public:
  SocketStream(int descriptor, ConnectedClient& client) : socket_(descriptor), client_(client) {}

  /// Waits for the first byte of a request.
  bool begin() {
    asked_ = false;
    client_.await_request();
    if (taken_ == held_) {
      end_ = Clock::now() + kIdle;
      if (!fill()) return false;
    }
    client_.begin();
    await_body();
    return true;
  }
  void await_body() override { end_ = Clock::now() + kArrival; }
  ssize_t read(char* into, std::size_t most) override {
    if (taken_ == held_ && !fill()) return failed_ ? -1 : 0;
    const std::size_t size = std::min(most, held_ - taken_);
    std::memcpy(into, buffer_.data() + taken_, size);
    taken_ += size;
    return static_cast<ssize_t>(size);
  }
  ssize_t write(const char* bytes, std::size_t size) override {
    const Clock::time_point end = Clock::now() + kTaking;
    while (wait_for(socket_, POLLOUT, end)) {
      const ssize_t sent = ::send(socket_, bytes, size, MSG_NOSIGNAL | MSG_DONTWAIT);
      if (sent >= 0) return sent;
      if (errno != EINTR && errno != EAGAIN) break;
    }
    return -1;
  }
  bool gone() override {
    pollfd one{socket_, POLLRDHUP, 0};
    if (poll(&one, 1, 0) <= 0) return false;
    if ((one.revents & (POLLERR | POLLHUP)) != 0) return true;
    // The client has closed its side: it has left, or has nothing more to send and waits for its answer. An interim
    // answer tells: the system of a client that has left refuses it, and the connection is broken.
    constexpr std::string_view kInterim = "HTTP/1.1 100 Continue\r\n\r\n";
    if (!asked_) write(kInterim.data(), kInterim.size());
    asked_ = true;
    return false;
  }
  /// Takes in what still comes, so that the client reads its answer: with bytes unread, closing would take it away.
  void discard() {
    ::shutdown(socket_, SHUT_WR);
    end_ = Clock::now() + kDiscarding;
    for (std::size_t all = 0; all < kMostDiscarded; all += held_) {
      taken_ = held_;
      if (!fill()) return;
    }
  }

 private:
  bool wait_for_bytes() {
    client_.start_waiting();
    const bool came = wait_for(socket_, POLLIN, end_);
    return client_.stop_waiting() && came;
  }
  bool fill() {
    failed_ = false;
    while (wait_for_bytes()) {
      const ssize_t came = ::recv(socket_, buffer_.data(), buffer_.size(), MSG_DONTWAIT);
      if (came < 0 && (errno == EINTR || errno == EAGAIN)) continue;
      if (came < 0) break;
      taken_ = 0;
      held_ = static_cast<std::size_t>(came);
      return came > 0;
    }
    failed_ = true;
    return false;
  }

  int socket_;
  ConnectedClient& client_;
  Clock::time_point end_;
  bool failed_ = false;
  bool asked_ = false;  ///< whether a client that closed its side was sent an interim answer
  std::size_t taken_ = 0;
  std::size_t held_ = 0;
  std::array<char, 16384> buffer_;
};

void serve_connection(int connection, ConnectedClient& client, const HttpExchange& exchange) {
  SocketStream stream(connection, client);
  while (stream.begin()) {
    if (exchange.serve(stream)) continue;
    stream.discard();
    return;
  }
}

/// Starts a thread that nobody waits for. The system's limit for stacks (`ulimit -s`) may be far too small, or none.
/// @returns false where no thread can be had now
bool start_thread(std::function<void()> body) {
  pthread_attr_t attributes;
  if (pthread_attr_init(&attributes) != 0) return false;
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  pthread_attr_setstacksize(&attributes, kStackBytes);
  auto owned = std::make_unique<std::function<void()>>(std::move(body));
  const auto run = [](void* argument) -> void* {
    const std::unique_ptr<std::function<void()>> own(static_cast<std::function<void()>*>(argument));
    (*own)();
    return nullptr;
  };
  pthread_t thread{};
  const bool started = pthread_create(&thread, &attributes, run, owned.get()) == 0;
  if (started) static_cast<void>(owned.release());
  pthread_attr_destroy(&attributes);
  return started;
}

}  // namespace

bool is_loopback(const std::string& host) {
  const Addresses list = addresses_of(host, 0);
  if (!list) return false;
  for (const addrinfo* one = list.get(); one != nullptr; one = one->ai_next) {
    if (one->ai_family == AF_INET) {
      sockaddr_in address{};
      std::memcpy(&address, one->ai_addr, sizeof(address));
      if ((ntohl(address.sin_addr.s_addr) >> 24U) != 127) return false;
    } else {
      sockaddr_in6 address{};
      std::memcpy(&address, one->ai_addr, std::min<std::size_t>(sizeof(address), one->ai_addrlen));
      if (one->ai_family != AF_INET6 || IN6_IS_ADDR_LOOPBACK(&address.sin6_addr) == 0) return false;
    }
  }
  return true;
}

Listener::Listener(const std::string& host, int port) : host_(host) {
  const Addresses list = addresses_of(host, port);
  if (!list) throw Error(fmt::format("--host {}: there is no such address: give one of this machine", host));
  int reason = 0;
  for (const addrinfo* one = list.get(); one != nullptr && socket_ < 0; one = one->ai_next) {
    socket_ = ::socket(one->ai_family, one->ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, one->ai_protocol);
    if (socket_ < 0) {
      reason = errno;
      continue;
    }
    const int yes = 1;
    setsockopt(socket_, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
    if (::bind(socket_, one->ai_addr, one->ai_addrlen) == 0 && ::listen(socket_, SOMAXCONN) == 0) continue;
    reason = errno;
    ::close(socket_);
    socket_ = -1;
  }
  if (socket_ < 0) {
    throw Error(fmt::format("--host {} --port {}: {}: choose another --port, 0 for a free one", host, port,
                            std::generic_category().message(reason)));
  }
  sockaddr_storage address{};
  socklen_t size = sizeof(address);
  void* const place = &address;
  getsockname(socket_, static_cast<sockaddr*>(place), &size);
  std::array<char, NI_MAXHOST> numbers{};
  std::array<char, 16> service{};
  getnameinfo(static_cast<sockaddr*>(place), size, numbers.data(), numbers.size(), service.data(), service.size(),
              NI_NUMERICHOST | NI_NUMERICSERV);
  address_ = numbers.data();
  on_all_networks_ = address_ == "0.0.0.0" || address_ == "::";
  port_ = std::stoi(service.data());
  wake_ = eventfd(0, EFD_CLOEXEC);
}

Listener::~Listener() {
  ::close(socket_);
  if (wake_ >= 0) ::close(wake_);
}

std::string Listener::url() const {
  const bool numbers = host_.find(':') != std::string::npos;
  return numbers ? fmt::format("http://[{}]:{}", host_, port_) : fmt::format("http://{}:{}", host_, port_);
}

void Listener::start(int connection, const HttpExchange& exchange) {
  const int yes = 1;
  setsockopt(connection, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
  const auto client = std::make_shared<ConnectedClient>();
  client->await_request();
  {
    const std::scoped_lock lock(mutex_);
    connections_[connection] = client;
  }
  const auto end = [this, connection] {
    const std::scoped_lock lock(mutex_);
    connections_.erase(connection);
    ::close(connection);
    ended_.notify_all();
  };
  const bool started = start_thread([connection, client, &exchange, end] {
    try {
      serve_connection(connection, *client, exchange);
    } catch (const std::exception& error) {
      log_line(LogCategory::model, [&] { return fmt::format("a connection ended: {}", error.what()); });
    }
    end();
  });
  if (!started) end();
}

bool Listener::has_room() {
  const auto room = [&] { return connections_.size() < kMostConnections; };
  {
    const std::scoped_lock lock(mutex_);
    if (room()) return true;
  }
  close_oldest_waiting();
  std::unique_lock lock(mutex_);
  return ended_.wait_for(lock, std::chrono::milliseconds(100), room);
}

void Listener::close_oldest_waiting() {
  const std::scoped_lock lock(mutex_);
  const auto place = [](const auto& entry) { return std::pair(entry.second->began(), entry.second->since()); };
  auto oldest = connections_.end();
  for (auto one = connections_.begin(); one != connections_.end(); ++one) {
    if (!one->second->waits()) continue;
    if (oldest == connections_.end() || place(*one) < place(*oldest)) oldest = one;
  }
  if (oldest == connections_.end() || !oldest->second->give_up()) return;
  log_line(LogCategory::model, [&] {
    return fmt::format("{} connections are open: the one that has waited longest for its client gives way",
                       connections_.size());
  });
  ::shutdown(oldest->first, SHUT_RDWR);
}

void Listener::serve(const HttpExchange& exchange, const std::function<void()>& stopping, const std::stop_token& stop) {
  const std::stop_callback wake(stop, [this] {
    const std::uint64_t one = 1;
    [[maybe_unused]] const ssize_t written = ::write(wake_, &one, sizeof(one));
  });
  while (!stop.stop_requested()) {
    std::array<pollfd, 2> waits{{{socket_, POLLIN, 0}, {wake_, POLLIN, 0}}};
    if (poll(waits.data(), waits.size(), -1) <= 0 || waits[0].revents == 0) continue;
    if (!has_room()) continue;
    const int connection = accept4(socket_, nullptr, nullptr, SOCK_CLOEXEC);
    if (connection >= 0) {
      start(connection, exchange);
    } else if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
      std::unique_lock lock(mutex_);  // until a connection ends
      ended_.wait_for(lock, std::chrono::milliseconds(100));
    }
  }
  stopping();
  std::unique_lock lock(mutex_);
  for (const auto& [connection, client] : connections_) ::shutdown(connection, SHUT_RDWR);
  ended_.wait(lock, [&] { return connections_.empty(); });
}

}  // namespace foxscope
