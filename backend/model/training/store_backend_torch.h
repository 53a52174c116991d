#pragma once

#include <c10/util/intrusive_ptr.h>

#include "backend/base/distributed_config.h"

namespace c10d {
class Backend;
class Store;
}  // namespace c10d

namespace foxscope {

/// Collective operations of processes on CPUs through the store at which they meet: every tensor passes through one
/// server, and sums are made in the order of ranks. For tests; of what c10d::Backend has it knows allreduce, broadcast,
/// _allgather_base and _reduce_scatter_base.
c10::intrusive_ptr<c10d::Backend> make_store_backend(const c10::intrusive_ptr<c10d::Store>& store,
                                                     const DistributedConfig& distributed);

}  // namespace foxscope
