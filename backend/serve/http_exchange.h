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
/// A body that is refused is read all the same if it is no longer, so that its connection goes on.
inline constexpr std::size_t kShortBodyBytes = std::size_t{64} << 10;
/// Bodies of all connections together, from when they are read until they are answered; short ones are not counted.
inline constexpr std::size_t kAllBodiesBytes = std::size_t{64} << 20;

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
  /// The body has its time to come from now on: it was not read before.
  virtual void await_body() {}
};

struct HttpRequest {
  std::string method = {};
  std::string path = {};
  std::string body = {};
  // Headers; empty where there are none, joined by ", " where there are several of one name.
  std::string authorization = {};
  std::string content_type = {};
  std::string host = {};
  std::string origin = {};
  std::string fetch_site = {};      ///< Sec-Fetch-Site
  std::function<bool()> gone = {};  ///< whether the client has left
};

struct HttpHeader {
  std::string name;
  std::string value;
};

/// An answer whose body is JSON.
struct HttpAnswer {
  int status = 200;
  std::string body = {};
  std::string allow = {};                 ///< methods, for 405
  std::shared_ptr<const void> held = {};  ///< goes away when the answer is sent
};

/// The handler of a server's requests. Called on the threads of the connections.
struct HttpHandler {
  /// Whether a request would be refused for its head, whatever its body; 200: it would not.
  std::function<HttpAnswer(const HttpRequest& head)> check;
  std::function<HttpAnswer(HttpRequest request)> answer;
  /// Headers that every answer to a request has, whether it is refused or not.
  std::function<std::vector<HttpHeader>(const HttpRequest& head)> headers = {};
};

/// HTTP/1.1 by cpp-httplib, with bounds on everything that it takes in: the head, its lines, the body, all bodies
/// together. Each refusal is answered in JSON. httplib's regular expressions, whose depth grows with what they read,
/// see nothing that a client wrote.
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
