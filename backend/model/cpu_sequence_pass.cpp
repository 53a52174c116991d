#include "backend/model/cpu_sequence_pass.h"

#include <algorithm>
#include <cassert>
#include <cmath>

#include "backend/model/cpu_continuation.h"
#include "backend/model/cpu_steps.h"
#include "backend/model/interventions.h"

namespace foxscope {
namespace {

constexpr std::int64_t kRowsAtOnce = 256;

std::span<const float> row_of(std::span<const float> rows, std::int64_t row, std::int64_t size) {
  return rows.empty() ? rows : rows.subspan(floats(row * size), floats(size));
}

}  // namespace

RotaryTable::RotaryTable(const ModelConfig& config, std::int64_t first, std::int64_t length)
    : half(config.head_dim / 2) {
  if (!config.rope) return;
  cosine.resize(floats(length * half));
  sine.resize(floats(length * half));
  for (std::int64_t n = 0; n < half; ++n) {
    const double frequency = std::pow(config.rope_base, -2.0 * static_cast<double>(n) / config.head_dim);
    for (std::int64_t p = 0; p < length; ++p) {
      const double angle = static_cast<double>(first + p) * frequency;
      cosine[floats(p * half + n)] = static_cast<float>(std::cos(angle));
      sine[floats(p * half + n)] = static_cast<float>(std::sin(angle));
    }
  }
}
CpuSequencePass::CpuSequencePass(const ModelConfig& config, const CpuWeights& weights, const ForwardRequest& request,
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
      start_(row_of(request.start.hidden, row, request.length * config.hidden_size)),
      rotary_(config, 0, request.length),
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
    CpuScratch& scratch = scratch_.emplace_back();
    scratch.normed.resize(floats((chunk_ + 1) * hidden_));
    scratch.wide.resize(floats((chunk_ + 1) * widest));
  }
}

bool CpuSequencePass::for_rows(const std::function<void(std::int64_t begin, std::int64_t end, CpuScratch&)>& step) {
  assert(chunk_ > 0 && length_ > 0);
  const std::int64_t chunks = (length_ + chunk_ - 1) / chunk_;
  team_.run(chunks, [&](std::int64_t task, int thread) {
    if (job_.stopped()) return;
    const std::int64_t begin = task * chunk_;
    step(begin, std::min(begin + chunk_, length_), scratch_[static_cast<std::size_t>(thread)]);
  });
  return !job_.stopped();
}

/// What enters the first layer that is run.
void CpuSequencePass::enter() {
  if (!start_.empty()) {
    std::copy(start_.begin(), start_.end(), residual_.begin());
    return;
  }
  for (std::int64_t p = 0; p < length_; ++p) {
    assert(input_ids_[p] >= 0 && input_ids_[p] < config_.vocabulary_size);
    const float* row = weights_.embedding.data() + input_ids_[p] * hidden_;
    std::copy(row, row + hidden_, residual_.data() + p * hidden_);
  }
}

/// x += down_proj(silu(g) * y) for the rows [begin, end).
void CpuSequencePass::feed_forward(const CpuLayerWeights& weights, std::int64_t begin, std::int64_t end,
                                   CpuScratch& scratch) {
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

void CpuSequencePass::record_hidden(int index) {
  const std::span<float> hidden = recorder_.hidden_states(index, hidden_);
  assert(hidden.empty() || hidden.size() == residual_.size());
  if (!hidden.empty()) std::copy(residual_.begin(), residual_.end(), hidden.begin());
}

bool CpuSequencePass::run_layer(int layer, ForwardReport& report) {
  assert(layer >= 0 && layer < static_cast<int>(weights_.layers.size()));
  const CpuLayerWeights& weights = weights_.layers[static_cast<std::size_t>(layer)];
  assert(weights.projection.size() == floats(columns_.count * hidden_));
  const auto own_or_kept = [&](QueryKeyStore::Part part, FloatArray& own, std::int64_t heads) {
    const std::span<std::byte> kept = recorder_.query_key(part, layer);
    assert(kept.empty() || kept.size() == floats(heads * length_ * head_dim_) * sizeof(float));
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
  if (!for_rows([&](auto begin, auto end, CpuScratch& scratch) { project(layer, begin, end, scratch); })) return false;
  prepare_gates(layer);
  if (!attend(layer, report)) return false;
  if (continuation_ != nullptr) {
    continuation_->take_layer(layer, {key_, value_.data(), recorder_.cumulative_log_gate(layer)});
  }
  const bool done = for_rows([&](auto begin, auto end, CpuScratch& scratch) {
    leave_attention(weights, layer, begin, end, scratch);
    feed_forward(weights, begin, end, scratch);
  });
  if (done) recorder_.release_layer(layer);
  return done;
}

bool CpuSequencePass::run(ForwardReport& report) {
  enter();
  const auto tell = [&](int done) { job_.tell({done, config_.layers + 1, "layers", "forward"}); };
  for (int layer = request_.start.layer; layer < config_.layers; ++layer) {
    tell(layer);
    if (!run_layer(layer, report)) return false;
  }
  tell(config_.layers);
  if (continuation_ != nullptr) continuation_->take_residual(residual_.data() + (length_ - 1) * hidden_);
  // The arrays are made here: their first use below is on several threads.
  recorder_.hidden_states(config_.layers, hidden_);
  recorder_.logits(config_.vocabulary_size);
  if (!for_rows([&](auto begin, auto end, CpuScratch& scratch) { predict(begin, end, scratch); })) return false;
  tell(config_.layers + 1);
  return true;
}

}  // namespace foxscope
