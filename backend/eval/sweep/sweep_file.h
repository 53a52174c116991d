#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "backend/eval/loss/loss_change.h"
#include "backend/file/run_file.h"
#include "backend/model/spec/intervention.h"
#include "backend/trace/trace.h"

namespace foxscope {

/// @content of the root group.
inline constexpr const char* kSweepContent = "eval_sweep";

/// One head and what changing it did.
struct HeadChange {
  int layer = 0;
  int head = 0;
  LossChange change;
};

/// A model on one text, and the same with each single head changed, as `foxscope eval sweep` writes it. While it is
/// made, losses that are not known yet are missing.
///
/// Layout of the file (float64 unless said):
///   /              the run file's attributes, @content = "eval_sweep", @source (name of the text) @text_sha256
///                  @change (KIND of --change), @error_estimator @error_block (positions), @error_blocks (their number)
///   /models/<NAME> NXdata: change, change_errors [layers, H] nats; axes layer, head; the model's attributes, @length
///     unchanged_loss  [L] float32, nats
///     changed_loss    [layers, H, L] float32
///     layers/<NN>     as in run files, where layers are of several kinds: what a layer with fewer heads than H does
///     not
///                     have is NaN
///     token_id        [L] int32, what each position predicts; token [L] strings
/// Readers need unchanged_loss, changed_loss and the tokens; the rest is computed from these.
struct SweepEvaluation {
  TraceInfo info;
  Intervention change;  ///< of each head in turn
  std::string source;   ///< name of the text or the file of ids
  std::string text_sha256;
  std::vector<std::int32_t> token_id;            ///< [L] what each position predicts
  std::vector<std::string> token;                ///< [L] the same as strings; empty without a text
  std::vector<float> unchanged_loss;             ///< [L] nats; empty: not known yet
  std::vector<std::vector<float>> changed_loss;  ///< [layers * H] of [L] nats; empty: not known yet, or no head
  std::string program_version;
  std::string command_line;
  std::string created;

  [[nodiscard]] std::size_t place_of(int layer, int head) const {
    return static_cast<std::size_t>(layer) * static_cast<std::size_t>(info.heads) + static_cast<std::size_t>(head);
  }
  [[nodiscard]] bool knows(int layer, int head) const {
    return !unchanged_loss.empty() && !changed_loss[place_of(layer, head)].empty();
  }
  [[nodiscard]] bool whole() const;
  /// The effect of changing a head that is known. @throws ShapeError for one that is not
  [[nodiscard]] LossChange change_of(int layer, int head, std::size_t most = 10) const;
  /// The changes of all heads that are known, by layer, then head.
  [[nodiscard]] std::vector<HeadChange> changes(std::size_t most = 10) const;
  /// Whether the change of each head, in the order of changes(), is no chance at this false discovery rate. Heads in
  /// which the change alters nothing, as attention without gates, are no trial and do not count.
  /// @throws UsageError for a rate that is none
  [[nodiscard]] std::vector<bool> discovered(double rate) const;
  /// Mean of the unchanged losses, nats.
  [[nodiscard]] double mean_loss() const;
  /// A line a head: layer, head, change and its error, factor of the perplexity, tokens, the token that is hurt and the
  /// one that is helped most, by position and change; the p value; of a false discovery rate 1 where the head is
  /// discovered at it, else 0.
  [[nodiscard]] std::string csv(std::optional<double> rate = {}) const;

  /// @throws Error naming the file, the object in it, and the remedy: not HDF5, another kind of file, newer schema,
  ///         damaged
  static SweepEvaluation open(const std::filesystem::path& path);
};

/// @param evaluation  whole
/// @throws Error naming the file and the remedy (exists, not writable, disk full)
void write_sweep_file(const std::filesystem::path& path, const SweepEvaluation& evaluation,
                      const Provenance& provenance, Overwrite overwrite);

}  // namespace foxscope
