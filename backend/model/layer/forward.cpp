#include "backend/model/layer/forward.h"

#include <cassert>

namespace foxscope {

bool Forward::run(const Input& input, std::span<const Probe> probes, std::span<ForwardState* const> states,
                  const Job& job, ForwardReport& report) {
  assert(input.batch == batch() && static_cast<std::int64_t>(input.ids.size()) == rows());
  assert(std::ssize(probes) == batch() && (states.empty() || std::ssize(states) == batch()));
  set_run(input, probes, states, job, report);
  assert(!continues() || length() == 1);
  begin();
  if (!run_layers()) return false;
  tell(layers_done(config().layers));
  if (job.stopped() || !predict() || !finish()) return false;
  tell(config().layers + 1);
  for (std::int64_t sequence = 0; sequence < std::ssize(states); ++sequence) {
    if (has_state(sequence)) state(sequence).advance(text_length(sequence));
  }
  return true;
}

bool Forward::run_layers() {
  for (int layer = input().first_layer; layer < config().layers; ++layer) {
    tell(layers_done(layer));
    if (job().stopped() || !run_layer(layer)) return false;
    end_layer(layer);
  }
  return true;
}

/// Factors of what is added are in parts of what they are added to, as all is multiplied in the end.
bool Forward::run_normed_layer(int layer) {
  MixerSteps& steps = mixer(layer);
  if (!norm_residual(layer, /*mlp=*/false) || !steps.project(layer)) return false;
  steps.sum_gates(layer);
  if (!steps.attend(layer) || !steps.project_output(layer)) return false;
  if (!scale_residual(config().residual_share(layer))) return false;
  return norm_residual(layer, /*mlp=*/true) && feed_forward(layer) && scale_residual(config().normed_residual->mlp);
}

bool Forward::run_side_layer(int layer) {
  MixerSteps& steps = mixer(layer);
  if (!steps.project(layer)) return false;
  steps.sum_gates(layer);
  if (!steps.attend(layer)) return false;
  step_aside();
  return steps.project_output(layer) && feed_forward(layer) && step_back(layer);
}

void Forward::tell(int done) const { job().tell({done, config().layers + 1, "layers", "forward"}); }

/// The layer of the paper (Lin et al. 2025, figure 2). With a parallel residual (GPT-NeoX) the MLP reads what attention
/// did: it is added first, as attention has read by then.
bool Forward::run_layer(int layer) {
  keep_hidden(layer);
  if (!config().has_mixer(layer)) return feed_forward(layer);
  if (config().paired) hold_input(layer);
  if (config().normed_residual) return run_normed_layer(layer);
  if (config().is_aside(layer)) return run_side_layer(layer);
  MixerSteps& steps = mixer(layer);
  if (!steps.project(layer)) return false;
  steps.sum_gates(layer);
  if (!steps.attend(layer)) return false;
  if (config().parallel_residual) {
    assert(!config().output_gate);  // which would read x as it entered
    return feed_forward(layer) && steps.project_output(layer);
  }
  return steps.project_output(layer) && (!config().has_mlp(layer) || feed_forward(layer));
}

}  // namespace foxscope
