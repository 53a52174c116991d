#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "backend/base/job.h"
#include "backend/eval/heads/heads_file.h"
#include "backend/eval/planned_model.h"

namespace foxscope {

class Processes;

/// Models whose heads are looked at over windows of a corpus.
struct HeadsRequest {
  std::vector<OpenedModel> models;
  EvaluationInput input;
};

/// Events for the caller on the way, beside the job's progress.
struct HeadsEvents {
  std::function<void(const std::string& name)> model;  ///< a model's turn comes
  std::function<void(const std::string& text)> note;   ///< a warning for the user
};

/// Runs every model on every window after BOS, as many of one length together as memory allows, and averages what
/// measure_head gives for each head, with content and decay split. Gates by class need windows with a text; rare words
/// are rare in the whole corpus. Only the numbers of a window are kept.
/// @param processes  that share the windows, or null; they all get the same request. Only the first process gets
///                   the whole result
/// @returns nothing if the job was stopped
/// @throws Error and UsageError with the remedy, as choose_windows and run_model do
std::optional<HeadsEvaluation> evaluate_heads(const HeadsRequest& request, const HeadsEvents& events, const Job& job,
                                              Processes* processes = nullptr);

}  // namespace foxscope
