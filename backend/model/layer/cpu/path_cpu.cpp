#include "backend/model/layer/cpu/path_cpu.h"

#include <algorithm>

#include <fmt/format.h>

#include "backend/base/error.h"
#include "backend/model/layer/cpu/cpu_steps.h"
#include "kernels/cpu/path_attention.h"

namespace foxscope {

PathCpu::PathCpu(CpuPass& pass)
    : pass_(pass),
      config_(pass.config()),
      path_(*config_.path),
      columns_(config_),
      length_(pass.length()),
      size_(config_.key_size()),
      erase_read_(index_of(pass.rows() * size_)),
      erase_write_(erase_read_.size()),
      zeros_(index_of(size_)) {}

void PathCpu::split(int layer, const CpuPass::Rows& rows, std::int64_t first, const float* projected, float* memory) {
  const LayerWeights& weights = pass_.weights(layer);
  const std::int64_t dim = config_.head_dim;
  const float* made = projected + columns_.path;
  std::int64_t stride = columns_.count;
  if (path_.rank > 0) {
    pass_.multiply({.rows = rows.end - first,
                    .columns = size_,
                    .depth = path_.rank,
                    .in = made,
                    .in_stride = stride,
                    .weight = weights.path_up.data(),
                    .out = memory,
                    .out_stride = size_});
    made = memory;
    stride = size_;
  }
  const auto row_of = [&](std::int64_t row) { return made + (row - first) * stride; };
  const std::int64_t before = rows_before();
  std::vector<const float*> taps(index_of(before + 1));
  std::vector<float> w(index_of(size_));
  for (std::int64_t row = rows.begin; row < rows.end; ++row) {
    for (std::int64_t tap = 0; tap <= before; ++tap) {
      const std::int64_t back = before - tap;
      const bool here = back <= row % length_;
      const float* const past =
          !here && pass_.continues() ? pass_.layer_state(layer, row).window.data() + tap * size_ : zeros_.data();
      taps[index_of(tap)] = here ? row_of(row - back) : past;
    }
    cpu_steps::convolve(taps, 0, weights.convolution_taps, nullptr, size_, w.data());
    if (path_.taps > 0) cpu_steps::silu(size_, w.data());
    const float* const logits = projected + (row - first) * columns_.count + columns_.path_beta;
    for (std::int64_t head = 0; head < config_.key_heads; ++head) {
      float* const own = w.data() + head * dim;
      cpu_steps::l2_norm(dim, static_cast<float>(path_.epsilon), 1, own);
      const float beta = 2 * cpu_steps::sigmoid(logits[head]);
      const std::int64_t to = at(row / length_) + (head * length_ + row % length_) * dim;
      for (std::int64_t n = 0; n < dim; ++n) {
        erase_read_[index_of(to + n)] = own[n];
        erase_write_[index_of(to + n)] = -beta * own[n];
      }
    }
  }
  if (!pass_.has_states() || before == 0) return;
  const std::int64_t fresh = std::min(before, length_);
  for (std::int64_t sequence = rows.begin / length_; sequence < rows.end / length_; ++sequence) {
    FloatArray& window = pass_.layer_state(layer, sequence).window;
    std::copy(window.begin() + fresh * size_, window.end(), window.begin());
    for (std::int64_t n = 0; n < fresh; ++n) {
      std::copy_n(row_of((sequence + 1) * length_ - fresh + n), size_, window.begin() + (before - fresh + n) * size_);
    }
  }
}

bool PathCpu::attend(int layer, std::int64_t first, const kernels::cpu::ForgettingAttention& arguments) {
  kernels::cpu::AttentionBlocks blocks;
  const kernels::Status status =
      kernels::cpu::path_attention(arguments, erase_read_.data() + at(first), erase_write_.data() + at(first),
                                   pass_.team(), pass_.job().stop, &blocks);
  pass_.report().attention_blocks += blocks.total;
  pass_.report().skipped_blocks += blocks.skipped;
  if (status == kernels::Status::invalid_argument) {
    throw ShapeError(fmt::format("[path_attention] {} heads of {} over {} positions are not supported", config_.heads,
                                 config_.head_dim, length_));
  }
  if (status != kernels::Status::ok) return false;
  for (std::int64_t sequence = first; sequence < first + arguments.batch; ++sequence) {
    const Probe& probe = pass_.probes()[index_of(sequence)];
    if (!probe.keeps(Keep::query_key)) continue;
    probe.take(TraceArray::erase_read, layer, erase_read_.data() + at(sequence));
    probe.take(TraceArray::erase_write, layer, erase_write_.data() + at(sequence));
  }
  return true;
}

FloatArray PathCpu::keys_at_end(std::int64_t sequence, const float* keys) {
  FloatArray passed(index_of(size_ * length_));
  const kernels::Status status = kernels::cpu::pass_path_keys(
      config_.key_heads, length_, config_.head_dim, keys, erase_read_.data() + at(sequence),
      erase_write_.data() + at(sequence), pass_.team(), pass_.job().stop, passed.data());
  return status == kernels::Status::ok ? passed : FloatArray();
}

void PathCpu::pass_cached(int layer) {
  const std::int64_t dim = config_.head_dim;
  std::int64_t keys = 0;
  for (std::int64_t sequence = 0; sequence < pass_.batch(); ++sequence) {
    keys += pass_.layer_state(layer, sequence).heads.front().end();
  }
  // Sequences may share pages, heads do not.
  pass_.share(config_.key_heads, size_ * keys, [&](std::int64_t head) {
    for (std::int64_t sequence = 0; sequence < pass_.batch(); ++sequence) {
      const std::int64_t own = at(sequence) + head * dim;
      pass_.layer_state(layer, sequence)
          .heads[index_of(head)]
          .pass(erase_read_.data() + own, erase_write_.data() + own);
    }
  });
}

}  // namespace foxscope
