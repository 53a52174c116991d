#include "tests/file/synthetic_trace.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>

#include "backend/base/index.h"
#include "backend/base/sha256.h"

namespace foxscope::test {
namespace {

using Part = QueryKeyStore::Part;

constexpr std::size_t kNeverSpill = std::size_t{1} << 40U;

void fill_stored(Recorder& recorder, const SyntheticRun& run, int layer, std::mt19937& random) {
  std::normal_distribution<float> normal;
  for (const Part part : {Part::query, Part::key, Part::value}) {
    const std::span<std::byte> bytes = recorder.stored(part, layer);
    for (std::size_t offset = 0; offset < bytes.size(); offset += size_of(run.dtype)) {
      const float value = normal(random);
      if (run.dtype == DType::float32) {
        std::memcpy(bytes.data() + offset, &value, 4);
      } else {
        const std::uint16_t bits = to_bfloat16(value);
        std::memcpy(bytes.data() + offset, &bits, 2);
      }
    }
  }
}

/// log f = -softplus(-x): slow decay with a few strong forgetting events.
std::vector<double> random_gates(const SyntheticRun& run, int heads, bool gated, std::mt19937& random) {
  std::vector<double> c(static_cast<std::size_t>(heads * run.length));
  std::normal_distribution<double> normal(3.0, 2.0);
  for (int head = 0; head < heads; ++head) {
    double sum = 0;
    for (std::int64_t i = 0; i < run.length; ++i) {
      if (gated) sum -= static_cast<double>(static_cast<float>(std::log1p(std::exp(-normal(random)))));
      c[index_of(head * run.length + i)] = sum;
    }
  }
  return c;
}

/// Each position of each head of keys passes keys on by e of length 1 and b = -beta e.
void fill_directions(Recorder& recorder, int layer, std::mt19937& random) {
  const LayerMixer mixer = recorder.info().mixer(layer);
  if (!mixer.path) return;
  std::normal_distribution<float> normal;
  std::uniform_real_distribution<float> uniform(0, 2);
  const std::span<float> read = recorder.array<float>(TraceArray::erase_read, layer);
  const std::span<float> write = recorder.array<float>(TraceArray::erase_write, layer);
  const auto dim = static_cast<std::size_t>(mixer.head_dim);
  for (std::size_t first = 0; first < read.size(); first += dim) {
    float sum = 0;
    for (float& number : read.subspan(first, dim)) {
      number = normal(random);
      sum += number * number;
    }
    const float beta = uniform(random);
    for (std::size_t n = first; n < first + dim; ++n) {
      read[n] /= std::sqrt(sum);
      write[n] = -beta * read[n];
    }
  }
}

/// lse_i = log sum_j exp(s q_i.k_j + c_i - c_j), densely, with the sinks' exponentials; zero where q and k are not
/// kept. Keys are passed on by e and b where these are not empty.
void fill_log_normalizer(const std::vector<double>& c, std::span<const float> sinks, const HostQueryKeyStore* store,
                         const TraceInfo& run, int layer, bool with_gate, std::span<const float> read,
                         std::span<const float> write, std::span<float> normalizer) {
  if (store == nullptr || !store->has(Part::query) || normalizer.empty()) return;
  const LayerMixer mixer = run.mixer(layer);
  std::vector<float> query_scratch;
  std::vector<float> key_scratch;
  const auto dim = static_cast<std::size_t>(mixer.head_dim);
  for (int head = 0; head < mixer.heads; ++head) {
    const auto q = store->rows(Part::query, layer, head, 0, run.length, query_scratch);
    const auto k =
        store->rows(Part::key, layer, shared_head(mixer.heads, mixer.key_heads, head), 0, run.length, key_scratch);
    const double* gate = c.data() + head * run.length;
    const auto of_keys = index_of(shared_head(mixer.heads, mixer.key_heads, head) * run.length) * dim;
    for (std::int64_t i = 0; i < run.length; ++i) {
      double sum = sinks.empty() ? 0.0 : std::exp(static_cast<double>(sinks[index_of(head)]));
      const std::int64_t window = window_of(run, layer);
      const std::int64_t first = window > 0 ? std::max<std::int64_t>(0, i - window + 1) : 0;
      std::vector<double> r;
      for (std::size_t n = 0; n < dim; ++n) r.push_back(static_cast<double>(q[index_of(i) * dim + n]));
      for (std::int64_t j = i; j >= first; --j) {
        double dot = 0;
        for (std::size_t n = 0; n < dim; ++n) dot += r[n] * static_cast<double>(k[index_of(j) * dim + n]);
        if (!read.empty()) {
          const std::size_t at = of_keys + index_of(j) * dim;
          double erased = 0;
          for (std::size_t n = 0; n < dim; ++n) erased += r[n] * static_cast<double>(write[at + n]);
          for (std::size_t n = 0; n < dim; ++n) r[n] += erased * static_cast<double>(read[at + n]);
        }
        const double logit = static_cast<double>(run.softmax_scale) * dot;
        const double capped = run.logit_cap > 0 ? run.logit_cap * std::tanh(logit / run.logit_cap) : logit;
        sum += std::exp(capped + (with_gate ? gate[i] - gate[j] : 0.0));
      }
      normalizer[index_of(head * run.length + i)] = static_cast<float>(std::log(sum));
    }
  }
}

struct TextAndTokens {
  std::shared_ptr<const Text> text;
  std::shared_ptr<const TokenTable> tokens;
};

TextAndTokens make_tokens(const SyntheticRun& run) {
  static const std::string pieces[] = {"the", " fox",        " \xc3\xa9t\xc3\xa9", "\n", " \xf0\x9f\xa6\x8a",
                                       "ing", "\xe2\x80\x94"};
  auto text = std::make_shared<Text>();
  auto tokens = std::make_shared<TokenTable>();
  for (std::int64_t p = 0; p < run.length; ++p) {
    const auto kind = static_cast<std::size_t>(p * 5 + p / 7) % std::size(pieces);
    const std::string& piece = pieces[kind];
    tokens->id.push_back(static_cast<std::int32_t>(kind + 3));
    tokens->input_id.push_back(p == 0 ? 0 : tokens->id[static_cast<std::size_t>(p) - 1]);
    if (run.with_text) {
      tokens->byte_start.push_back(static_cast<std::int64_t>(text->content.size()));
      text->content += piece;
      tokens->byte_end.push_back(static_cast<std::int64_t>(text->content.size()));
    }
    tokens->string.push_back(kind == 6 ? "\xef\xbf\xbd" : piece);
  }
  text->sha256 = sha256(text->content);
  return {run.with_text ? text : nullptr, tokens};
}

TraceInfo make_info(const SyntheticRun& run) {
  TraceInfo info;
  info.name = run.name;
  info.model_type = "forgetting_transformer-project_fox";
  info.config = R"({"model_type": "forgetting_transformer-project_fox", "note": "é"})";
  info.weights_sha256 = sha256(run.name);
  info.device = "cpu";
  info.dtype = run.dtype;
  info.attention_kernel = "cpu avx2";
  info.layers = run.layers;
  info.heads = run.heads;
  info.key_heads = run.key_heads;
  info.head_dim = run.head_dim;
  if (!run.mixers.empty()) info.set_mixers(run.mixers);
  info.length = run.length;
  info.vocabulary_size = run.vocabulary_size;
  info.hidden_size = std::int64_t{run.heads} * run.head_dim;
  info.softmax_scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(run.head_dim)));
  info.window_size = run.window_size;
  info.window_sizes = run.window_sizes;
  info.logit_cap = run.logit_cap;
  info.chosen_experts = run.chosen_experts;
  info.pruning_tolerance = 0x1p-24;
  for (int layer = 0; layer < info.layers; ++layer) {
    info.forgetting.push_back(run.gated && info.mixer(layer).decay != Decay::none);
  }
  return info;
}

/// Sums of the log decays of each channel, [heads, L, channels].
void fill_log_decay(Recorder& recorder, int layer, std::mt19937& random) {
  const LayerMixer mixer = recorder.info().mixer(layer);
  const std::span<double> sums = recorder.cumulative_log_decay(layer);
  const auto channels = static_cast<std::size_t>(mixer.head_dim);
  const auto head = static_cast<std::size_t>(recorder.info().length) * channels;
  std::uniform_real_distribution<double> decay(-0.5, 0.0);
  for (std::size_t n = 0; n < sums.size(); ++n) {
    sums[n] = (n % head < channels ? 0.0 : sums[n - channels]) + decay(random);
  }
}

/// Rates of the channels of each head, whose mean is 1.
void fill_rates(Recorder& recorder, int layer, std::mt19937& random) {
  const auto channels = static_cast<std::size_t>(recorder.info().mixer(layer).head_dim);
  const std::span<double> rates = recorder.decay_rate(layer);
  std::uniform_real_distribution<double> uniform(0.1, 2.0);
  for (std::size_t head = 0; head < rates.size(); head += channels) {
    const std::span<double> own = rates.subspan(head, channels);
    double sum = 0;
    for (double& rate : own) sum += rate = uniform(random);
    for (double& rate : own) rate *= static_cast<double>(channels) / sum;
  }
}

}  // namespace

std::vector<LayerMixer> all_mixers() {
  return {{Mixer::mamba2, Decay::head, 4, 1, 1, 4, 8, 6},
          {Mixer::attention, Decay::head, 6, 6, 2, 2, 4, 4},
          {Mixer::gated_linear_attention, Decay::channel, 4, 4, 2, 2, 5, 7},
          {Mixer::delta_rule, Decay::head, 4, 2, 2, 4, 3, 9},
          {Mixer::delta_rule, Decay::none, 2, 2, 2, 2, 8, 8},
          {Mixer::mamba, Decay::rates, 10, 1, 1, 10, 3, 1},
          {Mixer::delta_rule, Decay::channel, 4, 2, 2, 4, 6, 5},
          {Mixer::diagonal_plus_low_rank, Decay::channel, 4, 2, 2, 4, 6, 5}};
}

std::vector<LayerMixer> newer_mixers() {
  return {{.mixer = Mixer::none, .decay = Decay::none},
          {Mixer::gated_linear_attention, Decay::none, 4, 4, 2, 2, 5, 7},
          {Mixer::gated_linear_attention, Decay::head, 2, 2, 2, 2, 8, 8},
          {Mixer::diagonal_plus_low_rank, Decay::head, 4, 2, 2, 4, 6, 5},
          {Mixer::mamba, Decay::head, 10, 1, 1, 10, 1, 1},
          {Mixer::delta_product, Decay::head, 6, 3, 6, 6, 5, 4}};
}

std::vector<LayerMixer> sink_mixers() {
  LayerMixer mixer = attention_layer(4, 2, 8);
  mixer.sinks = true;
  return {mixer, mixer};
}

std::vector<LayerMixer> path_mixers() {
  LayerMixer mixer = attention_layer(4, 2, 8);
  mixer.path = true;
  return {mixer, mixer};
}

std::shared_ptr<const Trace> make_trace(const SyntheticRun& run) {
  std::mt19937 random(run.seed);
  std::normal_distribution<float> normal;
  std::shared_ptr<HostQueryKeyStore> store;
  const TraceInfo info = make_info(run);
  if (const auto parts = stored_arrays(run.keep); !parts.empty()) {
    store = std::make_shared<HostQueryKeyStore>(info, run.dtype, kNeverSpill, "/tmp", std::nullopt, parts);
  }
  Recorder recorder(info, run.keep, store);
  for (int layer = 0; layer < info.layers; ++layer) {
    const std::vector<double> c =
        random_gates(run, info.mixer(layer).heads, run.gated && info.mixer(layer).decay != Decay::none, random);
    std::ranges::copy_n(c.begin(), std::ssize(recorder.cumulative_log_gate(layer)),
                        recorder.cumulative_log_gate(layer).begin());
    fill_log_decay(recorder, layer, random);
    for (float& beta : recorder.beta(layer)) beta = std::abs(normal(random));
    fill_rates(recorder, layer, random);
    fill_stored(recorder, run, layer, random);
    const std::span<float> sinks = recorder.array<float>(TraceArray::sink_logit, layer);
    for (float& sink : sinks) sink = normal(random);
    fill_directions(recorder, layer, random);
    std::span<const float> read;
    std::span<const float> write;
    if (info.mixer(layer).path) {
      read = recorder.array<float>(TraceArray::erase_read, layer);
      write = recorder.array<float>(TraceArray::erase_write, layer);
    }
    fill_log_normalizer(c, sinks, store.get(), info, layer, true, read, write, recorder.log_normalizer(layer));
    fill_log_normalizer(c, sinks, store.get(), info, layer, false, read, write,
                        recorder.log_normalizer_without_gate(layer));
  }
  if (recorder.keeps(Keep::saliency)) recorder.info().saliency_target = "mean of loss[0:37]";
  for (float& loss : recorder.per_token_loss()) loss = std::abs(normal(random)) * 3;
  for (const ArraySpec& spec : kTraceArrays) {
    if (spec.storage != Storage::raw || spec.number != ArrayNumber::float32) continue;
    for (int index = 0; index < count_of(spec, info.layers); ++index) {
      if (spec.repeat == Repeat::layers && info.mixer(index).path) continue;  // they are there
      for (float& number : recorder.array<float>(spec.array, index)) number = normal(random);
    }
  }
  std::uniform_int_distribution<std::int32_t> expert(-1, 7);
  for (std::int32_t& number : recorder.array<std::int32_t>(TraceArray::expert)) number = expert(random);
  for (std::uint16_t& number : recorder.array<std::uint16_t>(TraceArray::prediction_state)) {
    number = to_float16(normal(random));
  }
  const TextAndTokens made = make_tokens(run);
  return recorder.finish(made.text, made.tokens);
}

}  // namespace foxscope::test
