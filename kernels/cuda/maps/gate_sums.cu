#include "kernels/cuda/device.h"
#include "kernels/cuda/errors.cuh"
#include "kernels/cuda/maps/gate_sums.h"
#include "kernels/gate_sums_block.h"

namespace foxscope::kernels::cuda {
namespace {

constexpr int kGateThreads = 256;

__device__ void add_whole(std::int64_t* to, std::int64_t value) {
  atomicAdd(reinterpret_cast<unsigned long long*>(to), static_cast<unsigned long long>(value));
}

/// The threads of a block, for sums that others add to at the same time.
class DeviceBlock {
 public:
  __device__ static int thread() { return static_cast<int>(threadIdx.x); }
  __device__ static int threads() { return kGateThreads; }
  __device__ static void sync() { __syncthreads(); }
  __device__ static void add(std::int64_t* to, std::int64_t value) { add_whole(to, value); }
  __device__ static void add(std::uint32_t* to, std::uint32_t value) { atomicAdd(to, value); }
  /// By all threads of a warp.
  __device__ static void add_all(std::int64_t* to, std::int64_t value) {
    for (int lanes = 16; lanes > 0; lanes /= 2) value += __shfl_xor_sync(0xffffffffU, value, lanes);
    if (threadIdx.x % 32 == 0 && value != 0) add_whole(to, value);
  }
  __device__ static void set(std::uint32_t* to, std::uint32_t bits) { atomicOr(to, bits); }
  __device__ static void least(std::uint64_t* to, std::uint64_t value) {
    if (value != ~std::uint64_t{0}) {
      atomicMin(reinterpret_cast<unsigned long long*>(to), static_cast<unsigned long long>(value));
    }
  }
};

__global__ void __launch_bounds__(kGateThreads) sum_gates_of_heads(const __grid_constant__ GateSums sums) {
  __shared__ gates::Shared shared;
  DeviceBlock block;
  gates::sum_gates(block, sums, static_cast<int>(blockIdx.y), static_cast<int>(blockIdx.x), shared);
}

constexpr int kTile = 64;            // heads of either side of a block
constexpr int kProductEntries = 16;  // positions that are in shared memory at once
constexpr int kOwn = 4;              // heads of either side of a thread

__device__ void load_gates(const GateProducts& p, const GateProducts::Heads& heads, int window, int first, int begin,
                           double (*to)[kTile + 1]) {
  for (int n = static_cast<int>(threadIdx.x); n < kTile * kProductEntries; n += kGateThreads) {
    const int entry = n % kProductEntries;
    const int head = first + n / kProductEntries;
    const int at = begin + entry;
    double log_gate = 0;
    if (head < heads.count && at < p.length && heads.gated[head] != 0) {
      const double* const c = heads.cumulative + (std::int64_t{window} * heads.count + head) * p.length;
      log_gate = c[at] - c[at - 1];
    }
    to[entry][n / kProductEntries] = log_gate;
  }
}

/// A block has the products of two tiles of heads in one window; a thread has those of 4 heads with 4, each summed
/// position by position.
__global__ void __launch_bounds__(kGateThreads) multiply_gates(const __grid_constant__ GateProducts p) {
  __shared__ double own[kProductEntries][kTile + 1];
  __shared__ double other[kProductEntries][kTile + 1];
  const int first = static_cast<int>(blockIdx.y) * kTile;
  const int first_other = static_cast<int>(blockIdx.x) * kTile;
  if (p.pairs && first_other > first) return;
  const auto window = static_cast<int>(blockIdx.z);
  const int row = static_cast<int>(threadIdx.x) / (kTile / kOwn);
  const int column = static_cast<int>(threadIdx.x) % (kTile / kOwn);
  double sum[kOwn][kOwn] = {};
  for (int begin = 1; begin < p.length; begin += kProductEntries) {
    __syncthreads();
    load_gates(p, p.own, window, first, begin, own);
    load_gates(p, p.other, window, first_other, begin, other);
    __syncthreads();
#pragma unroll 4
    for (int entry = 0; entry < kProductEntries; ++entry) {
      double a[kOwn];
      double b[kOwn];
#pragma unroll
      for (int n = 0; n < kOwn; ++n) {
        a[n] = own[entry][row + n * (kTile / kOwn)];
        b[n] = other[entry][column + n * (kTile / kOwn)];
      }
#pragma unroll
      for (int n = 0; n < kOwn; ++n) {
#pragma unroll
        for (int m = 0; m < kOwn; ++m) sum[n][m] = fma(a[n], b[m], sum[n][m]);
      }
    }
  }
#pragma unroll
  for (int n = 0; n < kOwn; ++n) {
#pragma unroll
    for (int m = 0; m < kOwn; ++m) {
      const std::int64_t a = first + row + n * (kTile / kOwn);
      const std::int64_t b = first_other + column + m * (kTile / kOwn);
      if (a >= p.own.count || b >= p.other.count || (p.pairs && b > a)) continue;
      if (p.own.gated[a] == 0 || p.other.gated[b] == 0) continue;
      std::int64_t* const to = p.sums + 3 * (p.pairs ? a * (a + 1) / 2 + b : a * p.other.count + b);
      if (!gates::add_limbs(sum[n][m], to, add_whole)) atomicOr(p.failed, 1U);
    }
  }
}

unsigned tiles(int heads) { return static_cast<unsigned>((heads + kTile - 1) / kTile); }

constexpr int kMostGridRows = 65535;

}  // namespace

Status gate_sums(const GateSums& sums, Stream stream) {
  if (sums.windows < 1 || sums.windows > kMostGridRows || sums.heads < 1 || sums.length < 2 ||
      sums.cumulative == nullptr) {
    return Status::invalid_argument;
  }
  if (!is_available()) return Status::unavailable;
  const std::size_t rows = static_cast<std::size_t>(sums.windows) * static_cast<std::size_t>(sums.heads);
  const auto words = static_cast<std::size_t>(GateSums::reset_words(sums.length - 1));
  const std::size_t slot_bytes = static_cast<std::size_t>(sums.slot_count) * static_cast<std::size_t>(sums.heads) * 8;
  if (!succeeded(cudaMemsetAsync(sums.of_head, 0, rows * sizeof(GateOfHead), stream)) ||
      !succeeded(cudaMemsetAsync(sums.resets, 0, rows * words * sizeof(std::uint32_t), stream)) ||
      (slot_bytes > 0 && !succeeded(cudaMemsetAsync(sums.slot_sums, 0, slot_bytes, stream)))) {
    return Status::failed;
  }
  sum_gates_of_heads<<<dim3(static_cast<unsigned>(sums.heads), static_cast<unsigned>(sums.windows)), kGateThreads, 0,
                       stream>>>(sums);
  return launched();
}

Status gate_products(const GateProducts& products, Stream stream) {
  if (products.windows < 1 || products.windows > kMostGridRows || products.own.count < 1 || products.other.count < 1 ||
      products.length < 2) {
    return Status::invalid_argument;
  }
  if (!is_available()) return Status::unavailable;
  const dim3 grid(tiles(products.other.count), tiles(products.own.count), static_cast<unsigned>(products.windows));
  multiply_gates<<<grid, kGateThreads, 0, stream>>>(products);
  return launched();
}

}  // namespace foxscope::kernels::cuda
