#include "backend/trace/trace_arrays.h"

#include <set>

#include <gtest/gtest.h>

namespace foxscope {
namespace {

constexpr TraceSizes kSizes = {
    .layers = 3, .heads = 4, .key_heads = 2, .length = 5, .head_dim = 8, .vocabulary_size = 11, .hidden_size = 7};

TEST(TraceArrays, HaveEachAPathOfItsOwn) {
  std::set<std::string> paths;
  for (const ArraySpec& spec : kTraceArrays) {
    for (int index = 0; index < count_of(spec, 12); ++index) {
      const std::string path = path_of(spec, index);
      EXPECT_TRUE(paths.insert(path).second) << path;
      EXPECT_EQ(path.find("NN"), std::string::npos) << path;
    }
  }
  EXPECT_TRUE(paths.contains("layers/07/key"));
  EXPECT_TRUE(paths.contains("hidden_states/12"));
  EXPECT_EQ(path_of(spec_of(TraceArray::value), 123), "layers/123/value");
}

TEST(TraceArrays, TakeTheBytesOfTheirShapes) {
  const auto bytes = [](const char* words, Storage storage, DType dtype) {
    return bytes_of(parse_keep(words), storage, kSizes, dtype);
  };
  EXPECT_EQ(bytes("loss", Storage::packed, DType::bfloat16), 5U * 4);
  EXPECT_EQ(bytes("gates", Storage::packed, DType::bfloat16), 3U * 4 * 5 * 8);
  EXPECT_EQ(bytes("rows,ungated", Storage::packed, DType::bfloat16), 2U * 3 * 4 * 5 * 4);
  EXPECT_EQ(bytes("qk", Storage::store, DType::bfloat16), 3U * (4 + 2) * 5 * 8 * 2);
  EXPECT_EQ(bytes("values", Storage::store, DType::float32), 3U * 2 * 5 * 8 * 4);
  EXPECT_EQ(bytes("saliency", Storage::raw, DType::bfloat16), 3U * 4 * 5 * 4);
  EXPECT_EQ(bytes("logits,hidden", Storage::raw, DType::bfloat16), 5U * 11 * 4 + 4U * 5 * 7 * 4);
  EXPECT_EQ(bytes("loss,gates,rows", Storage::store, DType::float32), 0U);
}

TEST(TraceArrays, OfAStoreAreThoseThatAreKept) {
  EXPECT_TRUE(stored_arrays({Keep::loss, Keep::saliency}).empty());
  EXPECT_EQ(stored_arrays({Keep::query_key}), (std::vector{TraceArray::query, TraceArray::key}));
  EXPECT_EQ(stored_arrays({Keep::values, Keep::query_key}),
            (std::vector{TraceArray::query, TraceArray::key, TraceArray::value}));
}

TEST(TraceArrays, EveryWordOfKeepKeepsSomething) {
  for (const KeepWord& word : kKeepWords) {
    EXPECT_TRUE(std::ranges::any_of(kTraceArrays, [&](const ArraySpec& spec) { return spec.keep == word.keep; }))
        << word.word;
    EXPECT_EQ(parse_keep(word.word), KeepSet{word.keep});
  }
}

}  // namespace
}  // namespace foxscope
