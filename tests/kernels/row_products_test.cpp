#include "kernels/cpu/row_products.h"

#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "backend/base/index.h"
#include "tests/kernels/instruction_set.h"

namespace foxscope::kernels::testing {
namespace {

/// Rows that begin anywhere in memory.
struct RowProblem {
  RowProblem(std::size_t rows, std::int64_t column_count, std::int64_t row_depth)
      : columns(column_count), depth(row_depth) {
    std::mt19937 random(7);
    std::normal_distribution<float> normal;
    for (std::size_t row = 0; row < rows; ++row) {
      in.emplace_back(static_cast<std::size_t>(depth) + row % 5);
      for (float& x : in.back()) x = normal(random);
    }
    weight.resize(static_cast<std::size_t>(columns * depth));
    for (float& x : weight) x = normal(random);
  }
  [[nodiscard]] const float* row(std::size_t index) const { return in[index].data() + index % 5; }

  /// Of some rows and columns, beside each other.
  [[nodiscard]] std::vector<std::vector<float>> multiply(std::size_t first_row, std::size_t rows,
                                                         std::int64_t first_column, std::int64_t count,
                                                         bool add = false) const {
    std::vector<std::vector<float>> out(rows, std::vector<float>(static_cast<std::size_t>(count), 0.5F));
    std::vector<const float*> from;
    std::vector<float*> to;
    for (std::size_t n = 0; n < rows; ++n) {
      from.push_back(row(first_row + n));
      to.push_back(out[n].data());
    }
    cpu::row_products({from, weight.data() + first_column * depth, count, depth, to, add});
    return out;
  }

  std::int64_t columns;
  std::int64_t depth;
  std::vector<std::vector<float>> in;
  std::vector<float> weight;
};

TEST(RowProducts, AreSumsOfProducts) {
  for (const std::int64_t target : InstructionSet::available()) {
    const InstructionSet chosen(target);
    for (const std::int64_t depth : {1, 15, 16, 17, 64, 259}) {
      const RowProblem problem(7, 9, depth);
      const auto plain = problem.multiply(0, 7, 0, 9);
      const auto added = problem.multiply(0, 7, 0, 9, true);
      for (std::size_t r = 0; r < 7; ++r) {
        for (std::size_t c = 0; c < 9; ++c) {
          double sum = 0;
          for (std::size_t k = 0; k < static_cast<std::size_t>(depth); ++k) {
            sum += static_cast<double>(problem.row(r)[k]) *
                   static_cast<double>(problem.weight[c * static_cast<std::size_t>(depth) + k]);
          }
          EXPECT_NEAR(plain[r][c], sum, 1e-4) << target << ", depth " << depth;
          EXPECT_EQ(added[r][c], 0.5F + plain[r][c]);
        }
      }
    }
  }
}

TEST(RowProducts, EachHasTheDigitsThatItHasAlone) {
  for (const std::int64_t target : InstructionSet::available()) {
    const InstructionSet chosen(target);
    const RowProblem problem(11, 13, 203);
    const auto together = problem.multiply(0, 11, 0, 13);
    for (std::size_t r = 0; r < 11; ++r) {
      EXPECT_EQ(problem.multiply(r, 1, 0, 13).front(), together[r]);
      for (std::int64_t c = 0; c < 13; ++c) {
        EXPECT_EQ(problem.multiply(r, 1, c, 1).front().front(), together[r][index_of(c)]);
      }
    }
  }
}

}  // namespace
}  // namespace foxscope::kernels::testing
