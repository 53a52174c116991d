#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "backend/eval/needle/needle.h"
#include "backend/model/session/query_key_place.h"
#include "backend/trace/recorder.h"

namespace foxscope {

/// The arrays that the pass over a prompt records, for attention on the needle.
inline const KeepSet kNeedleKept = {Keep::gates, Keep::rows, Keep::query_key};

/// A model that is to be tested.
struct PlannedNeedle : OpenedModel {
  std::int32_t bos_id = 0;
  QueryKeyPlace place = {};         ///< of the passes over prompts
  std::int64_t tokens_at_once = 0;  ///< of prompts of one length, if one alone is not longer
  NeedleParts parts = {};
  NeedleModel result = {};
  std::vector<bool> cell_done = {};      ///< [P, Q]
  std::vector<bool> baseline_done = {};  ///< [P]
};

/// All models of a test, with every prompt's size known.
/// @returns nothing if the job was stopped
/// @throws Error and UsageError with the remedy, if a model cannot be tested
std::optional<std::vector<PlannedNeedle>> plan_needle(const NeedleRequest& request, const Job& job);

/// Tokens of the haystack in the longest prompt without the needle.
std::int64_t haystack_needed(const NeedleRequest& request, const NeedleParts& parts);

/// Lists what the prompts are made of, for require_same of processes.
std::string needle_facts(const NeedleRequest& request, const std::vector<PlannedNeedle>& models);

/// SHA-256 of all that the results depend on.
std::string needle_fingerprint(const NeedleRequest& request, const std::vector<PlannedNeedle>& models);

}  // namespace foxscope
