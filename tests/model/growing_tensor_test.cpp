// Memory that grows: against concatenation, and copies that go separate ways.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "backend/model/layer/torch/growing_tensor_torch.h"

namespace foxscope {
namespace {

TEST(GrowingTensor, HoldsWhatConcatenationHolds) {
  const at::Tensor all = at::rand({3, 1000, 4});
  GrowingTensor growing;
  growing.start(all.slice(1, 0, 5).clone());
  std::int64_t first = 0;
  for (std::int64_t n = 5; n < 1000; ++n) {
    growing.append(all.slice(1, n, n + 1));
    if (n % 7 == 0) {
      growing.drop_front(3);
      first += 3;
    }
    ASSERT_TRUE(at::equal(growing.rows(), all.slice(1, first, n + 1))) << n;
  }
  EXPECT_EQ(growing.size(), 1000 - first);
}

TEST(GrowingTensor, DoesNotWriteIntoWhatItWasGiven) {
  const at::Tensor memory = at::zeros({1, 8});
  GrowingTensor growing;
  growing.start(memory.slice(1, 0, 4));
  growing.append(at::ones({1, 1}));
  EXPECT_EQ(memory.sum().item<float>(), 0);
}

TEST(GrowingTensor, CopiesSeeOnlyTheirOwnRows) {
  GrowingTensor first;
  first.start(at::arange(4).view({1, 4}));
  first.append(at::tensor({4}).view({1, 1}));
  GrowingTensor second = first;
  second.append(at::tensor({50}).view({1, 1}));
  first.append(at::tensor({5}).view({1, 1}));
  second.append(at::tensor({60}).view({1, 1}));
  EXPECT_TRUE(at::equal(first.rows(), at::arange(6).view({1, 6})));
  EXPECT_TRUE(at::equal(second.rows(), at::tensor({0, 1, 2, 3, 4, 50, 60}).view({1, 7})));
}

}  // namespace
}  // namespace foxscope
