// The parts of the needle test's prompts, and where the needle stands in them.
#include "backend/eval/needle/needle_prompt.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "backend/base/error.h"
#include "backend/base/index.h"
#include "tests/model/model_test_support.h"

namespace foxscope {
namespace {

Tokenizer demo_tokenizer() { return Tokenizer::load(test::demo_model("fox-pro-12m")); }

NeedleParts parts_of(NeedleMode mode, const std::vector<std::string>& texts, std::int64_t tokens) {
  const Tokenizer tokenizer = demo_tokenizer();
  NeedleParts parts = cut_needle(NeedleTemplate::built_in(), mode, tokenizer);
  cut_haystack(texts, "texts", tokens, tokenizer, parts);
  return parts;
}

const std::vector<std::string> kTexts = {
    "He went out. \"Who is there?\" she said. Nobody answered, and the house was as still as before!",
    "The second text begins here. It has two sentences."};

TEST(NeedlePrompt, HasTheLengthThatWasAskedForAtEveryDepth) {
  const NeedleParts parts = parts_of(NeedleMode::easy, kTexts, 2000);
  for (const std::int64_t length : {400, 1000, 2000}) {
    const auto size = static_cast<std::size_t>(length - kReservedTokens) + parts.question.size();
    EXPECT_EQ(plain_prompt(parts, 0, length).input_ids.size(), size);
    for (const double depth : {0.0, 0.3, 0.5, 0.99, 1.0}) {
      const NeedlePrompt prompt = needle_prompt(parts, 0, length, depth);
      ASSERT_EQ(prompt.input_ids.size(), size);
      const auto begin = prompt.input_ids.begin();
      EXPECT_EQ(std::vector(begin + prompt.needle_begin, begin + prompt.needle_end), parts.needle);
      EXPECT_TRUE(std::equal(parts.question.rbegin(), parts.question.rend(), prompt.input_ids.rbegin()));
      EXPECT_TRUE(std::equal(parts.instruction.begin(), parts.instruction.end(), begin + 1));
    }
  }
}

TEST(NeedlePrompt, StandsBehindASentence) {
  const NeedleParts parts = parts_of(NeedleMode::standard, kTexts, 2000);
  const auto first = static_cast<std::int64_t>(1 + parts.instruction.size());
  std::int64_t before = -1;
  for (int percent = 0; percent < 100; percent += 3) {
    const NeedlePrompt prompt = needle_prompt(parts, 0, 1500, percent / 100.0);
    const std::int64_t at = prompt.needle_begin - first;
    EXPECT_LE(static_cast<double>(at), static_cast<double>(context_tokens(parts, 1500)) * percent / 100.0);
    EXPECT_TRUE(at == 0 || parts.ends_sentence[index_of(at - 1)]);
    EXPECT_GE(at, before);
    before = at;
  }
  EXPECT_EQ(needle_prompt(parts, 0, 1500, 0).needle_begin, first);
  EXPECT_EQ(needle_prompt(parts, 0, 1500, 1).needle_begin, first + context_tokens(parts, 1500));
}

TEST(NeedlePrompt, WithoutSentencesTheNeedleGoesToTheBeginning) {
  const NeedleParts parts = parts_of(NeedleMode::easy, {"no sentence ends here, none at all, "}, 600);
  EXPECT_EQ(needle_prompt(parts, 0, 600, 0.9).needle_begin, static_cast<std::int64_t>(1 + parts.instruction.size()));
}

TEST(NeedlePrompt, SentenceEndsAreSeenBehindQuotes) {
  const Tokenizer tokenizer = demo_tokenizer();
  const NeedleParts parts = parts_of(NeedleMode::easy, kTexts, 20);
  std::string text;
  std::vector<std::string> ends;
  for (std::size_t n = 0; n < parts.haystack.size(); ++n) {
    text += tokenizer.token_bytes(parts.haystack[n]);
    if (parts.ends_sentence[n]) ends.push_back(text.substr(0, text.find_last_not_of("\"') \n") + 1));
  }
  ASSERT_GE(ends.size(), 3U);
  for (const std::string& end : ends) EXPECT_NE(std::string(".!?").find(end.back()), std::string::npos) << end;
}

TEST(NeedlePrompt, AShortHaystackIsRepeatedInOrder) {
  const NeedleParts parts = parts_of(NeedleMode::easy, kTexts, 500);
  EXPECT_GE(parts.haystack.size(), 500U);
  const auto once = static_cast<std::size_t>(parts.haystack_tokens);
  EXPECT_LT(once, 100U);
  const std::string text = demo_tokenizer().decode(parts.haystack);
  EXPECT_TRUE(text.starts_with(kTexts[0] + "\n\n" + kTexts[1] + "\n\n" + kTexts[0] + "\n\n"));
}

TEST(NeedlePrompt, EasyHoldsTheQuestionAndStandardDoesNot) {
  const Tokenizer tokenizer = demo_tokenizer();
  const NeedleTemplate words = NeedleTemplate::built_in();
  EXPECT_EQ(tokenizer.decode(cut_needle(words, NeedleMode::easy, tokenizer).needle),
            " " + words.question + " " + words.needle);
  EXPECT_EQ(tokenizer.decode(cut_needle(words, NeedleMode::standard, tokenizer).needle), " " + words.needle);
}

TEST(NeedlePrompt, WhatDoesNotFitIsRefused) {
  const NeedleParts parts = parts_of(NeedleMode::easy, kTexts, 500);
  const auto taken = static_cast<std::int64_t>(1 + parts.instruction.size() + parts.needle.size()) + kReservedTokens;
  EXPECT_EQ(context_tokens(parts, taken + 1), 1);
  EXPECT_PRED2(test::says, test::error_of([&] { context_tokens(parts, taken); }),
               (test::Parts{"--lengths", std::to_string(taken), "no room"}));
  NeedleTemplate words = NeedleTemplate::built_in();
  for (int n = 0; n < 200; ++n) words.question += " again";
  EXPECT_PRED2(test::says, test::error_of([&] { cut_needle(words, NeedleMode::easy, demo_tokenizer()); }),
               (test::Parts{"200", "shorten"}));
  EXPECT_PRED2(test::says, test::error_of([] { parts_of(NeedleMode::easy, {""}, 10); }),
               (test::Parts{"texts", "no text"}));
}

TEST(NeedleTemplate, IsReadAsItIsPrinted) {
  const NeedleTemplate words = NeedleTemplate::built_in();
  EXPECT_EQ(NeedleTemplate::from_json(words.json(), "template.json"), words);
  EXPECT_NE(words.needle.find(words.answer), std::string::npos);
  EXPECT_TRUE(words.needle.starts_with(words.opening));
}

TEST(NeedleTemplate, SaysWhatIsWrong) {
  const auto error = [](const std::function<void(nlohmann::json&)>& change) {
    auto object = nlohmann::json::parse(NeedleTemplate::built_in().json());
    change(object);
    return test::error_of([&] { NeedleTemplate::from_json(object.dump(), "t.json"); });
  };
  EXPECT_PRED2(test::says, test::error_of([] { NeedleTemplate::from_json("{", "t.json"); }),
               (test::Parts{"t.json", "not JSON"}));
  EXPECT_PRED2(test::says, test::error_of([] { NeedleTemplate::from_json("[]", "t.json"); }),
               (test::Parts{"t.json", "object"}));
  EXPECT_PRED2(test::says, error([](auto& object) { object.erase("question"); }), (test::Parts{"question"}));
  EXPECT_PRED2(test::says, error([](auto& object) { object["answer"] = " "; }), (test::Parts{"answer", "not empty"}));
  EXPECT_PRED2(test::says, error([](auto& object) { object["nedle"] = "x"; }), (test::Parts{"nedle"}));
  EXPECT_PRED2(test::says, error([](auto& object) { object["answer"] = "gold"; }), (test::Parts{"contain the answer"}));
}

}  // namespace
}  // namespace foxscope
