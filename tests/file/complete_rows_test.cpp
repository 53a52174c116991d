#include "backend/map/complete_rows.h"

#include <cmath>
#include <limits>
#include <memory>
#include <optional>

#include "tests/file/support.h"
#include "tests/largest_error.h"

namespace foxscope::test {
namespace {

/// A run that forgot its row normalisers.
class RowlessSource final : public TraceSource {
 public:
  explicit RowlessSource(std::shared_ptr<const Trace> run) : run_(std::move(run)) {}
  [[nodiscard]] bool has(TraceArray array, int index) const override {
    return array != TraceArray::log_normalizer && run_->source().has(array, index);
  }
  [[nodiscard]] std::shared_ptr<const ArrayValues> read(TraceArray array, int index) const override {
    return has(array, index) ? run_->source().read(array, index) : nullptr;
  }

 private:
  std::shared_ptr<const Trace> run_;
};

std::shared_ptr<const Trace> without_rows(const std::shared_ptr<const Trace>& run) {
  const std::shared_ptr<const QueryKeyStore> store(run, run->query_key());
  return std::make_shared<const Trace>(run->info(), run->text(), run->tokens(), std::make_unique<RowlessSource>(run),
                                       store);
}

/// The largest difference of all row normalisers.
double row_error(const Trace& left, const Trace& right) {
  double error = 0;
  for (int layer = 0; layer < left.info().layers; ++layer) {
    const LayerMixer mixer = left.info().mixer(layer);
    for (int head = 0; mixer.has_softmax() && head < mixer.heads; ++head) {
      const auto a = left.log_normalizer(layer, head);
      const auto b = right.log_normalizer(layer, head);
      for (std::size_t row = 0; row < a.size(); ++row) {
        error = largest_error(error, static_cast<double>(a[row]) - static_cast<double>(b[row]));
      }
    }
  }
  return error;
}

/// Every form of softmax attention, against a dense sum in float64.
TEST(CompleteRows, AreTheSumsOfTheirRows) {
  const KeepSet keep = {Keep::gates, Keep::rows, Keep::query_key};
  const std::vector<SyntheticRun> runs = {
      {.name = "gated", .length = 150, .keep = keep},
      {.name = "open", .length = 150, .gated = false, .keep = keep},
      {.name = "bfloat16", .length = 150, .dtype = DType::bfloat16, .keep = keep},
      {.name = "windows", .length = 150, .window_sizes = {9, 0}, .keep = keep},
      {.name = "capped", .length = 150, .logit_cap = 2, .keep = keep},
      {.name = "sinks", .length = 150, .keep = keep, .mixers = sink_mixers()},
      {.name = "path", .length = 150, .keep = {Keep::gates, Keep::rows, Keep::query_key}, .mixers = path_mixers()},
      {.name = "hybrid", .keep = {Keep::gates, Keep::rows, Keep::query_key, Keep::values}, .mixers = all_mixers()}};
  for (const SyntheticRun& run : runs) {
    const auto whole = make_trace(run);
    const auto lacking = without_rows(whole);
    const auto complete = complete_rows(lacking, {});
    ASSERT_NE(complete, nullptr) << run.name;
    EXPECT_NE(complete, lacking) << run.name;
    EXPECT_LT(row_error(*whole, *complete), 1e-5) << run.name;
    EXPECT_EQ(complete->info().forgetting, whole->info().forgetting) << run.name;
  }
}

TEST(CompleteRows, OfWholeRunsIsTheRunItself) {
  const auto whole = make_trace({});
  EXPECT_EQ(complete_rows(whole, {}), whole);
}

TEST(CompleteRows, NeedWhatRowsAreMadeOf) {
  const auto can = [](const SyntheticRun& run) { return can_complete_rows(*make_trace(run), 0); };
  EXPECT_TRUE(can({.keep = {Keep::gates, Keep::query_key}}));
  EXPECT_FALSE(can({.keep = {Keep::gates}}));
  EXPECT_FALSE(can({.keep = {Keep::gates, Keep::query_key}, .mixers = sink_mixers()}));
  EXPECT_FALSE(can({.keep = {Keep::gates, Keep::query_key, Keep::values}, .mixers = all_mixers()}));
  EXPECT_FALSE(can({}));
}

TEST(CompleteRows, TellHowFarTheyAreAndStop) {
  const auto lacking = make_trace({.keep = {Keep::gates, Keep::query_key}});
  Progress last;
  Job job;
  job.report = [&](const Progress& progress) {
    EXPECT_GE(progress.done, last.done);
    last = progress;
  };
  EXPECT_NE(complete_rows(lacking, job), nullptr);
  EXPECT_EQ(last.done, 2 * 4 * 37);
  EXPECT_EQ(last.total, last.done);
  std::stop_source source;
  job.stop = source.get_token();
  job.report = [&](const Progress& progress) {
    if (progress.done > 0) source.request_stop();
  };
  EXPECT_EQ(complete_rows(lacking, job), nullptr);
}

using RowFileTest = FolderTest;

TEST_F(RowFileTest, AFileIsCompletedWhenItIsOpenedForAttentionAndStaysAsItIs) {
  const auto whole = make_trace({.keep = {Keep::loss, Keep::gates, Keep::rows, Keep::query_key}});
  write_run(file("run.h5"), {make_trace({.keep = {Keep::loss, Keep::gates, Keep::query_key}})});
  const std::string before = content_of(file("run.h5"));
  EXPECT_FALSE(RunFile::open(file("run.h5")).trace({})->has_attention(0));
  const std::optional<RunFile> opened = RunFile::open(file("run.h5"), Job{});
  ASSERT_TRUE(opened.has_value());
  EXPECT_TRUE(opened->trace({})->has_attention(1));
  EXPECT_LT(row_error(*whole, *opened->trace({})), 1e-5);
  EXPECT_EQ(content_of(file("run.h5")), before);
  // A file that is written of it has them.
  write_run(file("whole.h5"), opened->traces);
  EXPECT_EQ(row_error(*opened->trace({}), *RunFile::open(file("whole.h5")).trace({})), 0);
}

}  // namespace
}  // namespace foxscope::test
