#include <atomic>
#include <cmath>
#include <cstring>
#include <stop_token>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "backend/map/statistics/head_statistics.h"
#include "kernels/executor.h"
#include "tests/error_of.h"
#include "tests/map/dense.h"

namespace foxscope::test {
namespace {

constexpr Quantity kJobQuantities[] = {
    Quantity::forget,
    Quantity::log_forget,
    Quantity::logits,
    Quantity::attention,
    Quantity::attention_without_gate,
    Quantity::gate_effect,
};

MapRequest whole(const std::shared_ptr<const Trace>& run, Quantity quantity, std::int64_t pixels) {
  MapRequest request;
  request.head = {run, 0, 0};
  request.quantity = quantity;
  request.rows = request.columns = {0, run->info().length};
  request.pixel_rows = request.pixel_columns = pixels;
  return request;
}

RunShape many_rows() {
  RunShape shape;
  shape.length = 3000;
  shape.normalized = false;
  return shape;
}

/// A store that hands out copies, as one that reads a file does, and that can fail.
class CopyingStore final : public QueryKeyStore {
 public:
  CopyingStore(std::shared_ptr<const Trace> of, bool fails)
      : QueryKeyStore(of->query_key()->shape(), of->query_key()->dtype(), of->query_key()->parts()),
        of_(std::move(of)),
        fails_(fails) {}
  [[nodiscard]] const char* where() const override { return "test"; }
  [[nodiscard]] std::span<const std::byte> raw_rows(Part part, int layer, int head, std::int64_t begin,
                                                    std::int64_t end, std::vector<std::byte>& scratch) const override {
    if (fails_ && part == Part::key && end > 1000) throw Error("runs.h5: keys cannot be read");
    std::vector<std::byte> unused;
    const auto bytes = of_->query_key()->raw_rows(part, layer, head, begin, end, unused);
    scratch.assign(bytes.begin(), bytes.end());
    return scratch;
  }

 private:
  std::shared_ptr<const Trace> of_;
  bool fails_;
};

class SameRows final : public TraceSource {
 public:
  explicit SameRows(std::shared_ptr<const Trace> of) : of_(std::move(of)) {}
  [[nodiscard]] bool has(TraceArray array, int index) const override { return of_->source().has(array, index); }
  [[nodiscard]] std::shared_ptr<const ArrayValues> read(TraceArray array, int index) const override {
    return of_->source().read(array, index);
  }

 private:
  std::shared_ptr<const Trace> of_;
};

std::shared_ptr<const Trace> with_copying_store(const std::shared_ptr<const Trace>& run, bool fails) {
  return std::make_shared<const Trace>(run->info(), nullptr, nullptr, std::make_unique<const SameRows>(run),
                                       std::make_shared<const CopyingStore>(run, fails));
}

TEST(Job, ThatIsStoppedBeforehandGivesNothing) {
  const auto run = make_run(many_rows());
  std::stop_source stop;
  stop.request_stop();
  Job job;
  job.stop = stop.get_token();
  for (const Quantity quantity : kJobQuantities) {
    EXPECT_FALSE(compute_map(whole(run, quantity, 100), job).has_value()) << to_string(quantity);
  }
  EXPECT_TRUE(log_normalizer_without_gate({run, 0, 0}, job).empty());
  EXPECT_FALSE(head_statistics({run, 0, 0}, {}, job).has_value());
}

TEST(Job, ThatIsStoppedOnTheWayGivesNothing) {
  const auto run = make_run(many_rows());
  for (const int threads : {1, 3}) {
    kernels::ThreadPool pool(threads);
    for (const Quantity quantity : kJobQuantities) {
      std::stop_source stop;
      Job job;
      job.stop = stop.get_token();
      job.executor = &pool;
      job.report = [&](const Progress&) { stop.request_stop(); };
      EXPECT_FALSE(compute_map(whole(run, quantity, 3000), job).has_value()) << to_string(quantity);
    }
    std::stop_source stop;
    Job job;
    job.stop = stop.get_token();
    job.executor = &pool;
    job.report = [&](const Progress&) { stop.request_stop(); };
    EXPECT_FALSE(head_statistics({run, 0, 0}, {}, job).has_value());
  }
}

TEST(Job, ReportsProgressUpToTheEnd) {
  const auto run = make_run(many_rows());
  for (const Quantity quantity : kJobQuantities) {
    Progress last;
    int reports = 0;
    kernels::ThreadPool pool(1);  // the calling thread reports, and here does all the work
    Job job;
    job.executor = &pool;
    job.report = [&](const Progress& progress) {
      EXPECT_LE(progress.done, progress.total);
      EXPECT_FALSE(progress.stage.empty() || progress.unit.empty());
      last = progress;
      ++reports;
    };
    ASSERT_TRUE(compute_map(whole(run, quantity, 300), job).has_value());
    EXPECT_EQ(last.done, last.total) << to_string(quantity);
    EXPECT_GT(reports, 1) << to_string(quantity);
  }
}

TEST(Job, ResultsDoNotDependOnTheNumberOfThreads) {
  RunShape shape = many_rows();
  shape.length = 2500;
  const auto run = make_run(shape);
  std::vector<Image> images;
  std::vector<HeadStatistics> statistics;
  for (const int threads : {1, 2, 5}) {
    kernels::ThreadPool pool(threads);
    Job job;
    job.executor = &pool;
    for (const std::int64_t pixels : {700, 3}) {
      MapRequest request = whole(run, Quantity::attention, pixels);
      request.reduction = Reduction::mean;
      images.push_back(compute_map(request, job).value());
    }
    statistics.push_back(head_statistics({run, 0, 0}, {}, job).value());
  }
  for (std::size_t n = 2; n < images.size(); ++n) {
    const std::vector<float>& first = images[n % 2].value;
    EXPECT_EQ(std::memcmp(images[n].value.data(), first.data(), first.size() * sizeof(float)), 0);
  }
  for (const HeadStatistics& other : statistics) {
    EXPECT_EQ(other.entropy, statistics[0].entropy);
    EXPECT_EQ(other.mass_on_first, statistics[0].mass_on_first);
    EXPECT_EQ(other.distance.mass, statistics[0].distance.mass);
  }
}

TEST(Job, StoresThatCopyGiveTheSameMaps) {
  for (const DType dtype : {DType::float32, DType::bfloat16}) {
    RunShape shape = many_rows();
    shape.dtype = dtype;
    const auto run = make_run(shape);
    const auto copied = with_copying_store(run, false);
    for (const Quantity quantity : {Quantity::attention, Quantity::gate_effect}) {
      const Image image = compute_map(whole(run, quantity, 300), {}).value();
      const Image other = compute_map(whole(copied, quantity, 300), {}).value();
      EXPECT_EQ(std::memcmp(image.value.data(), other.value.data(), image.value.size() * sizeof(float)), 0);
    }
  }
}

TEST(Job, AStoreThatCannotBeReadIsAnError) {
  const auto run = with_copying_store(make_run(many_rows()), true);
  for (const Quantity quantity : {Quantity::logits, Quantity::attention, Quantity::gate_effect}) {
    EXPECT_EQ(error_of([&] { (void)compute_map(whole(run, quantity, 300), {}); }), "runs.h5: keys cannot be read")
        << to_string(quantity);
  }
  EXPECT_THROW((void)head_statistics({run, 0, 0}, {}, {}), Error);
}

TEST(Normalizer, WithoutGateIsPreciseAndComputedOnce) {
  RunShape shape;
  shape.length = 900;
  shape.heads = 2;
  shape.window = 333;
  const auto run = make_run(shape);
  const std::span<const float> normalizer = log_normalizer_without_gate({run, 0, 1}, {});
  const std::vector<double> softmax = DenseHead({run, 0, 1}).entries(Quantity::attention_without_gate);
  const std::vector<double> logits = DenseHead({run, 0, 1}).entries(Quantity::logits);
  for (std::size_t i = 0; i < 900; ++i) {
    const std::size_t self = i * 900 + i;
    EXPECT_NEAR(static_cast<double>(normalizer[i]), logits[self] - std::log(softmax[self]), 2e-6);
  }
  EXPECT_EQ(log_normalizer_without_gate({run, 0, 1}, {}).data(), normalizer.data());
}

// What it gives for all rows is compared with softmax in float64 above.
TEST(Normalizer, AFewRowsDoNotWaitForIt) {
  for (const Quantity quantity : {Quantity::attention_without_gate, Quantity::gate_effect}) {
    const auto run = make_run(many_rows());
    MapRequest few = whole(run, quantity, 1);
    few.rows = {2100, 2190};
    few.pixel_rows = few.rows.size();
    few.pixel_columns = few.columns.size();
    const auto before = compute_map(few, {});
    EXPECT_FALSE(run->knows_log_normalizer_without_gate(0, 0));
    ASSERT_TRUE(compute_map(whole(run, quantity, 100), {}));
    EXPECT_TRUE(run->knows_log_normalizer_without_gate(0, 0));
    const auto after = compute_map(few, {});
    ASSERT_EQ(before->value.size(), after->value.size());
    for (std::size_t pixel = 0; pixel < before->value.size(); ++pixel) {
      ASSERT_EQ(std::isnan(before->value[pixel]), std::isnan(after->value[pixel]));
      if (std::isnan(after->value[pixel])) continue;
      ASSERT_NEAR(before->value[pixel], after->value[pixel], 2e-7);
    }
  }
}

}  // namespace
}  // namespace foxscope::test
