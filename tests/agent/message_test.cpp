#include "backend/agent/message.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include <gtest/gtest.h>

#include "backend/agent/channel.h"
#include "backend/agent/described.h"
#include "backend/agent/fields.h"
#include "tests/agent/peers.h"

namespace foxscope::test {
namespace {

using agent::Channel;
using agent::Message;
using agent::Part;

/// Reads these bytes, and nothing else, through a channel.
std::optional<Message> received(const std::vector<std::byte>& bytes) {
  Pipe pipe;
  std::thread writer([&] {
    write_bytes(pipe.write, bytes);
    pipe.close_write();
  });
  struct Join {
    std::thread& thread;
    Pipe& pipe;
    ~Join() {
      pipe.close_read();
      thread.join();
    }
  } join{writer, pipe};
  Channel channel(pipe.read, -1);
  return channel.receive();
}

template <typename T>
std::vector<T> random_list(std::size_t size, unsigned seed) {
  std::mt19937 generator(seed);
  std::vector<T> values(size);
  for (T& value : values) {
    const std::uint64_t bits = (std::uint64_t{generator()} << 32U) | generator();
    std::memcpy(&value, &bits, sizeof value);
  }
  return values;
}

template <typename T>
void expect_list_comes_through(const std::vector<T>& values) {
  Message message;
  message.parts.push_back(Part::of(std::span<const T>(values)));
  const auto came = received(agent::encoded(message));
  ASSERT_TRUE(came);
  ASSERT_EQ(came->parts.size(), 1);
  EXPECT_EQ(came->parts[0].bytes, message.parts[0].bytes);  // NaN among them too
  EXPECT_EQ(came->parts[0].shape, std::vector<std::uint64_t>{values.size()});
}

TEST(Message, CarriesListsOfEveryTypeBitForBit) {
  for (const std::size_t size : {0, 1, 15, 16, 17, 1000, 70'000}) {
    expect_list_comes_through(random_list<std::uint8_t>(size, 1));
    expect_list_comes_through(random_list<std::uint16_t>(size, 2));
    expect_list_comes_through(random_list<std::int32_t>(size, 3));
    expect_list_comes_through(random_list<std::int64_t>(size, 4));
    expect_list_comes_through(random_list<float>(size, 5));
    expect_list_comes_through(random_list<double>(size, 6));
    expect_list_comes_through(std::vector<double>(size, 0.25));
  }
}

TEST(Message, IsSmallerWhereNumbersAreAlike) {
  std::vector<double> sums(65'536);
  for (std::size_t n = 1; n < sums.size(); ++n) sums[n] = sums[n - 1] - 1e-3 * static_cast<double>(n % 7);
  Message message;
  message.parts.push_back(Part::of(std::span<const double>(sums)));
  EXPECT_LT(agent::encoded(message).size(), sums.size() * sizeof(double) * 3 / 4);
}

TEST(Message, IsRefusedWhereItIsTooLarge) {
  Message message;
  message.header["text"] = std::string(agent::kMostHeader, 'x');
  EXPECT_EQ(error_of([&] { agent::encoded(message); }), "a message's header has at most 1048576 bytes");
  message.header.clear();
  message.parts.push_back({"uint8", {agent::kMostParts + 1}, std::vector<std::byte>(agent::kMostParts + 1)});
  EXPECT_EQ(error_of([&] { agent::encoded(message); }), "a message holds at most 67108864 bytes of arrays");
}

TEST(Message, EndsBetweenTwo) { EXPECT_FALSE(received({})); }

TEST(Message, IsCutShortAtAnyByte) {
  Message message;
  message.header["do"] = "map";
  const std::vector<float> values = random_list<float>(40, 7);
  message.parts.push_back(Part::of(std::span<const float>(values)));
  const std::vector<std::byte> whole = agent::encoded(message);
  ASSERT_TRUE(received(whole));
  for (std::size_t size = 1; size < whole.size(); ++size) {
    const std::vector<std::byte> cut(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size));
    EXPECT_THROW(received(cut), agent::ConnectionEnded) << size;
  }
}

/// Nothing is allocated by what a message says of itself.
TEST(Message, SaysNothingLargerThanTheBounds) {
  const auto error = [](const std::vector<std::byte>& bytes) { return error_of([&] { received(bytes); }); };
  std::vector<std::byte> huge(4, std::byte{0xff});
  EXPECT_EQ(error(huge), "a message's header is 4294967295 bytes long, more than 1048576");
  const auto parts = [&](const std::string& list) { return error(frame(R"({"parts":)" + list + "}")); };
  EXPECT_EQ(parts(R"([{"dtype":"uint8","shape":[67108865],"stored":67108865}])"),
            "a part of a message is larger than 67108864 bytes");
  EXPECT_EQ(parts(R"([{"dtype":"float64","shape":[4294967296,4294967296],"stored":1}])"),
            "a part of a message is larger than 67108864 bytes");
  EXPECT_EQ(parts(R"([{"dtype":"float64","shape":[18446744073709551615],"stored":1}])"),
            "a part of a message is larger than 67108864 bytes");
  EXPECT_EQ(parts(R"([{"dtype":"uint8","shape":[67108864],"stored":1,"codec":"zstd"},)"
                  R"({"dtype":"uint8","shape":[1],"stored":1}])"),
            "a part of a message is larger than 0 bytes");
  EXPECT_EQ(parts(R"([{"dtype":"uint8","shape":[4],"stored":5}])"), "a part of a message has another stored size");
  EXPECT_EQ(parts(R"([{"dtype":"uint8","shape":[4],"stored":4,"codec":"zstd"}])"),
            "a part of a message has another stored size");
  EXPECT_EQ(parts(R"([{"dtype":"uint8","shape":[4],"stored":4,"codec":"lz4"}])"),
            "a part of a message is compressed in a way that is not known");
  EXPECT_EQ(parts(R"([{"dtype":"complex64","shape":[4],"stored":4}])"),
            "a part of a message has numbers of a type that is not known");
  EXPECT_EQ(parts(R"([{"dtype":"uint8","shape":[-1],"stored":4}])"),
            "a part of a message has an extent that is no whole number");
  EXPECT_EQ(parts(R"([7])"), "a part of a message is described by something that is no object");
  EXPECT_EQ(parts(R"([{"dtype":"uint8","shape":[4]}])"), "a part of a message lacks its dtype, shape or stored size");
  EXPECT_EQ(parts(R"([{"dtype":"uint8","shape":[1,1,1,1,1,1,1,1,1],"stored":1}])"),
            "a part of a message lacks its dtype, shape or stored size");
  EXPECT_EQ(parts("7"), "a message's list of parts is no list");
  EXPECT_EQ(error(frame("[1]")), "a message's header is no JSON object");
  EXPECT_NE(error(frame("{")).find("header of a message: is not valid JSON"), std::string::npos);
  EXPECT_NE(error(frame(std::string(300, '['))).find("header of a message: "), std::string::npos);
}

TEST(Message, DoesNotUnpackToAnotherSize) {
  Message message;
  const std::vector<float> zeros(1000);
  message.parts.push_back(Part::of(std::span<const float>(zeros)));
  std::vector<std::byte> bytes = agent::encoded(message);
  for (std::size_t n = bytes.size() - 8; n < bytes.size(); ++n) bytes[n] ^= std::byte{0x55};
  EXPECT_EQ(error_of([&] { received(bytes); }), "a part of a message does not unpack to its size");
}

struct Inner {
  double number = 0;
  std::optional<std::string> text;
};
template <typename Visit>
void fields(Visit& visit, Inner& inner) {
  visit("number", inner.number);
  visit("text", inner.text);
}

struct Outer {
  std::vector<Inner> inner;
  std::vector<double> values;
  std::vector<std::string> texts;
  std::int64_t count = 0;
  int narrow = 0;
  bool flag = false;
  double triple[3] = {};
};
template <typename Visit>
void fields(Visit& visit, Outer& outer) {
  visit("inner", outer.inner);
  visit("values", outer.values);
  visit("texts", outer.texts);
  visit("count", outer.count);
  visit("narrow", outer.narrow);
  visit("flag", outer.flag);
  visit("triple", outer.triple);
}

TEST(Fields, ComeBackAsTheyWere) {
  Outer outer;
  outer.inner = {{0.1, std::nullopt}, {-std::numeric_limits<double>::infinity(), std::string(5000, 'y')}};
  outer.values = {1, -0.0, 1e-300};
  outer.texts = {"", "a\nb", "\xff"};
  outer.count = std::numeric_limits<std::int64_t>::min();
  outer.flag = true;
  outer.triple[1] = std::nan("");
  Message message;
  agent::put(message, "value", outer);
  const auto came = received(agent::encoded(message));
  ASSERT_TRUE(came);
  const auto read = agent::take<Outer>(*came, "value");
  ASSERT_EQ(read.inner.size(), 2);
  EXPECT_EQ(read.inner[0].number, 0.1);
  EXPECT_FALSE(read.inner[0].text);
  EXPECT_EQ(read.inner[1].number, -std::numeric_limits<double>::infinity());
  EXPECT_EQ(read.inner[1].text, std::string(5000, 'y'));
  EXPECT_EQ(read.values, outer.values);
  EXPECT_EQ(read.texts, outer.texts);
  EXPECT_EQ(read.count, outer.count);
  EXPECT_TRUE(read.flag);
  EXPECT_TRUE(std::isnan(read.triple[1]));
}

TEST(Fields, OfAnotherTypeAreRefused) {
  const auto error = [](const std::string& json) {
    Message message;
    message.header["value"] = nlohmann::json::parse(json);
    return error_of([&] { agent::take<Outer>(message, "value"); });
  };
  EXPECT_EQ(error(R"({"count": 1.5})"), R"(a message's field "count" is no whole number)");
  EXPECT_EQ(error(R"({"count": 18446744073709551615})"), R"(a message's field "count" is too large a number)");
  EXPECT_EQ(error(R"({"narrow": 2147483648})"), R"(a message's field "narrow" is too large a number)");
  EXPECT_EQ(error(R"({"flag": 1})"), R"(a message's field "flag" is neither true nor false)");
  EXPECT_EQ(error(R"({"inner": 1})"), R"(a message's field "inner" is no list)");
  EXPECT_EQ(error(R"({"inner": [1]})"), "a message has something else where an object belongs");
  EXPECT_EQ(error(R"({"inner": [{"number": "x"}]})"), R"(a message's field "number" is no number)");
  EXPECT_EQ(error(R"({"inner": [{"text": 1}]})"), R"(a message's field "text" is no text)");
  EXPECT_EQ(error(R"({"values": {"part": 0}})"), R"(a message's field "values" names no part of its message)");
  EXPECT_EQ(error(R"({"values": [1]})"), R"(a message's field "values" names no part of its message)");
  EXPECT_EQ(error(R"({"texts": []})"), R"(a message's field "texts" is no list of texts)");
  EXPECT_EQ(error(R"({"triple": [1, 2]})"), R"(a message's field "triple" is no list of its length)");
  Message message;
  EXPECT_EQ(error_of([&] { agent::take<int>(message, "id"); }), R"(a message's field "id" is missing)");
  message.parts.push_back(Part::of("ab"));
  message.header["value"] = nlohmann::json::parse(R"({"texts": {"texts": {"part": 0}, "lengths": {"part": 0}}})");
  EXPECT_EQ(error_of([&] { agent::take<Outer>(message, "value"); }), "a part of a message is no list of int64");
}

}  // namespace
}  // namespace foxscope::test
