#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "backend/base/error.h"
#include "backend/model/training/nccl_backend_torch.h"

namespace foxscope {

c10::intrusive_ptr<c10d::Backend> make_nccl_backend(const c10::intrusive_ptr<c10d::Store>& /*store*/,
                                                    const DistributedConfig& /*distributed*/) {
  throw Error("this program was built without NCCL, over which processes on GPUs exchange: build it with nccl.h");
}

}  // namespace foxscope
