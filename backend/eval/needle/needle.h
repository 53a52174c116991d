#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "backend/eval/needle/needle_file.h"
#include "backend/model/session/engine.h"
#include "backend/model/training/processes.h"

namespace foxscope {

/// A needle test that is to be made.
struct NeedleRequest {
  std::vector<OpenedModel> models;
  std::filesystem::path haystack;  ///< a corpus (corpus.h), read in order
  NeedleTemplate words = NeedleTemplate::built_in();
  NeedleMode mode = NeedleMode::easy;
  std::vector<std::int64_t> lengths;  ///< tokens
  std::vector<double> depths;         ///< shares, from 0 to 1
  std::filesystem::path output;       ///< the work so far is kept beside it (loss_partial.h)
  bool start_anew = false;            ///< unfinished work of other settings is thrown away
};

/// Events for the caller on the way, beside the job's progress.
struct NeedleEvents {
  std::function<void(const std::string& name)> model;  ///< a model's turn comes
  std::function<void(const std::string& line)> note;
  std::function<void(const std::filesystem::path& path)> partial;  ///< the work so far is kept here from now on
};

/// Tokens of the continuation beyond the answer's own.
inline constexpr std::int64_t kContinuationSlack = 16;

/// For every model, length and depth: a pass over the prompt (needle_prompt.h), together with those of other depths as
/// memory allows, then from its cache the answer's
/// log-probability and a greedy continuation of the answer's tokens and kContinuationSlack more. The baseline is the
/// prompt without the needle of the same length: one for each length. A process that ends early leaves OUTPUT.partial,
/// from which the same request goes on. The caller writes the file and then calls finish_needle.
/// @param processes  as evaluate_loss has them
/// @returns nothing if the job was stopped; in the others than the first what is of no use
/// @throws Error and UsageError with the remedy
std::optional<NeedleEvaluation> evaluate_needle(const NeedleRequest& request, const NeedleEvents& events,
                                                const Job& job, Processes* processes = nullptr);

/// Removes what was kept beside an output that is now in place.
void finish_needle(const NeedleRequest& request);

}  // namespace foxscope
