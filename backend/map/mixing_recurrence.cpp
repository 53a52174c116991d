#include "backend/map/mixing_recurrence.h"

#include <algorithm>
#include <cmath>

#include "backend/base/index.h"

namespace foxscope {
namespace {

double dot(std::span<const double> x, std::span<const float> y) {
  double sum = 0;
  for (std::size_t n = 0; n < x.size(); ++n) sum += x[n] * static_cast<double>(y[n]);
  return sum;
}

}  // namespace

MixingRecurrence::MixingRecurrence(const HeadOf& head) {
  const Trace& trace = *head.trace;
  const LayerMixer mixer = trace.info().mixer(head.layer);
  by_channel_ = mixer.decays_by_channel();
  if (by_channel_) {
    sums_ = trace.cumulative_log_decay(head.layer, head.head);
    c_ = sums_.values;
  } else if (!mixer.has_softmax()) {
    c_ = trace.cumulative_log_gate(head.layer, head.head);
  }
  if (mixer.kind().writes_beta) beta_ = trace.beta(head.layer, head.head);
  if (!mixer.keeps_erasing()) return;
  erase_read_ = trace.erase_read(head.layer, head.head);
  erase_write_ = trace.erase_write(head.layer, head.head);
}

double MixingRecurrence::entry(std::int64_t position, std::span<const float> key, std::span<const double> r) const {
  const float beta = beta_.empty() ? 1.0F : beta_[index_of(position)];
  return static_cast<double>(beta) * dot(r, key);
}

void MixingRecurrence::decays(std::int64_t position, std::span<double> alpha) const {
  if (c_.empty()) std::ranges::fill(alpha, 1.0);
  if (position == 0 || c_.empty()) return;
  const std::size_t step = by_channel_ ? alpha.size() : 1;
  const std::size_t first = index_of(position) * step;
  for (std::size_t n = 0; n < step; ++n) alpha[n] = std::exp(c_[first + n] - c_[first + n - step]);
  if (!by_channel_) std::ranges::fill(alpha, alpha.front());
}

void MixingRecurrence::pass(std::int64_t position, std::span<const float> key, double entry,
                            std::span<const double> alpha, std::span<double> r) const {
  if (erase_read_.empty()) {
    for (std::size_t n = 0; n < r.size(); ++n) r[n] = alpha[n] * (r[n] - entry * static_cast<double>(key[n]));
    return;
  }
  const std::size_t first = index_of(position) * r.size();
  const double erased = dot(r, erase_write_.subspan(first, r.size()));
  for (std::size_t n = 0; n < r.size(); ++n) {
    r[n] = alpha[n] * r[n] + static_cast<double>(erase_read_[first + n]) * erased;
  }
}

}  // namespace foxscope
