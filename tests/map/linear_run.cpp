#include "tests/map/linear_run.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "backend/base/index.h"
#include "backend/trace/recorder.h"

namespace foxscope::test {
namespace {

/// Queries, keys, decays and beta of one head in float64.
struct LinearHead {
  explicit LinearHead(const HeadOf& head) {
    const Trace& trace = *head.trace;
    mixer = trace.info().mixer(head.layer);
    length = trace.info().length;
    const QueryKeyStore& store = trace.require_query_key();
    std::vector<float> scratch;
    const auto q = store.rows(TraceArray::query, head.layer, shared_head(mixer.heads, mixer.query_heads, head.head), 0,
                              length, scratch);
    query.assign(q.begin(), q.end());
    const auto k = store.rows(TraceArray::key, head.layer, shared_head(mixer.heads, mixer.key_heads, head.head), 0,
                              length, scratch);
    key.assign(k.begin(), k.end());
    own_step = head.head % mixer.steps();
    for (int step = 0; step < mixer.steps() && mixer.steps() > 1; ++step) {
      const int other = head.head - own_step + step;
      const auto keys = store.rows(TraceArray::key, head.layer, other, 0, length, scratch);
      step_keys.emplace_back(keys.begin(), keys.end());
      const auto betas = trace.beta(head.layer, other);
      step_betas.emplace_back(betas.begin(), betas.end());
    }
    if (mixer.decay == Decay::head) {
      const auto c = trace.cumulative_log_gate(head.layer, head.head);
      sums.assign(c.begin(), c.end());
    } else if (mixer.decays_by_channel()) {
      const ChannelSums p = trace.cumulative_log_decay(head.layer, head.head);
      sums.assign(p.values.begin(), p.values.end());
    }
    if (mixer.mixer == Mixer::diagonal_plus_low_rank) {
      const auto e = trace.erase_read(head.layer, head.head);
      erase_read.assign(e.begin(), e.end());
      const auto b = trace.erase_write(head.layer, head.head);
      erase_write.assign(b.begin(), b.end());
    } else if (mixer.mixer != Mixer::gated_linear_attention) {
      const auto b = trace.beta(head.layer, head.head);
      beta.assign(b.begin(), b.end());
    }
  }

  [[nodiscard]] double decay(std::int64_t position, int channel) const {
    if (mixer.decay == Decay::none) return 1;
    const bool by_channel = mixer.decays_by_channel();
    const std::int64_t step = by_channel ? mixer.head_dim : 1;
    const auto at = static_cast<std::size_t>(position * step + (by_channel ? channel : 0));
    return std::exp(sums[at] - sums[at - static_cast<std::size_t>(step)]);
  }
  [[nodiscard]] double beta_at(std::int64_t position) const { return beta.empty() ? 1 : beta[index_of(position)]; }
  [[nodiscard]] double dot(const std::vector<double>& of, std::int64_t position, const std::vector<double>& w) const {
    double sum = 0;
    for (std::size_t n = 0; n < w.size(); ++n) sum += of[static_cast<std::size_t>(position) * w.size() + n] * w[n];
    return sum;
  }
  [[nodiscard]] std::vector<double> written(std::int64_t position) const {
    const auto width = static_cast<std::size_t>(mixer.head_dim);
    const auto first = key.begin() + static_cast<std::ptrdiff_t>(position) * mixer.head_dim;
    std::vector<double> w(first, first + mixer.head_dim);
    for (std::size_t n = 0; n < width; ++n) w[n] *= beta_at(position);
    for (std::size_t other = index_of(own_step) + 1; other < step_keys.size(); ++other) erase(other, position, w);
    return w;
  }
  /// Takes away what a step of a position erases.
  void erase(std::size_t other, std::int64_t position, std::vector<double>& w) const {
    const std::vector<double>& keys = step_keys[other];
    const double overlap = step_betas[other][index_of(position)] * dot(keys, position, w);
    for (std::size_t n = 0; n < w.size(); ++n) {
      w[n] -= overlap * keys[static_cast<std::size_t>(position) * w.size() + n];
    }
  }
  void step(std::int64_t position, std::vector<double>& w) const {
    const double erased = erase_read.empty() ? 0 : dot(erase_read, position, w);
    for (std::size_t n = 0; n < w.size(); ++n) {
      w[n] *= decay(position, static_cast<int>(n));
      if (!erase_write.empty()) w[n] += erase_write[static_cast<std::size_t>(position) * w.size() + n] * erased;
    }
    for (std::size_t other = 0; other < step_keys.size(); ++other) erase(other, position, w);
    if (mixer.mixer != Mixer::delta_rule) return;
    const double overlap = beta_at(position) * dot(key, position, w);
    for (std::size_t n = 0; n < w.size(); ++n) {
      w[n] -= overlap * key[static_cast<std::size_t>(position) * w.size() + n];
    }
  }

  LayerMixer mixer;
  std::int64_t length = 0;
  int own_step = 0;
  std::vector<std::vector<double>> step_keys, step_betas;  ///< of all steps of a position; empty where it has one
  std::vector<double> query;
  std::vector<double> key;
  std::vector<double> sums;
  std::vector<double> beta;
  std::vector<double> erase_read;
  std::vector<double> erase_write;
};

}  // namespace

LayerMixer mamba2_mixer(int head_dim) { return {Mixer::mamba2, Decay::head, 4, 1, 1, 4, head_dim, 8}; }
LayerMixer gla_mixer(int head_dim) { return {Mixer::gated_linear_attention, Decay::channel, 4, 4, 2, 2, head_dim, 8}; }
LayerMixer delta_mixer(int head_dim) { return {Mixer::delta_rule, Decay::none, 2, 2, 2, 2, head_dim, 8}; }
LayerMixer gated_delta_mixer(int head_dim) { return {Mixer::delta_rule, Decay::head, 4, 2, 2, 4, head_dim, 8}; }
LayerMixer channel_delta_mixer(int head_dim) { return {Mixer::delta_rule, Decay::channel, 4, 2, 2, 4, head_dim, 8}; }
LayerMixer low_rank_mixer(int head_dim) {
  return {Mixer::diagonal_plus_low_rank, Decay::channel, 4, 2, 2, 4, head_dim, 8};
}
LayerMixer comba_mixer(int head_dim) { return {Mixer::diagonal_plus_low_rank, Decay::head, 4, 4, 2, 4, head_dim, 8}; }
LayerMixer delta_product_mixer(int head_dim) { return {Mixer::delta_product, Decay::head, 6, 2, 6, 6, head_dim, 8}; }
LayerMixer linear_attention_mixer(int head_dim) {
  return {Mixer::gated_linear_attention, Decay::none, 4, 4, 2, 2, head_dim, 8};
}
LayerMixer retention_mixer(int head_dim) {
  return {Mixer::gated_linear_attention, Decay::head, 4, 4, 2, 2, head_dim, 8};
}
LayerMixer rg_lru_mixer() { return {Mixer::mamba, Decay::head, 6, 1, 1, 6, 1, 1}; }
LayerMixer mamba_mixer(int head_dim) { return {Mixer::mamba, Decay::rates, 6, 1, 1, 6, head_dim, 1}; }
std::vector<LayerMixer> linear_mixers() {
  return {mamba2_mixer(),           gla_mixer(),       delta_mixer(),  gated_delta_mixer(),
          channel_delta_mixer(),    low_rank_mixer(),  comba_mixer(),  mamba_mixer(),
          linear_attention_mixer(), retention_mixer(), rg_lru_mixer(), delta_product_mixer()};
}

std::shared_ptr<const Trace> make_linear_run(const LinearShape& shape) {
  TraceInfo info;
  info.name = "linear";
  info.length = shape.length;
  info.set_mixers({shape.mixer});
  auto store = std::make_shared<HostQueryKeyStore>(info, shape.dtype, std::size_t{1} << 40U, "/tmp");
  Recorder recorder(info, {Keep::gates, Keep::query_key}, store);
  std::mt19937_64 random(shape.seed);
  std::normal_distribution<float> normal;
  std::uniform_real_distribution<double> uniform(0.0, 1.0);
  const auto width = static_cast<std::size_t>(shape.mixer.head_dim);
  const bool unit_keys = shape.mixer.mixer == Mixer::delta_rule || shape.mixer.mixer == Mixer::delta_product;
  for (const TraceArray part : {TraceArray::query, TraceArray::key}) {
    const std::span<std::byte> bytes = store->layer(part, 0);
    std::vector<float> numbers(bytes.size() / static_cast<std::size_t>(size_of(shape.dtype)));
    for (float& number : numbers) number = normal(random);
    for (std::size_t row = 0; row < numbers.size() && unit_keys; row += width) {
      const std::span<float> key = std::span(numbers).subspan(row, width);
      double square = 0;
      for (const float number : key) square += static_cast<double>(number) * static_cast<double>(number);
      for (float& number : key) number /= static_cast<float>(std::sqrt(square));
    }
    if (part == TraceArray::query && shape.nan_query >= 0) {
      numbers[static_cast<std::size_t>(shape.nan_query) * width + 3] = std::numeric_limits<float>::quiet_NaN();
    }
    if (shape.dtype == DType::float32) {
      std::memcpy(bytes.data(), numbers.data(), bytes.size());
      continue;
    }
    for (std::size_t n = 0; n < numbers.size(); ++n) {
      const std::uint16_t bits = to_bfloat16(numbers[n]);
      std::memcpy(bytes.data() + 2 * n, &bits, 2);
    }
  }
  // Each head, or channel, forgets at a rate of its own, from the largest down to a thousandth of it.
  const auto fill = [&](std::span<double> sums, std::size_t channels) {
    const std::size_t rows = sums.size() / (channels * static_cast<std::size_t>(shape.length));
    for (std::size_t row = 0; row < rows; ++row) {
      for (std::size_t channel = 0; channel < channels; ++channel) {
        const double rate = shape.largest_decay * std::pow(10.0, -3.0 * uniform(random));
        double sum = 0;
        for (std::size_t t = 0; t < static_cast<std::size_t>(shape.length); ++t) {
          sum -= 2 * rate * uniform(random);
          sums[(row * static_cast<std::size_t>(shape.length) + t) * channels + channel] = sum;
        }
      }
    }
  };
  fill(recorder.cumulative_log_gate(0), 1);
  // Steps have one decay.
  const auto steps = static_cast<std::size_t>(shape.mixer.steps());
  const std::span<double> gates = recorder.cumulative_log_gate(0);
  const auto row_length = static_cast<std::size_t>(shape.length);
  for (std::size_t n = 0; n < gates.size() && steps > 1; ++n) {
    gates[n] = gates[n / row_length / steps * steps * row_length + n % row_length];
  }
  fill(recorder.cumulative_log_decay(0), width);
  // Rates of a head from a fourth of the fastest on, with a mean of 1.
  const std::span<double> rates = recorder.decay_rate(0);
  for (std::size_t head = 0; head < rates.size(); head += width) {
    double sum = 0;
    for (double& rate : rates.subspan(head, width)) sum += rate = 0.25 + uniform(random);
    for (double& rate : rates.subspan(head, width)) rate *= static_cast<double>(width) / sum;
  }
  for (float& beta : recorder.beta(0)) beta = static_cast<float>(uniform(random));
  // As RWKV-7 has them: e of length 1, b against it, each channel by a rate of its own in (0, 1).
  const std::span<float> read = recorder.array<float>(TraceArray::erase_read, 0);
  const std::span<float> write = recorder.array<float>(TraceArray::erase_write, 0);
  for (std::size_t first = 0; first < read.size(); first += width) {
    double square = 0;
    for (float& number : read.subspan(first, width)) {
      number = normal(random);
      square += static_cast<double>(number) * static_cast<double>(number);
    }
    for (std::size_t n = first; n < first + width; ++n) {
      read[n] /= static_cast<float>(std::sqrt(square));
      write[n] = -read[n] * static_cast<float>(uniform(random));
    }
  }
  auto tokens = std::make_shared<TokenTable>();
  for (std::int32_t position = 0; position < shape.length; ++position) {
    tokens->input_id.push_back(position % 50);
    tokens->id.push_back(position + 1);
  }
  return recorder.finish(nullptr, tokens);
}

std::vector<double> dense_mixing(const HeadOf& head, const Range& rows) {
  const LinearHead of(head);
  std::vector<double> entries(static_cast<std::size_t>(rows.size() * of.length),
                              std::numeric_limits<double>::quiet_NaN());
  for (std::int64_t key = 0; key < rows.end; ++key) {
    std::vector<double> w = of.written(key);
    for (std::int64_t row = key; row < rows.end; ++row) {
      if (row > key) of.step(row, w);
      if (row >= rows.begin) {
        entries[index_of((row - rows.begin) * of.length + key)] = of.dot(of.query, row, w);
      }
    }
  }
  return entries;
}

double mixing_entry(const HeadOf& head, std::int64_t row, std::int64_t key) {
  const LinearHead of(head);
  std::vector<double> w = of.written(key);
  for (std::int64_t t = key + 1; t <= row; ++t) of.step(t, w);
  return of.dot(of.query, row, w);
}

}  // namespace foxscope::test
