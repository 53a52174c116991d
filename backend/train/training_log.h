#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "backend/eval/estimate.h"
#include "backend/train/log_lines.h"

namespace foxscope {

/// A step of a training, a line of log.jsonl.
struct TrainingStep {
  std::int64_t step = 0;     ///< from 1
  std::int64_t tokens = 0;   ///< seen after it
  double loss = 0;           ///< mean of the step's batch before the update, nats
  double gradient_norm = 0;  ///< before clipping
  double learning_rate = 0;
  double seconds = 0;  ///< of the step
  double tokens_per_second = 0;
  std::optional<double> skipped_blocks;  ///< share of attention's blocks that pruning left out
  /// Model FLOPs utilisation, share of the device's peak: of all that the model is defined by, and without what pruning
  /// left out; none where the peak is not known.
  std::optional<double> mfu;
  std::optional<double> mfu_pruned;
};

/// Mean losses of ranges of positions.
struct PositionLosses {
  std::vector<std::int64_t> edges;  ///< [bins + 1] bin n covers positions edges[n] .. edges[n+1] - 1
  std::vector<double> loss;         ///< [bins] nats
};
/// @param loss  [L] by position
PositionLosses bin_losses(const std::vector<double>& loss);

/// The measures after a step, a line of evaluation.jsonl.
struct TrainingMeasures {
  std::int64_t step = 0;
  std::int64_t tokens = 0;
  std::optional<double> loss;        ///< held-out mean, nats
  std::optional<double> loss_error;  ///< its standard error
  ErrorGroups error_over;            ///< documents, or, of one text, rows; none in logs that do not say so
  std::int64_t rows = 0;             ///< held-out rows
  PositionLosses held_out;           ///< empty without held-out data
  PositionLosses training;           ///< of the steps since the line before
  int layers = 0;
  int heads = 0;
  /// [layers * H] T = -1 / mean(log f) in the steps since the line before, tokens; infinite where nothing is forgotten.
  /// Empty for models without gates.
  std::vector<double> decay_times;

  /// The held-out mean with its error. @pre there is one
  [[nodiscard]] Estimate held_out_loss() const;
};

/// A file of JSON lines, each with a "step", to which a training adds.
class TrainingLog {
 public:
  /// Opens or makes it, without lines behind a step, without one that was cut short, and without what follows a line
  /// that is damaged or does not follow the one before it.
  /// @param last_step  the last that stays
  /// @throws Error naming the file; for one whose first line is no step too: it is another file
  TrainingLog(const std::filesystem::path& path, std::int64_t last_step);
  ~TrainingLog();
  TrainingLog(const TrainingLog&) = delete;
  TrainingLog& operator=(const TrainingLog&) = delete;

  /// Adds a line, which is in the file when this returns.  @throws Error naming the file when the disk is full
  void add(const TrainingStep& step);
  void add(const TrainingMeasures& measures);

  /// Lines that stay.
  [[nodiscard]] std::int64_t kept() const { return kept_; }
  /// A copy of the file as it was before it was cut at a damaged line; empty where none was.
  [[nodiscard]] const std::filesystem::path& damaged() const { return damaged_; }

 private:
  void keep_damaged(std::size_t kept);
  void add_line(const std::string& line);

  std::filesystem::path path_;
  std::filesystem::path damaged_;
  std::int64_t kept_ = 0;
  int descriptor_ = -1;
};

/// Heads whose decay times are read: three times as many as the largest published models have.
inline constexpr std::size_t kMostLoggedHeads = 16384;

/// Adds the lines of log.jsonl behind a place, and moves the place on; a last line that was cut short is left out, a
/// missing file has none.
/// @throws Error naming the file and the line
void read_training_steps(const std::filesystem::path& path, LogPlace& place, std::vector<TrainingStep>& steps);
/// The lines of evaluation.jsonl, likewise.
void read_training_measures(const std::filesystem::path& path, LogPlace& place, std::vector<TrainingMeasures>& all);

}  // namespace foxscope
