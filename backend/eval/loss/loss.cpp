#include "backend/eval/loss/loss.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "backend/base/error.h"
#include "backend/base/measures.h"
#include "backend/base/sha256.h"
#include "backend/base/share_of_job.h"
#include "backend/eval/shared_work.h"

namespace foxscope {
namespace {

using Clock = std::chrono::steady_clock;

/// A model with its losses so far.
struct LossModel : PlannedModel {
  EvaluatedModel result;
  std::vector<bool> done;  ///< by window

  [[nodiscard]] const std::vector<std::int32_t>& labels(std::size_t window) const {
    return windows.windows[window].ids;
  }
};

/// @param before  models that were planned already: equal windows are shared
/// @returns nothing if the job was stopped
std::optional<LossModel> plan(const OpenedModel& model, const WindowSource& source,
                              const std::vector<LossModel>& before, const Job& job) {
  auto base = plan_model(model, source, job);
  if (!base) return std::nullopt;
  LossModel planned{std::move(*base), {}, {}};
  for (const LossModel& other : before) {
    if (*other.table == *planned.table) planned.table = other.table;
  }
  EvaluatedModel& result = planned.result;
  result.info = planned.info;
  result.windows = planned.table;
  result.losses.windows = static_cast<std::int64_t>(planned.windows.windows.size());
  result.losses.length = planned.table->length;
  result.losses.tokens = planned.table->tokens;
  result.losses.loss.assign(planned.windows.windows.size() * static_cast<std::size_t>(planned.table->length),
                            std::numeric_limits<float>::quiet_NaN());
  planned.done.assign(planned.windows.windows.size(), false);
  return planned;
}

/// The text of everything that the losses depend on.
std::string fingerprint(const std::vector<LossModel>& models) {
  auto list = nlohmann::json::array();
  for (const LossModel& model : models) {
    const TraceInfo& info = model.result.info;
    const auto& ids = model.result.windows->token_id;
    const std::string_view bytes(reinterpret_cast<const char*>(ids.data()), ids.size() * sizeof(ids[0]));
    list.push_back({info.name, info.weights_sha256, sha256(info.config), to_string(info.dtype), info.device,
                    fmt::format("{}", info.pruning_tolerance), info.intervention, model.bos_id, sha256(bytes),
                    model.result.windows->tokens});
  }
  return sha256(list.dump());
}

void put(LossModel& model, std::size_t window, std::span<const float> losses) {
  const auto length = static_cast<std::size_t>(model.result.losses.length);
  std::copy(losses.begin(), losses.end(),
            model.result.losses.loss.begin() + static_cast<std::ptrdiff_t>(window * length));
  model.done[window] = true;
}

void check_losses(const LossModel& model, std::size_t window, std::span<const float> losses) {
  for (std::size_t p = 0; p < losses.size(); ++p) {
    if (std::isfinite(losses[p])) continue;
    throw Error(fmt::format("{}: the loss at position {} of window {} is {}: check the weights and --dtype",
                            model.request.name, p, window, losses[p]));
  }
}

/// The work on one model.
class ModelWork {
 public:
  ModelWork(LossModel& model, std::uint32_t index, SharedWork& work, LossTiming& timing, const Job& job)
      : model_(model), index_(index), work_(work), timing_(timing), job_(job) {}

  /// @returns false if the job was stopped
  bool run() {
    timing_.notes = model_.config.notes;
    work_.agree_on(model_.done);
    timing_.resumed = std::count(model_.done.begin(), model_.done.end(), true);
    if (is_done()) return true;
    const RunNeeds needs = model_.needs({Keep::loss});
    const FreeMemory free = free_memory(model_.device);
    memory_left(needs, model_.result.losses.length, free, memory_user(model_));
    batches_ = window_batches(model_, work_.least(static_cast<std::size_t>(batch_tokens(needs, free))), model_.done);
    for (std::size_t window = 0; window < model_.done.size(); ++window) {
      if (!model_.done[window]) timing_.tokens += std::ssize(model_.labels(window));
    }
    const auto start = Clock::now();
    const auto lm = model_.load(job_);
    if (!lm) return false;
    timing_.load_seconds = seconds_since(start);
    const auto forward_start = Clock::now();
    for (std::size_t batch = work_.next(index_); batch < batches_.size(); batch = work_.next(index_)) {
      // Batches go to processes in their order.
      while (given_ < batch) tokens_given_ += tokens_of(batches_[given_++]);
      if (job_.stopped() || !run_windows(*lm, batches_[batch])) return false;
    }
    if (!work_.collect([this] { return is_done(); }, job_)) return false;
    timing_.forward_seconds = seconds_since(forward_start);
    return true;
  }

 private:
  [[nodiscard]] bool is_done() const { return std::ranges::find(model_.done, false) == model_.done.end(); }

  [[nodiscard]] std::int64_t tokens_of(const std::vector<std::size_t>& batch) const {
    return std::ssize(batch) * std::ssize(model_.labels(batch.front()));
  }

  bool run_windows(CausalLM& lm, const std::vector<std::size_t>& windows) {
    const std::int64_t tokens = tokens_of(windows);
    auto pass = forward_windows(model_, lm, windows, {Keep::loss}, {},
                                share_of_job(job_, {tokens_given_, timing_.tokens, "tokens", "losses"}, tokens));
    if (!pass) return false;
    timing_.attention_kernel = pass->report.attention_kernel;
    for (std::size_t n = 0; n < windows.size(); ++n) {
      const std::span<const float> losses = pass->recorders[n].per_token_loss();
      check_losses(model_, windows[n], losses);
      work_.add(index_, static_cast<std::uint32_t>(windows[n]), losses);
    }
    return true;
  }

  LossModel& model_;
  std::uint32_t index_;
  SharedWork& work_;
  LossTiming& timing_;
  const Job& job_;
  std::vector<std::vector<std::size_t>> batches_;  ///< indices of windows
  std::size_t given_ = 0;                          ///< batches before this process's, given to any process
  std::int64_t tokens_given_ = 0;                  ///< of these
};

}  // namespace

std::optional<LossResult> evaluate_loss(const LossRequest& request, const LossEvents& events, const Job& job,
                                        Processes* processes) {
  const auto source = choose_source(request.input, request.models.front(), events.note, job);
  if (!source) return std::nullopt;
  std::vector<LossModel> models;
  for (const OpenedModel& model : request.models) {
    auto planned = plan(model, *source, models, job);
    if (!planned) return std::nullopt;
    models.push_back(std::move(*planned));
  }

  std::string facts = "eval loss\n";
  for (const LossModel& model : models) facts += model_facts(model);
  require_same(processes, facts);
  SharedWork work(processes, {request.output, fingerprint(models), request.start_anew, events.note},
                  [&](std::uint32_t model, std::uint32_t window, std::span<const float> losses) {
                    if (model >= models.size() || window >= models[model].done.size()) return;
                    if (losses.size() == models[model].labels(window).size()) put(models[model], window, losses);
                  });
  if (events.partial && work.kept()) events.partial(*work.kept());
  LossResult result;
  result.timings.resize(models.size());
  for (std::size_t n = 0; n < models.size(); ++n) {
    if (events.model) events.model(models[n].request.name);
    ModelWork of_model(models[n], static_cast<std::uint32_t>(n), work, result.timings[n], job);
    if (!of_model.run()) return std::nullopt;
  }
  result.evaluation.corpus = describe_corpus(request.input, *source);
  for (LossModel& model : models) result.evaluation.models.push_back(std::move(model.result));
  return result;
}

void finish_loss(const LossRequest& request) {
  std::error_code failed;
  std::filesystem::remove(partial_path(request.output), failed);
}

}  // namespace foxscope
