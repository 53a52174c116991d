#include "backend/model/layer/cpu/decays_cpu.h"

#include <algorithm>
#include <cmath>

#include "backend/model/layer/cpu/cpu_steps.h"
#include "kernels/cpu/gate_scan.h"

namespace foxscope {
namespace {

/// Softmax over the layers, and of it the sum over (0, layer]: HGRN2's bound of a layer's decays.
FloatArray bound_of(const FloatArray& table, int layers, int layer) {
  const std::size_t size = table.size() / static_cast<std::size_t>(layers);
  FloatArray bound(size);
  for (std::size_t n = 0; n < size; ++n) {
    const auto logit = [&](int of) { return static_cast<double>(table[index_of(of) * size + n]); };
    double largest = logit(0);
    for (int of = 0; of < layers; ++of) largest = std::max(largest, logit(of));
    double total = 0;
    double sum = 0;
    for (int of = 0; of < layers; ++of) {
      const double share = std::exp(logit(of) - largest);
      total += share;
      if (of > 0 && of <= layer) sum += share;
    }
    bound[n] = static_cast<float>(sum / total);
  }
  return bound;
}

}  // namespace

DecaysCpu::DecaysCpu(CpuPass& pass)
    : pass_(pass), mixer_(*pass.config().linear), columns_(mixer_), length_(pass.length()) {
  const std::int64_t rows = pass.rows();
  if (mixer_.decays_by_head()) {
    log_decay_.resize(index_of(rows * mixer_.states()));
    decay_.resize(log_decay_.size());
  }
  if (mixer_.decays_by_channel()) channel_decay_.resize(index_of(rows * mixer_.key_size()));
  if (mixer_.lower_bound) bounds_.resize(index_of(pass.config().layers));
  if (mixer_.beta != LinearBeta::one) beta_.resize(index_of(rows * mixer_.heads));
}

void DecaysCpu::begin_layer(int layer) {
  bound_ = {};
  if (!mixer_.lower_bound || layer == 0) return;
  FloatArray& bound = bounds_[index_of(layer)];
  if (bound.empty()) bound = bound_of(pass_.weights().lower_bounds, pass_.config().layers, layer);
  bound_ = bound;
}

/// The logits of a head's decays, and HGRN2's keys 1 - alpha.
void DecaysCpu::split_channels(int layer, std::int64_t row, const float* logit, std::int64_t head, float* key) {
  const std::int64_t dim = mixer_.key_dim;
  float* const to = channel_decay_.data() + ((row / length_ * mixer_.key_heads + head) * length_ + row % length_) * dim;
  std::copy_n(logit, dim, to);
  if (!mixer_.keys_are_of_decays()) {
    cpu_steps::add(pass_.weights(layer).decay_bias.data() + head * dim, dim, to);
    return;
  }
  for (std::int64_t n = 0; n < dim; ++n) key[n] = -logit[n];
  cpu_steps::sigmoids(dim, key);
  if (bound_.empty()) return;
  for (std::int64_t n = 0; n < dim; ++n) key[n] *= 1 - bound_[index_of(head * dim + n)];
}

/// Decays and beta of the heads.
void DecaysCpu::split_heads(int layer, std::int64_t row, const float* precise) {
  const LayerWeights& weights = pass_.weights(layer);
  const std::int64_t sequence = row / length_;
  const std::int64_t position = row % length_;
  const float* const betas = precise + columns_.beta - columns_.precise;
  const float* const decays = precise + columns_.decay - columns_.precise;
  const auto at = [&](std::int64_t head, std::int64_t heads) {
    return index_of((sequence * heads + head) * length_ + position);
  };
  const bool is_step = mixer_.beta == LinearBeta::step;
  for (std::int64_t head = 0; head < mixer_.states() && mixer_.decay == LinearDecay::rate; ++head) {
    const LinearMixer::HeadDecay made =
        mixer_.head_decay(static_cast<double>(decays[head]) + static_cast<double>(weights.decay_bias[index_of(head)]),
                          static_cast<double>(weights.decay_rate[index_of(head)]));
    log_decay_[at(head, mixer_.states())] = made.log_decay;
    if (is_step) beta_[at(head, mixer_.heads)] = static_cast<float>(made.step);
  }
  for (std::int64_t head = 0; head < mixer_.heads && !beta_.empty() && !is_step; ++head) {
    beta_[at(head, mixer_.heads)] = mixer_.beta_of(cpu_steps::sigmoid(betas[head]));
  }
}

/// alpha of every position, as the probes change it.
void DecaysCpu::sum(int layer) {
  if (mixer_.has_constant_decay()) make_constant_decays(layer);
  mixer_.decays_by_channel() ? change_channels(layer) : change_decays(layer);
  check_decays(layer);
}

void DecaysCpu::make_constant_decays(int layer) {
  for (std::size_t n = 0; n < log_decay_.size(); ++n) {
    const auto head = static_cast<int>(n / index_of(length_) % index_of(mixer_.states()));
    log_decay_[n] = mixer_.constant_log_decay(head, layer, pass_.config().layers);
  }
}

void DecaysCpu::change_decays(int layer) {
  const std::size_t size = log_decay_.size() / index_of(pass_.batch());
  for (std::size_t sequence = 0; size > 0 && sequence < pass_.probes().size(); ++sequence) {
    double* const log_decay = log_decay_.data() + sequence * size;
    const Probe& probe = pass_.probes()[sequence];
    probe.change_gates(layer, mixer_.states(), pass_.first_position(), length_, log_decay);
    if (!probe.keeps(Keep::gates)) continue;
    std::vector<double> sums(size);
    kernels::cpu::cumulative_log_gate(log_decay, mixer_.states(), length_, sums.data());
    probe.take_gates(layer, mixer_.steps == 1 ? sums : of_all_steps(sums));
  }
  std::ranges::transform(log_decay_, decay_.begin(), [](double nats) { return static_cast<float>(std::exp(nats)); });
}

/// The sums of each state, [states(), n], once for each of its steps.
std::vector<double> DecaysCpu::of_all_steps(const std::vector<double>& sums) const {
  std::vector<double> repeated;
  for (auto first = sums.begin(); first != sums.end(); first += length_) {
    for (int step = 0; step < mixer_.steps; ++step) repeated.insert(repeated.end(), first, first + length_);
  }
  return repeated;
}

void DecaysCpu::change_channels(int layer) {
  for (const Probe& probe : pass_.probes()) {
    // The recorder makes its memory when it is first asked for it.
    if (probe.keeps(Keep::gates)) probe.recorder()->cumulative_log_decay(layer);
  }
  const bool logarithms = pass_.keeps(Keep::gates) || pass_.changes_gates(layer);
  pass_.team().run(pass_.batch() * mixer_.key_heads, [&](std::int64_t task, int /*thread*/) {
    const std::int64_t sequence = task / mixer_.key_heads;
    const std::int64_t head = task % mixer_.key_heads;
    logarithms ? sum_channels(layer, sequence, head) : exponentiate_channels(layer, sequence, head);
  });
}

LinearMixer::ChannelDecay DecaysCpu::channel_of(int layer, std::int64_t head, std::int64_t channel) const {
  LinearMixer::ChannelDecay of;
  if (!bound_.empty()) of.bound = static_cast<double>(bound_[index_of(head * mixer_.key_dim + channel)]);
  if (mixer_.decay == LinearDecay::channel_rate) {
    of.rate = static_cast<double>(pass_.weights(layer).decay_rate[index_of(head)]);
  }
  return of;
}

/// alpha of one head from its logits.
void DecaysCpu::exponentiate_channels(int layer, std::int64_t sequence, std::int64_t head) {
  const std::int64_t dim = mixer_.key_dim;
  if (mixer_.decay == LinearDecay::channel_rate || mixer_.decay == LinearDecay::bounded) {
    float* const alpha = channel_decay_.data() + (sequence * mixer_.key_heads + head) * length_ * dim;
    const LinearMixer::ChannelDecay of = channel_of(layer, head, 0);
    for (std::int64_t n = 0; n < length_ * dim; ++n) {
      alpha[n] = static_cast<float>(std::exp(mixer_.channel_log_decay(static_cast<double>(alpha[n]), of)));
    }
    return;
  }
  for (std::int64_t row = 0; row < length_; ++row) {
    float* const alpha = channel_decay_.data() + ((sequence * mixer_.key_heads + head) * length_ + row) * dim;
    cpu_steps::sigmoids(dim, alpha);
    const auto bound = bound_.empty() ? bound_ : bound_.subspan(index_of(head * dim), index_of(dim));
    mixer_.make_channel_decays({alpha, index_of(dim)}, bound);
  }
}

/// The same by its logarithms in float64, which are kept or changed.
void DecaysCpu::sum_channels(int layer, std::int64_t sequence, std::int64_t head) {
  const Probe& probe = pass_.probes()[index_of(sequence)];
  const std::int64_t dim = mixer_.key_dim;
  float* const decays = channel_decay_.data() + (sequence * mixer_.key_heads + head) * length_ * dim;
  double* const kept =
      probe.keeps(Keep::gates) ? probe.recorder()->cumulative_log_decay(layer).data() + head * length_ * dim : nullptr;
  std::vector<double> log_decay(index_of(mixer_.key_heads * length_));
  const auto own = std::span(log_decay).subspan(index_of(head * length_), index_of(length_));
  for (std::int64_t channel = 0; channel < dim; ++channel) {
    const LinearMixer::ChannelDecay of = channel_of(layer, head, channel);
    for (std::int64_t row = 0; row < length_; ++row) {
      const auto logit = static_cast<double>(decays[row * dim + channel]);
      own[index_of(row)] = mixer_.channel_log_decay(logit, of);
    }
    probe.change_gates(layer, mixer_.key_heads, pass_.first_position(), length_, log_decay.data());
    double sum = 0;
    for (std::int64_t row = 0; row < length_; ++row) {
      sum += own[index_of(row)];
      if (kept != nullptr) kept[row * dim + channel] = sum;
      decays[row * dim + channel] = static_cast<float>(std::exp(own[index_of(row)]));
    }
  }
}

/// A decay that is no number would spoil every later position.
void DecaysCpu::check_decays(int layer) const {
  const auto place_of = [&](std::ptrdiff_t index, int heads) {
    const std::int64_t row = index % (heads * length_);
    return DecayPlace{layer, static_cast<int>(row / length_), pass_.first_position() + row % length_};
  };
  const auto not_a_decay = [](auto alpha) { return !(alpha >= 0 && alpha <= 1.0001F); };
  if (const auto bad = std::ranges::find_if(channel_decay_, not_a_decay); bad != channel_decay_.end()) {
    throw_bad_decay(place_of((bad - channel_decay_.begin()) / mixer_.key_dim, mixer_.key_heads),
                    std::log(static_cast<double>(*bad)));
  }
  if (const auto bad = std::ranges::find_if(decay_, not_a_decay); bad != decay_.end()) {
    const std::ptrdiff_t index = bad - decay_.begin();
    throw_bad_decay(place_of(index, mixer_.states()), log_decay_[index_of(index)]);
  }
  if (const auto bad = std::ranges::find_if(beta_, [](float beta) { return !std::isfinite(beta); });
      bad != beta_.end()) {
    throw_bad_beta(place_of(bad - beta_.begin(), mixer_.heads), mixer_, static_cast<double>(*bad));
  }
}

void DecaysCpu::keep_beta(int layer, std::int64_t sequence) const {
  // Where arrays erase, beta is within keys.
  if (mixer_.erases_by_arrays()) return;
  const Probe& probe = pass_.probes()[index_of(sequence)];
  if (beta_.empty()) {
    if (probe.keeps(Keep::query_key)) std::ranges::fill(probe.recorder()->beta(layer), 1.0F);
  } else {
    probe.take(TraceArray::beta, layer, beta(sequence));
  }
}

}  // namespace foxscope
