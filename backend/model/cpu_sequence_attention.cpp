#include <algorithm>
#include <cassert>
#include <cmath>

#include <fmt/format.h>

#include "backend/base/error.h"
#include "backend/model/cpu_continuation.h"
#include "backend/model/cpu_sequence_pass.h"
#include "backend/model/cpu_steps.h"
#include "backend/model/interventions.h"
#include "kernels/cpu/forgetting_attention.h"

namespace foxscope {

cpu_rows::Places CpuSequencePass::places(std::int64_t position) {
  cpu_rows::Places places;
  places.query = query_ + position * head_dim_;
  places.key = key_ + position * head_dim_;
  places.value = value_.data() + position * head_dim_;
  places.head_stride = length_ * head_dim_;
  if (!log_gate_.empty()) places.log_gate = log_gate_.data() + position;
  places.gate_stride = length_;
  if (config_.rope) {
    places.cosine = rotary_.cosine.data() + position * rotary_.half;
    places.sine = rotary_.sine.data() + position * rotary_.half;
  }
  return places;
}

/// Queries, keys, values and gates of the rows [begin, end). The shift needs the projection of the row before: it is
/// computed once more, so that chunks do not wait for each other.
void CpuSequencePass::project(int layer, std::int64_t begin, std::int64_t end, CpuScratch& scratch) {
  const CpuLayerWeights& weights = weights_.layers[static_cast<std::size_t>(layer)];
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
    cpu_rows::place(config_, weights, row, p == 0 ? zeros_.data() : row - columns_.count, places(p));
  }
  if (continuation_ != nullptr && end == length_) {
    continuation_->take_last_projection(layer, scratch.wide.data() + (end - 1 - first) * columns_.count);
  }
}

/// log f of gates that do not depend on data, interventions, and the cumulative sum.
void CpuSequencePass::prepare_gates(int layer) {
  const FloatArray& constant = weights_.layers[static_cast<std::size_t>(layer)].constant_gate;
  for (std::size_t head = 0; head < constant.size(); ++head) {
    double* gates = log_gate_.data() + head * floats(length_);
    std::fill(gates, gates + length_, cpu_steps::log_sigmoid(constant[head]));
  }
  assert(constant.empty() || constant.size() == floats(config_.heads));
  const std::span<double> cumulative = recorder_.cumulative_log_gate(layer);
  assert(cumulative.size() == floats(config_.heads * length_));
  if (log_gate_.empty()) {
    std::fill(cumulative.begin(), cumulative.end(), 0.0);
    return;
  }
  if (!config_.gated()) std::fill(log_gate_.begin(), log_gate_.end(), 0.0);
  change_gates(request_.interventions, layer, config_.heads, length_, log_gate_.data());
  kernels::cpu::cumulative_log_gate(log_gate_.data(), config_.heads, length_, cumulative.data());
}

bool CpuSequencePass::attend(int layer, ForwardReport& report) {
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
  assert(without_gate.empty() || without_gate.size() == floats(config_.heads * length_));
  arguments.log_normalizer_without_gate = without_gate.empty() ? nullptr : without_gate.data();
  arguments.scale = 1.0F / std::sqrt(static_cast<float>(head_dim_));
  arguments.window_size = config_.window_size;
  arguments.pruning_tolerance = request_.pruning_tolerance;
  assert(recorder_.log_normalizer(layer).size() == floats(config_.heads * length_));
  kernels::cpu::AttentionBlocks blocks;
  const kernels::Status status = kernels::cpu::forgetting_attention(arguments, team_, job_.stop, &blocks);
  if (status == kernels::Status::invalid_argument) {
    throw ShapeError(
        fmt::format("[forgetting_attention] {} heads of {} over {} positions with pruning tolerance {} are "
                    "not supported",
                    config_.heads, head_dim_, length_, request_.pruning_tolerance));
  }
  assert(blocks.skipped >= 0 && blocks.skipped <= blocks.total);
  report.attention_blocks += blocks.total;
  report.skipped_blocks += blocks.skipped;
  return status == kernels::Status::ok;
}

/// x += o_proj(act(gate) * norm(o)) for the rows [begin, end).
void CpuSequencePass::leave_attention(const CpuLayerWeights& weights, int layer, std::int64_t begin, std::int64_t end,
                                      CpuScratch& scratch) {
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
  for (std::int64_t p = begin; p < end; ++p) {
    cpu_rows::finish_attention(config_, weights, scratch.wide.data() + (p - begin) * hidden_, request_.interventions,
                               layer, attended_.data() + p * hidden_);
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

}  // namespace foxscope
