#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "backend/base/job.h"
#include "backend/eval/loss/loss_file.h"
#include "backend/eval/planned_model.h"
#include "backend/model/training/processes.h"

namespace foxscope {

/// Models over windows of a corpus.
struct LossRequest {
  std::vector<OpenedModel> models;
  EvaluationInput input;
  std::filesystem::path output;  ///< the work so far is kept beside it, see loss_partial.h
  bool start_anew = false;       ///< unfinished work of other settings is thrown away
};

/// The cost of one model.
struct LossTiming {
  std::int64_t tokens = 0;   ///< computed now
  std::int64_t resumed = 0;  ///< windows whose losses an earlier process had computed
  double load_seconds = 0;
  double forward_seconds = 0;
  std::string attention_kernel;    ///< which implementation ran; empty where nothing was left to compute
  std::vector<std::string> notes;  ///< warnings for the user
};

struct LossResult {
  LossEvaluation evaluation;
  std::vector<LossTiming> timings;  ///< by model
};

/// Events for the caller on the way, beside the job's progress.
struct LossEvents {
  std::function<void(const std::string& name)> model;              ///< a model's turn comes
  std::function<void(const std::filesystem::path& path)> partial;  ///< the work so far is kept here from now on
  std::function<void(const std::string& text)> note;               ///< a warning for the user
};

/// Chooses the windows (windows.h), runs every model on every window after BOS, as many of one length together as make
/// a pass faster, and collects the losses. The windows are chosen with the first model's tokenizer; others get the same
/// texts (cut_windows). A process that ends early leaves OUTPUT.partial, from which the same request goes on; the
/// result does not depend on how often it was interrupted. The caller writes the file and then calls finish_loss.
/// @param processes  that evaluate together, each from a call of its own: passes are handed out to them, each on its
///                   device, and the first gets all losses and keeps the work so far. Null: one process
/// @returns nothing if the job was stopped; in the others than the first what is of no use
/// @throws Error and UsageError with the remedy, as run_model does; for a loss that is not a number
std::optional<LossResult> evaluate_loss(const LossRequest& request, const LossEvents& events, const Job& job,
                                        Processes* processes = nullptr);

/// Removes what was kept beside an output that is now in place.
void finish_loss(const LossRequest& request);

}  // namespace foxscope
