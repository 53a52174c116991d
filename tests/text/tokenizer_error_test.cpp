// Every message that reading or using a tokenizer can give.

#include "tests/text/helpers.h"

namespace foxscope::test {
namespace {

using nlohmann::json;

constexpr const char* repair = "; fetch the file again or repair it";
constexpr const char* supported = " is not supported; give a checkpoint with GPT-2's byte-level BPE tokenizer";

/// The error for a small tokenizer.json, changed at one place.
std::string error_with(const char* pointer, const json& value) {
  json changed = small_tokenizer({{"a", "b"}});
  changed[json::json_pointer(pointer)] = value;
  return error_of([&] { tokenizer_of(changed); });
}

std::string message(const std::string& middle, const char* end) { return "tokenizer.json: " + middle + end; }

TEST(TokenizerError, NoJson) {
  const auto error = [](std::string_view content) {
    return error_of([&] { Tokenizer::from_json(content, "tokenizer.json"); });
  };
  EXPECT_EQ(error(""), message("is not valid JSON (byte 1)", repair));
  EXPECT_EQ(error("{\"model\": "), message("is not valid JSON (byte 11)", repair));
  EXPECT_EQ(error("{\"\xFF\": 1}"), message("is not valid JSON (byte 3)", repair));
  EXPECT_EQ(error("[1e999]"), message("holds a number that is too large", repair));
  EXPECT_EQ(error("[]"), message("must hold a JSON object", repair));
  EXPECT_EQ(error("{}"), message("has no model, so this is no tokenizer.json", repair));
  EXPECT_EQ(error(R"({"model": {"type": "BPE"}})"), message("model needs vocab and merges", repair));
  const std::string deep =
      message("lists and objects lie inside one another deeper than 256 levels (byte 257)", repair);
  EXPECT_EQ(error(std::string(1'000'000, '[')), deep);
  EXPECT_EQ(error(std::string(1'000'000, '[') + std::string(1'000'000, ']')), deep);
}

TEST(TokenizerError, KindsThatAreNotSupported) {
  EXPECT_EQ(error_with("/model/type", "Unigram"), message("the model type 'Unigram'", supported));
  EXPECT_EQ(error_with("/model/dropout", 0.1), message("model.dropout makes tokens random and", supported));
  EXPECT_EQ(error_with("/model/continuing_subword_prefix", "##"),
            message("model.continuing_subword_prefix", supported));
  EXPECT_EQ(error_with("/model/end_of_word_suffix", "</w>"), message("model.end_of_word_suffix", supported));
  EXPECT_EQ(error_with("/model/byte_fallback", true), message("model.byte_fallback", supported));
  EXPECT_EQ(error_with("/normalizer", {{"type", "NFC"}}), message("the normalizer 'NFC'", supported));
  EXPECT_EQ(error_with("/pre_tokenizer", nullptr), message("a tokenizer without pre_tokenizer", supported));
  EXPECT_EQ(error_with("/pre_tokenizer/type", "Whitespace"), message("the pre_tokenizer 'Whitespace'", supported));
  EXPECT_EQ(error_with("/pre_tokenizer/type", "Sequence"), message("a sequence of several pre_tokenizers", supported));
  EXPECT_EQ(error_with("/pre_tokenizer", {{"type", "Sequence"}, {"pretokenizers", {{{"type", "Digits"}}}}}),
            message("the pre_tokenizer 'Digits'", supported));
}

TEST(TokenizerError, KindsThatAreTheSame) {
  json same = small_tokenizer({{"a", "b"}});
  const std::vector<std::int32_t> expected = tokenizer_of(same).encode("ab cab").id;
  same["pre_tokenizer"] = {{"type", "Sequence"}, {"pretokenizers", {same["pre_tokenizer"]}}};
  same["normalizer"] = {{"type", "Sequence"}, {"normalizers", json::array()}};
  same["model"].erase("type");
  same["model"]["dropout"] = 0.0;
  same["model"]["unk_token"] = "<unk>";
  same["model"]["end_of_word_suffix"] = "";
  EXPECT_EQ(tokenizer_of(same).encode("ab cab").id, expected);
}

TEST(TokenizerError, ValuesOfTheWrongType) {
  EXPECT_EQ(error_with("/model/byte_fallback", 1), message("byte_fallback must be true or false", repair));
  EXPECT_EQ(error_with("/model/type", 3), message("type must be a string", repair));
  EXPECT_EQ(error_with("/model/vocab", json::array()),
            message("the vocabulary must be an object of tokens and their ids", repair));
  EXPECT_EQ(error_with("/model/vocab", json::object()),
            message("the vocabulary must be an object of tokens and their ids", repair));
  EXPECT_EQ(error_with("/model/merges", "a b"), message("model.merges must be a list", repair));
  EXPECT_EQ(error_with("/added_tokens", 5), message("added_tokens must be a list", repair));
  EXPECT_EQ(error_with("/pre_tokenizer", "ByteLevel"), message("the pre_tokenizer ''", supported));
}

TEST(TokenizerError, Ids) {
  const std::string range = " must be an integer from 0 to 4194303";
  EXPECT_EQ(error_with("/model/vocab/x", -1), message("the id of the token 'x'" + range, repair));
  EXPECT_EQ(error_with("/model/vocab/x", 1.5), message("the id of the token 'x'" + range, repair));
  EXPECT_EQ(error_with("/model/vocab/x", 4'194'304), message("the id of the token 'x'" + range, repair));
  EXPECT_EQ(error_with("/model/vocab/x", "1"), message("the id of the token 'x'" + range, repair));
  const std::string twice = error_with("/model/vocab/x", 7);
  EXPECT_NE(twice.find("cannot have the id "), std::string::npos) << twice;
  EXPECT_NE(twice.find(" has it already; fetch the file again or repair it"), std::string::npos) << twice;
}

TEST(TokenizerError, TokensAreShownOnOneShortLine) {
  json changed = small_tokenizer();
  changed["model"]["vocab"]["line\nbreak" + std::string(100, 'x')] = -1;
  EXPECT_EQ(error_of([&] { tokenizer_of(changed); }), message("the id of the token 'line?break" + std::string(50, 'x') +
                                                                  "...' must be an integer from 0 to 4194303",
                                                              repair));
}

TEST(TokenizerError, Merges) {
  EXPECT_EQ(error_with("/model/merges/0", "ab"),
            message("merge 0, 'ab', is not two tokens with a space between", repair));
  EXPECT_EQ(error_with("/model/merges/0", "a b c"),
            message("merge 0, 'a b c', is not two tokens with a space between", repair));
  EXPECT_EQ(error_with("/model/merges/1", "b c"),
            message("merge 1 needs the token 'bc', which the vocabulary lacks", repair));
  EXPECT_EQ(error_with("/model/merges/1", {"a", "xyz"}),
            message("merge 1 needs the token 'xyz', which the vocabulary lacks", repair));
  EXPECT_EQ(error_with("/model/merges/1", {"a"}), message("merge 1 must be \"a b\" or [\"a\", \"b\"]", repair));
  EXPECT_EQ(error_with("/model/merges/1", 5), message("merge 1 must be \"a b\" or [\"a\", \"b\"]", repair));
}

TEST(TokenizerError, AddedTokens) {
  EXPECT_EQ(error_with("/added_tokens/0", {{"content", "<x>"}}), message("the added token '<x>' has no id", repair));
  EXPECT_EQ(error_with("/added_tokens/0", {{"content", "ab"}, {"id", 900}}),
            message("the token 'ab' cannot have the id 900, it has the id 256 already", repair));
  EXPECT_EQ(error_with("/added_tokens/0", {{"content", "<x>"}, {"id", 256}}),
            message("the token '<x>' cannot have the id 256, 'ab' has it already", repair));
  EXPECT_EQ(error_with("/added_tokens/0", {{"content", "<x>"}, {"id", 999}, {"lstrip", 1}}),
            message("lstrip must be true or false", repair));
  EXPECT_EQ(error_with("/added_tokens/0", {{"content", 5}, {"id", 999}}), message("content must be a string", repair));
}

TEST(TokenizerError, EmptyAddedTokensArePassedOver) {
  json changed = small_tokenizer();
  changed["added_tokens"] = {{{"content", ""}, {"id", 300}}};
  EXPECT_EQ(tokenizer_of(changed).vocabulary_size(), 256);
}

TEST(TokenizerError, VocabAndMerges) {
  const std::string vocab = small_tokenizer()["model"]["vocab"].dump();
  const auto error = [&](std::string_view merges) {
    return error_of([&] { Tokenizer::from_vocab_and_merges(vocab, merges, "vocab.json"); });
  };
  EXPECT_EQ(error("#version: 0.2\na b\n"),
            std::string("vocab.json: merge 0 needs the token 'ab', which the vocabulary lacks") + repair);
  EXPECT_EQ(error("ab"), std::string("vocab.json: merge 0, 'ab', is not two tokens with a space between") + repair);
  EXPECT_EQ(error("a \xFF"), std::string("vocab.json: the merges are not UTF-8 (byte 2)") + repair);
  EXPECT_EQ(error_of([&] { Tokenizer::from_vocab_and_merges("[]", "", "vocab.json"); }),
            std::string("vocab.json: the vocabulary must be an object of tokens and their ids") + repair);
  EXPECT_EQ(Tokenizer::from_vocab_and_merges(vocab, "#version: 0.2\r\n\r\n", "vocab.json").encode("ab").size(), 2U);
}

TEST(TokenizerError, TextsAndIds) {
  const Tokenizer tokenizer = tokenizer_of(small_tokenizer());
  EXPECT_EQ(error_of([&] { (void)tokenizer.encode("caf\xE9"); }),
            "the text is not UTF-8 at byte offset 3; convert it, or have such bytes replaced");
  const std::string rest =
      " is outside the vocabulary (0 to 255); use the tokenizer of the model that the ids belong to";
  EXPECT_EQ(error_of([&] { (void)tokenizer.decode({1, 256}); }), "tokenizer.json: the token id 256" + rest);
  EXPECT_EQ(error_of([&] { (void)tokenizer.token_bytes(-1); }), "tokenizer.json: the token id -1" + rest);
}

TEST(TokenizerError, BytesWithoutAToken) {
  json lacking = small_tokenizer();
  lacking["model"]["vocab"].erase("z");
  const Tokenizer tokenizer = tokenizer_of(lacking);
  EXPECT_EQ(tokenizer.encode("abc").size(), 3U);
  for (const std::string& text : {std::string("xyz"), std::string(100, 'z')}) {
    EXPECT_EQ(
        error_of([&] { (void)tokenizer.encode(text); }),
        "tokenizer.json: the vocabulary has no token for the byte 122, which the text holds; use a vocabulary with "
        "all 256 bytes, or take it out of the text");
  }
}

}  // namespace
}  // namespace foxscope::test
