// Hybrids and models of linear mixers as they are published: what transformers or FLA return for a small checkpoint of
// each, the continuation against the pass over the whole, and the maps that a trace gives.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <optional>
#include <string>

#include <gtest/gtest.h>

#include "backend/base/index.h"
#include "backend/map/map_line.h"
#include "backend/model/layer/checks.h"
#include "backend/model/session/decode_state.h"
#include "backend/model/session/torch_model.h"
#include "tests/model/model_test_support.h"

namespace foxscope {
namespace {

using test::largest_difference;

/// Logits are held to this share of the largest.
constexpr double kHybridShare = 2e-4;
constexpr double kHybridEntryBound = 1e-4;

/// The file of maps of linear layers; of a model without such layers that of its outputs.
std::string maps_of(const std::string& folder) {
  const std::string maps = folder + "/golden_maps.safetensors";
  return std::filesystem::exists(maps) ? maps : folder + "/golden.safetensors";
}

struct HybridGolden {
  explicit HybridGolden(const std::string& name)
      : golden(test::data_path("published/" + name) + "/golden.safetensors"),
        maps(maps_of(test::data_path("published/" + name))),
        checkpoint(Checkpoint::open(test::data_path("published/" + name))),
        ids(test::read_ids(golden, "input_ids")),
        labels(test::read_ids(golden, "labels")),
        logits(test::read_floats(golden, "logits")),
        losses(test::read_floats(golden, "per_token_loss")) {
    for (const float logit : logits) largest = std::max(largest, std::abs(static_cast<double>(logit)));
  }
  [[nodiscard]] std::unique_ptr<CausalLM> load() const { return CausalLM::load(checkpoint, Device{}, DType::float32); }
  [[nodiscard]] std::unique_ptr<CausalLM> load_composed() const {
    return load_torch_model(checkpoint, Device{}, DType::float32);
  }
  /// The layer of the file that a layer of the model is.
  [[nodiscard]] int layer_of_file(int layer) const { return checkpoint.config().layer_of_file(layer); }
  SafetensorsFile golden;
  SafetensorsFile maps;
  Checkpoint checkpoint;
  std::vector<std::int32_t> ids, labels;
  /// The library's numbers of the last positions.
  std::vector<float> logits, losses;
  double largest = 0;
};

std::shared_ptr<const Trace> run_hybrid(CausalLM& model, const HybridGolden& wanted) {
  test::Batch batch;
  batch.input_ids = wanted.ids;
  batch.labels = wanted.labels;
  batch.keep = {Keep::loss, Keep::logits, Keep::gates, Keep::rows, Keep::query_key, Keep::values};
  return test::run_batch(model, batch).traces.front();
}

double check_outputs(const Trace& trace, const HybridGolden& wanted) {
  const std::vector<float> logits = trace.source().logits();
  const double of_logits = largest_difference(std::span(logits).last(wanted.logits.size()), wanted.logits);
  EXPECT_LE(of_logits, kHybridShare * wanted.largest);
  EXPECT_LE(largest_difference(trace.per_token_loss(), wanted.losses), kHybridShare * wanted.largest);
  return of_logits / wanted.largest;
}

/// The last rows of maps of a layer, [heads, rows, L], against a golden of these. A head with several steps a position
/// has a golden column for each of them, [heads, rows, L steps].
/// @returns the largest error, by row in parts of its largest entry where the entries have no bound
double check_maps(const std::shared_ptr<const Trace>& trace, int layer, Quantity quantity, const SafetensorsFile& file,
                  const std::string& name) {
  const auto& shape = file.tensors().at(name).shape;
  const std::vector<float> wanted = test::read_floats(file, name);
  const std::size_t first = shape.size() - 3;
  const std::int64_t steps = trace->info().mixer(layer).steps();
  const std::int64_t heads = shape[first] * steps;
  const std::int64_t rows = shape[first + 1];
  const std::int64_t length = shape[first + 2] / steps;
  double worst = 0;
  for (std::int64_t head = 0; head < heads; ++head) {
    for (std::int64_t row = 0; row < rows; ++row) {
      const std::int64_t query = length - rows + row;
      LineRequest request;
      request.head.trace = trace;
      request.head.layer = layer;
      request.head.head = static_cast<int>(head);
      request.quantity = quantity;
      request.line = {MapLine::Along::row, query};
      request.positions = {0, query + 1};
      const auto entries = line_entries(request, Job());
      EXPECT_TRUE(entries.has_value());
      if (!entries) return std::numeric_limits<double>::infinity();
      std::vector<float> of_row;
      for (std::int64_t key = 0; key < length; ++key) {
        of_row.push_back(wanted[index_of(((head / steps * rows + row) * length + key) * steps + head % steps)]);
      }
      double largest = quantity == Quantity::attention ? 1 : 0;
      double error = 0;
      for (std::size_t key = 0; key <= index_of(query); ++key) {
        // An entry outside a window is not a number.
        const float entry = std::isnan((*entries)[key]) ? 0.0F : (*entries)[key];
        largest = std::max(largest, std::abs(static_cast<double>(of_row[key])));
        error = std::max(error, std::abs(static_cast<double>(entry) - static_cast<double>(of_row[key])));
      }
      worst = std::max(worst, error / largest);
    }
  }
  EXPECT_LE(worst, kHybridEntryBound) << name;
  return worst;
}

/// Differences of the sums that a trace keeps, against log decays.
double check_log_decays(const Trace& trace, int layer, const SafetensorsFile& maps, const std::string& name) {
  if (!maps.tensors().contains(name)) return 0;
  const LayerMixer mixer = trace.info().mixer(layer);
  const bool by_channel = mixer.sums_channels();
  std::vector<float> wanted = test::read_floats(maps, name);
  const auto steps = static_cast<std::size_t>(mixer.steps());
  if (steps > 1) {
    const auto length = static_cast<std::size_t>(trace.info().length);
    std::vector<float> repeated;
    for (std::size_t row = 0; row < wanted.size() / length * steps; ++row) {
      const auto of_row = std::span(wanted).subspan(row / steps * length, length);
      repeated.insert(repeated.end(), of_row.begin(), of_row.end());
    }
    wanted = repeated;
  }
  const std::vector<double> sums = trace.source().copy<double>(
      by_channel ? TraceArray::cumulative_log_decay : TraceArray::cumulative_log_gate, layer);
  EXPECT_EQ(sums.size(), wanted.size()) << name;
  if (sums.size() != wanted.size()) return std::numeric_limits<double>::infinity();
  const std::size_t step = by_channel ? static_cast<std::size_t>(mixer.head_dim) : 1;
  const std::size_t of_head = step * index_of(trace.info().length);
  double worst = 0;
  for (std::size_t n = 0; n < sums.size(); ++n) {
    const double before = n % of_head < step ? 0 : sums[n - step];
    const auto golden = static_cast<double>(wanted[n]);
    worst = std::max(worst, std::abs(sums[n] - before - golden) / std::max(1.0, std::abs(golden)));
  }
  EXPECT_LE(worst, 1e-5) << name;
  return worst;
}

void check_layers(const std::shared_ptr<const Trace>& trace, const HybridGolden& wanted) {
  double of_attention = 0;
  double of_mixing = 0;
  double of_decays = 0;
  for (int layer = 0; layer < trace->info().layers; ++layer) {
    const LayerMixer mixer = trace->info().mixer(layer);
    const std::string prefix = "layers." + std::to_string(wanted.layer_of_file(layer)) + ".";
    if (mixer.has_softmax()) {
      const std::string name = prefix + "attention";
      of_attention = std::max(of_attention, check_maps(trace, layer, Quantity::attention, wanted.golden, name));
    } else if (mixer.kind().mixes && wanted.maps.tensors().contains(prefix + "mixing")) {
      of_mixing = std::max(of_mixing, check_maps(trace, layer, Quantity::mixing, wanted.maps, prefix + "mixing"));
      of_decays = std::max(of_decays, check_log_decays(*trace, layer, wanted.maps, prefix + "log_decay"));
    }
    if (!mixer.kind().writes_beta || !wanted.maps.tensors().contains(prefix + "beta")) continue;
    // Steps are side by side in the golden's rows.
    const std::vector<float> found = trace->source().copy<float>(TraceArray::beta, layer);
    const std::vector<float> golden = test::read_floats(wanted.maps, prefix + "beta");
    const auto steps = static_cast<std::size_t>(mixer.steps());
    const auto length = static_cast<std::size_t>(trace->info().length);
    std::vector<float> in_turn(found.size());
    for (std::size_t n = 0; n < found.size(); ++n) {
      const std::size_t head = n / length;
      in_turn[(head / steps * length + n % length) * steps + head % steps] = found[n];
    }
    EXPECT_LE(largest_difference(in_turn, golden), 1e-5) << prefix;
  }
  testing::Test::RecordProperty("attention", std::to_string(of_attention));
  testing::Test::RecordProperty("mixing", std::to_string(of_mixing));
  testing::Test::RecordProperty("decays", std::to_string(of_decays));
}

class Hybrid : public testing::TestWithParam<const char*> {};

TEST_P(Hybrid, GivesTheLibrarysOutputs) {
  const HybridGolden wanted(GetParam());
  const auto model = wanted.load();
  const auto trace = run_hybrid(*model, wanted);
  testing::Test::RecordProperty("logits", std::to_string(check_outputs(*trace, wanted)));
  check_layers(trace, wanted);
}

TEST_P(Hybrid, ComposedTwinGivesTheLibrarysOutputs) {
  const HybridGolden wanted(GetParam());
  const auto model = wanted.load_composed();
  const auto trace = run_hybrid(*model, wanted);
  check_outputs(*trace, wanted);
  check_layers(trace, wanted);
}

TEST_P(Hybrid, ContinuesAsTheWholeTextGoesOn) {
  const HybridGolden wanted(GetParam());
  const double bound = kHybridShare * wanted.largest;
  const std::vector<float> logits = run_hybrid(*wanted.load(), wanted)->source().logits();
  for (const std::size_t prompt : {1, 50}) {
    test::check_continued(*wanted.load(), wanted.ids, logits, prompt, bound);
    test::check_continued(*wanted.load_composed(), wanted.ids, logits, prompt, bound);
  }
}

TEST_P(Hybrid, ReadsSeveralTextsAsItReadsEach) {
  const HybridGolden wanted(GetParam());
  const auto half = static_cast<std::ptrdiff_t>(wanted.ids.size()) / 2;
  const std::vector<float> whole = run_hybrid(*wanted.load(), wanted)->source().logits();
  const auto first = std::span(whole).first(whole.size() / 2);
  for (const auto& model : {wanted.load(), wanted.load_composed()}) {
    test::Batch batch;
    batch.size = 2;
    batch.keep = {Keep::logits};
    batch.input_ids.assign(wanted.ids.begin() + half, wanted.ids.end());
    batch.input_ids.insert(batch.input_ids.end(), wanted.ids.begin(), wanted.ids.begin() + half);
    batch.labels = batch.input_ids;
    const auto traces = test::run_batch(*model, batch).traces;
    EXPECT_LE(largest_difference(traces[1]->source().logits(), first), kHybridShare * wanted.largest);
  }
}

/// A cut head gives nothing, and in a layer that decays a changed decay changes what follows.
TEST_P(Hybrid, IsChangedByInterventions) {
  const HybridGolden wanted(GetParam());
  const ModelConfig& config = wanted.checkpoint.config();
  const std::vector<float> whole = run_hybrid(*wanted.load(), wanted)->source().logits();
  for (int layer = 0; layer < config.layers; ++layer) {
    if (!config.has_mixer(layer)) continue;
    const bool decays = config.layer(layer).decays() && !config.is_attention(layer);
    for (const std::string kind : {"cut", "constant=0.5"}) {
      if (kind != "cut" && !decays) continue;
      const std::string change = std::to_string(layer) + ":*:" + kind;
      std::vector<std::vector<float>> logits;
      for (const auto& model : {wanted.load(), wanted.load_composed()}) {
        test::Batch batch;
        batch.input_ids = wanted.ids;
        batch.labels = wanted.labels;
        batch.keep = {Keep::logits};
        batch.interventions = {Intervention::parse(change)};
        const auto found = test::run_batch(*model, batch).traces.front()->source().logits();
        logits.emplace_back(found.begin(), found.end());
      }
      EXPECT_LE(largest_difference(logits[0], logits[1]), kHybridShare * wanted.largest) << change;
      EXPECT_GT(largest_difference(logits[0], whole), 5e-4 * wanted.largest) << change;
    }
  }
}

/// The steps of a position share its decay, and each can be cut by itself: y is the sum of what they give.
TEST(DeltaProduct, StepsShareTheDecayAndAreCutOneByOne) {
  const HybridGolden wanted("fla-gated_deltaproduct");
  const auto run = [&](CausalLM& model, const std::string& change) {
    test::Batch batch;
    batch.input_ids = wanted.ids;
    batch.labels = wanted.labels;
    batch.keep = {Keep::logits};
    batch.interventions = {Intervention::parse(change)};
    const auto logits = test::run_batch(model, batch).traces.front()->source().logits();
    return std::vector<float>(logits.begin(), logits.end());
  };
  const auto fast = wanted.load();
  const auto twin = wanted.load_composed();
  const std::vector<float> one = run(*fast, "1:3:cut");
  EXPECT_LE(largest_difference(one, run(*twin, "1:3:cut")), kHybridShare * wanted.largest);
  EXPECT_GT(largest_difference(one, run(*fast, "1:2:cut")), 5e-4 * wanted.largest);
  EXPECT_PRED2(test::says, test::error_of([&] {
                 check_interventions(std::vector{Intervention::parse("0:3:one")}, wanted.checkpoint.config(), 96);
               }),
               (test::Parts{"layer 0 has 8 heads that share the decays of 4", "use * for the head"}));
}

using nlohmann::json;
using test::Parts;

json tiny_hybrid(const std::string& model_type, const json& keys = json::object()) {
  json config = {{"model_type", model_type}, {"vocab_size", 23},        {"hidden_size", 16},
                 {"num_hidden_layers", 2},   {"intermediate_size", 12}, {"num_attention_heads", 2},
                 {"num_key_value_heads", 1}};
  const json mamba = {{"mamba_n_heads", 4}, {"mamba_d_head", 8}, {"mamba_d_state", 6}};
  if (model_type == "bamba") config.update({{"attn_layer_indices", {1}}});
  if (model_type == "granitemoehybrid") {
    config.update(
        {{"num_local_experts", 0}, {"shared_intermediate_size", 12}, {"layer_types", {"mamba", "attention"}}});
  }
  if (model_type == "nemotron_h") {
    config.update({{"hybrid_override_pattern", "M-*"},
                   {"num_hidden_layers", 3},
                   {"mamba_num_heads", 4},
                   {"mamba_head_dim", 8},
                   {"ssm_state_size", 6},
                   {"n_groups", 2}});
  } else if (model_type == "recurrent_gemma") {
    config.update({{"block_types", {"recurrent", "attention"}}, {"attention_window_size", 9}});
  } else if (model_type == "olmo_hybrid") {
    config.update({{"layer_types", {"linear_attention", "full_attention"}},
                   {"linear_key_head_dim", 5},
                   {"linear_value_head_dim", 6},
                   {"linear_num_key_heads", 1}});
  } else if (model_type == "kimi_linear") {
    config.update({{"num_key_value_heads", 2},
                   {"kv_lora_rank", 6},
                   {"qk_nope_head_dim", 5},
                   {"qk_rope_head_dim", 3},
                   {"v_head_dim", 4},
                   {"num_experts", 4},
                   {"num_experts_per_token", 2},
                   {"moe_intermediate_size", 6},
                   {"num_shared_experts", 1},
                   {"first_k_dense_replace", 1},
                   {"linear_attn_config",
                    {{"kda_layers", {1}},
                     {"full_attn_layers", {2}},
                     {"num_heads", 2},
                     {"head_dim", 4},
                     {"short_conv_kernel_size", 3}}}});
  } else if (model_type == "minimax") {
    config.update({{"layer_types", {"linear_attention", "full_attention"}},
                   {"num_local_experts", 4},
                   {"num_experts_per_tok", 2},
                   {"linear_attn_alpha_factor", 1.5},
                   {"linear_attn_beta_factor", 0.5},
                   {"full_attn_alpha_factor", 2},
                   {"mlp_alpha_factor", 1.25},
                   {"mlp_beta_factor", 0.75}});
  } else if (model_type == "zamba2") {
    config.update({{"layers_block_type", {"mamba", "hybrid", "hybrid", "hybrid"}},
                   {"num_hidden_layers", 4},
                   {"num_key_value_heads", 2},
                   {"num_mem_blocks", 2},
                   {"adapter_rank", 3},
                   {"n_mamba_heads", 4},
                   {"mamba_d_state", 6}});
  } else {
    config.update(mamba);
  }
  config.update(keys);
  return config;
}

/// Options that no fixture has: the CPU's steps against LibTorch's, which share no code, and the next position's.
TEST(HybridOptions, TwoWaysToComputeAgree) {
  const std::pair<const char*, json> options[] = {
      {"bamba", {{"attention_bias", true}, {"mlp_bias", true}, {"mamba_proj_bias", true}, {"mamba_n_groups", 2}}},
      {"bamba", {{"attn_layer_indices", {0, 1}}}},
      {"bamba", {{"attn_layer_indices", nullptr}, {"mamba_d_head", "auto"}}},
      {"granitemoehybrid", {{"position_embedding_type", "rope"}, {"residual_multiplier", 0.5}, {"logits_scaling", 3}}},
      {"nemotron_h", {{"mlp_bias", true}, {"use_bias", true}, {"attention_bias", true}}},
      {"nemotron_h", {{"hybrid_override_pattern", "-M-"}}},
      {"falcon_h1",
       {{"mamba_rms_norm", true},
        {"mamba_norm_before_gate", false},
        {"mamba_n_groups", 2},
        {"ssm_multipliers", {0.5, 2, 0.25, 3, 0.7}},
        {"mlp_multipliers", {0.5, 2}},
        {"key_multiplier", 0.3},
        {"projectors_bias", true},
        {"mamba_proj_bias", true}}},
      {"falcon_h1", {{"mamba_rms_norm", true}, {"attention_bias", true}, {"mlp_bias", true}, {"mamba_d_ssm", 32}}},
      {"olmo_hybrid", {{"rope_parameters", {{"rope_theta", 500.0}}}, {"linear_num_value_heads", 2}}},
      {"olmo_hybrid", {{"linear_allow_neg_eigval", false}, {"attention_bias", true}}},
      {"recurrent_gemma", {{"attention_bias", true}, {"lru_width", 24}, {"logits_soft_cap", nullptr}}},
      {"recurrent_gemma", {{"block_types", {"recurrent"}}}},
      {"granitemoehybrid", {{"num_local_experts", 4}, {"num_experts_per_tok", 3}}},
      {"nemotron_h",
       {{"hybrid_override_pattern", "ME*"},
        {"n_routed_experts", 4},
        {"num_experts_per_tok", 2},
        {"moe_intermediate_size", 6},
        {"moe_shared_expert_intermediate_size", 7},
        {"n_group", 2},
        {"topk_group", 1},
        {"routed_scaling_factor", 1.5}}},
      {"kimi_linear", {{"num_expert_group", 2}, {"topk_group", 1}, {"v_head_dim", 8}}},
      {"kimi_linear", {{"num_experts", nullptr}}},
      {"minimax", {{"head_dim", 6}, {"full_attn_beta_factor", 0.5}}},
      {"minimax", {{"layer_types", nullptr}, {"num_hidden_layers", 3}}},
      {"zamba2", {{"use_mem_rope", true}, {"use_shared_attention_adapter", true}}},
      {"zamba2", {{"use_mem_rope", true}, {"add_bias_linear", true}}},
      {"zamba2", {{"num_mem_blocks", 1}, {"num_key_value_heads", 1}, {"mamba_ngroups", 2}, {"hidden_act", "silu"}}},
      {"zamba2", {{"layers_block_type", {"mamba", "mamba", "mamba", "mamba"}}, {"tie_word_embeddings", false}}},
  };
  for (const auto& [model_type, keys] : options) {
    SCOPED_TRACE(std::string(model_type) + " " + keys.dump());
    const test::TemporaryFolder folder;
    const json config = tiny_hybrid(model_type, keys);
    std::vector<test::NamedTensor> weights = test::random_weights(config);
    if (model_type == std::string("zamba2")) {
      // Its attention beside the stream is sharp with weights as large: float32 is 4e-4 of the largest logit from
      // float64 then, in transformers too.
      for (test::NamedTensor& tensor : weights) {
        if (tensor.name.find("norm") != std::string::npos) continue;
        for (float& value : tensor.values) value *= 0.4F;
      }
    }
    test::write_checkpoint(folder, config, weights);
    const Checkpoint checkpoint = Checkpoint::open(folder.text());
    test::Batch batch;
    batch.keep = {Keep::logits};
    for (std::int32_t n = 0; n < 70; ++n) batch.input_ids.push_back(n * 7 % 23);
    batch.labels = batch.input_ids;
    const auto fast = CausalLM::load(checkpoint, Device{}, DType::float32);
    const auto twin = load_torch_model(checkpoint, Device{}, DType::float32);
    const auto trace = test::run_batch(*fast, batch).traces.front();
    const auto logits = trace->source().logits();
    double largest = 0;
    for (const float logit : logits) largest = std::max(largest, std::abs(static_cast<double>(logit)));
    EXPECT_LE(largest_difference(logits, test::run_batch(*twin, batch).traces.front()->source().logits()),
              kHybridShare * largest);
    const std::vector<float> wanted(logits.begin(), logits.end());
    test::check_continued(*fast, batch.input_ids, wanted, 33, kHybridShare * largest);
    test::check_continued(*twin, batch.input_ids, wanted, 33, kHybridShare * largest);
  }
}

TEST(HybridConfig, RefusesWhatDoesNotFit) {
  const auto refusal = [](const std::string& model_type, const json& keys) {
    return test::error_of([&] { ModelConfig::from_json(tiny_hybrid(model_type, keys).dump(), "dir/config.json"); });
  };
  EXPECT_PRED2(test::says, refusal("bamba", {{"attn_layer_indices", {2}}}),
               (Parts{"dir/config.json", "attn_layer_indices is a list", "layers from 0 to 1"}));
  EXPECT_PRED2(test::says, refusal("bamba", {{"mamba_n_heads", 3}}), (Parts{"mamba_n_heads is 3", "mamba_expand"}));
  EXPECT_PRED2(test::says, refusal("bamba", {{"hidden_act", "gelu"}}), (Parts{"hidden_act is \"gelu\""}));
  EXPECT_PRED2(test::says, refusal("granitemoehybrid", {{"num_local_experts", 4}, {"num_experts_per_tok", 5}}),
               (Parts{"num_experts_per_tok is 5", "num_local_experts 4"}));
  EXPECT_PRED2(
      test::says, refusal("granitemoehybrid", {{"layer_types", {"mamba"}}}),
      (Parts{"layer_types is a list: it must be \"full_attention\" or \"linear_attention\" for each of 2 layers"}));
  EXPECT_PRED2(test::says, refusal("granitemoehybrid", {{"position_embedding_type", "alibi"}}),
               (Parts{"position_embedding_type is \"alibi\""}));
  EXPECT_PRED2(test::says, refusal("nemotron_h", {{"hybrid_override_pattern", "M*"}}),
               (Parts{"hybrid_override_pattern is \"M*\"", "a letter for each of 3 layers"}));
  EXPECT_PRED2(test::says, refusal("nemotron_h", {{"hybrid_override_pattern", "M*x"}}), (Parts{"of the letters M"}));
  EXPECT_PRED2(test::says, refusal("nemotron_h", {{"hybrid_override_pattern", "M*E"}}),
               (Parts{"n_routed_experts is missing"}));
  EXPECT_PRED2(test::says, refusal("nemotron_h", {{"hybrid_override_pattern", "---"}}), (Parts{"in some layer"}));
  const json words = {"mamba", "mlp", "moe"};
  const json otherwise = {{"hybrid_override_pattern", nullptr}, {"layers_block_type", words}};
  const auto named = [&](const json& keys) {
    json all = otherwise;
    all.update(keys);
    return refusal("nemotron_h", all);
  };
  EXPECT_PRED2(test::says, named({{"layers_block_type", {"mamba", "mlp"}}}),
               (Parts{"layers_block_type is a list: it must be a word for each of 3 layers"}));
  EXPECT_PRED2(test::says, named({{"layers_block_type", {"mamba", "mlp", "lstm"}}}),
               (Parts{"layers_block_type is a list: it must be a list of \"linear_attention\", \"full_attention\""}));
  EXPECT_PRED2(test::says, named({{"layers_block_type", "mamba"}}), (Parts{"layers_block_type is \"mamba\""}));
  EXPECT_PRED2(test::says, named({{"hybrid_override_pattern", "M-*"}}),
               (Parts{"layers_block_type is a list: it must be what hybrid_override_pattern says"}));
  EXPECT_PRED2(test::says, named({{"layer_types", {"mamba", "mlp", "mlp"}}}),
               (Parts{"layers_block_type is a list: it must be what layer_types says, which is another name of it"}));
  EXPECT_PRED2(test::says, named({{"layers_block_type", nullptr}, {"num_hidden_layers", nullptr}}),
               (Parts{"hybrid_override_pattern is missing: it must be a letter for each layer"}));
  EXPECT_PRED2(test::says,
               named({{"n_routed_experts", 4},
                      {"num_experts_per_tok", 2},
                      {"moe_intermediate_size", 5},
                      {"moe_shared_expert_intermediate_size", 5},
                      {"mlp_bias", true}}),
               (Parts{"mlp_bias is true, which Foxscope does not run: it runs false beside experts"}));
  EXPECT_PRED2(test::says, refusal("nemotron_h", {{"mlp_hidden_act", "silu"}}), (Parts{"mlp_hidden_act"}));
  EXPECT_PRED2(test::says, refusal("falcon_h1", {{"mamba_d_ssm", 24}}), (Parts{"mamba_d_ssm is 24", "mamba_n_heads"}));
  EXPECT_PRED2(test::says, refusal("falcon_h1", {{"ssm_multipliers", {1, 2}}}),
               (Parts{"ssm_multipliers is a list", "5 numbers"}));
  EXPECT_PRED2(test::says, refusal("falcon_h1", {{"attn_layer_indices", {1}}}), (Parts{"attn_layer_indices"}));
  EXPECT_PRED2(test::says, refusal("olmo_hybrid", {{"layer_types", {"full_attention", "lstm"}}}),
               (Parts{"layer_types is a list", "\"linear_attention\""}));
  EXPECT_PRED2(test::says, refusal("olmo_hybrid", {{"linear_num_value_heads", 3}, {"linear_num_key_heads", 2}}),
               (Parts{"linear_num_value_heads is 3"}));
  EXPECT_PRED2(test::says, refusal("recurrent_gemma", {{"block_types", {"lstm"}}}), (Parts{"block_types is a list"}));
  EXPECT_PRED2(test::says, refusal("recurrent_gemma", {{"intermediate_size", 13}}), (Parts{"intermediate_size is 13"}));
  EXPECT_PRED2(test::says, refusal("recurrent_gemma", {{"lru_width", 17}}), (Parts{"lru_width is 17"}));
  const auto layers = [](const json& kda, const json& full) {
    return json{{"kda_layers", kda}, {"full_attn_layers", full}, {"num_heads", 2}, {"head_dim", 4}};
  };
  EXPECT_PRED2(test::says, refusal("kimi_linear", {{"linear_attn_config", layers({0}, {2})}}),
               (Parts{"linear_attn_config.kda_layers is a list", "layers from 1 to 2"}));
  EXPECT_PRED2(test::says, refusal("kimi_linear", {{"linear_attn_config", layers({1, 2}, {2})}}),
               (Parts{"linear_attn_config.kda_layers", "each layer is in it or in full_attn_layers"}));
  EXPECT_PRED2(test::says, refusal("kimi_linear", {{"linear_attn_config", nullptr}}),
               (Parts{"linear_num_heads is missing: it must be a whole number"}));
  EXPECT_PRED2(test::says, refusal("kimi_linear", {{"layer_types", {"full_attention", "linear_attention"}}}),
               (Parts{"layer_types is a list: it must be what linear_attn_config says"}));
  EXPECT_PRED2(test::says, refusal("kimi_linear", {{"mlp_layer_types", {"dense", "moe"}}}),
               (Parts{"mlp_layer_types is a list: it must be \"dense\" or \"sparse\" for each of 2 layers"}));
  EXPECT_PRED2(test::says, refusal("kimi_linear", {{"moe_router_activation_func", "softmax"}}),
               (Parts{"moe_router_activation_func is \"softmax\", which Foxscope does not run: it runs \"sigmoid\""}));
  EXPECT_PRED2(test::says, refusal("kimi_linear", {{"num_key_value_heads", 1}}),
               (Parts{"num_key_value_heads is 1: it must be num_attention_heads, 2"}));
  EXPECT_PRED2(test::says, refusal("kimi_linear", {{"v_head_dim", 9}}), (Parts{"v_head_dim is 9", "from 1 to 8"}));
  EXPECT_PRED2(test::says, refusal("kimi_linear", {{"q_lora_rank", 4}}), (Parts{"q_lora_rank is 4"}));
  EXPECT_PRED2(test::says, refusal("kimi_linear", {{"num_expert_group", 3}, {"topk_group", 2}}),
               (Parts{"num_expert_group is 3", "divides num_experts 4"}));
  EXPECT_PRED2(test::says, refusal("minimax", {{"layer_types", {"linear_attention"}}}),
               (Parts{"layer_types is a list", "for each of 2 layers"}));
  EXPECT_PRED2(test::says, refusal("minimax", {{"mlp_alpha_factor", 0}}), (Parts{"mlp_alpha_factor is 0"}));
  EXPECT_PRED2(test::says, refusal("minimax", {{"sliding_window", 8}}), (Parts{"sliding_window is 8"}));
  EXPECT_PRED2(test::says, refusal("zamba2", {{"layers_block_type", {"mamba", "hybrid"}}}),
               (Parts{"layers_block_type is a list", "for each of 4 layers"}));
  EXPECT_PRED2(test::says, refusal("zamba2", {{"layers_block_type", nullptr}}), (Parts{"layers_block_type"}));
  EXPECT_PRED2(test::says, refusal("zamba2", {{"hybrid_layer_ids", {1, 2}}}),
               (Parts{"hybrid_layer_ids is a list", "[1,2,3]"}));
  EXPECT_PRED2(test::says, refusal("zamba2", {{"attention_head_dim", 8}}), (Parts{"attention_head_dim is 8", "16"}));
  EXPECT_PRED2(test::says, refusal("zamba2", {{"hidden_act", "relu"}}), (Parts{"hidden_act is \"relu\""}));
  EXPECT_PRED2(test::says, refusal("zamba2", {{"use_long_context", true}}), (Parts{"use_long_context is true"}));
  EXPECT_PRED2(test::says, refusal("zamba2", {{"is_causal", false}}), (Parts{"is_causal is false", "runs true"}));
  EXPECT_PRED2(test::says, refusal("zamba2", {{"gated_linear_unit", false}}), (Parts{"gated_linear_unit is false"}));
  EXPECT_PRED2(test::says, refusal("zamba2", {{"num_key_value_heads", 1}, {"use_shared_attention_adapter", true}}),
               (Parts{"use_shared_attention_adapter is true"}));
  EXPECT_PRED2(test::says, refusal("zamba2", {{"mamba_headdim", 7}}), (Parts{"n_mamba_heads is 4"}));
  for (const char* name : {"bamba", "granitemoehybrid", "nemotron_h", "falcon_h1", "olmo_hybrid", "recurrent_gemma",
                           "kimi_linear", "minimax", "zamba2"}) {
    EXPECT_PRED2(test::says, refusal(name, {{"sparkle", 4}}), (Parts{"sparkle", "does not know"})) << name;
  }
}

/// Keys and words by which transformers 5 saves what the hub's files say otherwise, and what it does with null.
TEST(HybridConfig, ReadsWhatTransformersSaves) {
  const auto read = [](const std::string& model_type, const json& keys) {
    return ModelConfig::from_json(tiny_hybrid(model_type, keys).dump(), "config.json");
  };
  const json both = {"linear_attention", "full_attention"};
  EXPECT_EQ(read("granitemoehybrid", {{"layer_types", both}}).mixers, (std::vector{Mixer::mamba2, Mixer::attention}));
  EXPECT_EQ(read("olmo_hybrid", {{"layer_types", {"mamba", "attention"}}}).mixers,
            (std::vector{Mixer::delta_rule, Mixer::attention}));
  EXPECT_EQ(read("olmo_hybrid", {{"layer_types", nullptr}, {"num_hidden_layers", 3}}).mixers,
            (std::vector{Mixer::delta_rule, Mixer::delta_rule, Mixer::attention}));
  const ModelConfig nemotron =
      read("nemotron_h", {{"hybrid_override_pattern", nullptr},
                          {"num_hidden_layers", nullptr},
                          {"layers_block_type", {"linear_attention", "mlp", "full_attention"}}});
  EXPECT_EQ(nemotron.mixers, (std::vector{Mixer::mamba2, Mixer::none, Mixer::attention}));
  EXPECT_EQ(read("zamba2", {{"layers_block_type", {"linear_attention", "hybrid", "hybrid", "hybrid"}}}).mixers,
            read("zamba2", json::object()).mixers);
  json kimi = tiny_hybrid("kimi_linear", {{"layer_types", both},
                                          {"mlp_layer_types", {"sparse", "dense"}},
                                          {"linear_num_heads", 2},
                                          {"linear_head_dim", 4},
                                          {"linear_conv_kernel_dim", 3}});
  kimi.erase("linear_attn_config");
  const ModelConfig saved = ModelConfig::from_json(kimi.dump(), "config.json");
  EXPECT_EQ(saved.mixers, read("kimi_linear", json::object()).mixers);
  EXPECT_EQ(saved.linear->key_dim, 4);
  EXPECT_EQ(saved.linear->convolution, 3);
  EXPECT_EQ(saved.sparse, (std::vector<bool>{true, false}));
  for (const char* name : {"bamba", "granitemoehybrid", "falcon_h1"}) {
    EXPECT_FALSE(read(name, {{"mamba_conv_bias", nullptr}}).linear->convolution_bias) << name;
  }
  for (const json& automatic : {json("auto"), json()}) {
    EXPECT_EQ(read("falcon_h1", {{"mamba_d_ssm", 24}, {"mamba_d_head", automatic}}).linear->value_dim, 6);
  }
  EXPECT_TRUE(read("kimi_linear", json::object()).mixture->normalized);
  EXPECT_FALSE(read("kimi_linear", {{"moe_renormalize", nullptr}}).mixture->normalized);
  const json normed = {{"mamba_rms_norm", true}, {"mamba_norm_before_gate", nullptr}};
  EXPECT_EQ(read("falcon_h1", normed).linear->gate, LinearGate::before_norm);
}

/// transformers 5.24 holds dt at time_step_min or above in these two families, whatever time_step_limit says.
TEST(HybridConfig, TheLeastStepIsTransformers) {
  const json limits = {{"time_step_limit", {0.0, 0.01}}};
  for (const char* name : {"nemotron_h", "zamba2"}) {
    const auto mixer = [&](json keys) {
      keys.update(limits);
      return *ModelConfig::from_json(tiny_hybrid(name, keys).dump(), "config.json").linear;
    };
    EXPECT_EQ(mixer({{"time_step_min", 0.25}}).lowest_step, 0.25) << name;
    EXPECT_EQ(mixer({{"time_step_min", 0.25}}).highest_step, std::numeric_limits<double>::infinity()) << name;
    EXPECT_EQ(mixer(json::object()).lowest_step, 1e-3) << name;
  }
  const LinearMixer bamba = *ModelConfig::from_json(tiny_hybrid("bamba", limits).dump(), "config.json").linear;
  EXPECT_EQ(bamba.highest_step, 0.01);
}

TEST(HybridConfig, RefusesHostileLists) {
  const std::vector<json> hostile = {json(-1),
                                     json(1e300),
                                     json("M"),
                                     json(true),
                                     json::array(),
                                     json({1, "x"}),
                                     json::object(),
                                     json({{"a", "full_attention"}, {"b", "mamba"}}),
                                     json::array({json::array({"mamba"}), nullptr}),
                                     json(std::string(4000, 'M')),
                                     json(std::vector<std::string>(4000, "mamba"))};
  for (const char* name : {"granitemoehybrid", "nemotron_h", "olmo_hybrid", "kimi_linear", "minimax", "zamba2"}) {
    for (const char* key : {"layer_types", "layers_block_type", "hybrid_override_pattern", "mlp_layer_types",
                            "linear_attn_config", "linear_num_heads", "hybrid_layer_ids"}) {
      for (const json& value : hostile) {
        json config = tiny_hybrid(name, {{key, value}});
        if (std::string(key) == "layers_block_type") config.erase("hybrid_override_pattern");
        const std::string message = test::error_of([&] {
          const ModelConfig read = ModelConfig::from_json(config.dump(), "dir/config.json");
          EXPECT_EQ(std::ssize(read.mixers), read.layers);
          EXPECT_LE(read.layers, 2048);
        });
        EXPECT_LE(message.size(), 400U) << message;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Published, Hybrid,
                         testing::Values("fla-gla-hybrid", "fla-gated_deltanet-hybrid", "fla-delta_net-hybrid",
                                         "fla-hgrn2-hybrid", "fla-retnet", "fla-linear_attn", "fla-mamba2", "mamba2-hf",
                                         "bamba", "granitemoehybrid-dense", "falcon_h1", "nemotron_h", "olmo_hybrid",
                                         "falcon_mamba", "recurrent_gemma", "fla-kda", "fla-comba", "fla-rwkv7",
                                         "granitemoehybrid-moe", "nemotron_h-moe", "kimi_linear", "minimax",
                                         "fla-path_attn", "fla-path_attn-fox", "fla-gated_deltaproduct", "zamba2"),
                         test::fixture_test_name);

}  // namespace
}  // namespace foxscope
