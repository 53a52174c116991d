#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "backend/model/checkpoint.h"
#include "backend/model/run.h"
#include "backend/text/tokenizer.h"

namespace foxscope {

/// The tokens of a run: a text is cut by the checkpoint's tokenizer and BOS put before it; ids likewise, or used as
/// they are when labels come with them (docs/models.md, Positions). Cut to request.limit.
/// @throws Error, UsageError naming the input and the remedy: nothing to read, ids outside the vocabulary, no BOS
std::shared_ptr<const TokenTable> read_run_tokens(const RunRequest& request, const Checkpoint& checkpoint);

/// Whether the folder holds a tokenizer's files.
bool has_tokenizer(const Checkpoint& checkpoint);

/// What a model reads of an input that it is to continue: BOS and all tokens of a text or a list of ids (BOS alone of
/// an empty one), or input ids as they are where labels came with them.
/// @param tokenizer  needed for a text
/// @throws Error, UsageError as read_run_tokens does
std::vector<std::int32_t> read_prompt(const RunRequest& request, const Checkpoint& checkpoint,
                                      const Tokenizer* tokenizer);

}  // namespace foxscope
