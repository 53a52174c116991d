#include <cuda_runtime.h>

#include <algorithm>
#include <limits>

#include "kernels/cuda/device.h"
#include "kernels/cuda/errors.cuh"
#include "kernels/cuda/exp2.cuh"
#include "kernels/cuda/maps/forget_map.h"
#include "kernels/log2e.h"

namespace foxscope::kernels::cuda {
namespace {

constexpr unsigned kThreads = 256;
constexpr std::int64_t kMostGridRows = 65535;  // blocks along y and z

struct Parameters {
  int length, window;
  int row_begin, rows, column_begin, columns;
  int pixel_rows, pixel_columns;
  bool logarithm;
  MapReduction reduction;
  double* row_sum;     ///< [heads, pixel_rows] for means: over the bin's rows of exp(c_i - c_first), or c_i - c_first
  double* column_sum;  ///< [heads, pixel_columns] over its columns of exp(c_last - c_j), or c_last - c_j
};

__device__ __forceinline__ int edge(int begin, int size, int bins, int n) {
  return begin + static_cast<int>(std::int64_t{n} * size / bins);
}

/// exp of a difference of gates, which is float64; below 2^-126 exactly 0.
__device__ __forceinline__ float exp_of(double difference) {
  const auto x = static_cast<float>(difference * kLog2E);
  // The rest of the argument, which float32 does not hold, is at most 2^-24 of it.
  const auto rest = static_cast<float>(difference * kLog2E - static_cast<double>(x));
  const float y = exp2_fast(x);
  return fmaf(y, rest * 0.693147180559945F, y);
}

struct Bin {
  int row_begin, row_end, column_begin, column_end;
};

/// Mean over a bin that the diagonal or the window's edge cuts: rows one by one, each sum from the one before.
__device__ double cut_mean(const Parameters& p, const double* c, const Bin& bin) {
  const int width = p.window > 0 ? p.window : p.length;
  const int begin = max(bin.row_begin, bin.column_begin);
  const int end = static_cast<int>(min(std::int64_t{bin.row_end}, std::int64_t{bin.column_end} - 1 + width));
  int oldest = max(bin.column_begin, begin - width + 1);
  int next = min(bin.column_end, begin + 1);  // keys [oldest, next) are seen
  double seen = 0;                            // sum over them of F, or of log F
  double total = 0;
  std::int64_t count = 0;
  for (int row = begin; row < end; ++row) {
    if (row == begin) {
      for (int key = oldest; key < next; ++key) {
        const double x = c[row] - c[key];
        seen += p.logarithm ? x : exp(x);
      }
    } else {
      const double x = c[row] - c[row - 1];
      seen = p.logarithm ? seen + x * (next - oldest) : seen * exp(x);
      if (row < bin.column_end) {
        seen += p.logarithm ? 0.0 : 1.0;
        next = row + 1;
      }
      if (oldest <= row - width) {
        const double old = c[row] - c[oldest];
        seen -= p.logarithm ? old : exp(old);
        ++oldest;
        // Later keys weigh no less than those that leave, so little is lost but where nothing remains.
        if (oldest == next) seen = 0;
      }
    }
    total += seen;
    count += next - oldest;
  }
  return count == 0 ? nan("") : total / static_cast<double>(count);
}

/// log F's extreme in a cut bin; NaN where it has no entry.
__device__ double cut_extreme(const Parameters& p, const double* c, const Bin& bin, bool largest) {
  const int width = p.window > 0 ? p.window : p.length;
  const int begin = max(bin.row_begin, bin.column_begin);
  const auto end = static_cast<int>(min(std::int64_t{bin.row_end}, std::int64_t{bin.column_end} - 1 + width));
  if (begin >= end || isnan(c[end - 1])) return nan("");  // NaN in a sum is NaN in all later ones
  if (largest) return begin < min(bin.row_end, bin.column_end) ? 0.0 : c[bin.row_begin] - c[bin.column_end - 1];
  // The oldest key with the last row that sees it; beyond that row, each row's own oldest key.
  double smallest = 0;
  const auto row = static_cast<int>(min(std::int64_t{bin.row_end} - 1, std::int64_t{bin.column_begin} + width - 1));
  if (row >= begin) smallest = c[row] - c[bin.column_begin];
  for (int n = max(begin, bin.column_begin + min(width, p.length)); n < end; ++n) {
    smallest = min(smallest, c[n] - c[n - width + 1]);
  }
  return smallest;
}

__device__ double full_value(const Parameters& p, const double* c, const Bin& bin, int head, int row, int column) {
  if (p.reduction == MapReduction::mean) {
    const double r = p.row_sum[std::int64_t{head} * p.pixel_rows + row];
    const double k = p.column_sum[std::int64_t{head} * p.pixel_columns + column];
    const double x = c[bin.row_begin] - c[bin.column_end - 1];
    const double rows = bin.row_end - bin.row_begin;
    const double columns = bin.column_end - bin.column_begin;
    return p.logarithm ? x + r / rows + k / columns : static_cast<double>(exp_of(x)) * (r / rows) * (k / columns);
  }
  if (isnan(c[bin.row_end - 1])) return nan("");
  const double x = p.reduction == MapReduction::max ? c[bin.row_begin] - c[bin.column_end - 1]
                                                    : c[bin.row_end - 1] - c[bin.column_begin];
  return p.logarithm ? x : static_cast<double>(exp_of(x));
}

__device__ double value(const Parameters& p, const double* c, const Bin& bin, int head, int row, int column) {
  const bool cut =
      bin.column_end - 1 > bin.row_begin || (p.window > 0 && bin.column_begin <= bin.row_end - 1 - p.window);
  if (!cut) return full_value(p, c, bin, head, row, column);
  if (p.reduction == MapReduction::mean) return cut_mean(p, c, bin);
  const double x = cut_extreme(p, c, bin, p.reduction == MapReduction::max);
  return p.logarithm || isnan(x) ? x : static_cast<double>(exp_of(x));
}

/// Sums over the bins of rows, then of columns, one warp a bin.
__global__ void sum_bins(const __grid_constant__ Parameters p, const double* gates) {
  const int head = static_cast<int>(blockIdx.y);
  const double* c = gates + std::int64_t{head} * p.length;
  const int bin = static_cast<int>(blockIdx.x * (kThreads / 32) + threadIdx.x / 32);
  if (bin >= p.pixel_rows + p.pixel_columns) return;
  const bool of_row = bin < p.pixel_rows;
  const int n = of_row ? bin : bin - p.pixel_rows;
  const int from =
      of_row ? edge(p.row_begin, p.rows, p.pixel_rows, n) : edge(p.column_begin, p.columns, p.pixel_columns, n);
  const int to =
      of_row ? edge(p.row_begin, p.rows, p.pixel_rows, n + 1) : edge(p.column_begin, p.columns, p.pixel_columns, n + 1);
  double sum = 0;
  for (int i = from + static_cast<int>(threadIdx.x) % 32; i < to; i += 32) {
    const double x = of_row ? c[i] - c[from] : c[to - 1] - c[i];
    sum += p.logarithm ? x : static_cast<double>(exp_of(x));
  }
  for (int lanes = 16; lanes > 0; lanes /= 2) sum += __shfl_xor_sync(0xffffffffU, sum, lanes);
  if (threadIdx.x % 32 != 0) return;
  if (of_row) {
    p.row_sum[std::int64_t{head} * p.pixel_rows + n] = sum;
  } else {
    p.column_sum[std::int64_t{head} * p.pixel_columns + n] = sum;
  }
}

/// A block has 256 pixels of a line; for means 8 pixels in each of 32 lines, shifted along the diagonal, so that those
/// that it cuts, which take longest, come together in warps.
__global__ void fill(const __grid_constant__ Parameters p, const __grid_constant__ Parameters other,
                     const double* gates, const double* minus, float* pixels) {
  const int head = static_cast<int>(blockIdx.z);
  const bool mean = p.reduction == MapReduction::mean;
  const int row = static_cast<int>(mean ? blockIdx.y * 32 + threadIdx.x % 32 : blockIdx.y);
  int column = static_cast<int>(mean ? blockIdx.x * 8 + threadIdx.x / 32 : blockIdx.x * kThreads + threadIdx.x);
  if (column >= p.pixel_columns || row >= p.pixel_rows) return;
  if (mean) {
    const std::int64_t shift = std::int64_t{row} * p.pixel_columns / p.pixel_rows;
    column = static_cast<int>((column + shift) % p.pixel_columns);
  }
  const Bin bin = {edge(p.row_begin, p.rows, p.pixel_rows, row), edge(p.row_begin, p.rows, p.pixel_rows, row + 1),
                   edge(p.column_begin, p.columns, p.pixel_columns, column),
                   edge(p.column_begin, p.columns, p.pixel_columns, column + 1)};
  const std::int64_t at = (std::int64_t{head} * p.pixel_rows + row) * p.pixel_columns + column;
  const bool none = bin.column_begin >= bin.row_end || (p.window > 0 && bin.column_end <= bin.row_begin - p.window + 1);
  if (none) {
    pixels[at] = nanf("");
    return;
  }
  double result = value(p, gates + std::int64_t{head} * p.length, bin, head, row, column);
  if (minus != nullptr) result -= value(other, minus + std::int64_t{head} * p.length, bin, head, row, column);
  pixels[at] = static_cast<float>(result);
}

struct LeastOf {
  __device__ double operator()(double a, double b) const { return min(a, b); }
};
struct LargestOf {
  __device__ double operator()(double a, double b) const { return max(a, b); }
};
struct SumOf {
  __device__ double operator()(double a, double b) const { return a + b; }
};

/// Combines the values of all lanes of a warp, for all of them.
template <class Operation>
__device__ double over_warp(double value, Operation operation) {
  for (int lanes = 16; lanes > 0; lanes /= 2) value = operation(value, __shfl_xor_sync(0xffffffffU, value, lanes));
  return value;
}

/// One pixel by distance, by a warp: rows [bin.row_begin, bin.row_end), i - j in [bin.column_begin, bin.column_end).
__device__ double distance_value(const Parameters& p, const double* c, const Bin& bin) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int near = bin.column_begin;
  const int far = p.window > 0 ? min(bin.column_end, p.window) : bin.column_end;
  const int first = max(bin.row_begin, near);
  // c is a sum that goes on: what follows a NaN is NaN.
  if (first >= bin.row_end || near >= far || isnan(c[bin.row_end - 1])) return nan("");
  const auto gate = [&](int row, int key) {
    const double x = c[row] - c[key];
    return p.logarithm ? x : static_cast<double>(exp_of(x));
  };
  if (p.reduction != MapReduction::mean) {
    const bool largest = p.reduction == MapReduction::max;
    double x = largest ? -INFINITY : 0.0;
    for (int row = first + lane; row < bin.row_end; row += 32) {
      x = largest ? max(x, c[row] - c[row - near]) : min(x, c[row] - c[max(0, row - far + 1)]);
    }
    x = largest ? over_warp(x, LargestOf()) : over_warp(x, LeastOf());
    return p.logarithm ? x : static_cast<double>(exp_of(x));
  }
  // Lanes share the keys of a row where there are many, else the rows.
  const bool many = far - near >= 32;
  double sum = 0;
  double count = 0;
  for (int row = many ? first : first + lane; row < bin.row_end; row += many ? 1 : 32) {
    const int oldest = max(0, row - far + 1);
    for (int key = many ? oldest + lane : oldest; key <= row - near; key += many ? 32 : 1) {
      sum += gate(row, key);
      count += 1;
    }
  }
  return over_warp(sum, SumOf()) / over_warp(count, SumOf());
}

/// A warp a pixel.
__global__ void fill_distances(const __grid_constant__ Parameters p, const double* gates, const double* minus,
                               const int* edges, float* pixels) {
  const int head = static_cast<int>(blockIdx.z);
  const int row = static_cast<int>(blockIdx.y);
  const int column = static_cast<int>(blockIdx.x * (kThreads / 32) + threadIdx.x / 32);
  if (column >= p.pixel_columns) return;
  const Bin bin = {edge(p.row_begin, p.rows, p.pixel_rows, row), edge(p.row_begin, p.rows, p.pixel_rows, row + 1),
                   edges[column] - 1, edges[column + 1] - 1};
  double result = distance_value(p, gates + std::int64_t{head} * p.length, bin);
  if (minus != nullptr) result -= distance_value(p, minus + std::int64_t{head} * p.length, bin);
  const std::int64_t at = (std::int64_t{head} * p.pixel_rows + row) * p.pixel_columns + column;
  if (threadIdx.x % 32 == 0) pixels[at] = static_cast<float>(result);
}

std::size_t sums_of(const ForgetMap& map) {
  return static_cast<std::size_t>(map.heads * (map.pixel_rows + map.pixel_columns)) * sizeof(double);
}

bool valid(const ForgetMap& map) {
  constexpr std::int64_t kMost = std::numeric_limits<int>::max() / 4;
  if (map.heads < 1 || map.heads > kMostGridRows || map.length < 1 || map.length > kMost || map.window < 0)
    return false;
  const bool rows = map.row_begin >= 0 && map.row_begin < map.row_end && map.row_end <= map.length;
  if (!rows || map.pixel_rows < 1 || map.pixel_rows > map.row_end - map.row_begin || map.pixel_columns < 1)
    return false;
  if (map.distance_edges != nullptr) {
    if (map.column_begin < 1 || map.column_begin >= map.column_end || map.column_end > map.length + 1) return false;
  } else {
    const bool columns = map.column_begin >= 0 && map.column_begin < map.column_end && map.column_end <= map.length;
    if (!columns || map.pixel_columns > map.column_end - map.column_begin) return false;
  }
  if (map.cumulative_log_gate == nullptr || map.pixels == nullptr) return false;
  if (map.minus != nullptr && map.reduction != MapReduction::mean) return false;
  return map.workspace != nullptr || forget_map_workspace_bytes(map) == 0;
}

}  // namespace

std::size_t forget_map_workspace_bytes(const ForgetMap& map) {
  if (map.distance_edges != nullptr) return static_cast<std::size_t>(map.pixel_columns + 1) * sizeof(int);
  if (map.reduction != MapReduction::mean) return 0;
  return sums_of(map) * (map.minus == nullptr ? 1 : 2);
}

Status forget_map(const ForgetMap& map, Stream stream) {
  if (!valid(map)) return Status::invalid_argument;
  if (map.pixel_rows > kMostGridRows) return Status::unsupported;
  if (!is_available()) return Status::unavailable;
  Parameters p = {};
  p.length = static_cast<int>(map.length);
  p.window = static_cast<int>(map.window < map.length ? map.window : 0);
  p.row_begin = static_cast<int>(map.row_begin);
  p.rows = static_cast<int>(map.row_end - map.row_begin);
  p.column_begin = static_cast<int>(map.column_begin);
  p.columns = static_cast<int>(map.column_end - map.column_begin);
  p.pixel_rows = static_cast<int>(map.pixel_rows);
  p.pixel_columns = static_cast<int>(map.pixel_columns);
  p.logarithm = map.value == ForgetValue::log_forget;
  p.reduction = map.reduction;
  // Among values of at most 0, as log F is, the one of largest size is the smallest; of F it is the largest.
  if (p.reduction == MapReduction::absmax) p.reduction = p.logarithm ? MapReduction::min : MapReduction::max;
  if (map.distance_edges != nullptr) {
    if (!succeeded(cudaMemcpyAsync(map.workspace, map.distance_edges, forget_map_workspace_bytes(map),
                                   cudaMemcpyHostToDevice, stream))) {
      return Status::failed;
    }
    const dim3 grid(static_cast<unsigned>((map.pixel_columns + kThreads / 32 - 1) / (kThreads / 32)),
                    static_cast<unsigned>(map.pixel_rows), static_cast<unsigned>(map.heads));
    fill_distances<<<grid, kThreads, 0, stream>>>(p, map.cumulative_log_gate, map.minus,
                                                  static_cast<const int*>(map.workspace), map.pixels);
    return launched();
  }
  p.row_sum = static_cast<double*>(map.workspace);
  p.column_sum = p.row_sum + map.heads * map.pixel_rows;
  Parameters other = p;
  if (map.reduction == MapReduction::mean) {
    const auto bins = static_cast<unsigned>(map.pixel_rows + map.pixel_columns);
    const dim3 grid((bins + kThreads / 32 - 1) / (kThreads / 32), static_cast<unsigned>(map.heads));
    sum_bins<<<grid, kThreads, 0, stream>>>(p, map.cumulative_log_gate);
    if (map.minus != nullptr) {
      other.row_sum = p.column_sum + map.heads * map.pixel_columns;
      other.column_sum = other.row_sum + map.heads * map.pixel_rows;
      sum_bins<<<grid, kThreads, 0, stream>>>(other, map.minus);
    }
    if (const auto status = launched(); status != Status::ok) return status;
  }
  const bool mean = map.reduction == MapReduction::mean;
  const auto columns = static_cast<unsigned>(map.pixel_columns);
  const auto rows = static_cast<unsigned>(map.pixel_rows);
  const dim3 grid(mean ? (columns + 7) / 8 : (columns + kThreads - 1) / kThreads, mean ? (rows + 31) / 32 : rows,
                  static_cast<unsigned>(map.heads));
  fill<<<grid, kThreads, 0, stream>>>(p, other, map.cumulative_log_gate, map.minus, map.pixels);
  return launched();
}

}  // namespace foxscope::kernels::cuda
