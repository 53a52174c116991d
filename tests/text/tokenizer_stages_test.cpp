// Normalizers, pre-tokenizers, decoders and post-processors, and the places of tokens behind them.

#include "tests/text/helpers.h"

namespace foxscope::test {
namespace {

using nlohmann::json;
using Spans = std::vector<std::pair<std::int64_t, std::int64_t>>;

Spans spans_of(const Tokens& tokens) {
  Spans spans;
  for (std::size_t i = 0; i < tokens.size(); ++i) spans.emplace_back(tokens.byte_start[i], tokens.byte_end[i]);
  return spans;
}

constexpr const char* kBlockCharacter = "\xE2\x96\x81";

TEST(TokenizerStages, BlocksStandForSpaces) {
  const Tokenizer tokenizer = tokenizer_of(small_block_tokenizer());
  EXPECT_EQ(pieces(tokenizer, "ab a"), (std::vector<std::string>{" a", "b", " a"}));
  EXPECT_EQ(spans_of(tokenizer.encode("ab a")), (Spans{{0, 1}, {1, 2}, {2, 4}}));
  // What is put in front stands for no byte; spaces, and blocks of the text itself, for themselves.
  EXPECT_EQ(spans_of(tokenizer.encode("b  b")), (Spans{{0, 0}, {0, 1}, {1, 2}, {2, 3}, {3, 4}}));
  const std::string block = kBlockCharacter;
  EXPECT_EQ(spans_of(tokenizer.encode("b" + block + "a")), (Spans{{0, 0}, {0, 1}, {1, 5}}));
  EXPECT_EQ(tokenizer.encode("").size(), 0U);
  // Each section behind an added token has one in front.
  EXPECT_EQ(spans_of(tokenizer.encode("a<s>a")), (Spans{{0, 1}, {1, 4}, {4, 5}}));
}

TEST(TokenizerStages, CharactersFallBackToBytes) {
  const Tokenizer tokenizer = tokenizer_of(small_block_tokenizer());
  const Tokens tokens = tokenizer.encode("a\xC3\xA9");
  EXPECT_EQ(spans_of(tokens), (Spans{{0, 1}, {1, 2}, {2, 3}}));
  EXPECT_EQ(tokens.id[1], 2 + 0xC3);
  EXPECT_EQ(tokenizer.decode(tokens.id), "a\xC3\xA9");
  EXPECT_EQ(tokenizer.decode({tokens.id[1]}), "\xC3");
  EXPECT_EQ(tokenizer.token_bytes(tokens.id[2]), "\xA9");
}

TEST(TokenizerStages, OnlyATextsOwnBeginningIsStripped) {
  const Tokenizer tokenizer = tokenizer_of(small_block_tokenizer());
  const std::vector<std::int32_t> ids = tokenizer.encode("a a").id;
  EXPECT_EQ(tokenizer.decode(ids), "a a");
  EXPECT_EQ(tokenizer.decode_within(ids), " a a");
  json metaspace = small_block_tokenizer();
  metaspace["normalizer"] = nullptr;
  metaspace["pre_tokenizer"] = {{"type", "Metaspace"}, {"replacement", kBlockCharacter}};
  metaspace["decoder"] = metaspace["pre_tokenizer"];
  const Tokenizer other = tokenizer_of(metaspace);
  EXPECT_EQ(other.encode("a a").id, ids);
  EXPECT_EQ(other.decode(ids), "a a");
  EXPECT_EQ(other.decode_within(ids), " a a");
  EXPECT_EQ(other.token_bytes(ids[0]), " a");
}

TEST(TokenizerStages, UnknownCharactersAreOneTokenOrOneEach) {
  json unknown = small_block_tokenizer();
  unknown["model"]["byte_fallback"] = false;
  EXPECT_EQ(spans_of(tokenizer_of(unknown).encode("axyb")), (Spans{{0, 1}, {1, 3}, {3, 4}}));
  unknown["model"]["fuse_unk"] = false;
  EXPECT_EQ(spans_of(tokenizer_of(unknown).encode("axyb")), (Spans{{0, 1}, {1, 2}, {2, 3}, {3, 4}}));
}

TEST(TokenizerStages, ComposedCharactersStandForAllTheirParts) {
  json normalizing = small_tokenizer();
  normalizing["normalizer"] = {{"type", "NFC"}};
  const Tokenizer tokenizer = tokenizer_of(normalizing);
  const Tokens tokens = tokenizer.encode("xe\xCC\x81y");  // e and U+0301 are U+00E9, of two bytes
  EXPECT_EQ(tokenizer.decode(tokens.id), "x\xC3\xA9y");
  EXPECT_EQ(spans_of(tokens), (Spans{{0, 1}, {1, 4}, {1, 4}, {4, 5}}));
  // Hangul by parts, marks in another order, a character that is another one.
  EXPECT_EQ(tokenizer.decode(tokenizer.encode("\xE1\x84\x92\xE1\x85\xA1\xE1\x86\xAB").id), "\xED\x95\x9C");
  EXPECT_EQ(tokenizer.decode(tokenizer.encode("q\xCC\x87\xCC\xA3").id), "q\xCC\xA3\xCC\x87");
  EXPECT_EQ(tokenizer.decode(tokenizer.encode("\xE2\x84\xA6").id), "\xCE\xA9");
  // U+11A7 is no final consonant, though it stands before them all.
  EXPECT_EQ(tokenizer.decode(tokenizer.encode("\xEA\xB0\x80\xE1\x86\xA7").id), "\xEA\xB0\x80\xE1\x86\xA7");
  // What is in form C stays, with a place for each byte.
  EXPECT_EQ(spans_of(tokenizer.encode("\xC3\xA9")), (Spans{{0, 1}, {1, 2}}));
}

/// A mark would have to be put in its place among all others one step at a time.
TEST(TokenizerStages, ManyMarksOnOneCharacterTakeLinearTime) {
  json normalizing = small_tokenizer();
  normalizing["normalizer"] = {{"type", "NFC"}};
  std::string text = "q";
  for (int n = 0; n < 300'000; ++n) text += n % 2 == 0 ? "\xCC\x87" : "\xCC\xA3";
  const Tokens tokens = tokenizer_of(normalizing).encode(text);
  EXPECT_EQ(tokens.size(), text.size());
  EXPECT_EQ(tokens.byte_end.back(), static_cast<std::int64_t>(text.size()));
}

TEST(TokenizerStages, StepsFollowOneAnother) {
  json steps = small_tokenizer();
  const auto replace = [](const char* what, const char* content) {
    return json{{"type", "Replace"}, {"pattern", {{"String", what}}}, {"content", content}};
  };
  steps["normalizer"] = {
      {"type", "Sequence"},
      {"normalizers", json::array({replace("a", "bc"), {{"type", "Prepend"}, {"prepend", "z"}}, replace("cb", "-")})}};
  const Tokenizer tokenizer = tokenizer_of(steps);
  const Tokens tokens = tokenizer.encode("xaay");  // xbcbcy, zxbcbcy, zxb-cy
  EXPECT_EQ(tokenizer.decode(tokens.id), "zxb-cy");
  EXPECT_EQ(spans_of(tokens), (Spans{{0, 0}, {0, 1}, {1, 3}, {1, 3}, {1, 3}, {3, 4}}));
}

TEST(TokenizerStages, RemovedPiecesBelongToNoToken) {
  json removing = small_tokenizer();
  const json split = {{"type", "Split"}, {"pattern", {{"Regex", "\\s+"}}}, {"behavior", "Removed"}, {"invert", false}};
  removing["pre_tokenizer"] = {
      {"type", "Sequence"},
      {"pretokenizers", json::array({split, {{"type", "ByteLevel"}, {"add_prefix_space", false}}})}};
  EXPECT_EQ(spans_of(tokenizer_of(removing).encode(" a  b ")), (Spans{{1, 2}, {4, 5}}));
}

TEST(TokenizerStages, BosOfTheTemplate) {
  json blocks = small_block_tokenizer();
  EXPECT_EQ(tokenizer_of(blocks).bos_id(), std::nullopt);
  const json text = {{"Sequence", {{"id", "A"}}}};
  const json special = {{"SpecialToken", {{"id", "<s>"}}}};
  json processor = {{"type", "TemplateProcessing"}, {"special_tokens", {{"<s>", {{"ids", {1}}}}}}};
  processor["single"] = json::array({special, text});
  blocks["post_processor"] = processor;
  EXPECT_EQ(tokenizer_of(blocks).bos_id(), 1);
  const json steps = json::array({{{"type", "ByteLevel"}}, processor});
  blocks["post_processor"] = {{"type", "Sequence"}, {"processors", steps}};
  EXPECT_EQ(tokenizer_of(blocks).bos_id(), 1);
  processor["single"] = json::array({text, special});
  blocks["post_processor"] = processor;
  EXPECT_EQ(tokenizer_of(blocks).bos_id(), std::nullopt);
}

// Where a whole text is one word, or its time grew with the square of its length, each of these would take hours.
TEST(TokenizerStages, LongTextsTakeLinearTime) {
  json blocks = small_block_tokenizer();
  json crossing = blocks;
  crossing["model"]["vocab"][std::string("b").append(kBlockCharacter)] = 400;
  crossing["model"]["merges"].push_back({"b", kBlockCharacter});
  json composing = small_tokenizer();
  composing["normalizer"] = {{"type", "NFC"}};
  for (const json& description : {blocks, crossing, composing}) {
    const Tokenizer tokenizer = tokenizer_of(description);
    for (const char* unit : {"a", " ", "ab ", "\xF0\x9F\xA6\x8A", "\xED\x95\x9C", "<s>a"}) {
      std::string text;
      while (text.size() < 1'000'000) text += unit;
      const Tokens tokens = tokenizer.encode(text);
      EXPECT_EQ(tokens.byte_end.back(), static_cast<std::int64_t>(text.size())) << unit;
    }
  }
}

}  // namespace
}  // namespace foxscope::test
