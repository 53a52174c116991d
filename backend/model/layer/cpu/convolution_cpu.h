#pragma once

#include <cstdint>
#include <vector>

#include "backend/model/layer/cpu/cpu_pass.h"
#include "backend/model/spec/linear_mixer.h"

namespace foxscope {

/// The merged projection of a linear mixer's layer on the CPU, and the causal convolution of its columns.
class ConvolutionCpu {
 public:
  /// The projection of a chunk of rows, and of those before it that the convolution reads: they are computed once more,
  /// so that chunks do not wait for each other.
  struct Projected {
    const CpuPass::Rows& rows;
    std::int64_t first;  ///< row of values
    std::int64_t count;
    float* values;  ///< [count, columns().count]
    /// @returns memory for the convolved columns of one row
    [[nodiscard]] float* scratch(const LinearColumns& columns) const { return values + count * columns.count; }
  };

  explicit ConvolutionCpu(CpuPass& pass);
  /// Puts the convolution's weights with a channel's neighbours beside it.
  static void lay_out(int taps, LayerWeights& weights);

  [[nodiscard]] const LinearColumns& columns() const { return columns_; }
  /// Projects rows; to be called in a step for rows, when the layer's projection is packed.
  [[nodiscard]] Projected project(int layer, const CpuPass::Rows& rows);
  [[nodiscard]] const float* row_of(const Projected& projected, std::int64_t row) const {
    return projected.values + (row - projected.first) * columns_.count;
  }
  /// Convolves columns [convolved, precise) of one row; without taps copies these columns.
  /// @param row  of all B n
  /// @param out  [convolved_size()]
  void convolve(int layer, const Projected& projected, std::int64_t row, float* out) const;
  /// The states take up the last rows of the projection, for the convolution of those to come.
  void keep_windows(int layer, const Projected& projected);

 private:
  CpuPass& pass_;
  LinearColumns columns_;
  std::int64_t before_;  ///< rows before a row that its convolution reads
  FloatArray zeros_;     ///< the projection before the first position
};

}  // namespace foxscope
