// Small dense products and exponentials on tiles, compiled once per instruction set by Highway (foreach_target.h).
#if defined(FOXSCOPE_KERNELS_CPU_TILE_MATH_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FOXSCOPE_KERNELS_CPU_TILE_MATH_INL_H_
#undef FOXSCOPE_KERNELS_CPU_TILE_MATH_INL_H_
#else
#define FOXSCOPE_KERNELS_CPU_TILE_MATH_INL_H_
#endif

#include <cstdint>

#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace foxscope::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using FloatTag = hn::ScalableTag<float>;
using Float = hn::Vec<FloatTag>;

/// What a tile product starts from.
enum class Start {
  zero,
  bias,        ///< bias[column], the same for every row: the gate as one more slice of the product
  accumulate,  ///< what is in C
};

/// C[r, n] = start + sum_k A[r, k] B[k, n] for kRows rows and kVectors vectors of columns.
template <int kRows, int kVectors, Start kStart>
HWY_INLINE void product_block(std::int64_t depth, const float* HWY_RESTRICT a, std::int64_t a_stride,
                              const float* HWY_RESTRICT b, std::int64_t b_stride, const float* HWY_RESTRICT bias,
                              float* HWY_RESTRICT c, std::int64_t c_stride) {
  const FloatTag tag;
  const std::int64_t lanes = hn::Lanes(tag);
  Float sum[kRows][kVectors];
  for (int r = 0; r < kRows; ++r) {
    for (int v = 0; v < kVectors; ++v) {
      if constexpr (kStart == Start::zero) sum[r][v] = hn::Zero(tag);
      if constexpr (kStart == Start::bias) sum[r][v] = hn::LoadU(tag, bias + v * lanes);
      if constexpr (kStart == Start::accumulate) sum[r][v] = hn::LoadU(tag, c + r * c_stride + v * lanes);
    }
  }
  for (std::int64_t k = 0; k < depth; ++k) {
    Float row[kVectors];
    for (int v = 0; v < kVectors; ++v) row[v] = hn::LoadU(tag, b + k * b_stride + v * lanes);
    for (int r = 0; r < kRows; ++r) {
      const Float factor = hn::Set(tag, a[r * a_stride + k]);
      for (int v = 0; v < kVectors; ++v) sum[r][v] = hn::MulAdd(factor, row[v], sum[r][v]);
    }
  }
  for (int r = 0; r < kRows; ++r) {
    for (int v = 0; v < kVectors; ++v) hn::StoreU(sum[r][v], tag, c + r * c_stride + v * lanes);
  }
}

template <int kVectors, Start kStart>
HWY_INLINE void product_columns(std::int64_t rows, std::int64_t depth, const float* HWY_RESTRICT a,
                                std::int64_t a_stride, const float* HWY_RESTRICT b, std::int64_t b_stride,
                                const float* HWY_RESTRICT bias, float* HWY_RESTRICT c, std::int64_t c_stride) {
  // 24 sums, 3 or 4 columns and a factor fill the 32 registers of AVX-512; elsewhere there are 16.
  constexpr int kRows = HWY_MAX_BYTES >= 64 && HWY_TARGET <= HWY_AVX3 ? (kVectors == 4 ? 6 : 8) : 12 / kVectors;
  std::int64_t r = 0;
  for (; r + kRows <= rows; r += kRows) {
    product_block<kRows, kVectors, kStart>(depth, a + r * a_stride, a_stride, b, b_stride, bias, c + r * c_stride,
                                           c_stride);
  }
  for (; r + 2 <= rows; r += 2) {
    product_block<2, kVectors, kStart>(depth, a + r * a_stride, a_stride, b, b_stride, bias, c + r * c_stride,
                                       c_stride);
  }
  for (; r < rows; ++r) {
    product_block<1, kVectors, kStart>(depth, a + r * a_stride, a_stride, b, b_stride, bias, c + r * c_stride,
                                       c_stride);
  }
}

/// C = start + A B with A [rows, depth] and B [depth, columns], row-major with strides in elements.
/// @param columns  a multiple of 16
/// @param bias     [columns], read for Start::bias only
template <Start kStart>
HWY_INLINE void tile_product(std::int64_t rows, std::int64_t columns, std::int64_t depth, const float* HWY_RESTRICT a,
                             std::int64_t a_stride, const float* HWY_RESTRICT b, std::int64_t b_stride,
                             const float* HWY_RESTRICT bias, float* HWY_RESTRICT c, std::int64_t c_stride) {
  const FloatTag tag;
  const std::int64_t lanes = hn::Lanes(tag);
  constexpr int kWide = HWY_TARGET <= HWY_AVX3 ? 4 : 2;
  std::int64_t n = 0;
  for (; n + kWide * lanes <= columns; n += kWide * lanes) {
    product_columns<kWide, kStart>(rows, depth, a, a_stride, b + n, b_stride, bias + n, c + n, c_stride);
  }
  for (; n < columns; n += lanes) {
    product_columns<1, kStart>(rows, depth, a, a_stride, b + n, b_stride, bias + n, c + n, c_stride);
  }
}

/// 2^x to about 1 unit in the last place; 0 below -126, so -infinity gives exactly 0. NaN stays NaN.
HWY_INLINE Float exp2_vector(Float x) {
  const FloatTag tag;
  const hn::RebindToSigned<FloatTag> int_tag;
  const Float lowest = hn::Set(tag, -126.0f);
  const auto representable = hn::Not(hn::Lt(x, lowest));
  const Float clamped = hn::Min(hn::Max(x, lowest), hn::Set(tag, 127.999f));
  const Float whole = hn::Round(clamped);
  const Float rest = hn::Sub(clamped, whole);  // in [-1/2, 1/2]
  // Taylor series of exp(rest ln 2) would need degree 7; these minimax coefficients reach 2e-9 at degree 6.
  Float p = hn::Set(tag, 1.5403530393381608e-4f);
  p = hn::MulAdd(p, rest, hn::Set(tag, 1.3333558146428441e-3f));
  p = hn::MulAdd(p, rest, hn::Set(tag, 9.6181291076284772e-3f));
  p = hn::MulAdd(p, rest, hn::Set(tag, 5.5504108664821580e-2f));
  p = hn::MulAdd(p, rest, hn::Set(tag, 2.4022650695910072e-1f));
  p = hn::MulAdd(p, rest, hn::Set(tag, 6.9314718055994531e-1f));
  p = hn::MulAdd(p, rest, hn::Set(tag, 1.0f));
  const auto exponent = hn::ShiftLeft<23>(hn::Add(hn::ConvertTo(int_tag, whole), hn::Set(int_tag, 127)));
  const Float value = hn::Mul(p, hn::BitCast(tag, exponent));
  return hn::IfThenElse(hn::IsNaN(x), x, hn::IfThenElseZero(representable, value));
}

}  // namespace foxscope::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
