#include "backend/model/layer/cpu/gate_history.h"

#include <algorithm>
#include <cassert>
#include <cmath>

#include "backend/base/index.h"
#include "backend/model/spec/interventions.h"

namespace foxscope {

void GateHistory::start(std::span<const double> cumulative) {
  first_ = 0;
  lost_ = 0;
  values_.assign(cumulative.begin(), cumulative.end());
  sum_ = values_.empty() ? 0 : values_.back();
}

void GateHistory::append(double log_gate) {
  const double term = std::max(log_gate, kLowestLogGate);
  const double next = sum_ + term;
  lost_ += std::abs(sum_) >= std::abs(term) ? (sum_ - next) + term : (term - next) + sum_;
  sum_ = next;
  values_.push_back(sum_ + lost_);
}

void GateHistory::drop_before(std::int64_t position) {
  if (position <= first_) return;
  assert(position <= end());
  values_.erase(values_.begin(), values_.begin() + (position - first_));
  first_ = position;
}

std::int64_t GateHistory::first_needed(double logit_bound, double share) const {
  return first_needed_key(values_, first_, logit_bound, share);
}

std::int64_t first_needed_key(std::span<const double> cumulative, std::int64_t first, double logit_bound,
                              double share) {
  if (share <= 0 || cumulative.empty()) return first;
  // The bound grows with j: c_j falls and n rises.
  const auto negligible = [&](std::int64_t position) {
    const double keys = std::log(static_cast<double>(position + 1));
    const double c = cumulative[index_of(position - first)];
    return keys + 2 * logit_bound + cumulative.back() - c <= std::log(share);
  };
  std::int64_t low = first;
  std::int64_t high = first + static_cast<std::int64_t>(cumulative.size()) - 1;  // the newest key is always needed
  while (low < high) {
    const std::int64_t middle = low + (high - low) / 2;
    if (negligible(middle)) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

}  // namespace foxscope
