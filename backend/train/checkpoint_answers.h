#pragma once

#include "backend/agent/agent.h"

namespace foxscope {

/// The request "weights" (docs/agent.md): the checksum of a checkpoint's weights, which are read once as long as their
/// files stay as they are.
void add_checkpoint_answers(agent::Agent& agent);

}  // namespace foxscope
