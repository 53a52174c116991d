#include "backend/file/map_file.h"

#include <cmath>
#include <cstring>

#include <nlohmann/json.hpp>

#include "backend/base/job.h"
#include "backend/file/map_stripes.h"
#include "kernels/executor.h"
#include "tests/file/support.h"

namespace foxscope::test {
namespace {

using MapFileTest = FolderTest;
using Json = nlohmann::json;

MapRequest make_request(const std::shared_ptr<const Trace>& trace, Quantity quantity, Range rows, Range columns,
                        std::int64_t pixel_rows, std::int64_t pixel_columns) {
  MapRequest request;
  request.head = {trace, 1, 2};
  request.quantity = quantity;
  request.reduction = default_reduction(quantity, false);
  request.rows = rows;
  request.columns = columns;
  request.pixel_rows = pixel_rows;
  request.pixel_columns = pixel_columns;
  return request;
}

MapRequest exact(const std::shared_ptr<const Trace>& trace, Quantity quantity) {
  const std::int64_t length = trace->info().length;
  return make_request(trace, quantity, {0, length}, {0, length}, length, length);
}

/// Middle of a bin as the interface defines bins, without the code under test.
std::vector<double> centres(Range range, std::int64_t bins) {
  std::vector<double> result;
  for (std::int64_t n = 0; n < bins; ++n) {
    const std::int64_t first = range.begin + n * range.size() / bins;
    const std::int64_t last = range.begin + (n + 1) * range.size() / bins - 1;
    result.push_back(static_cast<double>(first + last) / 2);
  }
  return result;
}

/// What rows and columns are called in a .csv, likewise.
std::vector<std::string> names(const Trace& trace, Range range, std::int64_t bins) {
  std::vector<std::string> result;
  for (std::int64_t n = 0; n < bins; ++n) {
    const std::int64_t first = range.begin + n * range.size() / bins;
    const auto before = static_cast<std::size_t>(first) - 1;
    result.push_back(bins < range.size()
                         ? fmt::format("{}:{}", first, range.begin + (n + 1) * range.size() / bins)
                         : fmt::format("{} {}", first, first == 0 ? "⟨BOS⟩" : trace.tokens()->string[before]));
  }
  return result;
}

/// Describes maps for check_map_file.py from one compute_map call each.
std::filesystem::path expectation(const std::filesystem::path& folder, const std::vector<NamedMap>& maps) {
  Json json = Json::array();
  for (const NamedMap& map : maps) {
    const MapRequest& request = map.request;
    const std::optional<Image> image = compute_map(request, {});
    const std::filesystem::path raw = folder / (map.name + ".raw");
    dump<float>(raw, image->value);
    Json attributes = {{"model", request.head.trace->info().name},
                       {"layer", request.head.layer},
                       {"head", request.head.head},
                       {"quantity", to_string(request.quantity)},
                       {"reduce", to_string(request.reduction)},
                       {"rows", {request.rows.begin, request.rows.end}},
                       {"cols", {request.columns.begin, request.columns.end}},
                       {"text_sha256", request.head.trace->text()->sha256}};
    if (request.minus) {
      attributes["minus"] =
          fmt::format("{}:{}:{}", request.minus->trace->info().name, request.minus->layer, request.minus->head);
    }
    json.push_back({{"name", map.name},
                    {"raw", raw.string()},
                    {"rows", image->rows},
                    {"cols", image->columns},
                    {"query", centres(request.rows, request.pixel_rows)},
                    {"key", centres(request.columns, request.pixel_columns)},
                    {"query_names", names(*request.head.trace, request.rows, request.pixel_rows)},
                    {"key_names", names(*request.head.trace, request.columns, request.pixel_columns)},
                    {"attributes", attributes}});
  }
  write_content(folder / "expected.json", json.dump());
  return folder / "expected.json";
}

TEST_F(MapFileTest, Hdf5HoldsTheMapsThatWereComputed) {
  const auto trace = make_trace({.name = "fox", .length = 300});
  const auto other = make_trace({.name = "other", .length = 300, .gated = false, .seed = 2});
  std::vector<NamedMap> maps;
  for (const Quantity quantity : {Quantity::forget, Quantity::attention, Quantity::gate_effect}) {
    maps.push_back({fmt::format("fox_L01_H02_{}", to_string(quantity)), exact(trace, quantity)});
  }
  maps.push_back({"pooled", make_request(trace, Quantity::attention, {7, 293}, {5, 299}, 131, 77)});
  maps.push_back({"difference", exact(trace, Quantity::attention)});
  maps.back().request.minus = HeadOf{other, 0, 1};
  maps.push_back({"one-pixel", make_request(trace, Quantity::logits, {7, 8}, {5, 6}, 1, 1)});
  ASSERT_TRUE(write_maps_hdf5(file("maps.h5"), maps, {"foxscope map", ""}, Overwrite::refuse, {}));
  run_python("check_map_file.py", {"h5", file("maps.h5").string(), expectation(folder_, maps).string()});
}

TEST_F(MapFileTest, NpyAndCsvHoldTheMapThatWasComputed) {
  const auto trace = make_trace({.length = 130});
  for (const MapRequest& request : {exact(trace, Quantity::attention), exact(trace, Quantity::log_forget),
                                    make_request(trace, Quantity::forget, {3, 129}, {0, 130}, 50, 41),
                                    make_request(trace, Quantity::gate_effect, {100, 101}, {0, 130}, 1, 130)}) {
    const std::vector<NamedMap> maps = {{"map", request}};
    const std::string expected = expectation(folder_, maps).string();
    ASSERT_TRUE(write_map_npy(file("map.npy"), request, Overwrite::force, {}));
    run_python("check_map_file.py", {"npy", file("map.npy").string(), expected});
    ASSERT_TRUE(write_map_csv(file("map.csv"), request, Overwrite::force, {}));
    run_python("check_map_file.py", {"csv", file("map.csv").string(), expected});
  }
}

/// However a map is cut, its pixels are those of one piece: also where bins are of unequal size.
TEST_F(MapFileTest, StripesPutTogetherAreTheMap) {
  const auto trace = make_trace({.length = 211});
  for (const std::int64_t pixel_rows : {211, 200, 130, 105, 64, 7, 1}) {
    for (const Quantity quantity : {Quantity::forget, Quantity::attention}) {
      const MapRequest request = make_request(trace, quantity, {0, 211}, {0, 200}, pixel_rows, 100);
      const std::optional<Image> whole = compute_map(request, {});
      for (const std::int64_t stripe_rows : {1, 3, 16, 1000}) {
        std::vector<float> together;
        StripeOptions options;
        options.stripe_bytes = stripe_rows * 100 * 4;
        ASSERT_TRUE(for_each_stripe(request, options, {}, [&](const Image& stripe) {
          EXPECT_LE(stripe.rows, stripe_rows);
          together.insert(together.end(), stripe.value.begin(), stripe.value.end());
        }));
        ASSERT_EQ(together.size(), whole->value.size());
        for (std::size_t n = 0; n < together.size(); ++n) {
          ASSERT_EQ(std::isnan(together[n]), std::isnan(whole->value[n]));
          if (!std::isnan(together[n])) {
            ASSERT_NEAR(together[n], whole->value[n], 1e-6) << pixel_rows << ' ' << stripe_rows << ' ' << n;
          }
        }
      }
    }
  }
}

TEST_F(MapFileTest, ReportsProgressOverAllMaps) {
  const auto trace = make_trace({.length = 90});
  const std::vector<NamedMap> maps = {{"a", exact(trace, Quantity::forget)}, {"b", exact(trace, Quantity::attention)}};
  std::int64_t last = 0;
  Job job;
  job.report = [&last](const Progress& progress) {
    EXPECT_GT(progress.done, last);
    EXPECT_EQ(progress.total, 180);
    last = progress.done;
  };
  ASSERT_TRUE(write_maps_hdf5(file("maps.h5"), maps, {}, Overwrite::refuse, job));
  EXPECT_EQ(last, 180);
}

TEST_F(MapFileTest, AStoppedWriteLeavesNothing) {
  const auto trace = make_trace({});
  std::stop_source stop;
  stop.request_stop();
  Job job;
  job.stop = stop.get_token();
  const std::vector<NamedMap> maps = {{"a", exact(trace, Quantity::attention)}};
  EXPECT_FALSE(write_maps_hdf5(file("maps.h5"), maps, {}, Overwrite::refuse, job));
  EXPECT_FALSE(write_map_npy(file("map.npy"), maps[0].request, Overwrite::refuse, job));
  EXPECT_FALSE(write_map_csv(file("map.csv"), maps[0].request, Overwrite::refuse, job));
  EXPECT_EQ(entries(), 0U);
}

TEST_F(MapFileTest, RefusesWhatItCannotWrite) {
  const auto trace = make_trace({});
  const NamedMap good = {"a", exact(trace, Quantity::attention)};
  const auto write = [this](const std::vector<NamedMap>& maps) {
    return [this, maps] { write_maps_hdf5(file("maps.h5"), maps, {}, Overwrite::refuse, {}); };
  };
  expect_error(write({}), {"maps.h5", "no maps"});
  expect_error(write({good, good}), {"'a'", "twice"});
  expect_error(write({{"a/b", good.request}}), {"'a/b'"});
  NamedMap bad = good;
  bad.request.head.head = 17;
  expect_error(write({bad}), {"17"});
  bad = good;
  bad.request.pixel_rows = 1000;
  expect_error(write({bad}), {"1000"});
  bad.request.pixel_rows = 0;
  expect_error(write({bad}), {"0"});
  expect_error([&] { write_map_npy(file("map.npy"), bad.request, Overwrite::refuse, {}); }, {"0"});
  expect_error([&] { write_map_csv(file("map.csv"), bad.request, Overwrite::refuse, {}); }, {"0"});
  EXPECT_EQ(entries(), 0U);
  write_content(file("maps.h5"), "old");
  expect_error(write({good}), {"maps.h5", "--force"});
  expect_error([&] { write_map_csv(file("maps.h5"), good.request, Overwrite::refuse, {}); }, {"maps.h5", "--force"});
  expect_error([&] { write_map_npy(file("none") / "map.npy", good.request, Overwrite::refuse, {}); },
               {"none", "create it"});
}

TEST_F(MapFileTest, AFileOfMapsIsNoRunFile) {
  const std::vector<NamedMap> maps = {{"a", exact(make_trace({}), Quantity::forget)}};
  ASSERT_TRUE(write_maps_hdf5(file("maps.h5"), maps, {}, Overwrite::refuse, {}));
  expect_error([&] { RunFile::open(file("maps.h5")); }, {"maps.h5", "holds maps but no runs"});
}

/// Largest resident size of this process since reset_peak(), bytes.
std::int64_t peak_bytes() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.rfind("VmHWM:", 0) == 0) return std::stoll(line.substr(6)) * 1024;
  }
  return 0;
}

void reset_peak() { std::ofstream("/proc/self/clear_refs") << 5; }

/// 144 MiB of exact entries pass through a fraction of it, whatever the length: the figure at 16,384 tokens is measured
/// by hand.
TEST_F(MapFileTest, AWholeMapIsNeverInMemory) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers keep freed memory";
#endif
  constexpr std::int64_t kLength = 6144;
  const auto trace = make_trace({.layers = 2, .length = kLength, .keep = {Keep::gates}});
  const std::vector<NamedMap> maps = {{"a", exact(trace, Quantity::forget)}};
  kernels::ThreadPool pool(4);  // each thread of a large machine has memory of its own
  Job job;
  job.executor = &pool;
  reset_peak();
  const std::int64_t before = peak_bytes();
  ASSERT_TRUE(write_maps_hdf5(file("maps.h5"), maps, {}, Overwrite::refuse, job));
  EXPECT_LT(peak_bytes() - before, 80 << 20);
}

}  // namespace
}  // namespace foxscope::test
