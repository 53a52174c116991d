#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "backend/base/job.h"
#include "backend/file/run_file.h"

namespace foxscope::cli {

/// Predictions of a run file that are to be told.
struct PredictionsRequest {
  std::string path;                      ///< of the run file
  std::vector<std::int64_t> positions;   ///< what each position predicts
  int top = 10;                          ///< likeliest tokens
  std::vector<std::string> checkpoints;  ///< folders or hub ids of the models that made the runs
};

/// The likeliest tokens at positions of a run file's models, and rank and probability of those that came: of the models
/// that kept logits, and of those that kept states and whose checkpoints are given.
/// @returns JSON, or a report for people; empty if the job was stopped
/// @throws Error with the remedy where no model's predictions can be told, UsageError for a position that no run has
///         and a checkpoint that made none of the runs
std::string predictionsJson(const RunFile& file, const PredictionsRequest& request, const Job& job);
std::string predictionsText(const RunFile& file, const PredictionsRequest& request, const Job& job);

}  // namespace foxscope::cli
