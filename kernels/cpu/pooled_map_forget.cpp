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
HWY_EXPORT(exp_differences);

namespace cpu {
void exp_differences(double row, const double* key, double factor, const double* key_factor, std::int64_t count,
                     double* out) {
  HWY_DYNAMIC_DISPATCH(exp_differences)(row, key, factor, key_factor, count, out);
}

}  // namespace cpu
}  // namespace foxscope::kernels
#endif
