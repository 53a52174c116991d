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
  if (mixer.steps() > 1) {
    const QueryKeyStore& store = trace.require_query_key();
    const int own = head.head % mixer.steps();
    std::vector<float> scratch;
    for (int step = mixer.steps() - 1; step >= 0; --step) {
      if (step == own) continue;
      const int other = head.head - own + step;
      const auto keys = store.rows(TraceArray::key, head.layer, other, 0, trace.info().length, scratch);
      (step > own ? later_ : earlier_).push_back({{keys.begin(), keys.end()}, trace.beta(head.layer, other)});
    }
  }
  if (!mixer.keeps_erasing()) return;
  erase_read_ = trace.erase_read(head.layer, head.head);
  erase_write_ = trace.erase_write(head.layer, head.head);
}

void MixingRecurrence::take_step(const Step& step, std::int64_t position, std::span<double> r) {
  const auto key = std::span(step.key).subspan(index_of(position) * r.size(), r.size());
  const double held = static_cast<double>(step.beta[index_of(position)]) * dot(r, key);
  for (std::size_t n = 0; n < r.size(); ++n) r[n] -= held * static_cast<double>(key[n]);
}

double MixingRecurrence::entry(std::int64_t position, std::span<const float> key, std::span<double> r) const {
  for (const Step& step : later_) take_step(step, position, r);
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
    for (std::size_t n = 0; n < r.size(); ++n) r[n] -= entry * static_cast<double>(key[n]);
    for (const Step& step : earlier_) take_step(step, position, r);
    for (std::size_t n = 0; n < r.size(); ++n) r[n] *= alpha[n];
    return;
  }
  const std::size_t first = index_of(position) * r.size();
  const double erased = dot(r, erase_write_.subspan(first, r.size()));
  for (std::size_t n = 0; n < r.size(); ++n) {
    r[n] = alpha[n] * r[n] + static_cast<double>(erase_read_[first + n]) * erased;
  }
}

}  // namespace foxscope
