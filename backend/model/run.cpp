#include "backend/model/run.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <utility>

#include <fmt/format.h>

#include "backend/base/error.h"
#include "backend/base/log.h"
#include "backend/base/measures.h"
#include "backend/base/sha256.h"
#include "backend/model/interventions.h"
#include "backend/model/query_key_place.h"
#include "backend/model/run_settings.h"
#include "backend/model/run_tokens.h"

namespace foxscope {
namespace {

MemoryUser user_of(const RunRequest& request, std::int64_t length) {
  MemoryUser user{fmt::format("a run over {} tokens needs", length), "--limit", {}};
  for (const ArraySpec& spec : kTraceArrays) {
    if (spec.storage != Storage::raw || !request.keep.contains(spec.keep)) continue;
    user.remedies.push_back(fmt::format("leave {} out of --keep", word_of(spec.keep).word));
  }
  return user;
}

/// What the user should know of where queries, keys and values went.
void note_place(const std::shared_ptr<RunQueryKeyStore>& store, const TraceInfo& info,
                std::vector<std::string>& notes) {
  if (!store || std::string_view(store->where()) != "temporary file") return;
  notes.push_back(fmt::format("{}: {} take {:.1f} GiB and are held in a temporary file in {}", info.name,
                              words_of(store->parts()).title,
                              gibibytes(QueryKeyStore::bytes(store->shape(), info.dtype, store->parts())),
                              std::filesystem::temp_directory_path().string()));
}

std::shared_ptr<const Text> identify(const std::shared_ptr<const Text>& text) {
  if (!text || !text->sha256.empty()) return text;
  return std::make_shared<const Text>(Text{text->content, sha256(text->content)});
}

}  // namespace

std::optional<RunEstimate> estimate_run(const RunRequest& request, TokenCount count, const Job& job) {
  const Checkpoint checkpoint = Checkpoint::open(request.model);
  const ModelSettings settings = validate(request, checkpoint);
  RunEstimate estimate;
  if (count == TokenCount::exact || !request.input.text) {
    estimate.tokens = static_cast<std::int64_t>(read_run_tokens(request, checkpoint)->id.size());
  } else {
    estimate.tokens = static_cast<std::int64_t>(request.input.text->content.size());
    if (request.limit) estimate.tokens = std::min(estimate.tokens, *request.limit);
  }
  if (job.stopped()) return std::nullopt;
  const KeepSet keep = with_values_of_linear_mixers(request.keep, sizes_of(checkpoint.config(), 1));
  estimate.needs =
      estimate_needs(checkpoint.config(), checkpoint.parameter_count(), keep, settings.dtype, settings.device);
  estimate.free = free_memory(settings.device);
  return estimate;
}

std::optional<RunResult> run_model(const RunRequest& request, const Job& job) {
  const auto start = std::chrono::steady_clock::now();
  Checkpoint checkpoint = Checkpoint::open(request.model);
  const ModelSettings settings = validate(request, checkpoint);
  const Device& device = settings.device;
  job.tell({0, 1, "models", "load"});
  const std::shared_ptr<const TokenTable> tokens = read_run_tokens(request, checkpoint);
  if (job.stopped()) return std::nullopt;

  const auto length = static_cast<std::int64_t>(tokens->id.size());
  RunResult result;
  result.report.notes = checkpoint.config().notes;
  check_interventions(request.interventions, checkpoint.config(), length);
  const std::optional<TraceInfo> described = describe_run(request, checkpoint, settings, length, job);
  if (!described) return std::nullopt;
  const TraceInfo& info = *described;
  const KeepSet keep = with_values_of_linear_mixers(request.keep, info);
  const RunNeeds needs =
      estimate_needs(checkpoint.config(), checkpoint.parameter_count(), keep, settings.dtype, device);
  const QueryKeyPlace place(needs, length, free_memory(device), user_of(request, length), kernel_gpu(device));
  const auto store = place.make_store(info, keep);
  note_place(store, info, result.report.notes);
  log_line(LogCategory::model, [&] {
    return fmt::format("{}: {} tokens on {} in {}, pruning tolerance {:g}, {}", info.name, length, info.device,
                       to_string(info.dtype), info.pruning_tolerance,
                       store ? fmt::format("{} in {}", words_of(store->parts()).title, store->where())
                             : "queries and keys are not kept");
  });
  Recorder recorder(info, keep, store);
  const std::shared_ptr<CausalLM> model = open_model(request, checkpoint, device, settings.dtype, job);
  if (!model) return std::nullopt;
  checkpoint = Checkpoint();  // its files need no longer be mapped
  result.report.load_seconds = seconds_since(start);

  ForwardRequest forward;
  forward.batch = 1;
  forward.length = length;
  forward.input_ids = tokens->input_id;
  forward.labels = tokens->id;
  forward.pruning_tolerance = info.pruning_tolerance;
  forward.interventions = request.interventions;
  forward.saliency = saliency_target(request, length);
  Recorder* const recorders[] = {&recorder};
  const auto forward_start = std::chrono::steady_clock::now();
  const std::optional<ForwardReport> report = model->forward(forward, recorders, job);
  if (!report) return std::nullopt;
  result.report.forward = *report;
  log_line(LogCategory::model, [&] {
    return fmt::format("{}: attention by {}, {} of {} pairs of blocks skipped", info.name, report->attention_kernel,
                       report->skipped_blocks, report->attention_blocks);
  });
  result.report.forward_seconds = seconds_since(forward_start);
  recorder.info().attention_kernel = report->attention_kernel;
  result.trace = recorder.finish(identify(request.input.text), tokens);
  result.trace->compute_on(place.gpu());
  return result;
}

}  // namespace foxscope
