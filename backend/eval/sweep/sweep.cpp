#include "backend/eval/sweep/sweep.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "backend/base/command_line.h"
#include "backend/base/error.h"
#include "backend/base/log.h"
#include "backend/base/measures.h"
#include "backend/base/sha256.h"
#include "backend/model/layer/checks.h"
#include "backend/model/spec/trace_sizes.h"
#include "backend/trace/mixer_text.h"

namespace foxscope {
namespace {

void check_change(const Intervention& change, const OpenedModel& model) {
  const ModelConfig& config = model.config;
  const std::string& name = model.request.name;
  using Kind = Intervention::Kind;
  const bool scales = change.kind == Kind::one || change.kind == Kind::mean || change.kind == Kind::scale;
  const TraceSizes sizes = sizes_of(config, 1);
  const auto undecayed =
      std::ranges::find_if(sizes.mixers, [](const LayerMixer& mixer) { return mixer.kind().mixes && !mixer.decays(); });
  if (undecayed != sizes.mixers.end() && change.kind != Kind::cut) {
    throw UsageError(
        fmt::format("--change {}: the {} of {} does not decay, so there is nothing to change: use --change cut",
                    change.kind_text(), mixer_words(*undecayed), name));
  }
  const std::vector<bool> forgetting = model.forgetting();
  if (!scales || std::ranges::find(forgetting, true) != forgetting.end()) return;
  throw UsageError(fmt::format("--change {}: {} has no gate, f is 1 everywhere: use --change cut or constant=f",
                               change.kind_text(), name));
}

void check_memory(const SweepPlan& plan) {
  RunNeeds needs = plan.needs({Keep::loss, Keep::hidden});
  needs.host.per_token += static_cast<std::int64_t>(sizeof(float)) * plan.evaluation.info.head_count();
  const std::int64_t length = plan.evaluation.info.length;
  memory_left(needs, length, free_memory(plan.device),
              {fmt::format("{}: a sweep over {} tokens needs", plan.evaluation.info.name, length), "--length", {}});
}

/// The passes of a sweep.
class SweepWork {
 public:
  SweepWork(SweepPlan& plan, const SweepEvents& events, const Job& job)
      : plan_(plan), evaluation_(plan.evaluation), events_(events), job_(job), layers_(evaluation_.info.layers) {}

  /// @returns false if the job was stopped
  bool run(SweepTiming& timing) {
    if (evaluation_.whole()) return true;
    const auto start = std::chrono::steady_clock::now();
    model_ = plan_.load(job_);
    if (!model_) return false;
    timing.load_seconds = seconds_since(start);
    const auto forward_start = std::chrono::steady_clock::now();
    count_layers();
    const bool done = run_unchanged() && run_heads(timing);
    timing.forward_seconds = seconds_since(forward_start);
    timing.attention_kernel = kernel_;
    return done;
  }

 private:
  /// Layers of a pass, the prediction counted as one.
  [[nodiscard]] std::int64_t layers_from(int layer) const { return layers_ - layer + 1; }

  /// The layer that a pass begins with which is to change a layer: one that reads with the layer before it needs that
  /// too.
  [[nodiscard]] int first_of(int layer) const { return plan_.config.reads_with_previous(layer) ? layer - 1 : layer; }

  void count_layers() {
    total_ = layers_from(0);
    for (int layer = 0; layer < layers_; ++layer) {
      for (int head = 0; head < evaluation_.info.mixer(layer).heads; ++head) {
        if (!evaluation_.knows(layer, head)) total_ += layers_from(first_of(layer));
      }
    }
  }

  /// @param start  where the pass begins
  bool pass(Recorder& recorder, const ForwardRequest::Start& start, const PassOptions& options) {
    const ForwardRequest forward{options, 1, evaluation_.info.length, plan_.tokens->input_id, plan_.tokens->id, start};
    Job job = job_;
    job.report = [&](const Progress& progress) {
      job_.tell({done_ + std::max<std::int64_t>(0, progress.done - start.layer), total_, "layers", "sweep"});
    };
    Recorder* const recorders[] = {&recorder};
    const auto report = model_->forward(forward, recorders, job);
    if (!report) return false;
    done_ += layers_from(start.layer);
    kernel_ = report->attention_kernel;
    return true;
  }

  bool run_unchanged() {
    unchanged_.emplace(evaluation_.info, KeepSet{Keep::loss, Keep::hidden}, nullptr);
    if (!pass(*unchanged_, {}, plan_.options)) return false;
    const std::span<const float> losses = unchanged_->per_token_loss();
    check(losses, "");
    evaluation_.unchanged_loss.assign(losses.begin(), losses.end());
    if (events_.unchanged) events_.unchanged(evaluation_);
    return true;
  }

  bool run_heads(SweepTiming& timing) {
    for (int layer = 0; layer < layers_; ++layer) {
      for (int head = 0; head < evaluation_.info.mixer(layer).heads; ++head) {
        if (evaluation_.knows(layer, head)) continue;
        if (job_.stopped() || !run_head(layer, head)) return false;
        ++timing.heads;
      }
    }
    return true;
  }

  bool run_head(int layer, int head) {
    Intervention change = evaluation_.change;
    change.layer = layer;
    change.head = head;
    PassOptions options = plan_.options;
    options.interventions.push_back(change);
    const int first = first_of(layer);
    ForwardRequest::Start start{first, {}};
    if (first > 0) start.hidden = unchanged_->hidden_states(first, plan_.config.hidden_size);
    Recorder recorder(evaluation_.info, {Keep::loss}, nullptr);
    if (!pass(recorder, start, options)) return false;
    const std::span<const float> losses = recorder.per_token_loss();
    check(losses, " with " + change.words());
    evaluation_.changed_loss[evaluation_.place_of(layer, head)].assign(losses.begin(), losses.end());
    if (events_.head) events_.head(evaluation_, layer, head);
    return true;
  }

  void check(std::span<const float> losses, const std::string& how) const {
    const auto bad = std::find_if(losses.begin(), losses.end(), [](float loss) { return !std::isfinite(loss); });
    if (bad == losses.end()) return;
    throw Error(fmt::format("{}: the loss at position {}{} is {}: check the weights and --dtype", evaluation_.info.name,
                            bad - losses.begin(), how, *bad));
  }

  SweepPlan& plan_;
  SweepEvaluation& evaluation_;
  const SweepEvents& events_;
  const Job& job_;
  const int layers_;
  std::shared_ptr<CausalLM> model_;
  std::optional<Recorder> unchanged_;  ///< holds what enters each layer
  std::string kernel_;
  std::int64_t done_ = 0;  ///< layers of passes
  std::int64_t total_ = 0;
};

}  // namespace

std::int64_t SweepPlan::heads_known() const {
  return std::count_if(evaluation.changed_loss.begin(), evaluation.changed_loss.end(),
                       [](const std::vector<float>& losses) { return !losses.empty(); });
}

std::optional<SweepPlan> plan_sweep(const OpenedModel& model, const SweepRequest& request, const Job& job) {
  check_limit(request.limit);
  check_change(request.change, model);
  SweepPlan plan{model, read_run_tokens(model, request.input, request.limit)};
  const auto length = static_cast<std::int64_t>(plan.tokens->id.size());
  check_pass(model.options, model.config, length);
  auto info = model.describe(length, job);
  if (!info) return std::nullopt;
  SweepEvaluation& evaluation = plan.evaluation;
  evaluation.info = std::move(*info);
  evaluation.change = request.change;
  evaluation.change.layer = evaluation.change.head = -1;
  evaluation.source = without_folder(request.input.name);
  if (const auto text = read_text_of(request.input, *plan.tokens, request.limit)) evaluation.text_sha256 = text->sha256;
  evaluation.token_id = plan.tokens->id;
  evaluation.token = plan.tokens->string;
  evaluation.changed_loss.resize(evaluation.place_of(evaluation.info.layers, 0));
  check_memory(plan);
  log_line(LogCategory::eval, [&] {
    return fmt::format("{}: sweep of {} heads over {} tokens, {}", evaluation.info.name, evaluation.info.head_count(),
                       length, evaluation.change.kind_words());
  });
  return plan;
}

std::optional<SweepTiming> run_sweep(SweepPlan& plan, const SweepEvents& events, const Job& job) {
  SweepTiming timing;
  if (!SweepWork(plan, events, job).run(timing)) return std::nullopt;
  return timing;
}

std::string fingerprint(const SweepPlan& plan) {
  const TraceInfo& info = plan.evaluation.info;
  const auto hash = [](const std::vector<std::int32_t>& ids) {
    return sha256(std::string_view(reinterpret_cast<const char*>(ids.data()), ids.size() * sizeof(ids[0])));
  };
  const nlohmann::json all = {"sweep",
                              plan.evaluation.change.kind_text(),
                              info.name,
                              info.weights_sha256,
                              sha256(info.config),
                              to_string(info.dtype),
                              info.device,
                              fmt::format("{}", info.pruning_tolerance),
                              info.intervention,
                              hash(plan.tokens->id),
                              hash(plan.tokens->input_id)};
  return sha256(all.dump());
}

// Record 0 is the unchanged model's, record n + 1 that of the head n.
KeptSweep::KeptSweep(const std::filesystem::path& output, SweepPlan& plan, bool start_anew, LossPartial::Note note)
    : plan_(plan),
      losses_(
          output, fingerprint(plan), start_anew,
          [&plan](std::uint32_t model, std::uint32_t record, std::span<const float> losses) {
            SweepEvaluation& evaluation = plan.evaluation;
            if (model != 0 || record > evaluation.changed_loss.size()) return;
            if (losses.size() != plan.tokens->id.size()) return;
            auto& into = record == 0 ? evaluation.unchanged_loss : evaluation.changed_loss[record - 1];
            into.assign(losses.begin(), losses.end());
          },
          std::move(note)) {}

SweepEvents KeptSweep::events(SweepEvents then) {
  SweepEvents events;
  // The unchanged model runs again for what enters each layer; its losses are kept once.
  const bool known = !plan_.evaluation.unchanged_loss.empty();
  events.unchanged = [this, known, tell = std::move(then.unchanged)](const SweepEvaluation& evaluation) {
    if (!known) losses_.append(0, 0, evaluation.unchanged_loss);
    if (tell) tell(evaluation);
  };
  events.head = [this, tell = std::move(then.head)](const SweepEvaluation& evaluation, int layer, int head) {
    const std::size_t place = evaluation.place_of(layer, head);
    losses_.append(0, static_cast<std::uint32_t>(place + 1), evaluation.changed_loss[place]);
    if (tell) tell(evaluation, layer, head);
  };
  return events;
}

std::optional<SweepResult> evaluate_sweep(const OpenedModel& model, const SweepFileRequest& request,
                                          const std::function<void(const std::filesystem::path&)>& partial,
                                          const LossPartial::Note& note, const Job& job) {
  auto plan = plan_sweep(model, request.sweep, job);
  if (!plan) return std::nullopt;
  KeptSweep kept(request.output, *plan, request.start_anew, note);
  if (partial) partial(kept.path());
  const std::int64_t resumed = plan->heads_known();
  const SweepEvents events = kept.events();
  auto timing = run_sweep(*plan, events, job);
  if (!timing) return std::nullopt;
  return SweepResult{std::move(plan->evaluation), std::move(*timing), resumed};
}

void finish_sweep(const SweepFileRequest& request) {
  std::error_code failed;
  std::filesystem::remove(partial_path(request.output), failed);
}

}  // namespace foxscope
