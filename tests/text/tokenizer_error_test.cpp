// Every message that reading or using a tokenizer can give.

#include "tests/text/helpers.h"

namespace foxscope::test {
namespace {

using nlohmann::json;

constexpr const char* repair = "; fetch the file again or repair it";
constexpr const char* supported =
    " is not supported; give a checkpoint with a BPE tokenizer, of bytes or with byte_fallback";
constexpr const char* normalizers =
    " is not supported; give a checkpoint whose normalizer is made of NFC, Prepend and Replace";
constexpr const char* pre_tokenizers =
    " is not supported; give a checkpoint whose pre_tokenizer is made of Split, Digits and ByteLevel, or is Metaspace";
constexpr const char* decoders =
    " is not supported; give a checkpoint whose decoder is made of ByteLevel, Metaspace, Replace, ByteFallback, Fuse "
    "and "
    "Strip";

/// The error for a small tokenizer.json, changed at one place.
std::string error_with(const char* pointer, const json& value) {
  json changed = small_tokenizer({{"a", "b"}});
  changed[json::json_pointer(pointer)] = value;
  return error_of([&] { tokenizer_of(changed); });
}

json sequence(const char* key, const json& parts) { return {{"type", "Sequence"}, {key, parts}}; }

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

TEST(TokenizerError, MoreContainersThanAFileOfItsSizeHas) {
  for (const std::string piece : {"[],", "{},"}) {
    std::string text = R"({"model": [)";
    while (text.size() < (std::size_t{6} << 20)) text += piece;
    const std::string error = test::error_of([&] { Tokenizer::from_json(text + "0]}", "tokenizer.json"); });
    EXPECT_TRUE(error.starts_with("tokenizer.json: holds more lists, objects and values than a file of its size has"))
        << error;
  }
}

TEST(TokenizerError, KindsThatAreNotSupported) {
  EXPECT_EQ(error_with("/model/type", "Unigram"), message("the model type 'Unigram'", supported));
  EXPECT_EQ(error_with("/model/dropout", 0.1), message("model.dropout makes tokens random and", supported));
  EXPECT_EQ(error_with("/model/continuing_subword_prefix", "##"),
            message("model.continuing_subword_prefix", supported));
  EXPECT_EQ(error_with("/model/end_of_word_suffix", "</w>"), message("model.end_of_word_suffix", supported));
  EXPECT_EQ(error_with("/model/byte_fallback", true), message("model.byte_fallback with ByteLevel", supported));
  EXPECT_EQ(error_with("/normalizer", {{"type", "NFKC"}}), message("the normalizer 'NFKC'", normalizers));
  EXPECT_EQ(error_with("/normalizer", sequence("normalizers", {{{"type", "NFC"}}, {{"type", "Lowercase"}}})),
            message("the normalizer 'Lowercase'", normalizers));
  EXPECT_EQ(error_with("/pre_tokenizer/type", "Whitespace"), message("the pre_tokenizer 'Whitespace'", pre_tokenizers));
  EXPECT_EQ(error_with("/pre_tokenizer", sequence("pretokenizers", {{{"type", "BertPreTokenizer"}}})),
            message("the pre_tokenizer 'BertPreTokenizer'", pre_tokenizers));
  EXPECT_EQ(
      error_with("/pre_tokenizer", sequence("pretokenizers", {{{"type", "ByteLevel"}}, {{"type", "Digits"}}})),
      message("a pre_tokenizer behind ByteLevel", " is not supported; give a checkpoint where ByteLevel is the last"));
  EXPECT_EQ(
      error_with("/pre_tokenizer", sequence("pretokenizers", {{{"type", "Digits"}}, {{"type", "Metaspace"}}})),
      message("Metaspace behind another pre_tokenizer", " is not supported; give a checkpoint where it is the first"));
  EXPECT_EQ(error_with("/pre_tokenizer", nullptr),
            message("a tokenizer without decoder and without the pre_tokenizer ByteLevel", decoders));
  EXPECT_EQ(error_with("/decoder", {{"type", "WordPiece"}}), message("the decoder 'WordPiece'", decoders));
  EXPECT_EQ(error_with("/decoder", {{"type", "Strip"}, {"content", " "}}),
            message("the decoder Strip without Fuse or ByteLevel before it", decoders));
  EXPECT_EQ(error_with("/decoder", sequence("decoders", {{{"type", "Fuse"}}, {{"type", "ByteFallback"}}})),
            message("a decoder but Strip behind Fuse or ByteLevel", decoders));
  EXPECT_EQ(error_with("/decoder", sequence("decoders", {{{"type", "ByteFallback"}}, {{"type", "Metaspace"}}})),
            message("Metaspace behind another decoder", decoders));
  EXPECT_EQ(
      error_with("/decoder", {{"type", "Replace"}, {"pattern", {{"Regex", "x"}}}, {"content", ""}}),
      message("a decoder's Replace of a Regex", " is not supported; give a checkpoint where it replaces a String"));
  EXPECT_EQ(error_with("/post_processor", {{"type", "RobertaProcessing"}}),
            message("the post_processor 'RobertaProcessing'",
                    " is not supported; give a checkpoint whose post_processor is made of ByteLevel and "
                    "TemplateProcessing"));
}

TEST(TokenizerError, SplitsAndPatterns) {
  const auto split = [](const json& pattern, const char* behavior = "Isolated") {
    const json step = {{"type", "Split"}, {"pattern", pattern}, {"behavior", behavior}, {"invert", false}};
    return error_with("/pre_tokenizer", sequence("pretokenizers", json::array({step, {{"type", "ByteLevel"}}})));
  };
  const auto regex = [&](const char* pattern) { return split({{"Regex", pattern}}); };
  EXPECT_EQ(
      split({{"Regex", "x"}}, "Upside"),
      message("the behavior 'Upside' of a Split",
              " is not supported; give a checkpoint with Isolated, Removed, MergedWithPrevious, MergedWithNext or "
              "Contiguous"));
  const std::string form = R"(pattern must be {"String": "..."} or {"Regex": "..."}, and not empty)";
  for (const json& pattern : {json("x"), json{{"Glob", "x"}}, json{{"String", ""}}, json(nullptr)}) {
    EXPECT_EQ(split(pattern), message(form, repair));
  }
  const auto refused = [](const std::string& pattern, const std::string& part) {
    return message("the pattern '" + pattern + "' uses '" + part + "'",
                   ", which is not supported; give a checkpoint whose pattern does without");
  };
  const std::vector<std::pair<const char*, const char*>> parts = {{"^a", "^"},
                                                                  {"a$", "$"},
                                                                  {"a.b", "."},
                                                                  {"a]", "]"},
                                                                  {"a}", "}"},
                                                                  {"a{,3}", "{,3}"},
                                                                  {"a{2}+", "{2}+"},
                                                                  {"a{x}", "{x"},
                                                                  {"(?x)a", "(?x)"},
                                                                  {"(?<n>a)", "(?<n"},
                                                                  {"(?i:stra)", "(?i:stra)"},
                                                                  {"(?i:[a])", "(?i:[a])"},
                                                                  {"(?i:a", "(?i:"},
                                                                  {"[]a]", "]"},
                                                                  {"[a[b]]", "["},
                                                                  {"[a&&b]", "&&"},
                                                                  {"[\\S]", "\\S"},
                                                                  {"\\w", "\\w"},
                                                                  {"\\b", "\\b"},
                                                                  {"\\h", "\\h"},
                                                                  {"a\\", "\\"},
                                                                  {"\\u12", "\\u12"},
                                                                  {"\\pL", "\\p"},
                                                                  {"\\p{Greek=1}", "\\p{Greek=1}"}};
  for (const auto& [pattern, part] : parts) EXPECT_EQ(regex(pattern), refused(pattern, part));
  EXPECT_EQ(regex("[a"), message("the pattern '[a' has a [ without its ]", repair));
  EXPECT_EQ(regex(std::string(5000, 'a').c_str()),
            message("the pattern '" + std::string(60, 'a') + "...' is longer than 4096 bytes, which is not supported",
                    "; give a checkpoint with a shorter one"));
  EXPECT_EQ(
      regex("\\p{Nonsense}"),
      message("the pattern '\\p{Nonsense}' is not supported (unknown property after \\P or \\p); give a checkpoint "
              "with a pattern that PCRE2 takes",
              ""));
}

TEST(TokenizerError, PatternsThatTakeTooLong) {
  json slow = small_tokenizer();
  slow["pre_tokenizer"] = {{"type", "Sequence"},
                           {"pretokenizers",
                            {{{"type", "Split"}, {"pattern", {{"Regex", "(a|aa)+b|(a+)+c"}}}, {"behavior", "Isolated"}},
                             {{"type", "ByteLevel"}, {"use_regex", false}}}}};
  const Tokenizer tokenizer = tokenizer_of(slow);
  const std::string error = error_of([&] { (void)tokenizer.encode(std::string(200, 'a')); });
  EXPECT_TRUE(error.starts_with("tokenizer.json: the pattern '(a|aa)+b|(a+)+c' cannot be matched against the text ("))
      << error;
  EXPECT_TRUE(error.ends_with("; put line breaks into the text, or give a checkpoint with a simpler pattern")) << error;
}

TEST(TokenizerError, Stages) {
  EXPECT_EQ(error_with("/normalizer", {{"type", "Sequence"}}),
            message("a Sequence must have a list of normalizers", repair));
  EXPECT_EQ(error_with("/normalizer", sequence("normalizers", json(33, json{{"type", "NFC"}}))),
            message("has more than 32 normalizers", repair));
  const json long_one = {{"type", "Prepend"}, {"prepend", std::string(65, 'x')}};
  EXPECT_EQ(error_with("/normalizer", long_one),
            message("prepend of 65 bytes is not supported, only up to 64", repair));
  EXPECT_EQ(error_with("/pre_tokenizer", {{"type", "Metaspace"}, {"replacement", "ab"}}),
            message("replacement must be one character", repair));
  EXPECT_EQ(error_with("/pre_tokenizer", {{"type", "Metaspace"}, {"prepend_scheme", "last"}}),
            message("the prepend_scheme 'last' of Metaspace",
                    " is not supported; give a checkpoint with always, first or never"));
  EXPECT_EQ(
      error_with("/pre_tokenizer", {{"type", "Metaspace"}, {"prepend_scheme", "first"}, {"add_prefix_space", false}}),
      message("add_prefix_space and prepend_scheme of Metaspace contradict each other", repair));
  EXPECT_EQ(error_with("/decoder", {{"type", "Strip"}, {"content", " "}, {"start", -1}}),
            message("start must be a number of characters", repair));
  EXPECT_EQ(error_with("/post_processor", {{"type", "TemplateProcessing"}}),
            message("single of TemplateProcessing must be a list", repair));
  const auto processor = [](const json& ids, int tokens) {
    json list = json::array();
    for (int n = 0; n < tokens; ++n) list.push_back({{"SpecialToken", {{"id", "a"}}}});
    return json{{"type", "TemplateProcessing"}, {"single", list}, {"special_tokens", {{"a", {{"ids", ids}}}}}};
  };
  EXPECT_EQ(error_with("/post_processor", processor(5, 1)), message("TemplateProcessing gives no ids for 'a'", repair));
  EXPECT_EQ(error_with("/post_processor", processor({97}, 2)),
            message("a post_processor that puts 2 tokens before the text",
                    " is not supported; give a checkpoint with one, the BOS token, or none"));
  EXPECT_EQ(error_with("/post_processor", processor({4000}, 1)),
            message("the post_processor puts the token 4000 before the text, which the vocabulary lacks", repair));
}

TEST(TokenizerError, TextsAndTokensThatGrow) {
  json growing = small_tokenizer();
  const json step = {{"type", "Replace"}, {"pattern", {{"String", "a"}}}, {"content", "aaaaaaaa"}};
  growing["normalizer"] = sequence("normalizers", json(3, step));
  const Tokenizer tokenizer = tokenizer_of(growing);
  EXPECT_EQ(tokenizer.encode("a").size(), 512U);
  EXPECT_EQ(error_of([&] { (void)tokenizer.encode(std::string(1000, 'a')); }),
            message("the normalizer makes the text more than 32 times as long", repair));
  json decoding = small_tokenizer();
  decoding["decoder"] = sequence("decoders", json(8, step));
  EXPECT_EQ(error_of([&] { tokenizer_of(decoding); }),
            message("the decoder makes the tokens more than 32 times as long", repair));
}

TEST(TokenizerError, SymbolsOfCharacters) {
  json blocks = small_block_tokenizer();
  const auto error = [&](const char* pointer, const json& value) {
    json changed = blocks;
    changed[json::json_pointer(pointer)] = value;
    return error_of([&] { tokenizer_of(changed); });
  };
  EXPECT_EQ(error("/model/ignore_merges", true), message("model.ignore_merges without ByteLevel", supported));
  EXPECT_EQ(error("/model/unk_token", "<x>"), message("the vocabulary lacks model.unk_token, '<x>'", repair));
  json fewer = blocks;
  fewer["model"]["vocab"].erase("<0x0A>");
  EXPECT_EQ(error_of([&] { tokenizer_of(fewer); }),
            message("model.byte_fallback without the token '<0x0A>'", supported));
  json merging = blocks;
  merging["model"]["vocab"]["<0x0Aa"] = 400;
  merging["model"]["vocab"]["<"] = 401;
  merging["model"]["vocab"]["<0x0A>a"] = 402;
  merging["model"]["merges"].push_back({"<0x0A>", "a"});
  EXPECT_EQ(error_of([&] { tokenizer_of(merging); }),
            message("merge 2 of the token '<0x0A>', which stands for bytes or unknown characters,", supported));
  json unknown = blocks;
  unknown["model"]["byte_fallback"] = false;
  unknown["model"]["unk_token"] = nullptr;
  EXPECT_EQ(error_of([&] { (void)tokenizer_of(unknown).encode("a\xC3\xA9"); }),
            "tokenizer.json: the vocabulary has no token for the character U+00E9, which the text holds, and no "
            "unk_token; use a vocabulary with byte_fallback, or take it out of the text");
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
  EXPECT_EQ(error_with("/pre_tokenizer", "ByteLevel"), message("the pre_tokenizer ''", pre_tokenizers));
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
