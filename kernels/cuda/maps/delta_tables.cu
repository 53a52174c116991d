// Tables of the delta rule: the entries within each block of 64, what a block makes of a query that comes from behind
// it, and each query as it stands before its own block (docs/maps.md).
#include <limits>

#include "kernels/cuda/errors.cuh"
#include "kernels/cuda/maps/mixing_tables.cuh"

namespace foxscope::kernels::cuda::maps {
namespace {

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / 32;
constexpr int kStride = kTileKeys + 1;

struct DeltaTables {
  const void* query = nullptr;
  const void* key = nullptr;
  const double* gate = nullptr;  ///< [L] c, or null: zeros
  const float* beta = nullptr;   ///< [L], or null: ones
  bool float32 = false;
  int length = 0;
  int dim = 0;
  int depth = 0;
  std::int64_t part = 0;
  __nv_bfloat16* driven = nullptr;  ///< MixingTables::key
  __nv_bfloat16* left = nullptr;
  float* start = nullptr;
  float* diagonal = nullptr;
  float* factor = nullptr;

  __device__ __forceinline__ float number(const void* from, int row, int n) const {
    const std::int64_t at = std::int64_t{row} * dim + n;
    return float32 ? static_cast<const float*>(from)[at]
                   : __bfloat162float(static_cast<const __nv_bfloat16*>(from)[at]);
  }
  /// exp(c_later - c_earlier)
  __device__ __forceinline__ float decay(int later, int earlier) const {
    if (gate == nullptr) return 1.0F;
    const double difference = gate[later] - gate[earlier];
    return static_cast<float>(exp(difference > 0 ? 0.0 : difference));
  }
  __device__ __forceinline__ float beta_at(int row) const { return beta == nullptr ? 1.0F : beta[row]; }
  __device__ __forceinline__ void write(__nv_bfloat16* out, int row, int n, float x, float y) const {
    const SplitPair pair = split_pair(x, y);
    auto* to = reinterpret_cast<std::uint32_t*>(out + std::int64_t{row} * depth + n);
    *to = pair.high;
    to[part / 2] = pair.low;
  }
};

int table_bytes(int dim) { return kTileKeys * kStride * (8 + 4) + kTileKeys * (dim + 1) * 4 + 3 * kTileKeys * 4; }

/// Shared memory of one block of keys.
struct Block {
  /// A_lj, strictly below the diagonal, at [l][j]; the inverse T_lj of I + A, on and below it, at [j][l].
  double* matrix;
  float* entry;   ///< [i][j] entries of the block's own queries
  float* key;     ///< [l][dim + 1]
  float* to_end;  ///< beta_l exp(c_e - c_l)
  float* before;  ///< exp(c_l - c_(b-1))
  float* beta;
  int first = 0;
  int count = 0;
  int key_stride = 0;

  __device__ Block(const DeltaTables& t, char* memory) {
    matrix = reinterpret_cast<double*>(memory);
    entry = reinterpret_cast<float*>(matrix + kTileKeys * kStride);
    key = entry + kTileKeys * kStride;
    key_stride = t.dim + 1;
    to_end = key + kTileKeys * key_stride;
    before = to_end + kTileKeys;
    beta = before + kTileKeys;
    first = static_cast<int>(blockIdx.x) * kTileKeys;
    count = max(0, min(kTileKeys, t.length - first));
  }
};

__device__ void load_keys(const DeltaTables& t, const Block& b) {
  const auto thread = static_cast<int>(threadIdx.x);
  for (int at = thread; at < b.count * t.dim; at += kThreads) {
    b.key[at / t.dim * b.key_stride + at % t.dim] = t.number(t.key, b.first + at / t.dim, at % t.dim);
  }
  const int last = b.first + b.count - 1;
  // Nothing stands before the text's first block.
  const int ahead = max(0, b.first - 1);
  if (thread < kTileKeys) {
    const int row = b.first + thread;
    const bool inside = thread < b.count;
    b.beta[thread] = inside ? t.beta_at(row) : 0.0F;
    b.to_end[thread] = inside ? b.beta[thread] * t.decay(last, row) : 0.0F;
    b.before[thread] = inside ? t.decay(row, ahead) : 0.0F;
  }
  if (thread == 0) t.factor[blockIdx.x] = b.count > 0 ? t.decay(last, ahead) : 0.0F;
}

/// A_lj = beta_j exp(c_l - c_j) k_l.k_j, and what the block's own queries bring: beta_j exp(c_i - c_j) q_i.k_j.
__device__ void fill_products(const DeltaTables& t, const Block& b) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  for (int row = static_cast<int>(threadIdx.x) / 32; row < b.count; row += kWarps) {
    for (int key = lane; key <= row; key += 32) {
      float of_query = 0;
      float of_key = 0;
      for (int n = 0; n < t.dim; ++n) {
        const float k = b.key[key * b.key_stride + n];
        of_query = fmaf(t.number(t.query, b.first + row, n), k, of_query);
        of_key = fmaf(b.key[row * b.key_stride + n], k, of_key);
      }
      const float decay = t.decay(b.first + row, b.first + key);
      b.entry[row * kStride + key] = of_query * b.beta[key] * decay;
      if (key < row) {
        b.matrix[row * kStride + key] =
            static_cast<double>(b.beta[key]) * static_cast<double>(decay) * static_cast<double>(of_key);
      }
    }
  }
}

/// Four threads a column, going down its rows.
__device__ void invert(const Block& b) {
  const auto column = static_cast<int>(threadIdx.x) / 4;
  const auto quarter = static_cast<int>(threadIdx.x) % 4;
  double* const of_column = b.matrix + column * kStride;
  if (quarter == 0) of_column[column] = 1;
  for (int row = 1; row < b.count; ++row) {
    __syncwarp();
    double sum = 0;
    for (int between = column + quarter; between < row; between += 4) {
      sum -= b.matrix[row * kStride + between] * of_column[between];
    }
    sum += __shfl_xor_sync(0xffffffffU, sum, 1);
    sum += __shfl_xor_sync(0xffffffffU, sum, 2);
    if (quarter == 0 && row > column) of_column[row] = sum;
  }
}

/// m = b T, one warp a query.
__device__ void finish_entries(const DeltaTables& t, const Block& b) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  for (int row = static_cast<int>(threadIdx.x) / 32; row < b.count; row += kWarps) {
    float* const of_row = b.entry + row * kStride;
    double entry[2] = {};
    for (int half = 0; half < 2; ++half) {
      const int key = lane + 32 * half;
      for (int l = key; l <= row; ++l) entry[half] += static_cast<double>(of_row[l]) * b.matrix[key * kStride + l];
    }
    __syncwarp();
    for (int half = 0; half < 2; ++half) {
      const int key = lane + 32 * half;
      if (key > row) continue;
      of_row[key] = static_cast<float>(entry[half]);
      t.diagonal[std::int64_t{b.first + row} * kTileKeys + key] = of_row[key];
    }
    __syncwarp();
  }
}

/// Writes the block's queries from behind it, and its own queries as they leave it. Two neighbours a thread.
__device__ void write_operands(const DeltaTables& t, const Block& b) {
  const int pairs = t.depth / 2;
  for (int at = static_cast<int>(threadIdx.x); at < kTileKeys * pairs; at += kThreads) {
    const int row = at / pairs;
    const int n = at % pairs * 2;
    float driven[2] = {};
    float left[2] = {};
    float start[2] = {};
    for (int i = 0; i < 2 && row < b.count; ++i) {
      if (n + i >= t.dim) continue;
      double sum = 0;
      for (int l = row; l < b.count; ++l) {
        sum += b.matrix[row * kStride + l] * static_cast<double>(b.to_end[l] * b.key[l * b.key_stride + n + i]);
      }
      driven[i] = static_cast<float>(sum);
      left[i] = -b.before[row] * b.key[row * b.key_stride + n + i];
      float of_query = t.number(t.query, b.first + row, n + i) * b.before[row];
      for (int l = 0; l <= row; ++l) {
        of_query -= b.entry[row * kStride + l] * (b.before[l] * b.key[l * b.key_stride + n + i]);
      }
      start[i] = of_query;
    }
    t.write(t.driven, b.first + row, n, driven[0], driven[1]);
    t.write(t.left, b.first + row, n, left[0], left[1]);
    *reinterpret_cast<float2*>(t.start + std::int64_t{b.first + row} * t.depth + n) = {start[0], start[1]};
  }
}

/// One block of threads a block of 64 positions.
__global__ void __launch_bounds__(kThreads) write_delta(const __grid_constant__ DeltaTables t) {
  extern __shared__ __align__(16) char memory[];
  const Block block(t, memory);
  load_keys(t, block);
  __syncthreads();
  fill_products(t, block);
  __syncthreads();
  invert(block);
  __syncthreads();
  finish_entries(t, block);
  __syncthreads();
  write_operands(t, block);
}

}  // namespace

Status prepare_delta(const MixingHead& head, const MixingTables& plan, char* memory, int shared_bytes,
                     cudaStream_t stream) {
  DeltaTables t;
  t.query = head.query;
  t.key = head.key;
  t.gate = head.cumulative_log_decay;
  t.beta = head.beta;
  t.float32 = head.element == ElementType::float32;
  t.length = static_cast<int>(head.length);
  t.dim = static_cast<int>(head.head_dim);
  t.depth = plan.depth;
  t.part = plan.part;
  t.driven = reinterpret_cast<__nv_bfloat16*>(memory + plan.key);
  t.left = reinterpret_cast<__nv_bfloat16*>(memory + plan.left);
  t.start = reinterpret_cast<float*>(memory + plan.start);
  t.diagonal = reinterpret_cast<float*>(memory + plan.diagonal);
  t.factor = reinterpret_cast<float*>(memory + plan.factor);
  const int bytes = table_bytes(t.dim);
  if (bytes > shared_bytes) return Status::unsupported;
  if (!succeeded(cudaFuncSetAttribute(write_delta, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes))) {
    return Status::failed;
  }
  write_delta<<<static_cast<unsigned>(plan.rows / kTileKeys), kThreads, static_cast<std::size_t>(bytes), stream>>>(t);
  return launched();
}

}  // namespace foxscope::kernels::cuda::maps
