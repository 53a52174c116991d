#pragma once

namespace foxscope::kernels {

/// The result of a kernel call. Kernels never throw; their callers turn a status into an error.
enum class Status {
  ok,
  cancelled,         ///< the stop token asked for it; outputs are incomplete
  invalid_argument,  ///< a shape, stride or pointer that the kernel cannot take: a mistake of the caller
  unsupported,       ///< right, but larger than the device or the kernel has room for: another has to compute it
  unavailable,       ///< no device that runs the kernel, or a build without it
  failed,            ///< the device refused the work
};

}  // namespace foxscope::kernels
