#pragma once

#include <cstddef>
#include <vector>

namespace foxscope {

/// Numbers of heads at the same entries, such as log f at the positions of a window: blocks of four heads, whose
/// products are in registers.
class HeadVectors {
 public:
  static constexpr std::size_t kBlock = 4;

  HeadVectors() = default;
  HeadVectors(std::size_t heads, std::size_t entries)
      : heads_(heads), entries_(entries), values_(blocks() * kBlock * entries) {}

  [[nodiscard]] std::size_t heads() const { return heads_; }
  [[nodiscard]] std::size_t entries() const { return entries_; }
  [[nodiscard]] std::size_t blocks() const { return (heads_ + kBlock - 1) / kBlock; }
  [[nodiscard]] double& at(std::size_t entry, std::size_t head) {
    return values_[(head / kBlock * entries_ + entry) * kBlock + head % kBlock];
  }
  /// [entries, kBlock]
  [[nodiscard]] const double* block(std::size_t n) const { return values_.data() + n * entries_ * kBlock; }

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
  const double* const x = a.block(block_a);
  const double* const y = b.block(block_b);
  double sum[kBlock][kBlock] = {};
  for (std::size_t p = 0; p < a.entries() * kBlock; p += kBlock) {
    for (std::size_t n = 0; n < kBlock; ++n) {
      for (std::size_t m = 0; m < kBlock; ++m) sum[n][m] += x[p + n] * y[p + m];
    }
  }
  for (std::size_t n = 0; n < kBlock; ++n) {
    for (std::size_t m = 0; m < kBlock; ++m) {
      const std::size_t head = block_a * kBlock + n;
      const std::size_t other = block_b * kBlock + m;
      if (head < a.heads() && other < b.heads()) take(head, other, sum[n][m]);
    }
  }
}

}  // namespace foxscope
