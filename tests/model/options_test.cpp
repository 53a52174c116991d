// Every layer option alone and in pairs, with random weights, against the dense float64 twin.
#include <fstream>
#include <random>

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "backend/base/index.h"
#include "backend/model/session/causal_lm.h"
#include "backend/model/spec/parameters.h"
#include "backend/model/weights/checkpoint.h"
#include "tests/model/dense_twin.h"
#include "tests/temporary_folder.h"

namespace foxscope {
namespace {

using nlohmann::json;

/// One setting of one option. Settings of the same option exclude each other.
struct Setting {
  std::string option;
  std::string name;
  json keys;
};

json base_config(const std::string& model_type) {
  json config = {{"model_type", model_type}, {"vocab_size", 37},       {"hidden_size", 24},
                 {"num_heads", 2},           {"num_hidden_layers", 1}, {"intermediate_size", 32},
                 {"norm_eps", 1e-6},         {"hidden_act", "swish"},  {"bos_token_id", 0}};
  // FLA has neither key, and a Transformer no gate.
  if (model_type.ends_with("project_fox")) config["use_rope"] = false;
  if (model_type == "forgetting_transformer-project_fox") config["fgate_type"] = "full";
  return config;
}

const std::vector<Setting> kProjectFox = {
    {"gate", "bias_only", {{"fgate_type", "bias_only"}}},
    {"gate", "fixed", {{"fgate_type", "fixed"}}},
    {"gate", "none", {{"fgate_type", "none"}}},
    {"k_shift", "k_shift", {{"use_k_shift", true}}},
    {"v_shift", "v_shift", {{"use_v_shift", true}}},
    {"qk_norm", "qk_norm", {{"qk_norm", true}}},
    {"qk_norm", "qk_norm_shared", {{"qk_norm", true}, {"qk_norm_share_param_across_head", true}}},
    {"rope", "rope", {{"use_rope", true}, {"rope_base", 1000.0}}},
    {"output_norm", "output_norm", {{"use_output_norm", true}}},
    {"output_gate", "output_gate_sigmoid", {{"use_output_gate", true}, {"ogate_act", "sigmoid"}}},
    {"output_gate", "output_gate_silu", {{"use_output_gate", true}, {"ogate_act", "silu"}}},
    {"window", "window", {{"window_size", 100}}},
    {"groups", "grouped_keys", {{"num_kv_heads", 1}}},
    {"tie", "tied", {{"tie_word_embeddings", true}}}};

const std::vector<Setting> kTransformer = {{"rope", "rope", {{"use_rope", true}}},
                                           {"window", "window", {{"window_size", 63}}},
                                           {"groups", "grouped_keys", {{"num_kv_heads", 1}}},
                                           {"tie", "tied", {{"tie_word_embeddings", true}}}};

const std::vector<Setting> kFla = {{"qk_norm", "qk_norm", {{"qk_norm", true}}},
                                   {"output_gate", "output_gate", {{"use_output_gate", true}}},
                                   {"bias", "qkv_bias", {{"qkv_bias", true}}},
                                   {"groups", "grouped_keys", {{"num_kv_heads", 1}}},
                                   {"tie", "tied", {{"tie_word_embeddings", true}}}};

/// A checkpoint folder with random float32 weights; gates decay over tens to thousands of tokens.
class RandomCheckpoint {
 public:
  RandomCheckpoint(const json& config, std::uint64_t seed) {
    folder_.write("config.json", config.dump());
    config_ = ModelConfig::from_json(config.dump(), "config.json");
    write_weights(seed);
  }

  [[nodiscard]] std::string folder() const { return folder_.text(); }
  [[nodiscard]] test::DenseTwin twin() const { return {config_, weights_}; }

 private:
  void write_weights(std::uint64_t seed) {
    auto generator = at::make_generator<at::CPUGeneratorImpl>(seed);
    json header;
    std::string data;
    for (const Parameter& tensor : parameters(config_)) {
      at::Tensor value = at::randn(tensor.shape, generator, at::TensorOptions().dtype(at::kFloat));
      const bool gate_bias = tensor.name.ends_with("fgate_bias") || tensor.name.ends_with("f_proj.bias") ||
                             tensor.name.ends_with("fgate_proj.bias");
      if (gate_bias) {
        value = 4 + 1.5 * value;
      } else if (tensor.shape.size() == 1) {
        value = tensor.name.ends_with("bias") ? 0.3 * value : 1 + 0.2 * value;
      } else if (!tensor.name.ends_with("embeddings.weight")) {
        value = value / std::sqrt(static_cast<double>(tensor.shape[1])) * 1.5;
      }
      value = value.contiguous();
      weights_[tensor.name] = value.to(at::kDouble);
      const std::size_t begin = data.size();
      data.append(static_cast<const char*>(value.const_data_ptr()), value.nbytes());
      header[tensor.name] = {{"dtype", "F32"}, {"shape", tensor.shape}, {"data_offsets", {begin, data.size()}}};
    }
    const std::string text = header.dump();
    const std::uint64_t size = text.size();
    std::ofstream file(folder_ / "model.safetensors", std::ios::binary);
    file.write(reinterpret_cast<const char*>(&size), 8);
    file << text << data;
  }

  const test::TemporaryFolder folder_;
  ModelConfig config_;
  std::map<std::string, at::Tensor> weights_;
};

/// Logits of our forward for a batch, each sequence [L, V].
std::vector<at::Tensor> our_logits(CausalLM& model, const at::Tensor& ids) {
  const ModelConfig& config = model.config();
  const std::int64_t batch = ids.size(0);
  const std::int64_t length = ids.size(1);
  TraceInfo info;
  info.layers = config.layers;
  info.heads = config.heads;
  info.key_heads = config.key_heads;
  info.head_dim = config.head_dim;
  info.length = length;
  std::vector<std::unique_ptr<Recorder>> recorders;
  std::vector<Recorder*> pointers;
  for (std::int64_t b = 0; b < batch; ++b) {
    recorders.push_back(std::make_unique<Recorder>(info, KeepSet{Keep::logits}, nullptr));
    pointers.push_back(recorders.back().get());
  }
  const at::Tensor narrow = ids.to(at::kInt).contiguous();
  const std::span<const std::int32_t> span(narrow.const_data_ptr<std::int32_t>(),
                                           static_cast<std::size_t>(batch * length));
  ForwardRequest request;
  request.batch = batch;
  request.length = length;
  request.input_ids = span;
  request.labels = span;
  EXPECT_TRUE(model.forward(request, pointers, Job{}).has_value());
  std::vector<at::Tensor> logits;
  for (Recorder* recorder : pointers) {
    const std::span<float> values = recorder->logits(config.vocabulary_size);
    logits.push_back(at::from_blob(values.data(), {length, config.vocabulary_size}, at::kFloat).clone());
  }
  return logits;
}

/// Largest difference to the twin, relative to the largest logit.
double largest_error(const json& config, std::int64_t batch, std::int64_t length) {
  const c10::InferenceMode guard;
  const RandomCheckpoint checkpoint(config, 1234);
  auto generator = at::make_generator<at::CPUGeneratorImpl>(static_cast<std::uint64_t>(length));
  const at::Tensor ids = at::randint(0, config["vocab_size"].get<std::int64_t>(), {batch, length}, generator,
                                     at::TensorOptions().dtype(at::kLong));
  const auto model = CausalLM::load(Checkpoint::open(checkpoint.folder()), Device{}, DType::float32);
  const std::vector<at::Tensor> ours = our_logits(*model, ids);
  const test::DenseTwin twin = checkpoint.twin();
  const test::OneThread few_cores;
  double largest = 0;
  for (std::int64_t b = 0; b < batch; ++b) {
    const at::Tensor expected = twin.logits(ids[b]);
    const at::Tensor error = (ours[index_of(b)].to(at::kDouble) - expected).abs().max();
    const double relative = (error / expected.abs().max()).item<double>();
    if (!(relative <= largest)) largest = relative;  // NaN stays
  }
  return largest;
}

constexpr double kLargestError = 2e-4;
/// One position more than the chunks of rows and the tiles of queries that they end in; with each option alone also one
/// more than a tile of keys.
constexpr std::int64_t kLength = 1025;
constexpr std::int64_t kLongLength = 4097;

void check_alone(const std::string& model_type, const std::vector<Setting>& settings) {
  EXPECT_LE(largest_error(base_config(model_type), 3, kLongLength), kLargestError) << model_type;
  for (const Setting& setting : settings) {
    json config = base_config(model_type);
    config.update(setting.keys);
    EXPECT_LE(largest_error(config, 3, kLongLength), kLargestError) << model_type << " with " << setting.name;
  }
}

void check_pairs(const std::string& model_type, const std::vector<Setting>& settings) {
  for (std::size_t a = 0; a < settings.size(); ++a) {
    for (std::size_t b = a + 1; b < settings.size(); ++b) {
      if (settings[a].option == settings[b].option) continue;
      json config = base_config(model_type);
      config.update(settings[a].keys);
      config.update(settings[b].keys);
      const std::string name = model_type + " with " + settings[a].name + " and " + settings[b].name;
      EXPECT_LE(largest_error(config, 1, kLength), kLargestError) << name;
      EXPECT_LE(largest_error(config, 5, 131), kLargestError) << name << ", batch of 5";
    }
  }
}

TEST(LayerOptions, ProjectFoxAlone) { check_alone("forgetting_transformer-project_fox", kProjectFox); }
TEST(LayerOptions, ProjectFoxPairs) { check_pairs("forgetting_transformer-project_fox", kProjectFox); }
TEST(LayerOptions, TransformerAlone) { check_alone("transformer-project_fox", kTransformer); }
TEST(LayerOptions, TransformerPairs) { check_pairs("transformer-project_fox", kTransformer); }
TEST(LayerOptions, FlaAlone) { check_alone("forgetting_transformer", kFla); }
TEST(LayerOptions, FlaPairs) { check_pairs("forgetting_transformer", kFla); }

}  // namespace
}  // namespace foxscope
