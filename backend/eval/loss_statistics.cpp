#include "backend/eval/loss_statistics.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <numeric>

#include <fmt/format.h>

#include "backend/base/error.h"

namespace foxscope {
namespace {

constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

/// Windows of each document.
/// @throws ShapeError if the documents are not those of so many windows
std::vector<std::vector<std::int64_t>> group_windows(std::span<const std::int32_t> documents, std::size_t windows) {
  if (documents.size() != windows) {
    throw ShapeError(
        fmt::format("[clustered errors] documents: expected those of {} windows, got {}", windows, documents.size()));
  }
  std::map<std::int32_t, std::vector<std::int64_t>> groups;
  for (std::size_t n = 0; n < documents.size(); ++n) groups[documents[n]].push_back(static_cast<std::int64_t>(n));
  std::vector<std::vector<std::int64_t>> result;
  result.reserve(groups.size());
  for (auto& [document, members] : groups) result.push_back(std::move(members));
  return result;
}

/// Standard error of a mean over windows from the sum over documents of squared sums of residuals.
double sandwich(double sum_of_squares, std::size_t groups, std::size_t windows) {
  if (groups < 2) return kUnknown;
  const auto g = static_cast<double>(groups);
  return std::sqrt(g / (g - 1) * sum_of_squares) / static_cast<double>(windows);
}

double error_of_residuals(std::span<const double> residuals, std::span<const std::int32_t> documents) {
  const auto groups = group_windows(documents, residuals.size());
  double squares = 0;
  for (const auto& group : groups) {
    double sum = 0;
    for (const std::int64_t window : group) sum += residuals[static_cast<std::size_t>(window)];
    squares += sum * sum;
  }
  return sandwich(squares, groups.size(), residuals.size());
}

double sum_of(std::span<const double> values) { return std::accumulate(values.begin(), values.end(), 0.0); }

/// How each window's mean would change the ratio, to first order: (a_i - ratio b_i) M / sum b.
std::vector<double> ratio_residuals(const RatioOfSums& ratio, double value) {
  const double scale = static_cast<double>(ratio.numerator.size()) / sum_of(ratio.denominator);
  std::vector<double> residuals(ratio.numerator.size());
  for (std::size_t n = 0; n < residuals.size(); ++n) {
    residuals[n] = (ratio.numerator[n] - value * ratio.denominator[n]) * scale;
  }
  return residuals;
}

double value_of(const RatioOfSums& ratio) { return sum_of(ratio.numerator) / sum_of(ratio.denominator); }

/// Fills a row of as many numbers as windows have in common from one window.
using RowMaker = std::function<void(std::int64_t window, std::span<double> row)>;

/// Mean over windows of rows, with its error. Every row is made twice; nothing of size M L is held.
Curve mean_curve(const LossTable& losses, std::span<const std::int32_t> documents, const RowMaker& make_row) {
  const auto common = static_cast<std::size_t>(losses.common_length());
  const auto length = static_cast<std::size_t>(losses.length);
  const auto groups = group_windows(documents, static_cast<std::size_t>(losses.windows));
  std::vector<double> row(common);
  std::vector<double> mean(common, 0.0);
  for (std::int64_t window = 0; window < losses.windows; ++window) {
    make_row(window, row);
    for (std::size_t p = 0; p < common; ++p) mean[p] += row[p];
  }
  for (double& value : mean) value /= static_cast<double>(losses.windows);
  std::vector<double> squares(common, 0.0);
  std::vector<double> sum(common);
  for (const auto& group : groups) {
    std::fill(sum.begin(), sum.end(), 0.0);
    for (const std::int64_t window : group) {
      make_row(window, row);
      for (std::size_t p = 0; p < common; ++p) sum[p] += row[p] - mean[p];
    }
    for (std::size_t p = 0; p < common; ++p) squares[p] += sum[p] * sum[p];
  }
  Curve curve{std::vector<double>(length, kUnknown), std::vector<double>(length, kUnknown)};
  for (std::size_t p = 0; p < common; ++p) {
    curve.value[p] = mean[p];
    curve.error[p] = sandwich(squares[p], groups.size(), documents.size());
  }
  return curve;
}

void check_width(std::int64_t width) {
  if (width < 1 || width % 2 == 0) {
    throw UsageError(fmt::format("smoothing over {} positions: use an odd number from 1", width));
  }
}

/// Centred moving average; it shrinks at the ends.
void smooth(std::span<double> row, std::int64_t width, std::vector<double>& sums) {
  if (width == 1) return;
  const auto length = static_cast<std::int64_t>(row.size());
  sums.assign(row.size() + 1, 0.0);
  std::partial_sum(row.begin(), row.end(), sums.begin() + 1);
  for (std::int64_t p = 0; p < length; ++p) {
    const std::int64_t begin = std::max<std::int64_t>(0, p - width / 2);
    const std::int64_t end = std::min(length, p + width / 2 + 1);
    row[static_cast<std::size_t>(p)] = (sums[static_cast<std::size_t>(end)] - sums[static_cast<std::size_t>(begin)]) /
                                       static_cast<double>(end - begin);
  }
}

}  // namespace

std::int64_t LossTable::common_length() const {
  return tokens.empty() ? 0 : *std::min_element(tokens.begin(), tokens.end());
}

Estimate clustered_ratio(std::span<const double> numerator, std::span<const double> denominator,
                         std::span<const std::int32_t> documents) {
  const RatioOfSums ratio{numerator, denominator};
  const double value = value_of(ratio);
  return {value, error_of_residuals(ratio_residuals(ratio, value), documents)};
}

Estimate clustered_ratio_difference(const RatioOfSums& ratio, const RatioOfSums& minus,
                                    std::span<const std::int32_t> documents) {
  const double first = value_of(ratio);
  const double second = value_of(minus);
  std::vector<double> residuals = ratio_residuals(ratio, first);
  const std::vector<double> others = ratio_residuals(minus, second);
  for (std::size_t n = 0; n < residuals.size(); ++n) residuals[n] -= others[n];
  return {first - second, error_of_residuals(residuals, documents)};
}

Estimate clustered_mean(std::span<const double> values, std::span<const std::int32_t> documents) {
  const std::vector<double> ones(values.size(), 1.0);
  return clustered_ratio(values, ones, documents);
}

Curve loss_curve(const LossTable& losses, std::span<const std::int32_t> documents, std::int64_t width) {
  check_width(width);
  std::vector<double> sums;
  return mean_curve(losses, documents, [&](std::int64_t window, std::span<double> row) {
    const auto loss = losses.row(window);
    std::copy_n(loss.begin(), row.size(), row.begin());
    smooth(row, width, sums);
  });
}

Curve perplexity_curve(const LossTable& losses, std::span<const std::int32_t> documents) {
  Curve curve = mean_curve(losses, documents, [&](std::int64_t window, std::span<double> row) {
    const auto loss = losses.row(window);
    double sum = 0;
    for (std::size_t p = 0; p < row.size(); ++p) {
      sum += static_cast<double>(loss[p]);
      row[p] = sum / static_cast<double>(p + 1);
    }
  });
  for (std::size_t p = 0; p < curve.value.size(); ++p) {
    curve.value[p] = std::exp(curve.value[p]);
    curve.error[p] *= curve.value[p];
  }
  return curve;
}

Curve difference_curve(const LossTable& losses, const LossTable& minus, std::span<const std::int32_t> documents,
                       std::int64_t width) {
  check_width(width);
  if (losses.tokens != minus.tokens || losses.length != minus.length) {
    throw ShapeError(fmt::format("[difference_curve] minus: expected {} windows of the same tokens, got {} of others",
                                 losses.windows, minus.windows));
  }
  std::vector<double> sums;
  return mean_curve(losses, documents, [&](std::int64_t window, std::span<double> row) {
    const auto first = losses.row(window);
    const auto second = minus.row(window);
    for (std::size_t p = 0; p < row.size(); ++p) {
      row[p] = static_cast<double>(first[p]) - static_cast<double>(second[p]);
    }
    smooth(row, width, sums);
  });
}

std::vector<double> window_means(const LossTable& losses, std::int64_t begin, std::int64_t end) {
  if (begin < 0 || begin >= end || end > losses.common_length()) {
    throw UsageError(fmt::format("positions {} to {}: the windows have positions 0 to {}", begin, end - 1,
                                 losses.common_length() - 1));
  }
  std::vector<double> means;
  means.reserve(static_cast<std::size_t>(losses.windows));
  for (std::int64_t window = 0; window < losses.windows; ++window) {
    const auto loss =
        losses.row(window).subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(end - begin));
    means.push_back(std::accumulate(loss.begin(), loss.end(), 0.0) / static_cast<double>(end - begin));
  }
  return means;
}

}  // namespace foxscope
