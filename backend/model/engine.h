#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "backend/model/causal_lm.h"

namespace foxscope {

/// Models in memory: one that was loaded is there for the next call. From any thread.
class Engine {
 public:
  /// The model of an open checkpoint on a device, loaded where it is not in memory. The last two are kept, but none
  /// that takes more than a quarter of the memory that is free. A file that was changed is another checkpoint.
  /// @returns nothing if the job was stopped
  /// @throws as CausalLM::load does
  std::shared_ptr<CausalLM> open(const Checkpoint& checkpoint, const Device& device, DType dtype, const Job& job);

 private:
  struct Held {
    std::string key;
    std::shared_ptr<CausalLM> model;
  };
  std::shared_ptr<CausalLM> find(const std::string& key);

  std::mutex mutex_;
  std::vector<Held> held_;  ///< the latest first
};

struct RunRequest;
/// The model of a request, from its engine if it has one.
/// @returns nothing if the job was stopped
std::shared_ptr<CausalLM> open_model(const RunRequest& request, const Checkpoint& checkpoint, const Device& device,
                                     DType dtype, const Job& job);

}  // namespace foxscope
