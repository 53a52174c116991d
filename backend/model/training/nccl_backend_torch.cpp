#include "backend/model/training/nccl_backend_torch.h"

#include <chrono>

#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>

namespace foxscope {
namespace {

/// Longest wait for the others within one operation: saving and evaluation lie between steps. That a process is gone is
/// found much earlier, by its signs of life.
constexpr std::chrono::minutes kLongestOperation(30);

}  // namespace

c10::intrusive_ptr<c10d::Backend> make_nccl_backend(const c10::intrusive_ptr<c10d::Store>& store,
                                                    const DistributedConfig& distributed) {
  auto options = c10d::ProcessGroupNCCL::Options::create();
  options->timeout = kLongestOperation;
  return c10::make_intrusive<c10d::ProcessGroupNCCL>(store, distributed.rank, distributed.world_size,
                                                     std::move(options));
}

}  // namespace foxscope
