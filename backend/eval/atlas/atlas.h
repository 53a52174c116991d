#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "backend/base/job.h"
#include "backend/eval/atlas/atlas_file.h"
#include "backend/eval/planned_model.h"
#include "backend/model/training/processes.h"

namespace foxscope {

/// Models whose heads are looked at over windows of corpora.
struct AtlasRequest {
  std::vector<OpenedModel> models;
  std::vector<EvaluationInput> inputs;  ///< one for each corpus, of one kind, whose windows are chosen alike
  std::int64_t passages = 32;           ///< K, of each kind and head
  std::int64_t rows = 64;               ///< of attention in each window, AtlasShape::rows
  std::filesystem::path output;         ///< the work so far is kept beside it, see shared_work.h
  bool start_anew = false;              ///< unfinished work of other settings is thrown away
};

/// Events for the caller on the way, beside the job's progress.
struct AtlasEvents {
  std::function<void(const std::string& name)> model;              ///< a model's turn comes
  std::function<void(const std::filesystem::path& path)> partial;  ///< the work so far is kept here from now on
  /// All windows that this process read of a model are in the sums; seconds without loading and writing.
  std::function<void(const std::string& name, std::int64_t tokens, double seconds)> read;
  std::function<void(const std::string& text)> note;  ///< a warning for the user
};

/// Runs every model on every window after BOS, as many of one length together as make a pass faster, and adds up what
/// their heads do (add_window). Models that read the same windows as the first are compared with it, which runs again
/// for each of them. Windows are chosen in each corpus by itself, with the first model's tokenizer; other
/// models get the same texts. The sums of windows are kept beside the output from time to time: a process that ends
/// early loses a tenth of its work or less, and the same request goes on from there. The result does not depend on how
/// often it was interrupted, nor on the number of processes.
/// @param processes  that share the windows, each from a call of its own; the first gets all sums. Null: one process
/// @returns nothing if the job was stopped; in the others than the first what is of no use
/// @throws Error and UsageError with the remedy, as evaluate_loss does; for a document that two corpora hold; for a
///         gate that is not a number
std::optional<Atlas> evaluate_atlas(const AtlasRequest& request, const AtlasEvents& events, const Job& job,
                                    Processes* processes = nullptr);

/// Removes what was kept beside an output that is now in place.
void finish_atlas(const AtlasRequest& request);

}  // namespace foxscope
