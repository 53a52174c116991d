#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "backend/model/backward/recompute.h"
#include "backend/model/spec/model_config.h"
#include "backend/model/weights/device.h"
#include "backend/trace/recorder.h"

namespace foxscope {

/// Memory that a run takes, in bytes: what does not depend on the text, what each token adds, and what queries, keys
/// and values add if they are kept (in host memory these alone can go to a temporary file instead).
struct RunMemory {
  std::int64_t fixed = 0;
  std::int64_t per_token = 0;
  std::int64_t stored_per_token = 0;
};

/// Host memory.
/// @param on_gpu  weights and activations are then not in host memory
RunMemory estimate_memory(const ModelConfig& config, std::int64_t parameters, const KeepSet& keep, DType dtype,
                          bool on_gpu);

/// The same for the memory of a GPU. Queries, keys and values are counted by themselves: they may also stay on the
/// host.
RunMemory estimate_device_memory(const ModelConfig& config, std::int64_t parameters, const KeepSet& keep, DType dtype);

/// Bytes that recomputing either spares for each token of a pass with gradients.
std::int64_t spared_per_token(const ModelConfig& config, DType dtype, Recompute recompute);

/// The memory that a run takes of the host, and of a GPU where it is on one.
struct RunNeeds {
  RunMemory host;
  std::optional<RunMemory> gpu;
};
RunNeeds estimate_needs(const ModelConfig& config, std::int64_t parameters, const KeepSet& keep, DType dtype,
                        const Device& device);

/// Bytes of the host, and of a GPU where there is one.
struct FreeMemory {
  std::int64_t host = 0;
  std::int64_t gpu = 0;
};
FreeMemory free_memory(const Device& device);

/// Tokens that go through a model at once: until more of them make a pass no faster, and as half of the free memory
/// allows, what is kept of all of them in memory included; 0 where that is too little for any.
std::int64_t batch_tokens(const RunNeeds& needs, const FreeMemory& free);

/// Who needs memory, and what could be done where there is too little, in the words of that message.
struct MemoryUser {
  std::string what;                   ///< "a run over 4096 tokens needs"
  std::string length_option;          ///< "--limit", before how many tokens would fit; empty: there is none
  std::vector<std::string> remedies;  ///< more of them, "leave logits out of --keep"
};

/// The free memory that a run over so many tokens leaves, its queries, keys and values not counted.
/// @throws Error with what is needed, what there is and what would fit, if that is too little
FreeMemory memory_left(const RunNeeds& needs, std::int64_t length, const FreeMemory& free, const MemoryUser& user);

}  // namespace foxscope
