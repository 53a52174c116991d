#include "kernels/cpu/head_products.h"

#include <cmath>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "backend/base/index.h"
#include "tests/kernels/instruction_set.h"

namespace foxscope::kernels::testing {
namespace {

constexpr std::size_t kSide = cpu::kProductHeads;

TEST(HeadProducts, AreSumsOfProducts) {
  std::mt19937 random(11);
  std::lognormal_distribution<double> sizes(0, 3);
  for (const std::int64_t target : InstructionSet::available()) {
    const InstructionSet chosen(target);
    for (const std::int64_t entries : {0, 1, 2, 33, 2047}) {
      std::vector<double> a(index_of(entries) * kSide);
      std::vector<double> b(a.size());
      for (double& value : a) value = -sizes(random);
      for (double& value : b) value = -sizes(random);
      std::vector<double> sum(kSide * kSide, 7.0);
      cpu::head_products(entries, a.data(), b.data(), sum.data());
      for (std::size_t n = 0; n < kSide; ++n) {
        for (std::size_t m = 0; m < kSide; ++m) {
          long double expected = 0;
          for (std::size_t at = 0; at < a.size(); at += kSide) {
            expected += static_cast<long double>(a[at + n]) * static_cast<long double>(b[at + m]);
          }
          EXPECT_NEAR(sum[n * kSide + m], static_cast<double>(expected), 1e-12 * static_cast<double>(expected))
              << entries << ": " << n << ", " << m;
        }
      }
    }
  }
}

}  // namespace
}  // namespace foxscope::kernels::testing
