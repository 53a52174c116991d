#include "backend/model/run_settings.h"

#include <cmath>
#include <limits>
#include <optional>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "backend/base/error.h"
#include "backend/model/checks.h"
#include "backend/model/interventions.h"
#include "backend/model/run_memory.h"

namespace foxscope {
namespace {

constexpr double kDefaultPruning = 0x1p-24;  // below the rounding of float32
constexpr std::int64_t kAnyPosition = std::numeric_limits<std::int64_t>::max();

bool any_changes_gates(const std::vector<Intervention>& interventions) {
  for (const Intervention& intervention : interventions) {
    if (intervention.kind != Intervention::Kind::cut) return true;
  }
  return false;
}

std::string intervention_json(const std::vector<Intervention>& interventions) {
  if (interventions.empty()) return {};
  nlohmann::json list = nlohmann::json::array();
  for (const Intervention& intervention : interventions) list.push_back(intervention.text());
  return list.dump();
}

double pruning_of(const RunRequest& request, const Checkpoint& checkpoint) {
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
      "attention that may be skipped; correct it, set it to null, or say --pruning, which counts instead",
      checkpoint.folder().string(), *logarithm));
}

}  // namespace

ModelSettings validate(const RunRequest& request, const Checkpoint& checkpoint) {
  const ModelConfig& config = checkpoint.config();
  if (request.limit && *request.limit < 1) {
    throw UsageError(fmt::format("--limit {}: use a number of tokens from 1", *request.limit));
  }
  if (request.bos && (*request.bos < 0 || *request.bos >= config.vocabulary_size)) {
    throw UsageError(
        fmt::format("--bos {}: the model's vocabulary has ids 0 to {}", *request.bos, config.vocabulary_size - 1));
  }
  if (request.saliency && !request.keep.contains(Keep::saliency)) {
    throw UsageError("--saliency says of which losses the gradients are: add saliency to --keep");
  }
  if (config.linear && request.keep.contains(Keep::saliency)) {
    throw UsageError(
        fmt::format("{}: {} has layers of {}, and gradients by log gates are those of attention: leave "
                    "saliency out of --keep",
                    checkpoint.folder().string(), config.model_type, to_string(config.linear->kind)));
  }
  check_interventions(request.interventions, config, kAnyPosition);
  ModelSettings settings;
  settings.pruning_tolerance = pruning_of(request, checkpoint);
  settings.device = Device::of(request.device);
  settings.dtype = request.dtype.value_or(settings.device.cuda ? DType::bfloat16 : DType::float32);
  check_dtype(settings.dtype, settings.device);
  return settings;
}

std::int32_t choose_bos(const RunRequest& request, const Checkpoint& checkpoint, const Tokenizer* tokenizer) {
  if (request.bos) return static_cast<std::int32_t>(*request.bos);
  std::optional<std::int32_t> bos = checkpoint.config().bos_token_id;
  if (!bos && tokenizer != nullptr) bos = tokenizer->bos_id();
  if (!bos) {
    throw UsageError(fmt::format("{}: neither config.json nor the tokenizer names a BOS token: give its id with --bos",
                                 checkpoint.folder().string()));
  }
  const std::int64_t last = checkpoint.config().vocabulary_size - 1;
  if (*bos >= 0 && *bos <= last) return *bos;
  throw Error(
      fmt::format("{}: the tokenizer's BOS token has the id {}, and the model's vocabulary the ids 0 to {}: use the "
                  "tokenizer that belongs to the model, or give a BOS token with --bos",
                  checkpoint.folder().string(), *bos, last));
}

std::optional<LossRange> saliency_target(const RunRequest& request, std::int64_t length) {
  if (!request.keep.contains(Keep::saliency)) return std::nullopt;
  const LossRange whole{0, length};
  const LossRange target = request.saliency.value_or(whole);
  const LossRange within{target.first, target.end == LossRange::kToTheEnd ? length : target.end};
  if (within.first >= 0 && within.first < within.end && within.end <= length) return within;
  throw UsageError(fmt::format("--saliency {}:{}: use positions with 0 <= A < B <= {}, the text's length", within.first,
                               within.end, length));
}

std::optional<TraceInfo> describe_run(const RunRequest& request, const Checkpoint& checkpoint,
                                      const ModelSettings& settings, std::int64_t length, const Job& job) {
  const ModelConfig& config = checkpoint.config();
  const std::optional<LossRange> target = saliency_target(request, length);
  std::optional<std::string> checksum = weights_sha256(request, checkpoint, job);
  if (!checksum) return std::nullopt;
  TraceInfo info;
  info.name = request.name;
  info.model_type = config.model_type;
  info.config = config.json;
  info.weights_sha256 = std::move(*checksum);
  info.device = settings.device.name();
  info.dtype = settings.dtype;
  static_cast<TraceSizes&>(info) = sizes_of(config, length);
  info.softmax_scale = 1.0F / std::sqrt(static_cast<float>(config.head_dim));
  info.window_size = config.window_size;
  info.pruning_tolerance = settings.pruning_tolerance;
  info.gated = config.gated() || any_changes_gates(request.interventions) ||
               (config.linear && config.linear->decay != LinearDecay::none);
  info.intervention = intervention_json(request.interventions);
  if (target) info.saliency_target = fmt::format("mean of loss[{}:{}]", target->first, target->end);
  return info;
}

}  // namespace foxscope
