#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "backend/base/job.h"
#include "backend/model/causal_lm.h"
#include "backend/model/engine.h"
#include "backend/model/run_memory.h"
#include "backend/trace/trace.h"

namespace foxscope {

/// What a run reads: a text, or token ids.
struct RunInput {
  std::shared_ptr<const Text> text;  ///< null: ids
  std::vector<std::int32_t> ids;     ///< the text's tokens, or the input ids when labels are given
  std::optional<std::vector<std::int32_t>> labels;
  std::string name;  ///< of the file, for errors
};

/// One model on one input.
struct RunRequest {
  std::string name;   ///< NAME in the run file
  std::string model;  ///< folder or hub id
  RunInput input;
  std::optional<std::int64_t> limit;  ///< first N tokens; none: all
  std::optional<std::int64_t> bos;    ///< token id
  DeviceChoice device;
  std::optional<DType> dtype;               ///< none: float32 on a CPU, bfloat16 on a GPU
  std::optional<double> pruning_tolerance;  ///< overrides the config's, which overrides 2^-24
  std::vector<Intervention> interventions;
  KeepSet keep;
  std::optional<LossRange> saliency;  ///< of whose mean loss the gradients are, where saliency is kept; none: of all
  std::shared_ptr<Engine> engine;     ///< where its model is kept for the next request; null: nowhere
};

/// Figures of one run, as in the summary of `foxscope run --json`.
struct RunReport {
  ForwardReport forward;
  double load_seconds = 0;
  double forward_seconds = 0;
  std::vector<std::string> notes;  ///< what the user should be told
};

struct RunResult {
  std::shared_ptr<const Trace> trace;
  RunReport report;
};

/// What a run would take, known before it is made.
struct RunEstimate {
  std::int64_t tokens = 0;
  RunNeeds needs;
  FreeMemory free;  ///< now
};
/// Whether an estimate is over the tokens themselves, or over as many as the text has bytes, which takes no time.
enum class TokenCount { exact, at_most };
/// @returns nothing if the job was stopped. @throws as run_model does before it loads weights
std::optional<RunEstimate> estimate_run(const RunRequest& request, TokenCount count, const Job& job);

/// Opens the checkpoint, cuts the text, checks that the run fits into memory, runs the model and returns its trace.
/// @returns nothing if the job was stopped
/// @throws Error and UsageError with the remedy
std::optional<RunResult> run_model(const RunRequest& request, const Job& job);

}  // namespace foxscope
