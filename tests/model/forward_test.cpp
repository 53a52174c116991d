// What a forward pass does beside its outputs: pruning, kept parts, cancelling, refused requests; and that the composed
// twin agrees with the fused forward over several tiles.
#include <cmath>

#include <gtest/gtest.h>

#include "backend/base/error.h"
#include "backend/model/session/torch_model.h"
#include "backend/model/weights/checkpoint.h"
#include "tests/model/small_models.h"

namespace foxscope {
namespace {

using nlohmann::json;
using test::largest_difference;

const KeepSet kAll = parse_keep("loss,gates,rows,ungated,qk,values,logits,hidden");

Checkpoint checkpoint_of(const test::TemporaryFolder& folder, const json& config) {
  test::write_checkpoint(folder, config, test::random_weights(config));
  return Checkpoint::open(folder.text());
}

test::Batch random_batch(std::int64_t size, std::int64_t length, const KeepSet& keep) {
  test::Batch batch;
  batch.size = size;
  for (std::int64_t n = 0; n < size * length; ++n) {
    batch.input_ids.push_back(static_cast<std::int32_t>((n * n + n / 7) % 11));
    batch.labels.push_back(static_cast<std::int32_t>((n * 5) % 11));
  }
  batch.keep = keep;
  return batch;
}

void expect_same_traces(const Trace& a, const Trace& b, double bound) {
  EXPECT_LE(largest_difference(a.source().logits(), b.source().logits()), bound);
  EXPECT_LE(largest_difference(a.per_token_loss(), b.per_token_loss()), bound);
  for (int layer = 0; layer < a.info().layers; ++layer) {
    for (int head = 0; head < a.info().heads; ++head) {
      EXPECT_LE(largest_difference(a.log_normalizer(layer, head), b.log_normalizer(layer, head)), bound);
      const auto ungated = [&](const Trace& trace) {
        return trace.log_normalizer_without_gate(layer, head, [] { return std::vector<float>{}; });
      };
      EXPECT_LE(largest_difference(ungated(a), ungated(b)), bound);
      const auto c = a.cumulative_log_gate(layer, head);
      for (std::size_t p = 0; p < c.size(); p += 97) {
        EXPECT_NEAR(c[p], b.cumulative_log_gate(layer, head)[p], 1e-5 * (1 + std::abs(c[p])));
      }
    }
  }
  for (int index = 0; index <= a.info().layers; ++index) {
    EXPECT_LE(largest_difference(a.source().hidden_states(index), b.source().hidden_states(index)), 10 * bound);
  }
}

TEST(Forward, ComposedTwinAgreesOverSeveralTiles) {
  const test::TemporaryFolder folder;
  for (const char* gate : {"full", "none"}) {
    json config = test::pro_config();
    config["fgate_type"] = gate;
    const Checkpoint checkpoint = checkpoint_of(folder, config);
    const test::Batch batch = random_batch(1, 2311, kAll);
    const auto fused = CausalLM::load(checkpoint, Device{}, DType::float32);
    const auto composed = load_torch_model(checkpoint, Device{}, DType::float32);
    const test::BatchResult a = test::run_batch(*fused, batch);
    const test::BatchResult b = test::run_batch(*composed, batch);
    EXPECT_EQ(a.report.attention_kernel, "cpu-tiled");
    EXPECT_EQ(b.report.attention_kernel, "composed");
    expect_same_traces(*a.traces[0], *b.traces[0], 1e-4);
  }
}

TEST(Forward, BFloat16KeepsGatesAndLossInFloat32) {
  const test::TemporaryFolder folder;
  const Checkpoint checkpoint = checkpoint_of(folder, test::pro_config());
  const test::Batch batch = random_batch(1, 300, kAll);
  const auto exact = test::run_batch(*load_torch_model(checkpoint, Device{}, DType::float32), batch);
  const auto half = test::run_batch(*load_torch_model(checkpoint, Device{}, DType::bfloat16), batch);
  EXPECT_EQ(half.traces[0]->query_key()->dtype(), DType::bfloat16);
  EXPECT_LE(largest_difference(exact.traces[0]->per_token_loss(), half.traces[0]->per_token_loss()), 0.2);
  // The first layer's gates see nothing but float32: the embedding, its norm, and the gate's own matrix.
  for (int head = 0; head < 4; ++head) {
    const auto a = exact.traces[0]->cumulative_log_gate(0, head);
    const auto b = half.traces[0]->cumulative_log_gate(0, head);
    for (std::size_t p = 0; p < a.size(); ++p) EXPECT_NEAR(a[p], b[p], 1e-5 * (1 + std::abs(a[p])));
  }
}

TEST(Forward, BatchesEqualSingleSequences) {
  const test::TemporaryFolder folder;
  const auto model = CausalLM::load(checkpoint_of(folder, test::pro_config()), Device{}, DType::float32);
  const test::Batch batch = random_batch(3, 37, {Keep::loss, Keep::logits});
  const test::BatchResult together = test::run_batch(*model, batch);
  for (std::size_t b = 0; b < 3; ++b) {
    test::Batch single = random_batch(1, 37, batch.keep);
    std::copy_n(batch.input_ids.begin() + static_cast<std::ptrdiff_t>(37 * b), 37, single.input_ids.begin());
    std::copy_n(batch.labels.begin() + static_cast<std::ptrdiff_t>(37 * b), 37, single.labels.begin());
    const test::BatchResult alone = test::run_batch(*model, single);
    EXPECT_EQ(alone.traces[0]->source().logits(), together.traces[b]->source().logits());
  }
}

TEST(Forward, GivesTheSameNumbersEveryTime) {
  const test::TemporaryFolder folder;
  const Checkpoint checkpoint = checkpoint_of(folder, test::pro_config());
  const test::Batch batch = random_batch(1, 700, kAll);
  const auto first = test::run_batch(*CausalLM::load(checkpoint, Device{}, DType::float32), batch);
  const std::vector<char> in_the_way(12345);
  const auto second = test::run_batch(*CausalLM::load(checkpoint, Device{}, DType::float32), batch);
  expect_same_traces(*first.traces[0], *second.traces[0], 0);
}

TEST(Forward, EarlierPositionsDoNotSeeLaterOnes) {
  const test::TemporaryFolder folder;
  const auto model = CausalLM::load(checkpoint_of(folder, test::pro_config()), Device{}, DType::float32);
  test::Batch batch = random_batch(1, 600, {Keep::logits});
  const std::vector<float> before = test::run_batch(*model, batch).traces[0]->source().logits();
  for (std::size_t p = 500; p < 600; ++p) batch.input_ids[p] = 3;
  const std::vector<float> after = test::run_batch(*model, batch).traces[0]->source().logits();
  EXPECT_LE(largest_difference(std::span(before).first(11 * 500), std::span(after).first(11 * 500)), 1e-5);
  EXPECT_GT(largest_difference(before, after), 1e-2);
}

TEST(Forward, OneTokenWorks) {
  const test::TemporaryFolder folder;
  const Checkpoint checkpoint = checkpoint_of(folder, test::pro_config());
  const test::Batch batch = random_batch(1, 1, kAll);
  const auto fused = test::run_batch(*CausalLM::load(checkpoint, Device{}, DType::float32), batch);
  const auto composed = test::run_batch(*load_torch_model(checkpoint, Device{}, DType::float32), batch);
  expect_same_traces(*fused.traces[0], *composed.traces[0], 1e-5);
}

TEST(Forward, KeepsOnlyWhatItIsAskedFor) {
  const test::TemporaryFolder folder;
  const auto model = CausalLM::load(checkpoint_of(folder, test::pro_config()), Device{}, DType::float32);
  const auto all = test::run_batch(*model, random_batch(1, 90, kAll));
  const auto loss = test::run_batch(*model, random_batch(1, 90, {Keep::loss}));
  EXPECT_LE(largest_difference(all.traces[0]->per_token_loss(), loss.traces[0]->per_token_loss()), 1e-5);
  EXPECT_EQ(loss.traces[0]->query_key(), nullptr);
  EXPECT_TRUE(loss.traces[0]->source().logits().empty());
  EXPECT_TRUE(loss.traces[0]->source().hidden_states(0).empty());
}

TEST(Forward, ValuesKeptAloneAreThoseBesideQueriesAndKeys) {
  const test::TemporaryFolder folder;
  const Checkpoint checkpoint = checkpoint_of(folder, test::pro_config());
  for (const bool fused : {true, false}) {
    const auto model = fused ? CausalLM::load(checkpoint, Device{}, DType::float32)
                             : load_torch_model(checkpoint, Device{}, DType::float32);
    // Of two texts, so that a row of one is not a row of the other.
    const auto all = test::run_batch(*model, random_batch(2, 90, kAll));
    const auto alone = test::run_batch(*model, random_batch(2, 90, {Keep::values}));
    for (std::size_t b = 0; b < 2; ++b) {
      EXPECT_EQ(alone.traces[b]->query_key(), nullptr);
      const QueryKeyStore& ours = *alone.traces[b]->store_of(TraceArray::value);
      const QueryKeyStore& theirs = *all.traces[b]->store_of(TraceArray::value);
      std::vector<float> a;
      std::vector<float> c;
      for (int layer = 0; layer < ours.shape().layers; ++layer) {
        for (int head = 0; head < ours.heads(TraceArray::value, layer); ++head) {
          EXPECT_LE(largest_difference(ours.rows(TraceArray::value, layer, head, 0, 90, a),
                                       theirs.rows(TraceArray::value, layer, head, 0, 90, c)),
                    1e-5);
        }
      }
    }
  }
}

TEST(Forward, PruningMovesTheLossByNoMoreThanItsTolerance) {
  const auto model = CausalLM::load(Checkpoint::open(test::demo_model("fox-pro-12m")), Device{}, DType::float32);
  const SafetensorsFile reference(test::data_path("heldout/reference.safetensors"));
  std::vector<std::int32_t> tokens = test::read_ids(reference, "tokens");
  tokens.resize(1500);
  test::Batch batch;
  batch.input_ids = tokens;
  batch.labels = tokens;
  batch.keep = {Keep::loss};
  batch.pruning_tolerance = 0;
  const auto exact = test::run_batch(*model, batch);
  EXPECT_EQ(exact.report.skipped_blocks, 0);
  std::int64_t skipped = 0;
  for (const double tolerance : {0x1p-24, 1e-3}) {
    batch.pruning_tolerance = tolerance;
    const auto pruned = test::run_batch(*model, batch);
    EXPECT_GT(pruned.report.skipped_blocks, skipped);
    EXPECT_EQ(pruned.report.attention_blocks, exact.report.attention_blocks);
    EXPECT_LE(largest_difference(exact.traces[0]->per_token_loss(), pruned.traces[0]->per_token_loss()),
              1e-4 + 100 * tolerance);
    skipped = pruned.report.skipped_blocks;
  }
}

/// Stops at the given report of progress.
class StoppedForward {
 public:
  StoppedForward(CausalLM& model, int reports) {
    const test::Batch batch = random_batch(1, 400, {Keep::loss});
    const auto recorder = test::make_recorder(model, 400, batch.keep);
    Recorder* const recorders[] = {recorder.get()};
    ForwardRequest request;
    request.batch = 1;
    request.length = 400;
    request.input_ids = batch.input_ids;
    request.labels = batch.labels;
    std::stop_source stop;
    Job job;
    job.stop = stop.get_token();
    job.report = [&](const Progress& progress) {
      EXPECT_EQ(progress.unit, "layers");
      if (++reports_ == reports) stop.request_stop();
    };
    result_ = model.forward(request, recorders, job);
  }
  [[nodiscard]] bool finished() const { return result_.has_value(); }
  [[nodiscard]] int reports() const { return reports_; }

 private:
  int reports_ = 0;
  std::optional<ForwardReport> result_;
};

TEST(Forward, StopsWithoutAnError) {
  const test::TemporaryFolder folder;
  const Checkpoint checkpoint = checkpoint_of(folder, test::pro_config());
  for (const bool composed : {false, true}) {
    const auto model = composed ? load_torch_model(checkpoint, Device{}, DType::float32)
                                : CausalLM::load(checkpoint, Device{}, DType::float32);
    for (const int reports : {1, 2, 3}) {
      const StoppedForward stopped(*model, reports);
      EXPECT_FALSE(stopped.finished());
      EXPECT_EQ(stopped.reports(), reports);
    }
    EXPECT_TRUE(StoppedForward(*model, 0).finished());
  }
}

TEST(Forward, RefusesRequestsThatDoNotFit) {
  const test::TemporaryFolder folder;
  const auto model = CausalLM::load(checkpoint_of(folder, test::pro_config()), Device{}, DType::float32);
  const auto error = [&](const std::function<void(ForwardRequest&)>& change, std::int64_t recorded_length = 4) {
    const std::vector<std::int32_t> ids = {1, 2, 3, 4};
    const auto recorder = test::make_recorder(*model, recorded_length, {Keep::loss});
    Recorder* const recorders[] = {recorder.get()};
    ForwardRequest request;
    request.batch = 1;
    request.length = 4;
    request.input_ids = ids;
    request.labels = ids;
    change(request);
    return test::error_of([&] { model->forward(request, recorders, Job{}); });
  };
  static const std::vector<std::int32_t> kOutside = {1, 2, 11, 4};
  static const std::vector<std::int32_t> kNegative = {1, -1, 3, 4};
  EXPECT_EQ(error([](ForwardRequest&) {}), "");
  EXPECT_PRED2(test::says, error([](ForwardRequest& r) { r.length = 0; }), (test::Parts{"[forward]", "0 positions"}));
  EXPECT_PRED2(test::says, error([](ForwardRequest& r) { r.length = 5; }),
               (test::Parts{"[forward] input_ids: expected 5, got 4"}));
  EXPECT_PRED2(test::says, error([](ForwardRequest& r) { r.labels = {}; }),
               (test::Parts{"[forward] labels: expected 4, got 0"}));
  EXPECT_PRED2(test::says, error([](ForwardRequest&) {}, 5), (test::Parts{"[forward] recorders"}));
  EXPECT_PRED2(test::says, error([](ForwardRequest& r) { r.input_ids = kOutside; }),
               (test::Parts{"input_ids: the id 11 at position 2 is outside the model's vocabulary (0 to 10)"}));
  EXPECT_PRED2(test::says, error([](ForwardRequest& r) { r.labels = kNegative; }),
               (test::Parts{"labels: the id -1 at position 1 is"}));
  EXPECT_PRED2(test::says, error([](ForwardRequest& r) { r.pruning_tolerance = -1; }),
               (test::Parts{"--pruning -1: use a share from 0 (nothing is skipped) to below 1"}));
}

TEST(DeviceNames, AreParsed) {
  EXPECT_EQ(Device::of(DeviceChoice::parse("cpu")).name(), "cpu");
  EXPECT_EQ((Device{true, 3}.name()), "cuda:3");
  for (const char* name : {"gpu", "cuda:", "cuda:x", "cuda:-1", "cuda:1x", ""}) {
    EXPECT_THROW(Device::of(DeviceChoice::parse(name)), UsageError) << name;
  }
  EXPECT_PRED2(test::says, test::error_of([] { Device::of(DeviceChoice::parse("tpu")); }),
               (test::Parts{"--device 'tpu' is not known", "auto, cpu, cuda or cuda:N"}));
  if (cuda_device_count() == 0) {
    EXPECT_EQ(Device::of(DeviceChoice::parse("auto")).name(), "cpu");
    EXPECT_PRED2(test::says, test::error_of([] { Device::of(DeviceChoice::parse("cuda")); }),
                 (test::Parts{"--device cpu"}));
  }
  const test::TemporaryFolder folder;
  EXPECT_PRED2(test::says, test::error_of([&] {
                 CausalLM::load(checkpoint_of(folder, test::pro_config()), Device{}, DType::bfloat16);
               }),
               (test::Parts{"--dtype bfloat16 needs --device cuda"}));
}

}  // namespace
}  // namespace foxscope
