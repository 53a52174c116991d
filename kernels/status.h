#pragma once

namespace foxscope::kernels {

/// What a kernel call ended with. Kernels never throw; their callers turn a status into an error.
enum class Status {
  ok,
  cancelled,         ///< the stop token asked for it; outputs are incomplete
  invalid_argument,  ///< a shape, stride or pointer that the kernel cannot take
};

}  // namespace foxscope::kernels
