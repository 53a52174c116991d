#include <algorithm>
#include <atomic>
#include <cmath>

#include "kernels/gate_sums_block.h"

namespace foxscope::kernels::cpu {
namespace {

/// A block of one thread; other blocks may add to the same sums.
class OneThread {
 public:
  [[nodiscard]] static int thread() { return 0; }
  [[nodiscard]] static int threads() { return 1; }
  static void sync() {}
  template <typename T>
  static void add(T* to, T value) {
    std::atomic_ref<T>(*to).fetch_add(value, std::memory_order_relaxed);
  }
  template <typename T>
  static void add_all(T* to, T value) {
    *to += value;
  }
  static void set(std::uint32_t* to, std::uint32_t bits) { *to |= bits; }
  static void least(std::uint64_t* to, std::uint64_t value) { *to = std::min(*to, value); }
};

}  // namespace

void gate_sums(const GateSums& sums, Executor& executor) {
  const std::int64_t rows = std::int64_t{sums.windows} * sums.heads;
  std::fill_n(sums.of_head, rows, GateOfHead());
  std::fill_n(sums.resets, rows * GateSums::reset_words(sums.length - 1), 0U);
  std::fill_n(sums.slot_sums, sums.slot_count * sums.heads, std::int64_t{0});
  executor.run(rows, [&](std::int64_t row, int /*thread*/) {
    OneThread block;
    gates::Shared shared;
    gates::sum_gates(block, sums, static_cast<int>(row / sums.heads), static_cast<int>(row % sums.heads), shared);
  });
}

void gate_products(const GateProducts& products, Executor& executor) {
  const auto gates_of = [&](const GateProducts::Heads& heads, int window, int head) {
    return heads.gated[head] == 0 ? nullptr
                                  : heads.cumulative + (std::int64_t{window} * heads.count + head) * products.length;
  };
  std::atomic_ref failed(*products.failed);
  executor.run(products.own.count, [&](std::int64_t task, int /*thread*/) {
    const auto n = static_cast<int>(task);
    const int count = products.pairs ? n + 1 : products.other.count;
    for (int m = 0; m < count; ++m) {
      std::int64_t* const to =
          products.sums + 3 * (products.pairs ? task * (task + 1) / 2 + m : task * products.other.count + m);
      for (int window = 0; window < products.windows; ++window) {
        const double* const a = gates_of(products.own, window, n);
        const double* const b = gates_of(products.other, window, m);
        if (a == nullptr || b == nullptr) continue;
        double sum = 0;
        for (int p = 1; p < products.length; ++p) sum = std::fma(a[p] - a[p - 1], b[p] - b[p - 1], sum);
        if (!gates::add_limbs(sum, to, [](std::int64_t* limb, std::int64_t value) { *limb += value; })) failed = 1;
      }
    }
  });
}

}  // namespace foxscope::kernels::cpu
