// Scores of given tokens: against the libraries' logits, against a run that keeps its logits, and against each text
// alone.
#include "backend/model/layer/score.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <numeric>
#include <stop_token>
#include <thread>

#include <gtest/gtest.h>

#include "backend/base/index.h"
#include "backend/model/session/torch_model.h"
#include "backend/model/weights/safetensors.h"
#include "tests/model/model_test_support.h"

namespace foxscope {
namespace {

using nlohmann::json;
using Ids = std::vector<std::int32_t>;

std::unique_ptr<CausalLM> load_score_model(const Checkpoint& checkpoint, bool composed) {
  return composed ? load_torch_model(checkpoint, Device{}, DType::float32)
                  : CausalLM::load(checkpoint, Device{}, DType::float32);
}

std::unique_ptr<CausalLM> tiny_score_model(const json& options = json::object(), bool composed = false,
                                           bool equal_logits = false) {
  json config = test::tiny_config();
  config.update(options);
  std::vector<test::NamedTensor> weights = test::random_weights(config);
  for (test::NamedTensor& tensor : weights) {
    if (equal_logits && tensor.name == "lm_head.weight") std::ranges::fill(tensor.values, 0.0F);
  }
  const test::TemporaryFolder folder;
  test::write_checkpoint(folder, config, weights);
  return load_score_model(Checkpoint::open(folder.text()), composed);
}

/// log p of every token after one position, and all of them from the likeliest on.
struct DensePosition {
  explicit DensePosition(std::span<const float> logits) {
    const double largest = *std::ranges::max_element(logits);
    double sum = 0;
    for (const float logit : logits) sum += std::exp(static_cast<double>(logit) - largest);
    for (const float logit : logits) log_probability.push_back(static_cast<double>(logit) - largest - std::log(sum));
    order.resize(logits.size());
    std::iota(order.begin(), order.end(), 0);
    std::ranges::stable_sort(order, [&](int a, int b) { return logits[index_of(a)] > logits[index_of(b)]; });
  }
  std::vector<double> log_probability;
  Ids order;
};

void expect_position(const ScoredPosition& score, const DensePosition& dense, std::int32_t label, double bound) {
  const auto of = [&](std::int32_t id) { return dense.log_probability[index_of(id)]; };
  EXPECT_NEAR(score.log_probability, of(label), bound);
  // Where two are as likely to rounding, either may be first.
  if (of(dense.order[0]) - of(dense.order[1]) > 2 * bound) {
    EXPECT_EQ(score.greedy, label == dense.order[0]);
    EXPECT_EQ(score.top.at(0).id, dense.order[0]);
  }
  for (std::size_t n = 0; n < score.top.size(); ++n) {
    EXPECT_NEAR(score.top[n].log_probability, of(dense.order[n]), bound) << n;
    EXPECT_NEAR(score.top[n].log_probability, of(score.top[n].id), bound) << n;
    if (score.top[n].id == label) {
      EXPECT_EQ(score.top[n].log_probability, score.log_probability);
    }
  }
}

void expect_distribution(const ScoredPosition& score, const DensePosition& dense, std::int32_t label, double bound) {
  double entropy = 0;
  for (const double log_p : dense.log_probability) entropy -= std::exp(log_p) * log_p;
  EXPECT_NEAR(score.entropy, entropy, 1e-4);
  // Tokens that are as likely to rounding may stand on either side.
  std::int64_t least = 1;
  std::int64_t most = 1;
  const double own = dense.log_probability[index_of(label)];
  for (std::int32_t id = 0; id < std::ssize(dense.log_probability); ++id) {
    if (id == label) continue;
    least += dense.log_probability[index_of(id)] > own + bound ? 1 : 0;
    most += dense.log_probability[index_of(id)] > own - bound ? 1 : 0;
  }
  EXPECT_GE(score.rank, least);
  EXPECT_LE(score.rank, most);
}

void expect_marked(const ScoredPosition& score, const DensePosition& dense, std::span<const std::uint8_t> marked) {
  double sum = 0;
  for (std::size_t id = 0; id < marked.size(); ++id) sum += marked[id] != 0 ? std::exp(dense.log_probability[id]) : 0;
  EXPECT_NEAR(score.marked_log_probability, std::log(sum), 2e-5);
}

/// What passes of other rows may change: the last bits of a matrix product.
constexpr double kRounding = 1e-5;

void expect_near(const TextScores& a, const TextScores& b, double bound) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t p = 0; p < a.size(); ++p) {
    EXPECT_NEAR(a[p].log_probability, b[p].log_probability, bound) << p;
    EXPECT_EQ(a[p].greedy, b[p].greedy) << p;
    ASSERT_EQ(a[p].top.size(), b[p].top.size());
    for (std::size_t n = 0; n < a[p].top.size(); ++n) {
      EXPECT_EQ(a[p].top[n].id, b[p].top[n].id);
      EXPECT_NEAR(a[p].top[n].log_probability, b[p].top[n].log_probability, bound);
    }
  }
}

/// Texts and what each position of them predicts.
struct Texts {
  /// @param lengths  of texts that differ from each other
  explicit Texts(const std::vector<int>& lengths, int vocabulary = 11) {
    for (const int length : lengths) {
      Ids& read = ids.emplace_back();
      Ids& next = labels.emplace_back();
      for (int p = 0; p < length; ++p) {
        read.push_back((p * p + 3 * p + static_cast<int>(ids.size()) * (p + 1)) % vocabulary);
        next.push_back((p * 7 + static_cast<int>(ids.size())) % vocabulary);
      }
    }
  }
  [[nodiscard]] ScoredText text(std::size_t n) const {
    return {ids[n], 0, static_cast<std::int64_t>(ids[n].size()), labels[n]};
  }
  [[nodiscard]] ScoreRequest request(int top = 3) const {
    ScoreRequest request;
    request.top = top;
    for (std::size_t n = 0; n < ids.size(); ++n) request.texts.push_back(text(n));
    return request;
  }
  [[nodiscard]] ScoreRequest alone(std::size_t n, int top = 3) const {
    ScoreRequest request;
    request.top = top;
    request.texts = {text(n)};
    return request;
  }
  std::vector<Ids> ids;
  std::vector<Ids> labels;
};

void check_golden_scores(CausalLM& model, const std::string& name) {
  const SafetensorsFile golden(test::data_path(name) + "/golden.safetensors");
  const Ids ids = test::read_ids(golden, "input_ids");
  const Ids labels = test::read_ids(golden, "labels");
  const std::vector<float> logits = test::read_floats(golden, "logits");
  const auto sequences = static_cast<std::size_t>(golden.tensors().at("input_ids").shape[0]);
  const std::size_t length = ids.size() / sequences;
  const auto vocabulary = static_cast<std::size_t>(model.config().vocabulary_size);
  ScoreRequest request;
  request.top = 4;
  for (std::size_t b = 0; b < sequences; ++b) {
    request.texts.push_back({std::span(ids).subspan(b * length, length), 0, static_cast<std::int64_t>(length),
                             std::span(labels).subspan(b * length, length)});
  }
  const auto scores = model.score(request, {}).value();
  // Some fixtures hold the last rows alone.
  const std::size_t first = ids.size() - logits.size() / vocabulary;
  for (std::size_t row = first; row < ids.size(); ++row) {
    expect_position(scores[row / length][row % length],
                    DensePosition(std::span(logits).subspan((row - first) * vocabulary, vocabulary)), labels[row],
                    1e-3);
  }
}

class ScoredFixture : public testing::TestWithParam<const char*> {};

TEST_P(ScoredFixture, ScoresAreThoseOfTheLibrarysLogits) {
  check_golden_scores(*load_score_model(Checkpoint::open(test::data_path(GetParam())), false), GetParam());
}

TEST_P(ScoredFixture, ComposedScoresAreThoseOfTheLibrarysLogits) {
  check_golden_scores(*load_score_model(Checkpoint::open(test::data_path(GetParam())), true), GetParam());
}

TEST_P(ScoredFixture, CudaScoresAreThoseOfTheLibrarysLogits) {
  if (cuda_device_count() == 0) GTEST_SKIP() << "no CUDA device";
  const auto model =
      CausalLM::load(Checkpoint::open(test::data_path(GetParam())), Device{.cuda = true, .index = 0}, DType::float32);
  check_golden_scores(*model, GetParam());
}

TEST_P(ScoredFixture, AreThoseOfARunThatKeepsItsLogits) {
  for (const bool composed : {false, true}) {
    const auto model = load_score_model(Checkpoint::open(test::data_path(GetParam())), composed);
    const Texts texts({30}, static_cast<int>(model->config().vocabulary_size));
    test::Batch batch;
    batch.input_ids = texts.ids[0];
    batch.labels = texts.labels[0];
    batch.keep = {Keep::logits, Keep::loss};
    const auto trace = test::run_batch(*model, batch).traces[0];
    ScoreRequest request = texts.request();
    request.distribution = true;
    const auto vocabulary = static_cast<std::size_t>(model->config().vocabulary_size);
    std::vector<std::uint8_t> marked(vocabulary);
    for (std::size_t id = 0; id < vocabulary; ++id) marked[id] = id % 3 == 1 ? 1 : 0;
    request.marked = marked;
    const auto scores = model->score(request, {}).value();
    const std::vector<float> logits = trace->source().logits();
    for (std::size_t p = 0; p < scores[0].size(); ++p) {
      const DensePosition dense{std::span<const float>(logits).subspan(p * vocabulary, vocabulary)};
      expect_position(scores[0][p], dense, texts.labels[0][p], 2e-5);
      expect_distribution(scores[0][p], dense, texts.labels[0][p], 2e-5);
      expect_marked(scores[0][p], dense, marked);
      EXPECT_NEAR(scores[0][p].log_probability, -trace->per_token_loss()[p], 2e-5);
    }
  }
}

// Lengths that share passes, with padding, and lengths that do not.
TEST_P(ScoredFixture, TextsTogetherHaveTheScoresThatTheyHaveAlone) {
  const auto model = load_score_model(Checkpoint::open(test::data_path(GetParam())), false);
  const Texts texts({40, 17, 38, 40, 39, 1, 16, 36}, static_cast<int>(model->config().vocabulary_size));
  const auto together = model->score(texts.request(), {}).value();
  for (std::size_t n = 0; n < texts.ids.size(); ++n) {
    SCOPED_TRACE(n);
    expect_near(together[n], model->score(texts.alone(n), {}).value()[0], kRounding);
  }
}

// The heads of a text that is longer than the original length turn otherwise, whatever lies beside it.
TEST(Score, TextsOnBothSidesOfAnOriginalLengthAreScoredTogether) {
  const std::string fixture = test::data_path("published/phi3");
  const test::TemporaryFolder folder;
  nlohmann::json config = nlohmann::json::parse(Checkpoint::open(fixture).config().json);
  config["original_max_position_embeddings"] = 38;
  folder.write("config.json", config.dump());
  std::filesystem::copy_file(fixture + "/model.safetensors", folder.path() / "model.safetensors");
  for (const bool composed : {false, true}) {
    const auto model = load_score_model(Checkpoint::open(folder.text()), composed);
    const Texts texts({40, 37, 38, 39}, static_cast<int>(model->config().vocabulary_size));
    const auto together = model->score(texts.request(), {}).value();
    for (std::size_t n = 0; n < texts.ids.size(); ++n) {
      SCOPED_TRACE(n);
      expect_near(together[n], model->score(texts.alone(n), {}).value()[0], kRounding);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Fixtures, ScoredFixture,
                         testing::Values("fox-llama", "fox-pro", "transformer-pro", "transformer-llama", "fla-fox",
                                         "fla-fox-gated-qknorm", "gpt2", "gpt_neox", "llama", "llama-tied-bias",
                                         "mistral", "qwen2", "qwen3", "published/qwen3-window",
                                         "published/ministral3-published", "published/olmo3", "published/phi3",
                                         "published/glm4", "published/gemma2", "published/gpt_oss",
                                         "published/qwen3_moe", "published/fla-path_attn",
                                         "published/fla-path_attn-fox"),
                         test::fixture_test_name);

TEST(Score, ABatchOfTheDemoModelDoesNotDependOnItsOrder) {
  const auto model = CausalLM::load(Checkpoint::open(test::demo_model("fox-pro-12m")), Device{}, DType::float32);
  const Texts texts({120, 100, 118, 64, 127, 63}, 8192);
  ScoreRequest request = texts.request(2);
  const auto scores = model->score(request, {}).value();
  std::ranges::reverse(request.texts);
  auto reversed = model->score(request, {}).value();
  std::ranges::reverse(reversed);
  for (std::size_t n = 0; n < scores.size(); ++n) {
    expect_near(scores[n], reversed[n], 0);
    expect_near(scores[n], model->score(texts.alone(n, 2), {}).value()[0], 2 * kRounding);
  }
}

// A pass computes in the memory of the one before it, whatever that has left there, or beside it in memory of its own.
TEST(Score, PassesBeforeAndBesideChangeNothing) {
  const Texts texts({300, 5, 128, 2, 64, 190}, 8192);
  const auto load = [] {
    return CausalLM::load(Checkpoint::open(test::demo_model("fox-pro-12m")), Device{}, DType::float32);
  };
  const auto model = load();
  std::vector<TextScores> fresh;
  for (std::size_t n = 0; n < texts.ids.size(); ++n) fresh.push_back(load()->score(texts.alone(n, 2), {}).value()[0]);
  const auto all = [&] {
    for (std::size_t n = 0; n < texts.ids.size(); ++n) {
      SCOPED_TRACE(n);
      expect_near(model->score(texts.alone(n, 2), {}).value()[0], fresh[n], 0);
    }
  };
  all();
  std::thread beside(all);
  all();
  beside.join();
}

TEST(Score, OnlyThePositionsThatAreAskedForAreScored) {
  for (const bool composed : {false, true}) {
    const auto model = tiny_score_model({{"num_hidden_layers", 2}}, composed);
    const Texts texts({50});
    const TextScores whole = model->score(texts.request(), {}).value()[0];
    ScoreRequest request;
    request.texts = {{texts.ids[0], 20, 30, std::span(texts.labels[0]).subspan(20, 8)}};
    const TextScores part = model->score(request, {}).value()[0];
    ASSERT_EQ(part.size(), 10U);
    for (std::size_t p = 0; p < 8; ++p) {
      EXPECT_NEAR(part[p].log_probability, whole[20 + p].log_probability, 1e-5);
      EXPECT_EQ(part[p].greedy, whole[20 + p].greedy);
      EXPECT_TRUE(part[p].top.empty());
    }
    EXPECT_TRUE(std::isnan(part[9].log_probability)) << "it has no label";
    EXPECT_FALSE(part[9].greedy);
    EXPECT_TRUE(std::isnan(part[0].entropy)) << "nobody asked for it";
    EXPECT_EQ(part[0].rank, 0);
    EXPECT_TRUE(std::isnan(part[0].marked_log_probability));
  }
}

TEST(Score, OfEqualsTheLowestIdIsTheGreedyChoice) {
  for (const bool composed : {false, true}) {
    const auto model = tiny_score_model(json::object(), composed, /*equal_logits=*/true);
    ScoreRequest request;
    const Ids ids = {1, 2, 3};
    const Ids labels = {0, 1, 10};
    request.texts = {{ids, 0, 3, labels}};
    request.top = 3;
    request.distribution = true;
    const TextScores scores = model->score(request, {}).value()[0];
    for (std::size_t p = 0; p < 3; ++p) {
      EXPECT_EQ(scores[p].rank, labels[p] + 1);
      EXPECT_NEAR(scores[p].entropy, std::log(11.0), 1e-6);
      EXPECT_EQ(scores[p].greedy, p == 0);
      EXPECT_NEAR(scores[p].log_probability, -std::log(11.0), 1e-6);
      for (std::int32_t n = 0; n < 3; ++n) EXPECT_EQ(scores[p].top[index_of(n)].id, n);
    }
  }
}

TEST(Score, TheMeanGateIsThatOfTheTextAlone) {
  const auto model = tiny_score_model({{"num_hidden_layers", 2}});
  const Texts texts({40, 39, 40});
  ScoreRequest request = texts.request();
  request.interventions = {Intervention::parse("*:*:mean")};
  const auto together = model->score(request, {}).value();
  for (std::size_t n = 0; n < texts.ids.size(); ++n) {
    ScoreRequest alone = texts.alone(n);
    alone.interventions = request.interventions;
    expect_near(together[n], model->score(alone, {}).value()[0], kRounding);
  }
}

TEST(Score, PassesArePaddedByAnEighthAtMostAndHoldSoManyTokens) {
  const Texts texts({80, 70, 69, 80, 80, 10});
  const ScoreRequest request = texts.request();
  using Batches = std::vector<std::vector<std::size_t>>;
  const Batches batches = score_batches(request, 1000);
  ASSERT_EQ(batches.size(), 3U);
  EXPECT_EQ(batches[0].size(), 4U);
  EXPECT_EQ(batches[0].back(), 1U);
  EXPECT_EQ(batches[1], (std::vector<std::size_t>{2}));
  EXPECT_EQ(batches[2], (std::vector<std::size_t>{5}));
  EXPECT_EQ(score_batches(request, 160).size(), 4U);
  EXPECT_EQ(score_batches(request, 0).size(), 6U) << "each alone";
}

TEST(Score, BadRequestsAreRefused) {
  const auto model = tiny_score_model();
  const Ids ids = {1, 2, 3};
  const auto error = [&](const ScoredText& text, int top = 0, double pruning = 0) {
    ScoreRequest request;
    request.texts = {{ids, 0, 3, ids}, text};
    request.top = top;
    request.pruning_tolerance = pruning;
    return test::error_of([&] { (void)model->score(request, {}); });
  };
  const Ids none;
  const Ids strange = {1, 11, 2};
  const Ids negative = {1, 2, -1};
  EXPECT_EQ(error({none, 0, 0, none}), "[score] text 1: it has no tokens to read");
  EXPECT_EQ(error({ids, 1, 4, none}), "[score] text 1: positions 1:4, expected A:B with 0 <= A < B <= 3");
  EXPECT_EQ(error({ids, 2, 2, none}), "[score] text 1: positions 2:2, expected A:B with 0 <= A < B <= 3");
  EXPECT_EQ(error({ids, 1, 3, ids}), "[score] text 1: 3 labels for 2 positions");
  EXPECT_EQ(error({strange, 0, 3, ids}),
            "text 1: the id 11 at position 1 is outside the model's vocabulary (0 to 10); use the ids of this model's "
            "tokenizer");
  EXPECT_EQ(error({ids, 0, 3, negative}),
            "labels of text 1: the id -1 at position 2 is outside the model's vocabulary (0 to 10); use the ids of "
            "this model's tokenizer");
  EXPECT_EQ(error({ids, 0, 3, ids}, 12), "12 likeliest tokens: use a number from 0 to 11, the size of the vocabulary");
  EXPECT_EQ(error({ids, 0, 3, ids}, 0, 1), "--pruning 1: use a share from 0 (nothing is skipped) to below 1");
}

TEST(Score, ATextTooLongForATableOfPositionsIsRefused) {
  const auto model = load_score_model(Checkpoint::open(test::data_path("gpt2")), false);
  const std::int64_t most = model->config().learned_positions;
  const Texts texts({static_cast<int>(most) + 1});
  EXPECT_PRED2(test::says, test::error_of([&] { (void)model->score(texts.request(), {}); }),
               (test::Parts{std::to_string(most + 1) + " tokens are more than the model has positions for"}));
}

TEST(Score, NothingIsAskedAndNothingIsComputed) { EXPECT_TRUE(tiny_score_model()->score({}, {}).value().empty()); }

TEST(Score, StopsWhenAsked) {
  std::stop_source stop;
  stop.request_stop();
  EXPECT_FALSE(tiny_score_model()->score(Texts({5}).request(), Job{stop.get_token(), {}, nullptr}).has_value());
}

TEST(Score, ReportsTokens) {
  std::vector<std::int64_t> done;
  Job job;
  job.report = [&](const Progress& progress) {
    EXPECT_EQ(progress.total, 47);
    done.push_back(progress.done);
  };
  (void)tiny_score_model()->score(Texts({40, 7}).request(), job);
  EXPECT_TRUE(std::ranges::is_sorted(done));
  EXPECT_EQ(done.back(), 47);
}

}  // namespace
}  // namespace foxscope
