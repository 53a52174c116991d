#include "kernels/cpu/head_products.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/head_products.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace foxscope::kernels::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

using DoubleTag = hn::CappedTag<double, cpu::kProductHeads>;
using Double = hn::Vec<DoubleTag>;

/// Heads of `a` whose sums are in registers at once: as many as keep the adders busy and do not leave them.
constexpr std::int64_t kLanes = hn::MaxLanes(DoubleTag());
constexpr std::int64_t kVectors = cpu::kProductHeads / kLanes;
constexpr std::int64_t kHeads = kLanes == 8 ? 8 : (kLanes == 4 ? 4 : 2);

void head_products(std::int64_t entries, const double* HWY_RESTRICT a, const double* HWY_RESTRICT b,
                   double* HWY_RESTRICT sum) {
  const DoubleTag tag;
  for (std::int64_t first = 0; first < cpu::kProductHeads; first += kHeads) {
    Double sums[kHeads][kVectors];
    for (auto& of_head : sums) {
      for (Double& one : of_head) one = hn::Zero(tag);
    }
    for (std::int64_t at = 0; at < entries * cpu::kProductHeads; at += cpu::kProductHeads) {
      Double others[kVectors];
      for (std::int64_t v = 0; v < kVectors; ++v) others[v] = hn::LoadU(tag, b + at + v * kLanes);
      for (std::int64_t n = 0; n < kHeads; ++n) {
        const Double own = hn::Set(tag, a[at + first + n]);
        for (std::int64_t v = 0; v < kVectors; ++v) sums[n][v] = hn::MulAdd(own, others[v], sums[n][v]);
      }
    }
    for (std::int64_t n = 0; n < kHeads; ++n) {
      for (std::int64_t v = 0; v < kVectors; ++v) {
        hn::StoreU(sums[n][v], tag, sum + (first + n) * cpu::kProductHeads + v * kLanes);
      }
    }
  }
}

}  // namespace
}  // namespace foxscope::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace foxscope::kernels {
HWY_EXPORT(head_products);

namespace cpu {

void head_products(std::int64_t entries, const double* a, const double* b, double* sum) {
  HWY_DYNAMIC_DISPATCH(head_products)(entries, a, b, sum);
}

}  // namespace cpu
}  // namespace foxscope::kernels
#endif
