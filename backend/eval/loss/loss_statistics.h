#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "backend/eval/estimate.h"

namespace foxscope {

/// Losses of one model over windows.
struct LossTable {
  std::int64_t windows = 0;          ///< M
  std::int64_t length = 0;           ///< L, of the longest window
  std::vector<float> loss;           ///< [M, L] nats; NaN behind the end of a shorter window
  std::vector<std::int64_t> tokens;  ///< [M] positions of each window

  [[nodiscard]] std::span<const float> row(std::int64_t window) const {
    return std::span(loss).subspan(static_cast<std::size_t>(window * length), static_cast<std::size_t>(length));
  }
  /// Positions that every window has: where curves are defined.
  [[nodiscard]] std::int64_t common_length() const;
};

/// Numbers at positions 0..L-1 with their standard errors; NaN where not every window has the position.
struct PositionCurve {
  std::vector<double> value;
  std::vector<double> error;
  ErrorGroups over = {};
};

/// Errors everywhere below come from the spread over documents, since windows of one document resemble each other:
/// each of the G documents is left out in turn (the jackknife; Efron and Stein, Ann. Statist. 9, 1981),
///   se^2 = (G - 1) / G * sum_g (estimate without g - estimate)^2.
/// For a mean over M windows with values y_i, m_g of them in document g, the change by leaving out g is
///   sum_{i in g} (y_i - mean) / (M - m_g), so that a document which holds most windows makes the
/// error large. With one window a document the error is s / sqrt(M). Where the documents do not
/// suffice for an error (ErrorGroups) it is NaN. `documents` holds the document of each window,
/// any numbers that tell them apart; ShapeError is thrown where they are not as many as the
/// windows.

/// The groups that errors of means over windows of these documents are over.
ErrorGroups document_groups(std::span<const std::int32_t> documents);

/// sum_g a_g / sum_g b_g, for instance nats and tokens of each group, with the jackknife's error over the groups.
/// @param over  what group_sizes makes of the denominators
Estimate ratio_over_groups(std::span<const double> numerator, std::span<const double> denominator,
                           const ErrorGroups& over);

/// Ratio of sums, sum_i a_i / sum_i b_i, for instance nats and tokens; documents are of the size sum b.
Estimate clustered_ratio(std::span<const double> numerator, std::span<const double> denominator,
                         std::span<const std::int32_t> documents);

/// The ratios of two models on the same windows, one minus the other. Errors come from the spread of the differences.
struct RatioOfSums {
  std::span<const double> numerator;
  std::span<const double> denominator;
};
Estimate clustered_ratio_difference(const RatioOfSums& ratio, const RatioOfSums& minus,
                                    std::span<const std::int32_t> documents);

/// Mean of one value a window; documents are of as many windows as they hold.
Estimate clustered_mean(std::span<const double> values, std::span<const std::int32_t> documents);

/// L(p), the mean over windows (docs/evaluation.md, Losses; FoX, eq. 7), smoothed by a centred moving average of
/// `width` positions (odd; 1: none), which shrinks at the ends: position p takes max(0, p - width/2) to min(L - 1, p +
/// width/2). Errors are computed from the smoothed curves of the windows.
/// @throws UsageError for a width that is even or below 1
PositionCurve loss_curve(const LossTable& losses, std::span<const std::int32_t> documents, std::int64_t width);

/// P(l) = exp(mean of L(0), ..., L(l-1)), at index l - 1; errors by the delta method.
PositionCurve perplexity_curve(const LossTable& losses, std::span<const std::int32_t> documents);

/// L(p) of one model minus L(p) of another on the same windows and tokens, smoothed likewise. Errors come from the
/// spread of the differences within windows.
/// @throws ShapeError for tables of different shapes
PositionCurve difference_curve(const LossTable& losses, const LossTable& minus, std::span<const std::int32_t> documents,
                               std::int64_t width);

/// Each window's mean loss over positions [begin, end), for clustered_mean: also of differences between two ranges.
/// @throws UsageError for a range that is empty or that not every window has
std::vector<double> window_means(const LossTable& losses, std::int64_t begin, std::int64_t end);

}  // namespace foxscope
