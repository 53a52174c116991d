#include "backend/eval/atlas/mixed_radix.h"

#include <algorithm>
#include <utility>

namespace foxscope {
namespace {

constexpr unsigned kWordBits = 32;
constexpr std::uint64_t kLeastRange = std::uint64_t{1} << kWordBits;
/// Larger numbers are put in two parts, so that rounding the range costs next to nothing.
constexpr unsigned kPartBits = 24;
constexpr std::uint64_t kMostBound = std::uint64_t{1} << kPartBits;

}  // namespace

void MixedRadixWriter::add(std::uint64_t to_low) {
  low_ += to_low;
  if (low_ >= to_low) return;
  // The sum left its 64 bits: one more in the word before, and in those before that where a word becomes 0.
  for (std::size_t n = words_.size(); n-- > 0;) {
    words_[n] = static_cast<std::int32_t>(static_cast<std::uint32_t>(words_[n]) + 1);
    if (words_[n] != 0) return;
  }
}

void MixedRadixWriter::put(std::uint64_t number, std::uint64_t bound) {
  if (bound > kMostBound) {
    put(number >> kPartBits, ((bound - 1) >> kPartBits) + 1);
    return put(number & (kMostBound - 1), kMostBound);
  }
  range_ /= bound;
  add(number * range_);
  for (; range_ < kLeastRange; range_ <<= kWordBits) {
    words_.push_back(static_cast<std::int32_t>(low_ >> kWordBits));
    low_ <<= kWordBits;
  }
}

std::vector<std::int32_t> MixedRadixWriter::finish() {
  // The next number of 32 bits is in the range.
  add(kLeastRange - 1);
  words_.push_back(static_cast<std::int32_t>(low_ >> kWordBits));
  while (!words_.empty() && words_.back() == 0) words_.pop_back();
  return std::move(words_);
}

MixedRadixReader::MixedRadixReader(std::span<const std::int32_t> words) : words_(words) {
  above_low_ = next() << kWordBits;
  above_low_ |= next();
}

std::uint64_t MixedRadixReader::take(std::uint64_t bound) {
  if (bound > kMostBound) {
    const std::uint64_t upper = take(((bound - 1) >> kPartBits) + 1) << kPartBits;
    return std::min(bound - 1, upper | take(kMostBound));
  }
  range_ /= bound;
  const std::uint64_t number = std::min(above_low_ / range_, bound - 1);
  above_low_ -= number * range_;
  for (; range_ < kLeastRange; range_ <<= kWordBits) above_low_ = above_low_ << kWordBits | next();
  return number;
}

}  // namespace foxscope
