// Files of losses: what is written comes back, and what is no such file is refused. Their content as others see it is
// tested with h5py, tests/cli/test_eval_loss.py.
#include "backend/eval/loss/loss_file.h"

#include <cmath>
#include <fstream>
#include <iterator>
#include <limits>
#include <numeric>

#include <gtest/gtest.h>

#include "backend/base/error.h"
#include "tests/model/model_test_support.h"

namespace foxscope {
namespace {

constexpr float kNothing = std::numeric_limits<float>::quiet_NaN();

/// Two models on three windows of two documents; the second cuts the text into fewer tokens.
LossEvaluation sample() {
  LossEvaluation evaluation;
  evaluation.corpus = {"books.jsonl", {{"a", "12"}, {"b \xc3\xa9", "34"}}, 17, 5, 1000};
  EvaluatedWindows windows;
  windows.document = {0, 0, 1};
  windows.token_start = {3, 10, 0};
  windows.byte_start = {12, 40, 0};
  windows.byte_end = {28, 56, 15};
  windows.tokens = {4, 4, 4};
  windows.length = 4;
  windows.token_id.resize(12);
  std::iota(windows.token_id.begin(), windows.token_id.end(), 5);
  EvaluatedModel model;
  model.info.name = "zebra";  // the order is the command line's, not the alphabet's
  model.info.model_type = "forgetting_transformer-project_fox";
  model.info.config = "{}";
  model.info.layers = 8;
  model.info.intervention = "[\"*:*:one\"]";
  model.windows = std::make_shared<const EvaluatedWindows>(windows);
  model.losses = {3, 4, {1, 2, 3, 4, 2, 2, 2, 2, 5, 4, 3, 2}, windows.tokens};
  evaluation.models.push_back(model);
  windows.token_start = {-1, -1, -1};
  windows.tokens = {3, 2, 3};
  windows.length = 3;
  windows.token_id = {1, 2, 3, 4, 5, -1, 6, 7, 8};
  model.info.name = "ant";
  model.windows = std::make_shared<const EvaluatedWindows>(windows);
  model.losses = {3, 3, {1, 2, 3, 4, 2, kNothing, 5, 4, 3}, windows.tokens};
  evaluation.models.push_back(model);
  return evaluation;
}

class LossFile : public testing::Test {
 protected:
  void write(const LossEvaluation& evaluation) {
    write_loss_file(path_, evaluation, {"foxscope eval loss", "2026-01-01T00:00:00Z"}, Overwrite::force);
  }
  [[nodiscard]] std::string bytes() const {
    std::ifstream file(path_, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  std::string error() {
    return test::error_of([this] { LossEvaluation::open(path_); });
  }

  test::TemporaryFolder folder_;
  std::filesystem::path path_ = folder_.path() / "eval.h5";
};

TEST_F(LossFile, ComesBack) {
  const LossEvaluation written = sample();
  write(written);
  const LossEvaluation read = LossEvaluation::open(path_);
  EXPECT_EQ(read.command_line, "foxscope eval loss");
  EXPECT_EQ(read.created, "2026-01-01T00:00:00Z");
  EXPECT_EQ(read.corpus.source, "books.jsonl");
  EXPECT_EQ(read.corpus.seed, 17U);
  EXPECT_EQ(read.corpus.documents_read, 5);
  EXPECT_EQ(read.corpus.tokens_read, 1000);
  ASSERT_EQ(read.corpus.documents.size(), 2U);
  EXPECT_EQ(read.corpus.documents[1].name, "b \xc3\xa9");
  EXPECT_EQ(read.corpus.documents[1].sha256, "34");
  ASSERT_EQ(read.models.size(), 2U);
  for (std::size_t n = 0; n < 2; ++n) {
    const EvaluatedModel& model = read.models[n];
    EXPECT_EQ(model.info.name, written.models[n].info.name);
    EXPECT_EQ(model.info.layers, 8);
    EXPECT_EQ(model.info.intervention, "[\"*:*:one\"]");
    EXPECT_TRUE(*model.windows == *written.models[n].windows);
    EXPECT_EQ(model.losses.tokens, written.models[n].losses.tokens);
    EXPECT_EQ(model.nats_per_token().value, written.models[n].nats_per_token().value);
    EXPECT_EQ(model.bits_per_byte()->value, written.models[n].bits_per_byte()->value);
    EXPECT_EQ(model.bits_per_byte()->over, written.models[n].bits_per_byte()->over);
    EXPECT_EQ(model.document_count(), 2);
  }
  EXPECT_FALSE(same_tokens(read.models[0], read.models[1]));
}

TEST_F(LossFile, SameContentSameBytes) {
  write(sample());
  const std::string first = bytes();
  write(sample());
  EXPECT_EQ(bytes(), first);
}

TEST_F(LossFile, Numbers) {
  const LossEvaluation evaluation = sample();
  EXPECT_DOUBLE_EQ(evaluation.models[0].nats_per_token().value, 32.0 / 12);
  EXPECT_DOUBLE_EQ(evaluation.models[0].bits_per_byte()->value, 32.0 / 47 / std::log(2.0));
  EXPECT_DOUBLE_EQ(evaluation.models[0].perplexity().value, std::exp(32.0 / 12));
  EXPECT_DOUBLE_EQ(evaluation.models[1].nats_per_token().value, 24.0 / 8);
  const LossDifference difference = loss_difference(evaluation.models[0], evaluation.models[1]);
  EXPECT_FALSE(difference.nats_per_token.has_value());
  EXPECT_DOUBLE_EQ(difference.bits_per_byte->value, 8.0 / 47 / std::log(2.0));
  EvaluatedModel elsewhere = evaluation.models[1];
  auto windows = std::make_shared<EvaluatedWindows>(*elsewhere.windows);
  windows->document = {0, 1, 1};
  elsewhere.windows = windows;
  EXPECT_TRUE(test::says(test::error_of([&] { loss_difference(evaluation.models[0], elsewhere); }),
                         {"zebra and ant", "same windows"}));
}

TEST_F(LossFile, OtherFiles) {
  using test::says;
  folder_.write("eval.h5", "no HDF5");
  EXPECT_TRUE(says(error(), {"eval.h5", "HDF5"}));
  path_ = folder_.path() / "none.h5";
  EXPECT_TRUE(says(error(), {"none.h5"}));
}

TEST_F(LossFile, UnsoundContent) {
  using test::says;
  const auto error_with = [this](const std::function<void(LossEvaluation&, EvaluatedWindows&)>& change) {
    LossEvaluation evaluation = sample();
    evaluation.models.pop_back();
    auto windows = std::make_shared<EvaluatedWindows>(*evaluation.models[0].windows);
    change(evaluation, *windows);
    evaluation.models[0].windows = windows;
    write(evaluation);
    return error();
  };
  EXPECT_TRUE(says(error_with([](auto& evaluation, auto&) { evaluation.models[0].losses.loss[5] = kNothing; }),
                   {"eval.h5", "/models/zebra/loss/per_token_loss", "window 1 at position 1 is nan"}));
  EXPECT_TRUE(
      says(error_with([](auto&, auto& windows) { windows.document[2] = 2; }), {"window 2 lies in no document"}));
  EXPECT_TRUE(says(error_with([](auto&, auto& windows) { windows.document[2] = -1; }), {"lies in no document"}));
  EXPECT_TRUE(says(error_with([](auto&, auto& windows) { windows.tokens[0] = 5; }), {"more tokens than losses"}));
  EXPECT_TRUE(says(error_with([](auto&, auto& windows) { windows.byte_end[0] = 11; }), {"ends before it begins"}));
  const auto narrow = [](auto&, auto& windows) {
    windows.length = 2;
    windows.token_id.resize(6);
  };
  EXPECT_TRUE(says(error_with(narrow), {"eval.h5", "token_id", "expected int32 [3, 4], found int32 [3, 2]"}));
  // Tables of heads are made from these numbers.
  const auto heads = [](auto& evaluation, auto&) {
    evaluation.models[0].info.layers = 10'000;
    evaluation.models[0].info.heads = 65'536;
  };
  EXPECT_TRUE(
      says(error_with(heads), {"eval.h5", "/models/zebra", "10000 layers of 65536 heads are too much for a file"}));
}

// A file damaged anywhere either opens or is refused in one line; nothing else happens (sanitizers watch).
TEST_F(LossFile, DamagedAnywhere) {
  write(sample());
  const std::string whole = bytes();
  int refused = 0;
  for (std::size_t position = 0; position < whole.size(); position += 97) {
    std::string damaged = whole;
    damaged[position] = static_cast<char>(~damaged[position]);
    folder_.write("eval.h5", damaged);
    if (!error().empty()) ++refused;
  }
  EXPECT_GT(refused, 20);
  folder_.write("eval.h5", whole.substr(0, whole.size() / 2));
  EXPECT_TRUE(test::says(error(), {"eval.h5"}));
}

}  // namespace
}  // namespace foxscope
