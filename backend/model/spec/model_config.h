#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "backend/base/index.h"
#include "backend/model/spec/expert_mixture.h"
#include "backend/model/spec/linear_mixer.h"
#include "backend/model/spec/rotary.h"

namespace foxscope {

/// How a head's forget gate f_t comes about (config key `fgate_type`).
enum class ForgetGate {
  full,       ///< f_t = sigmoid(w_f.x_t + b_f)
  bias_only,  ///< data-independent: f_t = sigmoid(b_h), a parameter
  fixed,      ///< the same, a buffer
  none,       ///< f = 1: a plain Transformer
};

enum class QueryKeyNorm {
  none,
  per_head,  ///< RMSNorm over d, weight [H d]
  shared,    ///< RMSNorm over d, weight [d]
  whole,     ///< RMSNorm over all heads together, H d of queries and H_kv d of keys
};
enum class OutputGateActivation { sigmoid, silu };

enum class NormKind {
  rms,    ///< x / sqrt(mean(x^2) + epsilon) * weight
  layer,  ///< (x - mean(x)) / sqrt(var(x) + epsilon) * weight + bias
};

/// The MLP between its two matrices.
enum class MlpKind {
  swiglu,        ///< silu(g) * u
  geglu,         ///< gelu_tanh(g) * u
  geglu_erf,     ///< gelu(g) * u
  clamped,       ///< (u' + 1) g' sigmoid(1.702 g') with g' = min(g, limit), u' = u within -limit and limit (gpt-oss)
  gelu,          ///< x (1 + erf(x / sqrt(2))) / 2
  gelu_tanh,     ///< x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2
  relu_squared,  ///< max(x, 0)^2
};
/// Whether it has a gate, g, beside u.
constexpr bool is_gated(MlpKind kind) {
  return kind == MlpKind::swiglu || kind == MlpKind::geglu || kind == MlpKind::geglu_erf || kind == MlpKind::clamped;
}

/// The softmax attention of a layer has this for itself: other layers of its model may differ.
struct AttentionLayer {
  std::int64_t window_size = 0;  ///< w: position i sees i-w < j <= i; 0: all j <= i
  int rotary = -1;               ///< of ModelConfig::rotaries; below 0: heads do not turn
  bool operator==(const AttentionLayer&) const = default;
};

/// A part of a checkpoint that is not run: a tower of another kind of input, a head that predicts further tokens.
struct UnreadPart {
  std::string prefix;  ///< of its tensors' names
  std::string words;   ///< for people
};

/// Keys and values of attention by way of a low rank that all heads share (multi-head latent attention, DeepSeek-V2,
/// section 2.1), without rotary embedding: with c = rms(W_c n) and k_s = W_s n the keys are [W_k c | k_s], k_s the same
/// of all heads, and the values W_v c.
struct LatentKeys {
  int rank = 0;        ///< of c
  int own_dim = 0;     ///< of a head's W_k c
  int shared_dim = 0;  ///< of k_s
  int value_dim = 0;   ///< at most the other two together; values are filled up with zeros to their width
  double epsilon = 1e-6;
};

/// The directions that logits of attention are reflected along between a key and a query (PaTH attention, Yang et al.
/// 2025, section 3), in the place of a rotary embedding: with w_t = l2(silu(conv(W_w n))), or l2(W_w n), and beta_t = 2
/// sigmoid(W_b n + b), each a key head's,
///
///     s_ij = q_i^T (I - beta_i w_i w_i^T) ... (I - beta_(j+1) w_(j+1) w_(j+1)^T) k_j / sqrt(d).
struct PathDirections {
  int rank = 0;           ///< of W_w; 0: it is one matrix
  int taps = 0;           ///< of the convolution; 0: there is none, and no silu
  double epsilon = 1e-6;  ///< l2(x) = x / sqrt(sum(x^2) + epsilon)
};

/// Layers whose x is normed before it is read, and goes on normed: x <- alpha n + beta mixer(n), n = norm(x), and
/// likewise of the MLP (MiniMax).
struct NormedResidual {
  double attention = 1;         ///< alpha of layers of attention
  double linear = 1;            ///< of the others
  double mlp = 1;               ///< of MLPs
  double attention_factor = 1;  ///< beta, likewise
  double linear_factor = 1;
  double mlp_factor = 1;
};

struct ModelFamily;

/// How keys of a config.json are treated that no reader asks for.
enum class UnknownKeys {
  refused_unless_no,  ///< of a checkpoint: what says no (false, 0, null, empty) changes nothing, if it is not misspelt
  refused,            ///< of a model that is to be trained: each may be another key misspelt
};

/// One description of all layers, whatever the family: models differ in this table, not in class.
struct ModelConfig {
  const ModelFamily* family = nullptr;  ///< never null once it is read
  std::string name_prefix;              ///< what the names of all tensors but lm_head begin with; may be empty
  std::string head_name;                ///< of the matrix that makes logits
  std::vector<UnreadPart> unread;       ///< parts that the checkpoint may hold beside the model that is run
  std::string model_type;
  std::string json;  ///< config.json as it was read, paths in it (_name_or_path) without their folders

  std::int64_t vocabulary_size = 0;
  std::int64_t hidden_size = 0;        ///< D
  std::int64_t intermediate_size = 0;  ///< I; 0: there is no MLP
  /// I of the layers that are no attention; 0: as the others'
  std::int64_t linear_intermediate_size = 0;
  bool mlp_alone = false;  ///< a layer is a mixer or an MLP (Mixer::none), and none is both
  /// Layers 2n and 2n + 1 are one of the file: both mixers read what enters the first, and an MLP follows the second.
  bool paired = false;
  /// Layers of attention stand beside the stream (Zamba2): with E the embedding of a position and n = norm([x, E]) they
  /// make t = W mlp(norm(W_o attention(n))), without residuals. The mixer of the layer behind reads x + t, and x stays.
  bool side_attention = false;
  int shared_blocks = 1;            ///< the n-th layer beside the stream has the weights of the (n mod this)-th
  int adapter_rank = 0;             ///< of what such a layer adds to matrices of the MLP
  bool attention_adapters = false;  ///< and to those of queries, keys and values
  int layers = 0;
  int heads = 0;
  int key_heads = 0;
  int head_dim = 0;
  NormKind norm = NormKind::rms;
  double norm_epsilon = 1e-6;
  bool pre_norm = true;           ///< attention and MLP read norm(x)
  bool post_norm = false;         ///< what they make is normed before it is added to x
  MlpKind mlp = MlpKind::swiglu;  ///< of experts too
  double mlp_limit = 0;           ///< of MlpKind::clamped
  /// Layers that `sparse` names have it in the place of an MLP; their intermediate_of is the shared expert's.
  std::optional<ExpertMixture> mixture;
  std::vector<bool> sparse;        ///< [layers]; empty: no layer
  bool parallel_residual = false;  ///< x + attention(norm x) + mlp(norm' x), both of the same x
  bool tie_word_embeddings = false;
  bool tied_by_tensor = false;  ///< the config does not say: a checkpoint without the head's matrix is tied
  std::optional<std::int32_t> bos_token_id;

  ForgetGate forget_gate = ForgetGate::full;
  bool key_shift = false;  ///< one shift gate a key head
  bool value_shift = false;
  QueryKeyNorm query_key_norm = QueryKeyNorm::none;
  bool query_key_norm_by_shape = false;  ///< the config does not say which: a weight of size [d] means shared
  double query_key_norm_epsilon = 1e-5;
  bool query_key_value_bias = false;
  bool output_bias = false;
  bool mlp_bias = false;
  std::vector<AttentionLayer> attention;  ///< [layers]
  std::vector<Rotary> rotaries;           ///< that layers have; empty: no layer's heads turn
  std::int64_t learned_positions = 0;     ///< rows of a table of positions, which no text may be longer than; 0: none
  /// Queries of layer n are multiplied by query_factor / (n + 1 if by_layer): where logits are scaled by other than
  /// 1/sqrt(d).
  double query_factor = 1;
  bool query_factor_by_layer = false;
  bool output_norm = false;
  bool output_gate = false;
  OutputGateActivation output_gate_activation = OutputGateActivation::sigmoid;
  std::optional<double> log_pruning_tolerance;  ///< of config.json
  double embedding_factor = 1;                  ///< x begins as the embedding times it
  double residual_factor = 1;                   ///< of what attention and MLP make, before it is added to x
  double logit_factor = 1;                      ///< of the logits of tokens, before their cap
  std::map<std::string, double> factors;        ///< that a family's list multiplies weights by, by their keys
  bool sinks = false;           ///< softmax is over a logit of each head beside those of keys, which has no value
  double projection_limit = 0;  ///< queries behind their norm, keys likewise and values are clipped to it; 0: are not
  std::optional<LatentKeys> latent;
  std::optional<PathDirections> path;
  /// log f is log sigmoid times it: where logits and gates are scaled together, the f that softmax sees (PaTH-FoX).
  double log_gate_factor = 1;
  std::optional<NormedResidual> normed_residual;
  double attention_cap = 0;  ///< logits of attention are cap tanh(s / cap); 0: s
  double logit_cap = 0;      ///< those of tokens likewise
  /// The mixer of the layers that are no attention. Where all are such, heads, key_heads and head_dim are its heads,
  /// key heads and key dimension; where some are, those of attention.
  std::optional<LinearMixer> linear;
  bool norm_first = false;    ///< names of DeltaNet's norms: attn.norm, not attn_norm
  bool resaved = false;       ///< tensors have the names that transformers saves them by, where these are not the hub's
  bool fused_norm = false;    ///< names of GLA's output norm: g_norm_swish_gate, not g_norm
  std::vector<Mixer> mixers;  ///< [layers]; empty: all are attention
  std::vector<std::string> notes;  ///< warnings for the user, one line each

  /// Number of columns of queries and of what heads attend to, H d; not D in all families. Without attention of the
  /// linear mixer's queries, which heads may share.
  [[nodiscard]] std::int64_t query_size() const {
    return attends() ? static_cast<std::int64_t>(heads) * head_dim : linear->query_size();
  }
  /// Columns that an attention's projection has in the file.
  [[nodiscard]] std::int64_t latent_columns() const { return query_size() + latent->rank + latent->shared_dim; }
  /// Columns of what the output's matrix reads.
  [[nodiscard]] std::int64_t attended_size() const {
    return latent ? static_cast<std::int64_t>(heads) * latent->value_dim : query_size();
  }
  /// alpha of a layer's mixer, where x goes on normed.
  [[nodiscard]] double residual_share(int layer) const {
    return is_attention(layer) ? normed_residual->attention : normed_residual->linear;
  }
  /// The same of keys and of values, H_kv d.
  [[nodiscard]] std::int64_t key_size() const { return static_cast<std::int64_t>(key_heads) * head_dim; }
  [[nodiscard]] Mixer mixer(int layer) const { return mixers.empty() ? Mixer::attention : mixers[index_of(layer)]; }
  [[nodiscard]] bool is_attention(int layer) const { return mixer(layer) == Mixer::attention; }
  [[nodiscard]] bool has_mixer(int layer) const { return mixer(layer) != Mixer::none; }
  [[nodiscard]] bool is_linear(int layer) const { return !is_attention(layer) && has_mixer(layer); }
  /// The mixer that a layer has in place of attention; null: it is attention.
  [[nodiscard]] const LinearMixer* linear_at(int layer) const { return is_linear(layer) ? &*linear : nullptr; }
  /// A layer as traces describe it: what it forgets by, whether it has a softmax, the extents of its arrays.
  [[nodiscard]] LayerMixer layer(int index) const;
  /// Whether a layer forgets as the model makes it.
  [[nodiscard]] bool decays(int layer) const;
  /// Numbers of a linear mixer's S, and of all that a sequence carries in such a layer; 0: the layer keeps keys.
  [[nodiscard]] std::int64_t state_size(int layer) const;
  [[nodiscard]] std::int64_t carried_size(int layer) const;
  /// Bytes that a linear mixer's layer takes for a position on its way; 0: there are none.
  [[nodiscard]] std::int64_t linear_bytes_per_position() const { return linear ? linear->bytes_per_position() : 0; }
  /// The rotary embedding of a layer; null: its heads do not turn.
  [[nodiscard]] const Rotary* rotary_at(int layer) const {
    const int index = attention[index_of(layer)].rotary;
    return index < 0 ? nullptr : &rotaries[index_of(index)];
  }
  /// The same of all layers.
  void use_rotary(const Rotary& rotary);
  void use_window(std::int64_t window_size);
  /// Whether a text turns otherwise once it is longer.
  [[nodiscard]] bool turns_by_length() const { return std::ranges::any_of(rotaries, &Rotary::depends_on_length); }
  /// Whether texts of two lengths have the same frequencies.
  [[nodiscard]] bool turns_alike(std::int64_t length, std::int64_t other) const;
  /// Whether the heads of all layers turn whole and alike, or none do: what kernels for heads take.
  [[nodiscard]] bool turns_plainly() const;
  /// The widest part of a head that turns.
  [[nodiscard]] int widest_rotary() const;
  /// The window of every layer of attention; none where they differ.
  [[nodiscard]] std::optional<std::int64_t> common_window() const;
  /// How many layers are attention, and whether any is.
  [[nodiscard]] int attention_layers() const;
  [[nodiscard]] bool attends() const { return attention_layers() > 0; }
  /// Whether layers are of several kinds.
  [[nodiscard]] bool is_hybrid() const;
  /// Whether models of it are trained: of hybrids Samba alone, and no mixture of experts.
  [[nodiscard]] bool is_trained() const {
    return !mixture && !latent && !path && !normed_residual && (!linear || linear->is_trained()) &&
           (!is_hybrid() || linear->decay == LinearDecay::rates);
  }
  [[nodiscard]] int heads_of(int layer) const { return this->layer(layer).heads; }
  /// The mixture of experts that a layer has; null: it has an MLP, or none.
  [[nodiscard]] const ExpertMixture* mixture_at(int layer) const {
    return !sparse.empty() && sparse[index_of(layer)] ? &*mixture : nullptr;
  }
  /// Numbers that an expert reads and makes for a position.
  [[nodiscard]] std::int64_t expert_width() const { return mixture->latent > 0 ? mixture->latent : hidden_size; }
  /// I of a layer's MLP; of a mixture the shared expert's, which every position reads.
  [[nodiscard]] std::int64_t intermediate_of(int layer) const {
    if (mlp_alone && has_mixer(layer)) return 0;
    if (paired && layer % 2 == 0) return 0;
    if (side_attention && !is_attention(layer)) return 0;
    if (const ExpertMixture* const experts = mixture_at(layer)) return experts->shared_size;
    return linear_intermediate_size > 0 && linear_at(layer) != nullptr ? linear_intermediate_size : intermediate_size;
  }
  /// The largest I of any layer.
  [[nodiscard]] std::int64_t widest_intermediate() const {
    return std::max({intermediate_size, linear_intermediate_size, mixture ? mixture->shared_size : 0});
  }
  [[nodiscard]] bool has_mlp() const { return intermediate_size > 0 || mixture; }  ///< else layers are a mixer alone
  [[nodiscard]] bool has_mlp(int layer) const { return intermediate_of(layer) > 0 || mixture_at(layer) != nullptr; }
  /// Whether a layer stands beside the stream.
  [[nodiscard]] bool is_aside(int layer) const { return side_attention && is_attention(layer); }
  /// Whether a layer's mixer reads what the layer before it left for it, in place of x.
  [[nodiscard]] bool reads_with_previous(int layer) const {
    return (paired && layer % 2 == 1) || (layer > 0 && is_aside(layer - 1));
  }
  /// Numbers that a layer's mixer reads for a position.
  [[nodiscard]] std::int64_t input_size(int layer) const { return (is_aside(layer) ? 2 : 1) * hidden_size; }
  /// The layer of the file that a layer is, or is a part of.
  [[nodiscard]] int layer_of_file(int layer) const {
    if (paired) return layer / 2;
    int before = layer;
    for (int other = 0; other < layer; ++other) before -= is_aside(other) ? 1 : 0;
    return before;
  }
  [[nodiscard]] bool gated() const { return forget_gate != ForgetGate::none; }
  /// Whether the output gate is SiLU, not a sigmoid; behind an output norm the authors' is always a sigmoid.
  [[nodiscard]] bool gates_by_silu() const {
    return output_gate_activation == OutputGateActivation::silu && !output_norm;
  }

  /// Reads config.json.
  /// @throws Error naming the file, the key, the value and what is allowed
  static ModelConfig from_json(std::string_view content, std::string_view name,
                               UnknownKeys unknown = UnknownKeys::refused_unless_no);
};

/// A config.json in one line, its keys sorted, and numbers that JSON does not have as transformers 5 writes them.
/// @throws Error naming the file where it is no JSON
std::string sorted_config(std::string_view content, std::string_view name);

}  // namespace foxscope
