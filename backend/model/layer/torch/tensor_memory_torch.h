#pragma once

#include <ATen/core/Tensor.h>

namespace foxscope {

/// A tensor's memory as kernels take it; null where the tensor is undefined.
[[nodiscard]] inline void* memory_of(const at::Tensor& x) { return x.defined() ? x.mutable_data_ptr() : nullptr; }
[[nodiscard]] inline float* floats_of(const at::Tensor& x) {
  return x.defined() ? x.mutable_data_ptr<float>() : nullptr;
}

}  // namespace foxscope
