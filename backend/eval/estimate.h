#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

namespace foxscope {

/// A standard error is the spread over these parts of the data, which are taken to be independent of each other.
struct ErrorGroups {
  enum class Kind {
    documents,  ///< of a corpus, of any sizes
    blocks,     ///< of one text, of equal sizes
  };
  /// Fewer blocks have no error.
  static constexpr std::int64_t kFewestBlocks = 8;
  /// Documents have an error that are nearer to four of one size than to three: effectively 3.5 or more, whose error
  /// has 2.5 degrees of freedom or more. One error covers 65 % and more of draws on either side, and Student's
  /// quantile covers 95 %. But a 95 % interval is 4.3 errors with three documents, 3.2 with four, and up to 3.6 here,
  /// so an eighth is lost by sizes that differ a little. Four documents whose last is a quarter shorter suffice.
  static constexpr double kFewestDocuments = 3.5;
  static constexpr double kFewestDegrees = 2.5;

  Kind kind = Kind::documents;
  std::int64_t count = 0;   ///< G
  double effective = 0;     ///< M^2 / sum m_g^2 over their sizes m_g, whose sum is M: G where all are of one size
  double degrees = 0;       ///< degrees of freedom of the error: G - 1 where all are of one size (group_sizes)
  std::int64_t tokens = 0;  ///< of a block; some have one more

  /// Whether there are enough for an error.
  [[nodiscard]] bool suffice() const;
  bool operator==(const ErrorGroups&) const = default;
};

/// Groups of these sizes. The degrees of freedom of the jackknife's error are those of Bell and McCaffrey (Survey
/// Methodology 28, 2002; Imbens and Kolesar, Rev. Econ. Stat. 98, 2016) for groups that differ by equal and independent
/// amounts: the squared error is v = u' B u for the groups' means u, and nu = (tr B)^2 / tr B^2. One document that
/// outweighs many small ones leaves one degree, however many these are.
/// @param sizes  of each group, windows or tokens or bytes; one of size 0 is not counted
ErrorGroups group_sizes(ErrorGroups::Kind kind, std::span<const double> sizes);

/// A number, its standard error (NaN where it cannot be known), and what that is over. An interval is Student's t
/// quantile with the groups' degrees of freedom times the error: interval_half_width.
struct Estimate {
  double value = 0;
  double error = 0;
  ErrorGroups over = {};
};

/// Half the width of the two-sided interval, in standard errors; NaN where the groups do not suffice.
double interval_half_width(const ErrorGroups& over, double covered = 0.95);

/// Whether there is nothing to estimate: 0 without any spread, as where a change alters nothing of a head.
bool is_nothing(const Estimate& estimate);

/// Probability of a value as far from 0 or farther, were the true one 0: Student's t, two-sided. 1 where the value is
/// exactly 0; NaN where the error is not known.
double p_value(const Estimate& estimate);

/// The share of estimates of nothing that is beyond chance: one in twenty.
inline constexpr double kChance = 0.05;

/// Whether 0 is outside the 95 % interval (Student's t). Two standard errors are that interval only at 60 degrees of
/// freedom. At 7 (eight blocks) 8.6 % of estimates of nothing exceed them.
bool beyond_chance(const Estimate& estimate);

/// Which of several estimates differ from 0 so that of those that are named, on average, at most this share does not
/// (false discovery rate; Benjamini and Hochberg, J. R. Stat. Soc. B 57, 1995): with the p values in order, all up to
/// the largest k with p_(k) <= rate k / n. Unknown ones (NaN) are not named, and not counted in n.
/// @param rate  above 0, below 1
/// @throws UsageError for another rate
std::vector<bool> discoveries(std::span<const double> p_values, double rate);

/// "1.2345 ± 0.0067"; without the error where that is not known.
std::string estimate_text(const Estimate& estimate, int digits);

/// "10 documents, effectively 4.6", "12 documents", "16 blocks of 128 tokens".
std::string groups_text(const ErrorGroups& over);

/// Names the errors in one line without its end: "± 1 standard error over 10 documents, effectively 8.0; a 95 %
/// interval is ± 2.4 errors (Student's t)", or why there are none.
std::string errors_text(const ErrorGroups& over);

/// Says how many of several heads, each changed alone, are beyond chance: "7 of 32 heads are beyond chance (0 is
/// outside their 95 % interval; of heads that matter nothing one in twenty is, here 1.6); 4 at a false discovery rate
/// of 5 %; not counted: 4 heads in which the change alters nothing". Empty where no error is known.
/// @param rate  of false discoveries
std::string beyond_chance_text(std::span<const Estimate> heads, double rate = kChance);

}  // namespace foxscope
