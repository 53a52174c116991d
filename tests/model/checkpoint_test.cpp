// Checkpoint folders: shards, missing and unexpected tensors, formats of numbers, the hub's cache.

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <limits>
#include <map>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "backend/model/weights/hub_cache.h"
#include "tests/model/model_test_support.h"

namespace foxscope {
namespace {

using nlohmann::json;
using test::NamedTensor;
using test::TemporaryFolder;

std::string open_error(const std::string& path) {
  return test::error_of([&] { Checkpoint::open(path); });
}

NamedTensor& named(std::vector<NamedTensor>& weights, const std::string& name) {
  for (NamedTensor& tensor : weights) {
    if (tensor.name == name) return tensor;
  }
  throw std::logic_error(name);
}

TEST(Checkpoint, OpensTheDemoModelsInShards) {
  const Checkpoint checkpoint = Checkpoint::open(test::demo_model("fox-pro-12m"));
  EXPECT_EQ(checkpoint.weight_files().size(), 2U);
  EXPECT_EQ(checkpoint.parameter_count(), 11569440);  // total_size of its index, in bfloat16
  EXPECT_EQ(checkpoint.config().layers, 8);
  EXPECT_EQ(checkpoint.tensor("lm_head.weight").shape, (std::vector<std::int64_t>{8192, 256}));
  EXPECT_EQ(checkpoint.weights_sha256({})->size(), 64U);
  EXPECT_PRED2(test::says, test::error_of([&] { (void)checkpoint.tensor("x"); }),
               (test::Parts{"there is no tensor x"}));
}

TEST(Checkpoint, RefusesFoldersWithoutWhatItNeeds) {
  const TemporaryFolder folder;
  EXPECT_PRED2(test::says, open_error(folder.text() + "/none"), (test::Parts{"none: no such folder", "owner/name"}));
  EXPECT_PRED2(test::says, open_error(""), (test::Parts{"no such folder"}));
  EXPECT_PRED2(test::says, open_error(folder.text()), (test::Parts{"holds no config.json"}));
  // A training's folder: the newest of its whole checkpoints is named.
  const std::filesystem::path training = folder.path() / "fox";
  std::filesystem::create_directories(training / "checkpoints");
  EXPECT_PRED2(test::says, open_error(training.string()), (test::Parts{"fox: holds no config.json"}));
  for (const char* name : {"step-000900", "step-1000000", "step-002000", ".unfinished-step-2000000", "step-3000000"}) {
    std::filesystem::create_directories(training / "checkpoints" / name);
    if (name != std::string("step-3000000")) std::ofstream(training / "checkpoints" / name / "config.json") << "{}";
  }
  EXPECT_EQ(open_error(training.string()),
            fmt::format("{0}: is the folder of a training: give one of its checkpoints, of which "
                        "{0}/checkpoints/step-1000000 is the newest",
                        training.string()));
  folder.write("config.json", test::tiny_config().dump());
  EXPECT_PRED2(test::says, open_error(folder.text()),
               (test::Parts{"holds config.json but no weights: put model.safetensors"}));
  EXPECT_PRED2(test::says, open_error((folder.path() / "config.json").string()),
               (test::Parts{"is a file: give the checkpoint folder"}));
  folder.write("pytorch_model.bin", "x");
  EXPECT_PRED2(test::says, open_error(folder.text()),
               (test::Parts{"pytorch_model.bin is a pickle", "python3 -c", "save_file"}));
}

/// The tensors of a folder of one file, with their bytes.
std::vector<NamedTensor> tensors_of(const Checkpoint& checkpoint) {
  std::vector<NamedTensor> tensors;
  for (const auto& [name, view] : checkpoint.tensors()) {
    NamedTensor& tensor = tensors.emplace_back(NamedTensor{name, view.shape, {}});
    checkpoint.read(name, [&](std::span<const float> piece) {
      tensor.values.insert(tensor.values.end(), piece.begin(), piece.end());
      return true;
    });
  }
  return tensors;
}

TEST(Checkpoint, NamesWhatItDoesNotRun) {
  const auto unread = [](const std::string& name) {
    std::map<std::string, std::size_t> parts;
    const Checkpoint checkpoint = Checkpoint::open(test::data_path("published/" + name));
    for (const Checkpoint::Unread& part : checkpoint.unread()) parts[part.prefix + ": " + part.words] = part.tensors;
    return parts;
  };
  EXPECT_EQ(unread("qwen3_5-published"), (std::map<std::string, std::size_t>{{"model.visual.: vision tower", 33},
                                                                             {"mtp.: multi-token prediction", 15}}));
  EXPECT_EQ(unread("ministral3-published"),
            (std::map<std::string, std::size_t>{{"multi_modal_projector.: projector of pictures", 4},
                                                {"vision_tower.: vision tower", 11}}));
  EXPECT_TRUE(unread("olmo2").empty());
}

TEST(Checkpoint, LooksForTheLanguageModelWhereItLies) {
  const Checkpoint published = Checkpoint::open(test::data_path("published/qwen3_5-published"));
  const auto renamed = [&](const std::string& from, const std::string& to) {
    std::vector<NamedTensor> tensors = tensors_of(published);
    for (NamedTensor& tensor : tensors) {
      if (tensor.name.starts_with(from)) tensor.name = to + tensor.name.substr(from.size());
    }
    const TemporaryFolder folder;
    test::write_checkpoint(folder, json::parse(published.config().json), tensors);
    return Checkpoint::open(folder.text()).config().name_prefix;
  };
  EXPECT_EQ(published.config().name_prefix, "model.language_model.");
  EXPECT_EQ(renamed("model.language_model.", "language_model.model."), "language_model.model.");
  EXPECT_EQ(renamed("model.language_model.", "model."), "model.");
  EXPECT_PRED2(test::says, test::error_of([&] { renamed("model.visual.", "model.visuals."); }),
               (test::Parts{"unexpected 33: model.visuals."}));
  EXPECT_PRED2(test::says, test::error_of([&] { renamed("model.language_model.norm", "model.language_model.norms"); }),
               (test::Parts{"missing 1: model.language_model.norm.weight", "unexpected 1"}));
}

TEST(Checkpoint, OpensShardsWhateverTheirNames) {
  const Checkpoint published = Checkpoint::open(test::data_path("published/qwen3_5-published"));
  const TemporaryFolder folder;
  folder.write("config.json", published.config().json);
  const std::vector<NamedTensor> tensors = tensors_of(published);
  json map;
  for (const bool second : {false, true}) {
    const std::string name = std::string("model.safetensors-0000") + (second ? "2" : "1") + "-of-00002.safetensors";
    std::vector<NamedTensor> own;
    for (std::size_t n = 0; n < tensors.size(); ++n) {
      if ((n % 2 == 1) != second) continue;
      own.push_back(tensors[n]);
      map[tensors[n].name] = name;
    }
    folder.write(name, test::safetensors_image(own));
  }
  folder.write("model.safetensors.index.json", json({{"weight_map", map}}).dump());
  const Checkpoint sharded = Checkpoint::open(folder.text());
  EXPECT_EQ(sharded.weight_files().size(), 2U);
  EXPECT_EQ(sharded.parameter_count(), published.parameter_count());
  EXPECT_EQ(sharded.unread().size(), 2U);
}

TEST(Checkpoint, AHeadThatIsNotThereIsTheEmbeddingWhereNothingIsSaid) {
  const Checkpoint published = Checkpoint::open(test::data_path("published/ministral3-published"));
  json config = json::parse(published.config().json);
  config.erase("tie_word_embeddings");
  config["text_config"].erase("tie_word_embeddings");
  const auto tied = [&](bool with_head) {
    std::vector<NamedTensor> tensors = tensors_of(published);
    if (!with_head)
      std::erase_if(tensors, [](const NamedTensor& tensor) { return tensor.name.ends_with("lm_head.weight"); });
    const TemporaryFolder folder;
    test::write_checkpoint(folder, config, tensors);
    return Checkpoint::open(folder.text()).config().tie_word_embeddings;
  };
  EXPECT_FALSE(tied(true));
  EXPECT_TRUE(tied(false));
}

TEST(Checkpoint, ATiedHeadIsTheEmbeddingItself) {
  const Checkpoint published = Checkpoint::open(test::data_path("published/qwen2-window"));
  ASSERT_TRUE(published.config().tie_word_embeddings);
  std::vector<NamedTensor> tensors = tensors_of(published);
  const auto embedding = std::ranges::find(tensors, "model.embed_tokens.weight", &NamedTensor::name);
  ASSERT_NE(embedding, tensors.end());
  NamedTensor head = *embedding;
  head.name = "lm_head.weight";
  tensors.push_back(head);
  const TemporaryFolder same;
  test::write_checkpoint(same, json::parse(published.config().json), tensors);
  EXPECT_TRUE(Checkpoint::open(same.text()).config().tie_word_embeddings);
  // One number in the middle of a matrix may differ.
  tensors.back().values[tensors.back().values.size() / 2] += 1;
  const TemporaryFolder other;
  test::write_checkpoint(other, json::parse(published.config().json), tensors);
  EXPECT_PRED2(test::says, open_error(other.text()),
               (test::Parts{"lm_head.weight is another matrix than model.embed_tokens.weight",
                            "set tie_word_embeddings false"}));
}

TEST(Checkpoint, ConfigMayBeNeitherFolderNorHuge) {
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder.path() / "config.json");
  EXPECT_PRED2(test::says, open_error(folder.text()),
               (test::Parts{"config.json: is a folder, not a configuration file"}));
  const TemporaryFolder huge;
  huge.write("config.json", "{}");
  std::filesystem::resize_file(huge.path() / "config.json", std::uintmax_t{1} << 32);  // sparse
  EXPECT_PRED2(test::says, open_error(huge.text()),
               (test::Parts{"config.json: the configuration is larger than 4 MiB"}));
}

TEST(Checkpoint, ListsWhatDoesNotFit) {
  const TemporaryFolder folder;
  const json config = test::tiny_config();
  std::vector<NamedTensor> weights = test::random_weights(config);
  named(weights, "model.norm.weight").name = "model.norm.weights";
  named(weights, "lm_head.weight").shape = {8, 11};
  test::write_checkpoint(folder, config, weights);
  EXPECT_PRED2(test::says, open_error(folder.text()),
               (test::Parts{"missing 1: model.norm.weight;", "unexpected 1: model.norm.weights",
                            "wrong 1: lm_head.weight is [8, 11] and should be [11, 8]"}));
}

TEST(Checkpoint, NamesTheFirstOfManyMissingTensors) {
  const TemporaryFolder folder;
  json config = test::tiny_config();
  const std::vector<NamedTensor> weights = test::random_weights(config);
  config["num_hidden_layers"] = 1000;
  test::write_checkpoint(folder, config, weights);
  EXPECT_PRED2(test::says, open_error(folder.text()),
               (test::Parts{"missing 9990: model.layers.1.attn_norm.weight", "and 9985 more"}));
}

TEST(Checkpoint, RefusesNumbersThatAreNone) {
  for (const float value : {std::nanf(""), std::numeric_limits<float>::infinity()}) {
    const TemporaryFolder folder;
    const json config = test::tiny_config();
    std::vector<NamedTensor> weights = test::random_weights(config);
    named(weights, "model.layers.0.mlp.down_proj.weight").values[5] = value;
    test::write_checkpoint(folder, config, weights);
    EXPECT_PRED2(test::says,
                 test::error_of([&] { CausalLM::load(Checkpoint::open(folder.text()), Device{}, DType::float32); }),
                 (test::Parts{"tensor model.layers.0.mlp.down_proj.weight holds", "at element 5"}));
  }
}

TEST(Checkpoint, RefusesWholeNumbersAsWeights) {
  const TemporaryFolder folder;
  const json config = test::tiny_config();
  const std::vector<NamedTensor> weights = test::random_weights(config);
  std::string image = test::safetensors_image(weights);
  const std::size_t at = image.find(R"("dtype":"F32")", image.find("model.norm.weight"));
  image.replace(at, 13, R"("dtype":"I32")");
  folder.write("config.json", config.dump());
  folder.write("model.safetensors", image);
  EXPECT_PRED2(test::says, open_error(folder.text()), (test::Parts{"model.norm.weight has dtype I32"}));
}

TEST(Checkpoint, ReadsHalfPrecisionExactly) {
  const TemporaryFolder folder;
  json config = test::tiny_config();
  std::vector<NamedTensor> weights = test::random_weights(config);
  test::write_checkpoint(folder, config, weights);
  // One tensor becomes F16: 1, -2, the largest, the smallest normal and subnormal, -0, 1/3 rounded, 0.
  const std::vector<std::uint16_t> bits = {0x3c00, 0xc000, 0x7bff, 0x0400, 0x0001, 0x8000, 0x3555, 0x0000};
  const std::vector<float> expected = {1, -2, 65504, 0x1p-14F, 0x1p-24F, -0.0F, 0.333251953125F, 0};
  std::string header;
  std::string data;
  for (const NamedTensor& tensor : weights) {
    const bool half = tensor.name == "model.norm.weight";
    const std::string bytes =
        half ? std::string(reinterpret_cast<const char*>(bits.data()), 16)
             : std::string(reinterpret_cast<const char*>(tensor.values.data()), 4 * tensor.values.size());
    header += header.empty() ? "{" : ",";
    header += json(tensor.name).dump();
    header += json({{"dtype", half ? "F16" : "F32"},
                    {"shape", tensor.shape},
                    {"data_offsets", {data.size(), data.size() + bytes.size()}}})
                  .dump()
                  .insert(0, 1, ':');
    data += bytes;
  }
  folder.write("model.safetensors", test::safetensors_image(header + "}", data));
  const Checkpoint checkpoint = Checkpoint::open(folder.text());
  std::vector<float> values;
  checkpoint.read("model.norm.weight", [&](std::span<const float> piece) {
    values.insert(values.end(), piece.begin(), piece.end());
    return true;
  });
  EXPECT_EQ(values, expected);
  EXPECT_TRUE(std::signbit(values[5]));
}

TEST(Checkpoint, TellsSharedQueryKeyNormByItsShape) {
  for (const char* model_type : {"forgetting_transformer-project_fox", "forgetting_transformer"}) {
    json config = test::tiny_config(model_type);
    config["qk_norm"] = true;
    std::vector<NamedTensor> weights = test::random_weights(config);
    for (const char* name : {"model.layers.0.attn.q_norm.weight", "model.layers.0.attn.k_norm.weight"}) {
      named(weights, name).shape = {4};
      named(weights, name).values.resize(4);
    }
    const TemporaryFolder folder;
    test::write_checkpoint(folder, config, weights);
    EXPECT_EQ(Checkpoint::open(folder.text()).config().query_key_norm, QueryKeyNorm::shared);
    config["qk_norm_share_param_across_head"] = false;
    test::write_checkpoint(folder, config, weights);
    if (std::string(model_type) != "forgetting_transformer") {
      EXPECT_PRED2(test::says, open_error(folder.text()), (test::Parts{"q_norm.weight is [4] and should be [8]"}));
    }
  }
}

class Shards : public testing::Test {
 protected:
  Shards() {
    const json config = test::tiny_config();
    std::vector<NamedTensor> weights = test::random_weights(config);
    std::vector<NamedTensor> first(weights.begin(), weights.begin() + 4);
    std::vector<NamedTensor> second(weights.begin() + 4, weights.end());
    folder_.write("config.json", config.dump());
    folder_.write("a.safetensors", test::safetensors_image(first));
    folder_.write("b.safetensors", test::safetensors_image(second));
    for (const NamedTensor& tensor : first) map_[tensor.name] = "a.safetensors";
    for (const NamedTensor& tensor : second) map_[tensor.name] = "b.safetensors";
    write_index();
  }
  void write_index() { folder_.write("model.safetensors.index.json", json({{"weight_map", map_}}).dump()); }

  TemporaryFolder folder_;
  json map_ = json::object();
};

TEST_F(Shards, AreReadByTheIndexBeforeASingleFile) {
  folder_.write("model.safetensors", "broken");
  EXPECT_EQ(Checkpoint::open(folder_.text()).weight_files().size(), 2U);
}

TEST_F(Shards, MustAllBeThere) {
  std::filesystem::remove(folder_.path() / "b.safetensors");
  EXPECT_PRED2(test::says, open_error(folder_.text()),
               (test::Parts{"lists the shard b.safetensors, which is not in the folder"}));
}

TEST_F(Shards, MustStayInTheFolder) {
  for (const char* name : {"../b.safetensors", "/tmp/b.safetensors", "sub/b.safetensors", "..", "", "b.bin"}) {
    map_["lm_head.weight"] = name;
    write_index();
    EXPECT_PRED2(test::says, open_error(folder_.text()),
                 (test::Parts{"a shard must be a .safetensors file in the same folder"}));
  }
  map_["lm_head.weight"] = 5;
  write_index();
  EXPECT_PRED2(test::says, open_error(folder_.text()), (test::Parts{"lm_head.weight is said to be in 5"}));
}

TEST_F(Shards, HoldWhatTheIndexSays) {
  map_["lm_head.weight"] = "a.safetensors";
  write_index();
  EXPECT_PRED2(test::says, open_error(folder_.text()),
               (test::Parts{"tensor lm_head.weight is in b.safetensors, but model.safetensors.index.json does not"}));
  map_.erase("lm_head.weight");
  write_index();
  EXPECT_PRED2(test::says, open_error(folder_.text()),
               (test::Parts{"tensor lm_head.weight is in b.safetensors, but model.safetensors.index.json does not"}));
}

TEST_F(Shards, NeedASoundIndex) {
  folder_.write("model.safetensors.index.json", "{");
  EXPECT_PRED2(test::says, open_error(folder_.text()), (test::Parts{"index.json: has no weight_map"}));
  folder_.write("model.safetensors.index.json", R"({"weight_map": []})");
  EXPECT_PRED2(test::says, open_error(folder_.text()), (test::Parts{"has no weight_map"}));
}

class HubCache : public testing::Test {
 protected:
  HubCache() { setenv("HF_HUB_CACHE", folder_.text().c_str(), 1); }
  ~HubCache() override {
    unsetenv("HF_HUB_CACHE");
    unsetenv("HF_HOME");
  }
  void add_snapshot(const std::string& base, const std::string& revision) {
    folder_.write(base + "models--someone--fox/snapshots/" + revision + "/config.json", "{}");
  }
  static std::string resolve() { return resolve_checkpoint_folder("someone/fox").filename().string(); }
  TemporaryFolder folder_;
};

TEST_F(HubCache, GivesTheOnlySnapshotOrTheOneThatMainNames) {
  add_snapshot("", "aaa");
  EXPECT_EQ(resolve(), "aaa");
  add_snapshot("", "bbb");
  EXPECT_PRED2(test::says, test::error_of([] { resolve(); }), (test::Parts{"several snapshots", "snapshots/bbb"}));
  folder_.write("models--someone--fox/refs/main", "bbb\n");
  EXPECT_EQ(resolve(), "bbb");
  folder_.write("models--someone--fox/refs/main", "../../..");
  EXPECT_PRED2(test::says, test::error_of([] { resolve(); }), (test::Parts{"several snapshots"}));
}

TEST_F(HubCache, FollowsHfHome) {
  add_snapshot("hub/", "ccc");
  unsetenv("HF_HUB_CACHE");
  setenv("HF_HOME", folder_.text().c_str(), 1);
  EXPECT_EQ(resolve(), "ccc");
}

TEST_F(HubCache, SaysWhatToRunInsteadOfDownloading) {
  EXPECT_PRED2(test::says, test::error_of([] { resolve(); }),
               (test::Parts{folder_.text(), "hf download someone/fox", "nothing is downloaded"}));
  std::filesystem::create_directories(folder_.path() / "models--someone--fox");
  EXPECT_PRED2(test::says, test::error_of([] { resolve(); }), (test::Parts{"holds no snapshot of someone/fox"}));
}

}  // namespace
}  // namespace foxscope
