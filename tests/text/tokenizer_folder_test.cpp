// What the files of a checkpoint folder say together.

#include "tests/text/helpers.h"

namespace foxscope::test {
namespace {

using nlohmann::json;

constexpr const char* kRepair = "; fetch the file again or repair it";

/// A checkpoint folder whose tokenizer has the bytes as tokens 0 to 255, "ab" as 256 and "<end>" as 257.
class TokenizerFolder : public testing::Test {
 protected:
  TokenizerFolder() {
    tokenizer_ = small_tokenizer({{"a", "b"}});
    tokenizer_["model"]["vocab"]["<end>"] = 257;
  }
  void write(const char* name, const json& content) { write_bytes(folder_ / name, content.dump()); }
  void write_tokenizer() { write("tokenizer.json", tokenizer_); }
  void write_vocab_and_merges() {
    write("vocab.json", tokenizer_["model"]["vocab"]);
    write_bytes(folder_ / "merges.txt", "#version: 0.2\na b\n");
  }
  [[nodiscard]] Tokenizer load() const { return Tokenizer::load(folder_.path()); }
  [[nodiscard]] std::vector<std::int32_t> ids(std::string_view text) const { return load().encode(text).id; }

  TemporaryFolder folder_;
  json tokenizer_;
};

TEST_F(TokenizerFolder, FixturesAndDemoModels) {
  for (const char* path : {"/tests/data/tokenizer", "/resources/models/fox-pro-12m"}) {
    const Tokenizer tokenizer = Tokenizer::load(std::string(FOXSCOPE_SOURCE_DIR) + path);
    EXPECT_EQ(tokenizer.vocabulary_size(), 8192);
    EXPECT_EQ(tokenizer.encode("<|endoftext|>").id, std::vector<std::int32_t>{0});
    EXPECT_EQ(tokenizer.bos_id(), std::nullopt);
  }
}

TEST_F(TokenizerFolder, TokenizerJsonGoesFirst) {
  write_vocab_and_merges();
  tokenizer_["model"]["merges"] = json::array();
  write_tokenizer();
  EXPECT_EQ(ids("ab"), (std::vector<std::int32_t>{97, 98}));
}

TEST_F(TokenizerFolder, VocabAndMerges) {
  write_vocab_and_merges();
  EXPECT_EQ(ids("ab"), std::vector<std::int32_t>{256});
  EXPECT_EQ(ids("<end>").size(), 5U);  // nothing says that it is an added token
  write("added_tokens.json", {{"<x>", 300}});
  EXPECT_EQ(ids("a<x>"), (std::vector<std::int32_t>{97, 300}));
  write("special_tokens_map.json", {{"eos_token", "<end>"}});
  EXPECT_EQ(ids("<end>"), std::vector<std::int32_t>{257});
}

TEST_F(TokenizerFolder, SpecialTokensOfTokenizerJsonAreThoseItLists) {
  write_tokenizer();
  write("tokenizer_config.json", {{"eos_token", "<end>"}});
  EXPECT_EQ(ids("<end>").size(), 5U);
}

TEST_F(TokenizerFolder, BosToken) {
  write_tokenizer();
  EXPECT_EQ(load().bos_id(), std::nullopt);
  write("special_tokens_map.json", {{"bos_token", {{"content", "<end>"}, {"lstrip", false}}}});
  EXPECT_EQ(load().bos_id(), 257);
  write("tokenizer_config.json", {{"bos_token", "ab"}});
  EXPECT_EQ(load().bos_id(), 256);
  write("tokenizer_config.json", {{"bos_token", nullptr}});
  EXPECT_EQ(load().bos_id(), 257);
  write("tokenizer_config.json", {{"bos_token", "not in the vocabulary"}});
  EXPECT_EQ(load().bos_id(), std::nullopt);
}

TEST_F(TokenizerFolder, PrefixSpaceOfTheConfigGoesFirst) {
  write_tokenizer();
  EXPECT_EQ(ids("x").size(), 1U);
  write("tokenizer_config.json", {{"add_prefix_space", true}});
  EXPECT_EQ(ids("x"), (std::vector<std::int32_t>{32, 120}));
}

TEST_F(TokenizerFolder, PrefixSpaceOfASequenceIsItsOwn) {
  const json digits = {{"type", "Digits"}, {"individual_digits", true}};
  tokenizer_["pre_tokenizer"] = {{"type", "Sequence"},
                                 {"pretokenizers", json::array({digits, tokenizer_["pre_tokenizer"]})}};
  write_tokenizer();
  write("tokenizer_config.json", {{"add_prefix_space", true}});
  EXPECT_EQ(ids("x").size(), 1U);
}

TEST_F(TokenizerFolder, BosTokenOfTheConfigGoesBeforeTheTemplates) {
  tokenizer_["post_processor"] = {{"type", "TemplateProcessing"},
                                  {"single", json::array({{{"SpecialToken", {{"id", "<end>"}}}}})},
                                  {"special_tokens", {{"<end>", {{"ids", {257}}}}}}};
  write_tokenizer();
  EXPECT_EQ(load().bos_id(), 257);
  write("tokenizer_config.json", {{"bos_token", "ab"}});
  EXPECT_EQ(load().bos_id(), 256);
}

TEST_F(TokenizerFolder, JsonEscapingGoesWithoutANormalizer) {
  tokenizer_["normalizer"] = {{"type", "NFC"}};
  write_tokenizer();
  write("tokenizer_config.json", {{"tokenizer_class", "JSONGPT2Tokenizer"}});
  EXPECT_EQ(error_of([&] { (void)load(); }),
            (folder_ / "tokenizer_config.json").string() +
                ": JSONGPT2Tokenizer with a normalizer or Metaspace is not supported; give a checkpoint with GPT-2's "
                "byte-level BPE");
}

TEST_F(TokenizerFolder, JsonEscaping) {
  write_tokenizer();
  write("tokenizer_config.json", {{"tokenizer_class", "GPT2Tokenizer"}});
  EXPECT_EQ(load().decode(ids("\n")), "\n");
  EXPECT_EQ(ids("\n"), std::vector<std::int32_t>{'\n'});
  write("tokenizer_config.json", {{"tokenizer_class", "JSONGPT2Tokenizer"}});
  EXPECT_EQ(ids("\n"), (std::vector<std::int32_t>{'\\', 'n'}));
  EXPECT_EQ(load().decode(ids("\n")), "\n");
}

TEST_F(TokenizerFolder, AddedTokensOfTheConfig) {
  tokenizer_["added_tokens"] = {{{"id", 257}, {"content", "<end>"}, {"special", true}}};
  write_tokenizer();
  write("tokenizer_config.json",
        {{"added_tokens_decoder", {{"257", {{"content", "<end>"}, {"rstrip", true}}}, {"300", {{"content", "<x>"}}}}}});
  const Tokens tokens = load().encode("<end>  <x>");
  EXPECT_EQ(tokens.id, (std::vector<std::int32_t>{257, 300}));
  EXPECT_EQ(tokens.byte_end[0], 7);
}

TEST_F(TokenizerFolder, Errors) {
  const auto error = [&] { return error_of([&] { (void)load(); }); };
  const std::string folder = folder_.path().string();
  EXPECT_EQ(error(), folder +
                         ": holds no tokenizer: put tokenizer.json, or vocab.json and merges.txt, of the checkpoint "
                         "there");
  write("vocab.json", tokenizer_["model"]["vocab"]);
  EXPECT_NE(error().find(": holds no tokenizer"), std::string::npos);
  write_bytes(folder_ / "tokenizer.json", "{");
  EXPECT_EQ(error(), folder + "/tokenizer.json: is not valid JSON (byte 2)" + kRepair);
  write_tokenizer();
  write("tokenizer_config.json", json::array());
  EXPECT_EQ(error(), folder + "/tokenizer_config.json: must hold a JSON object" + kRepair);
  write("tokenizer_config.json", {{"add_prefix_space", "yes"}});
  EXPECT_EQ(error(), folder + "/tokenizer_config.json: add_prefix_space must be true or false" + kRepair);
  write("tokenizer_config.json", {{"bos_token", 5}});
  EXPECT_EQ(error(), folder + "/tokenizer_config.json: bos_token must be a string" + kRepair);
  write("tokenizer_config.json", {{"added_tokens_decoder", 5}});
  EXPECT_EQ(error(), folder + "/tokenizer_config.json: added_tokens_decoder must be an object" + kRepair);
  for (const char* key : {"x", "-1", "5000000", ""}) {
    write("tokenizer_config.json", {{"added_tokens_decoder", {{key, {{"content", "<x>"}}}}}});
    EXPECT_EQ(error(), folder + "/tokenizer_config.json: the id of the token '" + key +
                           "' must be an integer from 0 to 4194303" + kRepair);
  }
  write("tokenizer_config.json", {{"added_tokens_decoder", {{"3", {{"content", "<x>"}}}}}});
  EXPECT_NE(error().find("the token '<x>' cannot have the id 3, "), std::string::npos);
}

TEST_F(TokenizerFolder, FilesThatAreFolders) {
  std::filesystem::create_directory(folder_ / "tokenizer.json");
  EXPECT_EQ(error_of([&] { (void)load(); }),
            (folder_ / "tokenizer.json").string() + ": is a folder, not a tokenizer file; name a file in it");
}

}  // namespace
}  // namespace foxscope::test
