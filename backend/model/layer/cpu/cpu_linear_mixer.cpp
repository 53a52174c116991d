#include "backend/model/layer/cpu/cpu_linear_mixer.h"

#include <algorithm>
#include <cassert>
#include <cmath>

#include <fmt/format.h>

#include "backend/base/error.h"
#include "backend/model/layer/cpu/cpu_steps.h"
#include "kernels/cpu/forgetting_attention.h"
#include "kernels/cpu/linear_mixing.h"
#include "kernels/cpu/selective_scan.h"

namespace foxscope {
namespace {

std::size_t place(std::int64_t number) { return static_cast<std::size_t>(number); }

double softplus(double x) { return x > 0 ? x + std::log1p(std::exp(-x)) : std::log1p(std::exp(x)); }

void activate(LinearActivation activation, std::int64_t size, float* x) {
  switch (activation) {
    case LinearActivation::none:
      break;
    case LinearActivation::silu:
      cpu_steps::silu(size, x);
      break;
    case LinearActivation::relu:
      for (std::int64_t n = 0; n < size; ++n) x[n] = std::max(x[n], 0.0F);
      break;
    case LinearActivation::elu_plus_one:
      for (std::int64_t n = 0; n < size; ++n) x[n] = x[n] > 0 ? x[n] + 1 : std::exp(x[n]);
      break;
  }
}

/// Softmax over the layers, and of it the sum over (0, layer]: HGRN2's bound of a layer's decays.
FloatArray bound_of(const FloatArray& table, int layers, int layer) {
  const std::size_t size = table.size() / static_cast<std::size_t>(layers);
  FloatArray bound(size);
  for (std::size_t n = 0; n < size; ++n) {
    double largest = static_cast<double>(table[n]);
    for (int of = 0; of < layers; ++of) largest = std::max(largest, static_cast<double>(table[place(of) * size + n]));
    double total = 0;
    double sum = 0;
    for (int of = 0; of < layers; ++of) {
      const double share = std::exp(static_cast<double>(table[place(of) * size + n]) - largest);
      total += share;
      if (of > 0 && of <= layer) sum += share;
    }
    bound[n] = static_cast<float>(sum / total);
  }
  return bound;
}

}  // namespace

CpuLinearMixer::CpuLinearMixer(const ModelConfig& config, std::int64_t batch, std::int64_t length)
    : config_(config), mixer_(*config.linear), columns_(mixer_), batch_(batch), length_(length) {
  const std::int64_t rows = batch * length;
  if (mixer_.gate != LinearGate::none) gate_.resize(place(rows * mixer_.output_size()));
  if (mixer_.decay == LinearDecay::rate) {
    log_decay_.resize(place(rows * mixer_.heads));
    decay_.resize(log_decay_.size());
  }
  if (mixer_.decays_by_channel()) channel_decay_.resize(place(rows * mixer_.key_size()));
  if (mixer_.lower_bound) bounds_.resize(place(config.layers));
  if (mixer_.selects()) {
    inputs_.resize(place(rows * mixer_.heads));
    steps_.resize(inputs_.size());
    return;
  }
  if (mixer_.beta != LinearBeta::one) beta_.resize(place(rows * mixer_.heads));
}

bool CpuLinearMixer::needs_logarithms(int layer, std::span<const Probe> probes) {
  return std::ranges::any_of(
      probes, [layer](const Probe& probe) { return probe.keeps(Keep::gates) || probe.changes_gates(layer); });
}

void CpuLinearMixer::begin_layer(int layer, const LayerWeights& weights, const FloatArray& lower_bounds,
                                 std::span<const Heads> heads) {
  weights_ = &weights;
  heads_ = heads;
  bound_ = {};
  if (!mixer_.lower_bound || layer == 0) return;
  FloatArray& bound = bounds_[place(layer)];
  if (bound.empty()) bound = bound_of(lower_bounds, config_.layers, layer);
  bound_ = bound;
}

void CpuLinearMixer::split(std::int64_t row, Taps taps, const float* decay_logit, float* scratch) {
  const float* const own = taps.back();
  const std::int64_t sequence = row / length_;
  const std::int64_t position = row % length_;
  if (mixer_.gate != LinearGate::none) {
    std::copy_n(own, columns_.convolved, gate_.data() + row * columns_.convolved);
  }
  if (mixer_.selects()) scratch = inputs_.data() + row * mixer_.heads;
  cpu_steps::convolve(taps, columns_.convolved, weights_->convolution_taps,
                      weights_->convolution_bias.empty() ? nullptr : weights_->convolution_bias.data(),
                      columns_.convolved_size(), scratch);
  if (mixer_.selects()) {
    activate(mixer_.value_activation, mixer_.value_size(), scratch);
    return;
  }
  const auto part = [&](std::int64_t column) { return scratch + column - columns_.convolved; };
  const Heads& into = heads_[place(sequence)];
  activate(mixer_.query_activation, mixer_.query_size(), part(columns_.query));
  activate(mixer_.key_activation, mixer_.key_size(), part(columns_.key));
  activate(mixer_.value_activation, mixer_.value_size(), part(columns_.value));
  const std::int64_t dim = mixer_.key_dim;
  for (std::int64_t head = 0; head < mixer_.query_heads; ++head) {
    float* const to = into.query + (head * length_ + position) * dim;
    std::copy_n(part(columns_.query) + head * dim, dim, to);
    norm_head(to, mixer_.query_factor);
  }
  for (std::int64_t head = 0; head < mixer_.key_heads; ++head) {
    float* const to = into.key + (head * length_ + position) * dim;
    const float* const from = part(columns_.key) + head * dim;
    std::copy_n(from, dim, to);
    if (mixer_.decays_by_channel()) {
      split_channels(row, mixer_.decay == LinearDecay::of_keys ? from : decay_logit + head * dim, head, to);
    }
    norm_head(to, 1);
  }
  for (std::int64_t head = 0; head < mixer_.value_heads; ++head) {
    std::copy_n(part(columns_.value) + head * mixer_.value_dim, mixer_.value_dim,
                into.value + (head * length_ + position) * mixer_.value_dim);
  }
  split_gates(row, own + columns_.precise);
}

void CpuLinearMixer::select(std::int64_t row, const float* selected) {
  cpu_steps::softplus(weights_->decay_bias.data(), mixer_.heads, steps(row));
  const Heads& into = heads_[place(row / length_)];
  const std::int64_t dim = mixer_.key_dim;
  const std::int64_t position = row % length_;
  std::copy_n(selected + mixer_.decay_rank, dim, into.key + position * dim);
  std::copy_n(selected + mixer_.decay_rank + dim, dim, into.query + position * dim);
}

void CpuLinearMixer::norm_head(float* x, double factor) const {
  const std::int64_t dim = mixer_.key_dim;
  if (mixer_.norm == LinearNorm::l2) {
    cpu_steps::l2_norm(dim, static_cast<float>(kLinearNormEpsilon), static_cast<float>(factor), x);
    return;
  }
  if (mixer_.norm == LinearNorm::sum) {
    double sum = 0;
    for (std::int64_t n = 0; n < dim; ++n) sum += static_cast<double>(x[n]);
    factor /= sum;
  }
  if (factor == 1) return;
  for (std::int64_t n = 0; n < dim; ++n) x[n] *= static_cast<float>(factor);
}

/// The logits of a head's decays, and HGRN2's keys 1 - alpha.
void CpuLinearMixer::split_channels(std::int64_t row, const float* logit, std::int64_t head, float* key) {
  const std::int64_t dim = mixer_.key_dim;
  float* const to = channel_decay_.data() + ((row / length_ * mixer_.key_heads + head) * length_ + row % length_) * dim;
  std::copy_n(logit, dim, to);
  if (mixer_.decay == LinearDecay::low_rank) {
    cpu_steps::add(weights_->decay_bias.data() + head * dim, dim, to);
    return;
  }
  for (std::int64_t n = 0; n < dim; ++n) key[n] = -logit[n];
  cpu_steps::sigmoids(dim, key);
  if (bound_.empty()) return;
  for (std::int64_t n = 0; n < dim; ++n) key[n] *= 1 - bound_[place(head * dim + n)];
}

/// Decays and beta of the heads.
void CpuLinearMixer::split_gates(std::int64_t row, const float* precise) {
  const std::int64_t sequence = row / length_;
  const std::int64_t position = row % length_;
  const float* const betas = precise + columns_.beta - columns_.precise;
  const float* const decays = precise + columns_.decay - columns_.precise;
  for (std::int64_t head = 0; head < mixer_.heads; ++head) {
    const std::size_t at = place((sequence * mixer_.heads + head) * length_ + position);
    if (mixer_.decay == LinearDecay::rate) {
      double step =
          softplus(static_cast<double>(decays[head]) + static_cast<double>(weights_->decay_bias[place(head)]));
      if (mixer_.beta == LinearBeta::step) {
        step = std::clamp(step, mixer_.lowest_step, mixer_.highest_step);
        beta_[at] = static_cast<float>(step);
      }
      log_decay_[at] = -step * std::exp(static_cast<double>(weights_->decay_rate[place(head)]));
    }
    if (mixer_.beta == LinearBeta::sigmoid) beta_[at] = cpu_steps::sigmoid(betas[head]);
    if (mixer_.beta == LinearBeta::twice_sigmoid) beta_[at] = 2 * cpu_steps::sigmoid(betas[head]);
  }
}

void CpuLinearMixer::sum_decays(int layer, std::span<const Probe> probes, std::int64_t first, CpuTeam& team) {
  check_steps(layer, first);
  change_decays(layer, probes, first, team);
  check_decays(layer, first);
}

/// What is not a number here would make everything after it so.
void CpuLinearMixer::check_steps(int layer, std::int64_t first) const {
  const auto bad = std::ranges::find_if(steps_, [](float step) { return !std::isfinite(step); });
  if (bad == steps_.end()) return;
  const std::ptrdiff_t index = bad - steps_.begin();
  throw_bad_beta({layer, static_cast<int>(index % mixer_.heads), first + index / mixer_.heads % length_}, mixer_,
                 static_cast<double>(*bad));
}

void CpuLinearMixer::check_decays(int layer, std::int64_t first) const {
  const auto place_of = [&](std::ptrdiff_t index, int heads) {
    const std::int64_t row = index % (heads * length_);
    return DecayPlace{layer, static_cast<int>(row / length_), first + row % length_};
  };
  const auto not_a_decay = [](auto alpha) { return !(alpha >= 0 && alpha <= 1.0001F); };
  if (const auto bad = std::ranges::find_if(channel_decay_, not_a_decay); bad != channel_decay_.end()) {
    throw_bad_decay(place_of((bad - channel_decay_.begin()) / mixer_.key_dim, mixer_.key_heads),
                    std::log(static_cast<double>(*bad)));
  }
  if (const auto bad = std::ranges::find_if(decay_, not_a_decay); bad != decay_.end()) {
    const std::ptrdiff_t index = bad - decay_.begin();
    throw_bad_decay(place_of(index, mixer_.heads), log_decay_[place(index)]);
  }
  if (const auto bad = std::ranges::find_if(beta_, [](float beta) { return !std::isfinite(beta); });
      bad != beta_.end()) {
    throw_bad_beta(place_of(bad - beta_.begin(), mixer_.heads), mixer_, static_cast<double>(*bad));
  }
}

void CpuLinearMixer::change_decays(int layer, std::span<const Probe> probes, std::int64_t first, CpuTeam& team) {
  if (mixer_.selects()) {
    change_steps(layer, probes, first, team);
    return;
  }
  const bool logarithms = needs_logarithms(layer, probes);
  if (mixer_.decays_by_channel()) {
    for (const Probe& probe : probes) {
      // The recorder makes its memory when it is first asked for it.
      if (probe.keeps(Keep::gates)) probe.recorder()->cumulative_log_decay(layer);
    }
    team.run(batch_ * mixer_.key_heads, [&](std::int64_t task, int /*thread*/) {
      const std::int64_t sequence = task / mixer_.key_heads;
      if (logarithms) {
        sum_channels(layer, probes[place(sequence)], first, sequence, task % mixer_.key_heads);
        return;
      }
      const std::int64_t dim = mixer_.key_dim;
      for (std::int64_t row = 0; row < length_; ++row) {
        float* const alpha = channel_decay_.data() + (task * length_ + row) * dim;
        cpu_steps::sigmoids(dim, alpha);
        if (!bound_.empty()) {
          const float* const bound = bound_.data() + task % mixer_.key_heads * dim;
          for (std::int64_t n = 0; n < dim; ++n) alpha[n] = bound[n] + (1 - bound[n]) * alpha[n];
        }
        if (mixer_.decay_factor != 1) {
          const auto factor = static_cast<float>(mixer_.decay_factor);
          for (std::int64_t n = 0; n < dim; ++n) alpha[n] = std::pow(alpha[n], factor);
        }
        if (!mixer_.lowest_log_decay) continue;
        const auto lowest = static_cast<float>(std::exp(*mixer_.lowest_log_decay));
        for (std::int64_t n = 0; n < dim; ++n) alpha[n] = std::max(alpha[n], lowest);
      }
    });
    return;
  }
  if (log_decay_.empty()) return;
  const std::size_t size = log_decay_.size() / place(batch_);
  for (std::size_t sequence = 0; sequence < probes.size(); ++sequence) {
    double* const log_decay = log_decay_.data() + sequence * size;
    const Probe& probe = probes[sequence];
    probe.change_gates(layer, mixer_.heads, first, length_, log_decay);
    if (!probe.keeps(Keep::gates)) continue;
    std::vector<double> sums(size);
    kernels::cpu::cumulative_log_gate(log_decay, mixer_.heads, length_, sums.data());
    probe.take_gates(layer, sums);
  }
  std::ranges::transform(log_decay_, decay_.begin(), [](double nats) { return static_cast<float>(std::exp(nats)); });
}

/// One head with its logarithms, in float64.
void CpuLinearMixer::sum_channels(int layer, const Probe& probe, std::int64_t first, std::int64_t sequence,
                                  std::int64_t head) {
  const std::int64_t dim = mixer_.key_dim;
  float* const decays = channel_decay_.data() + (sequence * mixer_.key_heads + head) * length_ * dim;
  double* const kept =
      probe.keeps(Keep::gates) ? probe.recorder()->cumulative_log_decay(layer).data() + head * length_ * dim : nullptr;
  std::vector<double> log_decay(place(mixer_.key_heads * length_));
  const auto own = std::span(log_decay).subspan(place(head * length_), place(length_));
  for (std::int64_t channel = 0; channel < dim; ++channel) {
    for (std::int64_t row = 0; row < length_; ++row) {
      const auto logit = static_cast<double>(decays[row * dim + channel]);
      double& nats = own[place(row)];
      nats = cpu_steps::log_sigmoid(logit) * mixer_.decay_factor;
      if (!bound_.empty()) {
        const auto bound = static_cast<double>(bound_[place(head * dim + channel)]);
        nats = std::log(bound + (1 - bound) / (1 + std::exp(-logit)));
      }
      if (mixer_.lowest_log_decay) nats = std::max(nats, *mixer_.lowest_log_decay);
    }
    probe.change_gates(layer, mixer_.key_heads, first, length_, log_decay.data());
    double sum = 0;
    for (std::int64_t row = 0; row < length_; ++row) {
      sum += own[place(row)];
      if (kept != nullptr) kept[row * dim + channel] = sum;
      decays[row * dim + channel] = static_cast<float>(std::exp(own[place(row)]));
    }
  }
}

/// The steps that decays have where probes change them, and what is kept of decays.
void CpuLinearMixer::change_steps(int layer, std::span<const Probe> probes, std::int64_t first, CpuTeam& team) {
  decay_steps_.clear();
  if (!needs_logarithms(layer, probes)) return;
  const ChannelRates rates(weights_->decay_rate, mixer_.heads);
  const bool changed = std::ranges::any_of(probes, [&](const Probe& probe) { return probe.changes_gates(layer); });
  if (changed) decay_steps_ = steps_;
  for (std::size_t sequence = 0; sequence < probes.size(); ++sequence) {
    const Probe& probe = probes[sequence];
    if (!probe.keeps(Keep::gates) && !probe.changes_gates(layer)) continue;
    sum_steps(layer, probe, rates, first, static_cast<std::int64_t>(sequence), team);
    if (probe.keeps(Keep::gates)) std::ranges::copy(rates.share, probe.recorder()->decay_rate(layer).begin());
  }
}

/// One sequence with the logarithms of its heads' decays, in float64.
void CpuLinearMixer::sum_steps(int layer, const Probe& probe, const ChannelRates& rates, std::int64_t first,
                               std::int64_t sequence, CpuTeam& team) {
  constexpr std::int64_t kHeadsOfTask = 64;
  const std::int64_t heads = mixer_.heads;
  const std::int64_t tasks = (heads + kHeadsOfTask - 1) / kHeadsOfTask;
  std::vector<double> own(probe.keeps(Keep::gates) ? 0 : place(heads * length_));
  double* const nats = probe.keeps(Keep::gates) ? probe.recorder()->cumulative_log_gate(layer).data() : own.data();
  const auto for_heads = [&](const auto& body) {
    team.run(tasks, [&](std::int64_t task, int /*thread*/) {
      for (std::int64_t row = 0; row < length_; ++row) {
        const std::int64_t end = std::min((task + 1) * kHeadsOfTask, heads);
        for (std::int64_t head = task * kHeadsOfTask; head < end; ++head) {
          body(head, row, (sequence * length_ + row) * heads + head);
        }
      }
    });
  };
  for_heads([&](std::int64_t head, std::int64_t row, std::int64_t step) {
    nats[head * length_ + row] = -static_cast<double>(steps_[place(step)]) * rates.mean[place(head)];
  });
  if (probe.changes_gates(layer)) {
    probe.change_gates(layer, mixer_.heads, first, length_, nats);
    rates.hold_all(length_, nats);
    for_heads([&](std::int64_t head, std::int64_t row, std::int64_t step) {
      const double mean = rates.mean[place(head)];
      if (mean > 0) decay_steps_[place(step)] = static_cast<float>(-nats[head * length_ + row] / mean);
    });
  }
  if (!probe.keeps(Keep::gates)) return;
  for_heads([&](std::int64_t head, std::int64_t row, std::int64_t /*step*/) {
    if (row > 0) nats[head * length_ + row] += nats[head * length_ + row - 1];
  });
}

bool CpuLinearMixer::mix(std::int64_t sequence, float* state, float* output, CpuTeam& team, const Job& job) {
  const auto part = [&](FloatArray& values) {
    return values.empty() ? nullptr : values.data() + place(sequence) * (values.size() / place(batch_));
  };
  if (state == nullptr) {
    state_.assign(place(mixer_.heads * static_cast<std::int64_t>(mixer_.key_dim) * mixer_.value_dim), 0.0F);
    state = state_.data();
  }
  if (mixer_.selects()) return scan(sequence, state, output, team, job);
  const Heads& heads = heads_[place(sequence)];
  kernels::cpu::LinearMixing arguments;
  arguments.heads = mixer_.heads;
  arguments.query_heads = mixer_.query_heads;
  arguments.key_heads = mixer_.key_heads;
  arguments.value_heads = mixer_.value_heads;
  arguments.length = length_;
  arguments.key_dim = mixer_.key_dim;
  arguments.value_dim = mixer_.value_dim;
  arguments.query = heads.query;
  arguments.key = heads.key;
  arguments.value = heads.value;
  arguments.decay = part(decay_);
  arguments.channel_decay = part(channel_decay_);
  arguments.beta = part(beta_);
  arguments.delta_rule = mixer_.is_delta_rule();
  arguments.state = state;
  arguments.output = output;
  arguments.output_stride = mixer_.output_size();
  const kernels::Status status = kernels::cpu::linear_mixing(arguments, team, job.stop);
  if (status == kernels::Status::invalid_argument) {
    throw ShapeError(fmt::format("[linear_mixing] {} heads of {} and {} over {} positions are not supported",
                                 mixer_.heads, mixer_.key_dim, mixer_.value_dim, length_));
  }
  return status == kernels::Status::ok;
}

bool CpuLinearMixer::scan(std::int64_t sequence, float* state, float* output, CpuTeam& team, const Job& job) {
  const std::int64_t at = sequence * length_ * mixer_.heads;
  kernels::cpu::SelectiveScan arguments;
  arguments.channels = mixer_.heads;
  arguments.length = length_;
  arguments.state_size = mixer_.key_dim;
  arguments.input = inputs_.data() + at;
  arguments.step = steps_.data() + at;
  arguments.decay_step = decay_steps_.empty() ? nullptr : decay_steps_.data() + at;
  arguments.rate = weights_->state_rates.data();
  arguments.key = heads_[place(sequence)].key;
  arguments.query = heads_[place(sequence)].query;
  arguments.state = state;
  arguments.output = output;
  arguments.output_stride = mixer_.output_size();
  return kernels::cpu::selective_scan(arguments, team, job.stop) == kernels::Status::ok;
}

void CpuLinearMixer::keep(int layer, std::int64_t sequence, const Probe& probe) const {
  if (!probe.keeps(Keep::query_key)) return;
  const std::span<float> kept = probe.recorder()->beta(layer);
  if (mixer_.selects()) {
    const auto with_heads_first = [&](const FloatArray& rows, float* to) {
      for (std::int64_t head = 0; head < mixer_.heads; ++head) {
        const float* const from = rows.data() + sequence * length_ * mixer_.heads + head;
        for (std::int64_t row = 0; row < length_; ++row) to[head * length_ + row] = from[row * mixer_.heads];
      }
    };
    with_heads_first(steps_, kept.data());
    if (float* const values = probe.stored(TraceArray::value, layer)) with_heads_first(inputs_, values);
    return;
  }
  if (beta_.empty()) {
    std::ranges::fill(kept, 1.0F);
  } else {
    std::copy_n(beta_.begin() + sequence * std::ssize(kept), kept.size(), kept.begin());
  }
}

void CpuLinearMixer::finish(std::int64_t row, float* mixed) const {
  const std::int64_t size = mixer_.output_size();
  const std::int64_t dim = mixer_.value_dim;
  if (mixer_.selects()) {
    const float* const values = inputs(row);
    for (std::int64_t head = 0; head < mixer_.heads; ++head) mixed[head] += weights_->skip[place(head)] * values[head];
  } else if (mixer_.skip != LinearSkip::none) {
    const float* const values = heads_[place(row / length_)].value;
    for (std::int64_t head = 0; head < mixer_.heads; ++head) {
      const float* const value = values + (head / (mixer_.heads / mixer_.value_heads) * length_ + row % length_) * dim;
      const bool by_head = mixer_.skip == LinearSkip::head;
      const float* const factor = weights_->skip.data() + (by_head ? head : head * dim);
      float* const to = mixed + head * dim;
      for (std::int64_t n = 0; n < dim; ++n) to[n] += factor[by_head ? 0 : n] * value[n];
    }
  }
  const float* const gate = gate_.data() + row * size;
  if (mixer_.gate == LinearGate::before_norm) cpu_steps::multiply_silu(gate, size, mixed);
  if (mixer_.norm_size > 0) {
    const bool shared = std::ssize(weights_->output_norm) == mixer_.norm_size;
    for (std::int64_t first = 0; first < size; first += mixer_.norm_size) {
      cpu_steps::rms_norm(mixed + first, weights_->output_norm.data() + (shared ? 0 : first), mixer_.norm_size,
                          static_cast<float>(mixer_.norm_epsilon), mixed + first);
    }
  }
  if (mixer_.gate == LinearGate::after_norm) cpu_steps::multiply_silu(gate, size, mixed);
}

}  // namespace foxscope
