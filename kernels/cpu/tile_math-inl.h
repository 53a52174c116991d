// Small dense products and exponentials on tiles, compiled once per instruction set by Highway (foreach_target.h).
#if defined(FOXSCOPE_KERNELS_CPU_TILE_MATH_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FOXSCOPE_KERNELS_CPU_TILE_MATH_INL_H_
#undef FOXSCOPE_KERNELS_CPU_TILE_MATH_INL_H_
#else
#define FOXSCOPE_KERNELS_CPU_TILE_MATH_INL_H_
#endif

#include <algorithm>
#include <cstdint>
#include <limits>

#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace foxscope::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using FloatTag = hn::ScalableTag<float>;
using Float = hn::Vec<FloatTag>;

/// The value that a tile product starts from.
enum class Start {
  zero,
  bias,        ///< bias[column], the same for every row: the gate as one more slice of the product
  accumulate,  ///< what is in C
  rescale,     ///< factor[row] C, added last so that each product is summed on its own before it meets a long sum
  add,         ///< what is in C, added last
};

/// How the left factor of a tile product lies.
enum class Left {
  plain,
  transposed,  ///< A[r, k] is found at a[k a_stride + r]
};

/// Where a tile product reads and writes: row-major matrices with strides in elements.
struct ProductTile {
  const float* a;
  std::int64_t a_stride;
  const float* b;
  std::int64_t b_stride;
  const float* start;  ///< bias by column or factor by row, as Start says; otherwise unread
  float* c;
  std::int64_t c_stride;
};

/// sum[r, n] += A[r, k] B[k, n] of one k.
template <int kRows, int kVectors>
HWY_INLINE void product_step(const float* HWY_RESTRICT a, std::int64_t a_stride, const float* HWY_RESTRICT b,
                             Float (&sum)[kRows][kVectors]) {
  const FloatTag tag;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(tag));
  Float columns[kVectors];
  for (int v = 0; v < kVectors; ++v) columns[v] = hn::LoadU(tag, b + v * lanes);
  for (int r = 0; r < kRows; ++r) {
    const Float factor = hn::Set(tag, a[r * a_stride]);
    for (int v = 0; v < kVectors; ++v) sum[r][v] = hn::MulAdd(factor, columns[v], sum[r][v]);
  }
}

/// C[r, n] = start + sum_k A[r, k] B[k, n] for kRows rows and kVectors vectors of columns, held in registers.
/// @tparam kDepth  the depth where it is known, so that the loop over it has no branches; 0: `depth`
template <int kRows, int kVectors, Start kStart, int kDepth, Left kLeft>
HWY_INLINE void product_block(std::int64_t depth, const ProductTile& tile, std::int64_t row, std::int64_t column) {
  const FloatTag tag;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(tag));
  const std::int64_t a_stride = kLeft == Left::plain ? tile.a_stride : 1;
  const std::int64_t a_step = kLeft == Left::plain ? 1 : tile.a_stride;
  const float* HWY_RESTRICT a = tile.a + row * a_stride;
  const float* HWY_RESTRICT b = tile.b + column;
  float* HWY_RESTRICT c = tile.c + row * tile.c_stride + column;
  const std::int64_t b_stride = tile.b_stride;
  const std::int64_t c_stride = tile.c_stride;
  Float sum[kRows][kVectors];
  for (int r = 0; r < kRows; ++r) {
    for (int v = 0; v < kVectors; ++v) {
      if constexpr (kStart == Start::bias) {
        sum[r][v] = hn::LoadU(tag, tile.start + column + v * lanes);
      } else if constexpr (kStart == Start::accumulate) {
        sum[r][v] = hn::LoadU(tag, c + r * c_stride + v * lanes);
      } else {
        sum[r][v] = hn::Zero(tag);
      }
    }
  }
  if constexpr (kDepth == 0) {
    for (std::int64_t k = 0; k < depth; ++k)
      product_step<kRows, kVectors>(a + k * a_step, a_stride, b + k * b_stride, sum);
  } else {
    HWY_UNROLL(16)
    for (int k = 0; k < kDepth; ++k) product_step<kRows, kVectors>(a + k * a_step, a_stride, b + k * b_stride, sum);
  }
  for (int r = 0; r < kRows; ++r) {
    for (int v = 0; v < kVectors; ++v) {
      float* HWY_RESTRICT target = c + r * c_stride + v * lanes;
      if constexpr (kStart == Start::rescale) {
        sum[r][v] = hn::MulAdd(hn::Set(tag, tile.start[row + r]), hn::LoadU(tag, target), sum[r][v]);
      } else if constexpr (kStart == Start::add) {
        sum[r][v] = hn::Add(sum[r][v], hn::LoadU(tag, target));
      }
      hn::StoreU(sum[r][v], tag, target);
    }
  }
}

// AVX-512 and 64-bit Arm have 32 vector registers: 24 sums, a row of B and a factor. Elsewhere there are 16.
inline constexpr bool kManyRegisters = HWY_TARGET <= HWY_AVX3 || HWY_ARCH_ARM_A64;

template <int kVectors, Start kStart, int kDepth, Left kLeft>
HWY_INLINE void product_columns(std::int64_t rows, std::int64_t depth, const ProductTile& tile, std::int64_t column) {
  constexpr int kRows = kVectors == 1 ? (kManyRegisters ? 16 : 8) : (kManyRegisters ? 24 : 12) / kVectors;
  std::int64_t r = 0;
  for (; r + kRows <= rows; r += kRows) product_block<kRows, kVectors, kStart, kDepth, kLeft>(depth, tile, r, column);
  for (; r + 4 <= rows; r += 4) product_block<4, kVectors, kStart, kDepth, kLeft>(depth, tile, r, column);
  for (; r < rows; ++r) product_block<1, kVectors, kStart, kDepth, kLeft>(depth, tile, r, column);
}

template <Start kStart, int kDepth = 0, Left kLeft = Left::plain>
HWY_INLINE void product_tile(std::int64_t rows, std::int64_t columns, std::int64_t depth, const ProductTile& tile) {
  const FloatTag tag;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(tag));
  std::int64_t n = 0;
  if constexpr (kManyRegisters) {
    for (; n + 4 * lanes <= columns; n += 4 * lanes) product_columns<4, kStart, kDepth, kLeft>(rows, depth, tile, n);
    if (n + 3 * lanes <= columns) {
      product_columns<3, kStart, kDepth, kLeft>(rows, depth, tile, n);
      n += 3 * lanes;
    }
  }
  for (; n + 2 * lanes <= columns; n += 2 * lanes) product_columns<2, kStart, kDepth, kLeft>(rows, depth, tile, n);
  for (; n + lanes <= columns; n += lanes) product_columns<1, kStart, kDepth, kLeft>(rows, depth, tile, n);
}

/// C = start + A B with A [rows, depth] and B [depth, columns], row-major with strides in elements.
/// @param columns  a multiple of 16
/// @param bias     [columns], read for Start::bias only
template <Start kStart>
HWY_INLINE void tile_product(std::int64_t rows, std::int64_t columns, std::int64_t depth, const float* HWY_RESTRICT a,
                             std::int64_t a_stride, const float* HWY_RESTRICT b, std::int64_t b_stride,
                             const float* HWY_RESTRICT bias, float* HWY_RESTRICT c, std::int64_t c_stride) {
  static_assert(kStart != Start::rescale);
  product_tile<kStart>(rows, columns, depth, {a, a_stride, b, b_stride, bias, c, c_stride});
}

/// C = C + A^T B with A [depth, rows] and B [depth, columns], the sum over the depth taken on its own first; otherwise
/// as tile_product.
HWY_INLINE void tile_product_transposed(std::int64_t rows, std::int64_t columns, std::int64_t depth,
                                        const float* HWY_RESTRICT a, std::int64_t a_stride, const float* HWY_RESTRICT b,
                                        std::int64_t b_stride, float* HWY_RESTRICT c, std::int64_t c_stride) {
  product_tile<Start::add, 0, Left::transposed>(rows, columns, depth, {a, a_stride, b, b_stride, nullptr, c, c_stride});
}

/// C = A B, or C = C + A B with the sum over kDepth taken on its own first.
template <Start kStart, int kDepth>
HWY_INLINE void tile_product_of_depth(std::int64_t rows, std::int64_t columns, const float* HWY_RESTRICT a,
                                      std::int64_t a_stride, const float* HWY_RESTRICT b, std::int64_t b_stride,
                                      float* HWY_RESTRICT c, std::int64_t c_stride) {
  static_assert(kStart == Start::zero || kStart == Start::add);
  product_tile<kStart, kDepth>(rows, columns, kDepth, {a, a_stride, b, b_stride, nullptr, c, c_stride});
}

/// C = diag(factor) C + A B with factor [rows]; otherwise as tile_product.
HWY_INLINE void tile_product_rescaled(std::int64_t rows, std::int64_t columns, std::int64_t depth,
                                      const float* HWY_RESTRICT a, std::int64_t a_stride, const float* HWY_RESTRICT b,
                                      std::int64_t b_stride, const float* HWY_RESTRICT factor, float* HWY_RESTRICT c,
                                      std::int64_t c_stride) {
  product_tile<Start::rescale>(rows, columns, depth, {a, a_stride, b, b_stride, factor, c, c_stride});
}

/// panel[k, c] = weight[c, k] of four columns and four k.
#if HWY_TARGET == HWY_SCALAR
HWY_INLINE void turn_block(const float* weight, std::int64_t depth, float* panel, std::int64_t width) {
  for (std::int64_t k = 0; k < 4; ++k) {
    for (std::int64_t c = 0; c < 4; ++c) panel[k * width + c] = weight[c * depth + k];
  }
}
#else
HWY_INLINE void turn_block(const float* HWY_RESTRICT weight, std::int64_t depth, float* HWY_RESTRICT panel,
                           std::int64_t width) {
  const hn::FixedTag<float, 4> tag;
  const hn::FixedTag<double, 2> pairs;
  const auto a = hn::LoadU(tag, weight);
  const auto b = hn::LoadU(tag, weight + depth);
  const auto c = hn::LoadU(tag, weight + 2 * depth);
  const auto d = hn::LoadU(tag, weight + 3 * depth);
  const auto ab_low = hn::BitCast(pairs, hn::InterleaveLower(tag, a, b));
  const auto ab_high = hn::BitCast(pairs, hn::InterleaveUpper(tag, a, b));
  const auto cd_low = hn::BitCast(pairs, hn::InterleaveLower(tag, c, d));
  const auto cd_high = hn::BitCast(pairs, hn::InterleaveUpper(tag, c, d));
  hn::Store(hn::BitCast(tag, hn::InterleaveLower(pairs, ab_low, cd_low)), tag, panel);
  hn::Store(hn::BitCast(tag, hn::InterleaveUpper(pairs, ab_low, cd_low)), tag, panel + width);
  hn::Store(hn::BitCast(tag, hn::InterleaveLower(pairs, ab_high, cd_high)), tag, panel + 2 * width);
  hn::Store(hn::BitCast(tag, hn::InterleaveUpper(pairs, ab_high, cd_high)), tag, panel + 3 * width);
}
#endif

/// panel[k, c] = weight[c, k], zero up to a panel's width: rows become columns, for the right side of a product.
/// @param weight  [columns, depth], rows `stride` apart
/// @param panel   [depth, width]
HWY_INLINE void fill_panel(const float* HWY_RESTRICT weight, std::int64_t stride, std::int64_t columns,
                           std::int64_t depth, float* HWY_RESTRICT panel, std::int64_t width) {
  const std::int64_t whole_columns = columns / 4 * 4;
  const std::int64_t whole_depth = depth / 4 * 4;
  for (std::int64_t c = 0; c < whole_columns; c += 4) {
    for (std::int64_t k = 0; k < whole_depth; k += 4) {
      turn_block(weight + c * stride + k, stride, panel + k * width + c, width);
    }
    for (std::int64_t k = whole_depth; k < depth; ++k) {
      for (std::int64_t n = c; n < c + 4; ++n) panel[k * width + n] = weight[n * stride + k];
    }
  }
  for (std::int64_t k = 0; k < depth && whole_columns < width; ++k) {
    float* const row = panel + k * width;
    for (std::int64_t c = whole_columns; c < columns; ++c) row[c] = weight[c * stride + k];
    std::fill(row + columns, row + width, 0.0F);
  }
}

/// sum_x a[x] b[x]
HWY_INLINE float dot(const float* HWY_RESTRICT a, const float* HWY_RESTRICT b, std::int64_t count) {
  const FloatTag tag;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(tag));
  Float sums = hn::Zero(tag);
  std::int64_t x = 0;
  for (; x + lanes <= count; x += lanes) sums = hn::MulAdd(hn::LoadU(tag, a + x), hn::LoadU(tag, b + x), sums);
  float sum = hn::GetLane(hn::SumOfLanes(tag, sums));
  for (; x < count; ++x) sum += a[x] * b[x];
  return sum;
}

/// 2^x with a relative error below 1.2e-7 (one unit in the last place). Exactly 0 below -126, so also for -infinity;
/// +infinity from 127.5 on; NaN stays NaN.
HWY_INLINE Float exp2_vector(Float x) {
  const FloatTag tag;
  const hn::RebindToUnsigned<FloatTag> bits_tag;
  // Adding 1.5 2^23 rounds x to a whole number, which then stands in the lowest bits; 127 is the exponent's offset.
  const Float shifter = hn::Set(tag, 12582912.0F + 127.0F);
  const Float shifted = hn::Add(x, shifter);
  const Float rest = hn::Sub(x, hn::Sub(shifted, shifter));  // in [-1/2, 1/2]
  // 2^rest = 1 + rest q(rest), q of degree 5 the minimax polynomial of the relative error on [-1/2, 1/2], computed for
  // this project. Its largest error is 1.9745e-9, and a linear program over 4001 Chebyshev points finds none below
  // that.
  Float p = hn::Set(tag, 1.5353362005571608e-4F);
  p = hn::MulAdd(p, rest, hn::Set(tag, 1.3398874452815483e-3F));
  p = hn::MulAdd(p, rest, hn::Set(tag, 9.6184373576154412e-3F));
  p = hn::MulAdd(p, rest, hn::Set(tag, 5.5503324710410341e-2F));
  p = hn::MulAdd(p, rest, hn::Set(tag, 2.4022647913626670e-1F));
  p = hn::MulAdd(p, rest, hn::Set(tag, 6.9314720285505950e-1F));
  p = hn::MulAdd(p, rest, hn::Set(tag, 1.0F));
  const Float power = hn::BitCast(tag, hn::ShiftLeft<23>(hn::BitCast(bits_tag, shifted)));
  // Both comparisons are false for NaN, which the product carries.
  const Float value = hn::IfThenZeroElse(hn::Lt(x, hn::Set(tag, -126.0F)), hn::Mul(p, power));
  return hn::IfThenElse(hn::Ge(x, hn::Set(tag, 127.5F)), hn::Set(tag, std::numeric_limits<float>::infinity()), value);
}

}  // namespace foxscope::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
