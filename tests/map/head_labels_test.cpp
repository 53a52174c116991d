// Labels of heads: scores against dense float64, and heads that are built to be of one kind.
#include "backend/map/statistics/head_labels.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "backend/base/index.h"
#include "backend/map/statistics/head_statistics.h"
#include "tests/map/dense.h"

namespace foxscope::test {
namespace {

constexpr double kNoScore = std::numeric_limits<double>::quiet_NaN();
using enum HeadLabel;

double score_of(const LabelScores& scores, HeadLabel label) { return scores[index_of(label)]; }

std::int32_t random_token(std::int64_t position) {
  std::minstd_rand random(static_cast<unsigned>(position + 1));
  random.discard(3);
  return static_cast<std::int32_t>(random() % 40);
}

/// Mean of what a function says of rows that it says something of.
template <typename Value>
double mean_over_rows(std::int64_t length, const Value& value) {
  double sum = 0;
  std::int64_t rows = 0;
  for (std::int64_t i = 0; i < length; ++i) {
    const auto one = value(i);
    if (!one) continue;
    sum += *one;
    ++rows;
  }
  return rows == 0 ? kNoScore : sum / static_cast<double>(rows);
}

/// The definitions of head_labels.h, entry by entry.
class DenseLabels {
 public:
  explicit DenseLabels(const HeadOf& head)
      : length_(head.trace->info().length),
        window_(head.trace->info().window_size),
        token_(head.trace->tokens()->input_id),
        attention_(DenseHead(head).entries(Quantity::attention)) {}

  [[nodiscard]] LabelScores scores() const {
    const auto previous = [&](std::int64_t i) { return i > 0 ? std::optional(at(i, i - 1)) : std::nullopt; };
    const auto first = [&](std::int64_t i) { return std::optional(at(i, 0)); };
    return {mean_over_rows(length_, previous),
            share(0, kLocalTokens, kLocalTokens),
            mean_over_rows(length_, first),
            positional(),
            induction(),
            share(kLongTokens, length_, kLongTokens)};
  }

 private:
  [[nodiscard]] double at(std::int64_t i, std::int64_t j) const {
    const double entry = attention_[index_of(i * length_ + j)];
    return std::isnan(entry) ? 0.0 : entry;  // outside the window
  }
  [[nodiscard]] double beside(std::int64_t i, std::int64_t j) const {
    double sum = 0;
    for (std::int64_t key = 1; key <= i; ++key) sum += at(i, key);
    return at(i, j) / sum;
  }
  [[nodiscard]] double share(std::int64_t from, std::int64_t to, std::int64_t further) const {
    return mean_over_rows(length_, [&](std::int64_t i) -> std::optional<double> {
      if (i <= further) return std::nullopt;
      double here = 0;
      double all = 0;
      for (std::int64_t j = 1; j <= i; ++j) {
        all += at(i, j);
        if (i - j >= from && i - j < to) here += at(i, j);
      }
      return all > 0 ? std::optional(here / all) : std::nullopt;
    });
  }
  [[nodiscard]] double positional() const {
    std::vector<double> sum(static_cast<std::size_t>(length_));
    std::vector<double> count(sum.size());
    double squares = 0;
    for (std::int64_t i = 1; i < length_; ++i) {
      // A row that lies wholly on key 0 has zeros.
      const double factor = at(i, i) == 0 ? 0.0 : beside(i, i) / at(i, i);
      for (std::int64_t j = 1; j <= i; ++j) {
        if (window_ > 0 && i - j >= window_) continue;
        const double entry = at(i, j) * factor;
        sum[index_of(i - j)] += entry;
        ++count[index_of(i - j)];
        squares += entry * entry;
      }
    }
    double explained = 0;
    for (std::size_t d = 0; d < sum.size(); ++d) {
      if (count[d] > 0) explained += sum[d] * sum[d] / count[d];
    }
    return explained / squares;
  }
  [[nodiscard]] double induction() const {
    return mean_over_rows(length_, [&](std::int64_t i) {
      std::optional<double> on;
      for (std::int64_t j = 1; j < i; ++j) {
        const bool seen = window_ == 0 || i - j < window_;
        if (seen && token_[index_of(j - 1)] == token_[index_of(i)]) {
          on = on.value_or(0) + at(i, j);
        }
      }
      return on;
    });
  }

  std::int64_t length_;
  std::int64_t window_;
  std::vector<std::int32_t> token_;
  std::vector<double> attention_;
};

/// @param rounding  of the head's logits
void expect_dense_scores(const HeadOf& head, double rounding = 2e-6) {
  const auto statistics = head_statistics(head, {}, {}).value();
  const LabelScores expected = DenseLabels(head).scores();
  for (int n = 0; n < kHeadLabels; ++n) {
    const auto label = static_cast<HeadLabel>(n);
    ASSERT_FALSE(std::isnan(score_of(expected, label))) << text_of(label).name;
    EXPECT_NEAR(score_of(statistics.label_scores, label), score_of(expected, label), rounding) << text_of(label).name;
    EXPECT_GE(score_of(statistics.label_scores, label), 0);
    EXPECT_LE(score_of(statistics.label_scores, label), 1);
  }
}

TEST(HeadLabels, HaveTheScoresOfTheirDefinitions) {
  RunShape shape;
  shape.length = 600;
  shape.heads = 3;
  shape.token = random_token;
  const auto run = make_run(shape);
  for (int head = 0; head < 3; ++head) expect_dense_scores({run, 0, head});
  shape.gated = false;
  expect_dense_scores({make_run(shape), 0, 0});
  shape.parks_on_first = 6;
  expect_dense_scores({make_run(shape), 0, 0});
  shape.parks_on_first = 0;
  shape.gated = true;
  shape.window = 300;
  shape.dtype = DType::bfloat16;
  expect_dense_scores({make_run(shape), 0, 2});
  shape.window = 90;
  expect_dense_scores({make_run(shape), 0, 1});
}

/// Early rows are mostly those that have nothing beside key 0, and no distance is theirs.
TEST(HeadLabels, LeaveOutRowsThatLieWhollyOnTheFirstKey) {
  const auto is_parked = [](std::int64_t row) { return row < 24 || (row < 300 && row % 3 == 1); };
  RunShape shape;
  shape.length = 600;
  shape.gated = false;
  shape.token = random_token;
  shape.fill = [&](HostQueryKeyStore& store) {
    const std::int64_t dim = store.shape().head_dim;
    for (std::int64_t row = 0; row < store.shape().length; ++row) {
      auto* const query = reinterpret_cast<float*>(store.layer(QueryKeyStore::Part::query, 0).data()) + row * dim;
      auto* const key = reinterpret_cast<float*>(store.layer(QueryKeyStore::Part::key, 0).data()) + row * dim;
      if (row == 0) std::fill_n(key, dim, 0.0F);
      // The logit with key 0 is so much larger than the others that nothing is left of these.
      query[0] = is_parked(row) ? 1024.0F : 0.0F;
      key[0] = row == 0 ? 4.0F : 0.0F;
    }
  };
  const auto run = make_run(shape);
  const auto statistics = head_statistics({run, 0, 0}, {}, {}).value();
  EXPECT_EQ(statistics.rows_without_first, 599 - 23 - 92);
  EXPECT_EQ(statistics.rows_up_to_local, 32 - 23 - 3);
  expect_dense_scores({run, 0, 0}, 1e-5);  // logits of a thousand
}

/// Directions that have little to do with one another, by number.
std::vector<float> direction(std::int64_t number, std::int64_t size) {
  std::mt19937 random(static_cast<unsigned>(number + 77));
  std::normal_distribution<float> normal;
  std::vector<float> values(static_cast<std::size_t>(size));
  double square = 0;
  for (float& value : values) {
    value = normal(random);
    square += static_cast<double>(value) * static_cast<double>(value);
  }
  for (float& value : values) value /= static_cast<float>(std::sqrt(square));
  return values;
}

using Number = std::function<std::int64_t(std::int64_t position)>;

/// Position i attends to the positions j for which key(j) == query(i), in so far as there are any. Negative: to nothing
/// in particular.
void match(RunShape& shape, const Number& query, const Number& key) {
  shape.head_dim = 64;
  shape.fill = [query, key](HostQueryKeyStore& store) {
    const std::int64_t dim = store.shape().head_dim;
    for (std::int64_t row = 0; row < store.shape().length; ++row) {
      const auto put = [&](QueryKeyStore::Part part, std::int64_t number, float size) {
        auto* to = reinterpret_cast<float*>(store.layer(part, 0).data()) + row * dim;
        const std::vector<float> values = direction(number, dim);
        for (std::int64_t n = 0; n < dim; ++n) {
          to[n] = number < 0 ? 0.0F : size * values[index_of(n)];
        }
      };
      put(QueryKeyStore::Part::query, query(row), 40);
      put(QueryKeyStore::Part::key, key(row), 8);
    }
  };
}

std::vector<HeadLabel> labels_of_run(const RunShape& shape) {
  return labels_of(head_statistics({make_run(shape), 0, 0}, {}, {}).value().label_scores);
}

RunShape ungated(std::int64_t length) {
  RunShape shape;
  shape.length = length;
  shape.gated = false;
  shape.token = random_token;
  return shape;
}

constexpr auto kPlace = [](std::int64_t position) { return position; };
const std::vector<HeadLabel> kNoLabels;

TEST(HeadLabels, NameAHeadThatAttendsToTheTokenBefore) {
  RunShape shape = ungated(500);
  match(
      shape, [](std::int64_t i) { return std::max<std::int64_t>(0, i - 1); }, kPlace);
  // It is local and goes by distance as well; what it is most of all comes first.
  EXPECT_EQ(labels_of_run(shape), (std::vector{previous_token, positional, local}));
}

TEST(HeadLabels, NameAHeadThatLooksNear) {
  RunShape shape = ungated(500);
  shape.window = 30;
  EXPECT_EQ(labels_of_run(shape), std::vector{local});
  shape.window = 0;
  EXPECT_EQ(labels_of_run(shape), kNoLabels);
}

TEST(HeadLabels, NameAHeadThatParksOnTheFirstKey) {
  RunShape shape = ungated(500);
  shape.parks_on_first = 9;
  EXPECT_EQ(labels_of_run(shape), std::vector{sink});
}

TEST(HeadLabels, NameAHeadThatGoesByDistance) {
  RunShape shape = ungated(500);
  match(
      shape, [](std::int64_t i) { return i < 50 ? -1 : i - 50; }, kPlace);
  EXPECT_EQ(labels_of_run(shape), std::vector{positional});
}

TEST(HeadLabels, NameAHeadThatLooksForWhatFollowed) {
  RunShape shape = ungated(500);
  const auto before = [&](std::int64_t j) -> std::int64_t { return j == 0 ? -1 : random_token(j - 1); };
  match(shape, random_token, before);
  EXPECT_EQ(labels_of_run(shape), std::vector{induction});
  // The same head on a text that comes twice, all of whose tokens are different.
  constexpr std::int64_t kPeriod = 250;
  shape.token = [](std::int64_t position) { return static_cast<std::int32_t>(position % kPeriod); };
  match(shape, shape.token, [](std::int64_t j) { return j == 0 ? -1 : (j - 1) % kPeriod; });
  const auto statistics = head_statistics({make_run(shape), 0, 0}, {}, {}).value();
  EXPECT_EQ(statistics.repeats, 500 - kPeriod);
  EXPECT_GT(score_of(statistics.label_scores, induction), 0.95);
  EXPECT_EQ(labels_of(statistics.label_scores).front(), induction);
}

TEST(HeadLabels, NameAHeadThatLooksFarBack) {
  RunShape shape = ungated(2000);
  match(
      shape, [](std::int64_t) { return -1; }, kPlace);
  EXPECT_EQ(labels_of_run(shape), std::vector{long_memory});
}

TEST(HeadLabels, OfAConstantGateFollowItsDecayTime) {
  for (const auto& [time, expected] : {std::pair{10.0, true}, {40.0, false}}) {
    RunShape shape;
    shape.length = 1500;
    shape.head_dim = 16;
    shape.log_gate = [time = time](int, std::int64_t, double) { return -1.0 / time; };
    match(
        shape, [](std::int64_t) { return -1; }, kPlace);
    const LabelScores scores = head_statistics({make_run(shape), 0, 0}, {}, {}).value().label_scores;
    EXPECT_NEAR(score_of(scores, local), 1 - std::exp(-32 / time), 0.01) << time;
    EXPECT_GT(score_of(scores, positional), 0.85);  // the first rows have less than the others to choose from
    const std::vector<HeadLabel> labels = labels_of(scores);
    EXPECT_EQ(std::find(labels.begin(), labels.end(), local) != labels.end(), expected);
  }
}

TEST(HeadLabels, AreAbsentWhereATextIsTooShortOrNothingComesAgain) {
  RunShape shape;
  shape.length = 200;
  const auto statistics = head_statistics({make_run(shape), 0, 0}, {}, {}).value();
  EXPECT_EQ(statistics.repeats, 0);
  EXPECT_TRUE(std::isnan(score_of(statistics.label_scores, induction)));
  EXPECT_TRUE(std::isnan(score_of(statistics.label_scores, long_memory)));
  EXPECT_FALSE(std::isnan(score_of(statistics.label_scores, local)));
  // A token that is repeated at once leads to itself.
  shape.token = [](std::int64_t position) { return static_cast<std::int32_t>(position / 2); };
  EXPECT_EQ(head_statistics({make_run(shape), 0, 0}, {}, {}).value().repeats, 0);
  shape.length = 1;
  const auto one = head_statistics({make_run(shape), 0, 0}, {}, {}).value();
  // It has nothing but key 0 to attend to: no sink.
  for (const HeadLabel label : {previous_token, local, sink, positional, induction, long_memory}) {
    EXPECT_TRUE(std::isnan(score_of(one.label_scores, label))) << text_of(label).name;
  }
  shape.keeps_query_key = false;
  const auto none = head_statistics({make_run(shape), 0, 0}, {}, {}).value();
  for (const double score : none.label_scores) EXPECT_TRUE(std::isnan(score));
}

TEST(HeadLabels, OneRowBesideKeyZeroIsEnoughForPositional) {
  constexpr int kLength = 64;
  constexpr double kKeys = kLength - 1;
  AttentionSpread spread;
  spread.distance.mass.assign(kLength, 1.0 / kLength);
  // The last row looks at all keys but the first alike; the others lie on key 0.
  spread.distance_without_first.mass.assign(kLength, 1 / kKeys);
  spread.distance_without_first.mass.back() = 0;
  spread.rows_without_first = 1;
  spread.square_without_first = 1 / kKeys;
  double expected = 0;
  for (int rows = 1; rows < kLength; ++rows) expected += 1 / (rows * kKeys);
  EXPECT_NEAR(score_of(label_scores(spread, 0), positional), expected, 1e-12);
  spread.rows_without_first = 0;
  EXPECT_TRUE(std::isnan(score_of(label_scores(spread, 0), positional)));
}

TEST(HeadLabels, OfFewTokensAreNone) {
  RunShape shape = ungated(kShortestLabelled);
  shape.parks_on_first = 9;
  EXPECT_EQ(labels_of_run(shape).front(), sink);
  // All attention is on key 0, as it has to be where there are hardly others.
  for (const std::int64_t length : {std::int64_t{2}, kShortestLabelled - 1}) {
    shape.length = length;
    EXPECT_EQ(labels_of_run(shape), kNoLabels) << length;
  }
  // A head that looks at everything alike.
  for (const std::int64_t length : {2, 16, 20, 32, 34, 48, 63, 64, 80, 300}) {
    RunShape alike = ungated(length);
    match(
        alike, [](std::int64_t /*i*/) { return std::int64_t{-1}; },
        [](std::int64_t /*j*/) { return std::int64_t{-1}; });
    EXPECT_EQ(labels_of_run(alike), kNoLabels) << length;
  }
}

TEST(HeadLabels, OfWhatIsNotANumberAreNone) {
  RunShape shape = ungated(600);
  shape.nan_normalizer = 590;
  const auto statistics = head_statistics({make_run(shape), 0, 0}, {}, {}).value();
  EXPECT_GT(statistics.repeats, 0);
  for (const double score : statistics.label_scores) EXPECT_TRUE(std::isnan(score));
  EXPECT_EQ(labels_of(statistics.label_scores), kNoLabels);
}

TEST(HeadLabels, AreThoseThatReachTheirThresholdTheStrongestFirst) {
  LabelScores scores = no_label_scores();
  scores[index_of(local)] = text_of(local).threshold;
  scores[index_of(induction)] = 2 * text_of(induction).threshold;
  scores[index_of(sink)] = text_of(sink).threshold - 1e-9;
  EXPECT_EQ(labels_of(scores), (std::vector{induction, local}));
  EXPECT_EQ(names_of(labels_of(scores), ", "), "induction, local");
  EXPECT_EQ(names_of({}, ", "), "");
}

}  // namespace
}  // namespace foxscope::test
