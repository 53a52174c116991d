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
  EXPECT_EQ(left.window_sizes, right.window_sizes);
  EXPECT_EQ(left.logit_cap, right.logit_cap);
  EXPECT_EQ(left.pruning_tolerance, right.pruning_tolerance);
  EXPECT_EQ(left.forgetting, right.forgetting);
  EXPECT_EQ(left.mixers, right.mixers);
  EXPECT_EQ(left.intervention, right.intervention);
  EXPECT_EQ(left.saliency_target, right.saliency_target);
}

void expect_equal_stores(const QueryKeyStore& left, const QueryKeyStore& right, Part part) {
  EXPECT_EQ(left.dtype(), right.dtype());
  const std::int64_t length = left.shape().length;
  const std::int64_t begin = length / 3;
  const std::int64_t end = std::max(begin + 1, length - 1);
  std::vector<std::byte> left_scratch;
  std::vector<std::byte> right_scratch;
  for (int layer = 0; layer < left.shape().layers; ++layer) {
    ASSERT_EQ(left.heads(part, layer), right.heads(part, layer));
    for (int head = 0; head < left.heads(part, layer); ++head) {
      for (const auto& [first, last] : {std::pair(std::int64_t{0}, length), std::pair(begin, end)}) {
        expect_same_bits(left.raw_rows(part, layer, head, first, last, left_scratch),
                         right.raw_rows(part, layer, head, first, last, right_scratch), spec_of(part).path);
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
  for (const ArraySpec& spec : kTraceArrays) {
    for (int index = 0; index < count_of(spec, left.info().layers); ++index) {
      ASSERT_EQ(left.has(spec.array, index), right.has(spec.array, index)) << path_of(spec, index);
      if (spec.storage == Storage::store || !left.has(spec.array, index)) continue;
      const auto values = left.source().read(spec.array, index);
      std::visit(
          [&]<typename Numbers>(const Numbers& numbers) {
            using Number = typename Numbers::value_type;
            expect_same_bits<Number>(numbers, right.source().copy<Number>(spec.array, index), path_of(spec, index));
          },
          *values);
    }
    if (const QueryKeyStore* const store = left.store_of(spec.array)) {
      expect_equal_stores(*store, *right.store_of(spec.array), spec.array);
    }
  }
}

double read_everything(const std::filesystem::path& path) {
  const RunFile run = RunFile::open(path);
  double sum = 0;
  const auto add = [&sum](const auto& values) { sum = std::accumulate(values.begin(), values.end(), sum); };
  for (const auto& trace : run.traces) {
    add(trace->per_token_loss());
    add(trace->tokens()->id);
    std::vector<float> scratch;
    for (const ArraySpec& spec : kTraceArrays) {
      const QueryKeyStore* const store = trace->store_of(spec.array);
      for (int index = 0; index < count_of(spec, trace->info().layers); ++index) {
        for (int head = 0; store != nullptr && head < store->heads(spec.array, index); ++head) {
          add(store->rows(spec.array, index, head, 0, trace->info().length, scratch));
        }
        if (const auto values = trace->source().read(spec.array, index)) std::visit(add, *values);
      }
    }
  }
  return sum;
}

}  // namespace foxscope::test
