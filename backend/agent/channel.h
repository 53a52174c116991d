#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "backend/agent/message.h"

namespace foxscope::agent {

/// The other side is gone, or was cut off.
class ConnectionEnded : public Error {
 public:
  using Error::Error;
};

/// Wakes who waits for a descriptor: once it was called, everything that waits ends. Safe to call from several threads.
class Wake {
 public:
  Wake();
  ~Wake();
  Wake(const Wake&) = delete;
  Wake& operator=(const Wake&) = delete;
  void call() const;
  /// Waits until something can be read from a descriptor, or its other end is closed.
  /// @returns false once it was called
  [[nodiscard]] bool wait_for(int descriptor) const;

 private:
  int descriptor_;
};

/// Messages over two pipes, one each way. One thread reads; any may send.
class Channel {
 public:
  /// The descriptors stay open when the object goes.
  Channel(int in, int out) : in_(in), out_(out) {}

  /// Ends who reads, now and later, as if the other side had ended.
  void stop_reading() const { wake_.call(); }

  /// Compresses parts from now on, where the other side takes them so.
  void compress() { packing_ = Packing::zstd; }

  /// @throws ConnectionEnded where nobody reads any more; Error for a message that is too large
  void send(const Message& message);

  /// The next message; none where the other side has ended between two of them.
  /// @throws ProtocolError for what is no message, ConnectionEnded where one is cut short
  std::optional<Message> receive();

  /// Reads until the other side's first message begins, which says "foxscope_agent": a login shell may print a banner
  /// before.
  /// @returns what came before it, of at most kMostBanner bytes
  /// @throws ConnectionEnded or ProtocolError where no message comes, with what came instead
  std::string skip_banner();
  static constexpr std::size_t kMostBanner = std::size_t{64} << 10;

  [[nodiscard]] std::uint64_t bytes_received() const { return received_; }
  [[nodiscard]] std::uint64_t bytes_sent() const { return sent_; }

 private:
  [[nodiscard]] std::size_t read_some(std::byte* bytes, std::size_t size);
  [[nodiscard]] std::size_t read_up_to(std::byte* bytes, std::size_t size);
  void read_all(std::byte* bytes, std::size_t size);

  int in_;
  int out_;
  Wake wake_;
  std::vector<std::byte> ahead_;  ///< bytes of the first message that were read with the banner
  std::size_t used_ = 0;          ///< of them
  std::atomic<Packing> packing_ = Packing::none;
  std::mutex sending_;
  std::atomic<std::uint64_t> received_ = 0;
  std::atomic<std::uint64_t> sent_ = 0;
};

}  // namespace foxscope::agent
