#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "backend/model/training/trainable_model.h"
#include "backend/model/weights/checkpoint.h"
#include "backend/train/folder_lock.h"
#include "backend/train/recipe.h"

namespace foxscope {

/// The state of a training beside the weights of its checkpoint (training.json).
struct TrainingState {
  std::int64_t step = 0;                ///< steps that are done
  std::int64_t tokens = 0;              ///< seen by them
  std::string data;                     ///< TokenRows::fingerprint
  std::string recipe;                   ///< SHA-256 of what a resumed training must not change (Recipe)
  std::int64_t micro_batch_tokens = 0;  ///< whose gradients were made together in each process; 0: not known
  /// Sums over the steps since the last line of evaluation.jsonl, by process; empty if there are none.
  std::vector<CurveSums> curves;
};

/// The files of a tokenizer, in memory: those of a checkpoint go when the checkpoint does.
struct TokenizerFiles {
  std::vector<std::pair<std::string, std::string>> files;  ///< name, content

  /// @param folder  empty: none
  /// @throws Error naming a file that cannot be read
  static TokenizerFiles read(const std::filesystem::path& folder);
};

/// A checkpoint of a training that is whole.
struct TrainingCheckpoint {
  std::int64_t step = 0;
  std::filesystem::path folder;
};

/// The folder that a training writes: recipe.json, log.jsonl, evaluation.jsonl, checkpoints/step-NNNNNN, and the lock
/// that keeps it the folder of one process.
///
/// A checkpoint is a folder in the published format, with float32 weights, which are the masters; beside them
/// optimizer.safetensors (`exp_avg.NAME` and `exp_avg_sq.NAME` for every parameter) and training.json. It is written
/// under a name that begins with a dot, and gets its own when all of it is on the disk.
class TrainingFolder {
 public:
  explicit TrainingFolder(std::filesystem::path path) : path_(std::move(path)) {}

  [[nodiscard]] std::filesystem::path recipe() const { return path_ / "recipe.json"; }
  [[nodiscard]] std::filesystem::path log() const { return path_ / "log.jsonl"; }
  [[nodiscard]] std::filesystem::path evaluation() const { return path_ / "evaluation.jsonl"; }
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

  /// Makes it, with its recipe, and locks it.
  /// @throws Error naming it where another training or other files are in it, where another process trains there, and
  ///         where it cannot be made
  void create(const Recipe& recipe);
  /// Whether a path is such a folder.
  static bool is(const std::filesystem::path& path);
  /// @throws Error naming what a path lacks that is no such folder
  static void require(const std::filesystem::path& path);
  /// Whether a new training can begin there: nothing is, or no more than a process leaves that was killed while it made
  /// the folder.
  static bool is_free(const std::filesystem::path& path);

  /// Keeps other processes out for as long as the object lives.
  /// @returns false where the file system knows no locks
  /// @throws Error naming the folder, and the process and host that hold it
  bool lock();
  /// Checks that no other process can have taken the folder meanwhile.  @throws Error as FolderLock::require_there
  void require_lock() const {
    if (lock_) lock_->require_there();
  }

  /// Steps that the recipe asks for; 0 where it does not say so in numbers that go together.
  [[nodiscard]] std::int64_t planned_steps() const;
  /// Whether a process trains there now, as far as the file system knows.
  [[nodiscard]] bool is_running() const { return FolderLock::is_held(path_); }

  /// The checkpoints that are whole, by step.
  [[nodiscard]] std::vector<TrainingCheckpoint> checkpoints() const;
  /// Removes what a process that was killed left of a checkpoint.
  void remove_unfinished() const;

  /// Writes a checkpoint, and removes those that the recipe does not keep once it is whole.
  /// @param tokenizer  files that go with it
  /// @throws Error naming the file that could not be written; nothing of the checkpoint is left
  void save(const ModelConfig& config, const TrainingSnapshot& snapshot, const TrainingState& state,
            const TokenizerFiles& tokenizer, const KeptCheckpoints& keep) const;

 private:
  std::filesystem::path path_;
  std::unique_ptr<FolderLock> lock_;
};

/// Reads training.json of a checkpoint.  @throws Error naming what is missing or damaged
TrainingState read_training_state(const std::filesystem::path& checkpoint);

/// The moments of a checkpoint's optimiser.
class MomentSource final : public ParameterSource {
 public:
  /// @param part  first_moment or second_moment
  /// @throws Error naming the file: missing, damaged, of another model
  MomentSource(const std::filesystem::path& checkpoint, const ModelConfig& config, TrainingPart part);
  [[nodiscard]] std::int64_t bytes(const Parameter& parameter) const override;
  void read(const Parameter& parameter, const std::function<bool(std::span<const float> piece)>& take) const override;

 private:
  [[nodiscard]] const TensorView& view(const Parameter& parameter) const;

  SafetensorsFile file_;
  std::string prefix_;
};

}  // namespace foxscope
