#include "backend/model/layer/forward.h"

#include <algorithm>
#include <cassert>

namespace foxscope {

bool Forward::run(const Input& input, std::span<const Probe> probes, std::span<ForwardState* const> states,
                  const Job& job, ForwardReport& report) {
  assert(input.batch == batch_ && static_cast<std::int64_t>(input.ids.size()) == rows());
  assert(std::ssize(probes) == batch_ && (states.empty() || std::ssize(states) == batch_));
  pass_ = {input, probes, states, job, &report};
  assert(!continues() || length_ == 1);
  begin();
  if (!run_layers()) return false;
  tell(layers_done(config_.layers));
  if (job.stopped() || !predict() || !finish()) return false;
  tell(config_.layers + 1);
  for (ForwardState* const state : states) {
    if (state != nullptr) state->advance(length_);
  }
  return true;
}

bool Forward::run_layers() {
  for (int layer = input().first_layer; layer < config_.layers; ++layer) {
    tell(layers_done(layer));
    if (job().stopped() || !run_layer(layer)) return false;
    end_layer(layer);
  }
  return true;
}

void Forward::tell(int done) const { job().tell({done, config_.layers + 1, "layers", "forward"}); }

/// The layer of the paper (Lin et al. 2025, figure 2). With a parallel residual (GPT-NeoX) the MLP reads what attention
/// did: it is added first, as attention has read by then.
bool Forward::run_layer(int layer) {
  keep_hidden(layer);
  MixerSteps& steps = mixer(layer);
  if (!steps.project(layer)) return false;
  steps.sum_gates(layer);
  if (!steps.attend(layer)) return false;
  if (config_.parallel_residual) {
    assert(!config_.output_gate);  // which would read x as it entered
    return feed_forward(layer) && steps.project_output(layer);
  }
  return steps.project_output(layer) && (!config_.has_mlp() || feed_forward(layer));
}

bool Forward::keeps(Keep part) const {
  return std::ranges::any_of(pass_.probes, [part](const Probe& probe) { return probe.keeps(part); });
}

bool Forward::gated(int layer) const {
  if (config_.gated()) return true;
  return std::ranges::any_of(pass_.probes, [layer](const Probe& probe) { return probe.changes_gates(layer); });
}

}  // namespace foxscope
