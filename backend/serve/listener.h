#pragma once

#include <condition_variable>
#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <stop_token>
#include <string>
#include <vector>

#include "backend/serve/http_exchange.h"

namespace foxscope {

class ConnectedClient;

/// A socket that waits for connections, and a thread for each that comes, with a stack of its own size. No more than
/// `kMostConnections` are open at once; for one more, the connection that has waited longest for its client's next
/// request is closed, else the one that has waited longest for the rest of a request. While all are being answered,
/// others wait in the system's queue.
class Listener {
 public:
  /// @param port  0: a free one
  /// @throws Error naming host and port where they cannot be had
  Listener(const std::string& host, int port);
  ~Listener();
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  [[nodiscard]] int port() const { return port_; }
  /// "http://127.0.0.1:8080"
  [[nodiscard]] std::string url() const;

  /// The host as it was given, and the address in numbers that it stands for.
  [[nodiscard]] std::vector<std::string> names() const { return {host_, address_}; }
  /// Whether it listens on all addresses of this machine.
  [[nodiscard]] bool on_all_networks() const { return on_all_networks_; }

  /// Takes connections until it is asked to stop; then closes them all and waits for their threads.
  /// @param stopping  called when it is asked to stop, before it waits
  void serve(const HttpExchange& exchange, const std::function<void()>& stopping, const std::stop_token& stop);

 private:
  void start(int connection, const HttpExchange& exchange);
  /// Whether one connection more may be open; makes room for it if it can.
  bool has_room();
  void close_oldest_waiting();

  std::string host_;
  std::string address_;
  bool on_all_networks_ = false;
  int port_ = 0;
  int socket_ = -1;
  int wake_ = -1;  ///< becomes readable when it is time to stop
  std::mutex mutex_;
  std::condition_variable ended_;
  std::map<int, std::shared_ptr<ConnectedClient>> connections_;  ///< by socket
};

/// Whether only programs of this machine reach a host's address.
bool is_loopback(const std::string& host);

}  // namespace foxscope
