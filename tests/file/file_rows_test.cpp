#include <cmath>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "backend/file/file_trace.h"
#include "backend/file/run_file.h"
#include "backend/map/statistics/gate_mean.h"
#include "backend/trace/decay_time.h"
#include "backend/trace/row_source.h"
#include "tests/error_of.h"
#include "tests/file/support.h"
#include "tests/file/synthetic_trace.h"
#include "tests/temporary_folder.h"

namespace foxscope::test {
namespace {

/// c of another trace: times a factor, and in one head of the first layer with a rise.
class ChangedGates final : public TraceSource {
 public:
  ChangedGates(std::shared_ptr<const Trace> trace, double factor, int rising_head)
      : trace_(std::move(trace)), factor_(factor), rising_head_(rising_head) {}
  [[nodiscard]] bool has(TraceArray array, int index) const override { return trace_->source().has(array, index); }
  [[nodiscard]] std::shared_ptr<const ArrayValues> read(TraceArray array, int index) const override {
    auto values = trace_->source().read(array, index);
    if (array != TraceArray::cumulative_log_gate) return values;
    auto changed = std::make_shared<ArrayValues>(*values);
    auto& c = std::get<std::vector<double>>(*changed);
    for (double& sum : c) sum *= factor_;
    const auto length = static_cast<std::size_t>(trace_->info().length);
    if (index == 0 && rising_head_ >= 0) c[static_cast<std::size_t>(rising_head_) * length + length - 1] = -1e-9;
    return changed;
  }

 private:
  std::shared_ptr<const Trace> trace_;
  double factor_;
  int rising_head_;
};

class FileRows : public testing::Test {
 protected:
  /// Rows of more than one chunk, or of a part of one.
  std::shared_ptr<const Trace> reopened(std::int64_t length, double factor = 1, int rising_head = -1) {
    const auto made = make_trace({.layers = 2, .heads = 3, .key_heads = 3, .length = length, .keep = {Keep::gates}});
    const auto changed =
        std::make_shared<const Trace>(made->info(), made->text(), made->tokens(),
                                      std::make_unique<const ChangedGates>(made, factor, rising_head), nullptr);
    EXPECT_TRUE(write_run_file(folder_ / "run.h5", std::vector{std::shared_ptr<const Trace>(changed)},
                               {"foxscope run", ""}, Overwrite::force, {}));
    return RunFile::open(folder_ / "run.h5", RunCheck::glance).traces[0];
  }
  /// The file then has an attribute that nobody reads in the place of the means.
  void rename_means() const {
    const std::string name = kMeanLogGate;
    std::string content = content_of(folder_ / "run.h5");
    std::size_t renamed = 0;
    for (std::size_t at = content.find(name); at != std::string::npos; at = content.find(name, at)) {
      content[at] = 'M';
      ++renamed;
    }
    ASSERT_EQ(renamed, 2U);  // of two layers
    write_content(folder_ / "run.h5", content);
  }
  const TemporaryFolder folder_;
};

TEST_F(FileRows, AreThoseOfTheArray) {
  for (const std::int64_t length : {5, 400, 40'000}) {
    const auto trace = reopened(length);
    const auto& rows = dynamic_cast<const RowSource&>(trace->source());
    for (int layer = 0; layer < 2; ++layer) {
      const auto all = trace->source().copy<double>(TraceArray::cumulative_log_gate, layer);
      ASSERT_TRUE(rows.has_rows(TraceArray::cumulative_log_gate, layer) || length < 20'000);
      for (int head = 0; head < 3; ++head) {
        const std::vector<double> expected(all.begin() + head * length, all.begin() + (head + 1) * length);
        const auto c = trace->cumulative_log_gate(layer, head);
        EXPECT_EQ(std::vector<double>(c.begin(), c.end()), expected);
        EXPECT_EQ(rows.known_mean_log_gate(layer, head), mean_log_gate(expected));
        EXPECT_EQ(mean_log_gate(*trace, layer, head), mean_log_gate(expected));
      }
    }
  }
}

TEST_F(FileRows, ThatRiseAreRefusedByTheHeadTheyAreOf) {
  const auto trace = reopened(60'000, 1, 2);
  EXPECT_FALSE(trace->cumulative_log_gate(0, 1).empty());
  const std::string problem = error_of<Error>([&] { (void)trace->cumulative_log_gate(0, 2); });
  EXPECT_NE(problem.find("at position 59999 of head 2"), std::string::npos) << problem;
  EXPECT_EQ(problem, error_of<Error>([&] { (void)trace->source().read(TraceArray::cumulative_log_gate, 0); }));
}

/// Gates of 0, of which no mean is made, are found whatever the ends of c are, and whether the file holds means or not.
TEST_F(FileRows, OfClosedGatesHaveTheMeanOfTheOthers) {
  for (const double factor : {1e-3, 1.0, 1e6}) {
    for (const std::int64_t length : {400, 40'000}) {
      (void)reopened(length, factor);
      for (const bool held : {true, false}) {
        if (!held) rename_means();
        const auto trace = RunFile::open(folder_ / "run.h5").traces[0];
        const auto& rows = dynamic_cast<const RowSource&>(trace->source());
        EXPECT_TRUE(!held || rows.known_mean_log_gate(1, 0).has_value());
        for (int head = 0; head < 3; ++head) {
          const double expected = mean_log_gate(trace->cumulative_log_gate(1, head));
          EXPECT_NEAR(mean_log_gate(*trace, 1, head), expected, -1e-12 * expected);
        }
      }
    }
  }
}

/// A source that holds c and no means, as files of others do.
TEST_F(FileRows, OfAFileWithoutMeansGiveThemByTheirEndsIfNoGateIsCut) {
  (void)reopened(40'000, 1e-3);
  rename_means();
  const auto mild = RunFile::open(folder_ / "run.h5", RunCheck::glance).traces[0];
  EXPECT_TRUE(dynamic_cast<const RowSource&>(mild->source()).known_mean_log_gate(1, 0).has_value());
  (void)reopened(40'000, 1e6);
  rename_means();
  const auto strong = RunFile::open(folder_ / "run.h5", RunCheck::glance).traces[0];
  EXPECT_FALSE(dynamic_cast<const RowSource&>(strong->source()).known_mean_log_gate(1, 0).has_value());
}

}  // namespace
}  // namespace foxscope::test
