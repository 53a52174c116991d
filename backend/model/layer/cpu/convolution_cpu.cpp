#include "backend/model/layer/cpu/convolution_cpu.h"

#include <algorithm>

#include "backend/model/layer/cpu/cpu_steps.h"

namespace foxscope {

ConvolutionCpu::ConvolutionCpu(CpuPass& pass)
    : pass_(pass),
      columns_(*pass.config().linear),
      before_(pass.config().linear->rows_before()),
      zeros_(index_of(columns_.count)) {
  pass.need({.normed = pass.hidden(), .wide = columns_.count, .more_normed = before_, .more_wide = before_ + 1});
}

void ConvolutionCpu::lay_out(int count, LayerWeights& weights) {
  if (weights.convolution.empty()) return;
  const auto taps = static_cast<std::size_t>(count);
  const std::size_t columns = weights.convolution.size() / taps;
  weights.convolution_taps.resize(weights.convolution.size());
  for (std::size_t n = 0; n < weights.convolution.size(); ++n) {
    weights.convolution_taps[n % taps * columns + n / taps] = weights.convolution[n];
  }
}

ConvolutionCpu::Projected ConvolutionCpu::project(int layer, const CpuPass::Rows& rows) {
  const LayerWeights& weights = pass_.weights(layer);
  const std::int64_t first = rows.begin - std::min(before_, rows.begin % pass_.length());
  const Projected projected{rows, first, rows.end - first, rows.scratch.wide.data()};
  float* const normed = rows.scratch.normed.data();
  pass_.norm_input(layer, first, rows.end, normed);
  pass_.multiply({.rows = projected.count,
                  .columns = columns_.count,
                  .depth = pass_.hidden(),
                  .in = normed,
                  .in_stride = pass_.hidden(),
                  .weight = weights.projection.data(),
                  .out = projected.values,
                  .out_stride = columns_.count});
  CpuPass::add_to_rows(weights.projection_bias, projected.count, projected.values);
  return projected;
}

void ConvolutionCpu::convolve(int layer, const Projected& projected, std::int64_t row, float* out) const {
  const LayerWeights& weights = pass_.weights(layer);
  std::vector<const float*> taps(index_of(before_ + 1));
  for (std::int64_t tap = 0; tap <= before_; ++tap) {
    const std::int64_t back = before_ - tap;
    const float*& from = taps[index_of(tap)];
    if (back <= row % pass_.length()) {
      from = row_of(projected, row - back);
    } else {
      // The row is all that there is of its sequence.
      from = pass_.continues() ? pass_.layer_state(layer, row).window.data() + tap * columns_.count : zeros_.data();
    }
  }
  const float* const bias = weights.convolution_bias.empty() ? nullptr : weights.convolution_bias.data();
  cpu_steps::convolve(taps, columns_.convolved, weights.convolution_taps, bias, columns_.convolved_size(), out);
}

void ConvolutionCpu::keep_windows(int layer, const Projected& projected) {
  if (!pass_.has_states() || before_ == 0) return;
  const std::int64_t length = pass_.length();
  const std::int64_t size = columns_.count;
  const std::int64_t fresh = std::min(before_, length);
  for (std::int64_t sequence = projected.rows.begin / length; sequence < projected.rows.end / length; ++sequence) {
    FloatArray& window = pass_.layer_state(layer, sequence).window;
    std::copy(window.begin() + fresh * size, window.end(), window.begin());
    std::copy_n(row_of(projected, (sequence + 1) * length - fresh), fresh * size,
                window.begin() + (before_ - fresh) * size);
  }
}

}  // namespace foxscope
