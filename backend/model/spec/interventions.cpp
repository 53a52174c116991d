#include "backend/model/spec/interventions.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>
#include <vector>

#include "backend/base/index.h"

namespace foxscope {
namespace {

using InterventionKind = Intervention::Kind;

bool concerns(const Intervention& intervention, int layer, int head) {
  return intervention.kind != InterventionKind::drop && (intervention.layer == -1 || intervention.layer == layer) &&
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
        log_gate[index_of(at)] = kLowestLogGate;
      }
      break;
    }
    case InterventionKind::cut:
    case InterventionKind::drop:
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
      if (at >= 0 && at < static_cast<std::int64_t>(gradient.size())) gradient[index_of(at)] = 0;
      break;
    }
    case InterventionKind::cut:
    case InterventionKind::drop:
      break;
  }
}

}  // namespace

bool changes_gates(std::span<const Intervention> interventions, int layer) {
  return std::any_of(interventions.begin(), interventions.end(), [layer](const Intervention& intervention) {
    return intervention.kind != InterventionKind::cut && intervention.kind != InterventionKind::drop &&
           (intervention.layer == -1 || intervention.layer == layer);
  });
}

bool forgets_changed(std::span<const Intervention> interventions, int layer, int heads, bool forgets) {
  const auto head_forgets = [&](int head) {
    bool now = forgets;
    for (const Intervention& intervention : interventions) {
      if (!concerns(intervention, layer, head)) continue;
      switch (intervention.kind) {
        case InterventionKind::one:
          now = false;
          break;
        case InterventionKind::constant:
          now = intervention.value < 1;
          break;
        case InterventionKind::scale:
          now = now && intervention.value > 0;
          break;
        case InterventionKind::zero:
          now = true;
          break;
        case InterventionKind::mean:
        case InterventionKind::cut:
        case InterventionKind::drop:
          break;
      }
    }
    return now;
  };
  for (int head = 0; head < heads; ++head) {
    if (head_forgets(head)) return true;
  }
  return false;
}

bool cuts_head(std::span<const Intervention> interventions, int layer, int head) {
  return std::any_of(interventions.begin(), interventions.end(), [layer, head](const Intervention& intervention) {
    return intervention.kind == InterventionKind::cut && concerns(intervention, layer, head);
  });
}

bool drops_expert(std::span<const Intervention> interventions, int layer, int expert) {
  return std::ranges::any_of(interventions, [&](const Intervention& intervention) {
    return intervention.kind == InterventionKind::drop && intervention.expert == expert &&
           (intervention.layer == -1 || intervention.layer == layer);
  });
}

bool drops_experts(std::span<const Intervention> interventions, int layer) {
  return std::ranges::any_of(interventions, [&](const Intervention& intervention) {
    return intervention.kind == InterventionKind::drop && (intervention.layer == -1 || intervention.layer == layer);
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
    // The gates that each change found, as the next one changes them again.
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
