#include "tests/model/family_twin.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace foxscope::test {
namespace {

using nlohmann::json;

/// A key's value; absent and null are `otherwise`.
template <typename T>
T value_of(const json& object, const char* key, T otherwise) {
  return object.contains(key) && !object.at(key).is_null() ? object.at(key).get<T>() : otherwise;
}

TwinShapes shapes_of_gpt2(const json& config, const TwinSizes& s) {
  TwinShapes shapes = {{"wte.weight", {s.vocabulary, s.hidden}},
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

TwinShapes shapes_of_gpt_neox(const json& config, const TwinSizes& s) {
  TwinShapes shapes = {{"embed_in.weight", {s.vocabulary, s.hidden}},
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

TwinShapes shapes_of_llama(const json& config, const TwinSizes& s) {
  TwinShapes shapes = {{"embed_tokens.weight", {s.vocabulary, s.hidden}}, {"norm.weight", {s.hidden}}};
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
    if (s.type == "glm4") norms.insert(norms.end(), {"post_self_attn_layernorm", "post_mlp_layernorm"});
    for (const std::string& norm : norms) shapes.push_back({layer + norm + ".weight", {s.hidden}});
    if (s.type == "phi3") {
      dense("self_attn.qkv_proj", s.hidden, (s.heads + 2 * s.key_heads) * s.head_dim, false);
    } else {
      dense("self_attn.q_proj", s.hidden, s.heads * s.head_dim, bias || s.type == "qwen2");
      dense("self_attn.k_proj", s.hidden, s.key_heads * s.head_dim, bias || s.type == "qwen2");
      dense("self_attn.v_proj", s.hidden, s.key_heads * s.head_dim, bias || s.type == "qwen2");
    }
    if (s.type == "phi3" || s.glm) {
      dense("mlp.gate_up_proj", s.hidden, 2 * s.inner, false);
    } else {
      dense("mlp.gate_proj", s.hidden, s.inner, mlp_bias);
      dense("mlp.up_proj", s.hidden, s.inner, mlp_bias);
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

}  // namespace

TwinSizes::TwinSizes(const json& config) : type(config.at("model_type").get<std::string>()), gpt2(type == "gpt2") {
  hidden = config.at(gpt2 ? "n_embd" : "hidden_size").get<std::int64_t>();
  layers = config.at(gpt2 ? "n_layer" : "num_hidden_layers").get<std::int64_t>();
  heads = config.at(gpt2 ? "n_head" : "num_attention_heads").get<std::int64_t>();
  vocabulary = config.at("vocab_size").get<std::int64_t>();
  inner = value_of<std::int64_t>(config, gpt2 ? "n_inner" : "intermediate_size", 4 * hidden);
  key_heads = value_of<std::int64_t>(config, "num_key_value_heads", heads);
  olmo = type.starts_with("olmo");
  gemma = type.starts_with("gemma");
  glm = type.starts_with("glm");
  head_dim = value_of<std::int64_t>(config, "head_dim", type == "qwen3" || glm ? 128 : gemma ? 256 : hidden / heads);
  tied = value_of<bool>(config, "tie_word_embeddings", gpt2 || gemma || type == "smollm3");
}

TwinShapes shapes_of(const json& config, bool prefixed) {
  const TwinSizes sizes(config);
  const bool neox = sizes.type == "gpt_neox";
  const TwinShapes inside = sizes.gpt2 ? shapes_of_gpt2(config, sizes)
                            : neox     ? shapes_of_gpt_neox(config, sizes)
                                       : shapes_of_llama(config, sizes);
  const std::string prefix = !prefixed ? "" : sizes.gpt2 ? "transformer." : neox ? "gpt_neox." : "model.";
  TwinShapes shapes;
  for (const auto& [name, shape] : inside) shapes.emplace_back(prefix + name, shape);
  if (!sizes.tied) {
    shapes.emplace_back(neox ? "embed_out.weight" : "lm_head.weight",
                        std::vector<std::int64_t>{sizes.vocabulary, sizes.hidden});
  }
  return shapes;
}

FamilyTwin::FamilyTwin(json config, TwinWeights weights)
    : config_(std::move(config)), sizes_(config_), weights_(std::move(weights)) {
  for (const char* prefix : {"transformer.", "gpt_neox.", "model."}) {
    if (weights_.begin()->first.starts_with(prefix) || std::next(weights_.begin())->first.starts_with(prefix)) {
      prefix_ = prefix;
    }
  }
}

bool FamilyTwin::turns_by_length() const {
  const json scaling = value_of(config_, "rope_scaling", json::object());
  const std::string kind = value_of<std::string>(scaling, "rope_type", value_of<std::string>(scaling, "type", ""));
  return kind == "dynamic" || kind == "longrope";
}

at::Tensor FamilyTwin::logits(const at::Tensor& ids) const {
  const char* const embedding = sizes_.gpt2 ? "wte.weight" : neox() ? "embed_in.weight" : "embed_tokens.weight";
  at::Tensor x = weight(embedding).index_select(0, ids);
  if (sizes_.gpt2) x = x + weight("wpe.weight").slice(0, 0, ids.size(0));
  if (sizes_.gemma) x = x * std::sqrt(static_cast<double>(sizes_.hidden));
  for (std::int64_t n = 0; n < sizes_.layers; ++n) {
    const std::string layer = (sizes_.gpt2 ? "h." : "layers.") + std::to_string(n) + ".";
    if (sizes_.olmo || sizes_.gemma || sizes_.type == "glm4") {
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
  const at::Tensor head = sizes_.tied ? weight(embedding) : weights_.at(neox() ? "embed_out.weight" : "lm_head.weight");
  return cap(at::matmul(x, head.t()), sizes_.gemma ? "final_logit_softcapping" : "");
}

at::Tensor FamilyTwin::behind(const at::Tensor& before, const std::string& layer, int index) const {
  const auto in = [&](const at::Tensor& y, const char* name) { return sizes_.olmo ? y : norm(y, layer + name); };
  const at::Tensor x = before + norm(attend(in(before, "input_layernorm"), layer, index),
                                     layer + (sizes_.glm ? "post_self_attn_layernorm" : "post_attention_layernorm"));
  return x + norm(mlp(in(x, sizes_.glm ? "post_attention_layernorm" : "pre_feedforward_layernorm"), layer),
                  layer + (sizes_.glm ? "post_mlp_layernorm" : "post_feedforward_layernorm"));
}

at::Tensor FamilyTwin::cap(const at::Tensor& x, const std::string& key) const {
  const double most = key.empty() ? 0 : value_of(config_, key.c_str(), 0.0);
  return most > 0 ? at::tanh(x / most) * most : x;
}

at::Tensor FamilyTwin::dense(const at::Tensor& x, const std::string& name) const {
  const at::Tensor& matrix = weight(name + ".weight");
  const at::Tensor y = at::matmul(x, sizes_.gpt2 ? matrix : matrix.t());
  return weights_.contains(prefix_ + name + ".bias") ? y + weight(name + ".bias") : y;
}

at::Tensor FamilyTwin::norm(const at::Tensor& x, const std::string& name) const {
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

json FamilyTwin::rope(int layer) const {
  if (sizes_.type == "smollm3" && config_.at("no_rope_layers").at(static_cast<std::size_t>(layer)) == 0) return {};
  if (sizes_.type == "gemma3_text" || sizes_.type == "olmo3") return rope_of_kind(window(layer) > 0);
  const double base = value_of(config_, "rope_theta", value_of(config_, "rotary_emb_base", 10000.0));
  json rope = value_of(config_, "rope_scaling", json::object());
  rope["rope_theta"] = base;
  const double part = neox() ? 0.25 : sizes_.glm ? 0.5 : 1.0;
  rope["partial_rotary_factor"] = value_of(config_, "rotary_pct", value_of(config_, "partial_rotary_factor", part));
  if (rope.contains("type")) rope["rope_type"] = rope["type"];
  rope.update(value_of(config_, "rope_parameters", json::object()));
  return rope;
}

json FamilyTwin::rope_of_kind(bool slides) const {
  const bool gemma = sizes_.gemma;
  json rope = slides ? json::object() : value_of(config_, "rope_scaling", json::object());
  if (slides) {
    rope["rope_theta"] = gemma ? value_of(config_, "rope_local_base_freq", 1e4) : 5e5;
  } else {
    rope["rope_theta"] = value_of(config_, "rope_theta", gemma ? 1e6 : 5e5);
  }
  const json kinds = value_of(config_, "rope_parameters", json::object());
  rope.update(value_of(kinds, slides ? "sliding_attention" : "full_attention", json::object()));
  rope["partial_rotary_factor"] = 1.0;
  return rope;
}

FamilyTwin::Turn FamilyTwin::turn(const json& keys, std::int64_t pair, std::int64_t turning,
                                  std::int64_t length) const {
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

at::Tensor FamilyTwin::rotate_pairs(const at::Tensor& x, int layer) const {
  const json keys = rope(layer);
  if (keys.is_null()) return x;
  const auto turning =
      static_cast<std::int64_t>(static_cast<double>(sizes_.head_dim) * keys.at("partial_rotary_factor").get<double>());
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

at::Tensor FamilyTwin::growth(std::int64_t length, int layer) const {
  const json keys = rope(layer);
  const double beta = keys.is_null() ? 0 : value_of(keys, "llama_4_scaling_beta", 0.0);
  if (beta == 0) return at::ones({length, 1}, at::kDouble);
  const double old = keys.at("original_max_position_embeddings").get<double>();
  return (1 + beta * at::log(1 + at::floor(at::arange(length, at::kDouble) / old))).unsqueeze(1);
}

std::int64_t FamilyTwin::window(int layer) const {
  const auto width = value_of<std::int64_t>(config_, "sliding_window", 0);
  if (sizes_.type == "mistral" || sizes_.type == "ministral3" || sizes_.type == "phi3") return width;
  const json types = value_of(config_, "layer_types", json());
  const bool by_list = sizes_.type == "ministral" || sizes_.type == "olmo3" || sizes_.gemma;
  if (by_list && types.is_null()) {
    const auto pattern = sizes_.type == "gemma2" ? 2 : value_of(config_, "sliding_window_pattern", 4);
    return sizes_.type == "ministral" || (layer + 1) % pattern != 0 ? width : 0;
  }
  const bool decided = by_list || (sizes_.type == "smollm3" && types.is_array());
  if (!decided && !value_of(config_, "use_sliding_window", false)) return 0;
  const bool slides = types.is_array() ? types.at(static_cast<std::size_t>(layer)) == "sliding_attention"
                                       : layer >= config_.at("max_window_layers").get<int>();
  return slides ? width : 0;
}

at::Tensor FamilyTwin::attend_head(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
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

at::Tensor FamilyTwin::attend(const at::Tensor& x, const std::string& layer, int index) const {
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

at::Tensor FamilyTwin::mlp(const at::Tensor& x, const std::string& layer) const {
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

}  // namespace foxscope::test
