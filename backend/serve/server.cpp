#include "backend/serve/server.h"

#include <malloc.h>

#include <algorithm>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "backend/base/error.h"
#include "backend/base/log.h"
#include "backend/model/layer/forward_pass.h"
#include "backend/model/session/decode_state.h"
#include "backend/model/session/engine.h"
#include "backend/serve/endpoint.h"
#include "backend/serve/listener.h"
#include "backend/serve/scheduler.h"

namespace foxscope {
namespace {

/// The value of a key of config.json that may be missing or null.
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

/// The number of prompts that fit beside each other in the memory that is free once the weights are in it.
/// @param sharing  models that share it
SchedulerLimits limits_of(const CausalLM& model, const ServedModel& served, double pruning, std::ptrdiff_t sharing) {
  const RunNeeds needs = estimate_needs(model.config(), 0, {}, model.dtype(), model.device());
  const FreeMemory free = free_memory(model.device());
  memory_left(needs, served.max_length, free,
              {fmt::format("texts of {} positions need", served.max_length), "--max-length", {}});
  const std::int64_t held = (needs.gpu ? free.gpu : free.host) / (4 * sharing);
  const std::int64_t tokens = std::max<std::int64_t>(1, batch_tokens(needs, free));
  const PassBytes state = ForwardState::bytes(model.config(), model.dtype());
  return {.batch_tokens = tokens,
          // A GPU needs as many; on a CPU half of them are nearly as fast.
          .batch_tokens_beside = needs.gpu ? tokens : (tokens + 1) / 2,
          .held_bytes = held,
          .bytes_of_text = state.fixed,
          .bytes_of_position = state.per_token,
          .pruning_tolerance = pruning};
}

/// A model on one device, with the thread that runs it there.
struct LoadedCopy {
  std::shared_ptr<CausalLM> model;
  std::optional<Scheduler> scheduler;
  std::size_t under_way = 0;  ///< prompts
};

/// A model that is being served, with what computes it.
class LoadedModel {
 public:
  std::vector<OpenedModel> opened;  ///< one a device
  ServedModel served;
  std::list<LoadedCopy> copies;  ///< one a device

  /// Has the copy compute a request that has the fewest prompts under way.
  std::optional<std::vector<Completion>> complete(const CompletionRequest& request, const std::function<bool()>& gone) {
    LoadedCopy& copy = take(request.prompts.size());
    const auto give_back = [&](LoadedCopy* taken) {
      const std::scoped_lock lock(mutex_);
      taken->under_way -= request.prompts.size();
    };
    const std::unique_ptr<LoadedCopy, decltype(give_back)> taken(&copy, give_back);
    return copy.scheduler->complete(request, gone);
  }

 private:
  LoadedCopy& take(std::size_t prompts) {
    const std::scoped_lock lock(mutex_);
    LoadedCopy& copy = *std::ranges::min_element(copies, {}, &LoadedCopy::under_way);
    copy.under_way += prompts;
    return copy;
  }

  std::mutex mutex_;
};

/// Wrong settings of a model are found before weights are read.
void open_for_serving(const Engine& engine, ModelRequest model, const ServeRequest& request, LoadedModel& into) {
  const std::vector<DeviceChoice> devices = request.devices.empty() ? std::vector{model.device} : request.devices;
  for (const DeviceChoice& device : devices) {
    model.device = device;
    into.opened.push_back(engine.open(model));
  }
  const OpenedModel& opened = into.opened.front();
  const nlohmann::json keys = nlohmann::json::parse(opened.config.json, nullptr, false);
  into.served.name = model.name;
  into.served.vocabulary_size = opened.config.vocabulary_size;
  into.served.bos = opened.bos();
  into.served.ends = ends_of(keys, opened.config.vocabulary_size);
  into.served.max_length = max_length_of(request, model.model, opened.config, keys);
  into.served.tokenizer = opened.find_tokenizer();
}

/// Blocks of the heap from which on the system gives each alone, and has it back when it is freed: a body, an answer.
constexpr int kLargeBlock = 4 << 20;
constexpr int kHeaps = 2;
/// Freed at a heap's end before the system has it back.
constexpr int kHeapEnd = 32 << 20;

/// The heap is as large after hours as after a minute. Each of many threads would have a heap of its own, and keep in
/// it what its busiest moment has left between what lives on.
void settle_heap() {
  mallopt(M_ARENA_MAX, kHeaps);
  mallopt(M_MMAP_THRESHOLD, kLargeBlock);
  mallopt(M_TRIM_THRESHOLD, kHeapEnd);
}

/// Copies of models that share a device's memory.
std::ptrdiff_t models_on(const Device& device, const std::list<LoadedModel>& models) {
  std::ptrdiff_t count = 0;
  for (const LoadedModel& loaded : models) {
    count += std::ranges::count_if(
        loaded.copies, [&](const LoadedCopy& copy) { return copy.model->device().name() == device.name(); });
  }
  return count;
}

}  // namespace

void serve(const ServeRequest& request, const std::function<void(const std::string& url)>& listening, const Job& job) {
  if (request.token.empty() && !is_loopback(request.host)) {
    throw UsageError(fmt::format(
        "--host {}: other machines reach it: say --token-file too, with what clients then have to show", request.host));
  }
  settle_heap();
  std::list<LoadedModel> models;
  const Engine engine;
  for (const ModelRequest& model : request.models) open_for_serving(engine, model, request, models.emplace_back());
  // Wrong settings of these are found before weights are read.
  Listener listener(request.host, request.port);
  Endpoint endpoint({listener.names(), listener.on_all_networks(), request.origins, request.token});
  for (LoadedModel& loaded : models) {
    for (const OpenedModel& opened : loaded.opened) {
      auto model = opened.load(job);
      if (!model) return;
      loaded.copies.emplace_back().model = std::move(model);
    }
  }
  for (LoadedModel& loaded : models) {
    const ServedModel& served = loaded.served;
    for (LoadedCopy& copy : loaded.copies) {
      const Device& device = copy.model->device();
      const SchedulerLimits limits =
          limits_of(*copy.model, served, loaded.opened.front().options.pruning_tolerance, models_on(device, models));
      log_line(LogCategory::model, [&] {
        return fmt::format(
            "{} on {}: texts of at most {} positions, passes of {} positions, {} MiB for texts that are continued",
            served.name, device.name(), served.max_length, limits.batch_tokens, limits.held_bytes >> 20);
      });
      copy.scheduler.emplace(*copy.model, served, limits);
    }
    endpoint.add(served, [&loaded](const CompletionRequest& asked, const std::function<bool()>& gone) {
      return loaded.complete(asked, gone);
    });
  }
  const HttpExchange exchange({[&](const HttpRequest& head) { return endpoint.check(head); },
                               [&](HttpRequest whole) { return endpoint.answer(std::move(whole)); },
                               [&](const HttpRequest& head) { return endpoint.headers(head); }});
  listening(listener.url());
  listener.serve(
      exchange,
      [&] {
        for (LoadedModel& loaded : models) {
          for (LoadedCopy& copy : loaded.copies) copy.scheduler->stop();
        }
      },
      job.stop);
}

}  // namespace foxscope
