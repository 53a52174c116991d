#pragma once

#include <c10/util/intrusive_ptr.h>

#include "backend/base/distributed_config.h"

namespace c10d {
class Backend;
class Store;
}  // namespace c10d

namespace foxscope {

/// NCCL's, of processes with a GPU each.  @throws Error where the program was built without
c10::intrusive_ptr<c10d::Backend> make_nccl_backend(const c10::intrusive_ptr<c10d::Store>& store,
                                                    const DistributedConfig& distributed);

}  // namespace foxscope
