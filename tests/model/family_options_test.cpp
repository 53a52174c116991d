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
#include "tests/model/family_twin.h"
#include "tests/model/model_test_support.h"

namespace foxscope {
namespace {

using nlohmann::json;
using test::FamilyTwin;
using Weights = test::TwinWeights;

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
  for (const auto& [name, shape] : test::shapes_of(tested.config, tested.prefixed)) {
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

TEST(FamilyOptions, Glm) {
  check_twin({"glm", small_llama("glm")});
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
  const json types = {"sliding_attention", "full_attention"};
  check_twin({"smollm3, windows by the list alone",
              changed(base, {{"sliding_window", 60}, {"use_sliding_window", false}, {"layer_types", types}})});
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
    if (name != "olmo3") continue;
    const json kinds = {{"full_attention", changed(yarn, {{"rope_theta", 700.0}})},
                        {"sliding_attention", {{"rope_type", "linear"}, {"factor", 3.0}, {"rope_theta", 90.0}}}};
    check_twin({"olmo3 by kinds", changed(base, {{"rope_parameters", kinds}})});
    check_twin(
        {"olmo3 by one kind", changed(base, {{"rope_parameters", {{"full_attention", kinds["full_attention"]}}}})});
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
  const json kinds = {{"full_attention", {{"rope_theta", 800.0}}},
                      {"sliding_attention", {{"rope_type", "linear"}, {"factor", 3.0}}}};
  check_twin({"gemma3 by kinds", changed(next, {{"rope_parameters", kinds}})});
}

}  // namespace
}  // namespace foxscope
