#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "backend/model/session/run_memory.h"
#include "backend/trace/query_key_store.h"
#include "backend/trace/trace.h"

namespace foxscope {

/// Where the queries, keys and values of runs of one model go: to its GPU's memory where they fit beside all else, then
/// to host memory (pinned if there is a GPU), then to a temporary file. Chosen before weights are loaded, for the
/// longest text.
class QueryKeyPlace {
 public:
  /// Keeps queries, keys and values nowhere, and names no GPU.
  QueryKeyPlace() = default;
  /// @param needs  of a run that keeps some of them; one that does not has no place for them
  /// @param free   what there is of each memory
  /// @param gpu    that the run is on and kernels/cuda can use
  /// @throws Error as memory_left does
  QueryKeyPlace(const RunNeeds& needs, std::int64_t length, const FreeMemory& free, const MemoryUser& user,
                std::optional<int> gpu);

  [[nodiscard]] bool on_gpu() const { return on_gpu_; }
  /// Bytes of host memory that they may take; beyond it they go to a temporary file.
  [[nodiscard]] std::int64_t host_budget() const { return host_budget_; }
  /// Where the runs are made (Trace::made_on), wherever their queries and keys are.
  [[nodiscard]] std::optional<int> gpu() const { return gpu_; }

  /// A store for one run; null where they are not kept. If the GPU has lost room since, it is in host memory.
  /// @param info  no longer than the longest text
  /// @param keep  what the needs were of
  [[nodiscard]] std::shared_ptr<RunQueryKeyStore> make_store(const TraceInfo& info, const KeepSet& keep) const;

 private:
  bool kept_ = false;
  bool on_gpu_ = false;
  std::int64_t host_budget_ = 0;
  std::optional<int> gpu_;
};

/// The GPU of a device that kernels/cuda can use; none on a CPU.
std::optional<int> kernel_gpu(const Device& device);

}  // namespace foxscope
