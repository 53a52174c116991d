#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "backend/base/distributed_config.h"
#include "backend/model/session/causal_lm.h"

namespace foxscope {

/// Told, on a thread of its own, that the work cannot be finished since another process failed or is gone; must end
/// this process. The message is for the user; it is empty in processes that leave it to another one to say it.
using WorkLost = std::function<void(const std::string& message)>;

/// The messages and calls by which a process learns of the others.
struct ProcessEvents {
  std::string program;                                   ///< its name and version; the same in all of them
  std::string remedy;                                    ///< what a person does when a process is lost, for the message
  std::function<void(const std::string& text)> waiting;  ///< told for whom this process waits, after five seconds
  WorkLost lost;
};

/// The processes that do one piece of work together. A function that is called "together" must be called by all of
/// them, in the same order. On GPUs, one for each process, they exchange over NCCL; on CPUs over the store at which
/// they meet, which is slow, and meant for tests. LibTorch inside, none of it in this header.
class Processes {
 public:
  /// Meets the others, and watches from then on that they live: each gives a sign every two seconds, and is lost when
  /// none came for half a minute.
  /// @param device  of this process; every process must have its own GPU, or the CPU
  /// @throws Error where the others do not come within five minutes, and where those that are there were started for
  ///         other work: another job at the same port, another number of processes, another version
  static std::unique_ptr<Processes> join(const DistributedConfig& distributed, const Device& device,
                                         const ProcessEvents& events);
  virtual ~Processes() = default;

  /// The device of a process of several, where devices are chosen for all alike: "cuda" is the GPU that belongs to it.
  /// @throws Error where there is no such device, and UsageError where all would share one GPU
  static Device device_of(const DistributedConfig& distributed, const DeviceChoice& choice);

  [[nodiscard]] const DistributedConfig& distributed() const { return distributed_; }
  [[nodiscard]] const Device& device() const { return device_; }
  [[nodiscard]] bool first() const { return distributed_.rank == 0; }

  /// Together: sums numbers over all processes; all get the same.
  virtual void add_up(std::span<double> values) = 0;
  /// Together: what each process gives, by rank.
  virtual std::vector<std::string> gather(const std::string& text) = 0;
  /// The next of 0, 1, 2, ..., which the processes share: each number goes to one of them.
  virtual std::int64_t next_number(const std::string& name) = 0;
  /// Gives something to the first process.
  virtual void post(const std::string& text) = 0;
  /// Takes, in the first process, what another one has posted, each once, in the order of posting.
  /// @returns nothing where nothing new is there yet
  virtual std::optional<std::string> collect() = 0;
  /// Tells the others that this process cannot go on: they end, and the first says why.
  virtual void fail(const std::string& message) = 0;

 protected:
  Processes(DistributedConfig distributed, const Device& device)
      : distributed_(std::move(distributed)), device_(device) {}

 private:
  DistributedConfig distributed_;
  Device device_;
};

/// The first lines in which two texts differ, as a message names them.
struct LineDifference {
  std::string one;
  std::string other;
};
LineDifference first_difference(std::string_view one, std::string_view other);

/// Together: what the work depends on is compared over the processes; to be called before anything else is done
/// together.
/// @param processes  null: this one alone
/// @param facts      a line each
/// @throws Error in all processes, naming the first line that differs
void require_same(Processes* processes, const std::string& facts);

/// Together: does something in the first process of every node, and then in the node's others, which find what it left.
/// @param processes  null: this one alone
void after_first_of_node(Processes* processes, const std::function<void()>& action);

}  // namespace foxscope
