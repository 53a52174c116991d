// The authors' own outputs for a checkpoint of every kind: logits, loss, hidden states, q, k, v, log f and A, in
// float32.
#include <cmath>

#include <gtest/gtest.h>

#include "backend/model/session/torch_model.h"
#include "tests/model/model_test_support.h"

namespace foxscope {
namespace {

using test::largest_difference;

constexpr double kLogitBound = 1e-4;
constexpr double kAttentionBound = 1e-5;
const KeepSet kEverything = parse_keep("loss,gates,rows,ungated,qk,values,logits,hidden");

/// The part of a golden tensor [B, ...] that belongs to one sequence.
std::vector<float> of_sequence(const SafetensorsFile& golden, const std::string& name, std::size_t sequence) {
  const std::vector<float> all = test::read_floats(golden, name);
  const std::size_t size = all.size() / static_cast<std::size_t>(golden.tensors().at(name).shape[0]);
  const auto begin = all.begin() + static_cast<std::ptrdiff_t>(sequence * size);
  return {begin, begin + static_cast<std::ptrdiff_t>(size)};
}

/// log f [H, L] from its sums.
std::vector<float> log_gates(const Trace& trace, int layer) {
  std::vector<float> gates;
  for (int head = 0; head < trace.info().heads; ++head) {
    double before = 0;
    for (const double c : trace.cumulative_log_gate(layer, head)) {
      gates.push_back(static_cast<float>(c - before));
      before = c;
    }
  }
  return gates;
}

/// All of A [H, L, L], entry by entry, from what the trace keeps.
std::vector<float> attention(const Trace& trace, int layer) {
  const TraceInfo& info = trace.info();
  std::vector<float> entries;
  std::vector<float> query_scratch;
  std::vector<float> key_scratch;
  for (int head = 0; head < info.heads; ++head) {
    const auto query = trace.query_key()->rows(QueryKeyStore::Part::query, layer, head, 0, info.length, query_scratch);
    const auto key = trace.query_key()->rows(QueryKeyStore::Part::key, layer, head / (info.heads / info.key_heads), 0,
                                             info.length, key_scratch);
    const auto c = trace.cumulative_log_gate(layer, head);
    const auto normalizer = trace.log_normalizer(layer, head);
    const auto length = static_cast<std::size_t>(info.length);
    const auto dim = static_cast<std::size_t>(info.head_dim);
    for (std::size_t i = 0; i < length; ++i) {
      for (std::size_t j = 0; j < length; ++j) {
        double dot = 0;
        for (std::size_t n = 0; n < dim; ++n)
          dot += static_cast<double>(query[i * dim + n]) * static_cast<double>(key[j * dim + n]);
        const double logit = dot / std::sqrt(static_cast<double>(dim)) + c[i] - c[j];
        entries.push_back(j > i ? 0.0F : static_cast<float>(std::exp(logit - static_cast<double>(normalizer[i]))));
      }
    }
  }
  return entries;
}

std::vector<float> heads(const Trace& trace, QueryKeyStore::Part part, int layer) {
  std::vector<float> all;
  std::vector<float> scratch;
  const QueryKeyStore& store = *trace.store_of(part);
  for (int head = 0; head < store.heads(part, layer); ++head) {
    const auto rows = store.rows(part, layer, head, 0, trace.info().length, scratch);
    all.insert(all.end(), rows.begin(), rows.end());
  }
  return all;
}

void check_sequence(const Trace& trace, const SafetensorsFile& golden, std::size_t sequence) {
  SCOPED_TRACE("sequence " + std::to_string(sequence));
  const auto expect_near = [&](const std::vector<float>& ours, const std::string& name, double bound) {
    EXPECT_LE(largest_difference(ours, of_sequence(golden, name, sequence)), bound) << name;
  };
  expect_near(trace.source().logits(), "logits", kLogitBound);
  const auto loss = trace.per_token_loss();
  expect_near({loss.begin(), loss.end()}, "per_token_loss", kLogitBound);
  for (int layer = 0; layer < trace.info().layers; ++layer) {
    const std::string prefix = "layers." + std::to_string(layer) + ".";
    expect_near(heads(trace, QueryKeyStore::Part::query, layer), prefix + "q", kLogitBound);
    expect_near(heads(trace, QueryKeyStore::Part::key, layer), prefix + "k", kLogitBound);
    expect_near(heads(trace, QueryKeyStore::Part::value, layer), prefix + "v", kLogitBound);
    expect_near(log_gates(trace, layer), prefix + "log_fgate", kLogitBound);
    expect_near(attention(trace, layer), prefix + "attention", kAttentionBound);
  }
  for (int index = 0; index <= trace.info().layers; ++index) {
    expect_near(trace.source().hidden_states(index), "hidden_states." + std::to_string(index), kLogitBound);
  }
}

void check_model(CausalLM& model, const std::string& name) {
  const SafetensorsFile golden(test::data_path(name) + "/golden.safetensors");
  test::Batch batch;
  batch.size = golden.tensors().at("input_ids").shape[0];
  batch.input_ids = test::read_ids(golden, "input_ids");
  batch.labels = test::read_ids(golden, "labels");
  batch.keep = kEverything;
  const test::BatchResult result = test::run_batch(model, batch);
  for (std::size_t sequence = 0; sequence < result.traces.size(); ++sequence) {
    check_sequence(*result.traces[sequence], golden, sequence);
  }
}

class Golden : public testing::TestWithParam<const char*> {};

TEST_P(Golden, FusedForwardGivesTheAuthorsOutputs) {
  const Checkpoint checkpoint = Checkpoint::open(test::data_path(GetParam()));
  check_model(*CausalLM::load(checkpoint, Device{}, DType::float32), GetParam());
}

TEST_P(Golden, ComposedTwinGivesTheAuthorsOutputs) {
  const Checkpoint checkpoint = Checkpoint::open(test::data_path(GetParam()));
  check_model(*load_torch_model(checkpoint, Device{}, DType::float32), GetParam());
}

TEST_P(Golden, CudaInFloat32GivesTheAuthorsOutputs) {
  if (cuda_device_count() == 0) GTEST_SKIP() << "no CUDA device";
  const Checkpoint checkpoint = Checkpoint::open(test::data_path(GetParam()));
  check_model(*CausalLM::load(checkpoint, Device::of(DeviceChoice::parse("cuda")), DType::float32), GetParam());
}

TEST_P(Golden, CudaInBfloat16StaysNearTheAuthorsLosses) {
  if (cuda_device_count() == 0) GTEST_SKIP() << "no CUDA device";
  const auto model = CausalLM::load(Checkpoint::open(test::data_path(GetParam())),
                                    Device::of(DeviceChoice::parse("cuda")), DType::bfloat16);
  const SafetensorsFile golden(test::data_path(GetParam()) + std::string("/golden.safetensors"));
  test::Batch batch;
  batch.size = golden.tensors().at("input_ids").shape[0];
  batch.input_ids = test::read_ids(golden, "input_ids");
  batch.labels = test::read_ids(golden, "labels");
  batch.keep = {Keep::loss};
  const test::BatchResult result = test::run_batch(*model, batch);
  EXPECT_TRUE(result.report.attention_kernel.starts_with("cuda "));
  for (std::size_t sequence = 0; sequence < result.traces.size(); ++sequence) {
    const std::vector<float> wanted = of_sequence(golden, "per_token_loss", sequence);
    EXPECT_LE(largest_difference(result.traces[sequence]->per_token_loss(), wanted), 0.05);
  }
}

INSTANTIATE_TEST_SUITE_P(Fixtures, Golden,
                         testing::Values("fox-llama", "fox-pro", "transformer-pro", "transformer-llama",
                                         "fox-llama-rope", "fox-llama-qknorm", "fox-llama-fixed-gate",
                                         "fox-llama-data-independent-gate", "fox-pro-shared-qknorm", "fox-pro-bf16",
                                         "fla-fox", "fla-fox-gated-qknorm"),
                         test::fixture_test_name);

}  // namespace
}  // namespace foxscope
