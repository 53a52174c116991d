#include "backend/serve/http_exchange.h"

#include <httplib.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <exception>
#include <limits>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "backend/serve/completion_answer.h"

namespace foxscope {
namespace {

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
    if (!in_head_) return take(into, most);
    if (too_long_ || malformed_) return -1;
    const ssize_t came = take(into, 1);
    if (came == 1) note(*into);
    return too_long_ || malformed_ ? -1 : came;
  }
  ssize_t write(const char* bytes, std::size_t size) override {
    answered_ = true;
    return bytes_.write(bytes, size);
  }

  [[nodiscard]] bool gone() { return bytes_.gone(); }
  [[nodiscard]] bool too_long() const { return too_long_; }
  [[nodiscard]] bool late() const { return late_; }
  [[nodiscard]] bool began() const { return head_bytes_ > 0; }
  [[nodiscard]] bool answered() const { return answered_; }
  [[nodiscard]] bool in_head() const { return in_head_; }
  /// Nothing more is read on the connection once this is answered.
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
  void note(char byte) {
    ++head_bytes_;
    ++line_bytes_;
    too_long_ = head_bytes_ > kMostHeadBytes || line_bytes_ > kMostHeaderLine;
    if (byte == '\n') {
      // httplib would skip a line that ends otherwise, whatever it says.
      malformed_ = last_ != '\r';
      in_head_ = line_bytes_ != 2;
      line_bytes_ = 0;
    }
    last_ = byte;
  }

  ByteStream& bytes_;
  bool in_head_ = true;
  bool too_long_ = false;
  bool malformed_ = false;
  bool late_ = false;
  bool answered_ = false;
  bool closes_ = false;
  std::size_t head_bytes_ = 0;
  std::size_t line_bytes_ = 0;
  char last_ = 0;
};

/// httplib hands its handlers no connection: it is that of their thread.
thread_local BoundedStream* current = nullptr;

void put(const HttpAnswer& answer, httplib::Response& response) {
  response.status = answer.status;
  response.set_content(answer.body, "application/json");
  if (!answer.allow.empty()) response.set_header("Allow", answer.allow);
}

HttpAnswer refusal(int status, std::string_view code, std::string_view message) {
  return {status, error_answer(status, code, message), {}};
}

HttpRequest request_of(const httplib::Request& request) {
  BoundedStream* const stream = current;
  return {request.method, request.path, request.body, request.get_header_value("Authorization"),
          [stream] { return stream->gone(); }};
}

/// What the head says of the body's length; none for what is no number.
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
    const Handler answer = [this](const httplib::Request& request, httplib::Response& response) {
      put(handler_.answer(request_of(request)), response);
    };
    const char* const any = R"([\s\S]*)";
    Get(any, answer).Post(any, answer).Put(any, answer).Patch(any, answer).Delete(any, answer).Options(any, answer);
    set_exception_handler([](const httplib::Request&, httplib::Response& response, const std::exception_ptr&) {
      put(refusal(500, "internal_error", "the server failed at this request"), response);
    });
    set_error_handler([](const httplib::Request&, httplib::Response& response) { describe(response); });
    set_post_routing_handler([](const httplib::Request&, httplib::Response& response) {
      if (!current->closes()) return;
      response.headers.erase("Keep-Alive");
      response.headers.erase("Connection");
      response.set_header("Connection", "close");
    });
  }

  bool serve(BoundedStream& stream) {
    current = &stream;
    bool closed = false;
    const bool done = process_request(stream, false, closed, [](httplib::Request& request) {
      // Of these httplib makes something of its own: parts, forms, compression. A body is JSON, whatever they say.
      for (const char* name : {"Content-Type", "Accept-Encoding", "Range"}) request.headers.erase(name);
      request.ranges.clear();
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
    } else if (const HttpAnswer checked = handler_.check(request_of(request)); checked.status != 200) {
      // A short body is read, so that the connection can go on; httplib asks again then.
      if (reads_body(request) && !chunked && !expects && *length > 0 && *length <= kMostBodyBytes) return false;
      answer = checked;
    } else if (chunked || (request.method == "POST" && !request.has_header("Content-Length"))) {
      answer = refusal(411, "length_required", "Content-Length: the header is missing, send the body's length");
    } else if (request.has_header("Content-Encoding")) {
      answer = refusal(400, "bad_request", "Content-Encoding: send the body as it is");
    } else if (*length > kMostBodyBytes) {
      answer = refusal(413, "body_too_large",
                       fmt::format("the body has {} bytes, at most {} are read", *length, kMostBodyBytes));
    } else if (*length > 0 && !reads_body(request)) {
      answer = refusal(400, "bad_request", fmt::format("{}: expected no body", request.method));
    } else {
      return false;
    }
    if (answer.status == 411 || chunked || !length || *length > 0) current->close();
    put(answer, response);
    return true;
  }

  /// What httplib refused itself, without a word.
  static void describe(httplib::Response& response) {
    if (!response.body.empty()) return;
    current->close();
    HttpAnswer answer = refusal(400, "bad_request", "the request is not HTTP/1.1 as it is written");
    if (current->too_long()) {
      answer = refusal(431, "header_too_long",
                       fmt::format("the head of the request is too long: a line has at most {} bytes, all {}",
                                   kMostHeaderLine, kMostHeadBytes));
    } else if (current->late()) {
      answer = refusal(400, "bad_request", "the request did not come in time");
    } else if (response.status == 413) {
      answer = refusal(413, "body_too_large", fmt::format("the body: at most {} bytes are read", kMostBodyBytes));
    } else if (response.status == 404) {
      answer = refusal(404, "not_found", "there is no such path");
    }
    put(answer, response);
  }

  /// For a request line that httplib gave up on.
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
};

HttpExchange::HttpExchange(HttpHandler handler) : server_(std::make_unique<Server>(std::move(handler))) {}
HttpExchange::~HttpExchange() = default;

bool HttpExchange::serve(ByteStream& stream) const {
  BoundedStream bounded(stream);
  return server_->serve(bounded);
}

}  // namespace foxscope
