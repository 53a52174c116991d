#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
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

  /// Checkpoint::weights_sha256, read once for files that stay as they are.
  /// @returns nothing if the job was stopped
  std::optional<std::string> weights_sha256(const Checkpoint& checkpoint, const Job& job);

 private:
  struct Held {
    std::string key;
    std::shared_ptr<CausalLM> model;
  };
  std::shared_ptr<CausalLM> find(const std::string& key);

  std::mutex mutex_;
  std::vector<Held> held_;                        ///< the latest first
  std::map<std::string, std::string> checksums_;  ///< of the weights in such files
};

struct RunRequest;
/// The model of a request, from its engine if it has one.
/// @returns nothing if the job was stopped
std::shared_ptr<CausalLM> open_model(const RunRequest& request, const Checkpoint& checkpoint, const Device& device,
                                     DType dtype, const Job& job);
/// Its checksum, likewise.
std::optional<std::string> weights_sha256(const RunRequest& request, const Checkpoint& checkpoint, const Job& job);

}  // namespace foxscope
