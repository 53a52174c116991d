#include "backend/map/map_line.h"

#include <cmath>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "backend/base/error.h"
#include "backend/base/index.h"
#include "tests/map/dense.h"
#include "tests/map/linear_run.h"

namespace foxscope::test {
namespace {

using Along = MapLine::Along;

constexpr Along kAlong[] = {Along::row, Along::column, Along::diagonal};

std::vector<float> whole_line(const HeadOf& head, Quantity quantity, const MapLine& line) {
  return line_entries({head, {}, quantity, FirstKey::counted, line, line.positions(head.trace->info().length)}, {})
      .value();
}

/// Every entry of a line is that of the dense float64 map, [L, L].
void expect_entries(const std::vector<float>& values, const MapLine& line, const std::vector<double>& dense,
                    std::int64_t length) {
  const Range positions = line.positions(length);
  ASSERT_EQ(static_cast<std::int64_t>(values.size()), positions.size());
  for (std::int64_t position = positions.begin; position < positions.end; ++position) {
    const auto value = static_cast<double>(values[index_of(position - positions.begin)]);
    const double expected = dense[index_of(line.query(position) * length + line.key(position))];
    ASSERT_EQ(std::isnan(value), std::isnan(expected)) << position;
    if (!std::isnan(expected)) {
      ASSERT_NEAR(value, expected, 3e-6 * (1 + std::abs(expected))) << position;
    }
  }
}

TEST(MapLine, GoesThroughItsPairs) {
  for (const Along along : kAlong) {
    const MapLine line = MapLine::through(along, 40, 15);
    const std::int64_t position = along == Along::row ? 15 : 40;
    EXPECT_EQ(line.query(position), 40);
    EXPECT_EQ(line.key(position), 15);
    const Range positions = line.positions(60);
    EXPECT_EQ(line.key(positions.begin), along == Along::column ? 15 : 0);
    EXPECT_EQ(line.query(positions.end - 1), along == Along::row ? 40 : 59);
    for (std::int64_t at = positions.begin; at < positions.end; ++at) EXPECT_LE(line.key(at), line.query(at));
  }
  EXPECT_EQ(MapLine::through(Along::diagonal, 40, 15).at, 25);
}

TEST(MapLine, EntriesAreThoseOfTheDenseMap) {
  for (const bool gated : {true, false}) {
    for (const std::int64_t window : {0, 70}) {
      RunShape shape;
      shape.length = 200;
      shape.heads = 2;
      shape.gated = gated;
      shape.window = window;
      const auto run = make_run(shape);
      const HeadOf head{run, 0, 1};
      const DenseHead dense(head);
      for (const Quantity quantity : {Quantity::forget, Quantity::log_forget, Quantity::logits, Quantity::attention,
                                      Quantity::attention_without_gate, Quantity::gate_effect}) {
        const std::vector<double> entries = dense.entries(quantity);
        for (const Along along : kAlong) {
          for (const std::int64_t at : {0, 1, 63, 64, 130, 199}) {
            SCOPED_TRACE(fmt::format("{} gated {} window {} along {} at {}", to_string(quantity), gated, window,
                                     static_cast<int>(along), at));
            expect_entries(whole_line(head, quantity, {along, at}), {along, at}, entries, shape.length);
          }
        }
      }
    }
  }
}

TEST(MapLine, OfLinearMixersAreThoseOfTheRecurrence) {
  constexpr std::int64_t kLength = 150;
  for (const LayerMixer& mixer : linear_mixers()) {
    const auto run = make_linear_run({mixer, kLength});
    const HeadOf head{run, 0, 1};
    const std::vector<double> dense = dense_mixing(head, {0, kLength});
    for (const Along along : kAlong) {
      for (const std::int64_t at : {0, 30, 149}) {
        SCOPED_TRACE(fmt::format("{} {} along {} at {}", to_string(mixer.mixer), to_string(mixer.decay),
                                 static_cast<int>(along), at));
        expect_entries(whole_line(head, Quantity::mixing, {along, at}), {along, at}, dense, kLength);
        // Shares of rows whose sizes are those of the whole text, although few rows are asked for.
        const std::vector<float> shares = whole_line(head, Quantity::attention, {along, at});
        const Range positions = MapLine{along, at}.positions(kLength);
        for (std::int64_t position = positions.begin; position < positions.end; ++position) {
          const std::int64_t query = MapLine{along, at}.query(position);
          double size = 0;
          for (std::int64_t key = 0; key <= query; ++key) {
            size += std::abs(dense[index_of(query * kLength + key)]);
          }
          const double entry = dense[index_of(query * kLength + MapLine{along, at}.key(position))];
          ASSERT_NEAR(static_cast<double>(shares[index_of(position - positions.begin)]), std::abs(entry) / size, 1e-5);
        }
      }
    }
  }
}

TEST(MapLine, APartIsThatPartOfTheWhole) {
  RunShape shape;
  shape.length = 300;
  shape.heads = 2;
  const auto run = make_run(shape);
  LineRequest request{{run, 0, 0}, HeadOf{run, 0, 1}, Quantity::attention_without_gate, FirstKey::left_out, {}, {}};
  for (const Along along : kAlong) {
    request.line = MapLine::through(along, 250, 90);
    request.positions = request.line.positions(shape.length);
    const std::vector<float> whole = line_entries(request, {}).value();
    const std::int64_t begin = request.positions.begin;
    request.positions = {std::max<std::int64_t>(begin, 85), 240};
    const std::vector<float> part = line_entries(request, {}).value();
    ASSERT_EQ(static_cast<std::int64_t>(part.size()), request.positions.size());
    for (std::size_t n = 0; n < part.size(); ++n) {
      const float expected = whole[n + static_cast<std::size_t>(request.positions.begin - begin)];
      // Key 0 is left out.
      const std::int64_t position = request.positions.begin + static_cast<std::int64_t>(n);
      ASSERT_EQ(std::isnan(expected), request.line.key(position) == 0);
      ASSERT_EQ(std::isnan(part[n]), std::isnan(expected));
      if (!std::isnan(expected)) {
        EXPECT_NEAR(part[n], expected, 1e-6);
      }
    }
    request.positions.end = request.positions.begin;
    EXPECT_TRUE(line_entries(request, {}).value().empty());
  }
}

TEST(MapLine, StopsWhenAsked) {
  RunShape shape;
  shape.length = 200;
  const auto run = make_run(shape);
  std::stop_source stop;
  stop.request_stop();
  Job job;
  job.stop = stop.get_token();
  for (const Along along : kAlong) {
    const MapLine line{along, 100};
    EXPECT_FALSE(
        line_entries({{run, 0, 0}, {}, Quantity::attention, FirstKey::counted, line, line.positions(200)}, job));
  }
}

TEST(MapLine, SaysWhatTakesAPassOverAllRows) {
  RunShape shape;
  shape.length = 100;
  const HeadOf head{make_run(shape), 0, 0};
  EXPECT_FALSE(needs_all_rows(head, Quantity::forget));
  EXPECT_FALSE(needs_all_rows(head, Quantity::attention));
  EXPECT_TRUE(needs_all_rows(head, Quantity::attention_without_gate));
  // What a diagonal has computed is kept.
  (void)whole_line(head, Quantity::attention_without_gate, {Along::diagonal, 10});
  EXPECT_FALSE(needs_all_rows(head, Quantity::attention_without_gate));
  shape.gated = false;
  EXPECT_FALSE(needs_all_rows({make_run(shape), 0, 0}, Quantity::attention_without_gate));

  const HeadOf mamba{make_linear_run({mamba2_mixer(), 100}), 0, 0};
  EXPECT_TRUE(needs_all_rows(mamba, Quantity::attention));
  EXPECT_FALSE(needs_all_rows(mamba, Quantity::mixing));
  (void)whole_line(mamba, Quantity::attention, {Along::diagonal, 10});
  EXPECT_FALSE(needs_all_rows(mamba, Quantity::attention));
  EXPECT_TRUE(needs_all_rows({make_linear_run({delta_mixer(), 100}), 0, 0}, Quantity::mixing));
}

}  // namespace
}  // namespace foxscope::test
