// Maps by distance against dense float64, and against the entries of maps by key.
#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "backend/base/index.h"
#include "backend/map/distance_axis.h"
#include "backend/map/map_stages.h"
#include "kernels/cpu/pooled_map.h"
#include "kernels/executor.h"
#include "tests/error_of.h"
#include "tests/kernels/instruction_set.h"
#include "tests/map/dense.h"
#include "tests/map/linear_run.h"

namespace foxscope::test {
namespace {

constexpr Reduction kAllReductions[] = {Reduction::max, Reduction::mean, Reduction::min, Reduction::absmax};
constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

MapRequest by_distance(const HeadOf& head, Range rows, std::int64_t pixel_rows, std::vector<std::int64_t> edges) {
  MapRequest request;
  request.head = head;
  request.rows = rows;
  request.pixel_rows = pixel_rows;
  request.set_distances(std::move(edges));
  return request;
}

std::vector<std::int64_t> log_edges(Range distances, std::int64_t pixels) {
  return DistanceAxis{distances, pixels}.edges();
}

/// Bins of distances for a text of so many tokens: with repeats, of one distance each, a part, few and wide, one.
std::vector<std::vector<std::int64_t>> edges_for(std::int64_t length) {
  return {log_edges({1, length + 1}, 173),
          single_distances({1, std::min<std::int64_t>(length + 1, 400)}),
          log_edges({std::min<std::int64_t>(37, length / 2), length - 3}, 61),
          {1, 2, 3, 4 + length / 3, length + 1},
          {1, length + 1},
          {std::max<std::int64_t>(2, length - 5), length + 100}};
}

/// Every quantity and reduction of one head, or of a difference, against dense float64.
void expect_distances_precise(const HeadOf& head, const std::optional<HeadOf>& minus = {}) {
  const DenseHead dense(head);
  const std::int64_t length = dense.length();
  for (const Quantity quantity : {Quantity::forget, Quantity::log_forget, Quantity::logits, Quantity::attention,
                                  Quantity::attention_without_gate, Quantity::gate_effect}) {
    std::vector<double> entries = dense.entries(quantity);
    double largest = quantity == Quantity::gate_effect ? 1.0 : std::max(largest_size(entries), 1e-3);
    if (minus) {
      const std::vector<double> subtracted = DenseHead(*minus).entries(quantity);
      largest = std::max(largest, largest_size(subtracted));
      for (std::size_t n = 0; n < entries.size(); ++n) entries[n] -= subtracted[n];
    }
    for (const auto& edges : edges_for(length)) {
      for (const auto& [rows, pixels] : {std::pair{Range{0, length}, std::int64_t{97}},
                                         {Range{length / 9, length - 1}, 11},
                                         {{length - 9, length}, 9}}) {
        MapRequest request = by_distance(head, rows, std::min(pixels, rows.size()), edges);
        request.quantity = quantity;
        request.minus = minus;
        const DenseBins bins(entries, length, request);
        for (const Reduction reduction : kAllReductions) {
          request.reduction = reduction;
          auto image = compute_map(request, {});
          ASSERT_TRUE(image.has_value());
          std::vector<double> expected = bins.pixels(reduction);
          if (reduction == Reduction::absmax && (quantity == Quantity::gate_effect || minus)) {
            // Which of two of one size is larger is a matter of rounding.
            for (double& value : expected) value = std::abs(value);
            for (float& value : image->value) value = std::abs(value);
          }
          EXPECT_LT(largest_difference(*image, expected, largest), 1e-6)
              << to_string(quantity) << " " << to_string(reduction) << " " << pixels << " x " << edges.size() - 1
              << " from " << edges.front();
        }
      }
    }
  }
}

TEST(DistanceMap, IsPreciseForGatedHeadsWithGroupedKeys) {
  RunShape shape;
  shape.length = 1131;
  shape.heads = 4;
  shape.key_heads = 2;
  shape.head_dim = 64;
  const auto run = make_run(shape);
  expect_distances_precise({run, 0, 0});
  expect_distances_precise({run, 0, 3});
}

TEST(DistanceMap, IsPreciseWithoutGate) {
  RunShape shape;
  shape.length = 700;
  shape.head_dim = 64;
  shape.gated = false;
  expect_distances_precise({make_run(shape), 0, 0});
}

TEST(DistanceMap, IsPreciseWithWindows) {
  RunShape shape;
  shape.heads = 3;
  shape.head_dim = 32;
  for (const auto& [length, window, dtype] : {std::tuple{700, 250, DType::bfloat16},
                                              {300, 1, DType::float32},
                                              {300, 64, DType::float32},
                                              {61, 7, DType::float32}}) {
    shape.length = length;
    shape.window = window;
    shape.dtype = dtype;
    SCOPED_TRACE(window);
    expect_distances_precise({make_run(shape), 0, 2});
  }
}

TEST(DistanceMap, IsPreciseForShortTexts) {
  RunShape shape;
  for (const std::int64_t length : {12, 65, 129}) {
    shape.length = length;
    expect_distances_precise({make_run(shape), 0, 0});
  }
}

TEST(DistanceMap, IsPreciseForDifferences) {
  RunShape shape;
  shape.length = 400;
  shape.heads = 2;
  const auto run = make_run(shape);
  shape.seed = 7;
  shape.window = 90;
  const auto other = make_run(shape);
  expect_distances_precise({run, 0, 0}, HeadOf{run, 0, 1});
  expect_distances_precise({run, 0, 1}, HeadOf{other, 0, 0});
}

/// A softmax whose largest entries are searched for in bytes: tiles of a single bin of distances among others.
TEST(DistanceMap, IsPreciseInWideBins) {
  RunShape shape;
  shape.length = 1800;
  shape.head_dim = 64;
  shape.gated = false;
  const HeadOf head{make_run(shape), 0, 0};
  MapRequest request = by_distance(head, {100, 1800}, 20, {1, 300, 301, 900, 1801});
  for (const Quantity quantity : {Quantity::attention, Quantity::attention_without_gate}) {
    request.quantity = quantity;
    request.reduction = Reduction::max;
    const std::vector<double> entries = DenseHead(head).entries(quantity);
    EXPECT_LT(largest_difference(compute_map(request, {}).value(), pool(entries, 1800, request), largest_size(entries)),
              1e-6);
  }
}

/// The entries of a map by key, each of its own pixel.
std::vector<double> entries_of(MapRequest request, std::int64_t length) {
  request.distances.clear();
  request.rows = request.columns = {0, length};
  request.pixel_rows = request.pixel_columns = length;
  const Image image = compute_map(request, {}).value();
  return {image.value.begin(), image.value.end()};
}

TEST(DistanceMap, HasTheEntriesOfLinearMixers) {
  for (const LayerMixer& mixer : linear_mixers()) {
    const HeadOf head{make_linear_run({mixer}), 0, 1};
    for (const Quantity quantity : {Quantity::mixing, Quantity::attention, Quantity::forget, Quantity::log_forget}) {
      if (!why_not(head.trace->info(), 0, quantity).empty()) continue;
      for (const auto& edges : edges_for(300)) {
        MapRequest request = by_distance(head, {0, 300}, 41, edges);
        request.quantity = quantity;
        const std::vector<double> entries = entries_of(request, 300);
        for (const Reduction reduction : kAllReductions) {
          request.reduction = reduction;
          EXPECT_LT(largest_difference(compute_map(request, {}).value(), pool(entries, 300, request),
                                       std::max(1e-3, largest_size(entries))),
                    2e-6)
              << to_string(mixer.mixer) << " " << to_string(quantity) << " " << to_string(reduction);
        }
      }
    }
  }
}

TEST(DistanceMap, LeavesOutTheFirstKey) {
  RunShape shape;
  shape.length = 330;
  for (const std::int64_t window : {0, 90}) {
    shape.window = window;
    MapRequest request;
    request.head = {make_run(shape), 0, 0};
    request.quantity = Quantity::attention;
    request.first_key = FirstKey::left_out;
    const std::vector<double> entries = entries_of(request, 330);
    for (const auto& edges : edges_for(330)) {
      MapRequest distances = by_distance(request.head, {0, 330}, 29, edges);
      distances.quantity = request.quantity;
      distances.first_key = FirstKey::left_out;
      for (const Reduction reduction : kAllReductions) {
        distances.reduction = reduction;
        EXPECT_LT(largest_difference(compute_map(distances, {}).value(), pool(entries, 330, distances), 1.0), 2e-6)
            << to_string(reduction) << " window " << window << " bins " << edges.size() - 1;
      }
    }
  }
}

/// A pixel is NaN where it has an entry that is, and nowhere else but where it has none.
TEST(DistanceMap, IsNotANumberWhereAnEntryIsNone) {
  RunShape shape;
  shape.length = 200;
  for (const std::int64_t window : {0, 40}) {
    shape.window = window;
    shape.spoil = [](Recorder& recorder, HostQueryKeyStore& store) {
      for (std::int64_t t = 150; t < 200; ++t) recorder.cumulative_log_gate(0)[index_of(t)] = kNone;
      reinterpret_cast<float*>(store.layer(QueryKeyStore::Part::query, 0).data())[90 * store.shape().head_dim] =
          std::nanf("");
    };
    const HeadOf head{make_run(shape), 0, 0};
    shape.spoil = {};
    const auto whole = make_run(shape);
    for (const Quantity quantity : {Quantity::forget, Quantity::log_forget, Quantity::logits, Quantity::attention}) {
      const std::vector<double> entries = DenseHead({whole, 0, 0}).entries(quantity);
      const bool of_gate = quantity != Quantity::logits;
      const bool of_query = quantity == Quantity::logits || quantity == Quantity::attention;
      for (const auto& edges : edges_for(200)) {
        MapRequest request = by_distance(head, {0, 200}, 33, edges);
        request.quantity = quantity;
        for (const Reduction reduction : kAllReductions) {
          request.reduction = reduction;
          const Image image = compute_map(request, {}).value();
          // A number that stands out in every reduction takes the place of NaN in the reference.
          for (const double sign : {1e30, -1e30}) {
            std::vector<double> marked = entries;
            for (std::int64_t i = 0; i < 200; ++i) {
              const bool none = (of_gate && i >= 150) || (of_query && i == 90);
              for (std::int64_t j = 0; j <= i && none; ++j) {
                double& entry = marked[index_of(i * 200 + j)];
                if (!std::isnan(entry)) entry = sign;
              }
            }
            MapRequest extreme = request;
            extreme.reduction = sign > 0 ? Reduction::max : Reduction::min;
            const std::vector<double> expected = pool(marked, 200, extreme);
            for (std::size_t n = 0; n < expected.size(); ++n) {
              const bool none = std::isnan(expected[n]) || std::abs(expected[n]) > 1e29;
              ASSERT_EQ(std::isnan(image.value[n]), none)
                  << to_string(quantity) << " " << to_string(reduction) << " " << n;
            }
          }
        }
      }
    }
  }
}

TEST(DistanceMap, StagesEndInTheSameMap) {
  RunShape shape;
  shape.length = 900;
  MapRequest request = by_distance({make_run(shape), 0, 0}, {0, 900}, 170, log_edges({1, 901}, 130));
  request.quantity = Quantity::attention;
  const Image expected = compute_map(request, {}).value();
  kernels::ThreadPool pool(1);
  const auto same = [&](const Image& image, std::size_t at) {
    const float value = image.value[at];
    return value == expected.value[at] || (std::isnan(value) && std::isnan(expected.value[at]));
  };
  int shown = 0;
  const auto show = [&](const MapStage& stage) {
    ++shown;
    ASSERT_EQ(stage.image.value.size(), expected.value.size());
    for (std::size_t n = 0; n < expected.value.size(); ++n) {
      if (stage.done[n / 130] != 0) {
        ASSERT_TRUE(same(stage.image, n)) << n;
      }
    }
  };
  const Image image = compute_map_in_stages(request, {{}, {}, &pool}, {show, {}}).value();
  EXPECT_GT(shown, 0);
  for (std::size_t n = 0; n < expected.value.size(); ++n) ASSERT_TRUE(same(image, n)) << n;
}

TEST(DistanceMap, RefusesEdgesThatAreNone) {
  RunShape shape;
  shape.length = 50;
  const HeadOf head{make_run(shape), 0, 0};
  for (const std::vector<std::int64_t>& edges : {std::vector<std::int64_t>{0, 5}, {1}, {3, 2, 9}, {1, 5, 5}}) {
    const std::string message = error_of([&] { (void)compute_map(by_distance(head, {0, 50}, 5, edges), {}); });
    EXPECT_NE(message.find("edges of distances: must ascend"), std::string::npos) << message;
  }
}

TEST(DistanceMap, DiagonalsOfATileMeetOnEveryProcessor) {
  namespace cpu = kernels::cpu;
  std::vector<float> tile(cpu::kMapTile * cpu::kMapTile);
  for (std::size_t n = 0; n < tile.size(); ++n) tile[n] = static_cast<float>((n * 7919) % 4096) - 2000.0F;
  cpu::TilePixels pixels;
  pixels.segments = 3;
  pixels.lane_end[0] = 1;
  pixels.lane_end[1] = 40;
  pixels.lane_end[2] = 61;
  const std::vector<std::int8_t> edges{-64, -60, -59, -3, 0, 1, 2, 30, 64};
  pixels.pieces = static_cast<int>(edges.size()) - 1;
  const std::int64_t key_count = 57;
  for (const std::int64_t target : kernels::testing::InstructionSet::available()) {
    const kernels::testing::InstructionSet chosen(target);
    for (const auto reduction : {cpu::PixelReduction::max, cpu::PixelReduction::min, cpu::PixelReduction::sum,
                                 cpu::PixelReduction::absolute}) {
      std::vector<float> result(tile.size(), std::nanf(""));
      cpu::reduce_diagonals(tile.data(), key_count, pixels, edges.data(), reduction, result.data());
      std::int64_t begin = 0;
      for (int segment = 0; segment < pixels.segments; ++segment) {
        for (int piece = 0; piece < pixels.pieces; ++piece) {
          float expected = cpu::identity_of(reduction);
          for (std::int64_t lane = begin; lane < pixels.lane_end[segment]; ++lane) {
            for (std::int64_t key = 0; key < key_count; ++key) {
              if (lane - key < edges[index_of(piece)] || lane - key >= edges[index_of(piece + 1)]) continue;
              cpu::combine(reduction, 1, &tile[index_of(key * cpu::kMapTile + lane)], &expected);
            }
          }
          EXPECT_EQ(result[index_of(segment * cpu::kMapTile + piece)], expected)
              << hwy::TargetName(target) << " " << segment << " " << piece;
        }
        begin = pixels.lane_end[segment];
      }
    }
  }
}

TEST(DistanceAxis, EveryDistanceIsInOneBin) {
  for (const auto& [distances, pixels] : {std::pair{Range{1, 2049}, std::int64_t{300}},
                                          {Range{1, 2}, 7},
                                          {Range{1, 65537}, 64},
                                          {Range{200, 231}, 500},
                                          {Range{5, 9000}, 1}}) {
    const DistanceAxis axis{distances, pixels};
    const auto edges = axis.edges();
    ASSERT_EQ(edges.size(), static_cast<std::size_t>(pixels) + 1);
    EXPECT_EQ(edges.front(), distances.begin);
    EXPECT_EQ(edges.back(), distances.end);
    EXPECT_TRUE(std::is_sorted(edges.begin(), edges.end()));
    EXPECT_LT(edges[edges.size() - 2], edges.back());
    for (std::int64_t pixel = 0; pixel < pixels; ++pixel) {
      // A pixel begins within the distance that its bin begins with.
      const double place = static_cast<double>(pixel) / static_cast<double>(pixels);
      const auto begin = static_cast<double>(edges[index_of(pixel)]);
      EXPECT_LE(axis.place(begin), place + 1e-9);
      EXPECT_GT(axis.place(begin + 1), place - 1e-9);
    }
    for (std::int64_t distance = distances.begin; distance < distances.end; distance += 1 + distance / 10) {
      EXPECT_EQ(axis.at(axis.middle(static_cast<double>(distance))), distance);
    }
  }
}

TEST(DistanceAxis, IsDrawnWithTheFarthestFirst) {
  const Image image{2, 3, {1, 2, 3, 4, 5, 6}};
  const Image drawn = drawn_by_distance(image);
  EXPECT_EQ(drawn.rows, 3);
  EXPECT_EQ(drawn.columns, 2);
  EXPECT_EQ(drawn.value, (std::vector<float>{3, 6, 2, 5, 1, 4}));
}

TEST(DistanceAxis, IsTheDefaultOfHeadsThatForgetFast) {
  RunShape shape;
  shape.length = 1000;
  shape.heads = 2;
  shape.log_gate = [](int head, std::int64_t, double) { return head == 0 ? -1.0 : -1.0 / 21; };
  const auto run = make_run(shape);
  EXPECT_NEAR(decay_time_of(HeadOf{run, 0, 0}), 1.0, 1e-9);
  EXPECT_NEAR(decay_time_of(HeadOf{run, 0, 1}), 21.0, 1e-6);
  for (const Quantity quantity : {Quantity::forget, Quantity::attention}) {
    EXPECT_EQ(default_axes(quantity, {run, 0, 0}, 1000), MapAxes::distance);
    EXPECT_EQ(default_axes(quantity, {run, 0, 1}, 1000), MapAxes::key);
    EXPECT_EQ(default_axes(quantity, {run, 0, 1}, 1100), MapAxes::distance);
  }
  EXPECT_EQ(default_axes(Quantity::logits, {run, 0, 0}, 1000), MapAxes::key);
  RunShape narrow;
  narrow.window = 20;
  narrow.gated = false;
  const auto windowed = make_run(narrow);
  EXPECT_EQ(default_axes(Quantity::attention, {windowed, 0, 0}, 1001), MapAxes::distance);
  EXPECT_EQ(default_axes(Quantity::attention, {windowed, 0, 0}, 1000), MapAxes::key);
  shape.gated = false;
  EXPECT_EQ(default_axes(Quantity::attention, {make_run(shape), 0, 0}, 1000), MapAxes::key);
  EXPECT_NE(error_of([] { (void)axes_from_string("time"); }).find("choose from key, distance"), std::string::npos);
}

}  // namespace
}  // namespace foxscope::test
