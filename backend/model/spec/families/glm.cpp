// GLM and GLM-4: Llama with one matrix for gate and up, and heads of which a part turns, by pairs of neighbours. GLM-4
// has norms behind attention and MLP too.
#include "backend/model/spec/families/glm.h"

#include "backend/model/spec/families/llama.h"

namespace foxscope::family {
namespace {

void read_glm(const ConfigKeys& keys, ModelConfig& config) {
  read_llama_layers(
      keys, config,
      {.head_dim = 128, .key_heads = 2, .epsilon = 1.5625e-7, .fraction = "partial_rotary_factor", .turning = 0.5});
  config.query_key_value_bias = keys.flag("attention_bias", true);
  keys.refuse_others(harmless_keys());
}

void read_glm4(const ConfigKeys& keys, ModelConfig& config) {
  read_glm(keys, config);
  config.post_norm = true;
}

void list_glm(const ModelConfig& config, ParameterList& list) {
  list_llama_layers(config,
                    {.fused_mlp = true,
                     .turning_pairs = true,
                     .attention_post_norm = "post_self_attn_layernorm",
                     .mlp_norm = "post_attention_layernorm",
                     .mlp_post_norm = "post_mlp_layernorm"},
                    list);
}

}  // namespace

const ModelFamily kGlm = {"glm", "GLM", "model.", read_glm, list_glm, "lm_head.weight", is_llama_buffer};
const ModelFamily kGlm4 = {"glm4", "GLM-4", "model.", read_glm4, list_glm, "lm_head.weight", is_llama_buffer};

}  // namespace foxscope::family
