#include "backend/model/cpu_forward.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <limits>
#include <utility>

#include <fmt/format.h>

#include "backend/base/error.h"
#include "backend/model/cpu_steps.h"
#include "kernels/cpu/forgetting_attention.h"

namespace foxscope {
namespace {

constexpr std::int64_t kRowsAtOnce = 256;
/// Columns of the vocabulary at once: a block of logits stays in a core's cache.
constexpr std::int64_t kVocabularyBlock = 1024;
/// Numbers of a matrix that one task reads, and fewer than which are not worth waking the other threads for.
constexpr std::int64_t kTaskNumbers = 1 << 16;
constexpr std::int64_t kSharedNumbers = 1 << 18;

using Into = LinearArguments::Into;

std::size_t floats(std::int64_t count) { return static_cast<std::size_t>(count); }

}  // namespace

CpuForward::CpuForward(const ModelConfig& config, const ModelWeights& weights, std::int64_t positions)
    : config_(&config),
      weights_(&weights),
      length_(positions),
      hidden_(config.hidden_size),
      head_dim_(config.head_dim),
      columns_(config),
      residual_(floats(positions * hidden_)),
      value_(floats(positions * config.key_size())),
      attended_(floats(positions * std::max(hidden_, config.query_size()))),
      log_normalizer_(positions > 1 ? floats(positions * config.heads) : 0),
      loss_(floats(positions)),
      zeros_(floats(columns_.count)) {
  const std::int64_t threads = positions > 1 ? team_.threads() : 1;
  // Short texts are cut finer, so that every thread has work.
  if (positions > 1) chunk_ = std::clamp<std::int64_t>((positions + 2 * threads - 1) / (2 * threads), 16, kRowsAtOnce);
  const std::int64_t widest = std::max({columns_.count, config.query_size(), 2 * config.intermediate_size,
                                        std::min(kVocabularyBlock, config.vocabulary_size)});
  for (std::int64_t thread = 0; thread < threads; ++thread) {
    Scratch& scratch = scratch_.emplace_back();
    scratch.normed.resize(floats((chunk_ + 1) * hidden_));
    scratch.wide.resize(floats((chunk_ + 1) * widest));
  }
}

bool CpuForward::run(const Input& input, const Probe& probe, CpuState* state, const Job& job, ForwardReport& report) {
  assert(static_cast<std::int64_t>(input.ids.size()) == length_);
  pass_ = {&input, &probe, state, &job, &report, state == nullptr ? 0 : state->length()};
  assert(!continues() || length_ == 1);
  rotary_.emplace(*config_, pass_.first, length_);
  const auto tell = [&](int done) { job.tell({done, config_->layers + 1, "layers", "forward"}); };
  embed();
  for (int layer = input.first_layer; layer < config_->layers; ++layer) {
    tell(layer);
    if (!run_layer(layer)) return false;
  }
  tell(config_->layers);
  if (!predict()) return false;
  tell(config_->layers + 1);
  if (state != nullptr) state->advance(length_);
  return true;
}

/// The layer of the paper (Lin et al. 2025, figure 2): q, k, v and f of the normed input, forgetting attention, norm
/// and gate of its output, then the MLP; both are added to the residual stream. With a parallel residual the MLP reads
/// what attention did: it is added first, as attention has read by then.
bool CpuForward::run_layer(int layer) {
  pass_.probe->take_hidden(layer, hidden_, residual_);
  const auto own_or_lent = [&](QueryKeyStore::Part part, FloatArray& own, std::int64_t heads) {
    float* const lent = pass_.probe->query_key(part, layer);
    if (lent == nullptr) own.resize(floats(heads * length_ * head_dim_));
    return lent == nullptr ? own.data() : lent;
  };
  queries_ = own_or_lent(QueryKeyStore::Part::query, query_, config_->heads);
  keys_ = own_or_lent(QueryKeyStore::Part::key, key_, config_->key_heads);
  const bool gated = config_->gated() || pass_.probe->changes_gates(layer);
  log_gate_.resize(gated ? floats(config_->heads * length_) : 0);
  cumulative_.resize(log_gate_.size());
  cut_heads_.clear();
  for (int head = 0; head < config_->heads; ++head) {
    if (pass_.probe->cuts_head(layer, head)) cut_heads_.push_back(head);
  }

  if (!for_rows([&](const Rows& rows) { project(layer, rows); })) return false;
  sum_gates(layer);
  if (!attend(layer)) return false;
  assert(!config_->parallel_residual || !config_->output_gate);  // the gate reads x as it entered
  return for_rows([&](const Rows& rows) {
    if (config_->parallel_residual) feed_forward(layer, rows);
    project_output(layer, rows);
    if (!config_->parallel_residual) feed_forward(layer, rows);
  });
}

/// What enters the first layer that is run.
void CpuForward::embed() {
  const Input& input = *pass_.input;
  if (!input.hidden.empty()) {
    std::ranges::copy(input.hidden, residual_.begin());
    return;
  }
  for (std::int64_t row = 0; row < length_; ++row) {
    const std::int32_t id = input.ids[floats(row)];
    assert(id >= 0 && id < config_->vocabulary_size);
    const float* from = weights_->embedding.data() + id * hidden_;
    float* const to = residual_.data() + row * hidden_;
    std::copy(from, from + hidden_, to);
    if (!weights_->positions.empty()) {
      assert(pass_.first + row < config_->learned_positions);
      cpu_steps::add(weights_->positions.data() + (pass_.first + row) * hidden_, hidden_, to);
    }
  }
}

/// Queries, keys, values and log f. The shift needs the projection of the row before: it is computed once more, so that
/// chunks do not wait for each other.
void CpuForward::project(int layer, const Rows& rows) {
  const LayerWeights& weights = weights_of(layer);
  const bool shifted = config_->key_shift || config_->value_shift;
  const std::int64_t first = shifted && rows.begin > 0 ? rows.begin - 1 : rows.begin;
  float* const wide = rows.scratch.wide.data();
  norm(weights.attention_norm, weights.attention_norm_bias, first, rows.end, rows.scratch.normed.data());
  multiply({.rows = rows.end - first,
            .columns = columns_.count,
            .depth = hidden_,
            .in = rows.scratch.normed.data(),
            .in_stride = hidden_,
            .weight = weights.projection.data(),
            .out = wide,
            .out_stride = columns_.count});
  add_to_rows(weights.projection_bias, rows.end - first, wide);
  for (std::int64_t row = rows.begin; row < rows.end; ++row) {
    const float* projected = wide + (row - first) * columns_.count;
    const float* before = projected - columns_.count;
    if (row == 0) before = continues() ? pass_.state->layer(layer).previous.data() : zeros_.data();
    cpu_rows::split_heads(*config_, weights, projected, before, heads_of(row));
  }
  if (pass_.state != nullptr && rows.end == length_) {
    const float* last = wide + (rows.end - 1 - first) * columns_.count;
    std::copy(last, last + columns_.count, pass_.state->layer(layer).previous.begin());
  }
}

/// c of the layer: log f where it does not depend on data, what the probe makes of it, and its sum.
void CpuForward::sum_gates(int layer) {
  const FloatArray& constant = weights_of(layer).constant_gate;
  assert(constant.empty() || constant.size() == floats(config_->heads));
  if (!config_->gated()) std::ranges::fill(log_gate_, 0.0);
  for (std::size_t head = 0; head < constant.size(); ++head) {
    std::fill_n(log_gate_.begin() + static_cast<std::ptrdiff_t>(head) * length_, length_,
                cpu_steps::log_sigmoid(constant[head]));
  }
  if (!log_gate_.empty()) pass_.probe->change_gates(layer, config_->heads, pass_.first, length_, log_gate_.data());
  if (continues()) {
    std::vector<GateHistory>& history = pass_.state->layer(layer).gates;
    assert(history.size() == log_gate_.size());
    for (std::size_t head = 0; head < history.size(); ++head) {
      history[head].append(log_gate_[head]);
      cumulative_[head] = history[head].last();
    }
  } else if (!log_gate_.empty()) {
    kernels::cpu::cumulative_log_gate(log_gate_.data(), config_->heads, length_, cumulative_.data());
  }
  pass_.probe->take_gates(layer, cumulative_);
}

/// o of the heads, from all keys up to each position; the state takes them up.
bool CpuForward::attend(int layer) {
  if (continues()) {
    attend_next(layer);
  } else if (!attend_whole(layer)) {
    return false;
  }
  if (pass_.state != nullptr) pass_.state->drop_keys(layer, config_->window_size, weights_of(layer).logit_bound);
  return true;
}

bool CpuForward::attend_whole(int layer) {
  const kernels::cpu::AttentionStrides per_head{0, length_ * head_dim_, head_dim_};
  log_normalizer_.resize(floats(config_->heads * length_));
  without_gate_.resize(pass_.probe->keeps(Keep::ungated) ? log_normalizer_.size() : 0);
  kernels::cpu::ForgettingAttention arguments;
  arguments.batch = 1;
  arguments.heads = config_->heads;
  arguments.key_heads = config_->key_heads;
  arguments.length = length_;
  arguments.head_dim = head_dim_;
  arguments.query = queries_;
  arguments.key = keys_;
  arguments.value = value_.data();
  arguments.query_strides = arguments.key_strides = arguments.value_strides = per_head;
  if (!cumulative_.empty()) arguments.cumulative_log_gate = cumulative_.data();
  arguments.output = attended_.data();
  arguments.output_strides = {0, head_dim_, config_->query_size()};
  arguments.log_normalizer = log_normalizer_.data();
  arguments.log_normalizer_without_gate = without_gate_.empty() ? nullptr : without_gate_.data();
  arguments.scale = 1.0F / std::sqrt(static_cast<float>(head_dim_));
  arguments.window_size = config_->window_size;
  arguments.pruning_tolerance = pass_.input->pruning_tolerance;
  kernels::cpu::AttentionBlocks blocks;
  const kernels::Status status = kernels::cpu::forgetting_attention(arguments, team_, pass_.job->stop, &blocks);
  if (status == kernels::Status::invalid_argument) {
    throw ShapeError(
        fmt::format("[forgetting_attention] {} heads of {} over {} positions with pruning tolerance {} are "
                    "not supported",
                    config_->heads, head_dim_, length_, arguments.pruning_tolerance));
  }
  assert(blocks.skipped >= 0 && blocks.skipped <= blocks.total);
  pass_.report->attention_blocks += blocks.total;
  pass_.report->skipped_blocks += blocks.skipped;
  if (status != kernels::Status::ok) return false;
  pass_.probe->take_normalizers(layer, log_normalizer_, without_gate_);
  if (pass_.state == nullptr) return true;

  CpuState::Layer& cache = pass_.state->layer(layer);
  assert(cache.gates.size() * floats(length_) == cumulative_.size());
  for (std::size_t head = 0; head < cache.gates.size(); ++head) {
    cache.gates[head].start(std::span(cumulative_).subspan(head * floats(length_), floats(length_)));
  }
  team_.run(config_->key_heads, [&](std::int64_t head, int /*thread*/) {
    KeyValuePages& pages = cache.heads[floats(head)];
    for (std::int64_t row = 0; row < length_; ++row) {
      const std::int64_t at = (head * length_ + row) * head_dim_;
      pages.append(keys_ + at, value_.data() + at);
    }
  });
  return true;
}

void CpuForward::attend_next(int layer) {
  CpuState::Layer& cache = pass_.state->layer(layer);
  const std::int64_t position = pass_.first;
  const std::int64_t group = config_->heads / config_->key_heads;
  for (std::size_t head = 0; head < cache.heads.size(); ++head) {
    assert(cache.heads[head].end() == position);
    const std::size_t at = head * floats(head_dim_);
    cache.heads[head].append(keys_ + at, value_.data() + at);
  }
  share(config_->heads, config_->heads * head_dim_ * cache.heads.front().end(), [&](std::int64_t head) {
    CachedAttention arguments;
    arguments.query = queries_ + head * head_dim_;
    arguments.head_dim = head_dim_;
    arguments.scale = 1.0F / std::sqrt(static_cast<float>(head_dim_));
    arguments.first = cache.first[floats(head)];
    if (config_->window_size > 0) arguments.first = std::max(arguments.first, position - config_->window_size + 1);
    if (!cache.gates.empty()) arguments.gate = &cache.gates[floats(head)];
    arguments.tolerance = pass_.state->skipped_share();
    attend_cached(arguments, cache.heads[floats(head / group)], attended_.data() + head * head_dim_);
  });
}

/// x += o_proj(act(gate) * norm(o)).
void CpuForward::project_output(int layer, const Rows& rows) {
  const LayerWeights& weights = weights_of(layer);
  const std::int64_t size = config_->query_size();
  float* const gate = rows.scratch.wide.data();
  if (config_->output_gate) {
    norm(weights.attention_norm, weights.attention_norm_bias, rows.begin, rows.end, rows.scratch.normed.data());
    multiply({.rows = rows.count(),
              .columns = size,
              .depth = hidden_,
              .in = rows.scratch.normed.data(),
              .in_stride = hidden_,
              .weight = weights.output_gate.data(),
              .out = gate,
              .out_stride = size});
  }
  for (std::int64_t row = rows.begin; row < rows.end; ++row) {
    float* const attended = attended_.data() + row * size;
    cpu_rows::norm_and_gate(*config_, weights, gate + (row - rows.begin) * size, attended);
    for (const int head : cut_heads_) std::fill_n(attended + head * head_dim_, head_dim_, 0.0F);
  }
  float* const residual = residual_.data() + rows.begin * hidden_;
  multiply({.rows = rows.count(),
            .columns = hidden_,
            .depth = size,
            .in = attended_.data() + rows.begin * size,
            .in_stride = size,
            .weight = weights.output.data(),
            .out = residual,
            .out_stride = hidden_,
            .into = Into::add});
  add_to_rows(weights.output_bias, rows.count(), residual);
}

/// x += down_proj(silu(g) * u), or down_proj(gelu(u)).
void CpuForward::feed_forward(int layer, const Rows& rows) {
  const LayerWeights& weights = weights_of(layer);
  const std::int64_t inner = config_->intermediate_size;
  const std::int64_t columns = config_->mlp == MlpKind::swiglu ? 2 * inner : inner;
  float* const wide = rows.scratch.wide.data();
  norm(weights.mlp_norm, weights.mlp_norm_bias, rows.begin, rows.end, rows.scratch.normed.data());
  multiply({.rows = rows.count(),
            .columns = columns,
            .depth = hidden_,
            .in = rows.scratch.normed.data(),
            .in_stride = hidden_,
            .weight = weights.mlp_in.data(),
            .out = wide,
            .out_stride = columns});
  add_to_rows(weights.mlp_in_bias, rows.count(), wide);
  for (std::int64_t row = 0; row < rows.count(); ++row) {
    float* const units = wide + row * columns;
    switch (config_->mlp) {
      case MlpKind::swiglu:
        cpu_steps::swiglu(units, units + inner, inner, units);
        break;
      case MlpKind::gelu:
        cpu_steps::gelu(inner, units);
        break;
      case MlpKind::gelu_tanh:
        cpu_steps::gelu_tanh(inner, units);
        break;
    }
  }
  float* const residual = residual_.data() + rows.begin * hidden_;
  multiply({.rows = rows.count(),
            .columns = hidden_,
            .depth = inner,
            .in = wide,
            .in_stride = columns,
            .weight = weights.mlp_out.data(),
            .out = residual,
            .out_stride = hidden_,
            .into = Into::add});
  add_to_rows(weights.mlp_out_bias, rows.count(), residual);
}

/// Final norm, logits and losses, as far as the probe keeps them. The norm goes where the heads' output was.
bool CpuForward::predict() {
  const Probe& probe = *pass_.probe;
  float* const logits = probe.logits(config_->vocabulary_size);
  if (logits == nullptr && !probe.keeps(Keep::loss) && !probe.keeps(Keep::hidden)) return true;
  if (!for_rows([&](const Rows& rows) { predict_rows(rows, logits); })) return false;
  probe.take_hidden(config_->layers, hidden_, std::span(attended_).first(floats(length_ * hidden_)));
  probe.take_loss(0, loss_);
  return true;
}

/// One block of the vocabulary at a time.
void CpuForward::predict_rows(const Rows& rows, float* kept_logits) {
  float* const normed = attended_.data() + rows.begin * hidden_;
  norm(weights_->final_norm, weights_->final_norm_bias, rows.begin, rows.end, normed);
  if (kept_logits == nullptr && !pass_.probe->keeps(Keep::loss)) return;
  struct Row {
    float shift = -std::numeric_limits<float>::infinity();
    double sum = 0;
    float label_logit = 0;
  };
  const std::int64_t vocabulary = config_->vocabulary_size;
  std::vector<Row> sums(floats(rows.count()));
  for (std::int64_t first = 0; first < vocabulary; first += kVocabularyBlock) {
    const std::int64_t columns = std::min(kVocabularyBlock, vocabulary - first);
    float* const out =
        kept_logits == nullptr ? rows.scratch.wide.data() : kept_logits + rows.begin * vocabulary + first;
    const std::int64_t stride = kept_logits == nullptr ? columns : vocabulary;
    multiply({.rows = rows.count(),
              .columns = columns,
              .depth = hidden_,
              .in = normed,
              .in_stride = hidden_,
              .weight = weights_->head().data() + first * hidden_,
              .out = out,
              .out_stride = stride});
    for (std::int64_t row = rows.begin; row < rows.end; ++row) {
      const float* logits = out + (row - rows.begin) * stride;
      Row& sum = sums[floats(row - rows.begin)];
      const float shift = std::max(sum.shift, cpu_steps::largest(logits, columns));
      sum.sum = sum.sum * std::exp(static_cast<double>(sum.shift) - shift) +
                static_cast<double>(cpu_steps::sum_of_exponentials(logits, columns, shift));
      sum.shift = shift;
      const std::int64_t label = pass_.input->labels[floats(row)] - first;
      if (label >= 0 && label < columns) sum.label_logit = logits[label];
    }
  }
  for (std::int64_t row = rows.begin; row < rows.end; ++row) {
    const Row& sum = sums[floats(row - rows.begin)];
    loss_[floats(row)] = static_cast<float>(std::log(sum.sum) + sum.shift - sum.label_logit);
  }
}

void CpuForward::predict_next(std::span<float> log_probabilities) {
  const std::int64_t vocabulary = config_->vocabulary_size;
  assert(static_cast<std::int64_t>(log_probabilities.size()) == vocabulary);
  float* const normed = scratch_.front().normed.data();
  norm(weights_->final_norm, weights_->final_norm_bias, length_ - 1, length_, normed);
  multiply_row({.rows = 1,
                .columns = vocabulary,
                .depth = hidden_,
                .in = normed,
                .in_stride = hidden_,
                .weight = weights_->head().data(),
                .out = log_probabilities.data(),
                .out_stride = vocabulary});
  const float shift = cpu_steps::largest(log_probabilities.data(), vocabulary);
  double sum = 0;
  for (const float logit : log_probabilities) sum += std::exp(static_cast<double>(logit) - static_cast<double>(shift));
  const double normalizer = std::log(sum) + static_cast<double>(shift);
  for (float& logit : log_probabilities) logit = static_cast<float>(static_cast<double>(logit) - normalizer);
}

cpu_rows::HeadRows CpuForward::heads_of(std::int64_t row) {
  cpu_rows::HeadRows heads;
  heads.query = queries_ + row * head_dim_;
  heads.key = keys_ + row * head_dim_;
  heads.value = value_.data() + row * head_dim_;
  heads.head_stride = length_ * head_dim_;
  if (!log_gate_.empty()) heads.log_gate = log_gate_.data() + row;
  heads.gate_stride = length_;
  if (config_->rope) {
    heads.cosine = rotary_->cosine.data() + row * rotary_->half;
    heads.sine = rotary_->sine.data() + row * rotary_->half;
  }
  return heads;
}

void CpuForward::norm(const FloatArray& weight, const FloatArray& bias, std::int64_t begin, std::int64_t end,
                      float* out) const {
  const auto epsilon = static_cast<float>(config_->norm_epsilon);
  for (std::int64_t row = begin; row < end; ++row) {
    const float* x = residual_.data() + row * hidden_;
    float* const to = out + (row - begin) * hidden_;
    if (config_->norm == NormKind::rms) {
      cpu_steps::rms_norm(x, weight.data(), hidden_, epsilon, to);
    } else {
      cpu_steps::layer_norm(x, weight.data(), bias.data(), hidden_, epsilon, to);
    }
  }
}

void CpuForward::add_to_rows(const FloatArray& bias, std::int64_t count, float* rows) {
  const auto size = static_cast<std::int64_t>(bias.size());
  for (std::int64_t row = 0; row < count && size > 0; ++row) cpu_steps::add(bias.data(), size, rows + row * size);
}

bool CpuForward::for_rows(const std::function<void(const Rows&)>& step) {
  if (length_ == 1) {
    step({0, 1, scratch_.front()});
    return !pass_.job->stopped();
  }
  team_.run((length_ + chunk_ - 1) / chunk_, [&](std::int64_t task, int thread) {
    if (pass_.job->stopped()) return;
    const std::int64_t begin = task * chunk_;
    step({begin, std::min(begin + chunk_, length_), scratch_[floats(thread)]});
  });
  return !pass_.job->stopped();
}

void CpuForward::share(std::int64_t tasks, std::int64_t numbers, const std::function<void(std::int64_t task)>& body) {
  if (tasks > 1 && numbers >= kSharedNumbers) {
    team_.run(tasks, [&](std::int64_t task, int /*thread*/) { body(task); });
  } else {
    for (std::int64_t task = 0; task < tasks; ++task) body(task);
  }
}

void CpuForward::multiply(const LinearArguments& product) { length_ > 1 ? linear(product) : multiply_row(product); }

void CpuForward::multiply_row(const LinearArguments& product) {
  assert(product.rows == 1);
  const std::int64_t block = std::max<std::int64_t>(1, kTaskNumbers / product.depth);
  share((product.columns + block - 1) / block, product.columns * product.depth, [&](std::int64_t task) {
    LinearArguments part = product;
    const std::int64_t first = task * block;
    part.columns = std::min(block, product.columns - first);
    part.weight += first * product.depth;
    part.out += first;
    linear(part);
  });
}

}  // namespace foxscope
