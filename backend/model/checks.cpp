#include "backend/model/checks.h"

#include <fmt/format.h>

#include "backend/base/error.h"
#include "backend/text/tokenizer.h"

namespace foxscope {

void check_ids(std::span<const std::int32_t> ids, std::int64_t vocabulary_size, std::string_view where) {
  for (std::size_t n = 0; n < ids.size(); ++n) {
    if (ids[n] >= 0 && ids[n] < vocabulary_size) continue;
    throw_outside_vocabulary(where, fmt::format("{}", ids[n]), fmt::format("position {}", n), vocabulary_size);
  }
}

void check_pruning(double tolerance) {
  if (tolerance >= 0 && tolerance < 1) return;
  throw UsageError(fmt::format("--pruning {}: use a share from 0 (nothing is skipped) to below 1", tolerance));
}

void check_dtype(DType dtype, const Device& device) {
  if (device.cuda || dtype == DType::float32) return;
  throw UsageError("--dtype bfloat16 needs --device cuda: on a CPU models run in float32");
}

void check_length(std::int64_t length, const ModelConfig& config) {
  if (config.learned_positions == 0 || length <= config.learned_positions) return;
  throw UsageError(
      fmt::format("{} tokens are more than the model has positions for, which is {}: use --limit {}, or a "
                  "shorter text",
                  length, config.learned_positions, config.learned_positions));
}

}  // namespace foxscope
