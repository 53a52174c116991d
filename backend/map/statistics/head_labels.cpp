#include "backend/map/statistics/head_labels.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "backend/base/index.h"
#include "backend/map/statistics/head_statistics.h"

namespace foxscope {
namespace {

constexpr double kNoScore = std::numeric_limits<double>::quiet_NaN();

// The texts by HeadLabel. A letter is the first of the name, but that previous token is B as in before, and long memory
// M as in memory: P is positional and L is local.
constexpr HeadLabelText kTexts[kHeadLabels] = {
    {"previous_token", "previous token", 'B', 0.4, "attention on the token before, mean over positions"},
    {"local", "local", 'L', 0.8, "share of attention within 32 tokens, key 0 left out"},
    {"sink", "sink", 'S', 0.5, "attention on key 0, mean over positions"},
    {"positional", "positional", 'P', 0.6, "share of A, in squares, that distance alone explains, key 0 left out"},
    {"induction", "induction", 'I', 0.2,
     "attention on tokens that followed an earlier occurrence of the token that is read, mean over repeated tokens"},
    {"long_memory", "long memory", 'M', 0.5, "share of attention 256 tokens back and further, key 0 left out"},
};

/// Sum of the masses of distances [0, end); all of them are part of it, so that one NaN is seen.
double mass_within(const std::vector<double>& mass, std::int64_t end) {
  double sum = 0;
  const auto count = std::min(mass.size(), static_cast<std::size_t>(end));
  for (std::size_t distance = 0; distance < count; ++distance) sum += mass[distance];
  return sum;
}

double previous_token(const AttentionSpread& spread) {
  const auto length = static_cast<double>(spread.distance.mass.size());
  return spread.distance.mass[1] * length / (length - 1);
}

/// Share of A' at some distances, mean over the rows that see further than `tokens`. The others have all of A' nearer.
/// @param mass   mean over all rows that have attention beside key 0 of their A' at these distances
/// @param near   how many of them see no further
/// @param there  sum of the shares that these others have at the distances
double share_of_far_rows(const AttentionSpread& spread, double mass, std::int64_t near, std::int64_t there) {
  const std::int64_t far = spread.rows_without_first - near;
  if (far < 1) return kNoScore;
  const double share =
      (mass * static_cast<double>(spread.rows_without_first) - static_cast<double>(there)) / static_cast<double>(far);
  return std::isnan(share) ? share : std::clamp(share, 0.0, 1.0);
}

double local_share(const AttentionSpread& spread) {
  return share_of_far_rows(spread, mass_within(spread.distance_without_first.mass, kLocalTokens),
                           spread.rows_up_to_local, spread.rows_up_to_local);
}

double long_share(const AttentionSpread& spread) {
  const auto& mass = spread.distance_without_first.mass;
  double beyond = 0;
  for (std::size_t distance = index_of(kLongTokens); distance < mass.size(); ++distance) beyond += mass[distance];
  return share_of_far_rows(spread, beyond, spread.rows_up_to_long, 0);
}

/// The sum of m_d^2 over entries is sum over d of S_d^2 / n_d: S_d the sum of A' at distance d, n_d = L - 1 - d the
/// number of its entries.
double explained_by_distance(const AttentionSpread& spread, std::int64_t window) {
  const auto& mass = spread.distance_without_first.mass;
  const auto length = static_cast<std::int64_t>(mass.size());
  const auto rows = static_cast<double>(spread.rows_without_first);
  if (spread.rows_without_first < 1) return kNoScore;
  const std::int64_t reach = window == 0 ? length : std::min(window, length);
  double explained = 0;
  for (std::int64_t distance = 0; distance < std::min(reach, length - 1); ++distance) {
    const double sum = mass[index_of(distance)] * rows;
    explained += sum * sum / static_cast<double>(length - 1 - distance);
  }
  const double share = explained / (spread.square_without_first * rows);
  return std::isnan(share) ? share : std::min(share, 1.0);
}

}  // namespace

const HeadLabelText& text_of(HeadLabel label) { return kTexts[index_of(label)]; }

LabelScores label_scores(const AttentionSpread& spread, std::int64_t window) {
  if (std::ssize(spread.distance.mass) < kShortestLabelled) return no_label_scores();
  const std::int64_t length = std::ssize(spread.distance.mass);
  return {previous_token(spread), length >= kShortestLocal ? local_share(spread) : kNoScore,
          spread.mass_on_first,   length >= kShortestPositional ? explained_by_distance(spread, window) : kNoScore,
          spread.on_repeats,      long_share(spread)};
}

std::vector<HeadLabel> labels_of(const LabelScores& scores) {
  std::vector<HeadLabel> labels;
  const auto strength = [&](HeadLabel label) { return scores[index_of(label)] / text_of(label).threshold; };
  for (int n = 0; n < kHeadLabels; ++n) {
    const auto label = static_cast<HeadLabel>(n);
    if (strength(label) >= 1) labels.push_back(label);
  }
  std::stable_sort(labels.begin(), labels.end(), [&](HeadLabel a, HeadLabel b) { return strength(a) > strength(b); });
  return labels;
}

std::string names_of(const std::vector<HeadLabel>& labels, const char* separator) {
  std::string names;
  for (const HeadLabel label : labels) names += (names.empty() ? "" : separator) + std::string(text_of(label).name);
  return names;
}

}  // namespace foxscope
