#include "backend/eval/loss/text_curve.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include <fmt/format.h>

#include "backend/base/error.h"
#include "backend/base/index.h"
#include "backend/base/range.h"
#include "backend/eval/loss/loss_change.h"

namespace foxscope {
namespace {

/// Means of numbers over ranges, from their running sums.
class RangeMeans {
 public:
  explicit RangeMeans(std::span<const double> values) : sums_(values.size() + 1, 0.0) {
    std::partial_sum(values.begin(), values.end(), sums_.begin() + 1);
  }

  /// The mean over a range and its error.
  Estimate over(const Range& range) {
    const std::int64_t size = range.size();
    if (size != known_size_) {
      known_ = error_blocks(size);
      known_size_ = size;
    }
    std::vector<double> parts(static_cast<std::size_t>(known_.count));
    std::vector<double> sizes(parts.size());
    for (std::int64_t block = 0; block < known_.count; ++block) {
      const std::int64_t begin = block * size / known_.count;
      const std::int64_t end = (block + 1) * size / known_.count;
      parts[index_of(block)] = sum(range.begin + begin, range.begin + end);
      sizes[index_of(block)] = static_cast<double>(end - begin);
    }
    Estimate mean = ratio_over_groups(parts, sizes, known_);
    mean.value = sum(range.begin, range.end) / static_cast<double>(size);
    return mean;
  }

 private:
  [[nodiscard]] double sum(std::int64_t begin, std::int64_t end) const {
    return sums_[index_of(end)] - sums_[index_of(begin)];
  }

  std::vector<double> sums_;
  ErrorGroups known_;
  std::int64_t known_size_ = 0;
};

}  // namespace

PositionCurve text_curve(std::span<const double> values, std::int64_t width) {
  if (width < 1 || width % 2 == 0) {
    throw UsageError(fmt::format("smoothing over {} positions: use an odd number from 1", width));
  }
  RangeMeans means(values);
  const auto length = std::ssize(values);
  PositionCurve curve;
  for (std::int64_t p = 0; p < length; ++p) {
    const Estimate mean =
        means.over({std::max<std::int64_t>(0, p - width / 2), std::min<std::int64_t>(length, p + width / 2 + 1)});
    curve.value.push_back(mean.value);
    curve.error.push_back(mean.error);
  }
  curve.over = error_blocks(std::min<std::int64_t>(width, length));
  return curve;
}

PositionCurve text_perplexity_curve(std::span<const double> losses) {
  RangeMeans means(losses);
  PositionCurve curve;
  for (std::int64_t end = 1; end <= std::ssize(losses); ++end) {
    const Estimate mean = means.over({0, end});
    curve.value.push_back(std::exp(mean.value));
    curve.error.push_back(mean.error * curve.value.back());
  }
  curve.over = error_blocks(std::ssize(losses));
  return curve;
}

}  // namespace foxscope
