#include "backend/model/session/engine.h"

#include <algorithm>
#include <cmath>
#include <list>
#include <map>
#include <mutex>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "backend/base/error.h"
#include "backend/base/log.h"
#include "backend/model/layer/checks.h"
#include "backend/model/spec/interventions.h"
#include "backend/model/spec/trace_sizes.h"
#include "backend/model/weights/checkpoint.h"
#include "backend/model/weights/weight_checksums.h"

namespace foxscope {
namespace {

constexpr double kDefaultPruning = 0x1p-24;  // below the rounding of float32
/// Share of the free memory that a kept model may take.
constexpr std::int64_t kFreeShare = 4;

std::string key_of(const Checkpoint& checkpoint, const Device& device, DType dtype) {
  return fmt::format("{}\n{}\n{}{}", device.name(), to_string(dtype), checkpoint.config().json,
                     weight_files_of(checkpoint));
}

double pruning_of(const ModelRequest& request, const Checkpoint& checkpoint) {
  if (request.pruning_tolerance) {
    check_pruning(*request.pruning_tolerance);
    return *request.pruning_tolerance;
  }
  const std::optional<double> logarithm = checkpoint.config().log_pruning_tolerance;
  if (!logarithm) return kDefaultPruning;
  const double tolerance = std::exp(*logarithm);
  if (tolerance < 1) return tolerance;
  throw Error(fmt::format(
      "{}/config.json: log_pruning_tolerance is {}: it must be below 0, the logarithm of the share of a row's "
      "attention that may be skipped; correct it, set it to null, or give --pruning, which overrides it",
      checkpoint.folder().string(), *logarithm));
}

std::string json_of(const std::vector<Intervention>& interventions) {
  if (interventions.empty()) return {};
  nlohmann::json list = nlohmann::json::array();
  for (const Intervention& intervention : interventions) list.push_back(intervention.text());
  return list.dump();
}

}  // namespace

/// The models that an engine keeps. Under the mutex.
struct OpenedModel::Memory {
  std::mutex mutex;
  std::size_t most_kept = 0;
  std::map<std::string, std::weak_ptr<CausalLM>> loaded;
  std::list<std::shared_ptr<CausalLM>> kept;  ///< the latest first
  WeightChecksums checksums;

  std::shared_ptr<CausalLM> find(const std::string& key) {
    const std::scoped_lock lock(mutex);
    const auto found = loaded.find(key);
    if (found == loaded.end()) return nullptr;
    std::shared_ptr<CausalLM> model = found->second.lock();
    const auto place = std::ranges::find(kept, model);
    if (place != kept.end()) kept.splice(kept.begin(), kept, place);
    return model;
  }

  void put(const std::string& key, const std::shared_ptr<CausalLM>& model, bool keep) {
    const std::scoped_lock lock(mutex);
    std::erase_if(loaded, [](const auto& one) { return one.second.expired(); });
    loaded[key] = model;
    if (keep) kept.push_front(model);
    if (kept.size() > most_kept) kept.pop_back();
  }
};

OpenedModel::OpenedModel(const ModelRequest& asked, std::shared_ptr<Memory> memory)
    : request(asked), memory_(std::move(memory)) {
  const Checkpoint checkpoint = Checkpoint::open(request.model);
  folder = checkpoint.folder();
  config = checkpoint.config();
  parameters = checkpoint.parameter_count();
  if (request.bos) check_bos(*request.bos, config.vocabulary_size);
  check_interventions(request.interventions, config, kAnyLength);
  check_gates_change(request.interventions, config, request.name);
  options = {pruning_of(request, checkpoint), request.interventions};
  device = Device::of(request.device);
  if (!device.cuda) parameters -= checkpoint.mapped_parameter_count();
  dtype = request.dtype.value_or(device.cuda ? DType::bfloat16 : DType::float32);
  check_dtype(dtype, device);
  key_ = key_of(checkpoint, device, dtype);
}

const Tokenizer& OpenedModel::tokenizer() const {
  if (!*tokenizer_ && !Tokenizer::is_in(folder)) {
    throw Error(
        fmt::format("{}: holds no tokenizer: put tokenizer.json, or vocab.json and merges.txt, of the checkpoint "
                    "there, or run token "
                    "ids instead of a text: foxscope run --ids FILE",
                    folder.string()));
  }
  if (!*tokenizer_) tokenizer_->emplace(Tokenizer::load(folder));
  return **tokenizer_;
}

const Tokenizer* OpenedModel::find_tokenizer() const {
  return *tokenizer_ || Tokenizer::is_in(folder) ? &tokenizer() : nullptr;
}

std::int32_t OpenedModel::bos() const {
  if (request.bos) return static_cast<std::int32_t>(*request.bos);
  std::optional<std::int32_t> bos = config.bos_token_id;
  if (const Tokenizer* own = bos ? nullptr : find_tokenizer()) bos = own->bos_id();
  if (!bos) {
    throw UsageError(fmt::format("{}: neither config.json nor the tokenizer names a BOS token: give its id with --bos",
                                 folder.string()));
  }
  const std::int64_t last = config.vocabulary_size - 1;
  if (*bos >= 0 && *bos <= last) return *bos;
  throw Error(
      fmt::format("{}: the tokenizer's BOS token has the id {}, and the model's vocabulary the ids 0 to {}: use the "
                  "tokenizer that belongs to the model, or give a BOS token with --bos",
                  folder.string(), *bos, last));
}

std::vector<bool> OpenedModel::forgetting() const {
  std::vector<bool> forgetting;
  for (int layer = 0; layer < config.layers; ++layer) {
    forgetting.push_back(forgets_changed(options.interventions, layer, config.heads_of(layer), config.decays(layer)));
  }
  return forgetting;
}

std::optional<std::string> OpenedModel::weights_sha256(const Job& job) const {
  return memory_->checksums.of(Checkpoint::open(request.model), job);
}

std::optional<TraceInfo> OpenedModel::describe(std::int64_t length, const Job& job) const {
  auto checksum = weights_sha256(job);
  if (!checksum) return std::nullopt;
  TraceInfo info = describe_pass(length);
  info.weights_sha256 = std::move(*checksum);
  return info;
}

TraceInfo OpenedModel::describe_pass(std::int64_t length) const {
  TraceInfo info;
  static_cast<TraceSizes&>(info) = sizes_of(config, length);
  info.name = request.name;
  info.model_type = config.model_type;
  info.config = config.json;
  info.device = device.name();
  info.dtype = dtype;
  describe_attention(config, info);
  info.pruning_tolerance = options.pruning_tolerance;
  info.forgetting = forgetting();
  info.intervention = json_of(options.interventions);
  return info;
}

RunNeeds OpenedModel::needs(const KeepSet& keep) const {
  return estimate_needs(config, memory_->find(key_) ? 0 : parameters, keep, dtype, device);
}

std::shared_ptr<CausalLM> OpenedModel::load(const Job& job) const {
  job.tell({0, 1, "models", "load"});
  if (job.stopped()) return nullptr;
  const Checkpoint checkpoint = Checkpoint::open(request.model);
  if (key_of(checkpoint, device, dtype) != key_) {
    throw Error(fmt::format("{}: changed after it was opened: open it again", folder.string()));
  }
  if (std::shared_ptr<CausalLM> model = memory_->find(key_)) {
    log_line(LogCategory::model, [&] { return fmt::format("{}: is in memory", folder.string()); });
    return model;
  }
  const FreeMemory free = free_memory(device);
  std::shared_ptr<CausalLM> model = CausalLM::load(checkpoint, device, dtype, job);
  if (!model) return nullptr;
  const std::int64_t bytes = parameters * static_cast<std::int64_t>(size_of(dtype));
  memory_->put(key_, model, bytes <= (device.cuda ? free.gpu : free.host) / kFreeShare);
  return model;
}

Engine::Engine(std::size_t kept) : memory_(std::make_shared<OpenedModel::Memory>()) { memory_->most_kept = kept; }

OpenedModel Engine::open(const ModelRequest& request) const { return {request, memory_}; }

}  // namespace foxscope
