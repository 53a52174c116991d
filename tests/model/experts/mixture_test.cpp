// Mixtures of experts: what a configuration says, which experts a position reads, what is kept of them, and that the
// others stay unread.
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "backend/base/error.h"
#include "backend/base/index.h"
#include "backend/model/layer/expert_choice.h"
#include "backend/model/session/torch_model.h"
#include "backend/model/spec/model_family.h"
#include "backend/model/spec/parameters.h"
#include "tests/model/model_test_support.h"

namespace foxscope {
namespace {

using nlohmann::json;
using test::Parts;

/// The smallest sound configuration of a family with experts.
json tiny_mixture(const std::string& model_type, const json& more = json::object()) {
  json config = {{"model_type", model_type}, {"vocab_size", 11},       {"hidden_size", 8},
                 {"num_attention_heads", 2}, {"num_hidden_layers", 2}, {"bos_token_id", 0},
                 {"num_experts_per_tok", 2}, {"head_dim", 4},          {"num_key_value_heads", 1}};
  const bool local = model_type == "mixtral" || model_type == "gpt_oss" || model_type == "granitemoe";
  config[local ? "num_local_experts" : "num_experts"] = 4;
  if (model_type.starts_with("qwen3")) config["moe_intermediate_size"] = 6;
  if (!model_type.starts_with("qwen3_5")) config["intermediate_size"] = 5;
  if (model_type == "gpt_oss") config["rope_scaling"] = nullptr;
  if (model_type == "gpt_oss") config["rope_parameters"] = {{"rope_type", "default"}, {"rope_theta", 10000}};
  if (model_type.starts_with("qwen3_5") || model_type == "qwen3_next") {
    config.update({{"linear_num_key_heads", 2},
                   {"linear_num_value_heads", 2},
                   {"linear_key_head_dim", 4},
                   {"linear_value_head_dim", 4},
                   {"head_dim", 8},
                   {"shared_expert_intermediate_size", 3},
                   {"layer_types", {"linear_attention", "full_attention"}}});
  }
  config.update(more);
  return config;
}

const std::vector<std::string> kMixtures = {"mixtral",    "qwen3_moe",        "olmoe",     "gpt_oss",
                                            "granitemoe", "qwen3_5_moe_text", "qwen3_next"};

ModelConfig mixture_config(const std::string& model_type, const json& more = json::object()) {
  return ModelConfig::from_json(tiny_mixture(model_type, more).dump(), "dir/config.json");
}

std::string mixture_refusal(const std::string& model_type, const json& more) {
  return test::error_of([&] { mixture_config(model_type, more); });
}

TEST(MixtureConfig, ReadsTheSmallest) {
  for (const std::string& name : kMixtures) {
    const ModelConfig config = mixture_config(name);
    ASSERT_TRUE(config.mixture) << name;
    EXPECT_EQ(config.sparse, (std::vector<bool>{true, true})) << name;
    EXPECT_EQ(config.mixture->experts, 4) << name;
    EXPECT_EQ(config.mixture->chosen, 2) << name;
    EXPECT_EQ(config.mixture->size, name.starts_with("qwen3") ? 6 : 5) << name;
    EXPECT_EQ(config.mixture->normalized, name != "qwen3_moe" && name != "olmoe") << name;
    EXPECT_EQ(config.mixture->shared_size, name == "qwen3_5_moe_text" || name == "qwen3_next" ? 3 : 0) << name;
    EXPECT_EQ(config.intermediate_of(0), config.mixture->shared_size) << name;
    EXPECT_FALSE(config.is_trained()) << name;
  }
  EXPECT_TRUE(mixture_config("gpt_oss").sinks);
  EXPECT_EQ(mixture_config("gpt_oss").mlp, MlpKind::clamped);
  EXPECT_EQ(mixture_config("gpt_oss").mlp_limit, 7);
  EXPECT_EQ(mixture_config("gpt_oss").attention[0].window_size, 128);
  EXPECT_EQ(mixture_config("gpt_oss").attention[1].window_size, 0);
  EXPECT_EQ(mixture_config("olmoe", {{"clip_qkv", 8}}).projection_limit, 8);
}

TEST(MixtureConfig, KnowsWhichLayersHaveExperts) {
  for (const char* name : {"qwen3_moe", "qwen3_next"}) {
    const auto sparse = [&](const json& more) { return mixture_config(name, more).sparse; };
    EXPECT_EQ(sparse({{"mlp_only_layers", {0}}}), (std::vector<bool>{false, true})) << name;
    EXPECT_EQ(sparse({{"decoder_sparse_step", 2}}), (std::vector<bool>{false, true})) << name;
    EXPECT_EQ(sparse({{"decoder_sparse_step", 3}}), std::vector<bool>()) << name;
    const ModelConfig dense = mixture_config(name, {{"num_experts", 0}});
    EXPECT_FALSE(dense.mixture) << name;
    EXPECT_EQ(dense.intermediate_of(0), 5) << name;
    EXPECT_EQ(mixture_config(name, {{"mlp_only_layers", {0}}}).intermediate_of(0), 5) << name;
  }
}

TEST(MixtureConfig, RefusesWhatDoesNotFit) {
  EXPECT_PRED2(test::says, mixture_refusal("mixtral", {{"num_experts_per_tok", 5}}),
               (Parts{"dir/config.json: num_experts_per_tok is 5", "at most num_local_experts 4"}));
  EXPECT_PRED2(test::says, mixture_refusal("olmoe", {{"num_experts", 0}}), (Parts{"num_experts is 0"}));
  EXPECT_PRED2(test::says, mixture_refusal("olmoe", {{"clip_qkv", 0}}), (Parts{"clip_qkv is 0"}));
  EXPECT_PRED2(test::says, mixture_refusal("gpt_oss", {{"swiglu_limit", -1}}), (Parts{"swiglu_limit is -1"}));
  EXPECT_PRED2(test::says, mixture_refusal("gpt_oss", {{"rope_parameters", nullptr}}),
               (Parts{"rope_scaling is ", "the family's own code stretches texts"}));
  EXPECT_PRED2(test::says, mixture_refusal("gpt_oss", {{"layer_types", {"full_attention"}}}),
               (Parts{"layer_types", "for each of 2 layers"}));
  for (const json& list : {json(3), json::array({"0"}), json::array({0.5})}) {
    EXPECT_PRED2(test::says, mixture_refusal("qwen3_moe", {{"mlp_only_layers", list}}),
                 (Parts{"mlp_only_layers is ", "a list of numbers of layers"}));
  }
  EXPECT_PRED2(test::says, mixture_refusal("qwen3_moe", {{"moe_intermediate_size", nullptr}}),
               (Parts{"moe_intermediate_size"}));
  for (const std::string& name : kMixtures) {
    EXPECT_PRED2(test::says, mixture_refusal(name, {{"moe_new_switch", 2}}),
                 (Parts{"\"moe_new_switch\" is 2, a key that Foxscope does not know for this model_type"}))
        << name;
  }
  json two_names = tiny_mixture("qwen3_moe", {{"num_local_experts", 3}});
  EXPECT_PRED2(test::says, mixture_refusal("qwen3_moe", {{"num_local_experts", 3}}),
               (Parts{"num_experts is 4: it must be what num_local_experts says, which is another name of it"}));
  two_names.erase("num_experts");
  EXPECT_EQ(ModelConfig::from_json(two_names.dump(), "config.json").mixture->experts, 3);
}

TEST(MixtureConfig, RefusesHostileValues) {
  const std::vector<json> hostile = {json(-1),      json(0),        json(1e300),    json("12"),    json(true),
                                     json::array(), json({1, "x"}), json::object(), json(1 << 30), json()};
  for (const std::string& name : kMixtures) {
    for (const char* key : {"num_experts", "num_local_experts", "num_experts_per_tok", "moe_intermediate_size",
                            "norm_topk_prob", "decoder_sparse_step", "mlp_only_layers", "clip_qkv", "swiglu_limit",
                            "shared_expert_intermediate_size", "intermediate_size"}) {
      for (const json& value : hostile) {
        const std::string message = test::error_of([&] {
          const ModelConfig config = mixture_config(name, {{key, value}});
          if (!config.mixture) return;
          EXPECT_LE(config.mixture->chosen, config.mixture->experts);
          EXPECT_GT(config.mixture->size, 0);
        });
        EXPECT_LE(message.size(), 400U) << message;
      }
    }
  }
}

/// A checkpoint whose tensors may be changed before it is opened.
struct WrittenMixture {
  explicit WrittenMixture(const std::string& model_type)
      : config(tiny_mixture(model_type)), tensors(test::random_weights(config)) {}
  test::NamedTensor& named(const std::string& name) {
    for (test::NamedTensor& tensor : tensors) {
      if (tensor.name == name) return tensor;
    }
    throw std::logic_error(name);
  }
  std::string open_message() {
    test::write_checkpoint(folder, config, tensors);
    return test::error_of([&] { CausalLM::load(Checkpoint::open(folder.text()), Device{}, DType::float32); });
  }
  json config;
  std::vector<test::NamedTensor> tensors;
  test::TemporaryFolder folder;
};

TEST(MixtureCheckpoint, NamesWhatDoesNotFit) {
  for (const std::string& name : kMixtures) EXPECT_EQ(WrittenMixture(name).open_message(), "") << name;
  WrittenMixture router("qwen3_moe");
  router.named("model.layers.1.mlp.gate.weight").shape = {8, 4};
  EXPECT_PRED2(test::says, router.open_message(),
               (Parts{"wrong 1: model.layers.1.mlp.gate.weight is [8, 4] and should be [4, 8]"}));
  WrittenMixture missing("mixtral");
  missing.named("model.layers.0.block_sparse_moe.experts.3.w2.weight").name = "model.layers.0.other";
  EXPECT_PRED2(test::says, missing.open_message(),
               (Parts{"missing 1: model.layers.0.block_sparse_moe.experts.3.w2.weight;", "unexpected 1: "}));
  WrittenMixture more("olmoe");
  more.config["num_experts"] = 3;
  EXPECT_PRED2(test::says, more.open_message(), (Parts{"unexpected 6: model.layers.0.mlp.experts.3.", "wrong 2: "}));
  WrittenMixture fused("gpt_oss");
  fused.named("model.layers.0.mlp.experts.gate_up_proj").shape = {4, 10, 8};
  EXPECT_PRED2(test::says, fused.open_message(), (Parts{"gate_up_proj is [4, 10, 8] and should be [4, 8, 10]"}));
  WrittenMixture sinks("gpt_oss");
  sinks.named("model.layers.1.self_attn.sinks").shape = {1, 2};
  EXPECT_PRED2(test::says, sinks.open_message(), (Parts{"self_attn.sinks is [1, 2] and should be [2]"}));
}

std::vector<ChosenExpert> choose(const ExpertMixture& mixture, std::vector<float> logits,
                                 const std::vector<float>& bias = {}) {
  std::vector<ChosenExpert> chosen(index_of(mixture.chosen));
  choose_experts(mixture, logits, bias, chosen);
  return chosen;
}

TEST(ExpertChoice, TakesTheLargestScores) {
  const std::vector<float> logits = {0.5F, 2, -1, 1.5F, 2};
  ExpertMixture mixture;
  mixture.experts = 5;
  mixture.chosen = 3;
  const auto chosen = choose(mixture, logits);
  EXPECT_EQ(chosen[0].expert, 1);
  EXPECT_EQ(chosen[1].expert, 4);  // of equal ones the lower number first
  EXPECT_EQ(chosen[2].expert, 3);
  double all = 0;
  for (const float logit : logits) all += std::exp(static_cast<double>(logit));
  EXPECT_NEAR(chosen[0].weight, std::exp(2.0) / all, 1e-6);
  // Divided by their sum they are a softmax over the logits of those that were chosen.
  mixture.normalized = true;
  mixture.factor = 2.5;
  const double own = 2 * std::exp(2.0) + std::exp(1.5);
  EXPECT_NEAR(choose(mixture, logits)[2].weight, 2.5 * std::exp(1.5) / own, 1e-6);
}

TEST(ExpertChoice, ABiasChoosesAndDoesNotWeight) {
  ExpertMixture mixture;
  mixture.experts = 4;
  mixture.chosen = 2;
  mixture.scores = ExpertMixture::Scores::sigmoid;
  mixture.normalized = true;
  const auto chosen = choose(mixture, {1, 0, -1, -2}, {0, 0, 0, 5});
  EXPECT_EQ(chosen[0].expert, 3);
  EXPECT_EQ(chosen[1].expert, 0);
  const auto sigmoid = [](double x) { return 1 / (1 + std::exp(-x)); };
  EXPECT_NEAR(chosen[0].weight, sigmoid(-2) / (sigmoid(-2) + sigmoid(1)), 1e-6);
  EXPECT_NEAR(chosen[0].weight + chosen[1].weight, 1, 1e-6);
}

TEST(ExpertChoice, GroupsAreRankedByTheirTwoLargest) {
  ExpertMixture mixture;
  mixture.experts = 6;
  mixture.chosen = 2;
  mixture.groups = 3;
  mixture.chosen_groups = 1;
  mixture.scores = ExpertMixture::Scores::sigmoid;
  // The largest of all is in the first group, the largest pair in the last.
  const auto chosen = choose(mixture, {3, -3, 0, 0, 2, 2});
  EXPECT_EQ(chosen[0].expert, 4);
  EXPECT_EQ(chosen[1].expert, 5);
}

struct KeptExperts {
  std::vector<std::int32_t> experts;  ///< [layers, L, k]
  std::vector<float> weights;
  std::vector<float> logits;
};

KeptExperts kept_of(CausalLM& model, const std::vector<std::int32_t>& ids,
                    const std::vector<std::string>& interventions = {}) {
  test::Batch batch;
  for (const std::string& one : interventions) batch.interventions.push_back(Intervention::parse(one));
  batch.input_ids = batch.labels = ids;
  batch.keep = {Keep::logits, Keep::experts};
  const auto trace = test::run_batch(model, batch).traces.front();
  return {trace->source().copy<std::int32_t>(TraceArray::expert),
          trace->source().copy<float>(TraceArray::expert_weight), trace->source().logits()};
}

TEST(KeptExperts, AreTheSameInBothWays) {
  for (const char* name : {"gpt_oss", "qwen3_moe", "olmoe", "mixtral", "qwen3_next-moe", "qwen3_5_moe-published"}) {
    const std::string folder = test::data_path(std::string("published/") + name);
    const Checkpoint checkpoint = Checkpoint::open(folder);
    const SafetensorsFile golden(folder + "/golden.safetensors");
    const std::vector<std::int32_t> ids = test::read_ids(golden, "input_ids");
    const KeptExperts cpu = kept_of(*CausalLM::load(checkpoint, Device{}, DType::float32), ids);
    const KeptExperts composed = kept_of(*load_torch_model(checkpoint, Device{}, DType::float32), ids);
    const ExpertMixture& mixture = *checkpoint.config().mixture;
    ASSERT_EQ(cpu.experts.size(), index_of(checkpoint.config().layers) * ids.size() * index_of(mixture.chosen));
    EXPECT_EQ(cpu.experts, composed.experts) << name;
    EXPECT_LE(test::largest_difference(cpu.weights, composed.weights), 1e-5) << name;
    for (std::size_t row = 0; row < cpu.experts.size(); row += index_of(mixture.chosen)) {
      const std::set<std::int32_t> own(cpu.experts.begin() + static_cast<std::ptrdiff_t>(row),
                                       cpu.experts.begin() + static_cast<std::ptrdiff_t>(row) + mixture.chosen);
      ASSERT_EQ(std::ssize(own), mixture.chosen) << name;
      ASSERT_TRUE(*own.begin() >= 0 && *own.rbegin() < mixture.experts) << name;
      double sum = 0;
      for (int n = 0; n < mixture.chosen; ++n) sum += static_cast<double>(cpu.weights[row + index_of(n)]);
      if (mixture.normalized) {
        ASSERT_NEAR(sum, 1, 1e-5) << name;
      } else {
        ASSERT_LT(sum, 1) << name;
      }
    }
  }
}

TEST(KeptExperts, DenseLayersHaveNone) {
  WrittenMixture written("qwen3_moe");
  written.config["mlp_only_layers"] = {0};
  written.tensors = test::random_weights(written.config);
  test::write_checkpoint(written.folder, written.config, written.tensors);
  const Checkpoint checkpoint = Checkpoint::open(written.folder.text());
  for (const auto& model :
       {CausalLM::load(checkpoint, Device{}, DType::float32), load_torch_model(checkpoint, Device{}, DType::float32)}) {
    const KeptExperts kept = kept_of(*model, {0, 3, 7});
    for (std::size_t n = 0; n < 6; ++n) {
      EXPECT_EQ(kept.experts[n], -1);
      EXPECT_EQ(kept.weights[n], 0);
      EXPECT_GE(kept.experts[6 + n], 0);
      EXPECT_GT(kept.weights[6 + n], 0);
    }
  }
}

/// Options that no fixture has: the CPU's steps against LibTorch's, which share no code, and the next position's.
TEST(MixtureOptions, TwoWaysToComputeAgree) {
  const std::pair<const char*, json> options[] = {
      {"olmoe", {{"clip_qkv", 0.4}}},
      {"olmoe", {{"norm_topk_prob", true}, {"num_experts_per_tok", 4}}},
      {"qwen3_moe", {{"mlp_only_layers", {0}}, {"norm_topk_prob", true}, {"attention_bias", true}}},
      {"qwen3_moe", {{"use_sliding_window", true}, {"sliding_window", 3}}},
      {"mixtral", {{"sliding_window", 3}, {"num_experts_per_tok", 1}}},
      {"gpt_oss", {{"swiglu_limit", 0.2}, {"sliding_window", 2}}},
      {"gpt_oss", {{"attention_bias", false}}},
      {"qwen3_next", {{"decoder_sparse_step", 2}, {"norm_topk_prob", false}}},
      {"qwen3_5_moe_text", {{"num_experts_per_tok", 3}}},
      {"granitemoe",
       {{"embedding_multiplier", 3},
        {"attention_multiplier", 0.3},
        {"residual_multiplier", 0.4},
        {"logits_scaling", 5}}},
  };
  const std::vector<std::int32_t> ids = {0, 3, 9, 9, 4, 7, 1, 10, 2, 6, 5};
  for (const auto& [name, keys] : options) {
    SCOPED_TRACE(std::string(name) + " " + keys.dump());
    WrittenMixture written(name);
    written.config.update(keys);
    written.tensors = test::random_weights(written.config);
    test::write_checkpoint(written.folder, written.config, written.tensors);
    const Checkpoint checkpoint = Checkpoint::open(written.folder.text());
    const auto model = CausalLM::load(checkpoint, Device{}, DType::float32);
    const auto composed = load_torch_model(checkpoint, Device{}, DType::float32);
    const KeptExperts own = kept_of(*model, ids);
    const KeptExperts twin = kept_of(*composed, ids);
    EXPECT_EQ(own.experts, twin.experts);
    EXPECT_LE(test::largest_difference(own.logits, twin.logits), 2e-5);
    test::check_continued(*model, ids, own.logits, 4, 2e-5);
    test::check_continued(*composed, ids, own.logits, 4, 2e-5);
  }
}

/// Writes NaN over every expert of a checkpoint's file that no position chose.
/// @returns how many there were
int spoil_unread(const std::string& file, const KeptExperts& kept, const ModelConfig& config) {
  const ExpertMixture& mixture = *config.mixture;
  std::map<std::string, std::pair<std::uint64_t, std::uint64_t>> places;
  {
    const SafetensorsFile mapped(file);
    for (const auto& [name, view] : mapped.tensors()) {
      places[name] = {static_cast<std::uint64_t>(view.bytes.data() - mapped.bytes().data()), view.bytes.size()};
    }
  }
  const std::size_t size = kept.experts.size() / index_of(config.layers);
  std::fstream out(file, std::ios::in | std::ios::out | std::ios::binary);
  int spoilt = 0;
  for (const Parameter& parameter : parameters(config)) {
    const bool in = parameter.of_layer == &LayerWeights::experts_in;
    if (!in && parameter.of_layer != &LayerWeights::experts_out) continue;
    const auto begin = kept.experts.begin() + static_cast<std::ptrdiff_t>(index_of(parameter.layer) * size);
    const std::set<std::int32_t> read(begin, begin + static_cast<std::ptrdiff_t>(size));
    const auto [offset, bytes] = places.at(parameter.name);
    const std::int64_t numbers = (in ? 2 : 1) * mixture.size * config.hidden_size;
    const bool together = parameter.shape.size() == 3;
    for (int expert = 0; expert < mixture.experts; ++expert) {
      if (read.contains(expert) || (!together && parameter.first / numbers != expert)) continue;
      const std::uint64_t part = together ? bytes / static_cast<std::uint64_t>(mixture.experts) : bytes;
      out.seekp(static_cast<std::streamoff>(offset + (together ? part * static_cast<std::uint64_t>(expert) : 0)));
      out << std::string(part, '\xff');
      ++spoilt;
    }
  }
  return spoilt;
}

TEST(MappedExperts, AreReadOnlyWhereTheyAreChosen) {
  for (const char* name : {"gpt_oss", "qwen3_moe", "qwen3_5_moe-published"}) {
    const test::TemporaryFolder folder;
    for (const char* file : {"config.json", "model.safetensors"}) {
      std::filesystem::copy_file(test::data_path(std::string("published/") + name) + "/" + file, folder.path() / file);
    }
    const std::string weights = (folder.path() / "model.safetensors").string();
    std::filesystem::permissions(weights, std::filesystem::perms::owner_write, std::filesystem::perm_options::add);
    const std::vector<std::int32_t> ids = {5, 9};
    const Checkpoint before = Checkpoint::open(folder.text());
    const KeptExperts wanted = kept_of(*CausalLM::load(before, Device{}, DType::float32), ids);
    EXPECT_GT(spoil_unread(weights, wanted, before.config()), 0) << name;
    const KeptExperts found = kept_of(*CausalLM::load(Checkpoint::open(folder.text()), Device{}, DType::float32), ids);
    EXPECT_EQ(found.experts, wanted.experts) << name;
    EXPECT_EQ(test::largest_difference(found.logits, wanted.logits), 0) << name;
  }
}

TEST(DroppedExperts, WeighNothing) {
  const std::string folder = test::data_path("published/qwen3_moe");
  const Checkpoint checkpoint = Checkpoint::open(folder);
  const std::vector<std::int32_t> ids = test::read_ids(SafetensorsFile(folder + "/golden.safetensors"), "input_ids");
  const auto model = CausalLM::load(checkpoint, Device{}, DType::float32);
  const auto composed = load_torch_model(checkpoint, Device{}, DType::float32);
  const KeptExperts whole = kept_of(*model, ids);
  const KeptExperts changed = kept_of(*model, ids, {"1:*:drop=2", "1:*:drop=4"});
  const KeptExperts twin = kept_of(*composed, ids, {"1:*:drop=2", "1:*:drop=4"});
  EXPECT_LE(test::largest_difference(changed.logits, twin.logits), 1e-4);
  EXPECT_LE(test::largest_difference(changed.weights, twin.weights), 1e-5);
  EXPECT_GT(test::largest_difference(changed.logits, whole.logits), 1e-3);
  EXPECT_EQ(changed.experts, whole.experts);  // nothing before the layer's experts is changed
  const std::size_t layer = whole.weights.size() / 2;
  const std::size_t vocabulary = whole.logits.size() / ids.size();
  for (std::size_t n = 0; n < whole.weights.size(); ++n) {
    const bool dropped = n >= layer && (whole.experts[n] == 2 || whole.experts[n] == 4);
    EXPECT_EQ(changed.weights[n], dropped ? 0 : whole.weights[n]);
  }
  // The second layer is the last: positions that chose neither have the same logits.
  for (std::size_t position = 0; position < ids.size(); ++position) {
    const std::size_t at = layer + 2 * position;
    if (changed.weights[at] == 0 || changed.weights[at + 1] == 0) continue;
    for (std::size_t n = position * vocabulary; n < (position + 1) * vocabulary; ++n) {
      ASSERT_EQ(changed.logits[n], whole.logits[n]);
    }
  }
  const auto said = [&](CausalLM& of, const char* text) {
    return test::error_of<UsageError>([&] { kept_of(of, ids, {text}); });
  };
  EXPECT_PRED2(test::says, said(*model, "0:*:drop=6"), (Parts{"there is no expert 6: the model and text have 0 to 5"}));
  const auto llama = CausalLM::load(Checkpoint::open(test::data_path("llama")), Device{}, DType::float32);
  EXPECT_PRED2(test::says, said(*llama, "0:*:drop=0"), (Parts{"--intervene '0:*:drop=0': the model has no experts"}));
}

/// Nobody looks at the experts of a file before they are read.
TEST(MappedExperts, ThatAreNoNumbersAreNamed) {
  const test::TemporaryFolder folder;
  for (const char* file : {"config.json", "model.safetensors"}) {
    std::filesystem::copy_file(test::data_path(std::string("published/mixtral/") + file), folder.path() / file);
  }
  const std::string file = (folder.path() / "model.safetensors").string();
  std::uint64_t place = 0;
  {
    const SafetensorsFile mapped(file);
    const TensorView& view = mapped.tensors().at("model.layers.1.block_sparse_moe.experts.2.w2.weight");
    place = static_cast<std::uint64_t>(view.bytes.data() - mapped.bytes().data());
  }
  std::fstream(file, std::ios::in | std::ios::out | std::ios::binary).seekp(static_cast<std::streamoff>(place))
      << std::string(64, '\xff');
  test::AskedRun asked;
  asked.model = folder.text();
  for (std::int32_t id = 3; id < 60; ++id) asked.input.ids.push_back(id);
  asked.device = DeviceChoice::parse("cpu");
  asked.bos = 1;
  EXPECT_PRED2(test::says, test::error_of([&] { test::run(asked, {}); }),
               (Parts{"layer 1: the sum of experts ", "2", "is not a finite number at position "}));
}

TEST(KeptExperts, AreRefusedWhereThereAreNone) {
  test::AskedRun asked;
  asked.model = test::data_path("llama");
  asked.input.ids = {1, 2, 3};
  asked.keep = {Keep::experts};
  EXPECT_PRED2(test::says, test::error_of<UsageError>([&] { test::run(asked, {}); }),
               (Parts{"llama is no mixture of experts: leave experts out of --keep"}));
  asked.model = test::data_path("published/mixtral");
  asked.keep = {Keep::saliency};
  EXPECT_PRED2(test::says, test::error_of<UsageError>([&] { test::run(asked, {}); }),
               (Parts{"mixtral is a mixture of experts", "leave saliency out of --keep"}));
}

}  // namespace
}  // namespace foxscope
