#include "kernels/cpu/packed_products.h"

#include <algorithm>
#include <random>
#include <vector>

#include <gtest/gtest.h>
#include <hwy/aligned_allocator.h>

#include "tests/kernels/instruction_set.h"

namespace foxscope::kernels::testing {
namespace {

/// Rows that lie apart, and a matrix.
struct PackedProblem {
  PackedProblem(std::int64_t rows_of, std::int64_t columns_of, std::int64_t depth_of)
      : rows(rows_of), columns(columns_of), depth(depth_of), stride(depth_of + 3) {
    std::mt19937 random(5);
    std::normal_distribution<float> normal;
    in.resize(static_cast<std::size_t>(rows * stride));
    weight.resize(static_cast<std::size_t>(columns * depth));
    for (float& x : in) x = normal(random);
    for (float& x : weight) x = normal(random);
    packed = hwy::AllocateAligned<float>(static_cast<std::size_t>(cpu::packed_size(columns, depth)));
    for (std::int64_t panel = 0; panel * cpu::kPanelColumns < columns; ++panel) {
      cpu::pack_panel(weight.data(), columns, depth, panel, packed.get());
    }
  }

  /// Of some rows, and of the columns from a panel on. Behind each row of the result lies a number that must stay.
  [[nodiscard]] std::vector<float> multiply(std::int64_t first, std::int64_t count, std::int64_t panel,
                                            bool add) const {
    const std::int64_t width = columns - panel * cpu::kPanelColumns;
    std::vector<float> out(static_cast<std::size_t>(count * (width + 1)), 0.5F);
    cpu::PackedProducts p;
    p.rows = count;
    p.columns = width;
    p.depth = depth;
    p.in = in.data() + first * stride;
    p.in_stride = stride;
    p.packed = packed.get() + cpu::packed_place(panel, depth);
    p.out = out.data();
    p.out_stride = width + 1;
    p.add = add;
    cpu::packed_products(p);
    return out;
  }

  std::int64_t rows;
  std::int64_t columns;
  std::int64_t depth;
  std::int64_t stride;
  std::vector<float> in;
  std::vector<float> weight;
  hwy::AlignedFreeUniquePtr<float[]> packed;
};

void expect_sums(const PackedProblem& problem) {
  const auto plain = problem.multiply(0, problem.rows, 0, false);
  const auto added = problem.multiply(0, problem.rows, 0, true);
  for (std::int64_t r = 0; r < problem.rows; ++r) {
    for (std::int64_t c = 0; c <= problem.columns; ++c) {
      const auto at = static_cast<std::size_t>(r * (problem.columns + 1) + c);
      if (c == problem.columns) {
        ASSERT_EQ(plain[at], 0.5F) << "behind row " << r;
        ASSERT_EQ(added[at], 0.5F) << "behind row " << r;
        continue;
      }
      double sum = 0;
      for (std::int64_t k = 0; k < problem.depth; ++k) {
        sum += static_cast<double>(problem.in[static_cast<std::size_t>(r * problem.stride + k)]) *
               static_cast<double>(problem.weight[static_cast<std::size_t>(c * problem.depth + k)]);
      }
      ASSERT_NEAR(plain[at], sum, 3e-4) << r << ", " << c;
      ASSERT_NEAR(added[at], 0.5 + sum, 3e-4) << r << ", " << c;
    }
  }
}

TEST(PackedProducts, AreSumsOfProducts) {
  for (const std::int64_t target : InstructionSet::available()) {
    SCOPED_TRACE(hwy::TargetName(target));
    const InstructionSet chosen(target);
    // Columns that fill panels, parts of one, and parts of a vector; depths of one block and of several.
    expect_sums({7, 64, 33});
    expect_sums({1, 3, 1});
    expect_sums({53, 100, 16});
    expect_sums({50, 130, 1100});
    expect_sums({13, 80, 512});
  }
}

TEST(PackedProducts, EachRowHasTheDigitsThatItHasAlone) {
  for (const std::int64_t target : InstructionSet::available()) {
    SCOPED_TRACE(hwy::TargetName(target));
    const InstructionSet chosen(target);
    const PackedProblem problem(61, 150, 700);
    for (const bool add : {false, true}) {
      const auto together = problem.multiply(0, problem.rows, 0, add);
      const auto from_panel = problem.multiply(0, problem.rows, 1, add);
      for (std::int64_t r = 0; r < problem.rows; ++r) {
        const auto row = together.begin() + r * (problem.columns + 1);
        EXPECT_TRUE(std::ranges::equal(problem.multiply(r, 1, 0, add), std::span(row, row + problem.columns + 1)));
        const std::int64_t rest = problem.columns - cpu::kPanelColumns + 1;
        EXPECT_TRUE(std::equal(row + cpu::kPanelColumns, row + problem.columns + 1, from_panel.begin() + r * rest));
      }
    }
  }
}

}  // namespace
}  // namespace foxscope::kernels::testing
