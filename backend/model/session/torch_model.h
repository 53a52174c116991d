#pragma once

#include <cstdint>
#include <memory>

#include "backend/model/session/causal_lm.h"

namespace foxscope {

/// How many devices LibTorch's CUDA libraries see: 0 without a driver, and without these libraries.
int cuda_device_count();

/// Bytes that a GPU could still give; LibTorch gives back first what it holds of it without use.
std::int64_t free_device_memory(int index);

/// A model on any device. On a GPU attention is kernels/cuda's where it takes the head dimension, and in bfloat16 so is
/// everything between the matrix products, for the families that it takes; else it is made of LibTorch's operations, as
/// on the CPU, where it is the twin that tests hold against the fused forward. Attention goes tile by tile; no L x L
/// array exists.
/// @param dtype  of the matrices; residuals, norms, gates and loss stay float32
/// @returns nothing if the job was stopped
std::unique_ptr<CausalLM> load_torch_model(const Checkpoint& checkpoint, const Device& device, DType dtype,
                                           const Job& job = {});

}  // namespace foxscope
