#include "app/description/model_description.h"

#include <algorithm>
#include <array>
#include <string_view>

#include <fmt/format.h>

#include "backend/model/spec/model_family.h"
#include "backend/model/spec/trace_sizes.h"
#include "backend/trace/mixer_text.h"

namespace foxscope {
namespace {

/// A part of the paper's Pro block; a layer has it or not.
struct ProPart {
  bool present;
  const char* name;
};

std::vector<ProPart> proParts(const ModelConfig& config) {
  return {{config.key_shift, "key shift"},
          {config.value_shift, "value shift"},
          {config.query_key_norm != QueryKeyNorm::none, "QK-norm"},
          {config.output_gate, "output gate"},
          {config.output_norm, "output norm"}};
}

const char* gateName(ForgetGate gate) {
  switch (gate) {
    case ForgetGate::full:
      return "full";
    case ForgetGate::bias_only:
      return "bias_only";
    case ForgetGate::fixed:
      return "fixed";
    case ForgetGate::none:
      return "none";
  }
  return "";
}

const char* normName(QueryKeyNorm norm) {
  switch (norm) {
    case QueryKeyNorm::none:
      return "none";
    case QueryKeyNorm::per_head:
      return "per head";
    case QueryKeyNorm::shared:
      return "shared by heads";
    case QueryKeyNorm::whole:
      return "all heads together";
  }
  return "";
}

const char* scalingName(RopeScaling::Kind kind) {
  switch (kind) {
    case RopeScaling::Kind::none:
      return "none";
    case RopeScaling::Kind::linear:
      return "linear";
    case RopeScaling::Kind::dynamic:
      return "dynamic";
    case RopeScaling::Kind::llama3:
      return "llama3";
    case RopeScaling::Kind::yarn:
      return "yarn";
    case RopeScaling::Kind::longrope:
      return "longrope";
  }
  return "";
}

const char* mlpName(MlpKind kind) {
  switch (kind) {
    case MlpKind::swiglu:
      return "SwiGLU";
    case MlpKind::geglu:
      return "GELU with a gate (tanh)";
    case MlpKind::geglu_erf:
      return "GELU with a gate";
    case MlpKind::clamped:
      return "clamped SwiGLU";
    case MlpKind::relu_squared:
      return "squared ReLU";
    case MlpKind::gelu:
      return "GELU";
    case MlpKind::gelu_tanh:
      return "GELU (tanh)";
  }
  return "";
}

/// A value of each rotary embedding: alone where there is one, null where there is none.
template <typename Value>
nlohmann::ordered_json ofRotaries(const ModelConfig& config, const Value& value) {
  nlohmann::ordered_json values = nlohmann::ordered_json::array();
  for (const Rotary& rotary : config.rotaries) values.push_back(value(rotary));
  if (values.empty()) return nullptr;
  return values.size() == 1 ? values[0] : values;
}

/// Whether heads turn; a list of the layers whose heads do, where others' do not.
nlohmann::ordered_json turningLayers(const ModelConfig& config) {
  nlohmann::ordered_json turning = nlohmann::ordered_json::array();
  for (int layer = 0; layer < config.layers; ++layer) {
    if (config.is_attention(layer) && config.rotary_at(layer) != nullptr) turning.push_back(layer);
  }
  const bool all = static_cast<int>(turning.size()) == config.attention_layers();
  return all || turning.empty() ? nlohmann::ordered_json(!turning.empty()) : turning;
}

/// The window of all layers, or one for each; 0: none.
nlohmann::ordered_json windows(const ModelConfig& config) {
  if (const auto common = config.common_window()) return *common;
  nlohmann::ordered_json windows = nlohmann::ordered_json::array();
  for (const AttentionLayer& layer : config.attention) windows.push_back(layer.window_size);
  return windows;
}

/// How many layers have experts and no mixer.
std::int64_t expertsAlone(const ModelConfig& config) {
  std::int64_t layers = 0;
  for (int layer = 0; layer < config.layers; ++layer) {
    layers += !config.has_mixer(layer) && config.mixture_at(layer) != nullptr ? 1 : 0;
  }
  return layers;
}

// "16 Mamba-2", "6 gated delta rule, 2 attention", or "23 Mamba-2, 23 experts, 6 attention".
std::string mixerNames(const ModelConfig& config) {
  std::string names;
  const auto add = [&names](std::int64_t layers, const char* words) {
    if (layers > 0) names += fmt::format("{}{} {}", names.empty() ? "" : ", ", layers, words);
  };
  const TraceSizes sizes = sizes_of(config, 1);
  std::vector<LayerMixer> kinds;
  for (const LayerMixer& mixer : sizes.mixers) {
    if (std::ranges::find(kinds, mixer.mixer, &LayerMixer::mixer) == kinds.end()) kinds.push_back(mixer);
  }
  std::ranges::stable_sort(kinds, {}, [](const LayerMixer& mixer) {
    return !mixer.kind().mixes ? 2 : mixer.has_softmax() ? 1 : 0;
  });
  for (const LayerMixer& kind : kinds) {
    const auto count = std::ranges::count(sizes.mixers, kind.mixer, &LayerMixer::mixer);
    if (kind.kind().mixes) {
      add(count, mixer_words(kind));
    } else {
      add(count - expertsAlone(config), mixer_words(kind));
      add(expertsAlone(config), "experts");
    }
  }
  return names;
}

/// Options of attention, of which a model of linear mixers alone has nothing to say.
bool isOfAttention(const ConfigOption& option) {
  static constexpr auto kKeys = std::to_array<std::string_view>(
      {"forget_gate", "key_shift", "value_shift", "query_key_norm", "query_key_value_bias", "output_bias", "rope",
       "rope_base", "rotary_dim", "rope_scaling", "learned_positions", "output_norm", "output_gate",
       "output_gate_activation", "window_size", "attention_cap", "log_pruning_tolerance"});
  return std::ranges::find(kKeys, option.key) != kKeys.end();
}

/// Options of an MLP, where there is none.
bool isOfMlp(const ConfigOption& option) {
  static constexpr auto kKeys =
      std::to_array<std::string_view>({"intermediate_size", "mlp", "mlp_bias", "parallel_residual"});
  return std::ranges::find(kKeys, option.key) != kKeys.end();
}

// The parts that a layer has or lacks beside its family's own.
std::vector<std::string> differences(const ModelConfig& config, bool gated, bool pro) {
  std::vector<std::string> differences;
  for (const ProPart& part : proParts(config)) {
    if (part.present != pro) differences.push_back(std::string(pro ? "without " : "with ") + part.name);
  }
  if (!config.rotaries.empty() == gated) differences.emplace_back(gated ? "with RoPE" : "without RoPE");
  if (config.forget_gate == ForgetGate::bias_only) differences.emplace_back("data-independent gate");
  if (config.forget_gate == ForgetGate::fixed) differences.emplace_back("fixed gate");
  if (config.common_window() != 0) differences.emplace_back("sliding window");
  if (config.key_heads != config.heads) differences.emplace_back("grouped keys");
  return differences;
}

/// Describes a mixture of experts.
void addExperts(const ModelConfig& config, std::vector<ConfigOption>& options) {
  const ExpertMixture& mixture = *config.mixture;
  const auto sparse = std::ranges::count(config.sparse, true);
  options.push_back({"experts", "experts", mixture.experts});
  options.push_back({"experts_per_token", "experts of a token", mixture.chosen});
  options.push_back({"expert_size", "intermediate size of an expert", mixture.size});
  options.push_back({"shared_expert_size", "intermediate size of the shared expert", mixture.shared_size});
  options.push_back({"expert_layers", "layers with experts",
                     sparse == config.layers ? nlohmann::ordered_json("all") : nlohmann::ordered_json(sparse)});
  options.push_back({"router", "router", mixture.scores == ExpertMixture::Scores::softmax ? "softmax" : "sigmoid"});
  options.push_back({"normalized_experts", "weights of experts sum to 1", mixture.normalized});
  options.push_back({"expert_bias", "bias of experts", mixture.expert_bias});
  if (sparse == config.layers) {
    std::erase_if(options, [](const ConfigOption& option) {
      return option.key == "intermediate_size" || option.key == "mlp_bias";
    });
  }
}

}  // namespace

std::string modelTitle(const ModelConfig& config) {
  const bool gated = config.forget_gate != ForgetGate::none;
  const auto parts = proParts(config);
  const auto present = std::count_if(parts.begin(), parts.end(), [](const ProPart& part) { return part.present; });
  const bool pro = present >= 3;
  std::string title = std::string(gated ? "FoX" : "Transformer") + (pro ? " (Pro)" : " (LLaMA)");
  if (!config.family->title.empty()) {
    title = config.family->title;
    if (!gated) return title;
  }
  std::string separator = ", ";
  for (const std::string& difference : differences(config, gated, pro)) title += separator + difference;
  return title;
}

std::vector<ConfigOption> configOptions(const ModelConfig& config) {
  using Json = nlohmann::ordered_json;
  std::vector<ConfigOption> options = {
      {"layers", "layers", config.layers},
      {"hidden_size", "hidden size", config.hidden_size},
      {"intermediate_size", "intermediate size", config.intermediate_size},
      {"heads", "heads", config.heads},
      {"key_heads", "key heads", config.key_heads},
      {"head_dim", "head size", config.head_dim},
      {"vocabulary_size", "vocabulary", config.vocabulary_size},
      {"forget_gate", "forget gate", gateName(config.forget_gate)},
      {"key_shift", "key shift", config.key_shift},
      {"value_shift", "value shift", config.value_shift},
      {"query_key_norm", "QK-norm", normName(config.query_key_norm)},
      {"query_key_value_bias", "QKV bias", config.query_key_value_bias},
      {"output_bias", "output bias", config.output_bias},
      {"rope", "RoPE", turningLayers(config)},
      {"rope_base", "RoPE base", ofRotaries(config, [](const Rotary& rotary) { return Json(rotary.base); })},
      {"rotary_dim", "RoPE size", ofRotaries(config, [](const Rotary& rotary) { return Json(rotary.dim); })},
      {"rope_scaling", "RoPE scaling",
       ofRotaries(config, [](const Rotary& rotary) { return Json(scalingName(rotary.scaling.kind)); })},
      {"learned_positions", "learned positions", config.learned_positions},
      {"output_norm", "output norm", config.output_norm},
      {"output_gate", "output gate", config.output_gate},
      {"output_gate_activation", "output gate's activation",
       !config.output_gate                                              ? Json(nullptr)
       : config.output_gate_activation == OutputGateActivation::sigmoid ? Json("sigmoid")
                                                                        : Json("silu")},
      {"norm", "norm", config.norm == NormKind::rms ? "RMSNorm" : "LayerNorm"},
      {"mlp", "MLP", mlpName(config.mlp)},
      {"mlp_bias", "MLP bias", config.mlp_bias},
      {"parallel_residual", "parallel residual", config.parallel_residual},
      {"window_size", "window", windows(config)},
      {"norm_epsilon", "norm epsilon", config.norm_epsilon},
      {"norms", "norms of layers", config.post_norm ? config.pre_norm ? "before and behind" : "behind" : "before"},
      {"attention_cap", "cap of attention's logits",
       config.attention_cap > 0 ? Json(config.attention_cap) : Json(nullptr)},
      {"logit_cap", "cap of logits", config.logit_cap > 0 ? Json(config.logit_cap) : Json(nullptr)},
      {"tie_word_embeddings", "tied embeddings", config.tie_word_embeddings},
      {"bos_token_id", "BOS token", config.bos_token_id ? Json(*config.bos_token_id) : Json(nullptr)},
      {"log_pruning_tolerance", "log pruning tolerance",
       config.log_pruning_tolerance ? Json(*config.log_pruning_tolerance) : Json(nullptr)}};
  if (config.mixture) addExperts(config, options);
  const auto unlessOne = [&](const char* key, const char* name, double factor) {
    if (factor != 1) options.push_back({key, name, factor});
  };
  unlessOne("embedding_factor", "factor of embeddings", config.embedding_factor);
  unlessOne("residual_factor", "factor of what layers add", config.residual_factor);
  unlessOne("logit_factor", "factor of logits", config.logit_factor);
  if (config.sinks) options.push_back({"sinks", "sinks", true});
  if (config.path) {
    options.push_back({"path", "keys are passed on", true});
    options.push_back({"path_rank", "rank of what they are passed on by",
                       config.path->rank > 0 ? Json(config.path->rank) : Json(nullptr)});
    options.push_back({"convolution", "convolution", config.path->taps});
    unlessOne("log_gate_factor", "factor of log gates", config.log_gate_factor);
  }
  if (config.projection_limit > 0) {
    options.push_back({"projection_limit", "limit of queries, keys and values", config.projection_limit});
  }
  const std::optional<LinearMixer>& mixer = config.linear;
  if (!mixer) return options;
  if (!config.attends()) std::erase_if(options, isOfAttention);
  if (config.intermediate_size == 0) std::erase_if(options, isOfMlp);
  if (config.linear_intermediate_size > 0) {
    options.push_back({"linear_intermediate_size", fmt::format("intermediate size of {}", mixer_words(mixer->layer())),
                       config.linear_intermediate_size});
  }
  options.push_back({"mixers", "mixers", mixerNames(config)});
  options.push_back({"state", "state of a head", fmt::format("{} x {}", mixer->key_dim, mixer->value_dim)});
  options.push_back({"decay", "decay by", to_string(mixer->layer().decay)});
  options.push_back({"convolution", "convolution", mixer->convolution});
  if (mixer->steps > 1) options.push_back({"steps", "steps of a position", mixer->steps});
  if (config.side_attention) {
    options.push_back({"shared_blocks", "transformers that attention's layers share", config.shared_blocks});
  }
  return options;
}

}  // namespace foxscope
