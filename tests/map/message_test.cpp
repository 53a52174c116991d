#include <functional>
#include <limits>
#include <string>

#include <gtest/gtest.h>

#include "backend/map/pair_reading.h"
#include "backend/map/statistics/head_statistics.h"
#include "tests/error_of.h"
#include "tests/map/dense.h"

namespace foxscope::test {
namespace {

MapRequest valid_request(const std::shared_ptr<const Trace>& run) {
  MapRequest request;
  request.head = {run, 0, 0};
  request.rows = request.columns = {0, 100};
  request.pixel_rows = request.pixel_columns = 10;
  return request;
}

RunShape hundred() {
  RunShape shape;
  shape.length = 100;
  return shape;
}

/// The message of the request after `change`.
std::string refused(const std::function<void(MapRequest&)>& change) {
  static const auto run = make_run(hundred());
  MapRequest request = valid_request(run);
  change(request);
  return error_of<UsageError>([&] { (void)compute_map(request, {}); });
}

TEST(Message, NamesTheRangeOfRowsAndColumns) {
  EXPECT_EQ(refused([](MapRequest& request) {
              request.rows = {90, 101};
            }),
            "rows 90:101: must be A:B with 0 <= A < B <= 100, the positions of model 'random'");
  EXPECT_EQ(refused([](MapRequest& request) {
              request.rows = {-1, 50};
            }),
            "rows -1:50: must be A:B with 0 <= A < B <= 100, the positions of model 'random'");
  EXPECT_EQ(refused([](MapRequest& request) {
              request.columns = {50, 50};
            }),
            "columns 50:50: must be A:B with 0 <= A < B <= 100, the positions of model 'random'");
  EXPECT_EQ(refused([](MapRequest& request) {
              request.columns = {60, 50};
            }),
            "columns 60:50: must be A:B with 0 <= A < B <= 100, the positions of model 'random'");
}

TEST(Message, NamesTheLargestSize) {
  EXPECT_EQ(refused([](MapRequest& request) { request.pixel_rows = 101; }),
            "size 101x10: must be from 1x1 to 100x100, the number of entries that are asked for");
  EXPECT_EQ(refused([](MapRequest& request) { request.pixel_columns = 0; }),
            "size 10x0: must be from 1x1 to 100x100, the number of entries that are asked for");
}

TEST(Message, NamesTheHeadsThatExist) {
  EXPECT_EQ(refused([](MapRequest& request) { request.head.layer = 1; }),
            "model 'random' has no layer 1: layers are 0 to 0");
  EXPECT_EQ(refused([](MapRequest& request) { request.head.head = -1; }),
            "model 'random' has no head -1: heads are 0 to 0");
  EXPECT_EQ(refused([](MapRequest& request) {
              request.minus = request.head;
              request.minus->head = 7;
            }),
            "model 'random' has no head 7: heads are 0 to 0");
}

TEST(Message, RefusesADifferenceOfTwoTexts) {
  RunShape shape = hundred();
  shape.length = 90;
  const auto other = make_run(shape);
  EXPECT_EQ(refused([&](MapRequest& request) {
              request.minus = HeadOf{other, 0, 0};
            }),
            "a difference needs two runs on one text: model 'random' has 100 positions, 'random' has 90");
}

TEST(Message, NamesTheToleranceThatIsAllowed) {
  EXPECT_EQ(refused([](MapRequest& request) { request.skip_tolerance = 1.5; }),
            "skip tolerance 1.5: must be 0 (exact) or a share of attention below 1");
  EXPECT_EQ(refused([](MapRequest& request) { request.skip_tolerance = std::numeric_limits<double>::quiet_NaN(); }),
            "skip tolerance nan: must be 0 (exact) or a share of attention below 1");
}

TEST(Message, ListsNamesThatExist) {
  EXPECT_EQ(error_of<UsageError>([] { (void)quantity_from_string("atention"); }),
            "quantity 'atention' is not known: choose from forget, log_forget, logits, attention, "
            "attention_without_gate, gate_effect, mixing");
  EXPECT_EQ(error_of<UsageError>([] { (void)reduction_from_string("sum"); }),
            "reduction 'sum' is not known: choose from max, mean, min, absmax");
}

TEST(Message, SaysWhatTheRunDidNotKeep) {
  RunShape shape = hundred();
  shape.keeps_query_key = false;
  auto run = make_run(shape);
  EXPECT_EQ(error_of([&] { (void)compute_map(valid_request(run), {}); }),
            "model 'random': the run did not keep queries and keys: run again with 'qk' in --keep");
  shape.keeps_query_key = true;
  shape.keeps_rows = false;
  run = make_run(shape);
  EXPECT_EQ(error_of([&] { (void)compute_map(valid_request(run), {}); }),
            "model 'random': the run did not keep row normalisers: run again with 'rows' in --keep");
  shape.keeps_gates = false;
  run = make_run(shape);
  MapRequest request = valid_request(run);
  request.quantity = Quantity::forget;
  EXPECT_EQ(error_of([&] { (void)compute_map(request, {}); }),
            "model 'random': the run did not keep gates: run again with 'gates' in --keep");
  EXPECT_EQ(error_of([&] {
              (void)head_statistics({run, 0, 0}, {}, {});
            }),
            "model 'random': the run did not keep gates: run again with 'gates' in --keep");
}

TEST(Message, RefusesAPairOfPositionsThatDoNotExist) {
  const auto run = make_run(hundred());
  const std::string expected = "must be 0 <= key <= query <= 99, the last position of 'random'";
  EXPECT_EQ(error_of<UsageError>([&] { (void)pair_reading({run, 0, 0}, 3, 4); }), "positions 3 and 4: " + expected);
  EXPECT_EQ(error_of<UsageError>([&] { (void)pair_reading({run, 0, 0}, 100, 4); }), "positions 100 and 4: " + expected);
  EXPECT_EQ(error_of<UsageError>([&] { (void)pair_reading({run, 0, 0}, 3, -1); }), "positions 3 and -1: " + expected);
}

TEST(Names, AreThoseOfTheCommandLineBothWays) {
  for (const char* name :
       {"forget", "log_forget", "logits", "attention", "attention_without_gate", "gate_effect", "mixing"}) {
    EXPECT_STREQ(to_string(quantity_from_string(name)), name);
  }
  for (const char* name : {"max", "mean", "min", "absmax"}) EXPECT_STREQ(to_string(reduction_from_string(name)), name);
}

TEST(Names, SignedQuantitiesAreReducedBySize) {
  for (const Quantity quantity : {Quantity::logits, Quantity::gate_effect}) {
    EXPECT_EQ(default_reduction(quantity, false), Reduction::absmax);
  }
  for (const Quantity quantity :
       {Quantity::forget, Quantity::log_forget, Quantity::attention, Quantity::attention_without_gate}) {
    EXPECT_EQ(default_reduction(quantity, false), Reduction::max);
    EXPECT_EQ(default_reduction(quantity, true), Reduction::absmax);
  }
}

TEST(Bins, FollowTheFloorFormula) {
  const Range range{10, 17};
  const std::int64_t expected[] = {10, 12, 14, 17};
  for (std::int64_t bin = 0; bin <= 3; ++bin) EXPECT_EQ(bin_begin(range, 3, bin), expected[bin]);
}

}  // namespace
}  // namespace foxscope::test
