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

/// The word of --device.
struct DeviceChoice {
  enum class Kind { automatic, cpu, cuda };
  Kind kind = Kind::automatic;
  std::optional<int> index;  ///< of a GPU; none: the first

  /// "auto" (a GPU where there is one), "cpu", "cuda" or "cuda:N". Looks at no device.
  /// @throws UsageError for another word
  static DeviceChoice parse(const std::string& word);
  [[nodiscard]] std::string word() const;
  bool operator==(const DeviceChoice&) const = default;
};

/// The GPU that is chosen; none: the CPU.
/// @throws Error where that GPU does not exist in this build or on this machine
std::optional<int> gpu_chosen(const DeviceChoice& choice, const Gpus& gpus);

}  // namespace foxscope
