#pragma once

struct CUstream_st;

namespace foxscope::kernels::cuda {

using Stream = CUstream_st*;  ///< cudaStream_t, without CUDA's headers

/// The type of numbers in device memory.
enum class ElementType { bfloat16, float32 };

}  // namespace foxscope::kernels::cuda
