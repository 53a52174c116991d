#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "backend/eval/heads/heads_evaluation.h"
#include "backend/file/run_file.h"

namespace foxscope {

/// @content of such files.
inline constexpr const char* kEvalHeadsContent = "eval_heads";
inline constexpr const char* kHeadsContent = "heads";

/// The source of the statistics: windows of a corpus (`eval heads`), or one run (`heads`).
enum class HeadsContent { evaluation, run };

/// Statistics of every head of one or more models, as `foxscope eval heads` and `foxscope heads -o` write them.
///
/// Layout of the file (float64 unless said):
///   /                       the run file's attributes, @content = "eval_heads" or "heads", @source; of a corpus
///                           @seed @corpus_documents @corpus_tokens @error_estimator
///   /documents/name, sha256 strings, of a corpus
///   /models/<NAME>          the run file's attributes, @order (0: the first), @length of the longest window;
///                           of a corpus @documents @effective_documents
///     windows/document [M] int32, tokens, token_start, byte_start, byte_end [M] int64; not of a run
///     numbers/              NXdata: one dataset [layers, H] a statistic with @units, and NAME_errors; axes layer, head
///     by_distance/          NXdata: mass..., logit_content, logit_decay [layers, H, bins] with @units and NAME_errors;
///                           distance [bins] is the first of each bin, distance_end one behind its last
///     by_channel/           mean_log_decay [layers, H, channels] with @units and NAME_errors, of layers that decay by
///                           channel; channel [channels] int64
///     by_class/             mean_log_gate... [layers, H, classes] with @units and NAME_errors; token_class strings,
///                           tokens [classes] int64
/// Errors that are unknown are NaN; of a run there are none at all. Nor are there any, whatever the file holds, where
/// the documents do not suffice (ErrorGroups): older programs wrote some.
struct HeadsEvaluation {
  HeadsContent content = HeadsContent::evaluation;
  EvaluatedCorpus corpus;
  std::vector<EvaluatedHeads> models;  ///< in the order of the command line
  std::string program_version;
  std::string command_line;
  std::string created;

  /// @throws Error naming the file, the object in it, and the remedy: not HDF5, another kind of file, newer schema,
  ///         damaged
  static HeadsEvaluation open(const std::filesystem::path& path);
};

/// @throws Error naming the file and the remedy (exists, not writable, disk full)
void write_heads_file(const std::filesystem::path& path, const HeadsEvaluation& evaluation,
                      const Provenance& provenance, Overwrite overwrite);

}  // namespace foxscope
