#include "backend/agent/connection.h"

#include <unistd.h>

#include <future>

#include <gtest/gtest.h>

#include "backend/agent/fields.h"
#include "backend/base/error.h"
#include "tests/agent/peers.h"

namespace foxscope::test {
namespace {

using agent::Agent;
using agent::Asked;
using agent::Connection;
using agent::Message;
using agent::request_for;

Message answer_of(nlohmann::json value) {
  Message message;
  message.header["answer"] = std::move(value);
  return message;
}

/// A connection to an agent that answers as it is told to.
struct Pair {
  explicit Pair(const std::function<void(Agent&)>& answers)
      : agent(answers), connection(agent.in(), agent.out(), "box", {}, {}) {}
  AgentThread agent;
  Connection connection;
};

/// A connection to something that sends these bytes after its hello, as soon as it has read a request.
struct HostilePair {
  explicit HostilePair(std::vector<std::byte> bytes) {
    write_bytes(answers.write, hello_of_agent());
    connection = std::make_unique<Connection>(answers.read, requests.write, "box", std::stop_token(),
                                              std::function<void(std::string_view)>());
    peer = std::thread([this, bytes = std::move(bytes)] {
      agent::Channel channel(requests.read, -1);
      (void)channel.receive();  // the hello
      (void)channel.receive();
      write_bytes(answers.write, bytes);
      answers.close_write();
    });
  }
  ~HostilePair() {
    connection.reset();
    requests.close_write();
    peer.join();
  }
  std::string ask() {
    return error_of([&] { connection->ask(request_for("map"), {}); });
  }

  Pipe requests;
  Pipe answers;
  std::unique_ptr<Connection> connection;
  std::thread peer;
};

TEST(Connection, GetsAnswersInAnyOrder) {
  std::promise<void> second_came;
  Pair pair([&](Agent& agent) {
    agent.answers("late", [&](const Asked&) {
      second_came.get_future().wait();
      return std::optional(answer_of("late"));
    });
    agent.answers("soon", [&](const Asked&) { return std::optional(answer_of("soon")); });
  });
  std::future<std::optional<Message>> late =
      std::async(std::launch::async, [&] { return pair.connection.ask(request_for("late"), {}); });
  EXPECT_EQ(pair.connection.ask(request_for("soon"), {})->header["answer"], "soon");
  second_came.set_value();
  EXPECT_EQ(late.get()->header["answer"], "late");
}

TEST(Connection, TellsOfProgressAndOutput) {
  Pair pair([](Agent& agent) {
    agent.answers("work", [](const Asked& asked) {
      asked.job.tell({1, 4, "rows", "first"});
      Message note;
      note.header["note"] = "half";
      asked.put_out(note);
      asked.job.tell({3, 4, "rows", "second"});
      return std::optional(answer_of(7));
    });
  });
  std::vector<std::string> came;
  Job job;
  job.report = [&](const Progress& progress) {
    came.push_back(std::string(progress.stage) + std::to_string(progress.done) + std::string(progress.unit));
  };
  const auto answer =
      pair.connection.ask(request_for("work"), job, [&](const Message& note) { came.push_back(note.header["note"]); });
  EXPECT_EQ(answer->header["answer"], 7);
  EXPECT_EQ(came, (std::vector<std::string>{"first1rows", "half", "second3rows"}));
}

/// The other side waits where it writes faster than anybody reads.
TEST(Connection, LetsTheOtherSideWait) {
  std::atomic<int> sent = 0;
  Pair pair([&](Agent& agent) {
    agent.answers("much", [&](const Asked& asked) {
      for (int n = 0; n < 2000; ++n) {
        Message piece;
        piece.header["output"] = n;
        piece.header["text"] = std::string(1000, 'x');
        asked.put_out(piece);
        ++sent;
      }
      return std::optional(answer_of(0));
    });
  });
  int came = 0;
  const auto answer = pair.connection.ask(request_for("much"), {}, [&](const Message& message) {
    EXPECT_EQ(message.header["output"], came++);
    EXPECT_LT(sent - came, 1000);
  });
  EXPECT_EQ(came, 2000);
  EXPECT_EQ(answer->header["answer"], 0);
}

TEST(Connection, CancelsWhatItNoLongerWants) {
  std::promise<void> begun;
  std::promise<void> stopped;
  Pair pair([&](Agent& agent) {
    agent.answers("long", [&](const Asked& asked) -> std::optional<Message> {
      begun.set_value();
      while (!asked.job.stopped()) std::this_thread::yield();
      stopped.set_value();
      return std::nullopt;
    });
    agent.answers("soon", [&](const Asked&) { return std::optional(answer_of(1)); });
  });
  std::stop_source stop;
  std::future<std::optional<Message>> answer = std::async(std::launch::async, [&] {
    return pair.connection.ask(request_for("long"), {stop.get_token(), {}, {}});
  });
  begun.get_future().wait();
  stop.request_stop();
  EXPECT_FALSE(answer.get());
  stopped.get_future().wait();
  EXPECT_EQ(pair.connection.ask(request_for("soon"), {})->header["answer"], 1);
}

/// As where standard output is closed by its reader.
TEST(Connection, CancelsWhatNobodyTakes) {
  std::promise<void> stopped;
  Pair pair([&](Agent& agent) {
    agent.answers("much", [&](const Asked& asked) -> std::optional<Message> {
      while (!asked.job.stopped()) {
        Message piece;
        piece.header["output"] = 1;
        asked.put_out(piece);
      }
      stopped.set_value();
      return std::nullopt;
    });
    agent.answers("soon", [&](const Asked&) { return std::optional(answer_of(1)); });
  });
  EXPECT_EQ(error_of([&] {
              pair.connection.ask(request_for("much"), {}, [](const Message&) { throw Error("nobody reads it"); });
            }),
            "nobody reads it");
  stopped.get_future().wait();
  EXPECT_EQ(pair.connection.ask(request_for("soon"), {})->header["answer"], 1);
}

TEST(Connection, GivesErrorsInTheWordsOfTheOtherSide) {
  Pair pair([](Agent& agent) {
    agent.answers("map", [](const Asked&) -> std::optional<Message> { throw UsageError("no such head"); });
    agent.answers("open", [](const Asked&) -> std::optional<Message> { throw Error("x.h5: is damaged"); });
  });
  EXPECT_THROW(pair.connection.ask(request_for("map"), {}), UsageError);
  EXPECT_EQ(error_of([&] { pair.connection.ask(request_for("map"), {}); }), "box: no such head");
  EXPECT_EQ(error_of([&] { pair.connection.ask(request_for("open"), {}); }), "box: x.h5: is damaged");
  EXPECT_EQ(error_of([&] { pair.connection.ask(request_for("fly"), {}); }),
            "box: the request \"fly\" is not known: install the same version on both machines");
}

TEST(Connection, EndsWithTheOtherSide) {
  HostilePair pair({});
  EXPECT_EQ(pair.ask(), "box: the connection has ended");
  EXPECT_TRUE(pair.connection->ended());
  EXPECT_THROW(pair.connection->ask(request_for("map"), {}), agent::ConnectionEnded);
}

TEST(Connection, EndsWhereAnAnswerIsCutShort) {
  const std::vector<std::byte> whole = frame(R"({"answer":1,"id":1})");
  for (std::size_t size = 1; size < whole.size(); ++size) {
    HostilePair pair({whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size)});
    EXPECT_EQ(pair.ask(), "box: the connection has ended");
  }
}

TEST(Connection, RefusesWhatIsNoAnswer) {
  const std::string remedy = ": install the same version on both machines";
  const std::string no_message = "box: what came from there is no message of the protocol: ";
  const auto error = [](const std::vector<std::byte>& bytes) { return HostilePair(bytes).ask(); };
  EXPECT_EQ(error(std::vector<std::byte>(64, std::byte{0xee})),
            no_message + "a message's header is 4008636142 bytes long, more than 1048576" + remedy);
  EXPECT_EQ(error(frame("{}")), no_message + R"(a message's field "id" is missing)" + remedy);
  EXPECT_EQ(error(frame(R"({"id":"x"})")), no_message + R"(a message's field "id" is no whole number)" + remedy);
  EXPECT_EQ(error(frame(R"({"answer":1,"id":2})")), no_message + "an answer to a request 2 that nobody made" + remedy);
  EXPECT_EQ(error(frame(R"({"answer":1,"id":-1})")),
            no_message + "an answer to a request -1 that nobody made" + remedy);
  EXPECT_EQ(error(frame(R"({"id":1,"progress":7})")).substr(0, 9), "a message");
  EXPECT_EQ(error(frame(R"({"error":7,"id":1})")), "box: an error without words");
}

TEST(Connection, RefusesASecondAnswer) {
  HostilePair pair(frame(R"({"answer":1,"id":1})") + frame(R"({"answer":2,"id":1})"));
  EXPECT_EQ(pair.connection->ask(request_for("map"), {})->header["answer"], 1);
  while (!pair.connection->ended()) std::this_thread::yield();
  EXPECT_NE(pair.ask().find("an answer to a request 1 that nobody made"), std::string::npos);
}

/// Opens a connection whose other side begins with these bytes.
std::string error_of_beginning(const std::vector<std::byte>& bytes, std::string* banner = nullptr) {
  Pipe requests;
  Pipe answers;
  std::thread peer([&] {
    write_bytes(answers.write, bytes);
    answers.close_write();
  });
  const std::string error = error_of([&] {
    const Connection connection(answers.read, requests.write, "box", {}, [&](std::string_view text) {
      if (banner != nullptr) *banner = text;
    });
  });
  answers.close_read();
  peer.join();
  return error;
}

std::vector<std::byte> bytes_of(const std::string& text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

TEST(Connection, SkipsABanner) {
  std::string banner;
  EXPECT_EQ(error_of_beginning(hello_of_agent(), &banner), "");
  EXPECT_EQ(banner, "");
  EXPECT_EQ(error_of_beginning(bytes_of("Welcome.\nQuota: 90 %\n") + hello_of_agent(), &banner), "");
  EXPECT_EQ(banner, "Welcome.\nQuota: 90 %");
  EXPECT_EQ(error_of_beginning(bytes_of(std::string(65'000, 'x')) + hello_of_agent(), &banner), "");
  EXPECT_EQ(banner, std::string(400, 'x') + " ...");
  // A banner that speaks of agents, before the message that is one.
  EXPECT_EQ(error_of_beginning(bytes_of("{\"foxscope\"") + hello_of_agent(), &banner), "");
  EXPECT_EQ(banner, "{\"foxscope\"");
}

TEST(Connection, ShowsWhatCameInThePlaceOfAnAgent) {
  EXPECT_EQ(error_of_beginning(bytes_of("This account is not available.\n")), "This account is not available.");
  EXPECT_EQ(error_of_beginning({}), "");
  EXPECT_EQ(error_of_beginning(bytes_of(std::string(100'000, 'x'))),
            "box: what answers there is no foxscope agent: " + std::string(400, 'x') + " ...");
  EXPECT_EQ(error_of_beginning(frame(R"({"foxscope_agent":"x"})")),
            R"(box: what answers there is no foxscope agent: a message's field "foxscope_agent" is no whole number)");
}

TEST(Connection, NamesBothVersionsOfAnotherProtocol) {
  EXPECT_EQ(error_of_beginning(hello_of_agent(77)), "box: foxscope 9.9 there speaks protocol 77, and foxscope " +
                                                        agent::own_hello().version +
                                                        " here speaks protocol 4: install the same version on both "
                                                        "machines");
}

TEST(Connection, IsNotWaitedForLongerThanWanted) {
  Pipe requests;
  Pipe answers;
  std::stop_source stop;
  std::thread stopper([&] { stop.request_stop(); });
  EXPECT_THROW(Connection(answers.read, requests.write, "box", stop.get_token(), {}), agent::ConnectionEnded);
  stopper.join();
}

}  // namespace
}  // namespace foxscope::test
