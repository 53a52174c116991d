#include "backend/map/statistics/expert_use.h"

#include <cmath>
#include <random>
#include <set>

#include <gtest/gtest.h>

#include "backend/base/error.h"
#include "backend/base/index.h"
#include "backend/trace/recorder.h"
#include "tests/error_of.h"

namespace foxscope::test {
namespace {

constexpr int kChosen = 2;
constexpr int kExperts = 6;

TraceInfo info_of(std::int64_t length, const std::vector<Mixer>& mixers) {
  TraceInfo info;
  info.name = "mixture";
  info.length = length;
  info.chosen_experts = kChosen;
  std::vector<LayerMixer> layers;
  for (const Mixer mixer : mixers) {
    if (mixer == Mixer::none) {
      layers.push_back({.mixer = Mixer::none, .decay = Decay::none});
    } else {
      layers.push_back({mixer, Decay::none, 2, 2, 2, 2, 4, 4});
    }
  }
  info.set_mixers(layers);
  info.forgetting.assign(mixers.size(), false);
  return info;
}

std::shared_ptr<TokenTable> tokens_of(std::int64_t length) {
  auto table = std::make_shared<TokenTable>();
  for (std::int64_t n = 0; n < length; ++n) {
    table->input_id.push_back(static_cast<std::int32_t>(n * n % 5));
    table->id.push_back(static_cast<std::int32_t>((n + 1) * (n + 1) % 5));
  }
  return table;
}

/// Random experts, two that differ for each position, of the layers that are named; the last expert is never read.
std::shared_ptr<const Trace> random_run(std::int64_t length, const std::vector<Mixer>& mixers,
                                        const std::set<int>& with_experts) {
  Recorder recorder(info_of(length, mixers), {Keep::experts}, nullptr);
  std::mt19937 random(5);
  std::uniform_int_distribution<std::int32_t> expert(0, kExperts - 2);
  std::uniform_real_distribution<float> weight(0.0F, 1.0F);
  for (const int layer : with_experts) {
    const Recorder::Experts into = recorder.experts(layer);
    for (std::size_t n = 0; n < into.experts.size(); n += kChosen) {
      into.experts[n] = expert(random);
      into.experts[n + 1] = (into.experts[n] + 1 + expert(random) % (kExperts - 2)) % (kExperts - 1);
      into.weights[n] = weight(random);
      into.weights[n + 1] = weight(random);
    }
  }
  return recorder.finish(nullptr, tokens_of(length));
}

TEST(ExpertUse, IsWhatPositionsCountAndAddUpTo) {
  constexpr std::int64_t kLength = 203;
  const auto run = random_run(kLength, {Mixer::attention, Mixer::attention}, {0, 1});
  const std::vector<ExpertUse> found = expert_use(*run, 1, kExperts, 2);
  ASSERT_EQ(std::ssize(found), kExperts);
  const std::span<const std::int32_t> experts = run->experts(1);
  const std::span<const float> weights = run->expert_weights(1);
  std::int64_t heaviest = 0;
  for (int expert = 0; expert < kExperts; ++expert) {
    const ExpertUse& use = found[index_of(expert)];
    EXPECT_EQ(use.expert, expert);
    std::int64_t positions = 0;
    double sum = 0;
    std::vector<std::int64_t> tokens(5);
    for (std::int64_t position = 0; position < kLength; ++position) {
      for (int n = 0; n < kChosen; ++n) {
        const std::size_t at = index_of(position * kChosen + n);
        if (experts[at] != expert) continue;
        ++positions;
        sum += static_cast<double>(weights[at]);
        ++tokens[index_of(run->tokens()->input_id[index_of(position)])];
      }
    }
    EXPECT_EQ(use.positions, positions);
    heaviest += use.heaviest;
    if (expert == kExperts - 1) {
      EXPECT_TRUE(std::isnan(use.mean_weight));
      EXPECT_TRUE(use.tokens.empty());
      continue;
    }
    EXPECT_NEAR(use.mean_weight, sum / static_cast<double>(positions), 1e-12);
    ASSERT_EQ(use.tokens.size(), 2U);
    EXPECT_EQ(use.tokens[0].count, std::ranges::max(tokens));
    for (const ExpertUse::Token& token : use.tokens) EXPECT_EQ(token.count, tokens[index_of(token.id)]);
    EXPECT_GE(use.tokens[0].count, use.tokens[1].count);
    EXPECT_EQ(run->tokens()->input_id[index_of(use.tokens[0].position)], use.tokens[0].id);
  }
  EXPECT_EQ(heaviest, kLength);
}

TEST(ExpertUse, ListsWhatIsReadWhereTheNumberOfExpertsIsNotKnown) {
  const auto run = random_run(64, {Mixer::attention}, {0});
  EXPECT_EQ(std::ssize(expert_use(*run, 0, 0, 0)), kExperts - 1);
  // A configuration that names more experts than any model has takes no more memory than this.
  EXPECT_EQ(std::ssize(expert_use(*run, 0, 2'000'000'000, 0)), 1 << 16);
}

TEST(ExpertUse, TheHeaviestComesFirst) {
  const auto run = random_run(50, {Mixer::attention}, {0});
  const std::vector<ReadExpert> heaviest = heaviest_experts(*run, 0);
  ASSERT_EQ(heaviest.size(), 50U);
  for (std::int64_t position = 0; position < 50; ++position) {
    const std::vector<ReadExpert> read = experts_read(*run, 0, position);
    ASSERT_EQ(read.size(), 2U);
    EXPECT_GE(read[0].weight, read[1].weight);
    EXPECT_EQ(read[0].expert, heaviest[index_of(position)].expert);
    EXPECT_EQ(read[0].weight, heaviest[index_of(position)].weight);
  }
}

TEST(ExpertUse, OfLayersWithoutHeadsAreThoseOfTheHeadsBeforeThem) {
  const auto run =
      random_run(20, {Mixer::attention, Mixer::none, Mixer::none, Mixer::attention, Mixer::attention}, {2, 4});
  EXPECT_EQ(expert_layer(*run, 0), 2);
  EXPECT_EQ(expert_layer(*run, 2), 2);
  EXPECT_EQ(expert_layer(*run, 3), std::nullopt);
  EXPECT_EQ(expert_layer(*run, 4), 4);
  EXPECT_FALSE(has_experts(*run, 1));
}

TEST(ExpertUse, WeightsThatAreNoNumbersAreTheLightest) {
  Recorder recorder(info_of(1, {Mixer::attention}), {Keep::experts}, nullptr);
  const Recorder::Experts into = recorder.experts(0);
  into.experts[0] = 3;
  into.weights[0] = std::numeric_limits<float>::quiet_NaN();
  into.experts[1] = 1;
  into.weights[1] = 0.25F;
  const auto run = recorder.finish(nullptr, tokens_of(1));
  EXPECT_EQ(heaviest_experts(*run, 0).front().expert, 1);
  EXPECT_EQ(experts_read(*run, 0, 0).front().expert, 1);
}

TEST(ExpertUse, SaysWhatIsMissing) {
  Recorder recorder(info_of(8, {Mixer::attention}), {Keep::loss}, nullptr);
  const auto run = recorder.finish(nullptr, tokens_of(8));
  EXPECT_FALSE(has_experts(*run, 0));
  EXPECT_EQ(expert_layer(*run, 0), std::nullopt);
  EXPECT_EQ(error_of<Error>([&] { expert_use(*run, 0, 4, 1); }),
            "model 'mixture': the run did not keep chosen experts: run again with 'experts' in --keep");
  EXPECT_EQ(error_of<UsageError>([&] { expert_use(*run, 1, 4, 1); }),
            "model 'mixture' has no layer 1: layers are 0 to 0");
}

}  // namespace
}  // namespace foxscope::test
