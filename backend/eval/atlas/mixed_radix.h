#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace foxscope {

/// Whole numbers that are each below a bound of its own, one behind the other in as many bits as the bounds' logarithms
/// come to: digits of one number between 0 and 1, of which the n-th has its bound as base (a range coder with even
/// odds; Martin, Range encoding, 1979). Whoever reads them must know the bounds.
class MixedRadixWriter {
 public:
  /// @param number  below `bound`
  void put(std::uint64_t number, std::uint64_t bound);
  /// The words, of which the last is not 0: readers take what is missing as 0. Nothing can be put any more.
  std::vector<std::int32_t> finish();

 private:
  void add(std::uint64_t to_low);

  std::uint64_t low_ = 0;                    ///< where the rest of the number lies, behind the words: from here on...
  std::uint64_t range_ = ~std::uint64_t{0};  ///< ...and below so much more; at least 2^32
  std::vector<std::int32_t> words_;
};

/// Reads what MixedRadixWriter wrote.
class MixedRadixReader {
 public:
  explicit MixedRadixReader(std::span<const std::int32_t> words);
  /// @param bound  that the number was put with
  /// @returns a number below it; of words that are damaged, any
  std::uint64_t take(std::uint64_t bound);

 private:
  std::uint64_t next() { return at_ < words_.size() ? static_cast<std::uint32_t>(words_[at_++]) : 0; }

  std::span<const std::int32_t> words_;
  std::size_t at_ = 0;
  std::uint64_t above_low_ = 0;  ///< the number less MixedRadixWriter::low_
  std::uint64_t range_ = ~std::uint64_t{0};
};

}  // namespace foxscope
