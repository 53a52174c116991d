#pragma once

#include <deque>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "backend/base/job.h"
#include "backend/data/windows.h"
#include "backend/data/windows_ids.h"
#include "backend/eval/loss/loss_file.h"
#include "backend/model/session/engine.h"
#include "backend/model/session/query_key_place.h"

namespace foxscope {

/// The input that models are evaluated on.
struct EvaluationInput {
  std::filesystem::path corpus;  ///< empty: ids
  WindowOptions windows;         ///< of a corpus
  IdsSource ids;
};

/// Windows as the first model's tokenizer cuts them, and what the others need to get the same texts.
struct WindowSource {
  std::string name;  ///< corpus or file of ids, as it was named
  Windows windows;
  std::optional<OpenedModel> chooser;  ///< whose tokenizer they were chosen with; none for ids
};

/// @param first  of the models
/// @param note   told of documents and rows that are left out; may be empty
/// @returns nothing if the job was stopped
/// @throws as choose_windows and read_window_ids do
std::optional<WindowSource> choose_source(const EvaluationInput& input, const OpenedModel& first,
                                          const std::function<void(const std::string&)>& note, const Job& job);

EvaluatedCorpus describe_corpus(const EvaluationInput& input, const WindowSource& source);

/// A model that is to be evaluated on windows.
struct PlannedModel : OpenedModel {
  std::int32_t bos_id = 0;
  Windows windows;                                ///< as its tokenizer cuts them
  std::shared_ptr<const EvaluatedWindows> table;  ///< the same for files
  TraceInfo info;                                 ///< length: of the longest window
};

MemoryUser memory_user(const PlannedModel& model);

/// Groups windows of equal length that go through the model in one pass. A pass grows until more tokens make it no
/// faster, or until memory is full.
/// @param tokens_at_once  of windows of one length, if one alone is not longer
/// @param done            by window: those that are left out; empty: none
/// @returns indices of model.windows
std::vector<std::vector<std::size_t>> window_batches(const PlannedModel& model, std::size_t tokens_at_once,
                                                     std::vector<bool> done = {});

/// The result of a pass over windows.
struct WindowPass {
  std::deque<Recorder> recorders;  ///< by window
  ForwardReport report;
};
/// Windows of one length, each after BOS, in one pass.
/// @param windows  indices of model.windows
/// @param place    of queries, keys and values that are kept
/// @returns nothing if the job was stopped
std::optional<WindowPass> forward_windows(const PlannedModel& model, CausalLM& lm, std::span<const std::size_t> windows,
                                          const KeepSet& keep, const QueryKeyPlace& place, const Job& job);

/// @returns nothing if the job was stopped
/// @throws Error and UsageError with the remedy for what the model cannot run on
std::optional<PlannedModel> plan_model(const OpenedModel& model, const WindowSource& source, const Job& job);

/// Lists what a model's results depend on beside the tokens, a line each, for require_same of processes. Only the
/// device may differ among processes.
std::string model_facts(const TraceInfo& info, std::int32_t bos_id);
/// The same with the windows.
std::string model_facts(const PlannedModel& model);

}  // namespace foxscope
