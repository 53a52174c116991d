#include "backend/eval/estimate.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numeric>

#include <fmt/format.h>

#include "backend/base/error.h"
#include "backend/base/plural.h"
#include "backend/eval/student_t.h"

namespace foxscope {
namespace {

constexpr double kNoError = std::numeric_limits<double>::quiet_NaN();
constexpr double kCovered = 1 - kChance;
constexpr double kShown = 0.05;  ///< what an effective number of documents misses where its first decimal shows it

/// (tr B)^2 / tr B^2 with B = C' A C, A_gg = (w_g / (1 - w_g))^2 and C = I - 1 w' for the weights w_g = m_g / M.
double degrees_of_freedom(std::span<const double> sizes, double sum, double squares) {
  const double s = squares / (sum * sum);
  double trace = 0;
  double diagonal = 0;
  double moments[3] = {0, 0, 0};  // sum of A_gg w_g^k
  for (const double size : sizes) {
    const double w = size / sum;
    if (w <= 0) continue;
    if (w >= 1) return 0;
    const double a = w * w / ((1 - w) * (1 - w));
    // (C C')_gh = s - w_g - w_h, and 1 more on the diagonal.
    const double beside = s - 2 * w;
    trace += a * (1 + beside);
    diagonal += a * a * (1 + 2 * beside);
    for (int k = 0; k < 3; ++k) moments[k] += a * std::pow(w, k);
  }
  const double all = s * s * moments[0] * moments[0] + 2 * moments[2] * moments[0] - 4 * s * moments[1] * moments[0] +
                     2 * moments[1] * moments[1];
  return trace * trace / (all + diagonal);
}

std::string count_text(std::int64_t count, const char* one) { return fmt::format("{} {}", count, plural(count, one)); }

}  // namespace

bool ErrorGroups::suffice() const {
  if (kind == Kind::blocks) return count >= kFewestBlocks;
  return effective >= kFewestDocuments && degrees >= kFewestDegrees;
}

ErrorGroups group_sizes(ErrorGroups::Kind kind, std::span<const double> sizes) {
  const double sum = std::accumulate(sizes.begin(), sizes.end(), 0.0);
  const double squares = std::inner_product(sizes.begin(), sizes.end(), sizes.begin(), 0.0);
  ErrorGroups groups{.kind = kind};
  groups.count = std::ranges::count_if(sizes, [](double size) { return size > 0; });
  if (groups.count == 0) return groups;
  groups.effective = sum * sum / squares;
  groups.degrees = degrees_of_freedom(sizes, sum, squares);
  return groups;
}

double interval_half_width(const ErrorGroups& over, double covered) {
  return over.suffice() ? student_t_half_width(covered, over.degrees) : kNoError;
}

double p_value(const Estimate& estimate) {
  if (std::isnan(estimate.value) || std::isnan(estimate.error) || !(estimate.over.degrees > 0)) return kNoError;
  // Nothing changed at all: 0 / 0.
  if (estimate.value == 0) return 1;
  return student_t_outside(estimate.value / estimate.error, estimate.over.degrees);
}

bool is_nothing(const Estimate& estimate) { return estimate.value == 0 && estimate.error == 0; }

bool beyond_chance(const Estimate& estimate) { return p_value(estimate) <= kChance; }

std::vector<bool> discoveries(std::span<const double> p_values, double rate) {
  if (!(rate > 0 && rate < 1)) {
    throw UsageError(fmt::format("--fdr {}: a false discovery rate is above 0 and below 1, as 0.05", rate));
  }
  std::vector<double> sorted;
  std::ranges::copy_if(p_values, std::back_inserter(sorted), [](double p) { return !std::isnan(p); });
  std::ranges::sort(sorted);
  double bound = -1;
  for (std::size_t k = 0; k < sorted.size(); ++k) {
    const double share = static_cast<double>(k + 1) / static_cast<double>(sorted.size());
    if (sorted[k] <= rate * share) bound = sorted[k];
  }
  std::vector<bool> named(p_values.size());
  for (std::size_t n = 0; n < p_values.size(); ++n) named[n] = p_values[n] <= bound;
  return named;
}

std::string estimate_text(const Estimate& estimate, int digits) {
  if (!std::isfinite(estimate.error)) return fmt::format("{:.{}f}", estimate.value, digits);
  return fmt::format("{:.{}f} ± {:.{}f}", estimate.value, digits, estimate.error, digits);
}

std::string groups_text(const ErrorGroups& over) {
  if (over.kind == ErrorGroups::Kind::blocks) {
    const std::string blocks = count_text(over.count, "block");
    return over.tokens > 0 ? fmt::format("{} of {}", blocks, count_text(over.tokens, "token")) : blocks;
  }
  const std::string documents = count_text(over.count, "document");
  const double missing = static_cast<double>(over.count) - over.effective;
  if (missing < kShown) return documents;
  return fmt::format("{}, effectively {:.1f}", documents, over.effective);
}

std::string errors_text(const ErrorGroups& over) {
  if (over.suffice()) {
    return fmt::format("± 1 standard error over {}; a 95 % interval is ± {:.2f} errors (Student's t)",
                       groups_text(over), interval_half_width(over, kCovered));
  }
  if (over.kind == ErrorGroups::Kind::blocks) {
    return fmt::format("no errors: the text gives {}, and an error takes {}", groups_text(over),
                       ErrorGroups::kFewestBlocks);
  }
  if (over.count == 1) return "no errors: all windows lie in one document";
  if (over.effective < ErrorGroups::kFewestDocuments) {
    return fmt::format(
        "no errors: the windows lie in {}, and an error takes 4 of about one size (effectively {:g}): use more "
        "documents",
        groups_text(over), ErrorGroups::kFewestDocuments);
  }
  return fmt::format(
      "no errors: a few of the {} documents (effectively {:.1f}) outweigh the others and leave {:.1f} degrees of "
      "freedom, and an error takes {:g}: use more documents, of about one size",
      over.count, over.effective, over.degrees, ErrorGroups::kFewestDegrees);
}

std::string beyond_chance_text(std::span<const Estimate> heads, double rate) {
  std::vector<double> p_values;
  for (const Estimate& head : heads) {
    const double p = p_value(head);
    if (!std::isnan(p) && !is_nothing(head)) p_values.push_back(p);
  }
  if (p_values.empty()) return {};
  const auto beyond = std::ranges::count_if(p_values, [](double p) { return p <= kChance; });
  const std::vector<bool> named = discoveries(p_values, rate);
  const std::int64_t nothing = std::ranges::count_if(heads, is_nothing);
  const std::string left_out = nothing == 0 ? ""
                                            : fmt::format("; not counted: {} {} in which the change alters nothing",
                                                          nothing, plural(nothing, "head"));
  return fmt::format(
      "{} of {} {} {} beyond chance (0 is outside their 95 % interval; of heads that matter nothing one in twenty "
      "is, here {:.1f}); {} at a false discovery rate of {:g} %{}",
      beyond, p_values.size(), plural(std::ssize(p_values), "head"), beyond == 1 ? "is" : "are",
      kChance * static_cast<double>(p_values.size()), std::count(named.begin(), named.end(), true), 100 * rate,
      left_out);
}

}  // namespace foxscope
