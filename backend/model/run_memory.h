#pragma once

#include <cstdint>

#include "backend/model/model_config.h"
#include "backend/trace/recorder.h"

namespace foxscope {

/// Rows of the MLP, and numbers of a block of logits, that exist at once on a GPU.
inline constexpr std::int64_t kDeviceMlpRows = 16384;
inline constexpr std::int64_t kDeviceLogitElements = std::int64_t{1} << 27;

/// Memory that a run takes, in bytes: what does not depend on the text, what each token adds, and what queries and keys
/// add if they are kept (in host memory these alone can go to a temporary file instead).
struct RunMemory {
  std::int64_t fixed = 0;
  std::int64_t per_token = 0;
  std::int64_t query_key_per_token = 0;
};

/// Host memory.
/// @param on_gpu  weights and activations are then not in host memory
RunMemory estimate_memory(const ModelConfig& config, std::int64_t parameters, const KeepSet& keep, DType dtype,
                          bool on_gpu);

/// The same for the memory of a GPU. What queries and keys add is theirs alone: they may also stay on the host.
RunMemory estimate_device_memory(const ModelConfig& config, std::int64_t parameters, const KeepSet& keep, DType dtype);

/// Bytes that this process may still take: the system's available memory, or what its control group or its own limit of
/// address space leaves.
std::int64_t available_memory();

/// How much of the available memory queries and keys may take; beyond it they go to a temporary file.
/// @throws Error with both figures and what would fit, if the rest of the run does not
std::int64_t query_key_budget(const RunMemory& memory, std::int64_t length, std::int64_t available,
                              const KeepSet& keep);

/// How much of a GPU's free memory queries and keys may take; beyond it they go to host memory.
/// @throws Error with both figures and what would fit, if the rest of the run does not
std::int64_t device_query_key_budget(const RunMemory& memory, std::int64_t length, std::int64_t free);

}  // namespace foxscope
