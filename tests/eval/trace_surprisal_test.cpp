// The table of words of a run, against the one that `eval surprisal` makes of the same text.
#include "backend/eval/surprisal/trace_surprisal.h"

#include <cmath>
#include <fstream>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "backend/base/error.h"
#include "backend/eval/surprisal/surprisal.h"
#include "backend/file/run_file.h"
#include "backend/model/session/run.h"
#include "tests/model/model_test_support.h"

namespace foxscope {
namespace {

constexpr const char* kText = "The fox ran over the hill. \"The hill (was) green!\" he said;  nobody saw.\n\nA page. ";
constexpr const char* kModel = FOXSCOPE_SOURCE_DIR "/resources/models/fox-pro-12m";

test::AskedRun request_of(const KeepSet& keep) {
  test::AskedRun run;
  run.name = "fox";
  run.model = kModel;
  run.device = DeviceChoice::parse("cpu");
  run.keep = keep;
  run.input.name = "text.txt";
  run.input.text = std::make_shared<const Text>(Text{kText, ""});
  return run;
}

TEST(TraceSurprisal, IsTheTableOfEvalSurprisal) {
  const test::TemporaryFolder folder;
  std::ofstream(folder.path() / "text.txt", std::ios::binary) << kText;
  const auto run = test::run(request_of({Keep::loss, Keep::gates, Keep::logits}), {});
  ASSERT_TRUE(run);
  for (const WordRule rule : {WordRule::white_space, WordRule::unicode}) {
    const SurprisalRequest request{folder.path() / "text.txt", {}, GateColumns::heads, rule};
    const auto expected = evaluate_surprisal(Engine().open(request_of({})), request, {});
    const auto distributions = distributions_of(*run->trace, nullptr, {});
    ASSERT_TRUE(expected && distributions);
    const Surprisals table = surprisals_of({run->trace, 2, 1}, "text.txt", rule, *distributions);
    EXPECT_EQ(table.documents, expected->documents);
    EXPECT_EQ(table.word, expected->word);
    EXPECT_EQ(table.string, expected->string);
    EXPECT_EQ(table.gate_names, std::vector<std::string>{"gate_2_1"});
    const auto column =
        static_cast<std::size_t>(std::ranges::find(expected->gate_names, "gate_2_1") - expected->gate_names.begin());
    ASSERT_EQ(table.words.size(), expected->words.size());
    for (std::size_t n = 0; n < table.words.size(); ++n) {
      const SurprisalWord& word = table.words[n];
      const SurprisalWord& other = expected->words[n];
      EXPECT_EQ(word.string, other.string);
      EXPECT_EQ(std::tie(word.sentence, word.index, word.first, word.end, word.byte_start, word.byte_end),
                std::tie(other.sentence, other.index, other.first, other.end, other.byte_start, other.byte_end));
      const WordNumbers numbers = numbers_of(table, word);
      const WordNumbers others = numbers_of(*expected, other);
      // Of a word without a token of its own nothing is known.
      ASSERT_EQ(std::isnan(numbers.surprisal), word.first == word.end);
      if (word.first == word.end) {
        EXPECT_TRUE(std::isnan(others.surprisal) && std::isnan(others.entropy) && std::isnan(others.gate[column]));
        continue;
      }
      EXPECT_NEAR(numbers.surprisal, others.surprisal, 1e-4);
      EXPECT_NEAR(numbers.entropy, others.entropy, 1e-3);
      EXPECT_LE(std::abs(numbers.rank - others.rank), 1);  // of near equals
      if (n + 1 < table.words.size()) {
        EXPECT_NEAR(numbers.gate[0], others.gate[column], 1e-5);
      } else {
        EXPECT_TRUE(std::isnan(numbers.gate[0]));  // its last token is read by no position
      }
    }
  }
}

/// Numbers of every word: NaN where nothing is known.
std::vector<double> surprisal_of_words(const Surprisals& table) {
  std::vector<double> numbers;
  for (const SurprisalWord& word : table.words) numbers.push_back(numbers_of(table, word).surprisal);
  return numbers;
}

// A limit within a word, a character, behind a word, and of all tokens: the run in memory, its file and the command say
// the same, and of the word that is cut nothing.
TEST(TraceSurprisal, OfAWordThatALimitCutsNothingIsKnown) {
  const test::TemporaryFolder folder;
  const std::string text = "The fox ran overwhelmingly far, caf\u00e9 \u72d0 and so on";
  std::ofstream(folder.path() / "text.txt", std::ios::binary) << text;
  std::set<bool> cut;
  for (std::int64_t limit = 1; limit < 24; ++limit) {
    test::AskedRun asked = request_of({Keep::loss});
    asked.input.text = std::make_shared<const Text>(Text{text, ""});
    asked.limit = limit;
    const auto run = test::run(asked, {});
    ASSERT_TRUE(run);
    const auto path = folder.path() / "run.h5";
    ASSERT_TRUE(write_run_file(path, std::vector{run->trace}, {}, Overwrite::force, {}));
    const auto reopened = RunFile::open(path).trace({});
    const auto read_to = static_cast<std::size_t>(run->trace->tokens()->byte_end.back());
    for (const WordRule rule : {WordRule::white_space, WordRule::unicode}) {
      SCOPED_TRACE(limit);
      const SurprisalRequest request{folder.path() / "text.txt", limit, GateColumns::mean, rule};
      const auto expected = evaluate_surprisal(Engine().open(request_of({})), request, {});
      const std::vector<double> words = surprisal_of_words(*expected);
      for (const auto& trace : {run->trace, reopened}) {
        const std::vector<double> own = surprisal_of_words(surprisals_of({trace, 0, 0}, "text.txt", rule, {}));
        ASSERT_EQ(own.size(), words.size());
        for (std::size_t n = 0; n < own.size(); ++n) {
          ASSERT_EQ(std::isnan(own[n]), std::isnan(words[n])) << n;
          if (!std::isnan(own[n])) {
            EXPECT_NEAR(own[n], words[n], 1e-4);
          }
        }
      }
      const bool goes_on = read_to < text.size() && text[read_to] != ' ' && text[read_to - 1] != ' ';
      EXPECT_EQ(std::isnan(words.back()), goes_on);
      cut.insert(goes_on);
    }
  }
  EXPECT_EQ(cut.size(), 2U);
}

TEST(TraceSurprisal, TheLastWordIsThereWhereAnothersTokenHoldsIt) {
  test::AskedRun asked = request_of({Keep::loss});
  asked.input.text = std::make_shared<const Text>(Text{"He \"ran.\"", ""});
  const auto run = test::run(asked, {});
  ASSERT_TRUE(run);
  ASSERT_EQ(run->trace->tokens()->string.back(), ".\"") << "one token of two words";
  const Surprisals table = surprisals_of({run->trace, 0, 0}, "text.txt", WordRule::unicode, {});
  ASSERT_EQ(table.words.size(), 5U);
  EXPECT_EQ(table.words[4].string, "\"");
  EXPECT_EQ(table.words[4].first, table.words[4].end);
  EXPECT_TRUE(std::isnan(numbers_of(table, table.words[4]).surprisal));
  EXPECT_FALSE(std::isnan(numbers_of(table, table.words[3]).surprisal));
}

TEST(TraceSurprisal, WhatIsNotKnownIsEmptyInCsv) {
  const auto run = test::run(request_of({Keep::loss}), {});
  ASSERT_TRUE(run);
  const auto distributions = distributions_of(*run->trace, nullptr, {});
  ASSERT_TRUE(distributions && distributions->rank.empty());
  const std::string csv = surprisals_of({run->trace, 0, 0}, "text.txt", WordRule::white_space, {}).csv_of_words();
  EXPECT_EQ(csv.substr(0, csv.find('\n')),
            "document,sentence,word,string,byte_start,byte_end,tokens,surprisal,entropy,rank");
  const std::size_t line = csv.find('\n') + 1;
  EXPECT_EQ(csv.substr(line, csv.find('\n', line) - line).substr(0, 23), "text.txt,0,0,The,0,3,1,");
  EXPECT_EQ(csv.substr(csv.find('\n', line) - 2, 2), ",,");
}

TEST(TraceSurprisal, RunsWithoutWordsOrLossesSayWhatToDo) {
  test::AskedRun ids = request_of({Keep::loss});
  ids.input.text = nullptr;
  ids.input.ids = {5, 6, 7};
  const auto of_ids = test::run(ids, {});
  const auto silent = test::run(request_of({Keep::gates}), {});
  ASSERT_TRUE(of_ids && silent);
  const auto error = [](const RunResult& run) {
    return test::error_of([&] { surprisals_of({run.trace, 0, 0}, "text", WordRule::white_space, {}); });
  };
  EXPECT_EQ(error(*of_ids), "fox: the run read token ids and has no words: run it on a text");
  EXPECT_EQ(error(*silent), "fox: the run did not keep losses: run again with --keep loss");
}

}  // namespace
}  // namespace foxscope
