#pragma once

#include <memory>

#include "backend/model/session/causal_lm.h"

namespace foxscope {

/// A model on the CPU in float32: every position-wise step runs on one chunk of rows in one thread's cache, attention
/// in the tiled kernel.
/// @returns nothing if the job was stopped
std::unique_ptr<CausalLM> load_cpu_model(const Checkpoint& checkpoint, const Job& job);

}  // namespace foxscope
