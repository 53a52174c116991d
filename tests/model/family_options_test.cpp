// Every option of the plain families alone, with random weights, against a dense float64 twin that reads config.json
// itself: the pass over the whole text, the composed one, and texts that both continue.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <map>
#include <memory>
#include <numbers>
#include <string>
#include <utility>
#include <vector>

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "backend/base/index.h"
#include "backend/model/session/decode_state.h"
#include "backend/model/session/torch_model.h"
#include "tests/model/dense_twin.h"
#include "tests/model/model_test_support.h"

namespace foxscope {
namespace {

using nlohmann::json;
using Weights = std::map<std::string, at::Tensor>;

/// A key's value; absent and null are `otherwise`.
template <typename T>
T value_of(const json& object, const char* key, T otherwise) {
  return object.contains(key) && !object.at(key).is_null() ? object.at(key).get<T>() : otherwise;
}

/// The sizes of a family, by its own keys.
struct TwinSizes {
  explicit TwinSizes(const json& config) : type(config.at("model_type").get<std::string>()), gpt2(type == "gpt2") {
    hidden = config.at(gpt2 ? "n_embd" : "hidden_size").get<std::int64_t>();
    layers = config.at(gpt2 ? "n_layer" : "num_hidden_layers").get<std::int64_t>();
    heads = config.at(gpt2 ? "n_head" : "num_attention_heads").get<std::int64_t>();
    vocabulary = config.at("vocab_size").get<std::int64_t>();
    inner = value_of<std::int64_t>(config, gpt2 ? "n_inner" : "intermediate_size", 4 * hidden);
    key_heads = value_of<std::int64_t>(config, "num_key_value_heads", heads);
    olmo = type.starts_with("olmo");
    gemma = type.starts_with("gemma");
    glm = type == "glm4";
    head_dim = value_of<std::int64_t>(config, "head_dim", type == "qwen3" || glm ? 128 : gemma ? 256 : hidden / heads);
    tied = value_of<bool>(config, "tie_word_embeddings", gpt2 || gemma || type == "smollm3");
  }
  std::string type;
  bool gpt2, olmo = false, gemma = false, glm = false;
  std::int64_t hidden = 0, layers = 0, heads = 0, key_heads = 0, head_dim = 0, inner = 0, vocabulary = 0;
  bool tied = false;
};

using Shapes = std::vector<std::pair<std::string, std::vector<std::int64_t>>>;

Shapes shapes_of_gpt2(const json& config, const TwinSizes& s) {
  Shapes shapes = {{"wte.weight", {s.vocabulary, s.hidden}},
                   {"wpe.weight", {config.at("n_positions").get<std::int64_t>(), s.hidden}},
                   {"ln_f.weight", {s.hidden}},
                   {"ln_f.bias", {s.hidden}}};
  for (std::int64_t n = 0; n < s.layers; ++n) {
    const std::string layer = "h." + std::to_string(n) + ".";
    const auto dense = [&](const std::string& name, std::int64_t in, std::int64_t out) {
      shapes.push_back({layer + name + ".weight", {in, out}});
      shapes.push_back({layer + name + ".bias", {out}});
    };
    for (const char* norm : {"ln_1", "ln_2"}) {
      shapes.push_back({layer + norm + ".weight", {s.hidden}});
      shapes.push_back({layer + norm + ".bias", {s.hidden}});
    }
    dense("attn.c_attn", s.hidden, 3 * s.hidden);
    dense("attn.c_proj", s.hidden, s.hidden);
    dense("mlp.c_fc", s.hidden, s.inner);
    dense("mlp.c_proj", s.inner, s.hidden);
  }
  return shapes;
}

Shapes shapes_of_gpt_neox(const json& config, const TwinSizes& s) {
  Shapes shapes = {{"embed_in.weight", {s.vocabulary, s.hidden}},
                   {"final_layer_norm.weight", {s.hidden}},
                   {"final_layer_norm.bias", {s.hidden}}};
  for (std::int64_t n = 0; n < s.layers; ++n) {
    const std::string layer = "layers." + std::to_string(n) + ".";
    const auto dense = [&](const std::string& name, std::int64_t in, std::int64_t out, bool bias) {
      shapes.push_back({layer + name + ".weight", {out, in}});
      if (bias) shapes.push_back({layer + name + ".bias", {out}});
    };
    for (const char* norm : {"input_layernorm", "post_attention_layernorm"}) {
      shapes.push_back({layer + norm + ".weight", {s.hidden}});
      shapes.push_back({layer + norm + ".bias", {s.hidden}});
    }
    const bool bias = value_of(config, "attention_bias", true);
    dense("attention.query_key_value", s.hidden, 3 * s.hidden, bias);
    dense("attention.dense", s.hidden, s.hidden, bias);
    dense("mlp.dense_h_to_4h", s.hidden, s.inner, true);
    dense("mlp.dense_4h_to_h", s.inner, s.hidden, true);
  }
  return shapes;
}

Shapes shapes_of_llama(const json& config, const TwinSizes& s) {
  Shapes shapes = {{"embed_tokens.weight", {s.vocabulary, s.hidden}}, {"norm.weight", {s.hidden}}};
  const bool bias = value_of(config, "attention_bias", s.glm);
  const bool mlp_bias = value_of(config, "mlp_bias", false);
  for (std::int64_t n = 0; n < s.layers; ++n) {
    const std::string layer = "layers." + std::to_string(n) + ".";
    const auto dense = [&](const std::string& name, std::int64_t in, std::int64_t out, bool with_bias) {
      shapes.push_back({layer + name + ".weight", {out, in}});
      if (with_bias) shapes.push_back({layer + name + ".bias", {out}});
    };
    std::vector<std::string> norms = {"post_attention_layernorm"};
    if (!s.olmo) norms.emplace_back("input_layernorm");
    if (s.gemma) norms.emplace_back("pre_feedforward_layernorm");
    if (s.gemma || s.olmo) norms.emplace_back("post_feedforward_layernorm");
    if (s.glm) norms.insert(norms.end(), {"post_self_attn_layernorm", "post_mlp_layernorm"});
    for (const std::string& norm : norms) shapes.push_back({layer + norm + ".weight", {s.hidden}});
    if (s.type == "phi3") {
      dense("self_attn.qkv_proj", s.hidden, (s.heads + 2 * s.key_heads) * s.head_dim, false);
      dense("mlp.gate_up_proj", s.hidden, 2 * s.inner, false);
    } else {
      dense("self_attn.q_proj", s.hidden, s.heads * s.head_dim, bias || s.type == "qwen2");
      dense("self_attn.k_proj", s.hidden, s.key_heads * s.head_dim, bias || s.type == "qwen2");
      dense("self_attn.v_proj", s.hidden, s.key_heads * s.head_dim, bias || s.type == "qwen2");
      if (s.glm) {
        dense("mlp.gate_up_proj", s.hidden, 2 * s.inner, false);
      } else {
        dense("mlp.gate_proj", s.hidden, s.inner, mlp_bias);
        dense("mlp.up_proj", s.hidden, s.inner, mlp_bias);
      }
    }
    dense("self_attn.o_proj", s.heads * s.head_dim, s.hidden, bias && !s.glm);
    if (s.type == "qwen3" || s.type == "gemma3_text" || s.olmo) {
      shapes.push_back({layer + "self_attn.q_norm.weight", {s.olmo ? s.heads * s.head_dim : s.head_dim}});
      shapes.push_back({layer + "self_attn.k_norm.weight", {s.olmo ? s.key_heads * s.head_dim : s.head_dim}});
    }
    dense("mlp.down_proj", s.inner, s.hidden, mlp_bias);
  }
  return shapes;
}

/// Every parameter of a family by its published name.
Shapes shapes_of(const json& config, bool prefixed) {
  const TwinSizes sizes(config);
  const bool neox = sizes.type == "gpt_neox";
  const Shapes inside = sizes.gpt2 ? shapes_of_gpt2(config, sizes)
                        : neox     ? shapes_of_gpt_neox(config, sizes)
                                   : shapes_of_llama(config, sizes);
  const std::string prefix = !prefixed ? "" : sizes.gpt2 ? "transformer." : neox ? "gpt_neox." : "model.";
  Shapes shapes;
  for (const auto& [name, shape] : inside) shapes.emplace_back(prefix + name, shape);
  if (!sizes.tied) {
    shapes.emplace_back(neox ? "embed_out.weight" : "lm_head.weight",
                        std::vector<std::int64_t>{sizes.vocabulary, sizes.hidden});
  }
  return shapes;
}

/// The families in float64, the plain way, from what their config.json says: no description of ours is asked.
class FamilyTwin {
 public:
  FamilyTwin(json config, Weights weights) : config_(std::move(config)), sizes_(config_), weights_(std::move(weights)) {
    for (const char* prefix : {"transformer.", "gpt_neox.", "model."}) {
      if (weights_.begin()->first.starts_with(prefix) || std::next(weights_.begin())->first.starts_with(prefix)) {
        prefix_ = prefix;
      }
    }
  }

  /// Whether a longer text's heads turn otherwise.
  [[nodiscard]] bool turns_by_length() const {
    const json scaling = value_of(config_, "rope_scaling", json::object());
    const std::string kind = value_of<std::string>(scaling, "rope_type", value_of<std::string>(scaling, "type", ""));
    return kind == "dynamic" || kind == "longrope";
  }

  /// @param ids  [L] int64
  /// @returns [L, V]
  [[nodiscard]] at::Tensor logits(const at::Tensor& ids) const {
    const char* const embedding = sizes_.gpt2 ? "wte.weight" : neox() ? "embed_in.weight" : "embed_tokens.weight";
    at::Tensor x = weight(embedding).index_select(0, ids);
    if (sizes_.gpt2) x = x + weight("wpe.weight").slice(0, 0, ids.size(0));
    if (sizes_.gemma) x = x * std::sqrt(static_cast<double>(sizes_.hidden));
    for (std::int64_t n = 0; n < sizes_.layers; ++n) {
      const std::string layer = (sizes_.gpt2 ? "h." : "layers.") + std::to_string(n) + ".";
      if (sizes_.olmo || sizes_.gemma || sizes_.glm) {
        x = behind(x, layer, static_cast<int>(n));
        continue;
      }
      const at::Tensor attended =
          attend(norm(x, layer + (sizes_.gpt2 ? "ln_1" : "input_layernorm")), layer, static_cast<int>(n));
      const std::string second = layer + (sizes_.gpt2 ? "ln_2" : "post_attention_layernorm");
      if (neox() && value_of(config_, "use_parallel_residual", true)) {
        x = x + attended + mlp(norm(x, second), layer);
      } else {
        x = x + attended;
        x = x + mlp(norm(x, second), layer);
      }
    }
    x = norm(x, sizes_.gpt2 ? "ln_f" : neox() ? "final_layer_norm" : "norm");
    const at::Tensor head =
        sizes_.tied ? weight(embedding) : weights_.at(neox() ? "embed_out.weight" : "lm_head.weight");
    return cap(at::matmul(x, head.t()), sizes_.gemma ? "final_logit_softcapping" : "");
  }

 private:
  /// A layer whose norms stand behind attention and MLP.
  [[nodiscard]] at::Tensor behind(const at::Tensor& before, const std::string& layer, int index) const {
    const bool glm = sizes_.glm;
    const auto in = [&](const at::Tensor& y, const char* name) { return sizes_.olmo ? y : norm(y, layer + name); };
    const at::Tensor x = before + norm(attend(in(before, "input_layernorm"), layer, index),
                                       layer + (glm ? "post_self_attn_layernorm" : "post_attention_layernorm"));
    return x + norm(mlp(in(x, glm ? "post_attention_layernorm" : "pre_feedforward_layernorm"), layer),
                    layer + (glm ? "post_mlp_layernorm" : "post_feedforward_layernorm"));
  }

  [[nodiscard]] at::Tensor cap(const at::Tensor& x, const std::string& key) const {
    const double most = key.empty() ? 0 : value_of(config_, key.c_str(), 0.0);
    return most > 0 ? at::tanh(x / most) * most : x;
  }

  [[nodiscard]] bool neox() const { return sizes_.type == "gpt_neox"; }
  [[nodiscard]] const at::Tensor& weight(const std::string& name) const { return weights_.at(prefix_ + name); }

  [[nodiscard]] at::Tensor dense(const at::Tensor& x, const std::string& name) const {
    const at::Tensor& matrix = weight(name + ".weight");
    const at::Tensor y = at::matmul(x, sizes_.gpt2 ? matrix : matrix.t());
    return weights_.contains(prefix_ + name + ".bias") ? y + weight(name + ".bias") : y;
  }

  [[nodiscard]] at::Tensor norm(const at::Tensor& x, const std::string& name) const {
    if (sizes_.gpt2 || neox()) {
      const double epsilon = value_of(config_, sizes_.gpt2 ? "layer_norm_epsilon" : "layer_norm_eps", 1e-5);
      const at::Tensor centred = x - x.mean(-1, true);
      return centred / at::sqrt(centred.square().mean(-1, true) + epsilon) * weight(name + ".weight") +
             weight(name + ".bias");
    }
    const double otherwise = sizes_.olmo || sizes_.type == "phi3" ? 1e-5 : sizes_.glm ? 1.5625e-7 : 1e-6;
    const double epsilon = value_of(config_, "rms_norm_eps", otherwise);
    const at::Tensor factor = sizes_.gemma ? 1 + weight(name + ".weight") : weight(name + ".weight");
    return x / at::sqrt(x.square().mean(-1, true) + epsilon) * factor;
  }

  /// A layer's entry of rope_parameters, or the keys of older files; null where its heads do not turn.
  [[nodiscard]] json rope(int layer) const {
    if (sizes_.type == "smollm3" && config_.at("no_rope_layers").at(static_cast<std::size_t>(layer)) == 0) return {};
    const double base = value_of(config_, "rope_theta", value_of(config_, "rotary_emb_base", 10000.0));
    if (sizes_.type == "gemma3_text" && window(layer) > 0) {
      return {{"rope_theta", value_of(config_, "rope_local_base_freq", 10000.0)}, {"partial_rotary_factor", 1.0}};
    }
    if (sizes_.type == "olmo3" && window(layer) > 0) return {{"rope_theta", base}, {"partial_rotary_factor", 1.0}};
    json rope = value_of(config_, "rope_scaling", json::object());
    rope["rope_theta"] = base;
    rope["partial_rotary_factor"] = value_of(config_, "rotary_pct",
                                             value_of(config_, "partial_rotary_factor",
                                                      neox()       ? 0.25
                                                      : sizes_.glm ? 0.5
                                                                   : 1.0));
    if (rope.contains("type")) rope["rope_type"] = rope["type"];
    rope.update(value_of(config_, "rope_parameters", json::object()));
    return rope;
  }

  /// The angle a position of a pair, and what its cosine and sine are multiplied by.
  struct Turn {
    double rate;
    double factor = 1;
  };
  [[nodiscard]] Turn turn(const json& keys, std::int64_t pair, std::int64_t turning, std::int64_t length) const {
    const std::string kind = value_of<std::string>(keys, "rope_type", "default");
    const double r = static_cast<double>(turning);
    const double exponent = -2.0 * static_cast<double>(pair) / r;
    const auto key = [&](const char* name) { return keys.at(name).get<double>(); };
    const double base = key("rope_theta");
    double rate = std::pow(base, exponent);
    if (kind == "linear") return {rate / key("factor")};
    if (kind == "dynamic") {
      const double most = config_.at("max_position_embeddings").get<double>();
      const double reach = std::max(static_cast<double>(length), most);
      const double stretched = base * std::pow(key("factor") * reach / most - (key("factor") - 1), r / (r - 2));
      return {std::pow(stretched, exponent)};
    }
    if (kind == "longrope") {
      const double old = config_.at("original_max_position_embeddings").get<double>();
      const char* const list = static_cast<double>(length) > old ? "long_factor" : "short_factor";
      const double stretch = value_of(keys, "factor", config_.at("max_position_embeddings").get<double>() / old);
      return {rate / keys.at(list).at(static_cast<std::size_t>(pair)).get<double>(),
              std::sqrt(1 + std::log(stretch) / std::log(old))};
    }
    if (kind == "yarn") {
      const double s = key("factor");
      const auto place = [&](double turns) {
        return r * std::log(key("original_max_position_embeddings") / (2 * std::numbers::pi * turns)) /
               (2 * std::log(base));
      };
      double low = place(value_of(keys, "beta_fast", 32.0));
      double high = place(value_of(keys, "beta_slow", 1.0));
      if (value_of(keys, "truncate", true)) low = std::floor(low), high = std::ceil(high);
      low = std::max(low, 0.0), high = std::min(high, r - 1);
      const double ramp = std::clamp((static_cast<double>(pair) - low) / (high - low), 0.0, 1.0);
      double factor = 0.1 * std::log(s) + 1;
      if (keys.contains("mscale")) {
        factor = (0.1 * key("mscale") * std::log(s) + 1) / (0.1 * key("mscale_all_dim") * std::log(s) + 1);
      }
      return {rate / s * ramp + rate * (1 - ramp), value_of(keys, "attention_factor", factor)};
    }
    if (kind == "llama3") {
      const double old = key("original_max_position_embeddings");
      const double wavelength = 2 * std::numbers::pi / rate;
      if (wavelength > old / key("low_freq_factor")) return {rate / key("factor")};
      if (wavelength < old / key("high_freq_factor")) return {rate};
      const double smooth =
          (old / wavelength - key("low_freq_factor")) / (key("high_freq_factor") - key("low_freq_factor"));
      rate = (1 - smooth) * rate / key("factor") + smooth * rate;
    }
    return {rate};
  }

  /// x [L, d] of one head of a text.
  [[nodiscard]] at::Tensor rotate_pairs(const at::Tensor& x, int layer) const {
    const json keys = rope(layer);
    if (keys.is_null()) return x;
    const auto turning = static_cast<std::int64_t>(static_cast<double>(sizes_.head_dim) *
                                                   keys.at("partial_rotary_factor").get<double>());
    at::Tensor turned = x.clone();
    for (std::int64_t n = 0; n < turning / 2; ++n) {
      const Turn by = turn(keys, n, turning, x.size(0));
      const at::Tensor angle = at::arange(x.size(0), at::kDouble) * by.rate;
      const std::int64_t first = sizes_.glm ? 2 * n : n;
      const std::int64_t second = sizes_.glm ? 2 * n + 1 : n + turning / 2;
      const at::Tensor a = x.select(1, first) * by.factor;
      const at::Tensor b = x.select(1, second) * by.factor;
      turned.select(1, first).copy_(a * at::cos(angle) - b * at::sin(angle));
      turned.select(1, second).copy_(b * at::cos(angle) + a * at::sin(angle));
    }
    return turned;
  }

  /// Llama 4's factor of the queries of each position, [L, 1].
  [[nodiscard]] at::Tensor growth(std::int64_t length, int layer) const {
    const json keys = rope(layer);
    const double beta = keys.is_null() ? 0 : value_of(keys, "llama_4_scaling_beta", 0.0);
    if (beta == 0) return at::ones({length, 1}, at::kDouble);
    const double old = keys.at("original_max_position_embeddings").get<double>();
    return (1 + beta * at::log(1 + at::floor(at::arange(length, at::kDouble) / old))).unsqueeze(1);
  }

  /// 0: none.
  [[nodiscard]] std::int64_t window(int layer) const {
    const auto width = value_of<std::int64_t>(config_, "sliding_window", 0);
    if (sizes_.type == "mistral" || sizes_.type == "ministral3" || sizes_.type == "phi3") return width;
    const json types = value_of(config_, "layer_types", json());
    const bool by_list = sizes_.type == "ministral" || sizes_.type == "olmo3" || sizes_.gemma;
    if (by_list && types.is_null()) {
      const auto pattern = sizes_.type == "gemma2" ? 2 : value_of(config_, "sliding_window_pattern", 4);
      return sizes_.type == "ministral" || (layer + 1) % pattern != 0 ? width : 0;
    }
    if (!by_list && !value_of(config_, "use_sliding_window", false)) return 0;
    const bool slides = types.is_array() ? types.at(static_cast<std::size_t>(layer)) == "sliding_attention"
                                         : layer >= config_.at("max_window_layers").get<int>();
    return slides ? width : 0;
  }

  /// softmax(scale Q K^T) V of one head, all entries written out.
  [[nodiscard]] at::Tensor attend_head(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                                       int layer) const {
    double scale = 1 / std::sqrt(static_cast<double>(sizes_.head_dim));
    if (!value_of(config_, "scale_attn_weights", true)) scale = 1;
    if (value_of(config_, "scale_attn_by_inverse_layer_idx", false)) scale /= layer + 1;
    if (sizes_.gemma) scale = 1 / std::sqrt(value_of(config_, "query_pre_attn_scalar", 256.0));
    const at::Tensor position = at::arange(query.size(0));
    const at::Tensor distance = position.unsqueeze(1) - position.unsqueeze(0);
    at::Tensor hidden = distance < 0;
    if (window(layer) > 0) hidden.logical_or_(distance >= window(layer));
    const at::Tensor scores =
        cap(at::matmul(query, key.t()) * scale, sizes_.type == "gemma2" ? "attn_logit_softcapping" : "");
    return at::matmul(at::softmax(scores.masked_fill(hidden, -std::numeric_limits<double>::infinity()), 1), value);
  }

  [[nodiscard]] at::Tensor attend(const at::Tensor& x, const std::string& layer, int index) const {
    const std::int64_t length = x.size(0);
    at::Tensor query;
    at::Tensor key;
    at::Tensor value;
    if (sizes_.gpt2) {
      const auto parts = dense(x, layer + "attn.c_attn").view({length, 3, sizes_.heads, sizes_.head_dim}).unbind(1);
      query = parts[0], key = parts[1], value = parts[2];
    } else if (neox()) {
      const auto parts =
          dense(x, layer + "attention.query_key_value").view({length, sizes_.heads, 3, sizes_.head_dim}).unbind(2);
      query = parts[0], key = parts[1], value = parts[2];
    } else if (sizes_.type == "phi3") {
      const auto parts = dense(x, layer + "self_attn.qkv_proj")
                             .view({length, -1, sizes_.head_dim})
                             .split_with_sizes({sizes_.heads, sizes_.key_heads, sizes_.key_heads}, 1);
      query = parts[0], key = parts[1], value = parts[2];
    } else {
      const auto heads = [&](const char* name) {
        return dense(x, layer + "self_attn." + name).view({length, -1, sizes_.head_dim});
      };
      query = heads("q_proj"), key = heads("k_proj"), value = heads("v_proj");
    }
    if (sizes_.olmo) {
      query = norm(query.flatten(1), layer + "self_attn.q_norm").view_as(query);
      key = norm(key.flatten(1), layer + "self_attn.k_norm").view_as(key);
    }
    if (sizes_.type == "qwen3" || sizes_.type == "gemma3_text") {
      query = norm(query, layer + "self_attn.q_norm");
      key = norm(key, layer + "self_attn.k_norm");
    }
    at::Tensor output = at::empty({length, sizes_.heads, sizes_.head_dim}, at::kDouble);
    for (std::int64_t head = 0; head < sizes_.heads; ++head) {
      const std::int64_t group = head / (sizes_.heads / sizes_.key_heads);
      const at::Tensor q =
          sizes_.gpt2 ? query.select(1, head) : rotate_pairs(query.select(1, head), index) * growth(length, index);
      const at::Tensor k = sizes_.gpt2 ? key.select(1, group) : rotate_pairs(key.select(1, group), index);
      output.select(1, head).copy_(attend_head(q, k, value.select(1, group), index));
    }
    const char* const name = sizes_.gpt2 ? "attn.c_proj" : neox() ? "attention.dense" : "self_attn.o_proj";
    return dense(output.reshape({length, -1}), layer + name);
  }

  [[nodiscard]] at::Tensor mlp(const at::Tensor& x, const std::string& layer) const {
    if (!sizes_.gpt2 && !neox()) {
      const bool fused = sizes_.type == "phi3" || sizes_.glm;
      const auto parts = fused ? dense(x, layer + "mlp.gate_up_proj").chunk(2, 1) : std::vector<at::Tensor>();
      const at::Tensor gate = fused ? parts[0] : dense(x, layer + "mlp.gate_proj");
      const at::Tensor up = fused ? parts[1] : dense(x, layer + "mlp.up_proj");
      const at::Tensor share =
          sizes_.gemma ? (1 + at::tanh(std::sqrt(2 / std::numbers::pi) * (gate + 0.044715 * gate * gate * gate))) / 2
                       : at::sigmoid(gate);
      return dense(gate * share * up, layer + "mlp.down_proj");
    }
    const std::string kind = value_of<std::string>(config_, sizes_.gpt2 ? "activation_function" : "hidden_act",
                                                   sizes_.gpt2 ? "gelu_new" : "gelu");
    const at::Tensor y = dense(x, layer + (sizes_.gpt2 ? "mlp.c_fc" : "mlp.dense_h_to_4h"));
    const at::Tensor share = kind == "gelu" ? at::erf(y / std::numbers::sqrt2)
                                            : at::tanh(std::sqrt(2 / std::numbers::pi) * (y + 0.044715 * y * y * y));
    return dense(y * (1 + share) / 2, layer + (sizes_.gpt2 ? "mlp.c_proj" : "mlp.dense_4h_to_h"));
  }

  json config_;
  TwinSizes sizes_;
  Weights weights_;
  std::string prefix_;
};

/// What else is in a checkpoint's file.
struct Buffer {
  std::string name;
  std::string dtype;
  std::vector<std::int64_t> shape;
  std::size_t bytes;
};

struct FamilyCase {
  std::string name;
  json config;
  bool prefixed = true;
  std::vector<Buffer> buffers = {};
};

/// Writes random weights, which attend near and far, and @returns them in float64.
Weights write_random(const test::TemporaryFolder& folder, const FamilyCase& tested) {
  auto generator = at::make_generator<at::CPUGeneratorImpl>(77);
  json header = json::object();
  std::string data;
  Weights weights;
  for (const auto& [name, shape] : shapes_of(tested.config, tested.prefixed)) {
    at::Tensor value = at::randn(shape, generator, at::TensorOptions().dtype(at::kFloat));
    if (shape.size() == 1) {
      value = name.ends_with("bias") ? 0.3 * value : 1 + 0.2 * value;
    } else if (name.ends_with("wpe.weight")) {
      value = 0.5 * value;
    } else if (name.find("embed_in") == std::string::npos && name.find("embed_tokens") == std::string::npos &&
               name.find("wte") == std::string::npos) {
      value = 1.5 * value / std::sqrt(static_cast<double>(tested.config.value("n_embd", shape[1])));
    }
    value = value.contiguous();
    weights[name] = value.to(at::kDouble);
    const std::size_t begin = data.size();
    data.append(static_cast<const char*>(value.const_data_ptr()), value.nbytes());
    header[name] = {{"dtype", "F32"}, {"shape", shape}, {"data_offsets", {begin, data.size()}}};
  }
  for (const Buffer& buffer : tested.buffers) {
    const std::size_t begin = data.size();
    data.append(buffer.bytes, '\1');
    header[buffer.name] = {{"dtype", buffer.dtype}, {"shape", buffer.shape}, {"data_offsets", {begin, data.size()}}};
  }
  folder.write("config.json", tested.config.dump());
  folder.write("model.safetensors", test::safetensors_image(header.dump(), data));
  return weights;
}

constexpr double kTwinError = 2e-4;  ///< of the largest logit
constexpr std::int64_t kTwinLength = 517;

at::Tensor random_ids(std::int64_t length, std::int64_t vocabulary) {
  auto generator = at::make_generator<at::CPUGeneratorImpl>(5);
  return at::randint(0, vocabulary, {length}, generator, at::TensorOptions().dtype(at::kLong));
}

std::vector<std::int32_t> as_ids(const at::Tensor& ids) {
  const at::Tensor narrow = ids.to(at::kInt).contiguous();
  const auto* first = narrow.const_data_ptr<std::int32_t>();
  return {first, first + narrow.numel()};
}

/// All logits of two sequences at once.
void check_pass(CausalLM& model, const at::Tensor& ids, const at::Tensor& expected, const std::string& name) {
  test::Batch batch;
  batch.size = 2;
  batch.input_ids = as_ids(at::cat({ids, ids.flip(0)}));
  batch.labels = batch.input_ids;
  batch.keep = {Keep::logits};
  const auto trace = test::run_batch(model, batch).traces.front();
  const std::vector<float> logits = trace->source().logits();
  const at::Tensor ours = at::tensor(at::ArrayRef<float>(logits.data(), logits.size())).to(at::kDouble);
  const at::Tensor error = (ours.view_as(expected) - expected).abs().max() / expected.abs().max();
  EXPECT_LE(error.item<double>(), kTwinError) << name;
}

/// Tokens that are read after a prompt.
constexpr std::int64_t kRead = 3;

/// The logits of the last positions, each of the text up to it as a whole: that differs from those of the whole text
/// where the length decides how heads turn.
std::vector<at::Tensor> rows_of_prefixes(const FamilyTwin& twin, const at::Tensor& ids, const at::Tensor& whole) {
  std::vector<at::Tensor> rows;
  for (std::int64_t position = ids.size(0) - kRead; position < ids.size(0); ++position) {
    const bool last = position + 1 == ids.size(0) || !twin.turns_by_length();
    rows.push_back((last ? whole : twin.logits(ids.slice(0, 0, position + 1))).select(0, position));
  }
  return rows;
}

/// All but the last tokens as a prompt, then those.
void check_continued(CausalLM& model, const at::Tensor& ids, const std::vector<at::Tensor>& expected,
                     const std::string& name) {
  const std::vector<std::int32_t> all = as_ids(ids);
  const std::int64_t prompt = ids.size(0) - kRead;
  PromptRequest request;
  request.input_ids = std::span(all).first(static_cast<std::size_t>(prompt));
  const auto decode_state = model.begin(request, {});
  for (std::int64_t position = prompt; position < ids.size(0); ++position) {
    decode_state->read(all[index_of(position)]);
    const std::span<const float> found = decode_state->log_probabilities();
    const at::Tensor ours = at::tensor(at::ArrayRef<float>(found.data(), found.size())).to(at::kDouble);
    const at::Tensor& wanted = expected[index_of(position - prompt)];
    const at::Tensor error = (ours - at::log_softmax(wanted, 0)).abs().max();
    EXPECT_LE(error.item<double>(), kTwinError * wanted.abs().max().item<double>()) << name << " at " << position;
  }
}

void check_twin(const FamilyCase& tested) {
  const c10::InferenceMode guard;
  const test::TemporaryFolder folder;
  const FamilyTwin twin(tested.config, write_random(folder, tested));
  const at::Tensor ids = random_ids(kTwinLength, tested.config.at("vocab_size").get<std::int64_t>());
  at::Tensor expected;
  std::vector<at::Tensor> next;
  {
    const test::OneThread few_cores;
    expected = twin.logits(ids);
    next = rows_of_prefixes(twin, ids, expected);
  }
  const Checkpoint checkpoint = Checkpoint::open(folder.text());
  const auto fused = CausalLM::load(checkpoint, Device{}, DType::float32);
  check_pass(*fused, ids, expected, tested.name);
  check_continued(*fused, ids, next, tested.name);
  const auto composed = load_torch_model(checkpoint, Device{}, DType::float32);
  check_pass(*composed, ids, expected, tested.name + ", composed");
  check_continued(*composed, ids, next, tested.name + ", composed");
}

/// The base with other keys.
json changed(json base, const json& keys) {
  base.update(keys);
  return base;
}

json small_gpt2() {
  return {{"model_type", "gpt2"}, {"vocab_size", 37}, {"n_embd", 32},      {"n_head", 4},
          {"n_layer", 3},         {"n_inner", 40},    {"n_positions", 600}};
}

json small_gpt_neox() {
  return {{"model_type", "gpt_neox"}, {"vocab_size", 37},        {"hidden_size", 32},
          {"num_hidden_layers", 2},   {"intermediate_size", 40}, {"num_attention_heads", 4}};
}

json small_llama(const char* model_type) {
  return {{"model_type", model_type}, {"vocab_size", 37},         {"hidden_size", 32},        {"num_hidden_layers", 2},
          {"intermediate_size", 40},  {"num_attention_heads", 4}, {"num_key_value_heads", 2}, {"head_dim", 8}};
}

TEST(FamilyOptions, Gpt2) {
  const json base = small_gpt2();
  check_twin({"gpt2", base});
  check_twin({"by layer", changed(base, {{"scale_attn_by_inverse_layer_idx", true}})});
  check_twin({"unscaled", changed(base, {{"scale_attn_weights", false}})});
  check_twin({"untied", changed(base, {{"tie_word_embeddings", false}})});
  check_twin({"n_inner null", changed(base, {{"n_inner", nullptr}})});
  check_twin({"erf", changed(base, {{"activation_function", "gelu"}})});
  check_twin({"tanh", changed(base, {{"activation_function", "gelu_pytorch_tanh"}})});
  check_twin({"epsilon", changed(base, {{"layer_norm_epsilon", 0.3}})});
}

TEST(FamilyOptions, Gpt2AsItWasFirstPublished) {
  std::vector<Buffer> buffers;
  for (const char* layer : {"h.0", "h.1", "h.2"}) {
    buffers.push_back({std::string(layer) + ".attn.bias", "F32", {1, 1, 4, 4}, 64});
    buffers.push_back({std::string(layer) + ".attn.masked_bias", "F32", {}, 4});
  }
  check_twin({"without prefix", small_gpt2(), false, buffers});
  for (const char* dtype : {"BOOL", "U8"}) {
    for (Buffer& buffer : buffers) {
      if (buffer.name.ends_with("masked_bias")) continue;
      buffer.dtype = dtype;
      buffer.bytes = 16;
    }
    check_twin({dtype, small_gpt2(), false, buffers});
  }
  check_twin({"with prefix", small_gpt2(), true, {{"transformer.h.0.attn.bias", "U8", {1, 1, 4, 4}, 16}}});
}

TEST(FamilyOptions, GptNeox) {
  const json base = small_gpt_neox();
  check_twin({"gpt_neox", base});
  check_twin({"in sequence", changed(base, {{"use_parallel_residual", false}})});
  check_twin({"whole rotary", changed(base, {{"rotary_pct", 1.0}, {"rotary_emb_base", 500}})});
  check_twin({"half rotary", changed(base, {{"rotary_pct", 0.5}, {"rotary_emb_base", 500}})});
  check_twin({"half rotary, newer keys",
              changed(base, {{"rope_parameters",
                              {{"rope_type", "default"}, {"rope_theta", 500.0}, {"partial_rotary_factor", 0.5}}}})});
  check_twin({"no bias", changed(base, {{"attention_bias", false}})});
  check_twin({"tied", changed(base, {{"tie_word_embeddings", true}})});
  check_twin({"tanh", changed(base, {{"hidden_act", "gelu_fast"}})});
  check_twin({"buffers",
              base,
              true,
              {{"gpt_neox.layers.0.attention.bias", "U8", {1, 1, 4, 4}, 16},
               {"gpt_neox.layers.0.attention.masked_bias", "F32", {}, 4},
               {"gpt_neox.layers.1.attention.rotary_emb.inv_freq", "F32", {4}, 16}}});
}

TEST(FamilyOptions, Llama) {
  const json base = small_llama("llama");
  check_twin({"llama", base});
  check_twin({"head_dim absent", changed(base, {{"head_dim", nullptr}, {"num_key_value_heads", nullptr}})});
  check_twin({"head_dim 12", changed(base, {{"head_dim", 12}})});
  check_twin({"one key head", changed(base, {{"num_key_value_heads", 1}})});
  check_twin({"mlp_bias", changed(base, {{"mlp_bias", true}})});
  check_twin({"attention_bias", changed(base, {{"attention_bias", true}})});
  check_twin({"tied", changed(base, {{"tie_word_embeddings", true}})});
  check_twin({"epsilon", changed(base, {{"rms_norm_eps", 0.3}})});
  check_twin({"pretraining_tp", changed(base, {{"pretraining_tp", 2}})});
  check_twin({"buffers", base, true, {{"model.layers.0.self_attn.rotary_emb.inv_freq", "F32", {4}, 16}}});
}

TEST(FamilyOptions, LlamaWithStretchedPositions) {
  const json base = small_llama("llama");
  check_twin({"theta", changed(base, {{"rope_theta", 123.0}})});
  check_twin({"linear, type", changed(base, {{"rope_scaling", {{"type", "linear"}, {"factor", 4.0}}}})});
  check_twin({"linear, rope_type", changed(base, {{"rope_scaling", {{"rope_type", "linear"}, {"factor", 4}}}})});
  check_twin({"linear, both",
              changed(base, {{"rope_scaling", {{"type", "linear"}, {"rope_type", "linear"}, {"factor", 4}}}})});
  check_twin({"linear, rope_parameters",
              changed(base, {{"rope_parameters", {{"rope_type", "linear"}, {"factor", 4}, {"rope_theta", 500}}}})});
  // Of the four pairs of a head two are left alone, one lies between, one is stretched whole.
  json llama3 = {
      {"factor", 8.0}, {"low_freq_factor", 1.0}, {"high_freq_factor", 4.0}, {"original_max_position_embeddings", 256}};
  llama3["rope_type"] = "llama3";
  check_twin({"llama3", changed(base, {{"rope_theta", 500.0}, {"rope_scaling", llama3}})});
  llama3["rope_theta"] = 500.0;
  check_twin({"llama3, rope_parameters", changed(base, {{"rope_parameters", llama3}})});
  check_twin({"llama3, wide heads", changed(base, {{"head_dim", 64}, {"rope_parameters", llama3}})});
}

TEST(FamilyOptions, Mistral) {
  const json base = small_llama("mistral");
  check_twin({"window null", changed(base, {{"sliding_window", nullptr}})});
  check_twin({"window 1", changed(base, {{"sliding_window", 1}})});
  check_twin({"window 30", changed(base, {{"sliding_window", 30}})});
  check_twin({"window of the text", changed(base, {{"sliding_window", kTwinLength}})});
  check_twin({"head_dim 12", changed(base, {{"sliding_window", 100}, {"head_dim", 12}})});
}

TEST(FamilyOptions, Qwen) {
  const json all = {"sliding_attention", "sliding_attention"};
  for (const char* model_type : {"qwen2", "qwen3"}) {
    const std::string name = model_type;
    const json base = small_llama(model_type);
    check_twin({name, base});
    check_twin({name + " with an unused window", changed(base, {{"sliding_window", 10}, {"max_window_layers", 0}})});
    check_twin({name + " with late windows",
                changed(base, {{"use_sliding_window", true}, {"sliding_window", 10}, {"max_window_layers", 2}})});
    const json window = changed(base, {{"use_sliding_window", true}, {"sliding_window", 50}});
    check_twin({name + " with a window", changed(window, {{"max_window_layers", 0}})});
    check_twin({name + " by layer_types", changed(window, {{"layer_types", all}})});
    check_twin({name + " with head_dim 12", changed(base, {{"head_dim", 12}})});
    check_twin({name + " tied", changed(base, {{"tie_word_embeddings", true}})});
  }
  check_twin({"qwen2 without head_dim", changed(small_llama("qwen2"), {{"head_dim", nullptr}})});
  json wide = small_llama("qwen3");
  wide.erase("head_dim");
  check_twin({"qwen3 without head_dim", wide});
  check_twin({"qwen3 with biases", changed(small_llama("qwen3"), {{"attention_bias", true}})});
}

TEST(FamilyOptions, WindowsByLayer) {
  for (const char* model_type : {"qwen2", "qwen3"}) {
    const std::string name = model_type;
    const json window = changed(small_llama(model_type), {{"use_sliding_window", true}, {"sliding_window", 50}});
    check_twin({name + " from the second layer on", changed(window, {{"max_window_layers", 1}})});
    check_twin({name + " by layer_types",
                changed(window, {{"max_window_layers", 0}, {"layer_types", {"full_attention", "sliding_attention"}}})});
  }
  const json ministral = changed(small_llama("ministral"), {{"sliding_window", 70}});
  check_twin({"ministral", ministral});
  check_twin({"ministral by layer", changed(ministral, {{"layer_types", {"sliding_attention", "full_attention"}}})});
}

TEST(FamilyOptions, StretchedPositions) {
  const json base = changed(small_llama("qwen3"), {{"rope_theta", 500.0}, {"head_dim", 16}});
  json yarn = {{"type", "yarn"}, {"factor", 4.0}, {"original_max_position_embeddings", 100}};
  check_twin({"yarn", changed(base, {{"rope_scaling", yarn}})});
  check_twin({"yarn without truncation", changed(base, {{"rope_scaling", changed(yarn, {{"truncate", false}})}})});
  check_twin({"yarn of other turns",
              changed(base, {{"rope_scaling", changed(yarn, {{"beta_fast", 8}, {"beta_slow", 0.5}})}})});
  check_twin({"yarn with its factor", changed(base, {{"rope_scaling", changed(yarn, {{"attention_factor", 1.3}})}})});
  check_twin({"yarn with two magnitudes",
              changed(base, {{"rope_scaling", changed(yarn, {{"mscale", 1.0}, {"mscale_all_dim", 0.5}})}})});
  for (const int most : {100, 514, 516, 600}) {
    check_twin({"dynamic of " + std::to_string(most),
                changed(base, {{"max_position_embeddings", most},
                               {"rope_scaling", {{"rope_type", "dynamic"}, {"factor", 3.0}}}})});
  }
  json grown = changed(yarn, {{"rope_type", "yarn"}, {"rope_theta", 500.0}, {"llama_4_scaling_beta", 0.3}});
  check_twin(
      {"ministral3", changed(small_llama("ministral3"), {{"sliding_window", nullptr}, {"rope_parameters", grown}})});
}

TEST(FamilyOptions, Phi3OnBothSidesOfItsOriginalLength) {
  const json base = changed(small_llama("phi3"), {{"sliding_window", 90}, {"head_dim", 16}});
  check_twin({"phi3", base});
  check_twin({"phi3, half rotary", changed(base, {{"partial_rotary_factor", 0.5}, {"sliding_window", nullptr}})});
  const json scaling = {{"type", "longrope"},
                        {"short_factor", {1.0, 1.1, 1.2, 1.3, 1.4, 1.5, 1.6, 1.7}},
                        {"long_factor", {1.0, 2.0, 3.0, 4.0, 5.5, 6.0, 7.5, 9.0}}};
  // The whole text is longer, as long, and shorter; or becomes longer while it is continued.
  for (const int original : {100, 514, 515, 516, 517, 518}) {
    check_twin(
        {"longrope of " + std::to_string(original), changed(base, {{"max_position_embeddings", 4096},
                                                                   {"original_max_position_embeddings", original},
                                                                   {"rope_scaling", scaling}})});
  }
  check_twin({"longrope with a factor", changed(base, {{"max_position_embeddings", 4096},
                                                       {"original_max_position_embeddings", 100},
                                                       {"rope_scaling", changed(scaling, {{"factor", 3.0}})}})});
}

TEST(FamilyOptions, Glm4) {
  const json base = changed(small_llama("glm4"), {{"rope_theta", 500.0}});
  check_twin({"glm4", base});
  check_twin({"glm4 without biases", changed(base, {{"attention_bias", false}})});
  check_twin({"glm4, whole heads", changed(base, {{"partial_rotary_factor", 1.0}, {"rms_norm_eps", 0.3}})});
  check_twin({"glm4 tied", changed(base, {{"tie_word_embeddings", true}, {"head_dim", 24}})});
  const json yarn = {{"rope_type", "yarn"},
                     {"factor", 8.0},
                     {"original_max_position_embeddings", 64},
                     {"partial_rotary_factor", 0.75}};
  check_twin({"glm4 stretched",
              changed(base, {{"head_dim", 16}, {"rope_parameters", changed(yarn, {{"rope_theta", 500.0}})}})});
}

TEST(FamilyOptions, SmolLm3) {
  const json base = changed(small_llama("smollm3"), {{"rope_theta", 5000.0}, {"no_rope_layers", {1, 0}}});
  check_twin({"smollm3", base});
  check_twin({"smollm3 untied", changed(base, {{"tie_word_embeddings", false}, {"no_rope_layers", {0, 1}}})});
  check_twin({"smollm3 with biases", changed(base, {{"attention_bias", true}, {"mlp_bias", true}})});
}

TEST(FamilyOptions, Olmo) {
  for (const char* model_type : {"olmo2", "olmo3"}) {
    const std::string name = model_type;
    json base = changed(small_llama(model_type), {{"rope_theta", 5000.0}, {"num_hidden_layers", 3}});
    if (name == "olmo3") {
      base.update(
          {{"sliding_window", 60}, {"layer_types", {"sliding_attention", "full_attention", "sliding_attention"}}});
    }
    check_twin({name, base});
    check_twin({name + " with biases", changed(base, {{"attention_bias", true}})});
    const json yarn = {
        {"rope_type", "yarn"}, {"factor", 8.0}, {"original_max_position_embeddings", 64}, {"attention_factor", 1.2}};
    check_twin({name + " stretched", changed(base, {{"rope_scaling", yarn}})});
  }
  json base = small_llama("olmo3");
  base.update({{"sliding_window", 60}, {"num_hidden_layers", 5}});
  check_twin({"olmo3 without a list of layers", base});
}

TEST(FamilyOptions, Gemma) {
  const json base = changed(small_llama("gemma2"), {{"sliding_window", 60},
                                                    {"query_pre_attn_scalar", 5},
                                                    {"attn_logit_softcapping", 4.0},
                                                    {"final_logit_softcapping", 3.0},
                                                    {"num_hidden_layers", 3}});
  check_twin({"gemma2", base});
  check_twin({"gemma2 without caps",
              changed(base, {{"attn_logit_softcapping", nullptr}, {"final_logit_softcapping", nullptr}})});
  check_twin({"gemma2 with biases", changed(base, {{"attention_bias", true}})});
  json next = changed(small_llama("gemma3_text"), {{"sliding_window", 60},
                                                   {"query_pre_attn_scalar", 11},
                                                   {"num_hidden_layers", 3},
                                                   {"sliding_window_pattern", 2},
                                                   {"rope_theta", 5000.0},
                                                   {"rope_local_base_freq", 300.0}});
  check_twin({"gemma3", next});
  check_twin({"gemma3 stretched", changed(next, {{"rope_scaling", {{"rope_type", "linear"}, {"factor", 8.0}}}})});
  check_twin({"gemma3 with a cap", changed(next, {{"final_logit_softcapping", 3.0}})});
}

}  // namespace
}  // namespace foxscope
