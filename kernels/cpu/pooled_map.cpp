#include "kernels/cpu/pooled_map.h"

#include <algorithm>
#include <cmath>
#include <limits>

// foreach_target.h compiles what follows once per instruction set, so it comes first.
// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/pooled_map.cpp"
#include <hwy/foreach_target.h>
#include <hwy/contrib/math/math-inl.h>
#include <hwy/highway.h>
// clang-format on

#include "kernels/cpu/tile_math-inl.h"
#include "kernels/log2e.h"

HWY_BEFORE_NAMESPACE();
namespace foxscope::kernels::HWY_NAMESPACE {
namespace {

using cpu::kMapTile;
using cpu::LogTerms;
using cpu::PixelReduction;
using cpu::TilePixels;
using DoubleTag = hn::ScalableTag<double>;
using HalfTag = hn::Rebind<float, DoubleTag>;

/// Nats of gate within a block up to which float32 holds them as well as it holds a logit.
constexpr double kSmallSpread = 2.0;

/// Vectors of both widths divide 64, so a line of a tile needs no remainder.
struct MaxOf {
  HWY_INLINE Float operator()(Float a, Float b) const { return hn::Max(a, b); }
};
struct MinOf {
  HWY_INLINE Float operator()(Float a, Float b) const { return hn::Min(a, b); }
};
struct SumOf {
  HWY_INLINE Float operator()(Float a, Float b) const { return hn::Add(a, b); }
};
struct AbsoluteOf {
  HWY_INLINE Float operator()(Float a, Float b) const {
    const Float high = hn::Max(a, b);
    const Float low = hn::Min(a, b);
    return hn::IfThenElse(hn::Ge(high, hn::Neg(low)), high, low);
  }
};

/// Calls body(Op) with the reduction's operation.
template <typename Body>
HWY_INLINE void with_operation(PixelReduction reduction, const Body& body) {
  switch (reduction) {
    case PixelReduction::max:
      return body(MaxOf{});
    case PixelReduction::min:
      return body(MinOf{});
    case PixelReduction::sum:
      return body(SumOf{});
    case PixelReduction::absolute:
      return body(AbsoluteOf{});
  }
}

/// Entries that meet one after the other. The instructions for maximum and minimum may drop a NaN: it is remembered
/// beside them, where it does not wait for their result.
template <typename Op>
class Rendezvous {
 public:
  HWY_INLINE Rendezvous(const Op& op, Float first) : op_(op), value_(first), none_(hn::IsNaN(first)) {}
  HWY_INLINE void add(Float next) {
    value_ = op_(value_, next);
    none_ = hn::Or(none_, hn::IsNaN(next));
  }
  [[nodiscard]] HWY_INLINE Float value() const {
    return hn::IfThenElse(none_, hn::Set(FloatTag(), std::numeric_limits<float>::quiet_NaN()), value_);
  }

 private:
  const Op& op_;
  Float value_;
  hn::Mask<FloatTag> none_;
};

/// The sum over the head's dimensions is taken in parts of this many: each is rounded at its own, smaller size, which
/// makes a logit about three times as precise as one running sum.
constexpr int kDepthPart = 16;

void logit_tile(const float* packed, const float* keys, std::int64_t key_count, std::int64_t head_dim, float* tile) {
  if (head_dim % kDepthPart == 0) {
    tile_product_of_depth<Start::zero, kDepthPart>(key_count, kMapTile, keys, head_dim, packed, kMapTile, tile,
                                                   kMapTile);
    for (std::int64_t k = kDepthPart; k < head_dim; k += kDepthPart) {
      tile_product_of_depth<Start::add, kDepthPart>(key_count, kMapTile, keys + k, head_dim, packed + k * kMapTile,
                                                    kMapTile, tile, kMapTile);
    }
    return;
  }
  HWY_ALIGN float ones[kMapTile];
  std::fill(ones, ones + kMapTile, 1.0F);
  tile_product<Start::zero>(key_count, kMapTile, std::min<std::int64_t>(kDepthPart, head_dim), keys, head_dim, packed,
                            kMapTile, packed, tile, kMapTile);
  for (std::int64_t k = kDepthPart; k < head_dim; k += kDepthPart) {
    tile_product_rescaled(key_count, kMapTile, std::min<std::int64_t>(kDepthPart, head_dim - k), keys + k, head_dim,
                          packed + k * kMapTile, kMapTile, ones, tile, kMapTile);
  }
}

double largest_norm(const float* rows, std::int64_t count, std::int64_t head_dim) {
  const FloatTag tag;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(tag));
  float largest = 0;
  for (std::int64_t row = 0; row < count; ++row) {
    const float* const values = rows + row * head_dim;
    Float sum = hn::Zero(tag);
    std::int64_t k = 0;
    for (; k + lanes <= head_dim; k += lanes) {
      const Float value = hn::LoadU(tag, values + k);
      sum = hn::MulAdd(value, value, sum);
    }
    float square = hn::GetLane(hn::SumOfLanes(tag, sum));
    for (; k < head_dim; ++k) square += values[k] * values[k];
    if (square > largest || std::isnan(square)) largest = square;
  }
  return std::sqrt(static_cast<double>(largest));
}

/// One float32 sum per term: the part of the row term that float32 cannot hold is added last, where the large parts of
/// logit and row term have cancelled.
void add_log_terms_near(const LogTerms& terms, std::int64_t key_count, float* tile) {
  const FloatTag tag;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(tag));
  HWY_ALIGN float high[kMapTile];
  HWY_ALIGN float low[kMapTile];
  for (std::int64_t lane = 0; lane < kMapTile; ++lane) {
    const double term = (terms.row[lane] - terms.reference) * kLog2E;
    high[lane] = static_cast<float>(term);
    low[lane] = static_cast<float>(term - static_cast<double>(high[lane]));
  }
  for (std::int64_t row = 0; row < key_count; ++row) {
    const double bias = terms.key == nullptr ? 0.0 : (terms.reference - terms.key[row]) * kLog2E;
    const Float key = hn::Set(tag, static_cast<float>(bias));
    float* const line = tile + row * kMapTile;
    for (std::int64_t lane = 0; lane < kMapTile; lane += lanes) {
      const Float x = hn::Add(hn::LoadU(tag, line + lane), key);
      hn::StoreU(hn::Add(hn::Add(x, hn::Load(tag, high + lane)), hn::Load(tag, low + lane)), tag, line + lane);
    }
  }
}

void add_log_terms_far(const LogTerms& terms, std::int64_t key_count, float* tile) {
  const DoubleTag tag;
  const HalfTag half;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(tag));
  const auto log2e = hn::Set(tag, kLog2E);
  for (std::int64_t row = 0; row < key_count; ++row) {
    const auto key = hn::Set(tag, terms.key[row]);
    float* const line = tile + row * kMapTile;
    for (std::int64_t lane = 0; lane < kMapTile; lane += lanes) {
      const auto gate = hn::Sub(hn::LoadU(tag, terms.row + lane), key);
      const auto logit = hn::PromoteTo(tag, hn::LoadU(half, line + lane));
      hn::StoreU(hn::DemoteTo(half, hn::MulAdd(gate, log2e, logit)), half, line + lane);
    }
  }
}

void add_log_terms(const LogTerms& terms, std::int64_t key_count, float* tile) {
  if (terms.key == nullptr || terms.spread <= kSmallSpread) {
    add_log_terms_near(terms, key_count, tile);
  } else {
    add_log_terms_far(terms, key_count, tile);
  }
}

/// tanh(y) = 1 - 2 / (1 + exp(2 y)).
void cap_logits(float cap, float unit, std::int64_t count, float* values) {
  const FloatTag tag;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(tag));
  const Float most = hn::Set(tag, cap * unit);
  const Float twice =
      hn::Set(tag, static_cast<float>(2 * kLog2E / (static_cast<double>(cap) * static_cast<double>(unit))));
  const Float one = hn::Set(tag, 1.0F);
  const auto capped = [&](Float logit) {
    return hn::Mul(most, hn::Sub(one, hn::Div(hn::Set(tag, 2.0F), hn::Add(one, exp2_vector(hn::Mul(logit, twice))))));
  };
  std::int64_t n = 0;
  for (; n + lanes <= count; n += lanes) hn::StoreU(capped(hn::LoadU(tag, values + n)), tag, values + n);
  if (n < count) {
    HWY_ALIGN float rest[HWY_MAX_BYTES / sizeof(float)] = {};
    std::copy(values + n, values + count, rest);
    hn::Store(capped(hn::Load(tag, rest)), tag, rest);
    std::copy(rest, rest + (count - n), values + n);
  }
}

void exponentiate(std::int64_t count, float* values) {
  const FloatTag tag;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(tag));
  std::int64_t n = 0;
  for (; n + lanes <= count; n += lanes) hn::StoreU(exp2_vector(hn::LoadU(tag, values + n)), tag, values + n);
  if (n < count) {
    HWY_ALIGN float rest[HWY_MAX_BYTES / sizeof(float)] = {};
    std::copy(values + n, values + count, rest);
    hn::Store(exp2_vector(hn::Load(tag, rest)), tag, rest);
    std::copy(rest, rest + (count - n), values + n);
  }
}

void subtract(std::int64_t count, float* a, const float* b) {
  for (std::int64_t n = 0; n < count; ++n) a[n] -= b[n];
}

/// line[lane] = exp(row - key) for one key; the difference in float64, its exponential in float32.
void forget_tile(const double* row, const double* key, std::int64_t key_count, float* tile) {
  const DoubleTag tag;
  const HalfTag half;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(tag));
  const auto log2e = hn::Set(tag, kLog2E);
  for (std::int64_t j = 0; j < key_count; ++j) {
    const auto c = hn::Set(tag, key[j]);
    for (std::int64_t lane = 0; lane < kMapTile; lane += lanes) {
      const auto difference = hn::Mul(hn::Sub(hn::LoadU(tag, row + lane), c), log2e);
      hn::StoreU(hn::DemoteTo(half, difference), half, tile + j * kMapTile + lane);
    }
  }
  exponentiate(key_count * kMapTile, tile);
}

void log_forget_tile(const double* row, const double* key, std::int64_t key_count, float* tile) {
  for (std::int64_t j = 0; j < key_count; ++j) {
    for (std::int64_t lane = 0; lane < kMapTile; ++lane) {
      tile[j * kMapTile + lane] = static_cast<float>(row[lane] - key[j]);
    }
  }
}

/// Keys of each piece meet: out[piece][64].
template <typename Op>
HWY_INLINE void reduce_keys(const Op& op, const float* tile, const TilePixels& pixels, float* out) {
  const FloatTag tag;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(tag));
  for (std::int64_t lane = 0; lane < kMapTile; lane += lanes) {
    int key = 0;
    for (int piece = 0; piece < pixels.pieces; ++piece) {
      Rendezvous<Op> entries(op, hn::LoadU(tag, tile + key * kMapTile + lane));
      for (++key; key < pixels.key_end[piece]; ++key) entries.add(hn::LoadU(tag, tile + key * kMapTile + lane));
      hn::StoreU(entries.value(), tag, out + piece * kMapTile + lane);
    }
  }
}

/// out[column][row] = in[row][column] for [64][64], the first `rows` of it (rounded up to 4).
HWY_INLINE void transpose(const float* in, std::int64_t rows, std::int64_t columns, float* out) {
#if HWY_TARGET == HWY_SCALAR
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t column = 0; column < columns; ++column)
      out[column * kMapTile + row] = in[row * kMapTile + column];
  }
#else
  const hn::FixedTag<float, 4> tag;
  for (std::int64_t row = 0; row < rows; row += 4) {
    for (std::int64_t column = 0; column < columns; column += 4) {
      const float* const block = in + row * kMapTile + column;
      const auto a = hn::LoadU(tag, block);
      const auto b = hn::LoadU(tag, block + kMapTile);
      const auto c = hn::LoadU(tag, block + 2 * kMapTile);
      const auto d = hn::LoadU(tag, block + 3 * kMapTile);
      const auto ac = hn::InterleaveLower(tag, a, c);
      const auto bd = hn::InterleaveLower(tag, b, d);
      const auto ac_upper = hn::InterleaveUpper(tag, a, c);
      const auto bd_upper = hn::InterleaveUpper(tag, b, d);
      float* const to = out + column * kMapTile + row;
      hn::StoreU(hn::InterleaveLower(tag, ac, bd), tag, to);
      hn::StoreU(hn::InterleaveUpper(tag, ac, bd), tag, to + kMapTile);
      hn::StoreU(hn::InterleaveLower(tag, ac_upper, bd_upper), tag, to + 2 * kMapTile);
      hn::StoreU(hn::InterleaveUpper(tag, ac_upper, bd_upper), tag, to + 3 * kMapTile);
    }
  }
#endif
}

/// Lanes of each segment meet: result[segment][piece].
template <typename Op>
HWY_INLINE void reduce_lanes(const Op& op, const float* by_lane, const TilePixels& pixels, float* result) {
  const FloatTag tag;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(tag));
  for (std::int64_t piece = 0; piece < pixels.pieces; piece += lanes) {
    int lane = 0;
    for (int segment = 0; segment < pixels.segments; ++segment) {
      Rendezvous<Op> entries(op, hn::LoadU(tag, by_lane + lane * kMapTile + piece));
      for (++lane; lane < pixels.lane_end[segment]; ++lane) {
        entries.add(hn::LoadU(tag, by_lane + lane * kMapTile + piece));
      }
      hn::StoreU(entries.value(), tag, result + segment * kMapTile + piece);
    }
  }
}

void reduce_tile(const float* tile, std::int64_t key_count, const TilePixels& pixels, PixelReduction reduction,
                 float* result) {
  HWY_ALIGN float by_piece[kMapTile * kMapTile];
  HWY_ALIGN float by_lane[kMapTile * kMapTile];
  const std::int64_t lane_count = pixels.lane_end[pixels.segments - 1];
  const bool single_keys = pixels.pieces == key_count;
  const bool single_lanes = pixels.segments == lane_count;
  with_operation(reduction, [&](auto op) {
    if (!single_keys) reduce_keys(op, tile, pixels, by_piece);
    transpose(single_keys ? tile : by_piece, pixels.pieces, lane_count, single_lanes ? result : by_lane);
    if (!single_lanes) reduce_lanes(op, by_lane, pixels, result);
  });
}

/// Entries of each diagonal piece meet: out[piece][64]. Keys that not all lanes of a vector have in the piece are few:
/// those at its two edges.
template <typename Op>
HWY_INLINE void reduce_diagonal_keys(const Op& op, const float* tile, int key_count, const TilePixels& pixels,
                                     const std::int8_t* edge, PixelReduction reduction, float* out) {
  const FloatTag tag;
  const auto lanes = static_cast<int>(hn::Lanes(tag));
  const Float none = hn::Set(tag, cpu::identity_of(reduction));
  for (int lane = 0; lane < kMapTile; lane += lanes) {
    const Float lane_of = hn::Iota(tag, static_cast<float>(lane));
    for (int piece = 0; piece < pixels.pieces; ++piece) {
      const int from = edge[piece];
      const int to = edge[piece + 1];
      // Of lane l the keys in (l - to, l - from].
      const int first = std::max(0, lane - to + 1);
      const int last = std::min(key_count, lane + lanes - from);
      const int full_first = lane + lanes - to;
      const int full_last = lane - from + 1;
      Rendezvous<Op> entries(op, none);
      for (int key = first; key < last; ++key) {
        const Float value = hn::LoadU(tag, tile + key * kMapTile + lane);
        if (key >= full_first && key < full_last) {
          entries.add(value);
          continue;
        }
        const auto inside = hn::And(hn::Ge(lane_of, hn::Set(tag, static_cast<float>(key + from))),
                                    hn::Lt(lane_of, hn::Set(tag, static_cast<float>(key + to))));
        entries.add(hn::IfThenElse(inside, value, none));
      }
      hn::StoreU(entries.value(), tag, out + piece * kMapTile + lane);
    }
  }
}

void reduce_diagonals(const float* tile, std::int64_t key_count, const TilePixels& pixels, const std::int8_t* edge,
                      PixelReduction reduction, float* result) {
  HWY_ALIGN float by_piece[kMapTile * kMapTile];
  HWY_ALIGN float by_lane[kMapTile * kMapTile];
  const std::int64_t lane_count = pixels.lane_end[pixels.segments - 1];
  const bool single_lanes = pixels.segments == lane_count;
  with_operation(reduction, [&](auto op) {
    reduce_diagonal_keys(op, tile, static_cast<int>(key_count), pixels, edge, reduction, by_piece);
    transpose(by_piece, pixels.pieces, lane_count, single_lanes ? result : by_lane);
    if (!single_lanes) reduce_lanes(op, by_lane, pixels, result);
  });
}

void combine(PixelReduction reduction, std::int64_t count, const float* values, float* pixels) {
  const FloatTag tag;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(tag));
  with_operation(reduction, [&](auto op) {
    std::int64_t n = 0;
    const auto meet = [&](Float a, Float b) {
      Rendezvous<decltype(op)> entries(op, a);
      entries.add(b);
      return entries.value();
    };
    for (; n + lanes <= count; n += lanes) {
      hn::StoreU(meet(hn::LoadU(tag, pixels + n), hn::LoadU(tag, values + n)), tag, pixels + n);
    }
    for (; n < count; ++n) {
      pixels[n] = hn::GetLane(meet(hn::Set(tag, pixels[n]), hn::Set(tag, values[n])));
    }
  });
}

void log_sum_exp_tile(const float* tile, std::int64_t key_count, float* maximum, double* sum) {
  const FloatTag tag;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(tag));
  const Float none = hn::Set(tag, -std::numeric_limits<float>::infinity());
  HWY_ALIGN float scale[kMapTile];
  HWY_ALIGN float part[kMapTile];
  for (std::int64_t lane = 0; lane < kMapTile; lane += lanes) {
    const Float before = hn::LoadU(tag, maximum + lane);
    Float largest = before;
    for (std::int64_t key = 0; key < key_count; ++key) {
      largest = hn::Max(largest, hn::LoadU(tag, tile + key * kMapTile + lane));
    }
    hn::StoreU(largest, tag, maximum + lane);
    // A lane that has seen no key yet keeps a sum of 0; -infinity minus itself would make it NaN.
    const Float reference = hn::IfThenElse(hn::Eq(largest, none), hn::Zero(tag), largest);
    hn::Store(exp2_vector(hn::Sub(before, reference)), tag, scale + lane);
    Float total = hn::Zero(tag);
    for (std::int64_t key = 0; key < key_count; ++key) {
      total = hn::Add(total, exp2_vector(hn::Sub(hn::LoadU(tag, tile + key * kMapTile + lane), reference)));
    }
    hn::Store(total, tag, part + lane);
  }
  for (std::int64_t lane = 0; lane < kMapTile; ++lane) {
    sum[lane] = sum[lane] * static_cast<double>(scale[lane]) + static_cast<double>(part[lane]);
  }
}

void exp_differences(double row, const double* key, double factor, const double* key_factor, std::int64_t count,
                     double* out) {
  const DoubleTag tag;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(tag));
  const auto c = hn::Set(tag, row);
  const auto both = hn::Set(tag, factor);
  std::int64_t n = 0;
  for (; n + lanes <= count; n += lanes) {
    auto value = hn::Mul(both, hn::Exp(tag, hn::Sub(c, hn::LoadU(tag, key + n))));
    if (key_factor != nullptr) value = hn::Mul(value, hn::LoadU(tag, key_factor + n));
    hn::StoreU(value, tag, out + n);
  }
  if (n < count) {
    HWY_ALIGN double rest[HWY_MAX_BYTES / sizeof(double)] = {};
    std::copy(key + n, key + count, rest);
    hn::Store(hn::Mul(both, hn::Exp(tag, hn::Sub(c, hn::Load(tag, rest)))), tag, rest);
    for (std::int64_t lane = 0; n + lane < count; ++lane) {
      out[n + lane] = rest[lane] * (key_factor != nullptr ? key_factor[n + lane] : 1.0);
    }
  }
}

}  // namespace
}  // namespace foxscope::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace foxscope::kernels {
HWY_EXPORT(logit_tile);
HWY_EXPORT(largest_norm);
HWY_EXPORT(add_log_terms);
HWY_EXPORT(exp_differences);
HWY_EXPORT(cap_logits);
HWY_EXPORT(exponentiate);
HWY_EXPORT(subtract);
HWY_EXPORT(forget_tile);
HWY_EXPORT(log_forget_tile);
HWY_EXPORT(reduce_tile);
HWY_EXPORT(reduce_diagonals);
HWY_EXPORT(combine);
HWY_EXPORT(log_sum_exp_tile);

namespace cpu {

float identity_of(PixelReduction reduction) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  if (reduction == PixelReduction::max) return -kInfinity;
  return reduction == PixelReduction::min ? kInfinity : 0.0F;
}

void pack_queries(const float* query, std::int64_t queries, std::int64_t head_dim, double factor, float* packed) {
  for (std::int64_t k = 0; k < head_dim; ++k) {
    float* const line = packed + k * kMapTile;
    for (std::int64_t lane = 0; lane < queries; ++lane) {
      line[lane] = static_cast<float>(static_cast<double>(query[lane * head_dim + k]) * factor);
    }
    std::fill(line + queries, line + kMapTile, 0.0F);
  }
}

double largest_norm(const float* rows, std::int64_t count, std::int64_t head_dim) {
  return HWY_DYNAMIC_DISPATCH(largest_norm)(rows, count, head_dim);
}

void logit_tile(const float* packed, const float* keys, std::int64_t key_count, std::int64_t head_dim, float* tile) {
  HWY_DYNAMIC_DISPATCH(logit_tile)(packed, keys, key_count, head_dim, tile);
}

void add_log_terms(const LogTerms& terms, std::int64_t key_count, float* tile) {
  HWY_DYNAMIC_DISPATCH(add_log_terms)(terms, key_count, tile);
}

void cap_logits(float cap, float unit, std::int64_t count, float* tile) {
  HWY_DYNAMIC_DISPATCH(cap_logits)(cap, unit, count, tile);
}

void exponentiate(std::int64_t count, float* values) { HWY_DYNAMIC_DISPATCH(exponentiate)(count, values); }

void exp_differences(double row, const double* key, double factor, const double* key_factor, std::int64_t count,
                     double* out) {
  HWY_DYNAMIC_DISPATCH(exp_differences)(row, key, factor, key_factor, count, out);
}

void subtract(std::int64_t count, float* a, const float* b) { HWY_DYNAMIC_DISPATCH(subtract)(count, a, b); }

void forget_tile(const double* row, const double* key, std::int64_t key_count, float* tile) {
  HWY_DYNAMIC_DISPATCH(forget_tile)(row, key, key_count, tile);
}

void log_forget_tile(const double* row, const double* key, std::int64_t key_count, float* tile) {
  HWY_DYNAMIC_DISPATCH(log_forget_tile)(row, key, key_count, tile);
}

void mask_tile(std::int64_t offset, std::int64_t window, std::int64_t key_count, float value, float* tile) {
  for (std::int64_t key = 0; key < key_count; ++key) {
    float* const line = tile + key * kMapTile;
    const std::int64_t first = std::clamp<std::int64_t>(key - offset, 0, kMapTile);
    const std::int64_t last = window == 0 ? kMapTile : std::clamp<std::int64_t>(key + window - offset, 0, kMapTile);
    std::fill(line, line + first, value);
    std::fill(line + std::max(first, last), line + kMapTile, value);
  }
}

void reduce_tile(const float* tile, std::int64_t key_count, const TilePixels& pixels, PixelReduction reduction,
                 float* result) {
  HWY_DYNAMIC_DISPATCH(reduce_tile)(tile, key_count, pixels, reduction, result);
}

void reduce_diagonals(const float* tile, std::int64_t key_count, const TilePixels& pixels, const std::int8_t* edge,
                      PixelReduction reduction, float* result) {
  HWY_DYNAMIC_DISPATCH(reduce_diagonals)(tile, key_count, pixels, edge, reduction, result);
}

void combine(PixelReduction reduction, std::int64_t count, const float* values, float* pixels) {
  HWY_DYNAMIC_DISPATCH(combine)(reduction, count, values, pixels);
}

void log_sum_exp_tile(const float* tile, std::int64_t key_count, float* maximum, double* sum) {
  HWY_DYNAMIC_DISPATCH(log_sum_exp_tile)(tile, key_count, maximum, sum);
}

}  // namespace cpu
}  // namespace foxscope::kernels
#endif
