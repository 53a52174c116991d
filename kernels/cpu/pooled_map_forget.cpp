#include <algorithm>

#include "kernels/cpu/pooled_map.h"

// foreach_target.h compiles what follows once per instruction set, so it comes first.
// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/pooled_map_forget.cpp"
#include <hwy/foreach_target.h>
#include <hwy/contrib/math/math-inl.h>
#include <hwy/highway.h>
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace foxscope::kernels::HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

using DoubleTag = hn::ScalableTag<double>;
using HalfTag = hn::Rebind<float, DoubleTag>;
constexpr std::int64_t kMostLanes = HWY_MAX_BYTES / sizeof(double);

double sum_exp(const double* c, std::int64_t count, double reference, double sign) {
  const DoubleTag tag;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(tag));
  const auto origin = hn::Set(tag, reference);
  const auto factor = hn::Set(tag, sign);
  auto sum = hn::Zero(tag);
  std::int64_t n = 0;
  for (; n + lanes <= count; n += lanes) {
    sum = hn::Add(sum, hn::Exp(tag, hn::Mul(factor, hn::Sub(hn::LoadU(tag, c + n), origin))));
  }
  double total = hn::GetLane(hn::SumOfLanes(tag, sum));
  if (n < count) {
    HWY_ALIGN double rest[kMostLanes] = {};
    std::copy(c + n, c + count, rest);
    hn::Store(hn::Exp(tag, hn::Mul(factor, hn::Sub(hn::Load(tag, rest), origin))), tag, rest);
    for (std::int64_t lane = 0; lane < count - n; ++lane) total += rest[lane];
  }
  return total;
}

void forget_pixels(double row, const double* key, double factor, const double* key_factor, std::int64_t count,
                   float* out) {
  const DoubleTag tag;
  const HalfTag half;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(tag));
  const auto c = hn::Set(tag, row);
  const auto both = hn::Set(tag, factor);
  std::int64_t n = 0;
  for (; n + lanes <= count; n += lanes) {
    auto value = hn::Mul(both, hn::Exp(tag, hn::Sub(c, hn::LoadU(tag, key + n))));
    if (key_factor != nullptr) value = hn::Mul(value, hn::LoadU(tag, key_factor + n));
    hn::StoreU(hn::DemoteTo(half, value), half, out + n);
  }
  if (n < count) {
    HWY_ALIGN double rest[kMostLanes] = {};
    HWY_ALIGN double scale[kMostLanes] = {};
    std::copy(key + n, key + count, rest);
    std::fill(scale, scale + kMostLanes, 1.0);
    if (key_factor != nullptr) std::copy(key_factor + n, key_factor + count, scale);
    const auto value = hn::Mul(both, hn::Exp(tag, hn::Sub(c, hn::Load(tag, rest))));
    hn::Store(hn::Mul(value, hn::Load(tag, scale)), tag, rest);
    for (std::int64_t lane = 0; lane < count - n; ++lane) out[n + lane] = static_cast<float>(rest[lane]);
  }
}

}  // namespace
}  // namespace foxscope::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace foxscope::kernels {
HWY_EXPORT(sum_exp);
HWY_EXPORT(forget_pixels);

namespace cpu {

double sum_exp(const double* c, std::int64_t count, double reference, double sign) {
  return HWY_DYNAMIC_DISPATCH(sum_exp)(c, count, reference, sign);
}

void forget_pixels(double row, const double* key, double factor, const double* key_factor, std::int64_t count,
                   float* out) {
  HWY_DYNAMIC_DISPATCH(forget_pixels)(row, key, factor, key_factor, count, out);
}

}  // namespace cpu
}  // namespace foxscope::kernels
#endif
