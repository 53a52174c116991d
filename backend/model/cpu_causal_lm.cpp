#include "backend/model/cpu_causal_lm.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "backend/base/error.h"
#include "backend/model/cpu_steps.h"
#include "backend/model/cpu_team.h"
#include "backend/model/cpu_weights.h"
#include "backend/model/interventions.h"
#include "kernels/cpu/forgetting_attention.h"

namespace foxscope {
namespace {

constexpr std::int64_t kRowsAtOnce = 256;
/// Columns of the vocabulary at once: a block of logits stays in a core's cache.
constexpr std::int64_t kVocabularyBlock = 1024;

std::size_t floats(std::int64_t count) { return static_cast<std::size_t>(count); }

/// What one thread needs for one chunk of rows.
struct Scratch {
  std::vector<float> normed;  ///< [rows + 1, D]
  std::vector<float> wide;    ///< [rows + 1, the widest product]
};

/// Cosines and sines of all positions.
struct RotaryTable {
  RotaryTable(const ModelConfig& config, std::int64_t length) : half(config.head_dim / 2) {
    if (!config.rope) return;
    cosine.resize(floats(length * half));
    sine.resize(floats(length * half));
    for (std::int64_t n = 0; n < half; ++n) {
      const double frequency = std::pow(config.rope_base, -2.0 * static_cast<double>(n) / config.head_dim);
      for (std::int64_t p = 0; p < length; ++p) {
        const double angle = static_cast<double>(p) * frequency;
        cosine[floats(p * half + n)] = static_cast<float>(std::cos(angle));
        sine[floats(p * half + n)] = static_cast<float>(std::sin(angle));
      }
    }
  }
  std::int64_t half;
  std::vector<float> cosine;  ///< [L, d / 2]
  std::vector<float> sine;
};

/// One sequence on its way through the layers.
class SequencePass {
 public:
  SequencePass(const ModelConfig& config, const CpuWeights& weights, const ForwardRequest& request, std::int64_t row,
               Recorder& recorder, const Job& job);

  /// @returns false if the job was stopped
  bool run(ForwardReport& report);

 private:
  using Step = void (SequencePass::*)(const CpuLayerWeights&, std::int64_t begin, std::int64_t end, Scratch&);

  bool run_layer(int layer, ForwardReport& report);
  /// Calls a step for every chunk of rows, on all threads.
  bool for_rows(const std::function<void(std::int64_t begin, std::int64_t end, Scratch&)>& step);
  void embed();
  void project(const CpuLayerWeights& weights, std::int64_t begin, std::int64_t end, Scratch& scratch);
  void place_keys(const CpuLayerWeights& weights, const float* row, const float* previous, std::int64_t position);
  void place_queries_and_gates(const CpuLayerWeights& weights, const float* row, std::int64_t position);
  void rotate_heads(float* first, std::int64_t heads, std::int64_t position) const;
  void prepare_gates(int layer);
  bool attend(int layer, ForwardReport& report);
  void leave_attention(const CpuLayerWeights& weights, int layer, std::int64_t begin, std::int64_t end,
                       Scratch& scratch);
  void feed_forward(const CpuLayerWeights& weights, std::int64_t begin, std::int64_t end, Scratch& scratch);
  void predict(std::int64_t begin, std::int64_t end, Scratch& scratch);
  void record_hidden(int index);

  const ModelConfig& config_;
  const CpuWeights& weights_;
  const ForwardRequest& request_;
  Recorder& recorder_;
  const Job& job_;
  const std::int32_t* input_ids_;
  const std::int32_t* labels_;
  const std::int64_t length_;
  const std::int64_t hidden_;
  const std::int64_t head_dim_;
  const ProjectionColumns columns_;
  const RotaryTable rotary_;
  LibTorchTeam team_;
  std::int64_t chunk_;
  std::vector<Scratch> scratch_;
  std::vector<float> residual_;   ///< [L, D]
  std::vector<float> value_;      ///< [H_kv, L, d]
  std::vector<float> attended_;   ///< [L, D]
  std::vector<double> log_gate_;  ///< [H, L]; empty where every f is 1
  std::vector<float> own_query_;  ///< [H, L, d] where the recorder does not keep it
  std::vector<float> own_key_;    ///< [H_kv, L, d]
  std::vector<float> zeros_;      ///< the key and value before the first position
  float* query_ = nullptr;        ///< of the layer at hand
  float* key_ = nullptr;
};

SequencePass::SequencePass(const ModelConfig& config, const CpuWeights& weights, const ForwardRequest& request,
                           std::int64_t row, Recorder& recorder, const Job& job)
    : config_(config),
      weights_(weights),
      request_(request),
      recorder_(recorder),
      job_(job),
      input_ids_(request.input_ids.data() + row * request.length),
      labels_(request.labels.data() + row * request.length),
      length_(request.length),
      hidden_(config.hidden_size),
      head_dim_(config.head_dim),
      columns_(config),
      rotary_(config, request.length),
      residual_(floats(length_ * hidden_)),
      value_(floats(length_ * config.key_size())),
      attended_(floats(length_ * hidden_)),
      zeros_(floats(columns_.count)) {
  const std::int64_t threads = team_.threads();
  // Short texts are cut finer, so that every thread has work.
  chunk_ = std::clamp<std::int64_t>((length_ + 2 * threads - 1) / (2 * threads), 16, kRowsAtOnce);
  const std::int64_t widest = std::max(
      {columns_.count, hidden_, 2 * config.intermediate_size, std::min(kVocabularyBlock, config.vocabulary_size)});
  for (std::int64_t thread = 0; thread < threads; ++thread) {
    Scratch& scratch = scratch_.emplace_back();
    scratch.normed.resize(floats((chunk_ + 1) * hidden_));
    scratch.wide.resize(floats((chunk_ + 1) * widest));
  }
}

bool SequencePass::for_rows(const std::function<void(std::int64_t begin, std::int64_t end, Scratch&)>& step) {
  const std::int64_t chunks = (length_ + chunk_ - 1) / chunk_;
  team_.run(chunks, [&](std::int64_t task, int thread) {
    if (job_.stopped()) return;
    const std::int64_t begin = task * chunk_;
    step(begin, std::min(begin + chunk_, length_), scratch_[static_cast<std::size_t>(thread)]);
  });
  return !job_.stopped();
}

void SequencePass::embed() {
  for (std::int64_t p = 0; p < length_; ++p) {
    const float* row = weights_.embedding.data() + input_ids_[p] * hidden_;
    std::copy(row, row + hidden_, residual_.data() + p * hidden_);
  }
}

void SequencePass::rotate_heads(float* first, std::int64_t heads, std::int64_t position) const {
  if (!config_.rope) return;
  const float* cosine = rotary_.cosine.data() + position * rotary_.half;
  const float* sine = rotary_.sine.data() + position * rotary_.half;
  for (std::int64_t head = 0; head < heads; ++head) {
    cpu_steps::rotate(cosine, sine, head_dim_, first + head * length_ * head_dim_);
  }
}

void SequencePass::place_queries_and_gates(const CpuLayerWeights& weights, const float* row, std::int64_t position) {
  constexpr auto kEpsilon = static_cast<float>(ModelConfig::kQueryKeyNormEpsilon);
  float* query = query_ + position * head_dim_;
  for (std::int64_t head = 0; head < config_.heads; ++head) {
    const float* from = row + head * head_dim_;
    float* to = query + head * length_ * head_dim_;
    if (weights.query_norm.empty()) {
      std::copy(from, from + head_dim_, to);
    } else {
      cpu_steps::rms_norm(from, weights.query_norm.data() + head * head_dim_, head_dim_, kEpsilon, to);
    }
  }
  rotate_heads(query, config_.heads, position);
  if (config_.forget_gate == ForgetGate::full) {
    for (std::int64_t head = 0; head < config_.heads; ++head) {
      log_gate_[floats(head * length_ + position)] = cpu_steps::log_sigmoid(row[columns_.forget + head]);
    }
  }
}

void SequencePass::place_keys(const CpuLayerWeights& weights, const float* row, const float* previous,
                              std::int64_t position) {
  constexpr auto kEpsilon = static_cast<float>(ModelConfig::kQueryKeyNormEpsilon);
  float* key = key_ + position * head_dim_;
  float* value = value_.data() + position * head_dim_;
  const auto place = [&](std::int64_t column, bool shifted, std::int64_t gate_column, std::int64_t head, float* to) {
    const float* from = row + column + head * head_dim_;
    if (shifted) {
      const float a = cpu_steps::sigmoid(row[gate_column + head]);
      cpu_steps::shift(previous + column + head * head_dim_, from, a, head_dim_, to);
    } else {
      std::copy(from, from + head_dim_, to);
    }
  };
  for (std::int64_t head = 0; head < config_.key_heads; ++head) {
    float* to = key + head * length_ * head_dim_;
    place(columns_.key, config_.key_shift, columns_.key_shift, head, to);
    if (!weights.key_norm.empty()) {
      cpu_steps::rms_norm(to, weights.key_norm.data() + head * head_dim_, head_dim_, kEpsilon, to);
    }
    place(columns_.value, config_.value_shift, columns_.value_shift, head, value + head * length_ * head_dim_);
  }
  rotate_heads(key, config_.key_heads, position);
}

/// Queries, keys, values and gates of the rows [begin, end). The shift needs the projection of the row before: it is
/// computed once more, so that chunks do not wait for each other.
void SequencePass::project(const CpuLayerWeights& weights, std::int64_t begin, std::int64_t end, Scratch& scratch) {
  const bool shifted = config_.key_shift || config_.value_shift;
  const std::int64_t first = shifted && begin > 0 ? begin - 1 : begin;
  for (std::int64_t p = first; p < end; ++p) {
    cpu_steps::rms_norm(residual_.data() + p * hidden_, weights.attention_norm.data(), hidden_,
                        static_cast<float>(config_.norm_epsilon), scratch.normed.data() + (p - first) * hidden_);
  }
  linear({.rows = end - first,
          .columns = columns_.count,
          .depth = hidden_,
          .in = scratch.normed.data(),
          .in_stride = hidden_,
          .weight = weights.projection.data(),
          .out = scratch.wide.data(),
          .out_stride = columns_.count});
  if (!weights.projection_bias.empty()) {
    for (std::int64_t p = first; p < end; ++p) {
      cpu_steps::add(weights.projection_bias.data(), columns_.count,
                     scratch.wide.data() + (p - first) * columns_.count);
    }
  }
  for (std::int64_t p = begin; p < end; ++p) {
    const float* row = scratch.wide.data() + (p - first) * columns_.count;
    place_queries_and_gates(weights, row, p);
    place_keys(weights, row, p == 0 ? zeros_.data() : row - columns_.count, p);
  }
}

/// log f of gates that do not depend on data, interventions, and the cumulative sum.
void SequencePass::prepare_gates(int layer) {
  const std::vector<float>& constant = weights_.layers[static_cast<std::size_t>(layer)].constant_gate;
  for (std::size_t head = 0; head < constant.size(); ++head) {
    double* gates = log_gate_.data() + head * floats(length_);
    std::fill(gates, gates + length_, cpu_steps::log_sigmoid(constant[head]));
  }
  const std::span<double> cumulative = recorder_.cumulative_log_gate(layer);
  if (log_gate_.empty()) {
    std::fill(cumulative.begin(), cumulative.end(), 0.0);
    return;
  }
  if (!config_.gated()) std::fill(log_gate_.begin(), log_gate_.end(), 0.0);
  change_gates(request_.interventions, layer, config_.heads, length_, log_gate_.data());
  kernels::cpu::cumulative_log_gate(log_gate_.data(), config_.heads, length_, cumulative.data());
}

bool SequencePass::attend(int layer, ForwardReport& report) {
  const kernels::cpu::AttentionStrides per_head{0, length_ * head_dim_, head_dim_};
  kernels::cpu::ForgettingAttention arguments;
  arguments.batch = 1;
  arguments.heads = config_.heads;
  arguments.key_heads = config_.key_heads;
  arguments.length = length_;
  arguments.head_dim = head_dim_;
  arguments.query = query_;
  arguments.key = key_;
  arguments.value = value_.data();
  arguments.query_strides = arguments.key_strides = arguments.value_strides = per_head;
  if (!log_gate_.empty()) arguments.cumulative_log_gate = recorder_.cumulative_log_gate(layer).data();
  arguments.output = attended_.data();
  arguments.output_strides = {0, head_dim_, hidden_};
  arguments.log_normalizer = recorder_.log_normalizer(layer).data();
  const std::span<float> without_gate = recorder_.log_normalizer_without_gate(layer);
  arguments.log_normalizer_without_gate = without_gate.empty() ? nullptr : without_gate.data();
  arguments.scale = 1.0F / std::sqrt(static_cast<float>(head_dim_));
  arguments.window_size = config_.window_size;
  arguments.pruning_tolerance = request_.pruning_tolerance;
  kernels::cpu::AttentionBlocks blocks;
  const kernels::Status status = kernels::cpu::forgetting_attention(arguments, team_, job_.stop, &blocks);
  if (status == kernels::Status::invalid_argument) {
    throw ShapeError(
        fmt::format("[forgetting_attention] {} heads of {} over {} positions with pruning tolerance {} are "
                    "not supported",
                    config_.heads, head_dim_, length_, request_.pruning_tolerance));
  }
  report.attention_blocks += blocks.total;
  report.skipped_blocks += blocks.skipped;
  return status == kernels::Status::ok;
}

/// x += o_proj(act(gate) * norm(o)) for the rows [begin, end).
void SequencePass::leave_attention(const CpuLayerWeights& weights, int layer, std::int64_t begin, std::int64_t end,
                                   Scratch& scratch) {
  const auto epsilon = static_cast<float>(config_.norm_epsilon);
  const std::int64_t rows = end - begin;
  if (config_.output_gate) {
    for (std::int64_t p = begin; p < end; ++p) {
      cpu_steps::rms_norm(residual_.data() + p * hidden_, weights.attention_norm.data(), hidden_, epsilon,
                          scratch.normed.data() + (p - begin) * hidden_);
    }
    linear({.rows = rows,
            .columns = hidden_,
            .depth = hidden_,
            .in = scratch.normed.data(),
            .in_stride = hidden_,
            .weight = weights.output_gate.data(),
            .out = scratch.wide.data(),
            .out_stride = hidden_});
  }
  // Behind an output norm the authors' gate is always a sigmoid.
  const bool silu = config_.output_gate_activation == OutputGateActivation::silu && !config_.output_norm;
  for (std::int64_t p = begin; p < end; ++p) {
    float* row = attended_.data() + p * hidden_;
    const float* gate = scratch.wide.data() + (p - begin) * hidden_;
    if (config_.output_norm) {
      cpu_steps::rms_norm_heads(row, weights.output_norm.data(), config_.heads, head_dim_, epsilon, row);
    }
    if (config_.output_gate) {
      silu ? cpu_steps::multiply_silu(gate, hidden_, row) : cpu_steps::multiply_sigmoid(gate, hidden_, row);
    }
    for (int head = 0; head < config_.heads && !request_.interventions.empty(); ++head) {
      if (cuts_head(request_.interventions, layer, head)) {
        std::fill(row + head * head_dim_, row + (head + 1) * head_dim_, 0.0F);
      }
    }
  }
  linear({.rows = rows,
          .columns = hidden_,
          .depth = hidden_,
          .in = attended_.data() + begin * hidden_,
          .in_stride = hidden_,
          .weight = weights.output.data(),
          .out = residual_.data() + begin * hidden_,
          .out_stride = hidden_,
          .into = LinearArguments::Into::add});
}

/// x += down_proj(silu(g) * y) for the rows [begin, end).
void SequencePass::feed_forward(const CpuLayerWeights& weights, std::int64_t begin, std::int64_t end,
                                Scratch& scratch) {
  const std::int64_t inner = config_.intermediate_size;
  for (std::int64_t p = begin; p < end; ++p) {
    cpu_steps::rms_norm(residual_.data() + p * hidden_, weights.mlp_norm.data(), hidden_,
                        static_cast<float>(config_.norm_epsilon), scratch.normed.data() + (p - begin) * hidden_);
  }
  linear({.rows = end - begin,
          .columns = 2 * inner,
          .depth = hidden_,
          .in = scratch.normed.data(),
          .in_stride = hidden_,
          .weight = weights.mlp_gate_up.data(),
          .out = scratch.wide.data(),
          .out_stride = 2 * inner});
  for (std::int64_t p = begin; p < end; ++p) {
    float* row = scratch.wide.data() + (p - begin) * 2 * inner;
    cpu_steps::swiglu(row, row + inner, inner, row);
  }
  linear({.rows = end - begin,
          .columns = hidden_,
          .depth = inner,
          .in = scratch.wide.data(),
          .in_stride = 2 * inner,
          .weight = weights.mlp_down.data(),
          .out = residual_.data() + begin * hidden_,
          .out_stride = hidden_,
          .into = LinearArguments::Into::add});
}

/// Final norm, logits and loss of the rows [begin, end), one block of the vocabulary at a time.
void SequencePass::predict(std::int64_t begin, std::int64_t end, Scratch& scratch) {
  const std::int64_t vocabulary = config_.vocabulary_size;
  const std::span<float> hidden =
      recorder_.keeps(Keep::hidden) ? recorder_.hidden_states(config_.layers, hidden_) : std::span<float>{};
  const std::span<float> kept_logits =
      recorder_.keeps(Keep::logits) ? recorder_.logits(vocabulary) : std::span<float>{};
  for (std::int64_t p = begin; p < end; ++p) {
    float* row = scratch.normed.data() + (p - begin) * hidden_;
    cpu_steps::rms_norm(residual_.data() + p * hidden_, weights_.final_norm.data(), hidden_,
                        static_cast<float>(config_.norm_epsilon), row);
    if (!hidden.empty()) std::copy(row, row + hidden_, hidden.data() + p * hidden_);
  }
  if (!recorder_.keeps(Keep::loss) && kept_logits.empty()) return;
  struct Row {
    float shift = -std::numeric_limits<float>::infinity();
    double sum = 0;
    float label_logit = 0;
  };
  std::vector<Row> rows(floats(end - begin));
  for (std::int64_t first = 0; first < vocabulary; first += kVocabularyBlock) {
    const std::int64_t columns = std::min(kVocabularyBlock, vocabulary - first);
    float* out = kept_logits.empty() ? scratch.wide.data() : kept_logits.data() + begin * vocabulary + first;
    const std::int64_t stride = kept_logits.empty() ? columns : vocabulary;
    linear({.rows = end - begin,
            .columns = columns,
            .depth = hidden_,
            .in = scratch.normed.data(),
            .in_stride = hidden_,
            .weight = weights_.head() + first * hidden_,
            .out = out,
            .out_stride = stride});
    for (std::int64_t p = begin; p < end; ++p) {
      const float* logits = out + (p - begin) * stride;
      Row& row = rows[floats(p - begin)];
      const float shift = std::max(row.shift, cpu_steps::largest(logits, columns));
      row.sum = row.sum * std::exp(static_cast<double>(row.shift) - shift) +
                static_cast<double>(cpu_steps::sum_of_exponentials(logits, columns, shift));
      row.shift = shift;
      const std::int64_t label = labels_[p] - first;
      if (label >= 0 && label < columns) row.label_logit = logits[label];
    }
  }
  for (std::int64_t p = begin; p < end; ++p) {
    const Row& row = rows[floats(p - begin)];
    recorder_.per_token_loss()[floats(p)] = static_cast<float>(std::log(row.sum) + row.shift - row.label_logit);
  }
}

void SequencePass::record_hidden(int index) {
  const std::span<float> hidden = recorder_.hidden_states(index, hidden_);
  if (!hidden.empty()) std::copy(residual_.begin(), residual_.end(), hidden.begin());
}

bool SequencePass::run_layer(int layer, ForwardReport& report) {
  const CpuLayerWeights& weights = weights_.layers[static_cast<std::size_t>(layer)];
  const auto own_or_kept = [&](QueryKeyStore::Part part, std::vector<float>& own, std::int64_t heads) {
    const std::span<std::byte> kept = recorder_.query_key(part, layer);
    if (!kept.empty()) return reinterpret_cast<float*>(kept.data());
    own.resize(floats(heads * length_ * head_dim_));
    return own.data();
  };
  query_ = own_or_kept(QueryKeyStore::Part::query, own_query_, config_.heads);
  key_ = own_or_kept(QueryKeyStore::Part::key, own_key_, config_.key_heads);
  if (config_.gated() || changes_gates(request_.interventions, layer)) {
    log_gate_.resize(floats(config_.heads * length_));
  } else {
    log_gate_.clear();
  }
  record_hidden(layer);
  if (!for_rows([&](auto begin, auto end, Scratch& scratch) { project(weights, begin, end, scratch); })) return false;
  prepare_gates(layer);
  if (!attend(layer, report)) return false;
  const bool done = for_rows([&](auto begin, auto end, Scratch& scratch) {
    leave_attention(weights, layer, begin, end, scratch);
    feed_forward(weights, begin, end, scratch);
  });
  if (done) recorder_.release_layer(layer);
  return done;
}

bool SequencePass::run(ForwardReport& report) {
  embed();
  const auto tell = [&](int done) { job_.tell({done, config_.layers + 1, "layers", "forward"}); };
  for (int layer = 0; layer < config_.layers; ++layer) {
    tell(layer);
    if (!run_layer(layer, report)) return false;
  }
  tell(config_.layers);
  // The arrays are made here: their first use below is on several threads.
  recorder_.hidden_states(config_.layers, hidden_);
  recorder_.logits(config_.vocabulary_size);
  if (!for_rows([&](auto begin, auto end, Scratch& scratch) { predict(begin, end, scratch); })) return false;
  tell(config_.layers + 1);
  return true;
}

class CpuCausalLM final : public CausalLM {
 public:
  explicit CpuCausalLM(const Checkpoint& checkpoint) : config_(checkpoint.config()), weights_(checkpoint) {}

  [[nodiscard]] const ModelConfig& config() const override { return config_; }
  [[nodiscard]] const Device& device() const override { return device_; }
  [[nodiscard]] DType dtype() const override { return DType::float32; }

  std::optional<ForwardReport> forward(const ForwardRequest& request, std::span<Recorder* const> recorders,
                                       const Job& job) override {
    check_request(request, recorders, config_);
    ForwardReport report;
    report.attention_kernel = "cpu-tiled";
    for (std::int64_t row = 0; row < request.batch; ++row) {
      SequencePass pass(config_, weights_, request, row, *recorders[static_cast<std::size_t>(row)], job);
      if (job.stopped() || !pass.run(report)) return std::nullopt;
    }
    return report;
  }

 private:
  ModelConfig config_;
  Device device_;
  CpuWeights weights_;
};

}  // namespace

std::unique_ptr<CausalLM> load_cpu_model(const Checkpoint& checkpoint) {
  return std::make_unique<CpuCausalLM>(checkpoint);
}

}  // namespace foxscope
