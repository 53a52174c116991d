#include "backend/eval/atlas/exact_sum.h"

#include <cmath>
#include <cstddef>

#include "backend/base/error.h"

namespace foxscope {
namespace {

constexpr std::array<double, kExactLimbs> kUnits = {0x1p-2, 0x1p-42, 0x1p-82};

void add_one(std::int64_t more, std::int64_t& to) {
  if (__builtin_add_overflow(to, more, &to)) fail_range();
}

}  // namespace

void fail_range() {
  throw Error("a sum of the atlas leaves the range of 64 bits: use fewer windows, and several files");
}

void add_exactly(double value, std::span<std::int64_t, kExactLimbs> sum) {
  if (!(std::abs(value) < 0x1p60)) fail_range();
  for (std::size_t n = 0; n < kExactLimbs; ++n) {
    const double whole = std::nearbyint(value / kUnits[n]);
    value -= whole * kUnits[n];
    add_one(static_cast<std::int64_t>(whole), sum[n]);
  }
}

double exact_value(std::span<const std::int64_t, kExactLimbs> sum) {
  double value = 0;
  for (std::size_t n = kExactLimbs; n-- > 0;) value += static_cast<double>(sum[n]) * kUnits[n];
  return value;
}

LongNumber exact_long_value(std::span<const std::int64_t, kExactLimbs> sum) {
  LongNumber value = 0;
  for (std::size_t n = kExactLimbs; n-- > 0;) value += static_cast<LongNumber>(sum[n]) * kUnits[n];
  return value;
}

void carry(std::span<std::int64_t, kExactLimbs> sum) {
  constexpr int kBits = 40;
  for (std::size_t n = kExactLimbs - 1; n > 0; --n) {
    const std::int64_t whole = sum[n] >> kBits;
    sum[n] -= whole * (std::int64_t{1} << kBits);
    add_one(whole, sum[n - 1]);
  }
}

void add_whole(std::span<const std::int64_t> more, std::span<std::int64_t> to) {
  for (std::size_t n = 0; n < to.size(); ++n) add_one(more[n], to[n]);
}

}  // namespace foxscope
