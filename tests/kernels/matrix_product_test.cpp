#include "kernels/cpu/matrix_product.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include <gtest/gtest.h>
#include <hwy/aligned_allocator.h>

#include "backend/base/index.h"
#include "tests/kernels/instruction_set.h"

namespace foxscope::kernels::testing {
namespace {

using cpu::MatrixProduct;

/// Rows with gaps between them.
struct Product {
  Product(std::int64_t row_count, std::int64_t column_count, std::int64_t row_depth)
      : rows(row_count), columns(column_count), depth(row_depth) {
    std::mt19937 random(7);
    std::normal_distribution<float> normal;
    in.resize(static_cast<std::size_t>(rows * in_stride()));
    weight.resize(static_cast<std::size_t>(columns * depth));
    for (float& x : in) x = normal(random);
    for (float& x : weight) x = normal(random);
    packed = hwy::AllocateAligned<float>(static_cast<std::size_t>(cpu::packed_size(columns, depth)));
    for (std::int64_t panel = 0; panel * cpu::kPanelColumns < columns; ++panel) {
      cpu::pack_panel(weight.data(), columns, depth, panel, packed.get());
    }
  }
  [[nodiscard]] std::int64_t in_stride() const { return depth + 3; }

  /// Of some rows and columns, [count, width] behind each other; what is between them stays -7.
  [[nodiscard]] std::vector<float> multiply(std::int64_t first, std::int64_t count, std::int64_t first_column,
                                            std::int64_t width,
                                            MatrixProduct::Into into = MatrixProduct::Into::overwrite,
                                            const float* packed_weight = nullptr) const {
    std::vector<float> out(static_cast<std::size_t>(count * (width + 2)), -7.0F);
    for (std::int64_t n = 0; n < count * (width + 2); ++n) {
      if (n % (width + 2) < width) out[index_of(n)] = 0.5F;
    }
    cpu::matrix_product({.rows = count,
                         .columns = width,
                         .depth = depth,
                         .in = in.data() + first * in_stride(),
                         .in_stride = in_stride(),
                         .weight = weight.data() + first_column * depth,
                         .out = out.data(),
                         .out_stride = width + 2,
                         .into = into,
                         .packed = packed_weight});
    std::vector<float> rows_only;
    for (std::int64_t n = 0; n < count * (width + 2); ++n) {
      const float value = out[index_of(n)];
      if (n % (width + 2) < width) {
        rows_only.push_back(value);
      } else {
        EXPECT_EQ(value, -7.0F);
      }
    }
    return rows_only;
  }
  /// In float64; and the sum of the magnitudes, of which rounding is a share.
  [[nodiscard]] std::pair<double, double> sum(std::int64_t row, std::int64_t column) const {
    double total = 0;
    double size = 0;
    for (std::int64_t k = 0; k < depth; ++k) {
      const double term = static_cast<double>(in[index_of(row * in_stride() + k)]) *
                          static_cast<double>(weight[index_of(column * depth + k)]);
      total += term;
      size += std::abs(term);
    }
    return {total, size};
  }

  std::int64_t rows;
  std::int64_t columns;
  std::int64_t depth;
  std::vector<float> in;
  std::vector<float> weight;
  hwy::AlignedFreeUniquePtr<float[]> packed;
};

TEST(MatrixProduct, IsTheSumOfProducts) {
  for (const std::int64_t target : InstructionSet::available()) {
    const InstructionSet chosen(target);
    for (const std::int64_t rows : {1, 5, 6, 67}) {
      for (const std::int64_t columns : {1, 4, 15, 16, 63, 64, 79}) {
        for (const std::int64_t depth : {1, 3, 4, 255, 256, 261, 520}) {
          const Product product(rows, columns, depth);
          const std::vector<float> plain = product.multiply(0, rows, 0, columns);
          const std::vector<float> added = product.multiply(0, rows, 0, columns, MatrixProduct::Into::add);
          for (std::int64_t n = 0; n < rows * columns; ++n) {
            const auto [expected, size] = product.sum(n / columns, n % columns);
            const auto at = static_cast<std::size_t>(n);
            // A float32 sum of 256 terms after the other strays by far less than 256 halves of a unit.
            ASSERT_NEAR(plain[at], expected, 1e-6 * size + 1e-7)
                << target << ": " << rows << "x" << columns << "x" << depth;
            ASSERT_NEAR(added[at], 0.5 + expected, 1e-6 * size + 1e-6) << target;
          }
        }
      }
    }
  }
}

TEST(MatrixProduct, RowsAndColumnsHaveTheDigitsThatTheyHaveAlone) {
  for (const std::int64_t target : InstructionSet::available()) {
    const InstructionSet chosen(target);
    const Product product(41, 83, 300);
    const std::vector<float> together = product.multiply(0, 41, 0, 83);
    for (std::int64_t row = 0; row < 41; ++row) {
      const auto begin = together.begin() + row * 83;
      EXPECT_EQ(product.multiply(row, 1, 0, 83), std::vector<float>(begin, begin + 83)) << target << ", row " << row;
    }
    for (std::int64_t column = 0; column < 83; ++column) {
      const std::vector<float> alone = product.multiply(0, 41, column, 1);
      for (std::int64_t row = 0; row < 41; ++row) {
        ASSERT_EQ(alone[index_of(row)], together[index_of(row * 83 + column)]);
      }
    }
  }
}

TEST(MatrixProduct, PackedWeightsGiveTheSameDigits) {
  for (const std::int64_t target : InstructionSet::available()) {
    SCOPED_TRACE(hwy::TargetName(target));
    const InstructionSet chosen(target);
    for (const std::int64_t columns : {3, 64, 100, 130, 207}) {
      const Product product(53, columns, 300);
      for (const auto into : {MatrixProduct::Into::overwrite, MatrixProduct::Into::add}) {
        EXPECT_EQ(product.multiply(0, 53, 0, columns, into, product.packed.get()),
                  product.multiply(0, 53, 0, columns, into));
        if (columns <= cpu::kPanelColumns) continue;
        const float* const from = product.packed.get() + cpu::packed_place(1, product.depth);
        EXPECT_EQ(product.multiply(5, 9, cpu::kPanelColumns, columns - cpu::kPanelColumns, into, from),
                  product.multiply(5, 9, cpu::kPanelColumns, columns - cpu::kPanelColumns, into));
      }
    }
  }
}

TEST(MatrixProduct, CarriesWhatIsNotFinite) {
  Product product(9, 20, 270);
  product.in[index_of(3 * product.in_stride() + 265)] = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> out = product.multiply(0, 9, 0, 20);
  for (std::int64_t n = 0; n < 9 * 20; ++n) EXPECT_EQ(std::isnan(out[index_of(n)]), n / 20 == 3);
}

}  // namespace
}  // namespace foxscope::kernels::testing
