#pragma once

#include <memory>

#include "backend/model/causal_lm.h"

namespace foxscope {

/// Whether this program was built with LibTorch's CUDA libraries, and how many devices they see (0 without a driver).
bool cuda_is_built();
int cuda_device_count();

/// A model made of LibTorch's operations alone, on any device: what runs on a GPU, and on the CPU the twin that tests
/// hold against the fused forward. Attention goes tile by tile; no L x L array exists.
/// @param dtype  of the matrices; residuals, norms, gates and loss stay float32
std::unique_ptr<CausalLM> load_composed_model(const Checkpoint& checkpoint, const Device& device, DType dtype);

}  // namespace foxscope
