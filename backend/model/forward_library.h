#pragma once

#include <cstdint>
#include <memory>

#include "backend/base/job.h"
#include "backend/model/layer/pass_bytes.h"
#include "backend/model/spec/model_config.h"
#include "backend/model/weights/device.h"
#include "backend/trace/trace_arrays.h"

namespace foxscope {

class CausalLM;
class Checkpoint;
class ParameterSource;
class Processes;
class TrainableModel;
enum class Recompute;
struct ProcessEvents;
struct DistributedConfig;
struct TrainableOptions;

/// The functions that need LibTorch, in a library of its own (foxscope_forward): the rest of the program starts, and
/// reads and draws run files, without it.
struct ForwardLibrary {
  int (*cuda_device_count)();
  std::int64_t (*free_device_memory)(int index);
  /// Bytes that a pass takes, with gradients where saliency is kept.
  PassNeeds (*pass_needs)(const ModelConfig& config, bool on_gpu, DType dtype, const KeepSet& keep,
                          Recompute recompute);
  std::unique_ptr<CausalLM> (*load)(const Checkpoint& checkpoint, const Device& device, DType dtype, const Job& job);
  std::unique_ptr<TrainableModel> (*make_trainable)(const ModelConfig& config, const ParameterSource& weights,
                                                    const TrainableOptions& options, const Job& job);
  std::unique_ptr<Processes> (*join_processes)(const DistributedConfig& distributed, const Device& device,
                                               const ProcessEvents& events);
};

/// Loads it, and LibTorch with it, when it is first asked for. From any thread.
/// @throws Error where it, or LibTorch, is not there
const ForwardLibrary& forward_library();

}  // namespace foxscope
