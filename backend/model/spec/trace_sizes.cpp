#include "backend/model/spec/trace_sizes.h"

#include <optional>
#include <utility>
#include <vector>

#include "backend/base/index.h"
#include "backend/trace/trace.h"

namespace foxscope {

TraceSizes sizes_of(const ModelConfig& config, std::int64_t length) {
  TraceSizes sizes;
  sizes.layers = config.layers;
  sizes.heads = config.heads;
  sizes.key_heads = config.key_heads;
  sizes.length = length;
  sizes.head_dim = config.head_dim;
  sizes.vocabulary_size = config.vocabulary_size;
  sizes.hidden_size = config.hidden_size;
  if (config.mixture) sizes.chosen_experts = config.mixture->chosen;
  if (config.mixers.empty() && !config.sinks && !config.path) return sizes;
  std::vector<LayerMixer> mixers;
  mixers.reserve(static_cast<std::size_t>(config.layers));
  for (int layer = 0; layer < config.layers; ++layer) mixers.push_back(config.layer(layer));
  sizes.set_mixers(std::move(mixers));
  return sizes;
}

void describe_attention(const ModelConfig& config, TraceInfo& info) {
  info.softmax_scale = softmax_scale<float>(config.head_dim);
  info.logit_cap = config.attention_cap;
  if (!config.attends()) return;
  if (const std::optional<std::int64_t> common = config.common_window()) {
    info.window_size = *common;
    return;
  }
  for (int layer = 0; layer < config.layers; ++layer) {
    info.window_sizes.push_back(config.is_attention(layer) ? config.attention[index_of(layer)].window_size : 0);
  }
}

}  // namespace foxscope
