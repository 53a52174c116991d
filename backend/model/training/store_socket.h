#pragma once

#include "backend/base/distributed_config.h"

namespace foxscope {

/// Opens the port at which processes meet, where the starter says: of the addresses that `place.host` has, those that
/// the others try first come first. All interfaces are listened on only where that could keep the others out: a name
/// has several addresses or the loopback's here and there are other nodes, for which it may mean another one, or an
/// address that is no interface's of this node (a container's host).
/// @returns a socket that listens, for who takes it over
/// @throws Error where the port is taken, which is how another job on it is noticed, or the name is nobody's
int open_store_socket(const DistributedConfig& distributed);

}  // namespace foxscope
