#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace foxscope {

/// Bytes that are taken in for one request.
inline constexpr std::size_t kMostBodyBytes = std::size_t{8} << 20;
inline constexpr std::size_t kMostHeadBytes = std::size_t{64} << 10;
inline constexpr std::size_t kMostHeaderLine = std::size_t{8} << 10;

/// A connection, or what stands for one in tests: bytes in, bytes out.
class ByteStream {
 public:
  virtual ~ByteStream() = default;
  /// @returns bytes that came, 0 at the end, below 0 where none come in time
  virtual ssize_t read(char* into, std::size_t most) = 0;
  /// @returns bytes that were taken, below 0 where none are any more
  virtual ssize_t write(const char* bytes, std::size_t size) = 0;
  /// Whether nobody waits for an answer any more.
  virtual bool gone() = 0;
};

struct HttpRequest {
  std::string method;
  std::string path;
  std::string body;
  std::string authorization;
  std::function<bool()> gone;  ///< whether the client has left
};

/// Its body is JSON.
struct HttpAnswer {
  int status = 200;
  std::string body;
  std::string allow;  ///< methods, for 405
};

/// What a server answers. Called on the threads of the connections.
struct HttpHandler {
  /// Whether a request would be refused for its path, method or authorization, whatever its body; 200: it would not.
  std::function<HttpAnswer(const HttpRequest& head)> check;
  std::function<HttpAnswer(const HttpRequest& request)> answer;
};

/// HTTP/1.1 by cpp-httplib, with bounds on everything that it takes in: the head, its lines, the body. Each refusal is
/// answered in JSON.
class HttpExchange {
 public:
  explicit HttpExchange(HttpHandler handler);
  ~HttpExchange();
  HttpExchange(const HttpExchange&) = delete;
  HttpExchange& operator=(const HttpExchange&) = delete;

  /// Reads a request and answers it.
  /// @returns whether another may follow on the connection
  bool serve(ByteStream& stream) const;

 private:
  class Server;
  std::unique_ptr<Server> server_;
};

}  // namespace foxscope
