#pragma once

#include <condition_variable>
#include <cstddef>
#include <functional>
#include <mutex>
#include <set>
#include <stop_token>
#include <string>

#include "backend/serve/http_exchange.h"

namespace foxscope {

/// A socket that waits for connections, and a thread for each that comes. No more than `kMostConnections` are open at
/// once; others wait in the system's queue.
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

  /// Takes connections until it is asked to stop; then closes them all and waits for their threads.
  /// @param stopping  called when it is asked to stop, before it waits
  void serve(const HttpExchange& exchange, const std::function<void()>& stopping, const std::stop_token& stop);

 private:
  void start(int connection, const HttpExchange& exchange);

  std::string host_;
  int port_ = 0;
  int socket_ = -1;
  int wake_ = -1;  ///< becomes readable when it is time to stop
  std::mutex mutex_;
  std::condition_variable ended_;
  std::set<int> connections_;
};

/// Whether only programs of this machine reach a host's address.
bool is_loopback(const std::string& host);

}  // namespace foxscope
