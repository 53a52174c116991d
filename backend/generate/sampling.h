#pragma once

#include <cstdint>
#include <random>
#include <span>

#include "backend/model/layer/next_token.h"

namespace foxscope {

/// How the next token is chosen.
struct Sampling {
  double temperature = 0;  ///< T; 0: the likeliest token
  std::uint64_t seed = 0;
  double top_p = 1;  ///< draws come from the likeliest tokens that together have this share of p^(1/T); 1: from all
};

/// Draws tokens from p_i^(1/T), normalised. Equal seeds draw the same tokens on every platform: the bits are those of
/// std::mt19937_64, which the C++ standard fixes, and a draw takes the first token at which the running sum of weights,
/// in the order of ids, passes u times the whole sum, with u = (bits >> 11) 2^-53. With top_p below 1 (Holtzman et al.
/// 2020, nucleus sampling) the weights of all but the fewest likeliest tokens that reach it are 0; of equally likely
/// ones the lower id counts as the likelier.
class Sampler {
 public:
  /// @throws UsageError for a temperature that is negative or not finite, and top_p outside (0, 1]
  explicit Sampler(const Sampling& sampling);
  /// The likeliest where T is 0, so that no probabilities are fetched for it; else a draw.
  std::int32_t choose(const NextToken& next);

 private:
  double temperature_;
  double top_p_;
  std::mt19937_64 generator_;
};

}  // namespace foxscope
