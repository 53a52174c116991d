#include "kernels/cpu/packed_products.h"

#include <algorithm>
#include <cstdint>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/packed_products.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/cpu/tile_math-inl.h"

#ifndef FOXSCOPE_KERNELS_CPU_PACKED_PRODUCTS_WIDTH_
#define FOXSCOPE_KERNELS_CPU_PACKED_PRODUCTS_WIDTH_
namespace foxscope::kernels::cpu {
namespace {

/// Tiles have multiples of it as columns.
constexpr std::int64_t kTileColumns = 16;

/// Columns of a panel as they lie in memory.
std::int64_t panel_width(std::int64_t columns, std::int64_t panel) {
  const std::int64_t rest = std::min(kPanelColumns, columns - panel * kPanelColumns);
  return (rest + kTileColumns - 1) / kTileColumns * kTileColumns;
}

}  // namespace
}  // namespace foxscope::kernels::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace foxscope::kernels::HWY_NAMESPACE {
namespace {

using cpu::kPanelColumns;
using cpu::PackedProducts;

/// Depth at once: so much of a panel stays in the second cache beside its rows.
constexpr std::int64_t kDepthBlock = 512;
/// Rows at once of a panel whose last columns are none of the matrix.
constexpr std::int64_t kRestRows = 48;

/// A panel times rows; the sums over the blocks of the depth are added one after the other.
void panel_products(const PackedProducts& p, std::int64_t row, std::int64_t rows, const float* panel,
                    std::int64_t width, bool add, float* out, std::int64_t out_stride) {
  for (std::int64_t first = 0; first < p.depth; first += kDepthBlock) {
    const std::int64_t depth = std::min(kDepthBlock, p.depth - first);
    const float* const in = p.in + row * p.in_stride + first;
    const float* const part = panel + first * width;
    if (add || first > 0) {
      tile_product<Start::add>(rows, width, depth, in, p.in_stride, part, width, nullptr, out, out_stride);
    } else {
      tile_product<Start::zero>(rows, width, depth, in, p.in_stride, part, width, nullptr, out, out_stride);
    }
  }
}

/// The last panel, by way of rows that are filled up.
void rest_products(const PackedProducts& p, const float* panel, std::int64_t width, std::int64_t columns, float* out) {
  alignas(64) float whole[kRestRows * kPanelColumns];
  for (std::int64_t row = 0; row < p.rows; row += kRestRows) {
    const std::int64_t rows = std::min(kRestRows, p.rows - row);
    for (std::int64_t r = 0; r < rows && p.add; ++r) {
      std::copy_n(out + (row + r) * p.out_stride, columns, whole + r * width);
      std::fill(whole + r * width + columns, whole + (r + 1) * width, 0.0F);
    }
    panel_products(p, row, rows, panel, width, p.add, whole, width);
    for (std::int64_t r = 0; r < rows; ++r) std::copy_n(whole + r * width, columns, out + (row + r) * p.out_stride);
  }
}

void packed_products(const PackedProducts& p) {
  for (std::int64_t panel = 0; panel * kPanelColumns < p.columns; ++panel) {
    const std::int64_t first = panel * kPanelColumns;
    const std::int64_t width = cpu::panel_width(p.columns, panel);
    const std::int64_t columns = std::min(kPanelColumns, p.columns - first);
    const float* const packed = p.packed + cpu::packed_place(panel, p.depth);
    if (columns == width) {
      panel_products(p, 0, p.rows, packed, width, p.add, p.out + first, p.out_stride);
    } else {
      rest_products(p, packed, width, columns, p.out + first);
    }
  }
}

}  // namespace
}  // namespace foxscope::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace foxscope::kernels {
HWY_EXPORT(packed_products);

namespace cpu {

std::int64_t packed_size(std::int64_t columns, std::int64_t depth) {
  return (columns + kTileColumns - 1) / kTileColumns * kTileColumns * depth;
}

void pack_panel(const float* weight, std::int64_t columns, std::int64_t depth, std::int64_t panel, float* packed) {
  constexpr std::int64_t kAtOnce = 16;  // numbers of a cache line, which are read together
  const std::int64_t first = panel * kPanelColumns;
  const std::int64_t width = panel_width(columns, panel);
  const std::int64_t count = std::min(kPanelColumns, columns - first);
  const float* const from = weight + first * depth;
  float* const to = packed + packed_place(panel, depth);
  for (std::int64_t begin = 0; begin < depth; begin += kAtOnce) {
    const std::int64_t end = std::min(begin + kAtOnce, depth);
    for (std::int64_t column = 0; column < count; ++column) {
      for (std::int64_t k = begin; k < end; ++k) to[k * width + column] = from[column * depth + k];
    }
    for (std::int64_t k = begin; k < end; ++k) std::fill(to + k * width + count, to + (k + 1) * width, 0.0F);
  }
}

void packed_products(const PackedProducts& products) { HWY_DYNAMIC_DISPATCH(packed_products)(products); }

}  // namespace cpu
}  // namespace foxscope::kernels
#endif
