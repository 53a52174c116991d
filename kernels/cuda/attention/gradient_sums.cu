#include "kernels/cuda/attention/gradient_sums.cuh"

namespace foxscope::kernels::cuda {
namespace {

constexpr int kSide = 32;  // columns of a block, and threads of a column
constexpr int kSumsOfThread = static_cast<int>(kMostSummedBlocks) / kSide;

__global__ void __launch_bounds__(kSide* kSide)
    add_sums_kernel(const float* sums, int blocks, std::int64_t stride, int columns, float* to) {
  const int column = static_cast<int>(blockIdx.x) * kSide + static_cast<int>(threadIdx.x);
  float x[kSumsOfThread];
#pragma unroll
  for (int i = 0; i < kSumsOfThread; ++i) {
    const int block = i * kSide + static_cast<int>(threadIdx.y);
    x[i] = block < blocks && column < columns ? sums[block * stride + column] : 0.0F;
  }
  float sum = 0;
#pragma unroll
  for (float more : x) sum += more;
  __shared__ float turned[kSide][kSide + 1];
  turned[threadIdx.x][threadIdx.y] = sum;
  __syncthreads();
  sum = turned[threadIdx.y][threadIdx.x];
#pragma unroll
  for (int step = kSide / 2; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffffU, sum, step);
  const int of_warp = static_cast<int>(blockIdx.x) * kSide + static_cast<int>(threadIdx.y);
  if (threadIdx.x == 0 && of_warp < columns) to[of_warp] += sum;
}

}  // namespace

void add_sums(const float* sums, std::int64_t blocks, std::int64_t stride, std::int64_t columns, float* to,
              cudaStream_t stream) {
  const auto grid = static_cast<unsigned>((columns + kSide - 1) / kSide);
  add_sums_kernel<<<grid, dim3(kSide, kSide), 0, stream>>>(sums, static_cast<int>(blocks), stride,
                                                           static_cast<int>(columns), to);
}

}  // namespace foxscope::kernels::cuda
