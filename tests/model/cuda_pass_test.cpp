// What a bfloat16 pass on a GPU records and reports, beside its losses. Skipped by name where there is no GPU.
#include <algorithm>
#include <cmath>
#include <numeric>

#include <ATen/DeviceAccelerator.h>
#include <ATen/ops/empty.h>
#include <gtest/gtest.h>

#include "backend/generate/generate.h"
#include "backend/model/session/decode_state.h"
#include "backend/model/session/run.h"
#include "backend/model/session/run_memory.h"
#include "backend/model/session/torch_model.h"
#include "backend/model/weights/checkpoint.h"
#include "tests/model/small_models.h"

namespace foxscope {
namespace {

using nlohmann::json;
using test::largest_difference;
using test::root_mean_square_difference;
using Part = QueryKeyStore::Part;

const KeepSet kUsual = {Keep::loss, Keep::gates, Keep::rows, Keep::query_key, Keep::values};
const KeepSet kAll = parse_keep("loss,gates,rows,ungated,qk,values,logits,hidden");

double mean(std::span<const float> values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

class CudaPass : public testing::Test {
 protected:
  void SetUp() override {
    if (cuda_device_count() == 0) GTEST_SKIP() << "no CUDA device";
  }

  static std::unique_ptr<CausalLM> demo(const std::string& device, const std::string& name = "fox-pro-12m") {
    const Device place = Device::of(DeviceChoice::parse(device));
    return CausalLM::load(Checkpoint::open(test::demo_model(name)), place,
                          place.cuda ? DType::bfloat16 : DType::float32);
  }

  static std::vector<std::int32_t> heldout(std::int64_t length) {
    const SafetensorsFile file(test::data_path("heldout") + "/reference.safetensors");
    std::vector<std::int32_t> tokens = test::read_ids(file, "tokens");
    tokens.resize(static_cast<std::size_t>(length));
    return tokens;
  }

  static test::Batch demo_batch(std::int64_t length, const KeepSet& keep) {
    test::Batch batch;
    batch.labels = heldout(length);
    batch.input_ids = batch.labels;
    batch.input_ids.insert(batch.input_ids.begin(), 0);
    batch.input_ids.pop_back();
    batch.keep = keep;
    return batch;
  }

  static std::vector<float> rows(const Trace& trace, Part part, int layer, int head) {
    std::vector<float> scratch;
    const auto found = trace.store_of(part)->rows(part, layer, head, 0, trace.info().length, scratch);
    return {found.begin(), found.end()};
  }

  /// The sum of row i of A, from what the trace keeps.
  static double mass(const Trace& trace, int layer, int head, std::size_t row, bool gated) {
    const auto dim = static_cast<std::size_t>(trace.info().head_dim);
    const std::vector<float> query = rows(trace, Part::query, layer, head);
    const std::vector<float> key = rows(trace, Part::key, layer, head / (trace.info().heads / trace.info().key_heads));
    const auto c = trace.cumulative_log_gate(layer, head);
    const auto normalizer = gated ? trace.log_normalizer(layer, head)
                                  : trace.log_normalizer_without_gate(layer, head, [] { return std::vector<float>{}; });
    const auto window = static_cast<std::size_t>(trace.info().window_size);
    double sum = 0;
    for (std::size_t j = window > 0 && row >= window ? row - window + 1 : 0; j <= row; ++j) {
      const double dot = std::inner_product(query.begin() + static_cast<std::ptrdiff_t>(row * dim),
                                            query.begin() + static_cast<std::ptrdiff_t>((row + 1) * dim),
                                            key.begin() + static_cast<std::ptrdiff_t>(j * dim), 0.0);
      const double bias = gated ? c[row] - c[j] : 0.0;
      sum += std::exp(dot / std::sqrt(static_cast<double>(dim)) + bias - static_cast<double>(normalizer[row]));
    }
    return sum;
  }
};

TEST_F(CudaPass, RecordsRowsThatSumToOne) {
  for (const char* name : {"fox-pro-12m", "transformer-pro-12m"}) {
    const auto model = demo("cuda", name);
    const auto result = test::run_batch(*model, demo_batch(1500, kAll));
    for (const auto& [layer, head] : {std::pair(0, 0), std::pair(3, 1), std::pair(7, 3)}) {
      for (const std::size_t row : {0U, 1U, 100U, 1023U, 1499U}) {
        if (head >= model->config().heads) continue;
        SCOPED_TRACE(testing::Message() << name << ", layer " << layer << ", head " << head << ", row " << row);
        EXPECT_NEAR(mass(*result.traces[0], layer, head, row, true), 1, 1e-3);
        EXPECT_NEAR(mass(*result.traces[0], layer, head, row, false), 1, 1e-3);
      }
    }
  }
}

TEST_F(CudaPass, GatesOfTheFirstLayerAreFloat32) {
  for (const std::int64_t length : {2048, 16400}) {  // by two products and by one
    const test::Batch batch = demo_batch(length, {Keep::gates});
    const auto gpu = test::run_batch(*demo("cuda"), batch);
    const auto cpu = test::run_batch(*demo("cpu"), batch);
    for (int head = 0; head < 4; ++head) {
      const auto a = gpu.traces[0]->cumulative_log_gate(0, head);
      const auto b = cpu.traces[0]->cumulative_log_gate(0, head);
      for (std::size_t p = 0; p < a.size(); ++p)
        ASSERT_NEAR(a[p], b[p], 2e-5 * (1 + std::abs(b[p]))) << head << ", " << p;
    }
  }
}

TEST_F(CudaPass, WhatIsKeptChangesNoLoss) {
  const auto model = demo("cuda");
  for (const std::int64_t length : {1500, 16400}) {  // products of short and of long texts
    const auto all = test::run_batch(*model, demo_batch(length, kAll));
    const auto loss = test::run_batch(*model, demo_batch(length, {Keep::loss}));
    EXPECT_EQ(largest_difference(all.traces[0]->per_token_loss(), loss.traces[0]->per_token_loss()), 0);
    EXPECT_EQ(all.report.attention_blocks, loss.report.attention_blocks);
    EXPECT_EQ(all.report.skipped_blocks, loss.report.skipped_blocks);
    EXPECT_GT(loss.report.skipped_blocks, 0);
    EXPECT_LT(loss.report.skipped_blocks, loss.report.attention_blocks);
  }
}

TEST_F(CudaPass, NamesItsKernel) {
  const std::string name = test::run_batch(*demo("cuda"), demo_batch(10, {Keep::loss})).report.attention_kernel;
  EXPECT_TRUE(name == "cuda hopper" || name == "cuda portable") << name;
  const test::TemporaryFolder folder;
  json config = test::tiny_config();
  config["hidden_size"] = 528;  // heads of 264: no kernel takes them
  test::write_checkpoint(folder, config, test::random_weights(config));
  const auto model =
      CausalLM::load(Checkpoint::open(folder.text()), Device::of(DeviceChoice::parse("cuda")), DType::bfloat16);
  test::Batch batch;
  batch.input_ids = batch.labels = {1, 2, 3};
  batch.keep = {Keep::loss};
  EXPECT_EQ(test::run_batch(*model, batch).report.attention_kernel, "composed");
}

TEST_F(CudaPass, ScoresAreTheSameTogetherAndAlone) {
  const std::vector<std::int32_t> tokens = heldout(2600);
  for (const char* name : {"fox-pro-12m", "transformer-pro-12m"}) {
    const auto model = demo("cuda", name);
    ScoreRequest all;
    for (const std::size_t length : {1, 2, 63, 64, 65, 100, 101, 111, 300, 900, 1000, 2500}) {
      const std::size_t begin = length % 97;
      const auto text = std::span(tokens).subspan(begin, length);
      const auto first = static_cast<std::int64_t>(length / 3);
      all.texts.push_back(
          {text, first, std::ssize(text), std::span(tokens).subspan(begin + length / 3 + 1, length - length / 3)});
    }
    all.top = 3;
    all.distribution = true;
    const auto together = model->score(all, {});
    ASSERT_TRUE(together.has_value());
    for (std::size_t n = 0; n < all.texts.size(); ++n) {
      ScoreRequest one = all;
      one.texts = {all.texts[n]};
      const auto alone = model->score(one, {});
      ASSERT_TRUE(alone.has_value());
      ASSERT_EQ(alone->front().size(), (*together)[n].size());
      for (std::size_t row = 0; row < alone->front().size(); ++row) {
        const ScoredPosition& a = alone->front()[row];
        const ScoredPosition& b = (*together)[n][row];
        EXPECT_EQ(a.log_probability, b.log_probability) << name << ", " << a.rank << ", " << n << ", " << row;
        EXPECT_EQ(a.entropy, b.entropy);
        EXPECT_EQ(a.rank, b.rank);
        EXPECT_EQ(a.greedy, b.greedy);
        ASSERT_EQ(a.top.size(), b.top.size());
        for (std::size_t k = 0; k < a.top.size(); ++k) EXPECT_EQ(a.top[k].id, b.top[k].id);
      }
    }
  }
}

TEST_F(CudaPass, LogitsAndLossesBelongTogether) {
  for (const std::int64_t length : {700, 16400}) {
    const auto trace = test::run_batch(*demo("cuda"), demo_batch(length, {Keep::loss, Keep::logits})).traces[0];
    const std::vector<float> logits = trace->source().logits();
    const std::vector<std::int32_t> labels = heldout(length);
    const std::size_t vocabulary = logits.size() / labels.size();
    for (std::size_t p = 0; p < labels.size(); p += 23) {
      double sum = 0;
      for (std::size_t v = 0; v < vocabulary; ++v) sum += std::exp(static_cast<double>(logits[p * vocabulary + v]));
      const double wanted =
          std::log(sum) - static_cast<double>(logits[p * vocabulary + static_cast<std::size_t>(labels[p])]);
      EXPECT_NEAR(trace->per_token_loss()[p], wanted, 1e-4);
    }
  }
}

TEST_F(CudaPass, InterventionsAreThoseOfTheCpu) {
  const auto gpu = demo("cuda");
  const auto cpu = demo("cpu");
  for (const std::vector<const char*>& texts :
       {std::vector{"*:*:one"}, {"0:0:zero@100", "3:1:scale=2"}, {"*:2:cut"}, {"2:*:mean", "5:0:constant=0.5"}}) {
    test::Batch batch = demo_batch(1024, {Keep::loss});
    for (const char* text : texts) batch.interventions.push_back(Intervention::parse(text));
    const double a = mean(test::run_batch(*gpu, batch).traces[0]->per_token_loss());
    const double b = mean(test::run_batch(*cpu, batch).traces[0]->per_token_loss());
    EXPECT_NEAR(a, b, 2e-3) << texts[0];
  }
}

test::Batch small_batch() {
  test::Batch batch;
  for (std::int32_t n = 0; n < 600; ++n) {
    batch.input_ids.push_back((n * n + n / 7) % 11);
    batch.labels.push_back(n * 5 % 11);
  }
  batch.keep = kAll;
  return batch;
}

/// A batch of a model of random weights on the GPU, in bfloat16 and in float32, by the twin of LibTorch's operations in
/// bfloat16, and in float32 on the CPU.
struct FourWays {
  test::BatchResult gpu, wide, twin, exact;

  FourWays(const json& config, const test::Batch& batch) {
    const test::TemporaryFolder folder;
    test::write_checkpoint(folder, config, test::random_weights(config));
    const Checkpoint checkpoint = Checkpoint::open(folder.text());
    const Device cuda = Device::of(DeviceChoice::parse("cuda"));
    gpu = test::run_batch(*CausalLM::load(checkpoint, cuda, DType::bfloat16), batch);
    wide = test::run_batch(*CausalLM::load(checkpoint, cuda, DType::float32), batch);
    twin = test::run_batch(*load_torch_model(checkpoint, Device{}, DType::bfloat16), batch);
    exact = test::run_batch(*CausalLM::load(checkpoint, Device{}, DType::float32), batch);
  }

  /// @param of_twin  how many times as far off as the twin
  void check(const char* what, const auto& part, double of_twin) const {
    const auto wanted = part(*exact.traces[0]);
    const double allowed = of_twin * root_mean_square_difference(part(*twin.traces[0]), wanted);
    EXPECT_LE(root_mean_square_difference(part(*gpu.traces[0]), wanted), allowed + 1e-3) << what;
    EXPECT_LE(root_mean_square_difference(part(*wide.traces[0]), wanted), 1e-3) << what;
  }

  void check_losses_and_states(double of_twin) const {
    const auto losses = [](const Trace& trace) {
      return std::vector<float>(trace.per_token_loss().begin(), trace.per_token_loss().end());
    };
    check("loss", losses, of_twin);
    for (int layer = 0; layer < exact.traces[0]->info().layers; ++layer) {
      const auto states = [layer](const Trace& trace) { return trace.source().hidden_states(layer + 1); };
      check("hidden states", states, of_twin);
    }
  }
};

/// Against float32 on the CPU, no further off than a few times what the twin of LibTorch's operations is, whose
/// matrices are bfloat16 as well.
TEST_F(CudaPass, IsAsExactAsItsTwin) {
  for (const json& config : test::small_models()) {
    SCOPED_TRACE(config.dump());
    const FourWays ways(config, small_batch());
    const std::string& kernel = ways.gpu.report.attention_kernel;
    EXPECT_TRUE(kernel.starts_with("cuda ")) << kernel;
    const TraceInfo& info = ways.exact.traces[0]->info();
    EXPECT_EQ(ways.wide.report.attention_kernel, info.head_dim > 128 ? "composed" : "cuda float32");
    constexpr double kOfTwin = 3;
    ways.check_losses_and_states(kOfTwin);
    const auto check = [&](const char* what, const auto& part) { ways.check(what, part, kOfTwin); };
    for (int layer = 0; layer < info.layers; ++layer) {
      for (int head = 0; head < info.heads; ++head) {
        check("queries", [&](const Trace& trace) { return rows(trace, Part::query, layer, head); });
        const int key_head = key_head_of(info, layer, head);
        check("values", [&](const Trace& trace) { return rows(trace, Part::value, layer, key_head); });
        check("normalisers", [&](const Trace& trace) {
          const auto found = trace.log_normalizer(layer, head);
          return std::vector<float>(found.begin(), found.end());
        });
      }
    }
  }
}

json small_linear_model(const char* model_type, const json& keys) {
  json config = {{"model_type", model_type}, {"vocab_size", 11}, {"hidden_size", 64}, {"num_hidden_layers", 2},
                 {"bos_token_id", 0},        {"num_heads", 2},   {"hidden_ratio", 4}};
  config.update(keys);
  return config;
}

/// Mixers whose chunks have kernels, with groups, skips, gates and norms between them.
std::vector<json> small_linear_models() {
  json mamba = small_linear_model("mamba2-project_fox", {{"num_heads", 4}, {"head_dim", 32}, {"state_size", 16}});
  mamba.erase("hidden_ratio");
  mamba["n_groups"] = 1;
  return {mamba,
          small_linear_model("hgrn2-project_fox", {{"expand_ratio", 32}}),
          small_linear_model("gla", {{"use_short_conv", true}}),
          small_linear_model("delta_net-project_fox", json::object()),
          small_linear_model("delta_net", {{"allow_neg_eigval", true}, {"use_gate", true}, {"expand_v", 1.5}}),
          small_linear_model("delta_net", {{"qk_norm", "sum"}, {"qk_activation", "elu"}, {"use_short_conv", false}}),
          small_linear_model("gated_deltanet", {{"num_v_heads", 4}, {"head_dim", 24}, {"expand_v", 2.0}})};
}

/// As IsAsExactAsItsTwin, whose twin rounds no queries, keys and values.
TEST_F(CudaPass, LinearModelsAreAsExactAsTheirTwins) {
  test::Batch batch = small_batch();
  batch.keep = {Keep::loss, Keep::hidden};
  for (const json& config : small_linear_models()) {
    SCOPED_TRACE(config.dump());
    FourWays(config, batch).check_losses_and_states(/*of_twin=*/4);
  }
}

/// Texts beside each other, and a text that goes on behind its chunks.
TEST_F(CudaPass, LinearModelsReadSeveralTextsAndGoOn) {
  for (const char* name : {"mamba2-12m", "gated-deltanet-1m"}) {
    SCOPED_TRACE(name);
    const auto gpu = demo("cuda", name);
    const auto cpu = demo("cpu", name);
    test::Batch both = demo_batch(1200, {Keep::loss});
    both.size = 2;
    const auto together = test::run_batch(*gpu, both);
    const auto alone = test::run_batch(*gpu, demo_batch(600, {Keep::loss}));
    EXPECT_LE(root_mean_square_difference(together.traces[0]->per_token_loss(), alone.traces[0]->per_token_loss()),
              1e-2);
    const std::vector<std::int32_t> ids = heldout(180);
    PromptRequest request;
    request.input_ids = std::span(ids).first(150);
    const auto a = gpu->begin(request, Job{});
    const auto b = cpu->begin(request, Job{});
    for (std::size_t p = 150; p < ids.size(); ++p) {
      EXPECT_LE(root_mean_square_difference(a->log_probabilities(), b->log_probabilities()), 0.05) << p;
      a->read(ids[p]);
      b->read(ids[p]);
    }
  }
}

TEST_F(CudaPass, ContinuesAsTheCpuDoes) {
  const auto gpu = demo("cuda");
  const auto cpu = demo("cpu");
  const std::vector<std::int32_t> ids = heldout(400);
  PromptRequest request;
  request.input_ids = std::span(ids).first(390);
  const auto a = gpu->begin(request, Job{});
  const auto b = cpu->begin(request, Job{});
  for (std::size_t p = 390; p < 400; ++p) {
    double difference = 0;
    for (std::size_t v = 0; v < a->log_probabilities().size(); ++v) {
      difference += std::abs(a->log_probabilities()[v] - b->log_probabilities()[v]);
    }
    EXPECT_LE(difference / static_cast<double>(a->log_probabilities().size()), 0.05) << p;
    a->read(ids[p]);
    b->read(ids[p]);
  }
}

TEST_F(CudaPass, RunsKeepQueriesAndKeysInItsMemory) {
  test::AskedRun request;
  request.name = "fox";
  request.model = test::demo_model("fox-pro-12m");
  request.input = {nullptr, heldout(900), {}, "ids.json"};
  request.device = DeviceChoice::parse("cuda");
  request.keep = kUsual;
  const auto run = test::run(request, Job{});
  ASSERT_TRUE(run.has_value());
  EXPECT_STREQ(run->trace->query_key()->where(), "GPU memory");
  EXPECT_TRUE(run->trace->info().attention_kernel.starts_with("cuda "));
  const auto host = test::run_batch(*demo("cuda"), demo_batch(900, kUsual));
  EXPECT_STREQ(host.traces[0]->query_key()->where(), "memory");
  for (const Part part : {Part::query, Part::key, Part::value}) {
    for (const int layer : {0, 5}) {
      EXPECT_EQ(largest_difference(rows(*run->trace, part, layer, 2), rows(*host.traces[0], part, layer, 2)), 0);
    }
  }
  request.dtype = parse_dtype("float32");
  const auto wide = test::run(request, Job{});
  EXPECT_STREQ(wide->trace->query_key()->where(), "GPU memory");
  EXPECT_EQ(wide->trace->info().attention_kernel, "cuda float32");
  EXPECT_NEAR(mass(*wide->trace, 4, 1, 800, true), 1, 1e-4);
}

TEST_F(CudaPass, OnTheSecondGpuIsThatOnTheFirst) {
  if (cuda_device_count() < 2) GTEST_SKIP() << "one CUDA device";
  test::AskedRun request;
  request.name = "fox";
  request.model = test::demo_model("fox-pro-12m");
  request.input = {nullptr, heldout(900), {}, "ids.json"};
  request.keep = kUsual;
  for (const char* dtype : {"bfloat16", "float32"}) {
    SCOPED_TRACE(dtype);
    request.dtype = parse_dtype(dtype);
    request.device = DeviceChoice::parse("cuda:0");
    const auto first = test::run(request, Job{})->trace;
    request.device = DeviceChoice::parse("cuda:1");
    const auto second = test::run(request, Job{})->trace;
    EXPECT_EQ(second->info().attention_kernel, first->info().attention_kernel);
    EXPECT_STREQ(second->query_key()->where(), "GPU memory");
    EXPECT_EQ(second->made_on(), 1);
    EXPECT_LE(largest_difference(second->per_token_loss(), first->per_token_loss()), 1e-6);
    EXPECT_LE(largest_difference(rows(*second, Part::key, 5, 2), rows(*first, Part::key, 5, 2)), 1e-6);
    EXPECT_LE(largest_difference(second->log_normalizer(7, 3), first->log_normalizer(7, 3)), 1e-6);
  }
}

TEST_F(CudaPass, FillsPinnedMemory) {
  const auto model = demo("cuda");
  const test::Batch batch = demo_batch(700, kUsual);
  const auto expected = test::run_batch(*model, batch);
  const auto recorder = test::make_recorder(*model, 700, {});
  const QueryKeyStore& store = *expected.traces[0]->query_key();
  const auto pinned = std::make_shared<HostQueryKeyStore>(store.shape(), DType::bfloat16, std::size_t{1} << 30,
                                                          std::filesystem::temp_directory_path(), 0, store.parts());
  Recorder into(recorder->info(), kUsual, pinned);
  Recorder* const recorders[] = {&into};
  ForwardRequest request;
  request.batch = 1;
  request.length = 700;
  request.input_ids = batch.input_ids;
  request.labels = batch.labels;
  ASSERT_TRUE(model->forward(request, recorders, Job{}).has_value());
  const auto trace = into.finish(nullptr, nullptr);
  for (const Part part : {Part::query, Part::key, Part::value}) {
    EXPECT_EQ(largest_difference(rows(*trace, part, 6, 3), rows(*expected.traces[0], part, 6, 3)), 0);
  }
}

TEST_F(CudaPass, TellsHowFarItIsAndStops) {
  const auto model = demo("cuda");
  const test::Batch batch = demo_batch(500, {Keep::loss});
  ForwardRequest request;
  request.batch = 1;
  request.length = 500;
  request.input_ids = batch.input_ids;
  request.labels = batch.labels;
  const auto recorder = test::make_recorder(*model, 500, {Keep::loss});
  Recorder* const recorders[] = {recorder.get()};
  std::vector<std::int64_t> done;
  Job job;
  job.report = [&done](const Progress& progress) {
    done.push_back(progress.done);
    EXPECT_EQ(progress.total, 9);
  };
  EXPECT_TRUE(model->forward(request, recorders, job).has_value());
  EXPECT_TRUE(std::is_sorted(done.begin(), done.end()));
  EXPECT_EQ(done.back(), 9);
  std::stop_source stop;
  job.stop = stop.get_token();
  job.report = [&stop](const Progress& progress) {
    if (progress.done >= 3) stop.request_stop();
  };
  EXPECT_FALSE(model->forward(request, recorders, job).has_value());
}

TEST_F(CudaPass, RefusesAContinuationThatDoesNotFit) {
  test::AskedRun request;
  request.name = "fox";
  request.model = test::demo_model("fox-pro-12m");
  request.input = {nullptr, {1, 2}, {}, "ids.json"};
  request.device = DeviceChoice::parse("cuda");
  EXPECT_PRED2(test::says, test::error_of([&] {
                 generate(Engine().open(request), {request.input, 10'000'000'000'000, {}}, {}, Job{});
               }),
               (test::Parts{"a prompt of 3 tokens", "GiB of GPU memory and", "fewer --max-tokens"}));
}

TEST_F(CudaPass, TakesNoMoreMemoryThanTheEstimate) {
  constexpr auto kSum = static_cast<std::size_t>(c10::CachingAllocator::StatType::AGGREGATE);
  const Checkpoint checkpoint = Checkpoint::open(test::demo_model("fox-pro-12m"));
  constexpr std::int64_t kLength = 32768;
  std::vector<std::int32_t> ids(kLength);
  for (std::size_t n = 0; n < ids.size(); ++n) ids[n] = static_cast<std::int32_t>(n * 31 % 8000);
  const at::Tensor first = at::empty({1}, at::kCUDA);  // an allocator that has served nothing has no figures
  for (const DType dtype : {DType::float32, DType::bfloat16}) {
    at::accelerator::emptyCache();
    const auto before = at::accelerator::getDeviceStats(0).allocated_bytes[kSum].current;
    at::accelerator::resetPeakStats(0);
    const auto model = CausalLM::load(checkpoint, Device::of(DeviceChoice::parse("cuda")), dtype);
    test::Batch batch;
    batch.input_ids = batch.labels = ids;
    batch.keep = kUsual;
    test::run_batch(*model, batch);
    const auto taken = at::accelerator::getDeviceStats(0).allocated_bytes[kSum].peak - before;
    const RunMemory memory =
        estimate_needs(checkpoint.config(), checkpoint.parameter_count(), kUsual, dtype, {true, 0}).gpu.value();
    const std::int64_t estimate = memory.fixed + memory.per_token * kLength;
    EXPECT_LE(taken, estimate);
    EXPECT_GE(2 * taken + (std::int64_t{1} << 30), estimate);
  }
}

}  // namespace
}  // namespace foxscope
