#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <thread>

#include <c10/util/Exception.h>
#include <c10/util/intrusive_ptr.h>
#include <fmt/format.h>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "backend/base/distributed_config.h"
#include "backend/base/error.h"
#include "backend/model/weights/device_errors_torch.h"

namespace foxscope {

/// Waits until something holds.  @returns false if it did not within a time
template <typename Condition>
bool wait_until(std::chrono::milliseconds longest, const Condition& holds) {
  constexpr std::chrono::milliseconds kPoll(20);
  const auto end = std::chrono::steady_clock::now() + longest;
  while (!holds()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(kPoll);
  }
  return true;
}

/// Uses a store.  @throws Error where it is gone
template <typename Action>
auto in_store_of(const DistributedConfig& distributed, const Action& action) {
  try {
    return action();
  } catch (const c10::Error& error) {
    throw Error(fmt::format("process {} of {}: the store at {}:{} is gone: {}", distributed.rank,
                            distributed.world_size, distributed.host, distributed.port,
                            first_line(error.what_without_backtrace())));
  }
}

/// Where the processes of one piece of work come together: a store, which the first process or the starter keeps, and
/// in it keys that are this work's alone. Several jobs may have been given one port, and a starter's store outlives the
/// work, so a number and a count do not show that who is there belongs together: the first process draws an id and
/// answers each that asks with the id and with what the work is. A process that was started for the same work then
/// claims its number under that id; all else is refused. The rest that earlier processes left in the store is never
/// read.
class Rendezvous {
 public:
  using Text = std::function<void(const std::string&)>;

  /// Waits until all have come.
  /// @param work     what must be the same in all of them, a line each
  /// @param waiting  called once, after five seconds, with the processes that this one waits for
  /// @throws Error where the others do not come within five minutes, and where others are there than were started with
  ///         this process
  Rendezvous(const DistributedConfig& distributed, const std::string& work, const Text& waiting);

  /// The store with the keys of this work.
  [[nodiscard]] const c10::intrusive_ptr<c10d::Store>& store() const { return store_; }
  /// The same over a connection of its own, for another thread: a connection serves one call.
  [[nodiscard]] const c10::intrusive_ptr<c10d::Store>& second_store() const { return second_store_; }

  /// In the first process, once all have come: answers processes that come to the work's store later that they do not
  /// belong to the work. Uses the connection of second_store().
  void answer_latecomers();

 private:
  void open();
  std::string ask(const Text& waiting);
  void claim();
  void await_all(const Text& waiting);
  void await_beginning();
  void answer(c10d::Store& entrance);
  [[noreturn]] void refuse(const std::string& other) const;
  [[nodiscard]] std::string whose() const {
    return fmt::format("process {} of {}", distributed_.rank, distributed_.world_size);
  }
  [[nodiscard]] std::string store_name() const { return fmt::format("{}:{}", distributed_.host, distributed_.port); }

  DistributedConfig distributed_;
  std::string work_;
  std::string id_;
  c10::intrusive_ptr<c10d::Store> whole_;     ///< with all keys
  c10::intrusive_ptr<c10d::Store> entrance_;  ///< with the keys of those that ask
  c10::intrusive_ptr<c10d::Store> second_entrance_;
  c10::intrusive_ptr<c10d::Store> store_;
  c10::intrusive_ptr<c10d::Store> second_store_;
  std::int64_t answered_ = 0;
};

}  // namespace foxscope
