#include "backend/model/layer/probe.h"

#include <algorithm>
#include <cassert>

#include "backend/model/spec/interventions.h"

namespace foxscope {

float* Probe::stored(TraceArray array, int layer) const {
  if (recorder_ == nullptr) return nullptr;
  const std::span<std::byte> kept = recorder_->stored(array, layer);
  return kept.empty() ? nullptr : reinterpret_cast<float*>(kept.data());
}

float* Probe::logits(std::int64_t vocabulary_size) const {
  return keeps(Keep::logits) ? recorder_->logits(vocabulary_size).data() : nullptr;
}

void Probe::take_hidden(int index, std::int64_t hidden_size, std::span<const float> rows) const {
  if (!keeps(Keep::hidden)) return;
  const std::span<float> kept = recorder_->hidden_states(index, hidden_size);
  assert(kept.size() == rows.size());
  std::ranges::copy(rows, kept.begin());
}

void Probe::take_prediction_state(std::int64_t hidden_size, std::span<const float> rows) const {
  if (!keeps(Keep::predictions)) return;
  const std::span<std::uint16_t> kept = recorder_->prediction_state(hidden_size);
  assert(kept.size() == rows.size());
  std::ranges::transform(rows, kept.begin(), to_float16);
}

void Probe::take_gates(int layer, std::span<const double> cumulative) const {
  if (!keeps(Keep::gates)) return;
  const std::span<double> kept = recorder_->cumulative_log_gate(layer);
  assert(cumulative.empty() || cumulative.size() == kept.size());
  if (cumulative.empty()) {
    std::ranges::fill(kept, 0.0);
  } else {
    std::ranges::copy(cumulative, kept.begin());
  }
}

void Probe::take_normalizers(int layer, std::span<const float> log_normalizer,
                             std::span<const float> without_gate) const {
  if (keeps(Keep::rows)) std::ranges::copy(log_normalizer, recorder_->log_normalizer(layer).begin());
  if (!without_gate.empty()) std::ranges::copy(without_gate, recorder_->log_normalizer_without_gate(layer).begin());
}

void Probe::take(TraceArray array, int layer, const float* values) const {
  if (recorder_ == nullptr) return;
  const std::span<float> kept = recorder_->array<float>(array, layer);
  std::copy_n(values, kept.size(), kept.begin());
}

void Probe::take_experts(int layer, std::span<const ChosenExpert> chosen) const {
  if (!keeps(Keep::experts)) return;
  const auto [experts, weights] = recorder_->experts(layer);
  assert(experts.size() == chosen.size());
  std::ranges::transform(chosen, experts.begin(), &ChosenExpert::expert);
  std::ranges::transform(chosen, weights.begin(), &ChosenExpert::weight);
}

void Probe::take_loss(std::int64_t first, std::span<const float> loss) const {
  if (keeps(Keep::loss)) std::ranges::copy(loss, recorder_->per_token_loss().begin() + first);
}

bool Probe::changes_gates(int layer) const { return foxscope::changes_gates(interventions_, layer); }

bool Probe::cuts_head(int layer, int head) const { return foxscope::cuts_head(interventions_, layer, head); }

bool Probe::drops_experts(int layer) const { return foxscope::drops_experts(interventions_, layer); }

bool Probe::drops_expert(int layer, int expert) const { return foxscope::drops_expert(interventions_, layer, expert); }

void Probe::change_gates(int layer, int heads, std::int64_t first, std::int64_t length, double* log_gate) const {
  foxscope::change_gates(interventions_, layer, {heads, first, length}, log_gate);
}

void Probe::pull_back_gates(int layer, int heads, std::int64_t length, const double* log_gate, double* gradient) const {
  foxscope::pull_back_gates(interventions_, layer, {heads, 0, length}, log_gate, gradient);
}

}  // namespace foxscope
