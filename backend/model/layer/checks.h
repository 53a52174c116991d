#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "backend/base/error.h"
#include "backend/base/range.h"
#include "backend/model/layer/pass_options.h"
#include "backend/model/spec/model_config.h"
#include "backend/model/weights/device.h"
#include "backend/trace/recorder.h"

// Checks of the input of a pass, each worded once.

namespace foxscope {

/// The length of a text that is not read yet, or whose end is not known: any position may be in it.
inline constexpr std::int64_t kAnyLength = std::numeric_limits<std::int64_t>::max();

/// @throws Error for a text without tokens
void check_any(std::span<const std::int32_t> ids, std::string_view where);

/// @param where  what holds the ids, for the message: "the prompt"
/// @throws Error for an id outside the vocabulary, as throw_outside_vocabulary words it
void check_ids(std::span<const std::int32_t> ids, std::int64_t vocabulary_size, std::string_view where);

/// The token that begins a sequence, given by the user.
/// @throws UsageError outside the vocabulary
void check_bos(std::int64_t id, std::int64_t vocabulary_size);

/// How many tokens of a text are read; none: all.
/// @throws UsageError below 1
void check_limit(std::optional<std::int64_t> limit);

/// A share of a row's attention that may be skipped.
/// @throws UsageError outside [0, 1)
void check_pruning(double tolerance);

/// @throws UsageError for matrices in bfloat16 on a CPU
void check_dtype(DType dtype, const Device& device);

/// Whether so many tokens fit a model that has a table of positions.
/// @throws UsageError
void check_length(std::int64_t length, const ModelConfig& config);

/// @throws UsageError for a layer, head or position that the model or the text does not have, and for a change of gates
///         where nothing decays
void check_interventions(std::span<const Intervention> interventions, const ModelConfig& config, std::int64_t length);

/// A change of the gates of all layers, of a model that has none.
class NoGatesError : public UsageError {
 public:
  /// @param change  its place among the changes that were asked for
  NoGatesError(const std::string& text, std::size_t change) : UsageError(text), change_(change) {}
  [[nodiscard]] std::size_t change() const { return change_; }

 private:
  std::size_t change_;
};

/// Changes of gates that leave f = 1 as it is (`one`, `mean`, `scale=s`, `constant=1`) are of heads that have gates, by
/// the model or by a change before. The passes of a sweep, which goes through all heads, need not.
/// @throws UsageError naming the layers with gates; NoGatesError where there are none, and all layers were meant
void check_gates_change(std::span<const Intervention> interventions, const ModelConfig& config, std::string_view model);

/// Checks the options that a pass over `length` positions depends on beside their ids.
/// @throws UsageError as check_length, check_pruning and check_interventions do
void check_pass(const PassOptions& options, const ModelConfig& config, std::int64_t length);

/// Interventions on a text that goes on: zero@p may be of any position.
/// @throws UsageError as check_interventions does, and for `mean`, which no part of a text has
void check_continued(std::span<const Intervention> interventions, const ModelConfig& config);

/// Checks the positions whose mean loss the gradients are of, in a text of this length.
/// @throws UsageError for a range outside the text
Range check_saliency(const Range& target, std::int64_t length);

}  // namespace foxscope
