// Any bytes as a config.json: refused with a message, or a description of layers that makes sense.

#include <cstdint>
#include <cstdlib>
#include <iterator>
#include <string_view>

#include "backend/base/error.h"
#include "backend/model/spec/model_config.h"
#include "backend/model/spec/parameters.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    const foxscope::ModelConfig config =
        foxscope::ModelConfig::from_json({reinterpret_cast<const char*>(data), size}, "config.json");
    if (config.layers <= 0 || config.heads <= 0 || config.key_heads <= 0 || config.head_dim <= 0) std::abort();
    if (config.heads % config.key_heads != 0 || std::ssize(config.attention) != config.layers) std::abort();
    if (config.vocabulary_size <= 0 || config.intermediate_size < 0) std::abort();
    for (const foxscope::AttentionLayer& layer : config.attention) {
      if (layer.window_size < 0 || layer.rotary >= std::ssize(config.rotaries)) std::abort();
    }
    if (config.layers > 64) return 0;
    for (const foxscope::Parameter& tensor : foxscope::parameters(config)) {
      for (const std::int64_t extent : tensor.shape) {
        if (extent <= 0) std::abort();
      }
    }
  } catch (const foxscope::Error&) {
    // Refused, with a message: as it should be.
  }
  return 0;
}
