#pragma once

#include <cmath>

namespace foxscope {

/// log(sigmoid(x)) without cancellation, nats; softplus(x) = log(1 + exp(x)) is -log_sigmoid(-x).
inline double log_sigmoid(double x) { return x >= 0 ? -std::log1p(std::exp(-x)) : x - std::log1p(std::exp(x)); }

}  // namespace foxscope
