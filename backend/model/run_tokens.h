#pragma once

#include <memory>

#include "backend/model/checkpoint.h"
#include "backend/model/run.h"

namespace foxscope {

/// The tokens of a run: a text is cut by the checkpoint's tokenizer and BOS put before it; ids likewise, or used as
/// they are when labels come with them (interface.md, Positions). Cut to request.limit.
/// @throws Error, UsageError naming the input and the remedy: nothing to read, ids outside the vocabulary, no BOS
std::shared_ptr<const TokenTable> read_run_tokens(const RunRequest& request, const Checkpoint& checkpoint);

}  // namespace foxscope
