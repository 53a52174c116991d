#include "backend/trace/query_key_store.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <thread>

#include <gtest/gtest.h>

#include "tests/error_of.h"

namespace foxscope {
namespace {

using Part = QueryKeyStore::Part;

/// The nearest bfloat16 by comparing distances in float64 to both neighbours; ties to the even bit pattern.
float nearest_bfloat16(float value) {
  std::uint32_t bits = 0;
  std::memcpy(&bits, &value, 4);
  const std::uint32_t below_bits = bits & 0xffff0000U;
  const std::uint32_t above_bits = below_bits + 0x10000U;
  float below = 0;
  float above = 0;
  std::memcpy(&below, &below_bits, 4);
  std::memcpy(&above, &above_bits, 4);
  const double to_below = std::abs(static_cast<double>(value) - below);
  const double to_above = std::abs(static_cast<double>(above) - value);
  if (to_below != to_above) return to_below < to_above ? below : above;
  return (below_bits >> 16U) % 2 == 0 ? below : above;
}

TEST(Bfloat16, RoundsToNearestEven) {
  std::mt19937 random(17);
  std::uniform_int_distribution<std::uint32_t> bits(0, 0x7f000000U);
  for (int n = 0; n < 200000; ++n) {
    const std::uint32_t pattern = bits(random);
    float value = 0;
    std::memcpy(&value, &pattern, 4);
    ASSERT_EQ(from_bfloat16(to_bfloat16(value)), nearest_bfloat16(value)) << pattern;
    ASSERT_EQ(from_bfloat16(to_bfloat16(-value)), -nearest_bfloat16(value)) << pattern;
  }
  EXPECT_TRUE(std::isnan(from_bfloat16(to_bfloat16(std::numeric_limits<float>::quiet_NaN()))));
  EXPECT_EQ(from_bfloat16(to_bfloat16(std::numeric_limits<float>::infinity())), std::numeric_limits<float>::infinity());
}

TEST(DTypeNames, RoundTripAndRefuse) {
  EXPECT_EQ(dtype_from_string(to_string(DType::float32)), DType::float32);
  EXPECT_EQ(dtype_from_string(to_string(DType::bfloat16)), DType::bfloat16);
  EXPECT_THROW(dtype_from_string("float8"), Error);
  EXPECT_EQ(parse_dtype("auto"), std::nullopt);
  EXPECT_EQ(parse_dtype("bfloat16"), DType::bfloat16);
  EXPECT_EQ(test::error_of([] { parse_dtype("float16"); }),
            "--dtype 'float16' is not known: choose auto, float32 or bfloat16");
}

/// A number that tells where it lies, exact in bfloat16.
float expected(Part part, int layer, int head, std::int64_t row, int column) {
  return static_cast<float>((part == Part::query ? 0 : 128) + layer * 64 + head * 16 + row % 8 * 2 + column % 2);
}

void fill(HostQueryKeyStore& store) {
  const QueryKeyStore::Shape& shape = store.shape();
  for (const Part part : store.parts()) {
    for (int layer = 0; layer < shape.layers; ++layer) {
      std::byte* out = store.layer(part, layer).data();
      for (int head = 0; head < store.heads(part, layer); ++head) {
        for (std::int64_t row = 0; row < shape.length; ++row) {
          for (int column = 0; column < shape.head_dim; ++column) {
            const float value = expected(part, layer, head, row, column);
            const std::uint16_t half = to_bfloat16(value);
            const std::size_t size = size_of(store.dtype());
            std::memcpy(out, size == 4 ? static_cast<const void*>(&value) : &half, size);
            out += size;
          }
        }
      }
    }
  }
}

void check(const QueryKeyStore& store) {
  const QueryKeyStore::Shape& shape = store.shape();
  std::vector<float> scratch;
  for (const Part part : store.parts()) {
    for (int layer = 0; layer < shape.layers; ++layer) {
      for (int head = 0; head < store.heads(part, layer); ++head) {
        const std::span<const float> rows = store.rows(part, layer, head, 3, 11, scratch);
        ASSERT_EQ(rows.size(), static_cast<std::size_t>(8 * shape.head_dim));
        for (std::int64_t row = 3; row < 11; ++row) {
          for (int column = 0; column < shape.head_dim; ++column) {
            const std::size_t at = static_cast<std::size_t>((row - 3) * shape.head_dim + column);
            ASSERT_EQ(rows[at], expected(part, layer, head, row, column));
          }
        }
      }
    }
  }
}

constexpr QueryKeyStore::Shape kStoreShape{.layers = 2, .heads = 4, .key_heads = 2, .length = 13, .head_dim = 5};

TEST(HostQueryKeyStore, GivesBackRowsFromMemoryAndFromATemporaryFile) {
  for (const DType dtype : {DType::float32, DType::bfloat16}) {
    for (const std::size_t budget : {std::size_t{0}, std::size_t{1} << 30U}) {
      for (const KeepSet& keep : {KeepSet{Keep::query_key}, {Keep::values}, {Keep::query_key, Keep::values}}) {
        HostQueryKeyStore store(kStoreShape, dtype, budget, std::filesystem::temp_directory_path(), std::nullopt,
                                stored_arrays(keep));
        EXPECT_STREQ(store.where(), budget == 0 ? "temporary file" : "memory");
        EXPECT_EQ(store.layer(Part::key, 1).empty(), !keep.contains(Keep::query_key));
        EXPECT_EQ(store.layer(Part::value, 1).empty(), !keep.contains(Keep::values));
        fill(store);
        check(store);
      }
    }
  }
}

TEST(HostQueryKeyStore, LeavesNoNameBehind) {
  const std::filesystem::path folder = std::filesystem::temp_directory_path() / "foxscope-spill-test";
  std::filesystem::create_directories(folder);
  const HostQueryKeyStore store(kStoreShape, DType::float32, 0, folder);
  EXPECT_TRUE(std::filesystem::is_empty(folder));
  std::filesystem::remove(folder);
}

TEST(HostQueryKeyStore, SaysWhereItsTemporaryFileIs) {
  constexpr QueryKeyStore::Shape kLarge{.layers = 1, .heads = 1, .key_heads = 1, .length = 1 << 18, .head_dim = 32};
  const std::filesystem::path folder = std::filesystem::temp_directory_path();
  EXPECT_EQ(HostQueryKeyStore(kLarge, DType::float32, 0, folder).note(),
            "queries and keys take 0.1 GiB and are held in a temporary file in " + folder.string());
  EXPECT_EQ(HostQueryKeyStore(kStoreShape, DType::float32, std::size_t{1} << 30U, folder).note(), "");
}

TEST(HostQueryKeyStore, CountsItsBytes) {
  EXPECT_EQ(HostQueryKeyStore::bytes(kStoreShape, DType::float32), 2U * (4 + 2) * 13 * 5 * 4);
  EXPECT_EQ(HostQueryKeyStore::bytes(kStoreShape, DType::bfloat16), 2U * (4 + 2) * 13 * 5 * 2);
  EXPECT_EQ(HostQueryKeyStore::bytes(kStoreShape, DType::bfloat16, {Part::value}), 2U * 2 * 13 * 5 * 2);
}

TEST(HostQueryKeyStore, NamesFolderAndSizeWhereNothingFits) {
  const std::string message =
      test::error_of([] { HostQueryKeyStore(kStoreShape, DType::float32, 0, "/nonexistent/folder"); });
  EXPECT_NE(message.find("/nonexistent/folder"), std::string::npos) << message;
  EXPECT_NE(message.find("--length"), std::string::npos) << message;
  constexpr QueryKeyStore::Shape kHuge{.layers = 1, .heads = 1, .key_heads = 1, .length = 1LL << 50, .head_dim = 64};
  EXPECT_THROW(HostQueryKeyStore(kHuge, DType::float32, ~std::size_t{0}, "/tmp"), Error);
  EXPECT_EQ(words_of({Part::query, Part::key}).title, "queries and keys");
  const auto refused = [&](const KeepSet& keep) {
    return test::error_of([&] {
      HostQueryKeyStore(kStoreShape, DType::float32, 0, "/nonexistent/folder", std::nullopt, stored_arrays(keep));
    });
  };
  EXPECT_NE(refused({Keep::values}).find("leave values out of --keep"), std::string::npos);
  EXPECT_NE(refused({Keep::values, Keep::query_key}).find("leave qk and values out of --keep"), std::string::npos);
}

TEST(HostQueryKeyStore, ServesSeveralThreads) {
  HostQueryKeyStore store(kStoreShape, DType::bfloat16, 1 << 20, "/tmp");
  fill(store);
  std::vector<std::thread> threads;
  threads.reserve(4);
  for (int n = 0; n < 4; ++n) threads.emplace_back([&store] { check(store); });
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace foxscope
