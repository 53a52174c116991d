#include "backend/model/layer/checks.h"

#include <algorithm>
#include <vector>

#include <fmt/format.h>

#include "backend/base/error.h"
#include "backend/base/number_ranges.h"
#include "backend/model/spec/interventions.h"
#include "backend/model/spec/trace_sizes.h"
#include "backend/text/token_ids.h"
#include "backend/trace/mixer_text.h"

namespace foxscope {
namespace {

/// Whether a layer has something that the intervention changes.
void check_decay(const Intervention& intervention, const ModelConfig& config) {
  if (intervention.kind == Intervention::Kind::cut || intervention.kind == Intervention::Kind::drop) return;
  for (int layer = 0; layer < config.layers; ++layer) {
    if (intervention.layer != -1 && intervention.layer != layer) continue;
    const LayerMixer mixer = config.layer(layer);
    if (!mixer.kind().mixes && intervention.layer == -1) continue;
    if (!mixer.decays()) {
      throw UsageError(
          fmt::format("--intervene '{}': layer {} is a {} without decay, which has nothing to change: cut "
                      "is the only intervention on it",
                      intervention.text(), layer, mixer_words(mixer)));
    }
    const int decays = mixer.sums_channels() ? mixer.key_heads : mixer.heads / mixer.steps();
    if (decays != mixer.heads && intervention.head != -1) {
      throw UsageError(
          fmt::format("--intervene '{}': layer {} has {} heads that share the decays of {}: use * for the "
                      "head, to change all",
                      intervention.text(), layer, mixer.heads, decays));
    }
  }
}

}  // namespace

void check_any(std::span<const std::int32_t> ids, std::string_view where) {
  if (ids.empty()) throw Error(fmt::format("{}: holds no tokens: there must be at least one", where));
}

void check_ids(std::span<const std::int32_t> ids, std::int64_t vocabulary_size, std::string_view where) {
  for (std::size_t n = 0; n < ids.size(); ++n) {
    if (ids[n] >= 0 && ids[n] < vocabulary_size) continue;
    throw_outside_vocabulary(where, fmt::format("{}", ids[n]), fmt::format("position {}", n), vocabulary_size);
  }
}

void check_bos(std::int64_t id, std::int64_t vocabulary_size) {
  if (id >= 0 && id < vocabulary_size) return;
  throw UsageError(fmt::format("--bos {}: the model's vocabulary has ids 0 to {}", id, vocabulary_size - 1));
}

void check_limit(std::optional<std::int64_t> limit) {
  if (!limit || *limit >= 1) return;
  throw UsageError(fmt::format("--length {}: use a number of tokens from 1", *limit));
}

void check_pruning(double tolerance) {
  if (tolerance >= 0 && tolerance < 1) return;
  throw UsageError(fmt::format("--pruning {}: use a share from 0 (nothing is skipped) to below 1", tolerance));
}

void check_dtype(DType dtype, const Device& device) {
  if (device.cuda || dtype == DType::float32) return;
  throw UsageError("--dtype bfloat16 needs --device cuda: on a CPU models run in float32");
}

void check_length(std::int64_t length, const ModelConfig& config) {
  if (config.learned_positions == 0 || length <= config.learned_positions) return;
  throw UsageError(
      fmt::format("{} tokens are more than the model has positions for, which is {}: take fewer tokens, or a shorter "
                  "text",
                  length, config.learned_positions));
}

void check_interventions(std::span<const Intervention> interventions, const ModelConfig& config, std::int64_t length) {
  for (const Intervention& intervention : interventions) {
    const auto check = [&intervention](const char* what, std::int64_t number, std::int64_t count) {
      if (number < count) return;
      throw UsageError(fmt::format("--intervene '{}': there is no {} {}: the model and text have 0 to {}",
                                   intervention.text(), what, number, count - 1));
    };
    check("layer", intervention.layer, config.layers);
    if (intervention.kind == Intervention::Kind::drop) {
      if (!config.mixture || (intervention.layer >= 0 && config.mixture_at(intervention.layer) == nullptr)) {
        throw UsageError(fmt::format("--intervene '{}': {} has no experts", intervention.text(),
                                     config.mixture ? fmt::format("layer {}", intervention.layer) : "the model"));
      }
      check("expert", intervention.expert, config.mixture->experts);
    } else if (intervention.layer >= 0 && !config.has_mixer(intervention.layer)) {
      throw UsageError(fmt::format("--intervene '{}': layer {} has no heads, only {}", intervention.text(),
                                   intervention.layer,
                                   config.mixture_at(intervention.layer) != nullptr ? "experts" : "an MLP"));
    }
    check("head", intervention.head,
          intervention.layer < 0 ? sizes_of(config, 1).heads : config.heads_of(intervention.layer));
    check_decay(intervention, config);
    if (intervention.kind == Intervention::Kind::zero) check("position", intervention.position, length);
  }
}

void check_gates_change(std::span<const Intervention> interventions, const ModelConfig& config,
                        std::string_view model) {
  using Kind = Intervention::Kind;
  for (std::size_t n = 0; n < interventions.size(); ++n) {
    const Intervention& intervention = interventions[n];
    const bool keeps_one = intervention.kind == Kind::one || intervention.kind == Kind::mean ||
                           intervention.kind == Kind::scale ||
                           (intervention.kind == Kind::constant && intervention.value == 1);
    if (!keeps_one) continue;
    std::vector<int> gated;  // layers, by the model or by what acts before
    for (int layer = 0; layer < config.layers; ++layer) {
      if (config.decays(layer) || forgets_changed(interventions.first(n), layer, config.heads_of(layer), false)) {
        gated.push_back(layer);
      }
    }
    const bool found = intervention.layer < 0 ? !gated.empty() : std::ranges::binary_search(gated, intervention.layer);
    if (found) continue;
    const std::string problem = fmt::format(
        "--intervene '{}': {} has no gates, f is 1 there: {}use cut, or constant=f below 1, which gives it gates",
        intervention.text(),
        intervention.layer < 0 ? std::string(model) : fmt::format("layer {} of {}", intervention.layer, model),
        gated.empty() ? (intervention.layer < 0 ? "" : "nor has any other layer; ")
                      : fmt::format("layers with gates are {}; ", ranges_text(gated)));
    if (intervention.layer < 0) throw NoGatesError(problem, n);
    throw UsageError(problem);
  }
}

void check_pass(const PassOptions& options, const ModelConfig& config, std::int64_t length) {
  check_pruning(options.pruning_tolerance);
  check_length(length, config);
  check_interventions(options.interventions, config, length);
}

void check_continued(std::span<const Intervention> interventions, const ModelConfig& config) {
  for (const Intervention& intervention : interventions) {
    if (intervention.kind != Intervention::Kind::mean) continue;
    throw UsageError(fmt::format(
        "--intervene '{}': a text that is being continued has no mean gate yet: use constant=f", intervention.text()));
  }
  check_interventions(interventions, config, kAnyLength);
}

Range check_saliency(const Range& target, std::int64_t length) {
  const Range within{target.begin, target.end == Range::kToTheEnd ? length : target.end};
  if (within.begin >= 0 && within.begin < within.end && within.end <= length) return within;
  throw UsageError(fmt::format("--saliency {}:{}: use positions with 0 <= A < B <= {}, the text's length", within.begin,
                               within.end, length));
}

}  // namespace foxscope
