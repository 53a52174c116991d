#include "backend/model/spec/rotary.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "backend/base/index.h"

namespace foxscope {
namespace {

/// The share of a pair's frequency that is stretched: 0 for those that turn often, 1 for those that turn seldom.
double yarn_share(const Rotary& rotary, int pair) {
  const RopeScaling& scaling = rotary.scaling;
  const double dim = rotary.dim;
  // The pair that turns so often in the length first trained on.
  const auto pair_of = [&](double turns) {
    return dim * std::log(scaling.original_length / (turns * 2 * std::numbers::pi)) / (2 * std::log(rotary.base));
  };
  double low = pair_of(scaling.beta_fast);
  double high = pair_of(scaling.beta_slow);
  if (scaling.truncate) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, dim - 1);
  if (low == high) high += 1e-3;
  return std::clamp((pair - low) / (high - low), 0.0, 1.0);
}

double llama3_share(const RopeScaling& scaling, double frequency) {
  const double turns = scaling.original_length * frequency / (2 * std::numbers::pi);
  const double share =
      (turns - scaling.low_frequency_factor) / (scaling.high_frequency_factor - scaling.low_frequency_factor);
  return 1 - std::clamp(share, 0.0, 1.0);
}

}  // namespace

std::vector<double> Rotary::frequencies(std::int64_t length) const {
  using Kind = RopeScaling::Kind;
  double own_base = base;
  if (scaling.kind == Kind::dynamic) {
    const double longest = std::max(static_cast<double>(length), scaling.original_length);
    const double stretch = scaling.factor * longest / scaling.original_length - (scaling.factor - 1);
    own_base *= std::pow(stretch, dim / (dim - 2.0));
  }
  const bool is_long = static_cast<double>(length) > scaling.original_length;
  std::vector<double> frequencies;
  for (int n = 0; n < dim / 2; ++n) {
    double frequency = std::pow(own_base, -2.0 * n / dim);
    double share = 0;  // that is stretched
    if (scaling.kind == Kind::linear) share = 1;
    if (scaling.kind == Kind::llama3) share = llama3_share(scaling, frequency);
    if (scaling.kind == Kind::yarn) share = yarn_share(*this, n);
    if (share > 0) frequency *= share / scaling.factor + (1 - share);
    if (scaling.kind == Kind::longrope) {
      frequency /= (is_long ? scaling.long_factors : scaling.short_factors)[index_of(n)];
    }
    frequencies.push_back(frequency);
  }
  return frequencies;
}

bool Rotary::turns_alike(std::int64_t length, std::int64_t other) const {
  if (!depends_on_length() || length == other) return true;
  const bool is_long = static_cast<double>(length) > scaling.original_length;
  const bool other_is_long = static_cast<double>(other) > scaling.original_length;
  return is_long == other_is_long && (!is_long || scaling.kind == RopeScaling::Kind::longrope);
}

double Rotary::query_factor(std::int64_t position) const {
  if (query_growth == 0) return 1;
  return 1 + query_growth * std::log1p(std::floor(static_cast<double>(position) / growth_length));
}

}  // namespace foxscope
