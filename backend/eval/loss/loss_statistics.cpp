#include "backend/eval/loss/loss_statistics.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <numeric>

#include <fmt/format.h>

#include "backend/base/error.h"
#include "backend/base/index.h"

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

std::vector<double> windows_of_each(const std::vector<std::vector<std::int64_t>>& groups) {
  std::vector<double> sizes;
  for (const auto& group : groups) sizes.push_back(static_cast<double>(group.size()));
  return sizes;
}

/// The standard error from the sum over groups of the squared changes by leaving each out.
double jackknife(double sum_of_squares, const ErrorGroups& over) {
  if (!over.suffice()) return kUnknown;
  const auto g = static_cast<double>(over.count);
  return std::sqrt((g - 1) / g * sum_of_squares);
}

double sum_of(std::span<const double> values) { return std::accumulate(values.begin(), values.end(), 0.0); }

double value_of(const RatioOfSums& ratio) { return sum_of(ratio.numerator) / sum_of(ratio.denominator); }

double sum_of_squares(std::span<const double> values) {
  return std::inner_product(values.begin(), values.end(), values.begin(), 0.0);
}

std::vector<double> sums_over(const std::vector<std::vector<std::int64_t>>& groups, std::span<const double> values) {
  std::vector<double> sums;
  sums.reserve(groups.size());
  for (const auto& group : groups) {
    double sum = 0;
    for (const std::int64_t window : group) sum += values[index_of(window)];
    sums.push_back(sum);
  }
  return sums;
}

/// The amounts by which the ratio of sums falls where each group is left out: exactly (a_g - ratio b_g) / (sum b -
/// b_g).
std::vector<double> changes_without(std::span<const double> numerator, std::span<const double> denominator) {
  const double all = sum_of(denominator);
  const double value = sum_of(numerator) / all;
  std::vector<double> changes;
  changes.reserve(numerator.size());
  for (std::size_t g = 0; g < numerator.size(); ++g) {
    changes.push_back((numerator[g] - value * denominator[g]) / (all - denominator[g]));
  }
  return changes;
}

/// Fills a row of as many numbers as windows have in common from one window.
using RowMaker = std::function<void(std::int64_t window, std::span<double> row)>;

/// Mean over windows of rows, with its error. Every row is made twice; nothing of size M L is held.
PositionCurve mean_curve(const LossTable& losses, std::span<const std::int32_t> documents, const RowMaker& make_row) {
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
    const double left = static_cast<double>(documents.size()) - static_cast<double>(group.size());
    for (std::size_t p = 0; p < common; ++p) squares[p] += sum[p] * sum[p] / (left * left);
  }
  PositionCurve curve{std::vector<double>(length, kUnknown), std::vector<double>(length, kUnknown),
                      group_sizes(ErrorGroups::Kind::documents, windows_of_each(groups))};
  for (std::size_t p = 0; p < common; ++p) {
    curve.value[p] = mean[p];
    curve.error[p] = jackknife(squares[p], curve.over);
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
    row[index_of(p)] = (sums[index_of(end)] - sums[index_of(begin)]) / static_cast<double>(end - begin);
  }
}

}  // namespace

std::int64_t LossTable::common_length() const {
  return tokens.empty() ? 0 : *std::min_element(tokens.begin(), tokens.end());
}

ErrorGroups document_groups(std::span<const std::int32_t> documents) {
  return group_sizes(ErrorGroups::Kind::documents, windows_of_each(group_windows(documents, documents.size())));
}

Estimate ratio_over_groups(std::span<const double> numerator, std::span<const double> denominator,
                           const ErrorGroups& over) {
  return {sum_of(numerator) / sum_of(denominator),
          jackknife(sum_of_squares(changes_without(numerator, denominator)), over), over};
}

Estimate clustered_ratio(std::span<const double> numerator, std::span<const double> denominator,
                         std::span<const std::int32_t> documents) {
  const auto groups = group_windows(documents, numerator.size());
  const std::vector<double> sizes = sums_over(groups, denominator);
  Estimate ratio =
      ratio_over_groups(sums_over(groups, numerator), sizes, group_sizes(ErrorGroups::Kind::documents, sizes));
  ratio.value = value_of({numerator, denominator});
  return ratio;
}

Estimate clustered_ratio_difference(const RatioOfSums& ratio, const RatioOfSums& minus,
                                    std::span<const std::int32_t> documents) {
  const auto groups = group_windows(documents, ratio.numerator.size());
  const std::vector<double> sizes = sums_over(groups, ratio.denominator);
  std::vector<double> changes = changes_without(sums_over(groups, ratio.numerator), sizes);
  const std::vector<double> others =
      changes_without(sums_over(groups, minus.numerator), sums_over(groups, minus.denominator));
  for (std::size_t g = 0; g < changes.size(); ++g) changes[g] -= others[g];
  const ErrorGroups over = group_sizes(ErrorGroups::Kind::documents, sizes);
  return {value_of(ratio) - value_of(minus), jackknife(sum_of_squares(changes), over), over};
}

Estimate clustered_mean(std::span<const double> values, std::span<const std::int32_t> documents) {
  const std::vector<double> ones(values.size(), 1.0);
  return clustered_ratio(values, ones, documents);
}

PositionCurve loss_curve(const LossTable& losses, std::span<const std::int32_t> documents, std::int64_t width) {
  check_width(width);
  std::vector<double> sums;
  return mean_curve(losses, documents, [&](std::int64_t window, std::span<double> row) {
    const auto loss = losses.row(window);
    std::copy_n(loss.begin(), row.size(), row.begin());
    smooth(row, width, sums);
  });
}

PositionCurve perplexity_curve(const LossTable& losses, std::span<const std::int32_t> documents) {
  PositionCurve curve = mean_curve(losses, documents, [&](std::int64_t window, std::span<double> row) {
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

PositionCurve difference_curve(const LossTable& losses, const LossTable& minus, std::span<const std::int32_t> documents,
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
