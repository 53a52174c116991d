#pragma once

#include <filesystem>
#include <optional>
#include <vector>

#include "backend/base/job.h"
#include "backend/eval/surprisal/surprisal_table.h"
#include "backend/model/session/engine.h"

namespace foxscope {

/// The gate columns of the table: the mean over all heads, or one for each head.
enum class GateColumns { mean, heads };

/// Whether the probability of a word includes the end of the word.
enum class WordEnds { left_out, counted };

struct SurprisalRequest {
  std::filesystem::path corpus;       ///< a text, a .jsonl, or a folder of them
  std::optional<std::int64_t> limit;  ///< first N tokens of each document; none: all
  GateColumns gates = GateColumns::mean;
  WordRule words = WordRule::white_space;
  WordEnds ends = WordEnds::left_out;  ///< counted: of words between white space only
};

/// @returns nothing if the job was stopped
/// @throws Error and UsageError with the remedy, as run_model and CorpusReader do
std::optional<Surprisals> evaluate_surprisal(const OpenedModel& model, const SurprisalRequest& request, const Job& job);

/// Scores the sentences of pairs, each by itself after BOS.
/// @returns nothing if the job was stopped
/// @throws likewise, and Error for a sentence without tokens
std::optional<MinimalPairs> evaluate_pairs(const OpenedModel& model, std::vector<MinimalPair> pairs, const Job& job);

}  // namespace foxscope
