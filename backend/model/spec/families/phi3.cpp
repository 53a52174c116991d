// Phi-3 and Phi-4: Llama with one matrix for queries, keys and values, and one for gate and up.
#include "backend/model/spec/families/phi3.h"

#include "backend/model/spec/families/llama.h"

namespace foxscope::family {
namespace {

void read_phi3(const ConfigKeys& keys, ModelConfig& config) {
  read_llama_layers(keys, config, {.epsilon = 1e-5, .fraction = "partial_rotary_factor", .turning = 1});
  config.use_window(read_window(keys, 0));
  static_cast<void>(keys.has("original_max_position_embeddings"));  // without a scaling it says nothing
  // Projections have no bias, whatever the key says.
  static_cast<void>(keys.has("attention_bias"));
  keys.refuse_others(harmless_keys());
}

void list_phi3(const ModelConfig& config, ParameterList& list) {
  list_llama_layers(config, {.fused_attention = true, .fused_mlp = true}, list);
}

}  // namespace

const ModelFamily kPhi3 = {"phi3", "Phi-3", "model.", read_phi3, list_phi3, "lm_head.weight", is_llama_buffer};

}  // namespace foxscope::family
