#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "backend/generate/sampling.h"
#include "backend/model/session/run_tokens.h"

namespace foxscope {

/// A text that a model is to continue.
struct GenerateRequest {
  RunInput input;           ///< nothing in it: BOS alone
  std::int64_t tokens = 0;  ///< N, how many to add
  Sampling sampling;
};

/// The result of generating.
struct Generation {
  std::vector<std::int32_t> prompt;     ///< ids that were read, BOS included
  std::vector<std::int32_t> ids;        ///< [N]
  std::vector<float> log_probability;   ///< [N] nats, as the model has it, whatever the temperature
  std::string text;                     ///< empty where the checkpoint has no tokenizer
  std::vector<std::int64_t> held_keys;  ///< of all heads at the end, layer by layer; H of each layer
  double load_seconds = 0;
  double prompt_seconds = 0;
  double token_seconds = 0;  ///< for all tokens after the prompt
};

/// Reads a prompt and continues it.
/// @param give  takes the text as it comes, in whole characters; called on this thread; may be empty
/// @returns nothing if the job was stopped
/// @throws Error and UsageError with the remedy: as run_model does, N below 0, or more memory than there is
std::optional<Generation> generate(const OpenedModel& model, const GenerateRequest& request,
                                   const std::function<void(std::string_view)>& give, const Job& job);

}  // namespace foxscope
