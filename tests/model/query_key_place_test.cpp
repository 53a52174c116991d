// Where a run's queries and keys go, and what is said where the rest of it does not fit. What needs a GPU is skipped by
// name where there is none.
#include "backend/model/session/query_key_place.h"

#include <gtest/gtest.h>

#include "backend/base/error.h"
#include "kernels/cuda/device.h"
#include "tests/model/model_test_support.h"

namespace foxscope {
namespace {

constexpr std::int64_t kGibibyte = std::int64_t{1} << 30;
constexpr std::int64_t kMiB = std::int64_t{1} << 20;

/// 1 GiB, and a MiB for each token.
constexpr RunMemory kMemory = {kGibibyte, kMiB, 2 * kMiB};
const RunNeeds kOnCpu = {kMemory, {}};
const RunNeeds kOnGpu = {kMemory, kMemory};

MemoryUser user(std::vector<std::string> remedies = {}) {
  return {"a run over 4096 tokens needs", "--length", std::move(remedies)};
}

TraceInfo small_info(std::int64_t length = 16) {
  TraceInfo info;
  info.layers = 2;
  info.heads = 4;
  info.key_heads = 2;
  info.head_dim = 8;
  info.length = length;
  return info;
}

TEST(RunMemory, WhatIsLeftIsWhatNobodyNeeds) {
  const FreeMemory left = memory_left(kOnGpu, 1024, {3 * kGibibyte, 5 * kGibibyte}, user());
  EXPECT_EQ(left.host, kGibibyte);
  EXPECT_EQ(left.gpu, 3 * kGibibyte);
  EXPECT_EQ(memory_left(kOnCpu, 1024, {2 * kGibibyte, 0}, user()).host, 0);
}

TEST(RunMemory, SaysWhatWouldFit) {
  const FreeMemory free = {3 * kGibibyte, 0};
  EXPECT_EQ(test::error_of([&] { memory_left(kOnCpu, 4096, free, user()); }),
            "a run over 4096 tokens needs about 5.0 GiB of memory and 3.0 GiB are available: use --length 2048");
  EXPECT_EQ(test::error_of([&] {
              memory_left(kOnCpu, 4096, free, user({"leave logits out of --keep", "leave hidden out of --keep"}));
            }),
            "a run over 4096 tokens needs about 5.0 GiB of memory and 3.0 GiB are available: use --length 2048, leave "
            "logits out of --keep, or leave hidden out of --keep");
  EXPECT_EQ(test::error_of([&] {
              memory_left(kOnCpu, 4096, {5, 0}, user());
            }),
            "a run over 4096 tokens needs about 5.0 GiB of memory and 0.0 GiB are available: free memory, or use a "
            "smaller model");
  EXPECT_EQ(test::error_of([&] {
              memory_left(kOnCpu, 4096, free, {"they need", "", {"shorten it"}});
            }),
            "they need about 5.0 GiB of memory and 3.0 GiB are available: shorten it");
}

TEST(RunMemory, SaysWhatWouldFitOnAGpu) {
  EXPECT_EQ(test::error_of([&] {
              memory_left(kOnGpu, 4096, {9 * kGibibyte, 3 * kGibibyte}, user());
            }),
            "a run over 4096 tokens needs about 5.0 GiB of GPU memory and 3.0 GiB are free: use --length 2048, or "
            "--device cpu");
  EXPECT_EQ(test::error_of([&] {
              memory_left(kOnGpu, 4096, {9 * kGibibyte, 5}, user());
            }),
            "a run over 4096 tokens needs about 5.0 GiB of GPU memory and 0.0 GiB are free: free GPU memory, use a "
            "smaller model, or --device cpu");
}

TEST(QueryKeyPlace, IsTheGpuWhereTheyFitBesideTheRest) {
  // The run takes 2 GiB of each memory, its queries and keys 2 GiB.
  const QueryKeyPlace fits(kOnGpu, 1024, {3 * kGibibyte, 4 * kGibibyte}, user(), 1);
  EXPECT_TRUE(fits.on_gpu());
  EXPECT_EQ(fits.gpu(), 1);
  EXPECT_EQ(fits.host_budget(), kGibibyte / 4 * 3);
  const QueryKeyPlace does_not(kOnGpu, 1024, {3 * kGibibyte, 4 * kGibibyte - 1}, user(), 1);
  EXPECT_FALSE(does_not.on_gpu());
  EXPECT_EQ(does_not.gpu(), 1) << "statistics are the GPU's all the same";
  EXPECT_FALSE(QueryKeyPlace(kOnGpu, 1024, {3 * kGibibyte, 4 * kGibibyte}, user(), {}).on_gpu())
      << "a GPU that the kernels cannot use";
  EXPECT_THROW(QueryKeyPlace(kOnGpu, 4096, {9 * kGibibyte, 4 * kGibibyte}, user(), 1), Error);
}

TEST(QueryKeyPlace, OnACpuIsMemoryOrATemporaryFile) {
  const TraceInfo info = small_info();
  const QueryKeyPlace roomy(kOnCpu, 16, {3 * kGibibyte, 0}, user(), {});
  EXPECT_EQ(roomy.gpu(), std::nullopt);
  const auto store = roomy.make_store(info, {Keep::query_key});
  EXPECT_STREQ(store->where(), "memory");
  EXPECT_EQ(store->shape().key_heads, 2);
  EXPECT_EQ(store->shape().length, 16);
  const QueryKeyPlace tight(kOnCpu, 16, {kGibibyte + 16 * kMiB + 8, 0}, user(), {});
  EXPECT_STREQ(tight.make_store(info, {Keep::query_key})->where(), "temporary file");
}

TEST(QueryKeyPlace, IsNowhereIfTheyAreNotKept) {
  EXPECT_EQ(QueryKeyPlace({{kGibibyte, kMiB, 0}, {}}, 16, {3 * kGibibyte, 0}, user(), {})
                .make_store(small_info(), {Keep::query_key}),
            nullptr);
  EXPECT_EQ(QueryKeyPlace().make_store(small_info(), {Keep::query_key}), nullptr);
}

class CudaPlace : public testing::Test {
 protected:
  void SetUp() override {
    if (!kernel_gpu(Device::of(DeviceChoice::parse("auto")))) GTEST_SKIP() << "no CUDA device, or a build without CUDA";
  }
};

TEST_F(CudaPlace, IsItsMemoryWhereThereIsRoom) {
  const QueryKeyPlace place(kOnGpu, 16, free_memory({true, 0}), user(), 0);
  EXPECT_TRUE(place.on_gpu());
  const auto store = place.make_store(small_info(), {Keep::query_key});
  EXPECT_STREQ(store->where(), "GPU memory");
  EXPECT_NE(store->device_layer(QueryKeyStore::Part::key, 1), nullptr);
}

TEST_F(CudaPlace, IsTheHostsWhereItHasLostRoomSince) {
  const QueryKeyPlace place(kOnGpu, 16, free_memory({true, 0}), user(), 0);
  ASSERT_TRUE(place.on_gpu());
  TraceInfo info = small_info(180'000);
  info.head_dim = 64;
  info.dtype = DType::float32;  // 0.5 GiB
  EXPECT_STREQ(place.make_store(info, {Keep::query_key})->where(), "GPU memory");
  const kernels::cuda::DeviceScope scope(0);
  const kernels::cuda::DeviceBuffer another(kernels::cuda::free_memory() - (std::size_t{256} << 20U));
  EXPECT_STREQ(place.make_store(info, {Keep::query_key})->where(), "memory");
}

}  // namespace
}  // namespace foxscope
