#include "backend/model/training/rendezvous_torch.h"

#include <condition_variable>
#include <cstdlib>
#include <mutex>
#include <random>
#include <utility>
#include <vector>

#include <c10/util/Logging.h>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "backend/model/training/processes.h"
#include "backend/model/training/store_socket.h"

namespace foxscope {
namespace {

constexpr std::chrono::minutes kRendezvousTime(5);
constexpr std::chrono::seconds kUntilSaid(5);
constexpr std::chrono::hours kNoLimit(24 * 365);  // of the store's own: whom it waits for is watched

const std::string kAsked = "asked";
const std::string kCame = "came";
const std::string kBegun = "begun";

std::string answer_key(std::int64_t ticket) { return fmt::format("answer/{}", ticket); }
std::string claim_key(int rank) { return fmt::format("claim/{}", rank); }

std::vector<std::uint8_t> in_bytes(const std::string& text) { return {text.begin(), text.end()}; }

/// Silences LibTorch's own lines of logs, which are for those who ask for them.
void keep_torch_quiet() {
  constexpr int kFatal = 3;
  if (std::getenv("TORCH_CPP_LOG_LEVEL") == nullptr) FLAGS_caffe2_log_level = kFatal;
}

std::string random_id() {
  std::random_device random;
  return fmt::format("{:08x}{:08x}{:08x}{:08x}", random(), random(), random(), random());
}

c10::intrusive_ptr<c10d::Store> with_prefix(const std::string& name, const c10::intrusive_ptr<c10d::Store>& store) {
  return c10::make_intrusive<c10d::PrefixStore>("foxscope/" + name, store);
}

/// Says something once, if it still lives then.
class Reminder {
 public:
  Reminder(const Rendezvous::Text& say, std::string text)
      : thread_([say, words = std::move(text)](const std::stop_token& stop) {
          std::mutex mutex;
          std::condition_variable_any wake;
          std::unique_lock lock(mutex);
          wake.wait_for(lock, stop, kUntilSaid, [] { return false; });
          if (!stop.stop_requested() && say) say(words);
        }) {}

 private:
  std::jthread thread_;
};

std::string with_commas(const std::vector<int>& numbers) {
  std::string text;
  for (const int number : numbers) text += (text.empty() ? "" : ", ") + std::to_string(number);
  return text;
}

}  // namespace

Rendezvous::Rendezvous(const DistributedConfig& distributed, const std::string& work, const Text& waiting)
    : distributed_(distributed),
      work_(fmt::format("{}\n{} processes\njob \"{}\"\nstart {}", work, distributed.world_size, distributed.job,
                        distributed.run)) {
  keep_torch_quiet();
  // One of each node speaks, and the second, if the first is the only one of its node.
  const bool speaks = distributed.local_rank == 0 || distributed.rank == 1;
  const Text say = speaks ? waiting : Text();
  if (distributed.rank == 0) {
    open();
    id_ = random_id();
  } else {
    id_ = ask(say);
  }
  store_ = with_prefix(id_, whole_);
  const auto second = whole_->clone();
  second_store_ = with_prefix(id_, second);
  second_entrance_ = with_prefix("entrance", second);
  in_store_of(distributed_, [&] {
    if (distributed_.rank == 0) {
      await_all(say);
    } else {
      claim();
      await_beginning();
    }
    store_->setTimeout(kNoLimit);
  });
}

void Rendezvous::open() {
  c10d::TCPStoreOptions options;
  options.port = static_cast<std::uint16_t>(distributed_.port);
  options.isServer = distributed_.hosts_store;
  options.waitWorkers = false;
  options.timeout = kRendezvousTime;
  if (distributed_.hosts_store) options.masterListenFd = open_store_socket(distributed_);
  try {
    whole_ = c10::make_intrusive<c10d::TCPStore>(distributed_.host, options);
    entrance_ = with_prefix("entrance", whole_);
  } catch (const c10::Error& error) {
    throw Error(fmt::format("{}: no store at {} to meet the others at: {}", whose(), store_name(),
                            first_line(error.what_without_backtrace())));
  }
}

/// @returns the id of the work
std::string Rendezvous::ask(const Text& waiting) {
  const Reminder reminder(waiting, fmt::format("{} waits for process 0 at {}", whose(), store_name()));
  open();
  return in_store_of(distributed_, [&] {
    const std::string key = answer_key(entrance_->add(kAsked, 1));
    if (!wait_until(kRendezvousTime, [&] { return entrance_->check({key}); })) {
      throw Error(fmt::format("{}: process 0 has not come to the store at {} within {} minutes: start all of them",
                              whose(), store_name(), kRendezvousTime.count()));
    }
    const std::vector<std::uint8_t> bytes = entrance_->get(key);
    entrance_->deleteKey(key);
    const std::string answer(bytes.begin(), bytes.end());
    const std::size_t end = answer.find('\n');
    const std::string work = end == std::string::npos ? "" : answer.substr(end + 1);
    if (work != work_) refuse(work);
    return answer.substr(0, end);
  });
}

void Rendezvous::refuse(const std::string& other) const {
  const LineDifference difference = first_difference(other, work_);
  throw Error(
      fmt::format("{}: process 0 at {} belongs to other work: {} instead of {}: give each job a MASTER_PORT of "
                  "its own, and start all processes of one alike",
                  whose(), store_name(), difference.one, difference.other));
}

void Rendezvous::claim() {
  if (store_->add(claim_key(distributed_.rank), 1) == 1) {
    store_->add(kCame, 1);
    return;
  }
  throw Error(
      fmt::format("{}: another process has this number at {} already: give each job a MASTER_PORT of its own, "
                  "and start each number once",
                  whose(), store_name()));
}

void Rendezvous::answer(c10d::Store& entrance) {
  const std::int64_t asked = entrance.add(kAsked, 0);
  while (answered_ < asked) entrance.set(answer_key(++answered_), in_bytes(id_ + '\n' + work_));
}

void Rendezvous::answer_latecomers() {
  if (distributed_.hosts_store) answer(*second_entrance_);
}

void Rendezvous::await_all(const Text& waiting) {
  const auto absent = [this] {
    std::vector<int> ranks;
    for (int rank = 1; rank < distributed_.world_size; ++rank) {
      if (store_->add(claim_key(rank), 0) == 0) ranks.push_back(rank);
    }
    return with_commas(ranks);
  };
  const auto all_came = [this] {
    answer(*entrance_);
    return store_->add(kCame, 0) >= distributed_.world_size - 1;
  };
  if (!wait_until(kUntilSaid, all_came)) {
    if (waiting) waiting(fmt::format("{} waits at {} for process {}", whose(), store_name(), absent()));
    if (!wait_until(kRendezvousTime, all_came)) {
      throw Error(fmt::format("{}: process {} has not come to the store at {} within {} minutes: start all of them",
                              whose(), absent(), store_name(), kRendezvousTime.count()));
    }
  }
  store_->add(kBegun, 1);
}

void Rendezvous::await_beginning() {
  if (wait_until(2 * kRendezvousTime, [this] { return store_->check({kBegun}); })) return;
  throw Error(fmt::format("{}: process 0 has not begun at {} within {} minutes: start all of them", whose(),
                          store_name(), (2 * kRendezvousTime).count()));
}

}  // namespace foxscope
