#include "backend/agent/channel.h"

#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <ctime>
#include <span>
#include <utility>

#include <fmt/format.h>

namespace foxscope::agent {
namespace {

constexpr std::string_view kFirstWords = R"({"foxscope_agent":)";
/// Parts are read in pieces, so that a message that promises much and is cut short takes no memory.
constexpr std::size_t kPiece = std::size_t{1} << 20;

/// Writes all of it. Where nobody reads, the system's signal ends no process.
/// @returns 0, or the system's error number
int write_whole(int descriptor, std::span<const std::byte> bytes) {
  sigset_t pipe;
  sigset_t before;
  sigemptyset(&pipe);
  sigaddset(&pipe, SIGPIPE);
  pthread_sigmask(SIG_BLOCK, &pipe, &before);
  int error = 0;
  while (!bytes.empty() && error == 0) {
    const ssize_t written = ::write(descriptor, bytes.data(), bytes.size());
    if (written >= 0) {
      bytes = bytes.subspan(static_cast<std::size_t>(written));
    } else if (errno != EINTR) {
      error = errno;
    }
  }
  if (error == EPIPE && sigismember(&before, SIGPIPE) == 0) {
    const timespec none{};
    sigtimedwait(&pipe, nullptr, &none);
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return error;
}

}  // namespace

Wake::Wake() : descriptor_(eventfd(0, EFD_CLOEXEC)) {
  if (descriptor_ < 0) throw Error(fmt::format("no event can be made: {}", std::strerror(errno)));
}

Wake::~Wake() { close(descriptor_); }

void Wake::call() const {
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(descriptor_, &one, sizeof one);
}

bool Wake::wait_for(int descriptor) const {
  pollfd polled[] = {{descriptor, POLLIN, 0}, {descriptor_, POLLIN, 0}};
  while (poll(polled, 2, -1) < 0 && errno == EINTR) {
  }
  return polled[1].revents == 0;
}

void Channel::send(const Message& message) {
  const std::vector<std::byte> bytes = encoded(message, packing_);
  const std::lock_guard lock(sending_);
  if (const int error = write_whole(out_, bytes); error != 0) {
    throw ConnectionEnded(fmt::format("the connection has ended ({})", std::strerror(error)));
  }
  sent_ += bytes.size();
}

std::size_t Channel::read_some(std::byte* bytes, std::size_t size) {
  if (used_ < ahead_.size()) {
    const std::size_t taken = std::min(size, ahead_.size() - used_);
    std::copy_n(ahead_.begin() + static_cast<std::ptrdiff_t>(used_), taken, bytes);
    used_ += taken;
    return taken;
  }
  while (wake_.wait_for(in_)) {
    const ssize_t got = ::read(in_, bytes, size);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return 0;
    received_ += static_cast<std::uint64_t>(got);
    return static_cast<std::size_t>(got);
  }
  return 0;
}

std::size_t Channel::read_up_to(std::byte* bytes, std::size_t size) {
  std::size_t done = 0;
  while (done < size) {
    const std::size_t got = read_some(bytes + done, size - done);
    if (got == 0) break;
    done += got;
  }
  return done;
}

void Channel::read_all(std::byte* bytes, std::size_t size) {
  if (read_up_to(bytes, size) != size) throw ConnectionEnded("the connection ended in the middle of a message");
}

std::optional<Message> Channel::receive() {
  std::uint32_t length = 0;
  const std::size_t got = read_up_to(reinterpret_cast<std::byte*>(&length), sizeof length);
  if (got == 0) return std::nullopt;
  if (got != sizeof length) throw ConnectionEnded("the connection ended in the middle of a message");
  if (length > kMostHeader) {
    throw ProtocolError(fmt::format("a message's header is {} bytes long, more than {}", length, kMostHeader));
  }
  std::string text(length, '\0');
  read_all(reinterpret_cast<std::byte*>(text.data()), text.size());
  Message message;
  message.header = parse_header(text);
  for (const StoredPart& described : take_part_list(message.header)) {
    std::vector<std::byte> stored;
    while (stored.size() < described.stored) {
      const std::size_t begin = stored.size();
      stored.resize(std::min(described.stored, begin + kPiece));
      read_all(stored.data() + begin, stored.size() - begin);
    }
    message.parts.push_back(unpacked(described, std::move(stored)));
  }
  return message;
}

std::string Channel::skip_banner() {
  constexpr std::size_t kLength = sizeof(std::uint32_t);
  std::string came;
  std::size_t begin = std::string::npos;
  while (true) {
    begin = came.find(kFirstWords, kLength);
    if (begin != std::string::npos || came.size() > kMostBanner + kFirstWords.size()) break;
    char piece[4096];
    const std::size_t got = read_some(reinterpret_cast<std::byte*>(piece), sizeof piece);
    if (got == 0) throw ConnectionEnded(came);
    came.append(piece, got);
  }
  if (begin == std::string::npos) throw ProtocolError(came);
  const std::size_t first = begin - kLength;
  const auto bytes = std::as_bytes(std::span(came)).subspan(first);
  ahead_.assign(bytes.begin(), bytes.end());
  used_ = 0;
  return came.substr(0, first);
}

}  // namespace foxscope::agent
