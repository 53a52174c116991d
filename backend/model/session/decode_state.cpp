#include "backend/model/session/decode_state.h"

#include <algorithm>
#include <limits>

#include <fmt/format.h>

#include "backend/base/error.h"
#include "backend/model/layer/checks.h"

namespace foxscope {

TextScores score_ending(DecodeState& decode_state, std::span<const std::int32_t> ids, int top) {
  TextScores scores;
  for (std::size_t n = 0; n < ids.size(); ++n) {
    if (n > 0) decode_state.read(ids[n - 1]);
    TokenChoice choice(ids[n], top);
    choice.add(0, decode_state.log_probabilities());
    scores.push_back(choice.finish(0));
  }
  return scores;
}

void check_prompts(std::span<const PromptRequest> prompts, const ModelConfig& config) {
  if (prompts.empty()) throw ShapeError("[begin] prompts: there must be at least one");
  for (const PromptRequest& prompt : prompts) {
    const std::size_t length = prompt.input_ids.size();
    if (length < 1) throw ShapeError("[begin] input_ids: there must be at least one");
    check_length(static_cast<std::int64_t>(length), config);
    if (prompt.pruning_tolerance != prompts.front().pruning_tolerance) {
      throw ShapeError("[begin] pruning_tolerance: expected the same of all prompts");
    }
    const bool kept = prompt.recorder != nullptr;
    if (prompt.labels.size() != (kept ? length : 0) ||
        (kept && prompt.recorder->info().length != static_cast<std::int64_t>(length))) {
      throw ShapeError(fmt::format("[begin] recorder and labels: expected {} positions", length));
    }
    check_ids(prompt.input_ids, config.vocabulary_size, "the prompt");
    check_ids(prompt.labels, config.vocabulary_size, "labels of the prompt");
    check_pruning(prompt.pruning_tolerance);
    check_continued(prompt.interventions, config);
  }
}

void check_next_token(std::int32_t id, std::int64_t position, const ModelConfig& config) {
  check_length(position + 1, config);
  check_ids({&id, 1}, config.vocabulary_size, "the next token");
}

}  // namespace foxscope
