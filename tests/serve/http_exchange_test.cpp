// Requests as bytes, without a socket: what is read, what is bounded, and which connections go on.
#include "backend/serve/http_exchange.h"

#include <pthread.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace foxscope {
namespace {

class MemoryStream final : public ByteStream {
 public:
  explicit MemoryStream(std::string bytes) : bytes_(std::move(bytes)) {}
  ssize_t read(char* into, std::size_t most) override {
    if (place_ == bytes_.size() && late) return -1;
    const std::size_t size = std::min(most, bytes_.size() - place_);
    std::memcpy(into, bytes_.data() + place_, size);
    place_ += size;
    return static_cast<ssize_t>(size);
  }
  ssize_t write(const char* bytes, std::size_t size) override {
    answer.append(bytes, size);
    return static_cast<ssize_t>(size);
  }
  bool gone() override { return false; }

  std::string answer;
  bool late = false;  ///< no end comes, and nothing else
  [[nodiscard]] std::size_t taken() const { return place_; }

 private:
  std::string bytes_;
  std::size_t place_ = 0;
};

struct HttpExchanged {
  std::string status;
  bool goes_on = false;
  std::string answer;
};

HttpExchanged exchange(MemoryStream& stream) {
  const HttpExchange server(
      {[](const HttpRequest&) { return HttpAnswer{}; },
       [](const HttpRequest& request) {
         return HttpAnswer{200, '"' + request.method + ' ' + request.path + ' ' + request.body + '"'};
       }});
  const bool goes_on = server.serve(stream);
  return {stream.answer.substr(0, 12), goes_on, stream.answer};
}

HttpExchanged exchange(const std::string& bytes) {
  MemoryStream stream(bytes);
  return exchange(stream);
}

TEST(HttpExchange, RequestsFollowEachOtherOnAConnection) {
  MemoryStream stream("POST /a HTTP/1.1\r\nContent-Length: 3\r\n\r\nabcGET /b HTTP/1.1\r\n\r\n");
  HttpExchanged first = exchange(stream);
  EXPECT_EQ(first.status, "HTTP/1.1 200");
  EXPECT_TRUE(first.goes_on);
  EXPECT_TRUE(first.answer.ends_with("\"POST /a abc\""));
  stream.answer.clear();
  EXPECT_TRUE(exchange(stream).answer.ends_with("\"GET /b \""));
}

TEST(HttpExchange, HeadsAreBounded) {
  MemoryStream endless("GET / HTTP/1.1\r\nX: " + std::string(10'000'000, 'x'));
  const HttpExchanged line = exchange(endless);
  EXPECT_EQ(line.status, "HTTP/1.1 431");
  EXPECT_FALSE(line.goes_on);
  EXPECT_LE(endless.taken(), kMostHeaderLine + 100) << "the rest is not even read";
  std::string many = "GET / HTTP/1.1\r\n";
  for (int n = 0; n < 100'000; ++n) many += "X: y\r\n";
  EXPECT_EQ(exchange(many).status, "HTTP/1.1 431");
  EXPECT_EQ(exchange(std::string(100'000, 'G')).status, "HTTP/1.1 431");
}

/// Runs on a thread with a stack of so many bytes, beside those that the system needs.
void run_with_stack(std::size_t bytes, const std::function<void()>& body) {
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  ASSERT_EQ(pthread_attr_setstacksize(&attributes, bytes), 0);
  pthread_t thread{};
  const auto run = [](void* argument) -> void* {
    (*static_cast<const std::function<void()>*>(argument))();
    return nullptr;
  };
  ASSERT_EQ(pthread_create(&thread, &attributes, run, const_cast<std::function<void()>*>(&body)), 0);
  pthread_join(thread, nullptr);
  pthread_attr_destroy(&attributes);
}

TEST(HttpExchange, ItsDepthDoesNotGrowWithWhatItReads) {
  std::string ranges = "Range: bytes=0-0";
  while (ranges.size() < 8000) ranges += ",0-0";
  const std::string path = "/" + std::string(8000, 'a');
  const std::vector<std::string> requests = {
      "GET / HTTP/1.1\r\n" + ranges + "\r\n\r\n",
      "GET / HTTP/1.1\r\nrange: bytes=" + std::string(8000, '1') + "-\r\n\r\n",
      "GET " + path + " HTTP/1.1\r\n\r\n",
      "POST " + path + " HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}",
  };
  run_with_stack(std::size_t{256} << 10, [&] {
    for (const std::string& request : requests) {
      const HttpExchanged exchanged = exchange(request);
      EXPECT_EQ(exchanged.status, "HTTP/1.1 200");
      EXPECT_EQ(exchanged.answer.find("Content-Range"), std::string::npos);
    }
  });
  EXPECT_TRUE(exchange(requests[3]).answer.ends_with("\"POST " + path + " {}\""));
}

TEST(HttpExchange, HeadersOfARequestReachItsHandler) {
  HttpRequest got;
  const HttpExchange server({[](const HttpRequest&) { return HttpAnswer{}; },
                             [&](HttpRequest request) {
                               got = std::move(request);
                               return HttpAnswer{};
                             },
                             [](const HttpRequest& head) {
                               return std::vector<HttpHeader>{{"X-Of", head.origin}};
                             }});
  MemoryStream stream(
      "POST /a HTTP/1.1\r\nhost: a:1\r\nHost: b\r\nOrigin: http://c\r\nSec-Fetch-Site: same-site\r\n"
      "Authorization: Bearer d\r\nContent-Type: text/plain\r\nContent-Length: 1\r\n\r\ne");
  EXPECT_TRUE(server.serve(stream));
  EXPECT_EQ(got.host, "a:1, b");
  EXPECT_EQ(got.origin, "http://c");
  EXPECT_EQ(got.fetch_site, "same-site");
  EXPECT_EQ(got.authorization, "Bearer d");
  EXPECT_EQ(got.content_type, "text/plain");
  EXPECT_EQ(got.body, "e");
  EXPECT_NE(stream.answer.find("X-Of: http://c\r\n"), std::string::npos);
}

TEST(HttpExchange, LongBodiesOfRefusedRequestsAreNotRead) {
  const HttpExchange server({[](const HttpRequest&) {
                               return HttpAnswer{404, "{}"};
                             },
                             [](const HttpRequest&) {
                               return HttpAnswer{404, "{}"};
                             }});
  const auto refused = [&](std::size_t size) {
    MemoryStream stream("POST /a HTTP/1.1\r\nContent-Length: " + std::to_string(size) + "\r\n\r\n" +
                        std::string(size, ' '));
    const bool goes_on = server.serve(stream);
    EXPECT_EQ(stream.answer.substr(0, 12), "HTTP/1.1 404");
    return std::pair(goes_on, stream.taken() > size);
  };
  EXPECT_EQ(refused(kShortBodyBytes), std::pair(true, true));
  EXPECT_EQ(refused(kShortBodyBytes + 1), std::pair(false, false));
}

TEST(HttpExchange, WhatHasNoLengthIsRefused) {
  EXPECT_EQ(exchange("POST / HTTP/1.1\r\n\r\nabc").status, "HTTP/1.1 411");
  EXPECT_EQ(exchange("POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n").status,
            "HTTP/1.1 411");
  EXPECT_EQ(exchange("POST / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab").status, "HTTP/1.1 400");
  EXPECT_EQ(exchange("POST / HTTP/1.1\r\nContent-Length: 18446744073709551616\r\n\r\na").status, "HTTP/1.1 413");
  EXPECT_EQ(exchange("POST / HTTP/1.1\r\nContent-Length: 8388609\r\n\r\na").status, "HTTP/1.1 413");
}

TEST(HttpExchange, ABodyThatDoesNotComeIsAnError) {
  MemoryStream stream("POST / HTTP/1.1\r\nContent-Length: 10\r\n\r\nabc");
  stream.late = true;
  const HttpExchanged late = exchange(stream);
  EXPECT_EQ(late.status, "HTTP/1.1 400");
  EXPECT_NE(late.answer.find("did not come in time"), std::string::npos);
  EXPECT_FALSE(late.goes_on);
}

TEST(HttpExchange, AnEmptyConnectionIsNoRequest) {
  const HttpExchanged nothing = exchange("");
  EXPECT_EQ(nothing.answer, "");
  EXPECT_FALSE(nothing.goes_on);
}

}  // namespace
}  // namespace foxscope
