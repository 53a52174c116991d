#include "backend/model/layer/cpu/cpu_state.h"

#include <algorithm>
#include <cstddef>

#include "backend/base/index.h"
#include "backend/model/spec/interventions.h"
#include "backend/model/spec/parameters.h"

namespace foxscope {

CpuState::CpuState(const ModelConfig& config, std::span<const Intervention> interventions, double tolerance,
                   const std::shared_ptr<PagePool>& pool)
    : tolerance_(tolerance) {
  Layer empty;
  empty.heads.assign(static_cast<std::size_t>(config.key_heads), KeyValuePages(config.head_dim, pool));
  empty.first.assign(static_cast<std::size_t>(config.heads), 0);
  empty.previous.resize(static_cast<std::size_t>(ProjectionColumns(config).count));
  layers_.assign(static_cast<std::size_t>(config.layers), empty);
  for (int layer = 0; layer < config.layers; ++layer) {
    if (!config.has_mixer(layer)) {
      layers_[index_of(layer)] = Layer();
      continue;
    }
    if (const std::int64_t size = config.state_size(layer); size > 0) {
      Layer& recurrent = layers_[index_of(layer)] = Layer();
      recurrent.recurrent_heads = static_cast<std::size_t>(config.heads_of(layer));
      recurrent.recurrent.resize(static_cast<std::size_t>(size));
      recurrent.window.resize(static_cast<std::size_t>(config.carried_size(layer) - size));
      continue;
    }
    if (config.path) {
      layers_[index_of(layer)].window.resize(
          static_cast<std::size_t>(std::max(0, config.path->taps - 1) * config.key_size()));
    }
    if (!config.gated() && !changes_gates(interventions, layer)) continue;
    layers_[index_of(layer)].gates.resize(static_cast<std::size_t>(config.heads));
  }
}

void CpuState::drop_keys(int index, std::int64_t window_size, std::span<const double> logit_bound) {
  Layer& cache = layer(index);
  const std::int64_t end = cache.heads.front().end();
  for (std::size_t head = 0; head < cache.first.size(); ++head) {
    std::int64_t& first = cache.first[head];
    // The next row sees keys from end - w + 1 on.
    if (window_size > 0) first = std::max(first, end - window_size + 1);
    if (!cache.gates.empty()) {
      first = std::max(first, cache.gates[head].first_needed(logit_bound[head], tolerance_ / 2));
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

std::vector<std::int64_t> CpuState::held_keys() const {
  std::vector<std::int64_t> held;
  for (const Layer& cache : layers_) {
    for (const std::int64_t first : cache.first) held.push_back(length() - first);
    // A linear mixer holds its past in its state, not in keys.
    held.insert(held.end(), cache.recurrent_heads, 0);
  }
  return held;
}

}  // namespace foxscope
