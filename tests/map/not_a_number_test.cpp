// What is not a number stays none: in every pixel that holds such an entry and in no other, and in every statistic that
// is made of one.
#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "backend/base/index.h"
#include "backend/map/statistics/bins.h"
#include "backend/map/statistics/decay_split.h"
#include "backend/map/statistics/head_statistics.h"
#include "kernels/cpu/pooled_map.h"
#include "tests/kernels/instruction_set.h"
#include "tests/map/dense.h"

namespace foxscope::test {
namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
constexpr std::int64_t kLength = 330;
constexpr Reduction kReductions[] = {Reduction::max, Reduction::mean, Reduction::min, Reduction::absmax};

RunShape head_of_memory(double decay_time) {
  RunShape shape;
  shape.length = kLength;
  shape.log_gate = [decay_time](int, std::int64_t, double normal) { return -std::exp(normal / 4) / decay_time; };
  return shape;
}

float* row_of(HostQueryKeyStore& store, QueryKeyStore::Part part, std::int64_t row) {
  return reinterpret_cast<float*>(store.layer(part, 0).data()) + row * store.shape().head_dim;
}

/// Something that is spoiled in a run, and the entries that are made of it.
struct Flaw {
  const char* name;
  std::vector<Quantity> quantities;  ///< that it is part of
  std::function<void(Recorder&, HostQueryKeyStore&)> spoil;
  std::function<bool(Quantity, std::int64_t row, std::int64_t key)> holds;
};

/// @param window  of the head; 0: none
std::vector<Flaw> flaws(std::int64_t window) {
  using enum Quantity;
  const auto row = [](std::int64_t wanted) {
    return [wanted](Quantity, std::int64_t i, std::int64_t) { return i == wanted; };
  };
  return {
      {"a row normaliser",
       {attention, gate_effect},
       [](Recorder& recorder, HostQueryKeyStore&) { recorder.log_normalizer(0)[200] = static_cast<float>(kNone); },
       row(200)},
      {"all row normalisers",
       {attention, gate_effect},
       [](Recorder& recorder, HostQueryKeyStore&) {
         for (float& value : recorder.log_normalizer(0)) value = static_cast<float>(kNone);
       },
       [](Quantity, std::int64_t, std::int64_t) { return true; }},
      {"a query",
       {logits, attention, attention_without_gate, gate_effect},
       [](Recorder&, HostQueryKeyStore& store) {
         row_of(store, QueryKeyStore::Part::query, 130)[7] = static_cast<float>(kNone);
       },
       row(130)},
      // Row normalisers without the gate are computed from the keys.
      {"a key",
       {logits, attention, attention_without_gate, gate_effect},
       [](Recorder&, HostQueryKeyStore& store) {
         row_of(store, QueryKeyStore::Part::key, 70)[3] = static_cast<float>(kNone);
       },
       [window](Quantity quantity, std::int64_t i, std::int64_t j) {
         const bool reads = i >= 70 && (window == 0 || i < 70 + window);
         return j == 70 || (reads && (quantity == attention_without_gate || quantity == gate_effect));
       }},
      {"a gate, and with it the sums that follow",
       {forget, log_forget, attention, gate_effect},
       [](Recorder& recorder, HostQueryKeyStore&) {
         const auto c = recorder.cumulative_log_gate(0);
         std::fill(c.begin() + 170, c.end(), kNone);
       },
       [](Quantity, std::int64_t i, std::int64_t) { return i >= 170; }},
  };
}

/// Which pixels of a request hold a spoiled entry.
std::vector<bool> spoiled_pixels(const MapRequest& request, const Flaw& flaw) {
  const std::int64_t window = request.head.trace->info().window_size;
  const auto columns = static_cast<std::size_t>(request.pixel_columns);
  std::vector<bool> spoiled(static_cast<std::size_t>(request.pixel_rows) * columns);
  for (std::int64_t i = request.rows.begin; i < request.rows.end; ++i) {
    const auto line = static_cast<std::size_t>(bin_of(request.rows, request.pixel_rows, i)) * columns;
    const std::int64_t oldest = window == 0 ? 0 : std::max<std::int64_t>(0, i - window + 1);
    for (std::int64_t j = std::max(request.columns.begin, oldest); j <= i && j < request.columns.end; ++j) {
      if (!flaw.holds(request.quantity, i, j)) continue;
      spoiled[line + static_cast<std::size_t>(bin_of(request.columns, request.pixel_columns, j))] = true;
    }
  }
  return spoiled;
}

/// Pixels with a spoiled entry are NaN, the others are those of the clean run. (The gate of a block that is NaN in part
/// is added in float64, which rounds its other entries otherwise.)
void expect_spoiled(MapRequest request, const HeadOf& clean, const Flaw& flaw) {
  const Image found = compute_map(request, {}).value();
  const std::vector<bool> spoiled = spoiled_pixels(request, flaw);
  request.head = clean;
  if (request.minus) request.minus = clean;
  const Image expected = compute_map(request, {}).value();
  std::int64_t wrong = 0;
  for (std::size_t n = 0; n < found.value.size(); ++n) {
    const bool same = found.value[n] == expected.value[n] || std::abs(found.value[n] - expected.value[n]) < 1e-6F ||
                      (std::isnan(found.value[n]) && std::isnan(expected.value[n]));
    wrong += (spoiled[n] ? std::isnan(found.value[n]) : same) ? 0 : 1;
  }
  EXPECT_EQ(wrong, 0) << flaw.name << ", " << to_string(request.quantity) << ", " << to_string(request.reduction)
                      << ", " << request.pixel_rows << "x" << request.pixel_columns << ", window "
                      << clean.trace->info().window_size;
}

void expect_spoiled_maps(const RunShape& shape) {
  const HeadOf clean{make_run(shape), 0, 0};
  for (const Flaw& flaw : flaws(shape.window)) {
    if (!shape.gated && flaw.quantities.front() == Quantity::forget) continue;
    RunShape flawed = shape;
    flawed.spoil = flaw.spoil;
    MapRequest request;
    request.head = {make_run(flawed), 0, 0};
    request.rows = {3, 328};
    request.columns = {2, 327};
    for (const Quantity quantity : flaw.quantities) {
      // Without a gate its effect takes the run's own normalisers twice.
      if (!shape.gated && (quantity == Quantity::gate_effect || quantity == Quantity::attention_without_gate)) continue;
      request.quantity = quantity;
      for (const auto& [rows, columns] : {std::pair{325, 325}, {325, 40}, {41, 325}, {57, 61}, {3, 5}, {1, 1}}) {
        request.pixel_rows = rows;
        request.pixel_columns = columns;
        for (const Reduction reduction : kReductions) {
          request.reduction = reduction;
          request.minus.reset();
          expect_spoiled(request, clean, flaw);
          if (rows != 57) continue;
          request.minus = clean;
          expect_spoiled(request, clean, flaw);
        }
      }
    }
  }
}

TEST(NotANumber, StaysOneInMapsOfAHeadThatForgets) { expect_spoiled_maps(head_of_memory(0.5)); }
TEST(NotANumber, StaysOneInMapsOfAHeadThatRemembers) { expect_spoiled_maps(head_of_memory(100)); }

TEST(NotANumber, StaysOneInMapsThroughAWindow) {
  RunShape shape = head_of_memory(5);
  shape.window = 50;
  expect_spoiled_maps(shape);
}

TEST(NotANumber, StaysOneInMapsWithoutAGate) {
  RunShape shape = head_of_memory(5);
  shape.gated = false;
  expect_spoiled_maps(shape);
}

TEST(NotANumber, StaysOneWhereEntriesMayBeLeftOut) {
  RunShape shape = head_of_memory(0.5);
  const Flaw flaw = flaws(0)[1];
  shape.spoil = flaw.spoil;
  MapRequest request;
  request.head = {make_run(shape), 0, 0};
  request.rows = request.columns = {0, kLength};
  request.pixel_rows = request.pixel_columns = 40;
  request.skip_tolerance = 0x1p-24;
  const Image image = compute_map(request, {}).value();
  EXPECT_TRUE(std::all_of(image.value.begin(), image.value.end(), [](float value) { return std::isnan(value); }));
}

TEST(NotANumber, StaysOneWhateverTheInstructionSet) {
  using namespace kernels;
  for (const std::int64_t target : testing::InstructionSet::available()) {
    const testing::InstructionSet chosen(target);
    for (const auto reduction : {cpu::PixelReduction::max, cpu::PixelReduction::min, cpu::PixelReduction::sum,
                                 cpu::PixelReduction::absolute}) {
      for (const std::int64_t place : {0, 1, 31, 62, 63}) {
        std::vector<float> tile(cpu::kMapTile * cpu::kMapTile, 1.0F);
        tile[index_of(place * cpu::kMapTile + 63 - place)] = static_cast<float>(kNone);
        std::vector<float> result(tile.size());
        const cpu::TilePixels pixels{.pieces = 1, .segments = 1, .key_end = {64}, .lane_end = {64}};
        cpu::reduce_tile(tile.data(), cpu::kMapTile, pixels, reduction, result.data());
        EXPECT_TRUE(std::isnan(result[0])) << hwy::TargetName(target) << " " << place;
      }
      for (const bool first : {true, false}) {
        std::vector<float> line(37, first ? static_cast<float>(kNone) : 1.0F);
        const std::vector<float> other(37, first ? 1.0F : static_cast<float>(kNone));
        cpu::combine(reduction, 37, other.data(), line.data());
        EXPECT_TRUE(std::all_of(line.begin(), line.end(), [](float value) { return std::isnan(value); }))
            << hwy::TargetName(target);
      }
    }
    for (std::size_t place = 0; place < 5 * 19; ++place) {
      std::vector<float> rows(5 * 19, 2.0F);
      EXPECT_FLOAT_EQ(static_cast<float>(cpu::largest_norm(rows.data(), 5, 19)), std::sqrt(4.0F * 19));
      rows[place] = static_cast<float>(kNone);
      EXPECT_TRUE(std::isnan(cpu::largest_norm(rows.data(), 5, 19))) << hwy::TargetName(target) << " " << place;
    }
  }
}

void expect_nothing_known(const AttentionSpread& spread) {
  EXPECT_TRUE(std::isnan(spread.entropy));
  EXPECT_TRUE(std::isnan(spread.mass_on_self));
  for (const DistanceProfile* profile : {&spread.distance, &spread.distance_without_first}) {
    EXPECT_TRUE(std::isnan(profile->mass[0]));
    EXPECT_TRUE(std::isnan(profile->d50));
    EXPECT_TRUE(std::isnan(profile->d90));
  }
}

TEST(NotANumber, StaysOneInTheStatisticsOfAttention) {
  for (const double decay_time : {0.5, 100.0}) {
    const RunShape shape = head_of_memory(decay_time);
    const auto clean = head_statistics({make_run(shape), 0, 0}, {}, {}).value();
    for (const Flaw& flaw : flaws(shape.window)) {
      RunShape flawed = shape;
      flawed.spoil = flaw.spoil;
      const HeadOf head{make_run(flawed), 0, 0};
      const auto statistics = head_statistics(head, {}, {}).value();
      SCOPED_TRACE(fmt::format("{}, decay time {}", flaw.name, decay_time));
      ASSERT_TRUE(statistics.has_attention);
      expect_nothing_known(statistics);
      EXPECT_TRUE(std::isnan(statistics.mass_on_first) || std::string(flaw.name) == "a key");
      const auto split = decay_split(head, statistics, {}).value();
      EXPECT_TRUE(std::isnan(split.divergence));
      EXPECT_TRUE(std::isnan(split.locality.total()));
      EXPECT_TRUE(std::isnan(split.locality_without_first.total()));
      if (std::string(flaw.name) != "a row normaliser") continue;
      // No more is lost than what the row has part in.
      for (std::size_t distance = 0; distance < kLength; ++distance) {
        EXPECT_EQ(std::isnan(statistics.distance.mass[distance]), distance <= 200) << distance;
        EXPECT_EQ(std::isnan(statistics.distance_without_first.mass[distance]), distance < 200) << distance;
        if (distance > 200) {
          EXPECT_EQ(statistics.distance.mass[distance], clean.distance.mass[distance]);
        }
      }
      EXPECT_FALSE(std::isnan(split.without_gate.entropy));
    }
  }
}

TEST(NotANumber, StaysOneInTheStatisticsOfTheGate) {
  RunShape shape = head_of_memory(5);
  for (const std::int64_t window : {0, 40}) {
    shape.window = window;
    shape.spoil = flaws(0).back().spoil;
    const HeadOf head{make_run(shape), 0, 0};
    const auto statistics = head_statistics(head, {}, {}).value();
    EXPECT_TRUE(std::isnan(statistics.mean_log_gate));
    EXPECT_TRUE(std::isnan(statistics.rate_decay_time));
    for (const double quantile : statistics.gate_quantile) EXPECT_TRUE(std::isnan(quantile));
    for (const auto* lengths : {&statistics.backward_horizon, &statistics.forward_survival}) {
      for (const Quartiles& quartiles : *lengths) {
        EXPECT_TRUE(std::isnan(quartiles.lower + quartiles.median + quartiles.upper));
        EXPECT_TRUE(std::isnan(quartiles.cut_off_share));
      }
    }
    EXPECT_TRUE(statistics.strongest_events.empty());
    const auto split = decay_split(head, statistics, {}).value();
    expect_nothing_known(split.without_content);
    EXPECT_FALSE(std::isnan(split.without_gate.entropy));
    for (const LogitMeans& means : split.logits) {
      EXPECT_TRUE(std::isnan(means.decay));
      EXPECT_EQ(std::isnan(means.content), means.distance.from >= kLength - 1);
    }
  }
}

}  // namespace
}  // namespace foxscope::test
