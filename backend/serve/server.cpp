#include "backend/serve/server.h"

#include <algorithm>
#include <cstdlib>
#include <list>
#include <memory>
#include <optional>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "backend/base/error.h"
#include "backend/base/log.h"
#include "backend/model/continuation.h"
#include "backend/model/engine.h"
#include "backend/model/run_memory.h"
#include "backend/model/run_settings.h"
#include "backend/model/run_tokens.h"
#include "backend/serve/endpoint.h"
#include "backend/serve/listener.h"
#include "backend/serve/scheduler.h"
#include "backend/text/tokenizer.h"

namespace foxscope {
namespace {

/// Of a key of config.json that may be missing or null.
std::optional<std::int64_t> integer_member(const nlohmann::json& config, const char* key) {
  const auto found = config.find(key);
  if (found == config.end() || !found->is_number_integer()) return std::nullopt;
  return found->get<std::int64_t>();
}

/// Tokens that end a text: one, or a list of them.
std::vector<std::int32_t> ends_of(const nlohmann::json& config, std::int64_t vocabulary_size) {
  const auto found = config.find("eos_token_id");
  std::vector<std::int32_t> ends;
  if (found == config.end()) return ends;
  for (const nlohmann::json& id : found->is_array() ? *found : nlohmann::json::array({*found})) {
    if (!id.is_number_integer() || id < 0 || id >= vocabulary_size) continue;
    ends.push_back(id.get<std::int32_t>());
  }
  return ends;
}

std::int64_t max_length_of(const ServeRequest& request, const std::string& model, const ModelConfig& config,
                           const nlohmann::json& keys) {
  const std::int64_t table = config.learned_positions;
  if (request.max_length) {
    if (*request.max_length < 1) {
      throw UsageError(fmt::format("--max-length {}: use a number of positions from 1", *request.max_length));
    }
    if (table > 0 && *request.max_length > table) {
      throw UsageError(
          fmt::format("--max-length {}: {} has a table of {} positions", *request.max_length, model, table));
    }
    return *request.max_length;
  }
  if (table > 0) return table;
  if (const auto length = integer_member(keys, "max_position_embeddings"); length && *length > 0) return *length;
  throw UsageError(fmt::format("{}: config.json has no max_position_embeddings: say --max-length", model));
}

/// What fits beside each other, of the memory that is free once the weights are in it.
/// @param models  that share it
SchedulerLimits limits_of(const CausalLM& model, const ServedModel& served, double pruning, std::size_t models) {
  const RunNeeds needs = estimate_needs(model.config(), 0, {}, model.dtype(), model.device());
  const FreeMemory free = free_memory(model.device());
  memory_left(needs, served.max_length, free,
              {fmt::format("texts of {} positions need", served.max_length), "--max-length", {}});
  const std::int64_t held = (needs.gpu ? free.gpu : free.host) / static_cast<std::int64_t>(4 * models);
  return {.batch_tokens = std::max<std::int64_t>(1, batch_tokens(needs, free)),
          .held_positions = held / continuation_bytes_per_token(model.config(), model.dtype()),
          .pruning_tolerance = pruning};
}

/// A model that is being served, with what computes it.
struct LoadedModel {
  std::optional<Tokenizer> tokenizer;
  ServedModel served;
  double pruning_tolerance = 0;
  std::shared_ptr<CausalLM> model;
  std::optional<Scheduler> scheduler;
};

/// What is wrong with a model's settings is known before weights are read.
struct OpenedModel {
  Checkpoint checkpoint;
  ModelSettings settings;
};

OpenedModel open_for_serving(const RunRequest& run, const ServeRequest& request, LoadedModel& into) {
  OpenedModel opened;
  opened.checkpoint = Checkpoint::open(run.model);
  opened.settings = validate(run, opened.checkpoint);
  const ModelConfig& config = opened.checkpoint.config();
  const nlohmann::json keys = nlohmann::json::parse(config.json, nullptr, false);
  if (has_tokenizer(opened.checkpoint)) into.tokenizer = Tokenizer::load(opened.checkpoint.folder());
  into.served.name = run.name;
  into.served.vocabulary_size = config.vocabulary_size;
  into.served.bos = choose_bos(run, opened.checkpoint, into.tokenizer ? &*into.tokenizer : nullptr);
  into.served.ends = ends_of(keys, config.vocabulary_size);
  into.served.max_length = max_length_of(request, run.model, config, keys);
  into.served.tokenizer = into.tokenizer ? &*into.tokenizer : nullptr;
  into.pruning_tolerance = opened.settings.pruning_tolerance;
  return opened;
}

}  // namespace

void serve(const ServeRequest& request, const std::function<void(const std::string& url)>& listening, const Job& job) {
  if (request.token.empty() && !is_loopback(request.host)) {
    throw UsageError(fmt::format("--host {}: other machines reach it: say --token too, which clients then have to show",
                                 request.host));
  }
  // Threads that spin while they wait for work take the cores from connections, and from the clients of this machine.
  // OpenMP reads it when its library is loaded, with LibTorch: when devices are first asked for.
  setenv("OMP_WAIT_POLICY", "passive", 0);
  std::list<LoadedModel> models;
  std::vector<OpenedModel> opened;
  for (const RunRequest& run : request.runs) opened.push_back(open_for_serving(run, request, models.emplace_back()));
  Listener listener(request.host, request.port);  // what is wrong with it is known before weights are read
  auto next = opened.begin();
  for (LoadedModel& loaded : models) {
    const auto& run = request.runs[static_cast<std::size_t>(next - opened.begin())];
    loaded.model = open_model(run, next->checkpoint, next->settings.device, next->settings.dtype, job);
    if (!loaded.model) return;
    ++next;
  }
  opened.clear();  // their files need no longer be mapped
  Endpoint endpoint(request.token);
  for (LoadedModel& loaded : models) {
    const ServedModel& served = loaded.served;
    const SchedulerLimits limits = limits_of(*loaded.model, served, loaded.pruning_tolerance, models.size());
    log_line(LogCategory::model, [&] {
      return fmt::format("{}: texts of at most {} positions, passes of {} positions, {} positions continued together",
                         served.name, served.max_length, limits.batch_tokens, limits.held_positions);
    });
    Scheduler& scheduler = loaded.scheduler.emplace(*loaded.model, served, limits);
    endpoint.add(served, [&scheduler](const CompletionRequest& asked, const std::function<bool()>& gone) {
      return scheduler.complete(asked, gone);
    });
  }
  const HttpExchange exchange({[&](const HttpRequest& head) { return endpoint.check(head); },
                               [&](const HttpRequest& whole) { return endpoint.answer(whole); }});
  listening(listener.url());
  listener.serve(
      exchange,
      [&] {
        for (LoadedModel& loaded : models) loaded.scheduler->stop();
      },
      job.stop);
}

}  // namespace foxscope
