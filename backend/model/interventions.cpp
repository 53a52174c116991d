#include "backend/model/interventions.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "backend/base/error.h"
#include "backend/model/run_memory.h"
#include "backend/trace/mixer_text.h"

namespace foxscope {
namespace {

using InterventionKind = Intervention::Kind;

bool concerns(const Intervention& intervention, int layer, int head) {
  return (intervention.layer == -1 || intervention.layer == layer) &&
         (intervention.head == -1 || intervention.head == head);
}

/// log of the mean of f.
double log_mean(std::span<const double> log_gate) {
  double sum = 0;
  for (const double value : log_gate) sum += std::exp(value);
  return std::log(sum / static_cast<double>(log_gate.size()));
}

/// @param first  position of the first
void change_head(const Intervention& intervention, std::int64_t first, std::span<double> log_gate) {
  switch (intervention.kind) {
    case InterventionKind::one:
      std::fill(log_gate.begin(), log_gate.end(), 0.0);
      break;
    case InterventionKind::constant:
      std::fill(log_gate.begin(), log_gate.end(), std::max(std::log(intervention.value), kLowestLogGate));
      break;
    case InterventionKind::mean:
      std::fill(log_gate.begin(), log_gate.end(), std::max(log_mean(log_gate), kLowestLogGate));
      break;
    case InterventionKind::scale:
      for (double& value : log_gate) value = std::max(value * intervention.value, kLowestLogGate);
      break;
    case InterventionKind::zero: {
      const std::int64_t at = intervention.position - first;
      if (at >= 0 && at < static_cast<std::int64_t>(log_gate.size())) {
        log_gate[static_cast<std::size_t>(at)] = kLowestLogGate;
      }
      break;
    }
    case InterventionKind::cut:
      break;
  }
}

/// The transposed derivative of change_head.
/// @param log_gate  before it
/// @param gradient  by what it leaves; then by what it found
void pull_back_head(const Intervention& intervention, std::int64_t first, std::span<const double> log_gate,
                    std::span<double> gradient) {
  switch (intervention.kind) {
    case InterventionKind::one:
    case InterventionKind::constant:
      std::ranges::fill(gradient, 0.0);
      break;
    case InterventionKind::mean: {
      const double mean = log_mean(log_gate);
      const double sum = mean < kLowestLogGate ? 0.0 : std::accumulate(gradient.begin(), gradient.end(), 0.0);
      const auto count = static_cast<double>(log_gate.size());
      for (std::size_t t = 0; t < gradient.size(); ++t) {
        gradient[t] = sum == 0 ? 0.0 : sum * std::exp(log_gate[t] - mean) / count;
      }
      break;
    }
    case InterventionKind::scale:
      for (std::size_t t = 0; t < gradient.size(); ++t) {
        gradient[t] = log_gate[t] * intervention.value < kLowestLogGate ? 0.0 : gradient[t] * intervention.value;
      }
      break;
    case InterventionKind::zero: {
      const std::int64_t at = intervention.position - first;
      if (at >= 0 && at < static_cast<std::int64_t>(gradient.size())) gradient[static_cast<std::size_t>(at)] = 0;
      break;
    }
    case InterventionKind::cut:
      break;
  }
}

/// Whether a layer has something that the intervention changes.
void check_decay(const Intervention& intervention, const ModelConfig& config) {
  if (!config.linear || intervention.kind == InterventionKind::cut) return;
  const LinearMixer& mixer = *config.linear;
  for (int layer = 0; layer < config.layers; ++layer) {
    if (!config.is_linear(layer) || (intervention.layer != -1 && intervention.layer != layer)) continue;
    if (mixer.decay == LinearDecay::none) {
      throw UsageError(
          fmt::format("--intervene '{}': layer {} is a {} without decay, which has nothing to change: cut "
                      "is the only intervention on it",
                      intervention.text(), layer, mixer_words(mixer.layer())));
    }
    if (mixer.decays_by_channel() && mixer.key_heads != mixer.heads && intervention.head != -1) {
      throw UsageError(
          fmt::format("--intervene '{}': layer {} has {} heads that share the decays of {}: use * for the "
                      "head, to change all",
                      intervention.text(), layer, mixer.heads, mixer.key_heads));
    }
  }
}

}  // namespace

void check_interventions(std::span<const Intervention> interventions, const ModelConfig& config, std::int64_t length) {
  for (const Intervention& intervention : interventions) {
    const auto check = [&intervention](const char* what, std::int64_t number, std::int64_t count) {
      if (number < count) return;
      throw UsageError(fmt::format("--intervene '{}': there is no {} {}: the model and text have 0 to {}",
                                   intervention.text(), what, number, count - 1));
    };
    check("layer", intervention.layer, config.layers);
    check("head", intervention.head,
          intervention.layer < 0 ? sizes_of(config, 1).heads : config.heads_of(intervention.layer));
    check_decay(intervention, config);
    if (intervention.kind == InterventionKind::zero) check("position", intervention.position, length);
  }
}

bool changes_gates(std::span<const Intervention> interventions, int layer) {
  return std::any_of(interventions.begin(), interventions.end(), [layer](const Intervention& intervention) {
    return intervention.kind != InterventionKind::cut && (intervention.layer == -1 || intervention.layer == layer);
  });
}

bool cuts_head(std::span<const Intervention> interventions, int layer, int head) {
  return std::any_of(interventions.begin(), interventions.end(), [layer, head](const Intervention& intervention) {
    return intervention.kind == InterventionKind::cut && concerns(intervention, layer, head);
  });
}

void change_gates(std::span<const Intervention> interventions, int layer, const GateRange& range, double* log_gate) {
  for (const Intervention& intervention : interventions) {
    for (int head = 0; head < range.heads; ++head) {
      if (!concerns(intervention, layer, head)) continue;
      change_head(intervention, range.first, {log_gate + head * range.length, static_cast<std::size_t>(range.length)});
    }
  }
}

void pull_back_gates(std::span<const Intervention> interventions, int layer, const GateRange& range,
                     const double* log_gate, double* gradient) {
  for (int head = 0; head < range.heads; ++head) {
    const auto row = [&](auto* all) {
      return std::span(all + head * range.length, static_cast<std::size_t>(range.length));
    };
    // What each change found, as the next one changes it again.
    std::vector<std::pair<const Intervention*, std::vector<double>>> found;
    std::vector<double> now(row(log_gate).begin(), row(log_gate).end());
    for (const Intervention& intervention : interventions) {
      if (!concerns(intervention, layer, head)) continue;
      found.emplace_back(&intervention, now);
      change_head(intervention, range.first, now);
    }
    for (auto change = found.rbegin(); change != found.rend(); ++change) {
      pull_back_head(*change->first, range.first, change->second, row(gradient));
    }
  }
}

}  // namespace foxscope
