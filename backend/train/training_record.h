#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <utility>
#include <vector>

#include "backend/train/training_folder.h"
#include "backend/train/training_log.h"

namespace foxscope {

/// The records of a training so far.
struct TrainingRecord {
  std::vector<TrainingStep> steps;              ///< by step; not empty
  std::vector<TrainingMeasures> measures;       ///< likewise, may be empty; those with decay times have one shape
  std::vector<TrainingCheckpoint> checkpoints;  ///< likewise, may be empty
  std::int64_t planned_steps = 0;               ///< of the whole training; 0: not known
  bool running = false;                         ///< a process trained there when this was read

  /// The line of a step; null where there is none.
  [[nodiscard]] const TrainingStep* step(std::int64_t number) const;
  [[nodiscard]] const TrainingMeasures* measured(std::int64_t number) const;
  /// Seconds that the steps to come will take, each as long as the last ones did; 0 where no process trains, none is to
  /// come, or it is not known.
  [[nodiscard]] double seconds_left() const;
  /// Layers and heads of the decay times; 0 for models without gates, and before they were measured.
  [[nodiscard]] int layers() const;
  [[nodiscard]] int heads() const;
};

/// Reads the folder of a training that may still be running, as often as it is asked to. It reads the lines that were
/// added to the logs since the last time, and all where a log is not the one that it was.
class TrainingReader {
 public:
  explicit TrainingReader(std::filesystem::path folder) : folder_(std::move(folder)) {}

  /// The folder as it stands.
  /// @throws Error naming the folder where it is missing, is no training's or has no step yet, and the file where a
  ///         line is damaged; the next call begins where this one did
  std::shared_ptr<const TrainingRecord> read();

 private:
  struct Known {
    LogPlace steps;
    LogPlace measures;
    std::shared_ptr<const TrainingRecord> record;  ///< null before the first
  };
  TrainingFolder folder_;
  Known known_;
};

/// The same, once.
TrainingRecord read_training(const std::filesystem::path& folder);

/// Centred means of `width` steps' losses (odd; 1: none), of fewer at the ends.
/// @throws UsageError for a width that is even or below 1
std::vector<double> smoothed_losses(const std::vector<TrainingStep>& steps, std::int64_t width);

}  // namespace foxscope
