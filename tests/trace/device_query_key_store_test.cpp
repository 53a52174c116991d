// Queries and keys in GPU memory. What needs a GPU is skipped by name where there is none.
#include "backend/trace/device_query_key_store.h"

#include <cstring>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "backend/trace/recorder.h"
#include "kernels/cuda/device.h"
#include "tests/error_of.h"

namespace foxscope {
namespace {

using Part = QueryKeyStore::Part;

constexpr QueryKeyStore::Shape kShape{.layers = 2, .heads = 4, .key_heads = 2, .length = 13, .head_dim = 6};

bool gpu() { return kernels::cuda::is_available(); }

TEST(DeviceQueryKeyStore, SaysThatThereIsNoGpu) {
  if (gpu()) GTEST_SKIP() << "there is a GPU";
  EXPECT_EQ(test::error_of([] { DeviceQueryKeyStore(kShape, DType::float32, 0); }),
            "cuda:0: no GPU that could hold queries and keys: use --device cpu");
}

TEST(DeviceQueryKeyStore, NamesBothSizesWhereItDoesNotFit) {
  if (!gpu()) GTEST_SKIP() << "no CUDA device, or a build without CUDA";
  constexpr QueryKeyStore::Shape kHuge{.layers = 1, .heads = 1, .key_heads = 1, .length = 1LL << 40, .head_dim = 64};
  const std::string message = test::error_of([&] { DeviceQueryKeyStore(kHuge, DType::bfloat16, 0); });
  EXPECT_NE(message.find("262144.00 GiB"), std::string::npos) << message;
  EXPECT_NE(message.find("GiB are free"), std::string::npos) << message;
}

TEST(DeviceQueryKeyStore, GivesBackWhatARecorderWasGiven) {
  if (!gpu()) GTEST_SKIP() << "no CUDA device, or a build without CUDA";
  for (const DType dtype : {DType::float32, DType::bfloat16}) {
    auto host = std::make_shared<HostQueryKeyStore>(kShape, dtype, std::size_t{1} << 30U, "/tmp", 0);
    auto store = std::make_shared<DeviceQueryKeyStore>(kShape, dtype, 0);
    EXPECT_STREQ(store->where(), "GPU memory");
    TraceInfo info;
    info.layers = kShape.layers;
    info.heads = kShape.heads;
    info.length = kShape.length;
    Recorder recorder(info, {Keep::query_key}, store);
    std::uint8_t next = 1;
    for (const Part part : {Part::query, Part::key}) {
      for (int layer = 0; layer < kShape.layers; ++layer) {
        const std::span<std::byte> to = host->layer(part, layer);
        for (std::byte& value : to) value = static_cast<std::byte>(next++ & 0x3fU);
        EXPECT_TRUE(recorder.stored(part, layer).empty());
        ASSERT_TRUE(kernels::cuda::copy_to_device(recorder.stored_on_device(part, layer), to));
      }
    }
    std::vector<float> a;
    std::vector<float> b;
    for (const Part part : {Part::query, Part::key}) {
      for (int layer = 0; layer < kShape.layers; ++layer) {
        for (int head = 0; head < (part == Part::query ? kShape.heads : kShape.key_heads); ++head) {
          const auto expected = host->rows(part, layer, head, 3, 11, a);
          const auto rows = store->rows(part, layer, head, 3, 11, b);
          ASSERT_EQ(rows.size(), expected.size());
          EXPECT_EQ(std::memcmp(rows.data(), expected.data(), rows.size_bytes()), 0);
        }
      }
    }
  }
}

TEST(HostQueryKeyStore, IsPageableWhereNothingCanBePinned) {
  HostQueryKeyStore store(kShape, DType::float32, std::size_t{1} << 30U, "/tmp", 0);
  EXPECT_STREQ(store.where(), "memory");
  for (std::byte& value : store.layer(Part::key, 1)) value = std::byte{0x3f};
  std::vector<float> scratch;
  for (const float value : store.rows(Part::key, 1, 1, 0, 13, scratch)) EXPECT_NEAR(value, 0.7470588F, 1e-6F);
}

}  // namespace
}  // namespace foxscope
