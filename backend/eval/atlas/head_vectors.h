#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "kernels/cpu/head_products.h"

namespace foxscope {

/// Numbers of heads at the same entries, such as log f at the positions of a window, in blocks of heads whose numbers
/// are side by side.
class HeadVectors {
 public:
  static constexpr std::size_t kBlock = kernels::cpu::kProductHeads;

  /// Makes room for other heads and entries; what was there before may still be there.
  void resize(std::size_t heads, std::size_t entries) {
    heads_ = heads;
    entries_ = entries;
    values_.resize(blocks() * kBlock * entries);
  }
  [[nodiscard]] std::size_t heads() const { return heads_; }
  [[nodiscard]] std::size_t entries() const { return entries_; }
  [[nodiscard]] std::size_t blocks() const { return (heads_ + kBlock - 1) / kBlock; }
  /// [entries, kBlock]
  [[nodiscard]] const double* block(std::size_t n) const { return values_.data() + n * entries_ * kBlock; }

  /// Takes the numbers of one block's heads.
  /// @param of  of(head) is a span of [entries], or an empty one for 0
  template <typename Of>
  void set_block(std::size_t n, const Of& of) {
    double* const to = values_.data() + n * entries_ * kBlock;
    for (std::size_t head = n * kBlock; head < (n + 1) * kBlock; ++head) {
      const std::span<const double> numbers = head < heads_ ? of(head) : std::span<const double>();
      for (std::size_t entry = 0; entry < entries_; ++entry) {
        to[entry * kBlock + head % kBlock] = numbers.empty() ? 0 : numbers[entry];
      }
    }
  }

 private:
  std::size_t heads_ = 0;
  std::size_t entries_ = 0;
  std::vector<double> values_;
};

/// Calls take(head, other, sum) with the sum over entries of a's times b's numbers, for the heads of one block of each:
/// entry by entry, so that the order of terms is always the same.
template <typename Take>
void each_product(const HeadVectors& a, std::size_t block_a, const HeadVectors& b, std::size_t block_b,
                  const Take& take) {
  constexpr std::size_t kBlock = HeadVectors::kBlock;
  double sum[kBlock][kBlock];
  kernels::cpu::head_products(static_cast<std::int64_t>(a.entries()), a.block(block_a), b.block(block_b), sum[0]);
  for (std::size_t n = 0; n < kBlock; ++n) {
    for (std::size_t m = 0; m < kBlock; ++m) {
      const std::size_t head = block_a * kBlock + n;
      const std::size_t other = block_b * kBlock + m;
      if (head < a.heads() && other < b.heads()) take(head, other, sum[n][m]);
    }
  }
}

}  // namespace foxscope
