#include "backend/model/session/run.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <future>
#include <set>
#include <stop_token>
#include <utility>

#include <fmt/format.h>

#include "backend/base/error.h"
#include "backend/base/log.h"
#include "backend/base/measures.h"
#include "backend/model/layer/checks.h"
#include "backend/model/session/query_key_place.h"
#include "backend/model/spec/interventions.h"
#include "backend/model/spec/trace_sizes.h"

namespace foxscope {
MemoryUser memory_user(const RunRequest& request, const TraceSizes& sizes, DType dtype) {
  MemoryUser user{fmt::format("a run over {} tokens needs", sizes.length), "--length", {}};
  if (const auto& target = request.saliency; target && target->end < sizes.length) {
    user.remedies.push_back(
        fmt::format("use --length {}, because gates behind the positions of --saliency have no gradient", target->end));
  }
  std::set<Keep> named;
  for (const ArraySpec& spec : kTraceArrays) {
    if (spec.storage != Storage::raw || !request.keep.contains(spec.keep)) continue;
    if (bytes_of(spec, sizes, dtype) == 0 || !named.insert(spec.keep).second) continue;
    user.remedies.push_back(fmt::format("leave {} out of --keep", word_of(spec.keep).word));
  }
  return user;
}

void validate(const RunRequest& request, const OpenedModel& model) {
  check_limit(request.limit);
  if (request.saliency && !request.keep.contains(Keep::saliency)) {
    throw UsageError("--saliency chooses the losses whose gradients are computed: add saliency to --keep");
  }
  const ModelConfig& config = model.config;
  if (request.keep.contains(Keep::experts) && !config.mixture) {
    throw UsageError(fmt::format("{}: {} is no mixture of experts: leave experts out of --keep", model.folder.string(),
                                 config.model_type));
  }
  if (request.keep.contains(Keep::saliency) && config.mixture && !model.device.cuda) {
    throw UsageError(
        fmt::format("{}: {} is a mixture of experts, which stay in their file on a CPU, and saliency is computed only "
                    "on a GPU: leave saliency out of --keep",
                    model.folder.string(), config.model_type));
  }
  const TraceSizes sizes = sizes_of(config, 1);
  const auto linear = std::ranges::find_if_not(sizes.mixers, &LayerMixer::has_softmax);
  if (linear == sizes.mixers.end() || !request.keep.contains(Keep::saliency)) return;
  const char* const mixer = to_string(linear->mixer);
  if (config.attends() || !linear->decays_by_head() || linear->steps() > 1) {
    throw UsageError(
        fmt::format("{}: {} has layers of {}{}, and saliency needs a model in which every layer is attention, or "
                    "decays as a whole head: leave saliency out of --keep",
                    model.folder.string(), config.model_type, mixer, config.attends() ? " beside attention" : ""));
  }
  for (int layer = 0; layer < config.layers; ++layer) {
    if (!changes_gates(model.options.interventions, layer)) continue;
    throw UsageError(
        fmt::format("{}: saliency of layers of {} is computed for the model's own decays only: leave out --intervene, "
                    "or leave saliency out of --keep",
                    model.folder.string(), mixer));
  }
}

RunPlan plan_run(OpenedModel model, RunRequest request, std::shared_ptr<const TokenTable> cut) {
  validate(request, model);
  RunPlan plan{std::move(model), std::move(request), std::move(cut), nullptr, {}, {}};
  if (!plan.tokens) plan.tokens = read_run_tokens(plan.model, plan.request.input, plan.request.limit);
  plan.text = read_text_of(plan.request.input, *plan.tokens, plan.request.limit);
  check_pass(plan.model.options, plan.model.config, plan.length());
  std::optional<Range>& target = plan.request.saliency;
  if (plan.request.keep.contains(Keep::saliency)) {
    target = check_saliency(target.value_or(Range{0, Range::kToTheEnd}), plan.length());
  }
  const TraceSizes sizes = sizes_of(plan.model.config, plan.length());
  plan.request.keep = with_values_of_linear_mixers(plan.request.keep, sizes);
  plan.needs = plan.model.needs(plan.request.keep);
  plan.memory_user = memory_user(plan.request, sizes, plan.model.dtype);
  return plan;
}

std::optional<RunEstimate> estimate_run(const OpenedModel& model, const RunRequest& request, TokenCount count,
                                        const Job& job) {
  validate(request, model);
  RunEstimate estimate;
  if (count == TokenCount::exact || !request.input.text) {
    estimate.cut = read_run_tokens(model, request.input, request.limit);
    estimate.tokens = std::ssize(estimate.cut->id);
  } else {
    estimate.tokens = static_cast<std::int64_t>(request.input.text->content.size());
    if (request.limit) estimate.tokens = std::min(estimate.tokens, *request.limit);
  }
  if (job.stopped()) return std::nullopt;
  estimate.needs = model.needs(with_values_of_linear_mixers(request.keep, sizes_of(model.config, 1)));
  estimate.free = free_memory(model.device);
  return estimate;
}

namespace {

/// The checksum of a model's weights, made by a thread of its own beside the loader, which reads the same pages, and
/// beside the pass. It ends with the object, and when the job is stopped.
class ChecksumBeside {
 public:
  /// @param model, job  must outlive it
  ChecksumBeside(const OpenedModel& model, const Job& job) : stop_as_well_(job.stop, End{ending_}) {
    Job beside = job;
    beside.stop = ending_.get_token();
    beside.report = [this, &job](const Progress& progress) {
      if (is_waited_for_) job.tell(progress);
    };
    made_ = std::async(std::launch::async | std::launch::deferred,
                       [&model, beside] { return model.weights_sha256(beside); });
  }
  ~ChecksumBeside() { ending_.request_stop(); }
  ChecksumBeside(const ChecksumBeside&) = delete;
  ChecksumBeside& operator=(const ChecksumBeside&) = delete;

  /// Waits for it, and from now on the job is told how far it is.
  /// @returns nothing if the job was stopped
  std::optional<std::string> finish() {
    is_waited_for_ = true;
    return made_.get();
  }

 private:
  struct End {
    std::stop_source source;
    void operator()() { source.request_stop(); }
  };

  std::stop_source ending_;
  std::stop_callback<End> stop_as_well_;
  std::atomic<bool> is_waited_for_ = false;
  std::future<std::optional<std::string>> made_;  ///< ends before the rest goes
};

}  // namespace

std::optional<RunResult> run_model(const RunPlan& plan, const Job& job) {
  const auto start = std::chrono::steady_clock::now();
  const OpenedModel& model = plan.model;
  const KeepSet& keep = plan.request.keep;
  job.tell({0, 1, "models", "load"});
  ChecksumBeside checksum(model, job);
  TraceInfo info = model.describe_pass(plan.length());
  ForwardRequest forward{model.options, 1, plan.length(), plan.tokens->input_id, plan.tokens->id};
  forward.saliency = plan.request.saliency;
  if (const auto& target = forward.saliency) {
    info.saliency_target = fmt::format("mean of loss[{}:{}]", target->begin, target->end);
  }
  const QueryKeyPlace place(plan.needs, plan.length(), free_memory(model.device), plan.memory_user,
                            kernel_gpu(model.device));
  const auto store = place.make_store(info, keep);
  RunResult result;
  result.report.notes = model.config.notes;
  if (store && !store->note().empty()) {
    result.report.notes.push_back(fmt::format("{}: {}", info.name, store->note()));
  }
  log_line(LogCategory::model, [&] {
    return fmt::format("{}: {} tokens on {} in {}, pruning tolerance {:g}, {}", info.name, info.length, info.device,
                       to_string(info.dtype), info.pruning_tolerance,
                       store ? fmt::format("{} in {}", words_of(store->parts()).title, store->where())
                             : "queries and keys are not kept");
  });
  Recorder recorder(info, keep, store);
  const std::shared_ptr<CausalLM> loaded = model.load(job);
  if (!loaded) return std::nullopt;
  result.report.load_seconds = seconds_since(start);

  Recorder* const recorders[] = {&recorder};
  const auto forward_start = std::chrono::steady_clock::now();
  const std::optional<ForwardReport> report = loaded->forward(forward, recorders, job);
  if (!report) return std::nullopt;
  result.report.forward = *report;
  log_line(LogCategory::model, [&] {
    return fmt::format("{}: attention by {}, {} of {} pairs of blocks skipped", info.name, report->attention_kernel,
                       report->skipped_blocks, report->attention_blocks);
  });
  result.report.forward_seconds = seconds_since(forward_start);
  recorder.info().attention_kernel = report->attention_kernel;
  auto weights_sha256 = checksum.finish();
  if (!weights_sha256) return std::nullopt;
  recorder.info().weights_sha256 = std::move(*weights_sha256);
  result.trace = recorder.finish(plan.text, plan.tokens, place.gpu());
  return result;
}

}  // namespace foxscope
