#include "kernels/cpu/matrix_product.h"

#include <algorithm>
#include <cstdint>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/matrix_product.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/cpu/tile_math-inl.h"

#ifndef FOXSCOPE_KERNELS_CPU_MATRIX_PRODUCT_WIDTH_
#define FOXSCOPE_KERNELS_CPU_MATRIX_PRODUCT_WIDTH_
namespace foxscope::kernels::cpu {
namespace {

/// A tile's columns are a multiple of it, beyond the last column too.
constexpr std::int64_t kTileColumns = 16;

/// Columns of a panel as they lie in memory.
std::int64_t panel_width(std::int64_t columns) { return (columns + kTileColumns - 1) / kTileColumns * kTileColumns; }

}  // namespace
}  // namespace foxscope::kernels::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace foxscope::kernels::HWY_NAMESPACE {
namespace {

using cpu::kPanelColumns;
using cpu::kTileColumns;
using cpu::MatrixProduct;

// A panel of the weights, turned so that columns lie beside each other, stays in a core's second cache for all rows.
constexpr std::int64_t kPanelDepth = 256;
/// Rows of what goes through a buffer, as it has fewer columns than a tile.
constexpr std::int64_t kBufferedRows = 64;

void pack_panel(const float* weight, std::int64_t columns, std::int64_t depth, std::int64_t panel, float* packed) {
  const std::int64_t first = panel * kPanelColumns;
  const std::int64_t count = std::min(kPanelColumns, columns - first);
  fill_panel(weight + first * depth, depth, count, depth, packed + cpu::packed_place(panel, depth),
             cpu::panel_width(count));
}

template <Start kStart>
void multiply_whole(const MatrixProduct& p, std::int64_t columns, std::int64_t depth, const float* in,
                    const float* panel, std::int64_t width, float* out) {
  tile_product<kStart>(p.rows, columns, depth, in, p.in_stride, panel, width, nullptr, out, p.out_stride);
}

/// The last columns, which fill no tile.
void multiply_rest(const MatrixProduct& p, std::int64_t columns, std::int64_t depth, bool add, const float* in,
                   const float* panel, std::int64_t width, float* out) {
  HWY_ALIGN float buffer[kBufferedRows * kTileColumns];
  for (std::int64_t first = 0; first < p.rows; first += kBufferedRows) {
    const std::int64_t rows = std::min(kBufferedRows, p.rows - first);
    tile_product<Start::zero>(rows, kTileColumns, depth, in + first * p.in_stride, p.in_stride, panel, width, nullptr,
                              buffer, kTileColumns);
    for (std::int64_t r = 0; r < rows; ++r) {
      const float* const from = buffer + r * kTileColumns;
      float* const to = out + (first + r) * p.out_stride;
      for (std::int64_t c = 0; c < columns; ++c) to[c] = add ? to[c] + from[c] : from[c];
    }
  }
}

void matrix_product(const MatrixProduct& p) {
  HWY_ALIGN float turned[kPanelColumns * kPanelDepth];
  for (std::int64_t column = 0; column < p.columns; column += kPanelColumns) {
    const std::int64_t columns = std::min(kPanelColumns, p.columns - column);
    const std::int64_t width = cpu::panel_width(columns);
    const std::int64_t whole = columns / kTileColumns * kTileColumns;
    for (std::int64_t k = 0; k < p.depth; k += kPanelDepth) {
      const std::int64_t depth = std::min(kPanelDepth, p.depth - k);
      const bool add = k > 0 || p.into == MatrixProduct::Into::add;
      const float* panel = turned;
      if (p.packed != nullptr) {
        panel = p.packed + column * p.depth + k * width;
      } else {
        fill_panel(p.weight + column * p.depth + k, p.depth, columns, depth, turned, width);
      }
      float* const out = p.out + column;
      if (add) {
        multiply_whole<Start::add>(p, whole, depth, p.in + k, panel, width, out);
      } else {
        multiply_whole<Start::zero>(p, whole, depth, p.in + k, panel, width, out);
      }
      if (whole < columns) multiply_rest(p, columns - whole, depth, add, p.in + k, panel + whole, width, out + whole);
    }
  }
}

}  // namespace
}  // namespace foxscope::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace foxscope::kernels {
HWY_EXPORT(matrix_product);
HWY_EXPORT(pack_panel);

namespace cpu {

std::int64_t packed_size(std::int64_t columns, std::int64_t depth) { return panel_width(columns) * depth; }

void pack_panel(const float* weight, std::int64_t columns, std::int64_t depth, std::int64_t panel, float* packed) {
  HWY_DYNAMIC_DISPATCH(pack_panel)(weight, columns, depth, panel, packed);
}

void matrix_product(const MatrixProduct& product) { HWY_DYNAMIC_DISPATCH(matrix_product)(product); }

}  // namespace cpu
}  // namespace foxscope::kernels
#endif
