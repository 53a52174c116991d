// Files of needle tests: what is written comes back, and what is no such file is refused. Their content as others see
// it is tested with h5py, tests/cli/test_eval_needle.py.
#include "backend/eval/needle/needle_file.h"

#include <fstream>
#include <iterator>
#include <limits>
#include <numeric>
#include <random>

#include <gtest/gtest.h>

#include "backend/base/error.h"
#include "tests/model/model_test_support.h"

namespace foxscope {
namespace {

/// Two models, two lengths, three depths.
NeedleEvaluation needle_sample() {
  NeedleEvaluation evaluation;
  evaluation.haystack = "essays \xc3\xa9.txt";
  evaluation.mode = NeedleMode::standard;
  evaluation.words = NeedleTemplate::built_in();
  evaluation.lengths = {400, 800};
  evaluation.depths = {0, 0.25, 1};
  NeedleModel model;
  model.info.name = "zebra";  // the order is the command line's, not the alphabet's
  model.info.model_type = "forgetting_transformer-project_fox";
  model.info.config = "{}";
  model.info.layers = 2;
  model.info.heads = 3;
  model.found = {0, 1, 0, 1, 1, 0};
  model.answer_log_probability = {-1, -2, -3, -4, -5, -6};
  model.baseline_log_probability = {-4, -8};
  model.position = {230, 630};
  model.needle_begin = {30, 90, 190, 30, 160, 580};
  model.needle_end = {45, 105, 205, 45, 175, 595};
  model.needle_mass.resize(36);
  std::iota(model.needle_mass.begin(), model.needle_mass.end(), 0.5F);
  model.needle_gate.assign(36, 0.125F);
  model.continuation = {"a", "b \xe2\x82\xac", "", "d", "e", "f"};
  model.haystack_tokens = 1234;
  evaluation.models.push_back(model);
  model.info.name = "ant";
  model.info.layers = 1;
  model.needle_mass.resize(18);
  model.needle_gate.resize(18);
  evaluation.models.push_back(model);
  return evaluation;
}

class NeedleFile : public testing::Test {
 protected:
  void write(const NeedleEvaluation& evaluation) {
    write_needle_file(path_, evaluation, {"foxscope eval needle", "2026-01-01T00:00:00Z"}, Overwrite::force);
  }
  [[nodiscard]] std::string error() const {
    return test::error_of([&] { NeedleEvaluation::open(path_); });
  }

  test::TemporaryFolder folder_;
  std::filesystem::path path_ = folder_.path() / "needle.h5";
};

TEST_F(NeedleFile, IsReadAsItWasWritten) {
  const NeedleEvaluation written = needle_sample();
  write(written);
  const NeedleEvaluation read = NeedleEvaluation::open(path_);
  EXPECT_EQ(read.haystack, written.haystack);
  EXPECT_EQ(read.mode, written.mode);
  EXPECT_EQ(read.words, written.words);
  EXPECT_EQ(read.lengths, written.lengths);
  EXPECT_EQ(read.depths, written.depths);
  EXPECT_EQ(read.command_line, "foxscope eval needle");
  ASSERT_EQ(read.models.size(), 2U);
  for (std::size_t n = 0; n < 2; ++n) {
    const NeedleModel& a = written.models[n];
    const NeedleModel& b = read.models[n];
    EXPECT_EQ(a.info.name, b.info.name);
    EXPECT_EQ(a.info.layers, b.info.layers);
    EXPECT_EQ(a.info.heads, b.info.heads);
    EXPECT_EQ(a.found, b.found);
    EXPECT_EQ(a.answer_log_probability, b.answer_log_probability);
    EXPECT_EQ(a.baseline_log_probability, b.baseline_log_probability);
    EXPECT_EQ(a.position, b.position);
    EXPECT_EQ(a.needle_begin, b.needle_begin);
    EXPECT_EQ(a.needle_end, b.needle_end);
    EXPECT_EQ(a.needle_mass, b.needle_mass);
    EXPECT_EQ(a.needle_gate, b.needle_gate);
    EXPECT_EQ(a.continuation, b.continuation);
    EXPECT_EQ(a.haystack_tokens, b.haystack_tokens);
  }
  EXPECT_EQ(read.models[0].gain(), (std::vector<float>{3, 2, 1, 4, 3, 2}));
}

TEST_F(NeedleFile, WhatCannotBeIsDamaged) {
  const std::vector<std::pair<std::function<void(NeedleEvaluation&)>, std::string>> damages = {
      {[](auto& e) { e.models[0].found[2] = 7; }, "cell 2 is neither"},
      {[](auto& e) { e.models[0].needle_begin[1] = 500; }, "cell 1 has its needle outside"},
      {[](auto& e) { e.models[0].needle_end[5] = 700; }, "cell 5 has its needle outside"},
      {[](auto& e) { e.models[0].needle_mass[3] = std::numeric_limits<float>::quiet_NaN(); }, "needle_mass"},
      {[](auto& e) { e.models[0].answer_log_probability[0] = -std::numeric_limits<float>::infinity(); },
       "answer_log_probability"},
      {[](auto& e) { e.models[0].continuation.pop_back(); }, "continuation"},
      {[](auto& e) { e.depths[1] = 1.5; }, "/depth"},
      {[](auto& e) { e.lengths[0] = 0; }, "/length"},
      {[](auto& e) { e.words.answer = "gold"; }, "contain the answer"},
  };
  for (const auto& [damage, words] : damages) {
    NeedleEvaluation evaluation = needle_sample();
    damage(evaluation);
    write(evaluation);
    EXPECT_PRED2(test::says, error(), (test::Parts{"needle.h5", words}));
  }
}

TEST_F(NeedleFile, OtherFilesAreRefused) {
  folder_.write("needle.h5", "no HDF5");
  EXPECT_PRED2(test::says, error(), (test::Parts{"needle.h5"}));
  std::filesystem::remove(path_);
  EXPECT_PRED2(test::says, error(), (test::Parts{"needle.h5"}));
}

TEST_F(NeedleFile, DamagedBytesAreRefusedOrHarmless) {
  write(needle_sample());
  std::ifstream file(path_, std::ios::binary);
  const std::string whole{std::istreambuf_iterator<char>(file), {}};
  std::mt19937 generator(11);
  int refused = 0;
  for (int n = 0; n < 300; ++n) {
    std::string damaged = whole;
    if (n % 3 == 0) {
      damaged.resize(generator() % whole.size());
    } else {
      for (int k = 0; k < 8; ++k)
        damaged[generator() % (n % 3 == 1 ? 4096 : whole.size())] = static_cast<char>(generator());
    }
    folder_.write("needle.h5", damaged);
    refused += error().empty() ? 0 : 1;
  }
  EXPECT_GT(refused, 100);
}

}  // namespace
}  // namespace foxscope
