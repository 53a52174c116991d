#include "backend/model/spec/trace_sizes.h"

#include <utility>
#include <vector>

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
  if (config.mixers.empty()) return sizes;
  std::vector<LayerMixer> mixers;
  mixers.reserve(static_cast<std::size_t>(config.layers));
  for (int layer = 0; layer < config.layers; ++layer) mixers.push_back(config.layer(layer));
  sizes.set_mixers(std::move(mixers));
  return sizes;
}

}  // namespace foxscope
