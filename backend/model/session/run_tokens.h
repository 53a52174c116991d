#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "backend/model/session/engine.h"

namespace foxscope {

/// The input of a model: a text, or token ids.
struct RunInput {
  std::shared_ptr<const Text> text;  ///< null: ids
  std::vector<std::int32_t> ids;     ///< the text's tokens, or the input ids when labels are given
  std::optional<std::vector<std::int32_t>> labels;
  std::string name;  ///< of the file, for errors
};

/// The tokens of a run: a text is cut by the model's tokenizer and BOS put before it; ids likewise, or used as they are
/// when labels come with them (docs/models.md, Positions).
/// @param limit  how many of the first are read; none: all
/// @throws Error, UsageError naming the input and the remedy: nothing to read, ids outside the vocabulary, no BOS
std::shared_ptr<const TokenTable> read_run_tokens(const OpenedModel& model, const RunInput& input,
                                                  std::optional<std::int64_t> limit);

/// The text of a run, with its SHA-256: where a limit left tokens out, the part that was read.
/// @param tokens  of read_run_tokens with this limit
/// @returns null where ids were given
std::shared_ptr<const Text> read_text_of(const RunInput& input, const TokenTable& tokens,
                                         std::optional<std::int64_t> limit);

/// The ids that a model reads of an input that it is to continue: BOS and all tokens of a text or a list of ids (BOS
/// alone of an empty one), or input ids as they are where labels came with them.
/// @throws Error, UsageError as read_run_tokens does
std::vector<std::int32_t> read_prompt(const OpenedModel& model, const RunInput& input);

}  // namespace foxscope
