#pragma once

#include <functional>
#include <optional>
#include <string>

namespace foxscope {

/// The GPUs that can be named.
struct Gpus {
  std::function<bool()> built;  ///< whether this build has CUDA at all; likewise only called where that matters
  std::function<int()> count;  ///< how many are visible; starts CUDA, so it is only called for a name that asks for one
  const char* kind;            ///< what they are called where there is none
};

/// The GPU that --device names; none: the CPU. "auto" is the first GPU where there is one.
/// @param name  auto, cpu, cuda or cuda:N
/// @throws UsageError for another name, Error where that GPU does not exist in this build or on this machine
std::optional<int> gpu_named(const std::string& name, const Gpus& gpus);

}  // namespace foxscope
