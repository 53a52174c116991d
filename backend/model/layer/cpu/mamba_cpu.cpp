#include "backend/model/layer/cpu/mamba_cpu.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <numeric>

#include "backend/model/layer/cpu/cpu_steps.h"
#include "kernels/cpu/selective_scan.h"

namespace foxscope {
namespace {

/// x / sqrt(mean(x^2) + epsilon), in place.
void norm_selected(std::int64_t size, double epsilon, float* x) {
  const double squares = std::inner_product(x, x + size, x, 0.0);
  const auto factor = static_cast<float>(1 / std::sqrt(squares / static_cast<double>(size) + epsilon));
  for (std::int64_t n = 0; n < size; ++n) x[n] *= factor;
}

/// out = bias + u W of blocks of channels.
/// @param weight  [blocks, size, size], [in, out]
void multiply_blocks(const float* u, const float* weight, const float* bias, std::int64_t heads, std::int64_t size,
                     float* out) {
  std::copy_n(bias, heads, out);
  for (std::int64_t in = 0; in < heads; ++in) {
    float* const to = out + in / size * size;
    for (std::int64_t n = 0; n < size; ++n) to[n] += u[in] * weight[in * size + n];
  }
}

}  // namespace

MambaCpu::MambaCpu(CpuPass& pass)
    : pass_(pass),
      mixer_(*pass.config().linear),
      length_(pass.length()),
      heads_(mixer_.heads),
      convolution_(pass),
      gate_(index_of(pass.rows() * heads_)),
      inputs_(gate_.size()),
      steps_(gate_.size()) {
  assert(mixer_.gate == LinearGate::before_norm && mixer_.norm_size == 0);
  if (mixer_.is_gated_recurrence()) decay_steps_.resize(steps_.size());
  pass.need({.normed = mixer_.x_proj_size(), .output = heads_});
}

void MambaCpu::lay_out(const LinearMixer& mixer, LayerWeights& weights) {
  if (mixer.is_gated_recurrence()) {
    weights.state_rates.assign(index_of(mixer.heads), 1.0F);
    return;
  }
  const auto dim = static_cast<std::size_t>(mixer.key_dim);
  const std::size_t heads = weights.decay_rate.size() / dim;
  weights.state_rates.resize(weights.decay_rate.size());
  for (std::size_t n = 0; n < weights.decay_rate.size(); ++n) {
    weights.state_rates[n % dim * heads + n / dim] = std::exp(weights.decay_rate[n]);
  }
}

bool MambaCpu::project(int layer) {
  CpuWorkspace& memory = pass_.memory();
  pass_.find_places(TraceArray::query, layer, mixer_.query_size() * length_, memory.query, queries_);
  pass_.find_places(TraceArray::key, layer, mixer_.key_size() * length_, memory.key, keys_);
  pass_.pack(0, pass_.rows(), pass_.weights(layer).projection, pass_.hidden());
  slowest_.clear();
  for (std::int64_t head = 0; head < heads_ && mixer_.is_gated_recurrence(); ++head) {
    slowest_.push_back(mixer_.recurrent_log_decay(pass_.weights(layer).decay_rate[index_of(head)]));
  }
  return pass_.for_rows([&](const CpuPass::Rows& rows) {
    project_rows(layer, rows);
    mixer_.is_gated_recurrence() ? gate_rows(layer, rows) : select_rows(layer, rows);
  });
}

/// The gate of the output, and the values.
void MambaCpu::project_rows(int layer, const CpuPass::Rows& rows) {
  const ConvolutionCpu::Projected projected = convolution_.project(layer, rows);
  for (std::int64_t row = rows.begin; row < rows.end; ++row) {
    std::copy_n(convolution_.row_of(projected, row), heads_, gate_.data() + row * heads_);
    float* const values = inputs_.data() + row * heads_;
    convolution_.convolve(layer, projected, row, values);
    if (mixer_.value_activation == LinearActivation::silu) cpu_steps::silu(heads_, values);
  }
  convolution_.keep_windows(layer, projected);
}

/// Computes dt, by way of a low rank, keys and queries from the values.
void MambaCpu::select_rows(int layer, const CpuPass::Rows& rows) {
  const LayerWeights& weights = pass_.weights(layer);
  const std::int64_t size = mixer_.x_proj_size();
  float* const selected = rows.scratch.normed.data();
  pass_.multiply({.rows = rows.count(),
                  .columns = size,
                  .depth = heads_,
                  .in = inputs_.data() + rows.begin * heads_,
                  .in_stride = heads_,
                  .weight = weights.x_proj.data(),
                  .out = selected,
                  .out_stride = size});
  for (std::int64_t row = 0; row < rows.count() && mixer_.selected_norm_epsilon; ++row) {
    float* own = selected + row * size;
    for (const std::int64_t part : {std::int64_t{mixer_.decay_rank}, mixer_.key_size(), mixer_.query_size()}) {
      norm_selected(part, *mixer_.selected_norm_epsilon, own);
      own += part;
    }
  }
  pass_.multiply({.rows = rows.count(),
                  .columns = heads_,
                  .depth = mixer_.decay_rank,
                  .in = selected,
                  .in_stride = size,
                  .weight = weights.decay_up.data(),
                  .out = steps_.data() + rows.begin * heads_,
                  .out_stride = heads_});
  const std::int64_t dim = mixer_.key_dim;
  for (std::int64_t row = rows.begin; row < rows.end; ++row) {
    cpu_steps::softplus(weights.decay_bias.data(), heads_, steps_.data() + row * heads_);
    const float* const own = selected + (row - rows.begin) * size + mixer_.decay_rank;
    const std::size_t sequence = index_of(row / length_);
    std::copy_n(own, dim, keys_[sequence] + row % length_ * dim);
    std::copy_n(own + dim, dim, queries_[sequence] + row % length_ * dim);
  }
}

/// Decays and what is written of the values of RG-LRU, by two gates: log alpha = r times the slowest, beta = i sqrt(1 -
/// alpha^2). The first position of a text has no state to share with.
void MambaCpu::gate_rows(int layer, const CpuPass::Rows& rows) {
  const LayerWeights& weights = pass_.weights(layer);
  const std::int64_t block = heads_ / mixer_.gate_blocks;
  float* const gates = rows.scratch.normed.data();
  for (std::int64_t row = rows.begin; row < rows.end; ++row) {
    const float* const values = inputs_.data() + row * heads_;
    multiply_blocks(values, weights.x_proj.data(), weights.x_proj_bias.data(), heads_, block, gates);
    multiply_blocks(values, weights.x_proj.data() + heads_ * block, weights.x_proj_bias.data() + heads_, heads_, block,
                    gates + heads_);
    cpu_steps::sigmoids(2 * heads_, gates);
    const bool first = pass_.first_position(row / length_) + row % length_ == 0;
    for (std::int64_t head = 0; head < heads_; ++head) {
      const double nats = static_cast<double>(gates[head]) * slowest_[index_of(head)];
      decay_steps_[index_of(row * heads_ + head)] = static_cast<float>(-nats);
      const double left = first ? 1 : std::sqrt(-std::expm1(2 * nats));
      steps_[index_of(row * heads_ + head)] = static_cast<float>(static_cast<double>(gates[heads_ + head]) * left);
    }
    keys_[index_of(row / length_)][row % length_] = 1;
    queries_[index_of(row / length_)][row % length_] = 1;
  }
}

/// The steps that decays have where probes change them, and what is kept of decays.
void MambaCpu::sum_gates(int layer) {
  check_steps(layer);
  const bool recurrent = mixer_.is_gated_recurrence();
  if (!recurrent) decay_steps_.clear();
  const bool changed = pass_.changes_gates(layer);
  if (!changed && !pass_.keeps(Keep::gates)) return;
  const FloatArray unit(recurrent ? index_of(heads_) : 0);  // exp(0) = 1
  const ChannelRates rates(recurrent ? unit : pass_.weights(layer).decay_rate, mixer_.heads);
  if (changed && !recurrent) decay_steps_ = steps_;
  for (std::int64_t sequence = 0; sequence < pass_.batch(); ++sequence) {
    const Probe& probe = pass_.probes()[index_of(sequence)];
    if (!probe.keeps(Keep::gates) && !probe.changes_gates(layer)) continue;
    sum_steps(layer, sequence, rates);
    if (!recurrent && probe.keeps(Keep::gates)) {
      std::ranges::copy(rates.share, probe.recorder()->decay_rate(layer).begin());
    }
  }
}

/// A step that is no number would spoil every later position.
void MambaCpu::check_steps(int layer) const {
  const auto bad = std::ranges::find_if(steps_, [](float step) { return !std::isfinite(step); });
  if (bad == steps_.end()) return;
  const std::ptrdiff_t index = bad - steps_.begin();
  throw_bad_beta({layer, static_cast<int>(index % heads_), pass_.first_position() + index / heads_ % length_}, mixer_,
                 static_cast<double>(*bad));
}

/// One sequence with the logarithms of its heads' decays, in float64.
void MambaCpu::sum_steps(int layer, std::int64_t sequence, const ChannelRates& rates) {
  constexpr std::int64_t kHeadsOfTask = 64;
  const Probe& probe = pass_.probes()[index_of(sequence)];
  const std::int64_t tasks = (heads_ + kHeadsOfTask - 1) / kHeadsOfTask;
  std::vector<double> own(probe.keeps(Keep::gates) ? 0 : index_of(heads_ * length_));
  double* const nats = probe.keeps(Keep::gates) ? probe.recorder()->cumulative_log_gate(layer).data() : own.data();
  const auto for_heads = [&](const auto& body) {
    pass_.team().run(tasks, [&](std::int64_t task, int /*thread*/) {
      for (std::int64_t row = 0; row < length_; ++row) {
        const std::int64_t end = std::min((task + 1) * kHeadsOfTask, heads_);
        for (std::int64_t head = task * kHeadsOfTask; head < end; ++head) {
          body(head, row, (sequence * length_ + row) * heads_ + head);
        }
      }
    });
  };
  const FloatArray& decaying = decay_steps_.empty() ? steps_ : decay_steps_;
  for_heads([&](std::int64_t head, std::int64_t row, std::int64_t step) {
    nats[head * length_ + row] = -static_cast<double>(decaying[index_of(step)]) * rates.mean[index_of(head)];
  });
  if (probe.changes_gates(layer)) {
    probe.change_gates(layer, mixer_.heads, pass_.first_position(), length_, nats);
    rates.hold_all(length_, nats);
    for_heads([&](std::int64_t head, std::int64_t row, std::int64_t step) {
      const double mean = rates.mean[index_of(head)];
      if (mean > 0) decay_steps_[index_of(step)] = static_cast<float>(-nats[head * length_ + row] / mean);
    });
  }
  if (!probe.keeps(Keep::gates)) return;
  for_heads([&](std::int64_t head, std::int64_t row, std::int64_t /*step*/) {
    if (row > 0) nats[head * length_ + row] += nats[head * length_ + row - 1];
  });
}

/// y of every position; the state takes them up.
bool MambaCpu::attend(int layer) {
  for (std::int64_t sequence = 0; sequence < pass_.batch(); ++sequence) {
    if (!scan(layer, sequence)) return false;
    if (!pass_.continues()) keep_inputs(layer, sequence);
  }
  return true;
}

bool MambaCpu::scan(int layer, std::int64_t sequence) {
  if (!pass_.has_states()) state_.assign(index_of(mixer_.state_size()), 0.0F);
  const std::int64_t at = sequence * length_ * heads_;
  kernels::cpu::SelectiveScan arguments;
  arguments.channels = heads_;
  arguments.length = length_;
  arguments.state_size = mixer_.key_dim;
  arguments.input = inputs_.data() + at;
  arguments.step = steps_.data() + at;
  arguments.decay_step = decay_steps_.empty() ? nullptr : decay_steps_.data() + at;
  arguments.rate = pass_.weights(layer).state_rates.data();
  arguments.key = keys_[index_of(sequence)];
  arguments.query = queries_[index_of(sequence)];
  arguments.state = pass_.has_states() ? pass_.layer_state(layer, sequence).recurrent.data() : state_.data();
  arguments.output = pass_.memory().attended.data() + at;
  arguments.output_stride = heads_;
  return kernels::cpu::selective_scan(arguments, pass_.team(), pass_.job().stop) == kernels::Status::ok;
}

/// Hands over what the probe of a sequence keeps of steps and values, heads first.
void MambaCpu::keep_inputs(int layer, std::int64_t sequence) const {
  const Probe& probe = pass_.probes()[index_of(sequence)];
  if (!probe.keeps(Keep::query_key)) return;
  const auto with_heads_first = [&](const FloatArray& rows, float* to) {
    for (std::int64_t head = 0; head < heads_; ++head) {
      const float* const from = rows.data() + sequence * length_ * heads_ + head;
      for (std::int64_t row = 0; row < length_; ++row) to[head * length_ + row] = from[row * heads_];
    }
  };
  with_heads_first(steps_, probe.recorder()->beta(layer).data());
  if (float* const values = probe.stored(TraceArray::value, layer)) with_heads_first(inputs_, values);
}

/// x += W_o ((y + D v) act(z)).
bool MambaCpu::project_output(int layer) {
  const LayerWeights& weights = pass_.weights(layer);
  pass_.find_cut_heads(layer);
  pass_.pack(0, pass_.rows(), weights.output, heads_);
  return pass_.for_rows([&](const CpuPass::Rows& rows) {
    float* const all = pass_.memory().attended.data();
    for (std::int64_t row = rows.begin; row < rows.end; ++row) {
      float* const mixed = all + row * heads_;
      const float* const values = inputs_.data() + row * heads_;
      for (std::size_t head = 0; head < weights.skip.size(); ++head) mixed[head] += weights.skip[head] * values[head];
      float* const gate = gate_.data() + row * heads_;
      if (mixer_.gate_activation == LinearActivation::gelu_tanh) {
        cpu_steps::geglu(mixed, heads_, gate);
        std::copy_n(gate, heads_, mixed);
      } else {
        cpu_steps::multiply_silu(gate, heads_, mixed);
      }
      pass_.cut_heads(row, 1, mixed);
    }
    pass_.add_to_residual(rows, {all + rows.begin * heads_, heads_, heads_}, weights.output, weights.output_bias);
  });
}

}  // namespace foxscope
