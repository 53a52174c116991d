#include "backend/model/cpu_continuation.h"

#include <algorithm>
#include <cassert>
#include <cmath>

#include "backend/model/cpu_rows.h"
#include "backend/model/cpu_sequence_pass.h"
#include "backend/model/cpu_steps.h"
#include "backend/model/interventions.h"

namespace foxscope {
namespace {

using Into = LinearArguments::Into;

/// Numbers of a matrix that one task reads, and fewer than which are not worth waking the other threads for.
constexpr std::int64_t kTaskNumbers = 1 << 16;
constexpr std::int64_t kSharedNumbers = 1 << 18;

}  // namespace

CpuContinuation::CpuContinuation(const ModelConfig& config, const CpuWeights& weights, const PromptRequest& request)
    : config_(&config),
      weights_(&weights),
      tolerance_(request.pruning_tolerance / 2),
      interventions_(request.interventions),
      length_(static_cast<std::int64_t>(request.input_ids.size())),
      residual_(floats(config.hidden_size)),
      normed_(floats(config.hidden_size)),
      query_(floats(config.hidden_size)),
      key_(floats(config.key_size())),
      value_(floats(config.key_size())),
      attended_(floats(config.hidden_size)),
      log_gate_(floats(config.heads)),
      log_probabilities_(floats(config.vocabulary_size)) {
  const ProjectionColumns columns(config);
  wide_.resize(floats(std::max({columns.count, config.hidden_size, 2 * config.intermediate_size})));
  CpuLayerCache empty;
  empty.heads.assign(floats(config.key_heads), KeyValuePages(config.head_dim));
  empty.first.assign(floats(config.heads), 0);
  empty.previous.resize(floats(columns.count));
  layers_.assign(floats(config.layers), empty);
  for (int layer = 0; layer < config.layers; ++layer) {
    if (config.gated() || changes_gates(interventions_, layer)) {
      layers_[static_cast<std::size_t>(layer)].gates.resize(floats(config.heads));
    }
  }
}

void CpuContinuation::take_last_projection(int layer, const float* row) {
  assert(layer >= 0 && layer < static_cast<int>(layers_.size()));
  FloatArray& previous = layers_[static_cast<std::size_t>(layer)].previous;
  std::copy(row, row + previous.size(), previous.begin());
}

void CpuContinuation::take_layer(int layer, const PromptLayer& prompt) {
  CpuLayerCache& cache = layers_[static_cast<std::size_t>(layer)];
  assert(cache.gates.empty() || prompt.cumulative_log.size() == cache.gates.size() * floats(length_));
  for (std::size_t head = 0; head < cache.gates.size(); ++head) {
    cache.gates[head].start(prompt.cumulative_log.subspan(head * floats(length_), floats(length_)));
  }
  const std::int64_t dim = config_->head_dim;
  team_.run(config_->key_heads, [&](std::int64_t head, int /*thread*/) {
    KeyValuePages& pages = cache.heads[static_cast<std::size_t>(head)];
    for (std::int64_t p = 0; p < length_; ++p) {
      const std::int64_t at = (head * length_ + p) * dim;
      pages.append(prompt.key + at, prompt.value + at);
    }
  });
  drop_keys(layer);
}

void CpuContinuation::take_residual(const float* residual) {
  std::copy(residual, residual + config_->hidden_size, residual_.begin());
  predict();
}

void CpuContinuation::share(std::int64_t tasks, std::int64_t numbers,
                            const std::function<void(std::int64_t task)>& body) {
  if (tasks > 1 && numbers >= kSharedNumbers) {
    team_.run(tasks, [&](std::int64_t task, int /*thread*/) { body(task); });
  } else {
    for (std::int64_t task = 0; task < tasks; ++task) body(task);
  }
}

void CpuContinuation::multiply(const Product& product, const float* in, float* out, Into into) {
  const std::int64_t block = std::max<std::int64_t>(1, kTaskNumbers / product.depth);
  share((product.columns + block - 1) / block, product.columns * product.depth, [&](std::int64_t task) {
    const std::int64_t first = task * block;
    linear({.rows = 1,
            .columns = std::min(block, product.columns - first),
            .depth = product.depth,
            .in = in,
            .in_stride = product.depth,
            .weight = product.weight + first * product.depth,
            .out = out + first,
            .out_stride = product.columns,
            .into = into});
  });
}

void CpuContinuation::project(int layer) {
  const CpuLayerWeights& weights = weights_->layers[static_cast<std::size_t>(layer)];
  CpuLayerCache& cache = layers_[static_cast<std::size_t>(layer)];
  const auto columns = static_cast<std::int64_t>(cache.previous.size());
  cpu_steps::rms_norm(residual_.data(), weights.attention_norm.data(), config_->hidden_size,
                      static_cast<float>(config_->norm_epsilon), normed_.data());
  multiply({weights.projection.data(), columns, config_->hidden_size}, normed_.data(), wide_.data(), Into::overwrite);
  if (!weights.projection_bias.empty()) cpu_steps::add(weights.projection_bias.data(), columns, wide_.data());
  const RotaryTable rotary(*config_, length_, 1);
  cpu_rows::Places places;
  places.query = query_.data();
  places.key = key_.data();
  places.value = value_.data();
  places.head_stride = config_->head_dim;
  places.log_gate = log_gate_.data();
  places.gate_stride = 1;
  if (config_->rope) {
    places.cosine = rotary.cosine.data();
    places.sine = rotary.sine.data();
  }
  cpu_rows::place(*config_, weights, wide_.data(), cache.previous.data(), places);
  std::copy(wide_.begin(), wide_.begin() + columns, cache.previous.begin());
}

void CpuContinuation::append_gates(int layer) {
  CpuLayerCache& cache = layers_[static_cast<std::size_t>(layer)];
  const FloatArray& constant = weights_->layers[static_cast<std::size_t>(layer)].constant_gate;
  for (std::size_t head = 0; head < cache.gates.size(); ++head) {
    if (!config_->gated()) log_gate_[head] = 0;
    if (!constant.empty()) log_gate_[head] = cpu_steps::log_sigmoid(constant[head]);
    const auto at = static_cast<int>(head);
    assert(cache.gates[head].end() == length_);
    cache.gates[head].append(changed_gate(interventions_, layer, at, length_, log_gate_[head]));
  }
}

void CpuContinuation::attend(int layer) {
  CpuLayerCache& cache = layers_[static_cast<std::size_t>(layer)];
  const std::int64_t dim = config_->head_dim;
  const std::int64_t group = config_->heads / config_->key_heads;
  for (std::size_t head = 0; head < cache.heads.size(); ++head) {
    assert(cache.heads[head].end() == length_);
    cache.heads[head].append(key_.data() + head * floats(dim), value_.data() + head * floats(dim));
  }
  share(config_->heads, config_->heads * dim * cache.heads.front().end(), [&](std::int64_t head) {
    CachedAttention arguments;
    arguments.query = query_.data() + head * dim;
    arguments.head_dim = dim;
    arguments.scale = 1.0F / std::sqrt(static_cast<float>(dim));
    arguments.first = cache.first[static_cast<std::size_t>(head)];
    if (config_->window_size > 0) arguments.first = std::max(arguments.first, length_ - config_->window_size + 1);
    if (!cache.gates.empty()) arguments.gate = &cache.gates[static_cast<std::size_t>(head)];
    arguments.tolerance = tolerance_;
    attend_cached(arguments, cache.heads[static_cast<std::size_t>(head / group)], attended_.data() + head * dim);
  });
}

void CpuContinuation::drop_keys(int layer) {
  CpuLayerCache& cache = layers_[static_cast<std::size_t>(layer)];
  const CpuLayerWeights& weights = weights_->layers[static_cast<std::size_t>(layer)];
  const std::int64_t end = cache.heads.front().end();
  for (std::size_t head = 0; head < cache.first.size(); ++head) {
    std::int64_t& first = cache.first[head];
    // The next row sees keys from end - w + 1 on.
    if (config_->window_size > 0) first = std::max(first, end - config_->window_size + 1);
    if (!cache.gates.empty()) {
      first = std::max(first, cache.gates[head].first_needed(weights.logit_bound[head], tolerance_));
    }
  }
  const std::size_t group = cache.first.size() / cache.heads.size();
  for (std::size_t head = 0; head < cache.heads.size(); ++head) {
    const auto own = cache.first.begin() + static_cast<std::ptrdiff_t>(head * group);
    cache.heads[head].drop_before(*std::min_element(own, own + static_cast<std::ptrdiff_t>(group)));
  }
  for (std::size_t head = 0; head < cache.gates.size(); ++head) {
    cache.gates[head].drop_before(cache.first[head] / KeyValuePages::kPageKeys * KeyValuePages::kPageKeys);
  }
}

void CpuContinuation::leave_attention(int layer) {
  const CpuLayerWeights& weights = weights_->layers[static_cast<std::size_t>(layer)];
  const std::int64_t hidden = config_->hidden_size;
  if (config_->output_gate) {
    multiply({weights.output_gate.data(), hidden, hidden}, normed_.data(), wide_.data(), Into::overwrite);
  }
  cpu_rows::finish_attention(*config_, weights, wide_.data(), interventions_, layer, attended_.data());
  multiply({weights.output.data(), hidden, hidden}, attended_.data(), residual_.data(), Into::add);
}

void CpuContinuation::feed_forward(int layer) {
  const CpuLayerWeights& weights = weights_->layers[static_cast<std::size_t>(layer)];
  const std::int64_t hidden = config_->hidden_size;
  const std::int64_t inner = config_->intermediate_size;
  cpu_steps::rms_norm(residual_.data(), weights.mlp_norm.data(), hidden, static_cast<float>(config_->norm_epsilon),
                      normed_.data());
  multiply({weights.mlp_gate_up.data(), 2 * inner, hidden}, normed_.data(), wide_.data(), Into::overwrite);
  cpu_steps::swiglu(wide_.data(), wide_.data() + inner, inner, wide_.data());
  multiply({weights.mlp_down.data(), hidden, inner}, wide_.data(), residual_.data(), Into::add);
}

void CpuContinuation::predict() {
  const std::int64_t vocabulary = config_->vocabulary_size;
  cpu_steps::rms_norm(residual_.data(), weights_->final_norm.data(), config_->hidden_size,
                      static_cast<float>(config_->norm_epsilon), normed_.data());
  multiply({weights_->head(), vocabulary, config_->hidden_size}, normed_.data(), log_probabilities_.data(),
           Into::overwrite);
  const float shift = cpu_steps::largest(log_probabilities_.data(), vocabulary);
  double sum = 0;
  for (const float logit : log_probabilities_) sum += std::exp(static_cast<double>(logit) - static_cast<double>(shift));
  const double normalizer = std::log(sum) + static_cast<double>(shift);
  for (float& logit : log_probabilities_) logit = static_cast<float>(static_cast<double>(logit) - normalizer);
}

void CpuContinuation::run_layer(int layer) {
  project(layer);
  append_gates(layer);
  attend(layer);
  leave_attention(layer);
  feed_forward(layer);
  drop_keys(layer);
}

void CpuContinuation::read(std::int32_t id) {
  check_next_token(id, *config_);
  const float* embedding = weights_->embedding.data() + id * config_->hidden_size;
  std::copy(embedding, embedding + config_->hidden_size, residual_.begin());
  for (int layer = 0; layer < config_->layers; ++layer) run_layer(layer);
  ++length_;
  predict();
}

std::vector<std::int64_t> CpuContinuation::held_keys() const {
  std::vector<std::int64_t> held;
  for (const CpuLayerCache& cache : layers_) {
    for (std::size_t head = 0; head < cache.first.size(); ++head) held.push_back(length_ - cache.first[head]);
  }
  return held;
}

}  // namespace foxscope
