#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "backend/base/job.h"
#include "backend/model/training/processes.h"
#include "backend/train/recipe.h"
#include "backend/train/training_log.h"

namespace foxscope {

/// The facts of a training before its first step.
struct TrainingStart {
  std::string data;      ///< TokenRows::description
  std::string held_out;  ///< likewise; empty without
  double readings = 0;   ///< how often each row of the data is read in the whole training
  std::int64_t parameters = 0;
  std::int64_t steps = 0;       ///< of the whole training
  std::int64_t first_step = 1;  ///< of this process
  std::int64_t micro_batch_tokens = 0;
  Device device;
  DType dtype = DType::float32;
  int processes = 1;
};

/// Events for the caller on the way.
struct TrainingEvents {
  std::function<void(const TrainingStart&)> start;
  /// After each step.  @param memory  most that was used of a GPU's so far, bytes; 0 on a CPU
  std::function<void(const TrainingStep&, std::int64_t steps, std::int64_t memory)> step;
  std::function<void(const TrainingMeasures&)> measured;
  std::function<void(const std::filesystem::path& checkpoint)> saved;
  std::function<void(std::string_view)> note;
};

struct TrainingResult {
  std::filesystem::path checkpoint;  ///< the last
  std::int64_t steps = 0;            ///< done in all
  bool finished = false;             ///< false: it was stopped, and saved, before the last step or its evaluation
};

/// Trains a model as a recipe says, into a folder (TrainingFolder): steps of AdamW (AdamW), in the order
/// - the learning rate of the tokens seen before; - gradients of the mean loss over the step's rows, in micro-batches;
/// - their norm, clipping, the update; - the log's line; - evaluation and checkpoint where the recipe has one. A step
/// depends on the recipe and its number alone, so that a training that goes on from a checkpoint ends as one that was
/// never interrupted, whenever it was saved. A job that is stopped ends after the step at hand, which is saved;
/// held-out rows that are being read then are read when the training goes on. The folder is this process's alone
/// (FolderLock).
/// @param output  of a new training: must not exist, or be empty
/// @param resume  goes on in `output`, from its last whole checkpoint, or from the start where there is none
/// @param processes  that train together, each from a call of its own: every one reads its share of a step's rows, and
///                   the first alone writes and calls `events`; the result is that of one process but for rounding. All
///                   stop when one is to stop. Null: one process
/// @returns nothing if the job was stopped before the first step of all
/// @throws Error, UsageError with one line for what is wrong, before the first step as far as it can be known; for a
///         loss or a norm that is not finite, naming step and rows: the last checkpoint stays
std::optional<TrainingResult> train(const Recipe& recipe, const std::filesystem::path& output, bool resume,
                                    const TrainingEvents& events, const Job& job, Processes* processes = nullptr);

/// Whether two recipes differ by no more than a training may that goes on: where data and tokenizer lie, what it begins
/// with, when it evaluates and saves, on which device.
bool is_same_training(const Recipe& one, const Recipe& other);

}  // namespace foxscope
