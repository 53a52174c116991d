#include "backend/model/interventions.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "backend/base/error.h"

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

}  // namespace

void check_interventions(std::span<const Intervention> interventions, const ModelConfig& config, std::int64_t length) {
  for (const Intervention& intervention : interventions) {
    const auto check = [&intervention](const char* what, std::int64_t number, std::int64_t count) {
      if (number < count) return;
      throw UsageError(fmt::format("--intervene '{}': there is no {} {}: the model and text have 0 to {}",
                                   intervention.text(), what, number, count - 1));
    };
    check("layer", intervention.layer, config.layers);
    check("head", intervention.head, config.heads);
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

}  // namespace foxscope
