// Products of queries with sums of keys: prefix sums of the keys over positions, 32 columns of a head at a time, then
// one pass over queries for each lag. Everything is float64, and bound by the memory that prefix sums are read from.
#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <algorithm>

#include "kernels/cuda/device.h"
#include "kernels/cuda/errors.cuh"
#include "kernels/cuda/linear/lagged_products.h"
#include "kernels/cuda/maps/map_pooling.cuh"

namespace foxscope::kernels::cuda {
namespace {

constexpr int kColumns = 32;  // of a head, at a time: a warp's lanes
constexpr int kStrips = 8;    // of a block's rows: its warps
constexpr int kStripRows = 16;
constexpr int kChunkRows = kStrips * kStripRows;
constexpr int kProductRows = 512;  // queries of a block
constexpr int kScanStrips = 32;

struct Parameters {
  const void* query = nullptr;
  const void* key = nullptr;
  bool float32 = false;
  int length = 0;
  int head_dim = 0;
  int first_column = 0;
  int chunks = 0;             ///< of kChunkRows keys
  int blocks = 0;             ///< of kProductRows queries
  double* prefix = nullptr;   ///< [L, kColumns] sum of the keys from 1 to this one
  double* before = nullptr;   ///< [chunks, kColumns] sum of a chunk, and then of all chunks before it
  double* partial = nullptr;  ///< [lags, blocks] of all columns so far
  std::int64_t lags[LaggedProducts::kMostLags] = {};
};

/// A number of a row, 0 beside the head's columns.
__device__ __forceinline__ double number(const Parameters& p, const void* rows, int row) {
  const int column = p.first_column + static_cast<int>(threadIdx.x);
  if (column >= p.head_dim) return 0.0;
  const std::int64_t at = std::int64_t{row} * p.head_dim + column;
  return p.float32 ? static_cast<double>(static_cast<const float*>(rows)[at])
                   : static_cast<double>(__bfloat162float(static_cast<const __nv_bfloat16*>(rows)[at]));
}

/// Sum of the keys of this thread's strip of its block's chunk, key 0 left out.
__device__ __forceinline__ double sum_strip(const Parameters& p, int first_row) {
  double sum = 0;
#pragma unroll
  for (int n = 0; n < kStripRows; ++n) {
    const int row = first_row + n;
    if (row > 0 && row < p.length) sum += number(p, p.key, row);
  }
  return sum;
}

__global__ void sum_chunks(const __grid_constant__ Parameters p) {
  __shared__ double strips[kStrips][kColumns];
  const auto chunk = static_cast<int>(blockIdx.x);
  const auto strip = static_cast<int>(threadIdx.y);
  strips[strip][threadIdx.x] = sum_strip(p, chunk * kChunkRows + strip * kStripRows);
  __syncthreads();
  if (strip > 0) return;
  double sum = 0;
  for (int n = 0; n < kStrips; ++n) sum += strips[n][threadIdx.x];
  p.before[std::int64_t{chunk} * kColumns + threadIdx.x] = sum;
}

/// One block: from sums of chunks to those of all chunks before.
__global__ void scan_chunks(const __grid_constant__ Parameters p) {
  __shared__ double strips[kScanStrips][kColumns];
  const int of_strip = (p.chunks + kScanStrips - 1) / kScanStrips;
  const auto strip = static_cast<int>(threadIdx.y);
  const int begin = min(p.chunks, strip * of_strip);
  const int end = min(p.chunks, begin + of_strip);
  double sum = 0;
  for (int chunk = begin; chunk < end; ++chunk) sum += p.before[std::int64_t{chunk} * kColumns + threadIdx.x];
  strips[strip][threadIdx.x] = sum;
  __syncthreads();
  sum = 0;
  for (int n = 0; n < strip; ++n) sum += strips[n][threadIdx.x];
  for (int chunk = begin; chunk < end; ++chunk) {
    double& place = p.before[std::int64_t{chunk} * kColumns + threadIdx.x];
    const double own = place;
    place = sum;
    sum += own;
  }
}

__global__ void write_prefixes(const __grid_constant__ Parameters p) {
  __shared__ double strips[kStrips][kColumns];
  const auto chunk = static_cast<int>(blockIdx.x);
  const auto strip = static_cast<int>(threadIdx.y);
  const int first = chunk * kChunkRows + strip * kStripRows;
  strips[strip][threadIdx.x] = sum_strip(p, first);
  __syncthreads();
  double sum = p.before[std::int64_t{chunk} * kColumns + threadIdx.x];
  for (int n = 0; n < strip; ++n) sum += strips[n][threadIdx.x];
  for (int row = first; row < min(first + kStripRows, p.length); ++row) {
    if (row > 0) sum += number(p, p.key, row);
    p.prefix[std::int64_t{row} * kColumns + threadIdx.x] = sum;
  }
}

/// Adds the products of these columns to the partial sums.
__global__ void add_products(const __grid_constant__ Parameters p) {
  __shared__ double warps[kStrips];
  const auto block = static_cast<int>(blockIdx.x);
  const std::int64_t lag = p.lags[blockIdx.y];
  double sum = 0;
  for (int n = static_cast<int>(threadIdx.y); n < kProductRows; n += kStrips) {
    const int row = block * kProductRows + n;
    if (row >= p.length || row <= lag) continue;
    sum += number(p, p.query, row) * p.prefix[(row - lag) * kColumns + threadIdx.x];
  }
  for (int lanes = 16; lanes > 0; lanes /= 2) sum += __shfl_xor_sync(0xffffffffU, sum, lanes);
  if (threadIdx.x == 0) warps[threadIdx.y] = sum;
  __syncthreads();
  if (threadIdx.x > 0 || threadIdx.y > 0) return;
  double& place = p.partial[std::int64_t{blockIdx.y} * p.blocks + block];
  double total = p.first_column == 0 ? 0.0 : place;
  for (const double part : warps) total += part;
  place = total;
}

__global__ void sum_blocks(const __grid_constant__ Parameters p, double* sums) {
  double sum = 0;
  for (int block = static_cast<int>(threadIdx.x); block < p.blocks; block += 32) {
    sum += p.partial[std::int64_t{blockIdx.x} * p.blocks + block];
  }
  for (int lanes = 16; lanes > 0; lanes /= 2) sum += __shfl_xor_sync(0xffffffffU, sum, lanes);
  if (threadIdx.x == 0) sums[blockIdx.x] = sum;
}

bool valid(const LaggedProducts& a) {
  MapHead content = a.head;
  content.cumulative_log_gate = nullptr;
  if (!maps::head_valid(content) || content.query == nullptr) return false;
  if (a.sums == nullptr || a.workspace == nullptr) return false;
  if (a.count < 1 || a.count > LaggedProducts::kMostLags) return false;
  return std::all_of(a.lags, a.lags + a.count, [](std::int64_t lag) { return lag >= 0; });
}

std::int64_t parts(std::int64_t rows, std::int64_t of_part) { return (rows + of_part - 1) / of_part; }

cudaError_t launch(const LaggedProducts& a, cudaStream_t stream) {
  Parameters p;
  p.query = a.head.query;
  p.key = a.head.key;
  p.float32 = a.head.element == ElementType::float32;
  p.length = static_cast<int>(a.head.length);
  p.head_dim = static_cast<int>(a.head.head_dim);
  p.chunks = static_cast<int>(parts(a.head.length, kChunkRows));
  p.blocks = static_cast<int>(parts(a.head.length, kProductRows));
  p.prefix = static_cast<double*>(a.workspace);
  p.before = p.prefix + a.head.length * kColumns;
  p.partial = p.before + std::int64_t{p.chunks} * kColumns;
  std::copy(a.lags, a.lags + a.count, p.lags);
  const auto chunks = static_cast<unsigned>(p.chunks);
  const auto count = static_cast<unsigned>(a.count);
  const dim3 block(kColumns, kStrips);
  for (; p.first_column < p.head_dim; p.first_column += kColumns) {
    sum_chunks<<<chunks, block, 0, stream>>>(p);
    scan_chunks<<<1, dim3(kColumns, kScanStrips), 0, stream>>>(p);
    write_prefixes<<<chunks, block, 0, stream>>>(p);
    add_products<<<dim3(static_cast<unsigned>(p.blocks), count), block, 0, stream>>>(p);
  }
  sum_blocks<<<count, 32, 0, stream>>>(p, a.sums);
  return cudaGetLastError();
}

}  // namespace

std::size_t lagged_products_workspace_bytes(const LaggedProducts& products) {
  const std::int64_t length = products.head.length;
  const std::int64_t numbers =
      (length + parts(length, kChunkRows)) * kColumns + products.count * parts(length, kProductRows);
  return static_cast<std::size_t>(numbers) * sizeof(double);
}

Status lagged_products(const LaggedProducts& products, Stream stream) {
  if (!valid(products)) return Status::invalid_argument;
  if (!is_available()) return Status::unavailable;
  return status_of(launch(products, stream));
}

}  // namespace foxscope::kernels::cuda
