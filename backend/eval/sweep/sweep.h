#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "backend/base/job.h"
#include "backend/eval/loss/loss_partial.h"
#include "backend/eval/sweep/sweep_file.h"
#include "backend/model/session/run_tokens.h"

namespace foxscope {

/// A text, and which change each head of a model is given in turn.
struct SweepRequest {
  RunInput input;
  std::optional<std::int64_t> limit;  ///< first N tokens; none: all
  Intervention change;                ///< layer and head are not looked at
};

/// A sweep that is checked and may begin, or go on: losses that its evaluation already has are not computed again. The
/// model's own interventions are part of what counts as unchanged.
struct SweepPlan : OpenedModel {
  std::shared_ptr<const TokenTable> tokens;
  SweepEvaluation evaluation = {};

  /// Heads whose losses are known.
  [[nodiscard]] std::int64_t heads_known() const;
};

/// Cuts the text, and checks that the change changes something and that the sweep fits into
/// memory.
/// @returns nothing if the job was stopped
/// @throws Error and UsageError with the remedy, as run_model does; for a change of gates in a model without
std::optional<SweepPlan> plan_sweep(const OpenedModel& model, const SweepRequest& request, const Job& job);

/// Events for the caller on the way, beside the job's progress; on the working thread.
struct SweepEvents {
  std::function<void(const SweepEvaluation&)> unchanged;                  ///< the unchanged losses are known
  std::function<void(const SweepEvaluation&, int layer, int head)> head;  ///< this head's are
};

/// The cost of a sweep.
struct SweepTiming {
  double load_seconds = 0;
  double forward_seconds = 0;
  std::int64_t heads = 0;  ///< computed now
  std::string attention_kernel;
};

/// Runs the unchanged model once and then with each head changed whose losses are not known yet, and puts the
/// losses into the plan. The weights are loaded once. Layers that a change in layer l does not reach are not
/// computed again: each pass begins with layer l's input in the unchanged model, and gives the same losses as a
/// whole pass.
/// @returns nothing if the job was stopped: the plan holds what is known
/// @throws Error for a loss that is not a number, and as run_model does
std::optional<SweepTiming> run_sweep(SweepPlan& plan, const SweepEvents& events, const Job& job);

/// SHA-256 of all that a sweep's losses depend on.
std::string fingerprint(const SweepPlan& plan);

/// The work of a sweep on disk while it is made (loss_partial.h): kept losses go into the plan, and new losses are
/// appended.
class KeptSweep {
 public:
  /// @param output      the work is kept in OUTPUT.partial
  /// @param plan        outlives this
  /// @param start_anew  unfinished work of other settings is thrown away
  /// @param note        may be empty
  /// @throws Error as LossPartial
  KeptSweep(const std::filesystem::path& output, SweepPlan& plan, bool start_anew, LossPartial::Note note);
  /// Events that keep each result, and then call the caller's event of the same name.
  [[nodiscard]] SweepEvents events(SweepEvents then = {});
  [[nodiscard]] const std::filesystem::path& path() const { return losses_.path(); }

 private:
  SweepPlan& plan_;
  LossPartial losses_;
};

/// A sweep whose work so far is kept beside a file that is still to come.
struct SweepFileRequest {
  SweepRequest sweep;
  std::filesystem::path output;
  bool start_anew = false;  ///< unfinished work of other settings is thrown away
};
struct SweepResult {
  SweepEvaluation evaluation;
  SweepTiming timing;
  std::int64_t resumed = 0;  ///< heads that an earlier process had computed
};
/// Plans and runs a sweep. A process that ends early leaves OUTPUT.partial, from which the same request goes on; the
/// result does not depend on how often it was interrupted. The caller writes the file and then calls finish_sweep.
/// @param partial  called with the path at which the work is kept from now on; may be empty
/// @param note     a warning about the work so far; may be empty
/// @returns nothing if the job was stopped. @throws as plan_sweep and run_sweep do
std::optional<SweepResult> evaluate_sweep(const OpenedModel& model, const SweepFileRequest& request,
                                          const std::function<void(const std::filesystem::path&)>& partial,
                                          const LossPartial::Note& note, const Job& job);
/// Removes what was kept beside an output that is now in place.
void finish_sweep(const SweepFileRequest& request);

}  // namespace foxscope
