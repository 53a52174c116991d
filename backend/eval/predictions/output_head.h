#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "backend/base/job.h"
#include "backend/model/session/engine.h"
#include "backend/model/weights/checkpoint.h"
#include "backend/text/tokenizer.h"
#include "backend/trace/trace.h"

namespace foxscope {

/// The head of a checkpoint, the matrix [V, D] whose product with a state behind the final norm is the logits of the
/// next token, times a factor or capped where the family does so; of tied weights the embedding. No family adds a bias.
/// Its numbers stay in the files, which are mapped into memory, and are read anew for each product. Needs no LibTorch.
class OutputHead {
 public:
  /// @param dtype  that the model ran in: its head was rounded to it
  OutputHead(const OpenedModel& model, DType dtype);

  [[nodiscard]] std::int64_t vocabulary_size() const { return config().vocabulary_size; }
  [[nodiscard]] std::int64_t hidden_size() const { return config().hidden_size; }
  /// A token of the vocabulary as text within a text, U+FFFD where it is part of a character; "⟨id⟩" without a
  /// tokenizer, and where it has no such token.
  [[nodiscard]] std::string token_string(std::int32_t id) const;

  /// Logits of several states.
  /// @param states  [count, D] float32
  /// @param logits  [count, V] float32
  /// @returns false if the job was stopped
  /// @throws Error naming the file and the tensor where it holds what is no number
  bool multiply(std::span<const float> states, std::int64_t count, std::span<float> logits, const Job& job) const;

 private:
  [[nodiscard]] const ModelConfig& config() const { return checkpoint_.config(); }

  Checkpoint checkpoint_;
  std::string tensor_;  ///< name
  DType dtype_;
  std::shared_ptr<const Tokenizer> tokenizer_;  ///< null: the folder has none
};

/// Whether a checkpoint is the one that made a run: its configuration and the checksum of its weights are equal, which
/// is looked at in this order. Nothing if the job was stopped.
/// @throws Error for files that cannot be read
std::optional<bool> has_made(const OpenedModel& model, const Trace& run, const Job& job);

}  // namespace foxscope
