// Requests as bytes, without a socket: what is read, what is bounded, and which connections go on.
#include "backend/serve/http_exchange.h"

#include <algorithm>
#include <cstring>

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
         return HttpAnswer{200, '"' + request.method + ' ' + request.path + ' ' + request.body + '"', {}};
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
