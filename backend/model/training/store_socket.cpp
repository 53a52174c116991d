#include "backend/model/training/store_socket.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

#include <fmt/format.h>

#include "backend/base/error.h"
#include "backend/base/log.h"

namespace foxscope {
namespace {

struct SocketAddress {
  sockaddr_storage storage = {};
  socklen_t size = 0;

  [[nodiscard]] int family() const { return storage.ss_family; }
  [[nodiscard]] const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }

  [[nodiscard]] std::string text() const {
    char name[NI_MAXHOST] = "?";
    getnameinfo(get(), size, name, sizeof(name), nullptr, 0, NI_NUMERICHOST);
    return name;
  }
  [[nodiscard]] bool is_loopback() const {
    if (family() == AF_INET6) return IN6_IS_ADDR_LOOPBACK(&reinterpret_cast<const sockaddr_in6*>(&storage)->sin6_addr);
    constexpr unsigned kLoopbackNet = 127;
    return ntohl(reinterpret_cast<const sockaddr_in*>(&storage)->sin_addr.s_addr) >> 24U == kLoopbackNet;
  }
};

/// @param host   null: all interfaces
/// @param flags  of getaddrinfo
/// @returns those of IPv6 first, as LibTorch's store tries them; empty where there is none, with the reason in `failed`
std::vector<SocketAddress> addresses_of(const char* host, int port, int flags, int& failed) {
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  failed = getaddrinfo(host, std::to_string(port).c_str(), &hints, &found);
  if (failed != 0) return {};
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owner(found, freeaddrinfo);
  std::vector<SocketAddress> addresses;
  for (const addrinfo* one = found; one != nullptr; one = one->ai_next) {
    if (one->ai_family != AF_INET && one->ai_family != AF_INET6) continue;
    SocketAddress& address = addresses.emplace_back();
    address.size = one->ai_addrlen;
    std::memcpy(&address.storage, one->ai_addr, one->ai_addrlen);
  }
  std::stable_partition(addresses.begin(), addresses.end(),
                        [](const SocketAddress& address) { return address.family() == AF_INET6; });
  return addresses;
}

/// @returns nothing where the address is no interface's of this node
std::optional<int> listen_at(const SocketAddress& address, const DistributedConfig& distributed) {
  const int one = 1;
  const int zero = 0;
  const int opened = ::socket(address.family(), SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (opened < 0) return std::nullopt;
  ::setsockopt(opened, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
  if (address.family() == AF_INET6) ::setsockopt(opened, IPPROTO_IPV6, IPV6_V6ONLY, &zero, sizeof(zero));
  if (::bind(opened, address.get(), address.size) == 0 && ::listen(opened, SOMAXCONN) == 0) return opened;
  const int failed = errno;
  ::close(opened);
  if (failed == EADDRNOTAVAIL) return std::nullopt;
  if (failed == EADDRINUSE) {
    throw Error(
        fmt::format("process {} of {}: port {} of {} is taken, perhaps by another job of this node: give each job a "
                    "MASTER_PORT of its own",
                    distributed.rank, distributed.world_size, distributed.port, distributed.host));
  }
  throw Error(fmt::format("process {} of {}: port {} of {} cannot be opened ({}): set another MASTER_PORT",
                          distributed.rank, distributed.world_size, distributed.port, distributed.host,
                          std::generic_category().message(failed)));
}

/// Whether the others mean the same addresses as this node does.
bool means_the_same_everywhere(const DistributedConfig& distributed, const std::vector<SocketAddress>& addresses) {
  int failed = 0;
  if (distributed.one_node || distributed.host == "localhost") return true;
  if (!addresses_of(distributed.host.c_str(), distributed.port, AI_NUMERICHOST, failed).empty()) return true;
  return addresses.size() == 1 && !addresses.front().is_loopback();
}

}  // namespace

int open_store_socket(const DistributedConfig& distributed) {
  int failed = 0;
  const std::vector<SocketAddress> addresses = addresses_of(distributed.host.c_str(), distributed.port, 0, failed);
  if (addresses.empty()) {
    throw Error(fmt::format("process {} of {}: MASTER_ADDR {}: {}: name this node", distributed.rank,
                            distributed.world_size, distributed.host, gai_strerror(failed)));
  }
  if (means_the_same_everywhere(distributed, addresses)) {
    for (const SocketAddress& address : addresses) {
      const std::optional<int> opened = listen_at(address, distributed);
      if (!opened) continue;
      log_line(LogCategory::model, [&] {
        return fmt::format("the store where processes meet listens at {} port {}", address.text(), distributed.port);
      });
      return *opened;
    }
  }
  for (const SocketAddress& all : addresses_of(nullptr, distributed.port, AI_PASSIVE, failed)) {
    const std::optional<int> opened = listen_at(all, distributed);
    if (!opened) continue;
    log_line(LogCategory::model, [&] {
      return fmt::format("the store where processes meet listens on all interfaces, port {}: {} may mean several",
                         distributed.port, distributed.host);
    });
    return *opened;
  }
  throw Error(fmt::format("process {} of {}: no interface of this node can be listened on", distributed.rank,
                          distributed.world_size));
}

}  // namespace foxscope
