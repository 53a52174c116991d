#pragma once

#include <optional>
#include <string>

namespace foxscope {

/// The GPU that --device names for maps and statistics of a run file, for Trace::compute_on; none: the CPU. "auto" is
/// the first GPU where there is one.
/// @param name  auto, cpu, cuda or cuda:N
/// @throws UsageError for another name, Error where that GPU does not exist in this build or on this machine
std::optional<int> gpu_named(const std::string& name);

}  // namespace foxscope
