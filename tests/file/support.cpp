#include "tests/file/support.h"

#include <algorithm>
#include <numeric>

namespace foxscope::test {
namespace {

using Part = QueryKeyStore::Part;

template <typename T>
void expect_same_bits(std::span<const T> left, std::span<const T> right, const std::string& what) {
  ASSERT_EQ(left.size(), right.size()) << what;
  const auto left_bytes = std::as_bytes(left);
  const auto right_bytes = std::as_bytes(right);
  EXPECT_TRUE(std::equal(left_bytes.begin(), left_bytes.end(), right_bytes.begin())) << what;
}

void expect_equal_info(const TraceInfo& left, const TraceInfo& right) {
  EXPECT_EQ(left.name, right.name);
  EXPECT_EQ(left.model_type, right.model_type);
  EXPECT_EQ(left.config, right.config);
  EXPECT_EQ(left.weights_sha256, right.weights_sha256);
  EXPECT_EQ(left.device, right.device);
  EXPECT_EQ(left.dtype, right.dtype);
  EXPECT_EQ(left.attention_kernel, right.attention_kernel);
  EXPECT_EQ(left.layers, right.layers);
  EXPECT_EQ(left.heads, right.heads);
  EXPECT_EQ(left.key_heads, right.key_heads);
  EXPECT_EQ(left.head_dim, right.head_dim);
  EXPECT_EQ(left.length, right.length);
  EXPECT_EQ(left.softmax_scale, right.softmax_scale);
  EXPECT_EQ(left.window_size, right.window_size);
  EXPECT_EQ(left.pruning_tolerance, right.pruning_tolerance);
  EXPECT_EQ(left.gated, right.gated);
  EXPECT_EQ(left.intervention, right.intervention);
}

void expect_equal_query_key(const Trace& left, const Trace& right) {
  ASSERT_EQ(left.query_key() == nullptr, right.query_key() == nullptr);
  if (left.query_key() == nullptr) return;
  EXPECT_EQ(left.query_key()->dtype(), right.query_key()->dtype());
  const TraceInfo& info = left.info();
  std::vector<std::byte> left_scratch;
  std::vector<std::byte> right_scratch;
  const std::int64_t begin = info.length / 3;
  const std::int64_t end = std::max(begin + 1, info.length - 1);
  for (int layer = 0; layer < info.layers; ++layer) {
    for (const Part part : {Part::query, Part::key}) {
      for (int head = 0; head < (part == Part::query ? info.heads : info.key_heads); ++head) {
        expect_same_bits(left.query_key()->raw_rows(part, layer, head, 0, info.length, left_scratch),
                         right.query_key()->raw_rows(part, layer, head, 0, info.length, right_scratch), "q or k");
        expect_same_bits(left.query_key()->raw_rows(part, layer, head, begin, end, left_scratch),
                         right.query_key()->raw_rows(part, layer, head, begin, end, right_scratch), "tile of q or k");
      }
    }
  }
}

}  // namespace

void expect_equal(const Trace& left, const Trace& right) {
  expect_equal_info(left.info(), right.info());
  ASSERT_EQ(left.text() == nullptr, right.text() == nullptr);
  if (left.text()) {
    EXPECT_EQ(left.text()->content, right.text()->content);
    EXPECT_EQ(left.text()->sha256, right.text()->sha256);
  }
  EXPECT_EQ(*left.tokens(), *right.tokens());
  expect_same_bits(left.per_token_loss(), right.per_token_loss(), "loss");
  for (int layer = 0; layer < left.info().layers; ++layer) {
    const auto a = left.source().rows(layer);
    const auto b = right.source().rows(layer);
    expect_same_bits<double>(a->cumulative_log_gate, b->cumulative_log_gate, "c");
    expect_same_bits<float>(a->log_normalizer, b->log_normalizer, "lse");
    expect_same_bits<float>(a->log_normalizer_without_gate, b->log_normalizer_without_gate, "lse without gate");
  }
  expect_same_bits<float>(left.source().logits(), right.source().logits(), "logits");
  for (int index = 0; index <= left.info().layers; ++index) {
    expect_same_bits<float>(left.source().hidden_states(index), right.source().hidden_states(index), "hidden states");
  }
  expect_equal_query_key(left, right);
}

double read_everything(const std::filesystem::path& path) {
  const RunFile run = RunFile::open(path);
  double sum = 0;
  const auto add = [&sum](const auto& values) { sum = std::accumulate(values.begin(), values.end(), sum); };
  for (const auto& trace : run.traces) {
    add(trace->per_token_loss());
    add(trace->tokens()->id);
    add(trace->source().logits());
    std::vector<float> scratch;
    for (int layer = 0; layer < trace->info().layers; ++layer) {
      const auto rows = trace->source().rows(layer);
      add(rows->cumulative_log_gate);
      add(rows->log_normalizer);
      add(rows->log_normalizer_without_gate);
      add(trace->source().hidden_states(layer));
      if (trace->query_key() == nullptr) continue;
      for (int head = 0; head < trace->info().heads; ++head) {
        add(trace->query_key()->rows(Part::query, layer, head, 0, trace->info().length, scratch));
      }
      for (int head = 0; head < trace->info().key_heads; ++head) {
        add(trace->query_key()->rows(Part::key, layer, head, 0, trace->info().length, scratch));
      }
    }
    add(trace->source().hidden_states(trace->info().layers));
  }
  return sum;
}

}  // namespace foxscope::test
