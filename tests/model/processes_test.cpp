// How processes of one piece of work find each other, whoever else comes to their port, and notice that one is lost.
#include "backend/model/training/processes.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <functional>
#include <future>

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "backend/base/error.h"
#include "backend/model/training/life_signs.h"
#include "backend/model/training/store_backend_torch.h"
#include "backend/model/training/store_socket.h"

namespace foxscope {
namespace {

sockaddr_in bound_to(int socket) {
  sockaddr_in address = {};
  socklen_t size = sizeof(address);
  EXPECT_EQ(getsockname(socket, reinterpret_cast<sockaddr*>(&address), &size), 0);
  return address;
}

int unused_port() {
  const int taken = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(::bind(taken, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
  const int port = ntohs(bound_to(taken).sin_port);
  ::close(taken);
  return port;
}

DistributedConfig place_at(int port, int rank, int count) {
  DistributedConfig distributed;
  distributed.rank = rank;
  distributed.world_size = count;
  distributed.local_rank = rank;
  distributed.host = "127.0.0.1";
  distributed.port = port;
  distributed.hosts_store = rank == 0;
  distributed.job = "7.0";
  distributed.run = "0";
  return distributed;
}

struct Joined {
  std::unique_ptr<Processes> processes;
  std::string error;
};

Joined join(const DistributedConfig& distributed, const std::string& program = "foxscope 1") {
  const auto lost = [](const std::string& message) { ADD_FAILURE() << "lost: " << message; };
  try {
    return {Processes::join(distributed, Device(), {program, "begin again", {}, lost}), ""};
  } catch (const Error& error) {
    return {nullptr, error.what()};
  }
}

/// Several processes, each a thread, that come at once and leave at once.
class Together {
 public:
  explicit Together(const std::vector<DistributedConfig>& places) {
    std::vector<std::future<Joined>> coming;
    coming.reserve(places.size());
    for (const DistributedConfig& distributed : places) {
      coming.push_back(std::async(std::launch::async, [distributed] { return join(distributed); }));
    }
    for (auto& one : coming) all_.push_back(one.get());
  }
  ~Together() {
    // Who hosts the store waits for the others to leave.
    while (!all_.empty()) all_.pop_back();
  }
  Together(const Together&) = delete;
  Together& operator=(const Together&) = delete;

  [[nodiscard]] const std::string& error(std::size_t rank) const { return all_[rank].error; }

  /// What each process gets of an action of all.
  std::vector<std::string> each(const std::function<std::string(Processes&)>& action) {
    std::vector<std::future<std::string>> working;
    for (Joined& one : all_) {
      working.push_back(std::async(std::launch::async, [&] { return action(*one.processes); }));
    }
    std::vector<std::string> results;
    for (auto& work : working) results.push_back(work.get());
    return results;
  }

  /// What the processes give one another.
  std::vector<std::string> gathered(const std::string& word) {
    return each([&](Processes& processes) {
      std::string all;
      for (const std::string& text : processes.gather(word + std::to_string(processes.distributed().rank)))
        all += text + ' ';
      return all;
    });
  }

 private:
  std::vector<Joined> all_;
};

std::vector<DistributedConfig> places_of(int count, int port) {
  std::vector<DistributedConfig> places;
  for (int rank = 0; rank < count; ++rank) places.push_back(place_at(port, rank, count));
  return places;
}

testing::AssertionResult holds(const std::string& text, const std::string& words) {
  if (text.find(words) != std::string::npos) return testing::AssertionSuccess();
  return testing::AssertionFailure() << '"' << text << "\" does not say " << words;
}

// Each is refused at once, and those of the job do not notice.
TEST(Rendezvous, WhoDoesNotBelongToTheJobIsRefused) {
  const int port = unused_port();
  Together job(places_of(2, port));
  ASSERT_EQ(job.error(0) + job.error(1), "");
  const DistributedConfig second = place_at(port, 1, 2);
  DistributedConfig other_job = second;
  other_job.job = "7.1";
  DistributedConfig restarted = second;
  restarted.run = "1";
  const auto refusal = [](const DistributedConfig& distributed, const std::string& program = "foxscope 1") {
    return std::async(std::launch::async, [=] { return join(distributed, program).error; });
  };
  auto twice = refusal(second);
  auto of_three = refusal(place_at(port, 2, 3));
  auto of_another = refusal(other_job);
  auto of_a_restart = refusal(restarted);
  auto of_another_version = refusal(second, "foxscope 2");
  auto first_again = refusal(place_at(port, 0, 2));
  EXPECT_TRUE(holds(twice.get(), "process 1 of 2: another process has this number at 127.0.0.1:"));
  EXPECT_TRUE(
      holds(of_three.get(), "belongs to other work: 2 processes instead of 3 processes: give each job a MASTER_PORT"));
  EXPECT_TRUE(holds(of_another.get(), "job \"7.0\" instead of job \"7.1\""));
  EXPECT_TRUE(holds(of_a_restart.get(), "start 0 instead of start 1"));
  EXPECT_TRUE(holds(of_another_version.get(), "foxscope 1 instead of foxscope 2"));
  EXPECT_TRUE(holds(first_again.get(), "port " + std::to_string(port) + " of 127.0.0.1 is taken"));
  EXPECT_EQ(job.gathered("word"), std::vector<std::string>(2, "word0 word1 "));
}

// One of three numbers comes from two processes at once: one of them is of the work.
TEST(Rendezvous, ANumberIsClaimedOnce) {
  const int port = unused_port();
  std::vector<std::future<Joined>> coming;
  for (const int rank : {0, 1, 1, 2}) {
    coming.push_back(std::async(std::launch::async, [=] { return join(place_at(port, rank, 3)); }));
  }
  std::vector<Joined> all;
  for (auto& one : coming) all.push_back(one.get());
  EXPECT_EQ(all[0].error + all[3].error, "");
  EXPECT_NE(all[1].error.empty(), all[2].error.empty());
  EXPECT_TRUE(holds(all[1].error + all[2].error, "another process has this number"));
  while (!all.empty()) all.pop_back();
}

// The store of a starter outlives the work; what lies in it is not read again, even where a process has ended in the
// middle of a meeting, and where the starter does not count starts.
/// Longer than a piece of them (kPostedPiece), no multiple of it, and empty.
TEST(Rendezvous, LongPostsArriveWhole) {
  const int port = unused_port();
  Together job({place_at(port, 0, 3), place_at(port, 1, 3), place_at(port, 2, 3)});
  const auto posted = [](int rank, std::size_t size) {
    std::string text(size, static_cast<char>('a' + rank));
    for (std::size_t n = 0; n < size; n += 1000) text[n] = static_cast<char>('0' + n / 1000 % 10);
    return text;
  };
  const std::size_t sizes[] = {(std::size_t{5} << 20U) + 17, 0, std::size_t{2} << 20U};
  const auto results = job.each([&](Processes& processes) -> std::string {
    const int rank = processes.distributed().rank;
    if (rank > 0) {
      for (const std::size_t size : sizes) processes.post(posted(rank, size));
      return "";
    }
    std::vector<std::string> found;
    while (found.size() < 6) {
      if (auto text = processes.collect()) found.push_back(std::move(*text));
    }
    std::string missed;
    for (int other = 1; other < 3; ++other) {
      for (const std::size_t size : sizes) {
        const auto one = std::ranges::find(found, posted(other, size));
        if (one == found.end()) {
          missed += std::to_string(other) + ':' + std::to_string(size) + ' ';
        } else {
          found.erase(one);
        }
      }
    }
    return missed;
  });
  EXPECT_EQ(results.front(), "");
}

TEST(Rendezvous, WhatEarlierWorkLeftInAStoreIsNotRead) {
  c10d::TCPStoreOptions options;
  options.port = 0;
  options.isServer = true;
  options.waitWorkers = false;
  const auto store = c10::make_intrusive<c10d::TCPStore>("127.0.0.1", options);
  std::vector<DistributedConfig> places = places_of(2, store->getPort());
  for (DistributedConfig& distributed : places) distributed.hosts_store = false;
  for (const char* word : {"first", "second", "third"}) {
    Together job(places);
    ASSERT_EQ(job.error(0) + job.error(1), "");
    const std::string both = std::string(word) + "0 " + word + "1 ";
    EXPECT_EQ(job.gathered(word), std::vector<std::string>(2, both));
    EXPECT_EQ(job.each([](Processes& processes) {
      std::vector<double> values = {1.0 + processes.distributed().rank};
      processes.add_up(values);
      return std::to_string(values[0]);
    }),
              std::vector<std::string>(2, std::to_string(3.0)));
    // One that asks and is gone before it is answered.
    c10d::PrefixStore("foxscope/entrance", store).add("asked", 1);
  }
}

TEST(RequireSame, NamesTheFirstLineThatDiffers) {
  Together job(places_of(3, unused_port()));
  const auto said = [&](const std::string& of_last) {
    return job.each([&](Processes& processes) -> std::string {
      const bool last = processes.distributed().rank == 2;
      try {
        require_same(&processes, " \"length\": 16,\n \"lr\": " + (last ? of_last : "0.1") + ",\n \"seed\": 0");
      } catch (const Error& error) {
        return error.what();
      }
      return "";
    });
  };
  EXPECT_EQ(said("0.1"), std::vector<std::string>(3));
  for (const std::string& message : said("0.5")) {
    EXPECT_TRUE(holds(message, "process 2 of 3 does other work than process 0: \"lr\": 0.5 instead of \"lr\": 0.1: "));
  }
}

TEST(RequireSame, FirstDifference) {
  const auto difference = [](std::string_view one, std::string_view other) {
    const LineDifference found = first_difference(one, other);
    return found.one + " | " + found.other;
  };
  EXPECT_EQ(difference("a\nbc\nd", "a\nbd\nd"), "bc | bd");
  EXPECT_EQ(difference("a\n  \"b\": 1,\n", "a\n  \"b\": 12,\n"), "\"b\": 1 | \"b\": 12");
  EXPECT_EQ(difference("a\nb", "a"), "b | nothing");
  EXPECT_EQ(difference("a\nb", "a\n"), "b | nothing");
  EXPECT_EQ(difference("", "a"), "nothing | a");
}

// A tensor of another size is refused, not read beyond its end.
TEST(StoreBackend, SizesAreCompared) {
  const auto store = c10::make_intrusive<c10d::HashStore>();
  const auto exchange = [&](int rank, std::int64_t numbers, bool all_gather) -> std::string {
    const auto prefix = c10::make_intrusive<c10d::PrefixStore>(all_gather ? "gather" : "sum", store);
    const auto backend = make_store_backend(prefix, place_at(0, rank, 2));
    std::vector<at::Tensor> values = {at::ones({numbers})};
    at::Tensor gathered = at::zeros({2 * numbers});
    try {
      if (all_gather) {
        backend->_allgather_base(gathered, values[0]);
      } else {
        backend->allreduce(values);
      }
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  for (const bool all_gather : {false, true}) {
    auto first = std::async(std::launch::async, [&] { return exchange(0, 4, all_gather); });
    const std::string second = exchange(1, 1000, all_gather);
    EXPECT_TRUE(holds(first.get(), "process 1 of 2 exchanges 4000 bytes where process 0 takes 16: start all"));
    EXPECT_TRUE(holds(second, "process 0 of 2 exchanges 16 bytes where process 1 takes 4000"));
  }
}

TEST(StoreSocket, ListensWhereItIsTold) {
  DistributedConfig distributed = place_at(unused_port(), 0, 2);
  const int opened = open_store_socket(distributed);
  const sockaddr_in address = bound_to(opened);
  EXPECT_EQ(ntohl(address.sin_addr.s_addr), INADDR_LOOPBACK);
  EXPECT_EQ(ntohs(address.sin_port), distributed.port);
  distributed.host = "no-such-host.invalid";
  EXPECT_TRUE(holds(join(distributed).error, "MASTER_ADDR no-such-host.invalid: "));
  ::close(opened);
}

// An address of another machine, as one through which a container is reached, is no reason not to begin.
TEST(StoreSocket, ListensEverywhereWhereTheAddressIsNoInterfaces) {
  DistributedConfig distributed = place_at(unused_port(), 0, 2);
  distributed.host = "192.0.2.1";
  const int opened = open_store_socket(distributed);
  sockaddr_storage address = {};
  socklen_t size = sizeof(address);
  ASSERT_EQ(getsockname(opened, reinterpret_cast<sockaddr*>(&address), &size), 0);
  if (address.ss_family == AF_INET6) {
    EXPECT_TRUE(IN6_IS_ADDR_UNSPECIFIED(&reinterpret_cast<const sockaddr_in6*>(&address)->sin6_addr));
  } else {
    EXPECT_EQ(bound_to(opened).sin_addr.s_addr, INADDR_ANY);
  }
  ::close(opened);
}

using std::chrono::seconds;

TEST(LifeSigns, AProcessWithoutSignsIsLost) {
  const LifeSigns::Time start;
  LifeSigns signs(2, start);
  for (int second = 2; second < 60; second += 2) {
    const LifeSigns::Time now = start + seconds(second);
    signs.look(now);
    EXPECT_FALSE(signs.is_lost(0, second, now));
    EXPECT_EQ(signs.is_lost(1, std::min(second, 10), now), second >= 40) << second;
  }
}

// Processes that a machine suspends all together wake all together.
TEST(LifeSigns, AWatcherThatSleptWaitsAnew) {
  LifeSigns::Time now;
  LifeSigns signs(1, now);
  signs.look(now);
  EXPECT_FALSE(signs.is_lost(0, 1, now));
  now += seconds(3600);
  signs.look(now);
  EXPECT_FALSE(signs.is_lost(0, 1, now));
  for (int second = 0; second < 40; second += 2, now += seconds(2)) {
    signs.look(now);
    EXPECT_EQ(signs.is_lost(0, 1, now), second >= 30) << second;
  }
}

}  // namespace
}  // namespace foxscope
