#pragma once

#include "backend/agent/agent.h"

namespace foxscope::agent {

/// Requests about run files: open, array, rows, map, line, pair, statistics, split, logits, pruning (docs/agent.md).
/// Files that were opened last stay open.
void add_run_answers(Agent& agent);

}  // namespace foxscope::agent
