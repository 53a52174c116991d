#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "backend/base/job.h"
#include "backend/model/session/engine.h"
#include "backend/model/session/run_memory.h"
#include "backend/model/session/run_tokens.h"

namespace foxscope {

/// The input of a run, and the arrays that are kept of it.
struct RunRequest {
  RunInput input;
  std::optional<std::int64_t> limit;  ///< first N tokens; none: all
  KeepSet keep;
  std::optional<Range> saliency;  ///< of whose mean loss the gradients are, where saliency is kept; none: of all
};

/// Checks all of a request that can be wrong before its input is read.
/// @throws UsageError naming the option
void validate(const RunRequest& request, const OpenedModel& model);

/// A run that is to be made: its request, checked with its model and its tokens, of which each is read once.
struct RunPlan {
  OpenedModel model;
  RunRequest request;                        ///< its keep: with what that needs
  std::shared_ptr<const TokenTable> tokens;  ///< of the run
  std::shared_ptr<const Text> text;          ///< the part that these are; null where ids were given
  RunNeeds needs;                            ///< of memory
  MemoryUser memory_user;                    ///< words for the message if memory is too small
  [[nodiscard]] std::int64_t length() const { return std::ssize(tokens->id); }
};

/// Cuts the text, and checks all that does not need the weights.
/// @param cut  the tokens where estimate_run has cut them of this input and limit; null: they are cut
/// @throws Error and UsageError with the remedy
RunPlan plan_run(OpenedModel model, RunRequest request, std::shared_ptr<const TokenTable> cut = nullptr);

/// Figures of one run, as in the summary of `foxscope run --json`.
struct RunReport {
  ForwardReport forward;
  double load_seconds = 0;
  double forward_seconds = 0;
  std::vector<std::string> notes;  ///< warnings for the user
};

struct RunResult {
  std::shared_ptr<const Trace> trace;
  RunReport report;
};

/// The run as a user of memory, with the remedies if there is too little. Gradients of a part of the text do not need
/// the text behind that part.
/// @param sizes  of its arrays
MemoryUser memory_user(const RunRequest& request, const TraceSizes& sizes, DType dtype);

/// The memory of a run, estimated before it is made.
struct RunEstimate {
  std::int64_t tokens = 0;
  RunNeeds needs;
  FreeMemory free;                        ///< now
  std::shared_ptr<const TokenTable> cut;  ///< for plan_run; null where only bytes were counted
};
/// Whether an estimate is over the tokens themselves, or over as many as the text has bytes, which takes no time.
enum class TokenCount { exact, at_most };
/// @returns nothing if the job was stopped. @throws as run_model does before it loads weights
std::optional<RunEstimate> estimate_run(const OpenedModel& model, const RunRequest& request, TokenCount count,
                                        const Job& job);

/// Checks that a run fits into memory, loads its model and runs it.
/// @returns nothing if the job was stopped
/// @throws Error and UsageError with the remedy
std::optional<RunResult> run_model(const RunPlan& plan, const Job& job);

}  // namespace foxscope
