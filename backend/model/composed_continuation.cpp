#include <algorithm>
#include <cassert>
#include <cmath>

#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>

#include "backend/model/composed_continuation_torch.h"
#include "backend/model/device_errors_torch.h"
#include "backend/model/interventions.h"

namespace foxscope {

ComposedContinuation::ComposedContinuation(const ComposedCausalLM& model, const PromptRequest& request)
    : model_(&model),
      tolerance_(request.pruning_tolerance / 2),
      interventions_(request.interventions),
      length_(static_cast<std::int64_t>(request.input_ids.size())),
      layers_(static_cast<std::size_t>(model.config().layers)),
      log_probabilities_(static_cast<std::size_t>(model.config().vocabulary_size)) {
  for (int layer = 0; layer < model.config().layers; ++layer) {
    if (!model.config().gated() && !changes_gates(interventions_, layer)) continue;
    layers_[static_cast<std::size_t>(layer)].gates.resize(static_cast<std::size_t>(model.config().heads));
  }
}

void ComposedContinuation::take_layer(int layer, const ComposedHeads& heads, std::span<const double> cumulative) {
  LayerCache& cache = layers_[static_cast<std::size_t>(layer)];
  assert(heads.key.size(1) == length_ && heads.value.sizes() == heads.key.sizes());
  assert(cache.gates.empty() || cumulative.size() == cache.gates.size() * static_cast<std::size_t>(length_));
  cache.key.start(heads.key);
  cache.value.start(heads.value);
  cache.before = heads.next;
  const auto length = static_cast<std::size_t>(length_);
  for (std::size_t head = 0; head < cache.gates.size(); ++head) {
    cache.gates[head].start(cumulative.subspan(head * length, length));
  }
  if (!cache.gates.empty()) {
    cache.cumulative_log_gate.start(at::tensor(at::ArrayRef<double>(cumulative.data(), cumulative.size()), at::kDouble)
                                        .view({model_->config().heads, length_})
                                        .to(heads.key.device()));
  }
  drop_keys(layer);
}

void ComposedContinuation::take_residual(const at::Tensor& residual) {
  const at::Tensor logits = model_->logits(residual)[0].to(at::kDouble);
  const at::Tensor row = at::log_softmax(logits, 0).to(at::kFloat).to(at::kCPU).contiguous();
  std::copy(row.const_data_ptr<float>(), row.const_data_ptr<float>() + row.numel(), log_probabilities_.begin());
}

void ComposedContinuation::append(int layer, const ComposedHeads& heads) {
  LayerCache& cache = layers_[static_cast<std::size_t>(layer)];
  assert(heads.key.size(1) == 1 && cache.first + cache.key.size() == length_);
  cache.key.append(heads.key);
  cache.value.append(heads.value);
  cache.before = heads.next;
  if (cache.gates.empty()) return;
  at::Tensor log_gate = model_->log_gates(layer, heads.gates);
  double* const values = log_gate.mutable_data_ptr<double>();
  change_gates(interventions_, layer, {model_->config().heads, length_, 1}, values);
  std::vector<double> newest;
  for (std::size_t head = 0; head < cache.gates.size(); ++head) {
    cache.gates[head].append(values[head]);
    newest.push_back(cache.gates[head].last());
  }
  cache.cumulative_log_gate.append(at::tensor(newest, at::kDouble).unsqueeze(1));
}

/// o [1, H, d] float32 of the newest position.
/// @param query  [H, 1, d]
at::Tensor ComposedContinuation::attend(int layer, const at::Tensor& query) const {
  const LayerCache& cache = layers_[static_cast<std::size_t>(layer)];
  const ModelConfig& config = model_->config();
  const std::int64_t group = config.heads / config.key_heads;
  const std::int64_t dim = config.head_dim;
  std::int64_t skipped = 0;  // keys that have left the window
  if (config.window_size > 0) skipped = std::max<std::int64_t>(0, length_ - config.window_size + 1 - cache.first);
  const at::Tensor key = cache.key.rows().slice(1, skipped).to(at::kFloat);
  const at::Tensor value = cache.value.rows().slice(1, skipped).to(at::kFloat);
  const at::Tensor grouped = query.to(at::kFloat).view({config.key_heads, group, dim});
  at::Tensor logits = at::bmm(grouped, key.transpose(1, 2)) * (1 / std::sqrt(static_cast<double>(dim)));
  if (!cache.gates.empty()) {
    const at::Tensor c = cache.cumulative_log_gate.rows().slice(1, skipped);
    const at::Tensor decay = (c.slice(1, c.size(1) - 1) - c).to(at::kFloat);
    logits = logits + decay.view({config.key_heads, group, c.size(1)});
  }
  return at::bmm(at::softmax(logits, 2), value).view({1, config.heads, dim});
}

void ComposedContinuation::drop_keys(int layer) {
  LayerCache& cache = layers_[static_cast<std::size_t>(layer)];
  const std::int64_t end = cache.first + cache.key.size();
  std::int64_t first = cache.gates.empty() ? cache.first : end;
  for (std::size_t head = 0; head < cache.gates.size(); ++head) {
    first = std::min(first, cache.gates[head].first_needed(model_->layer(layer).logit_bound[head], tolerance_));
  }
  // The next row sees keys from end - w + 1 on.
  const std::int64_t window = model_->config().window_size;
  if (window > 0) first = std::max(first, end - window + 1);
  if (first <= cache.first) return;
  const std::int64_t dropped = first - cache.first;
  cache.key.drop_front(dropped);
  cache.value.drop_front(dropped);
  if (!cache.gates.empty()) cache.cumulative_log_gate.drop_front(dropped);
  for (GateHistory& gate : cache.gates) gate.drop_before(first);
  cache.first = first;
}

void ComposedContinuation::read(std::int32_t id) {
  check_next_token(id, length_, model_->config());
  const c10::InferenceMode guard;
  with_device_errors(model_->device(), length_ + 1, [&] {
    at::Tensor residual = model_->embed({&id, 1}, length_);
    for (int layer = 0; layer < model_->config().layers; ++layer) {
      const at::Tensor normed = model_->attention_input(layer, residual);
      const ComposedHeads heads = model_->project(layer, normed, layers_[static_cast<std::size_t>(layer)].before);
      append(layer, heads);
      model_->leave_layer(layer, normed, attend(layer, heads.query), interventions_, residual);
      drop_keys(layer);
    }
    ++length_;
    take_residual(residual);
  });
}

std::vector<std::int64_t> ComposedContinuation::held_keys() const {
  std::vector<std::int64_t> held;
  for (const LayerCache& cache : layers_) {
    held.insert(held.end(), static_cast<std::size_t>(model_->config().heads), length_ - cache.first);
  }
  return held;
}

}  // namespace foxscope
