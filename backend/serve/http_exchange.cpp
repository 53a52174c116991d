#include "backend/serve/http_exchange.h"

#include <httplib.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <exception>
#include <limits>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "backend/serve/byte_budget.h"
#include "backend/serve/completion_answer.h"
#include "backend/serve/refused_request.h"

namespace foxscope {
namespace {

/// The path that httplib is shown for every path.
constexpr const char* kAnyPath = "/";
/// A client waits as long before it sends the next request.
constexpr time_t kKeepAliveSeconds = 75;

/// A connection as httplib reads it: within the bounds of a head, beyond which nothing more comes.
class BoundedStream final : public httplib::Stream {
 public:
  explicit BoundedStream(ByteStream& bytes) : bytes_(bytes) {}

  [[nodiscard]] bool is_readable() const override { return true; }
  [[nodiscard]] bool is_writable() const override { return true; }
  void get_remote_ip_and_port(std::string& ip, int& port) const override { unknown(ip, port); }
  void get_local_ip_and_port(std::string& ip, int& port) const override { unknown(ip, port); }
  /// httplib refuses connections by the number of their file, which is not read through here.
  [[nodiscard]] socket_t socket() const override { return 0; }

  ssize_t read(char* into, std::size_t most) override {
    if (line_.empty() && in_head_) next_line();
    if (line_.empty()) return in_head_ ? end_of_head_ : take(into, most);
    const std::size_t size = std::min(most, line_.size());
    line_.copy(into, size);
    line_.erase(0, size);
    return static_cast<ssize_t>(size);
  }
  ssize_t write(const char* bytes, std::size_t size) override {
    answered_ = true;
    return bytes_.write(bytes, size);
  }

  [[nodiscard]] bool gone() { return bytes_.gone(); }
  void await_body() { bytes_.await_body(); }
  [[nodiscard]] bool too_long() const { return too_long_; }
  [[nodiscard]] bool late() const { return late_; }
  [[nodiscard]] bool began() const { return head_bytes_ > 0; }
  [[nodiscard]] bool answered() const { return answered_; }
  [[nodiscard]] bool in_head() const { return in_head_; }
  /// Closes the connection once this is answered: nothing more is read on it.
  void close() { closes_ = true; }
  [[nodiscard]] bool closes() const { return closes_; }

 private:
  static void unknown(std::string& ip, int& port) {
    ip.clear();
    port = 0;
  }
  ssize_t take(char* into, std::size_t most) {
    const ssize_t came = bytes_.read(into, most);
    late_ = late_ || came < 0;
    return came;
  }
  /// Reads the next line of the head, the last of which is empty. httplib is not shown Range headers: it would read
  /// them with a regular expression, and answer parts.
  void next_line() {
    do {
      line_.clear();
      while (!line_.ends_with('\n')) {
        char byte = 0;
        end_of_head_ = too_long_ || malformed_ ? -1 : take(&byte, 1);
        if (end_of_head_ <= 0) return void(line_.clear());
        line_ += byte;
        ++head_bytes_;
        too_long_ = head_bytes_ > kMostHeadBytes || line_.size() > kMostHeaderLine;
        // httplib would skip a line that ends otherwise, whatever it says.
        malformed_ = byte == '\n' && !line_.ends_with("\r\n");
      }
      if (too_long_ || malformed_) {
        end_of_head_ = -1;
        return void(line_.clear());
      }
    } while (is_range(line_));
    in_head_ = line_ != "\r\n";
  }
  static bool is_range(std::string_view line) {
    constexpr std::string_view kName = "range:";
    return std::ranges::equal(line.substr(0, kName.size()), kName,
                              [](unsigned char given, char wanted) { return std::tolower(given) == wanted; });
  }

  ByteStream& bytes_;
  bool in_head_ = true;
  bool too_long_ = false;
  bool malformed_ = false;
  bool late_ = false;
  bool answered_ = false;
  bool closes_ = false;
  std::size_t head_bytes_ = 0;
  std::string line_;         ///< of the head, as far as httplib has not read it
  ssize_t end_of_head_ = 0;  ///< why there is no further line
};

/// A request and the connection that it comes on.
struct Exchanged {
  BoundedStream& stream;
  HttpRequest head;
  std::shared_ptr<const void> body_held = {};  ///< until the answer is sent
  std::shared_ptr<const void> answer_held = {};
};

/// httplib hands its handlers no connection: it is that of their thread.
thread_local Exchanged* current = nullptr;

void put(HttpAnswer answer, httplib::Response& response) {
  response.status = answer.status;
  response.body = std::move(answer.body);
  current->answer_held = std::move(answer.held);
  response.set_header("Content-Type", "application/json");
  if (!answer.allow.empty()) response.set_header("Allow", answer.allow);
}

HttpAnswer refusal(int status, std::string_view code, std::string_view message) {
  return {status, error_answer(status, code, message), {}, {}};
}

std::string header_of(const httplib::Request& request, const char* name) {
  std::string all;
  for (std::size_t n = 0; n < request.get_header_value_count(name); ++n) {
    all += (n > 0 ? ", " : "") + request.get_header_value(name, n);
  }
  return all;
}

/// Whether a body is compressed or otherwise not sent as it is.
bool is_encoded(const httplib::Request& request) {
  constexpr std::string_view kAsItIs = "identity";
  return request.has_header("Content-Encoding") &&
         !std::ranges::equal(header_of(request, "Content-Encoding"), kAsItIs,
                             [](unsigned char given, char wanted) { return std::tolower(given) == wanted; });
}

HttpRequest head_of(const httplib::Request& request, BoundedStream& stream) {
  return {.method = request.method,
          .path = request.path,
          .body = {},
          .authorization = header_of(request, "Authorization"),
          .content_type = header_of(request, "Content-Type"),
          .host = header_of(request, "Host"),
          .origin = header_of(request, "Origin"),
          .fetch_site = header_of(request, "Sec-Fetch-Site"),
          .gone = [&stream] { return stream.gone(); }};
}

/// The length of the body that the head gives; none for what is no number.
std::optional<std::uint64_t> length_of(const httplib::Request& request) {
  const std::size_t count = request.get_header_value_count("Content-Length");
  if (count == 0) return 0;
  const std::string text = request.get_header_value("Content-Length");
  std::uint64_t length = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), length);
  if (count > 1 || text.empty() || end != text.data() + text.size()) return std::nullopt;
  return error == std::errc::result_out_of_range ? std::numeric_limits<std::uint64_t>::max() : length;
}

/// Whether httplib reads the body of such a request.
bool reads_body(const httplib::Request& request) {
  constexpr std::array<std::string_view, 4> kMethods = {"POST", "PUT", "PATCH", "DELETE"};
  return std::ranges::find(kMethods, request.method) != kMethods.end();
}

}  // namespace

/// httplib's part: request lines, headers, bodies, answers. Its sockets and threads are not used.
class HttpExchange::Server final : public httplib::Server {
 public:
  explicit Server(HttpHandler handler) : handler_(std::move(handler)) {
    set_payload_max_length(kMostBodyBytes);
    set_keep_alive_timeout(kKeepAliveSeconds);
    set_keep_alive_max_count(1'000'000);
    set_pre_routing_handler([this](const httplib::Request& request, httplib::Response& response) {
      return refuse(request, response) ? HandlerResponse::Handled : HandlerResponse::Unhandled;
    });
    set_expect_100_continue_handler([this](const httplib::Request& request, httplib::Response& response) {
      return refuse(request, response) ? response.status : 100;
    });
    const Handler answer = [this](const httplib::Request&, httplib::Response& response) {
      put(handler_.answer(current->head), response);
    };
    const HandlerWithContentReader answer_body = [this](const httplib::Request& request, httplib::Response& response,
                                                        const httplib::ContentReader& reader) {
      read_and_answer(request, response, reader);
    };
    Get(kAnyPath, answer).Options(kAnyPath, answer);
    Post(kAnyPath, answer_body).Put(kAnyPath, answer_body);
    Patch(kAnyPath, answer_body).Delete(kAnyPath, answer_body);
    set_exception_handler([](const httplib::Request&, httplib::Response& response, const std::exception_ptr&) {
      put(refusal(500, "internal_error", "the server failed at this request"), response);
    });
    set_error_handler([](const httplib::Request&, httplib::Response& response) { describe(response); });
    set_post_routing_handler([this](const httplib::Request&, httplib::Response& response) {
      if (handler_.headers) {
        for (const HttpHeader& header : handler_.headers(current->head)) response.set_header(header.name, header.value);
      }
      if (!current->stream.closes()) return;
      response.headers.erase("Keep-Alive");
      response.headers.erase("Connection");
      response.set_header("Connection", "close");
    });
  }

  bool serve(BoundedStream& stream) {
    Exchanged exchanged{stream, {}};
    current = &exchanged;
    bool closed = false;
    const bool done = process_request(stream, false, closed, [&](httplib::Request& request) {
      exchanged.head = head_of(request, stream);
      // httplib treats these in its own way: parts, forms, compression. A body is JSON, whatever they say.
      for (const char* name : {"Content-Type", "Accept-Encoding"}) request.headers.erase(name);
      // It would be matched against a regular expression for each method.
      request.path = kAnyPath;
    });
    if (!done && !stream.answered() && stream.began()) answer_broken(stream);
    current = nullptr;
    return done && !closed && !stream.closes() && !stream.late();
  }

 private:
  /// Answers what can be refused before the body is read.
  bool refuse(const httplib::Request& request, httplib::Response& response) {
    const bool chunked = request.has_header("Transfer-Encoding");
    const std::optional<std::uint64_t> length = length_of(request);
    const bool expects = request.has_header("Expect");
    HttpAnswer answer;
    if (!length) {
      answer = refusal(400, "bad_request", "Content-Length: expected one number");
    } else if (const HttpAnswer checked = handler_.check(current->head); checked.status != 200) {
      // A short body is read, so that the connection can go on; the handler is asked again then.
      if (reads_body(request) && !chunked && !expects && *length > 0 && *length <= kShortBodyBytes) return false;
      answer = checked;
    } else if (chunked || (request.method == "POST" && !request.has_header("Content-Length"))) {
      answer = refusal(411, "length_required", "Content-Length: the header is missing, send the body's length");
    } else if (is_encoded(request)) {
      answer = refusal(400, "bad_request", "Content-Encoding: send the body as it is");
    } else if (*length > kMostBodyBytes) {
      answer = refusal(413, "body_too_large",
                       fmt::format("the body has {} bytes, at most {} are read", *length, kMostBodyBytes));
    } else if (*length > 0 && !reads_body(request)) {
      answer = refusal(400, "bad_request", fmt::format("{}: expected no body", request.method));
    } else {
      return false;
    }
    if (answer.status == 411 || chunked || !length || *length > 0) current->stream.close();
    put(std::move(answer), response);
    return true;
  }

  /// Reads a body of known length as soon as it may be held, and answers its request.
  void read_and_answer(const httplib::Request& request, httplib::Response& response,
                       const httplib::ContentReader& reader) {
    HttpRequest whole = current->head;
    const std::size_t length = length_of(request).value_or(0);
    current->body_held = bodies_.take(length, whole.gone);
    if (current->body_held == nullptr) {
      current->stream.close();
      const RefusedRequest dropped = dropped_request();
      return put(refusal(dropped.status(), dropped.code(), dropped.what()), response);
    }
    current->stream.await_body();
    whole.body.reserve(length);
    const bool came = length == 0 || reader([&](const char* bytes, std::size_t size) {
                        whole.body.append(bytes, size);
                        return true;
                      });
    if (came) put(handler_.answer(std::move(whole)), response);
  }

  /// Describes a refusal by httplib itself, which has no body.
  static void describe(httplib::Response& response) {
    if (!response.body.empty()) return;
    BoundedStream& stream = current->stream;
    stream.close();
    HttpAnswer answer = refusal(400, "bad_request", "the request is not valid HTTP/1.1");
    if (stream.too_long()) {
      answer = refusal(431, "header_too_long",
                       fmt::format("the head of the request is too long: a line has at most {} bytes, all {}",
                                   kMostHeaderLine, kMostHeadBytes));
    } else if (stream.late()) {
      answer = refusal(400, "bad_request", "the request did not come in time");
    } else if (response.status == 413) {
      answer = refusal(413, "body_too_large", fmt::format("the body: at most {} bytes are read", kMostBodyBytes));
    } else if (response.status == 404) {
      answer = refusal(404, "not_found", "there is no such path");
    }
    put(std::move(answer), response);
  }

  /// Answers a request line that httplib gave up on.
  static void answer_broken(BoundedStream& stream) {
    httplib::Response response;
    stream.close();
    response.status = 400;
    describe(response);
    const std::string text = fmt::format(
        "HTTP/1.1 {} Refused\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{}",
        response.status, response.body.size(), response.body);
    for (std::size_t sent = 0; sent < text.size();) {
      const ssize_t taken = stream.write(text.data() + sent, text.size() - sent);
      if (taken <= 0) return;
      sent += static_cast<std::size_t>(taken);
    }
  }

  HttpHandler handler_;
  ByteBudget bodies_{kAllBodiesBytes, kShortBodyBytes};
};

HttpExchange::HttpExchange(HttpHandler handler) : server_(std::make_unique<Server>(std::move(handler))) {}
HttpExchange::~HttpExchange() = default;

bool HttpExchange::serve(ByteStream& stream) const {
  BoundedStream bounded(stream);
  return server_->serve(bounded);
}

}  // namespace foxscope
