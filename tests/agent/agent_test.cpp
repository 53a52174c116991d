#include "backend/agent/agent.h"

#include <fcntl.h>
#include <unistd.h>

#include <future>

#include <gtest/gtest.h>

#include "backend/agent/connection.h"
#include "backend/agent/fields.h"
#include "backend/agent/file_answers.h"
#include "backend/agent/file_reference.h"
#include "backend/agent/run_answers.h"
#include "backend/base/error.h"
#include "tests/agent/peers.h"
#include "tests/temporary_folder.h"

namespace foxscope::test {
namespace {

using agent::Agent;
using agent::Asked;
using agent::Channel;
using agent::Message;

std::vector<std::byte> hello_of_client() { return agent::encoded(agent::hello_message(agent::own_hello())); }

Message request(std::int64_t id, const char* word) {
  Message message;
  message.header = {{"id", id}, {"do", word}};
  return message;
}

/// An agent that waits in "wait" until it is let go, or stopped.
struct Waiting {
  std::promise<void> let_go;
  std::shared_future<void> gone = let_go.get_future().share();
  std::atomic<int> begun = 0;
  std::atomic<int> stopped = 0;

  void add_to(Agent& agent) {
    agent.answers("wait", [this](const Asked& asked) -> std::optional<Message> {
      ++begun;
      while (gone.wait_for(std::chrono::milliseconds(1)) != std::future_status::ready) {
        if (!asked.job.stopped()) continue;
        ++stopped;
        return std::nullopt;
      }
      Message answer;
      answer.header["answer"] = 1;
      return answer;
    });
  }
};

TEST(Agent, SaysWhatItAnswers) {
  AgentThread peer([](Agent& agent) { agent::add_run_answers(agent); });
  Channel channel(peer.in(), peer.out());
  const auto hello = channel.receive();
  ASSERT_TRUE(hello);
  EXPECT_EQ(hello->header["foxscope_agent"], agent::kProtocol);
  EXPECT_EQ(hello->header["program"], "foxscope");
  const std::vector<std::string> offers = hello->header["offers"];
  for (const char* word : {"open", "map", "statistics", "array"}) {
    EXPECT_NE(std::ranges::find(offers, word), offers.end()) << word;
  }
}

TEST(Agent, RefusesAClientOfAnotherProtocol) {
  AgentThread peer([](Agent&) {});
  write_bytes(peer.out(), frame(R"({"foxscope_agent":77,"program":"foxscope","version":"9.9"})"));
  EXPECT_EQ(peer.finish(), "foxscope 9.9 asks by protocol 77, and foxscope " + agent::own_hello().version +
                               " answers by protocol 4: install the same version on both machines");
}

TEST(Agent, EndsAtWhatIsNoRequest) {
  const auto error = [](const std::vector<std::byte>& bytes) {
    AgentThread peer([](Agent& agent) { agent::add_run_answers(agent); });
    write_bytes(peer.out(), hello_of_client() + bytes);
    return peer.finish();
  };
  EXPECT_EQ(error(std::vector<std::byte>(64, std::byte{0xee})),
            "a message's header is 4008636142 bytes long, more than 1048576");
  EXPECT_EQ(error(frame("{}")), R"(a message's field "id" is missing)");
  EXPECT_EQ(error(frame(R"({"id":1})")), R"(a message's field "do" is missing)");
  EXPECT_EQ(error(frame(R"({"id":1,"do":7})")), R"(a message's field "do" is no text)");
  EXPECT_EQ(error(frame(R"({"parts":[{"dtype":"uint8","shape":[99999999],"stored":99999999}]})")),
            "a part of a message is larger than 67108864 bytes");
}

TEST(Agent, EndsWithItsClientAndStopsWhatGoesOn) {
  Waiting waiting;
  AgentThread peer([&](Agent& agent) { waiting.add_to(agent); });
  write_bytes(peer.out(), hello_of_client());
  Channel channel(peer.in(), peer.out());
  channel.send(request(1, "wait"));
  while (waiting.begun == 0) std::this_thread::yield();
  peer.end_input();
  EXPECT_EQ(peer.finish(), "");
  EXPECT_EQ(waiting.stopped, 1);
}

TEST(Agent, EndsWhereARequestIsCutShort) {
  const std::vector<std::byte> whole = agent::encoded(request(1, "wait"));
  for (std::size_t size = 1; size < whole.size(); size += 5) {
    AgentThread peer([](Agent&) {});
    write_bytes(peer.out(), hello_of_client());
    write_bytes(peer.out(), {whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size)});
    peer.end_input();
    EXPECT_EQ(peer.finish(), "");
  }
}

TEST(Agent, KnowsARequestByItsNumber) {
  Waiting waiting;
  AgentThread peer([&](Agent& agent) { waiting.add_to(agent); });
  write_bytes(peer.out(), hello_of_client());
  Channel channel(peer.in(), peer.out());
  // A cancel of what nobody asked for, or what has ended, is nothing.
  channel.send(request(99, "cancel"));
  channel.send(request(1, "wait"));
  channel.send(request(1, "wait"));
  EXPECT_EQ(peer.finish(), "a request has the number 1 of another one");
}

TEST(Agent, LetsANumberBeUsedAgainAfterItsAnswer) {
  AgentThread peer([](Agent& agent) {
    agent.answers("count", [](const Asked&) {
      Message answer;
      answer.header["answer"] = 1;
      return std::optional(std::move(answer));
    });
  });
  write_bytes(peer.out(), hello_of_client());
  Channel channel(peer.in(), peer.out());
  ASSERT_TRUE(channel.receive());
  for (int n = 0; n < 2000; ++n) {
    channel.send(request(1, "count"));
    ASSERT_TRUE(channel.receive()) << n;
  }
}

TEST(Agent, SaysThatAnAnswerIsTooLarge) {
  AgentThread peer([](Agent& agent) {
    agent.answers("much", [](const Asked&) {
      Message answer;
      answer.header["answer"] = 1;
      for (int n = 0; n < 2; ++n) answer.parts.push_back({"uint8", {40U << 20U}, std::vector<std::byte>(40U << 20U)});
      return std::optional(std::move(answer));
    });
  });
  write_bytes(peer.out(), hello_of_client());
  Channel channel(peer.in(), peer.out());
  ASSERT_TRUE(channel.receive());
  channel.send(request(1, "much"));
  EXPECT_EQ(channel.receive()->header["error"], "a message holds at most 67108864 bytes of arrays");
}

TEST(Agent, TakesNoMoreRequestsThanItCanHold) {
  Waiting waiting;
  AgentThread peer([&](Agent& agent) { waiting.add_to(agent); });
  write_bytes(peer.out(), hello_of_client());
  Channel channel(peer.in(), peer.out());
  ASSERT_TRUE(channel.receive());
  for (int n = 0; n < 257; ++n) channel.send(request(n, "wait"));
  const auto refused = channel.receive();
  ASSERT_TRUE(refused);
  EXPECT_EQ(refused->header["error"], "too many requests at once: wait for answers");
  EXPECT_EQ(refused->header["id"], 256);
  // Requests that wait are stopped before they begin, the last first.
  for (int n = 255; n >= 0; --n) channel.send(request(n, "cancel"));
  for (int n = 0; n < 256; ++n) EXPECT_TRUE(channel.receive()->header.contains("stopped"));
  EXPECT_LE(waiting.begun, 3);
}

class FileAnswers : public testing::Test {
 protected:
  FileAnswers()
      : peer_([](Agent& agent) { agent::add_file_answers(agent); }),
        connection_(peer_.in(), peer_.out(), "box", {}, {}) {}

  Message ask(Message message) { return connection_.ask(std::move(message), {}).value(); }
  Message about(const char* word, const std::string& path) {
    Message message;
    message.header = {{"do", word}, {"path", path}};
    return message;
  }
  Message piece(const std::string& path, std::int64_t begin, std::int64_t size, const std::string& bytes) {
    Message message = about("write", path);
    message.header["begin"] = begin;
    message.header["size"] = size;
    message.header["overwrite"] = false;
    agent::put(message, "bytes", std::vector<std::uint8_t>(bytes.begin(), bytes.end()));
    return message;
  }
  std::string error(Message message) {
    return error_of([&] { ask(std::move(message)); });
  }

  TemporaryFolder folder_;
  AgentThread peer_;
  agent::Connection connection_;
};

TEST_F(FileAnswers, ListAFolder) {
  folder_.write("b.txt", "hello");
  folder_.write("a/config.json", "{}");
  folder_.write("c/recipe.json", "{}");
  const Message answer = ask(about("list", folder_.text()));
  const auto names = agent::take<agent::FolderList>(answer, "answer");
  EXPECT_EQ(names.names, (std::vector<std::string>{"a", "b.txt", "c"}));
  EXPECT_EQ(names.kinds, (std::vector<std::string>{"folder", "file", "folder"}));
  EXPECT_EQ(names.holds, (std::vector<std::string>{"checkpoint", "text", "training"}));
  EXPECT_EQ(names.bytes[1], 5);
  EXPECT_FALSE(names.more);
  EXPECT_EQ(error(about("list", folder_.text() + "/none")),
            "ssh://box" + folder_.text() + "/none: cannot be listed (No such file or directory)");
  EXPECT_EQ(error(about("list", "relative")), "box: relative: name the path from / on, or from ~/ on");
}

TEST_F(FileAnswers, FetchTheFileThatWasAskedFor) {
  folder_.write("b.txt", "hello");
  const std::string path = folder_.text() + "/b.txt";
  const auto facts = agent::take<agent::FileFacts>(ask(about("stat", path)), "answer");
  EXPECT_EQ(facts.kind, "file");
  EXPECT_EQ(facts.bytes, 5);
  Message fetch = about("fetch", path);
  fetch.header["identity"] = facts.identity;
  fetch.header["begin"] = 1;
  fetch.header["count"] = 3;
  EXPECT_EQ(ask(fetch).parts.at(0).text(), "ell");
  fetch.header["count"] = 5;
  EXPECT_EQ(error(fetch), "ssh://box" + path + ": has 5 bytes, and no 5 from 1 on");
  folder_.write("b.txt", "other words");
  EXPECT_EQ(error(fetch), "ssh://box" + path + ": has changed meanwhile: fetch it again");
  std::filesystem::remove(path);
  EXPECT_EQ(error(about("stat", path)), "ssh://box" + path +
                                            ": cannot be opened (No such file or directory): check the "
                                            "path and its permissions");
}

TEST_F(FileAnswers, WriteAFileThatAppearsWhole) {
  const std::string path = folder_.text() + "/out.txt";
  ask(piece(path, 0, 6, "abc"));
  EXPECT_FALSE(std::filesystem::exists(path));
  EXPECT_EQ(error(piece(path, 4, 6, "x")), "ssh://box" + path + ": a piece of the file came out of its turn");
  ask(piece(path, 3, 6, "def"));
  EXPECT_EQ(std::filesystem::file_size(path), 6);
  EXPECT_NE(error(piece(path, 0, 1, "x")).find(path + ": exists"), std::string::npos);
  EXPECT_EQ(error(piece(path, 1, 3, "x")), "ssh://box" + path + ": a piece of the file came out of its turn");
}

TEST_F(FileAnswers, SayThatTheDiskIsFull) {
  const std::string path = folder_.text() + "/large.bin";
  const std::string text = error(piece(path, 0, std::int64_t{1} << 60, "x"));
  EXPECT_NE(text.find(path), std::string::npos);
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST(FileAnswersOfTwo, ForgetWhatTheirClientBegan) {
  const TemporaryFolder folder;
  {
    AgentThread peer([](Agent& agent) { agent::add_file_answers(agent); });
    agent::Connection connection(peer.in(), peer.out(), "box", {}, {});
    Message message;
    message.header = {{"do", "write"}, {"path", folder.text() + "/x"}, {"begin", 0}, {"size", 9}, {"overwrite", false}};
    agent::put(message, "bytes", std::vector<std::uint8_t>{1, 2, 3});
    ASSERT_TRUE(connection.ask(message, {}));
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

}  // namespace
}  // namespace foxscope::test
