#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "backend/model/spec/model_config.h"
#include "backend/model/weights/device.h"
#include "backend/trace/trace_arrays.h"

namespace foxscope {

enum class Recompute;

/// Memory that a run takes, in bytes: what does not depend on the text, what each token adds, and what queries, keys
/// and values add if they are kept: these alone may also go elsewhere, from a GPU to the host, from there to a file.
struct RunMemory {
  std::int64_t fixed = 0;
  std::int64_t per_token = 0;
  std::int64_t stored_per_token = 0;
};

/// The memory that a run takes of the host, and of a GPU where it is on one.
struct RunNeeds {
  RunMemory host;
  std::optional<RunMemory> gpu;
};
/// @param parameters  of weights that are yet to be loaded
/// @param recompute   of a pass with gradients, where saliency is kept
RunNeeds estimate_needs(const ModelConfig& config, std::int64_t parameters, const KeepSet& keep, DType dtype,
                        const Device& device, Recompute recompute = {});

/// Bytes of the host, and of a GPU where there is one.
struct FreeMemory {
  std::int64_t host = 0;
  std::int64_t gpu = 0;
};
FreeMemory free_memory(const Device& device);

/// The number of tokens that go through a model at once: until more make a pass no faster, and no more than fit into
/// half of the free memory with what is kept of them; 0 if none fit.
std::int64_t batch_tokens(const RunNeeds& needs, const FreeMemory& free);

/// A user of memory, and the remedies if there is too little, in the words of the message.
struct MemoryUser {
  std::string what;                   ///< "a run over 4096 tokens needs"
  std::string length_option;          ///< "--length", before how many tokens would fit; empty: there is none
  std::vector<std::string> remedies;  ///< more of them, "leave logits out of --keep"
};

/// The free memory that a run over so many tokens leaves, its queries, keys and values not counted.
/// @throws Error with what is needed, what there is and what would fit, if that is too little
FreeMemory memory_left(const RunNeeds& needs, std::int64_t length, const FreeMemory& free, const MemoryUser& user);

}  // namespace foxscope
