#pragma once

#include <optional>
#include <string_view>

#include "backend/model/spec/model_family.h"

namespace foxscope::family {

extern const ModelFamily kLlama;
extern const ModelFamily kMistral;
extern const ModelFamily kMinistral;
extern const ModelFamily kMinistral3;
extern const ModelFamily kSmolLm3;
extern const ModelFamily kQwen2;
extern const ModelFamily kQwen3;
extern const ModelFamily kQwen3_5;
extern const ModelFamily kQwen3Next;
extern const ModelFamily kMixtral;
extern const ModelFamily kQwen3Moe;
extern const ModelFamily kQwen3_5Moe;

/// A family like Llama has these where the file does not say.
struct LlamaDefaults {
  int head_dim = 0;   ///< 0: hidden size / heads
  int heads = 0;      ///< 0: the key is required
  int key_heads = 0;  ///< 0: as many as heads
  double epsilon = 1e-6;
  double base = 10000;                 ///< of the rotary embedding
  const char* fraction = nullptr;      ///< key of the part of a head that turns; null: there is none
  std::optional<double> turning = {};  ///< the part that turns; empty: heads turn whole, whatever the file says
  bool tied = false;
  const char* activation_key = "hidden_act";
  const char* activation = "silu";
  MlpKind mlp = MlpKind::swiglu;  ///< geglu: the activation may be the one or the other
  bool rotary_by_kind = false;    ///< RotaryKeys::by_kind
  bool experts_alone = false;     ///< no layer has an MLP, so that intermediate_size is theirs or not there
};
/// Sizes, norms, MLP and rotary embedding of a family that writes its layers as Llama does.
void read_llama_layers(const ConfigKeys& keys, ModelConfig& config, const LlamaDefaults& otherwise = {});

/// How such a family's files differ.
struct LlamaLayout {
  bool zero_centered_norms = false;  ///< norms hold what is beyond 1
  bool fused_attention = false;      ///< queries, keys and values are one matrix, qkv_proj
  bool fused_mlp = false;            ///< gate and up are one matrix, gate_up_proj
  bool turning_pairs = false;        ///< q_proj and k_proj lie as ParameterLayout::turning_pairs
  /// Names of the norms of a layer that has norms behind attention and MLP (ModelConfig::post_norm). In other layers
  /// the norm before the MLP is post_attention_layernorm.
  const char* attention_post_norm = "post_attention_layernorm";
  const char* mlp_norm = "pre_feedforward_layernorm";
  const char* mlp_post_norm = "post_feedforward_layernorm";
  /// Lists what a layer has that is a mixture of experts; null: there is none.
  void (*list_experts)(const ModelConfig& config, ParameterList& list) = nullptr;
};
/// Its tensors. ModelConfig::pre_norm and post_norm say which norms there are.
void list_llama_layers(const ModelConfig& config, const LlamaLayout& layout, ParameterList& list);

/// The tensors of attention alone, in the layer that was begun.
void list_llama_attention(const ModelConfig& config, const LlamaLayout& layout, ParameterList& list);

/// Tables of frequencies that older files hold.
bool is_llama_buffer(std::string_view name);

}  // namespace foxscope::family
