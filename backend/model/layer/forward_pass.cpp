#include "backend/model/layer/forward_pass.h"

#include <algorithm>

namespace foxscope {

void ForwardPass::set_run(const ForwardInput& input, std::span<const Probe> probes,
                          std::span<ForwardState* const> states, const Job& job, ForwardReport& report) {
  input_ = input;
  probes_ = probes;
  states_ = states;
  job_ = job;
  report_ = &report;
}

bool ForwardPass::keeps(Keep part) const {
  return std::ranges::any_of(probes_, [part](const Probe& probe) { return probe.keeps(part); });
}

bool ForwardPass::changes_gates(int layer) const {
  return std::ranges::any_of(probes_, [layer](const Probe& probe) { return probe.changes_gates(layer); });
}

bool ForwardPass::gated(int layer) const { return config().gated() || changes_gates(layer); }

}  // namespace foxscope
