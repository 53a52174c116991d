// Gradient of the forget gate's logits.
#include <cmath>

#include "kernels/cuda/device.h"
#include "kernels/cuda/errors.cuh"
#include "kernels/cuda/row_access.cuh"
#include "kernels/cuda/steps/step_gradients.h"

namespace foxscope::kernels::cuda {
namespace {

constexpr int kSide = 32;  // positions and heads of a tile
constexpr int kTileRows = 8;
constexpr int kSumThreads = 512;
constexpr float kLowestLogGate = -1000;
constexpr std::int64_t kMost = std::int64_t{1} << 30;

/// d log f / dz: 1 - f, or 0 where log f is held; z below -1000 is log f to the last digit.
__device__ __forceinline__ float slope_of_gate(float z) { return z < kLowestLogGate ? 0.0F : sigmoid(-z); }

/// A block turns a tile of positions and heads over: gradients lie along positions, logits along heads.
__global__ void __launch_bounds__(kSide* kTileRows)
    gate_gradient_kernel(const __grid_constant__ ForgetGateGradient a, const int tiles) {
  __shared__ float tile[kSide][kSide + 1];
  const std::int64_t sequence = blockIdx.x / static_cast<unsigned>(tiles);
  const std::int64_t first = std::int64_t{blockIdx.x % static_cast<unsigned>(tiles)} * kSide;
  const std::int64_t first_head = std::int64_t{blockIdx.y} * kSide;
  const auto x = static_cast<int>(threadIdx.x);
  for (auto y = static_cast<int>(threadIdx.y); y < kSide; y += kTileRows) {
    const std::int64_t head = first_head + y;
    if (head >= a.heads || first + x >= a.length) continue;
    tile[y][x] = a.log_gate_gradient[(sequence * a.heads + head) * a.length + first + x];
  }
  __syncthreads();
  for (auto y = static_cast<int>(threadIdx.y); y < kSide; y += kTileRows) {
    const std::int64_t head = first_head + x;
    if (head >= a.heads || first + y >= a.length) continue;
    const std::int64_t row = sequence * a.length + first + y;
    const float slope = slope_of_gate(a.logits[row * a.logits_stride + head]);
    a.logits_gradient[row * a.logits_gradient_stride + head] = tile[x][y] * slope;
  }
}

/// A block is a head.
__global__ void __launch_bounds__(kSumThreads) constant_gradient_kernel(const __grid_constant__ ForgetGateGradient a) {
  __shared__ double sums[kSumThreads];
  const std::int64_t head = blockIdx.x;
  const unsigned thread = threadIdx.x;
  double sum = 0;
  for (std::int64_t sequence = 0; sequence < a.batch; ++sequence) {
    const float* gradient = a.log_gate_gradient + (sequence * a.heads + head) * a.length;
    for (std::int64_t t = thread; t < a.length; t += kSumThreads) sum += static_cast<double>(gradient[t]);
  }
  sums[thread] = sum;
  for (unsigned half = kSumThreads / 2; half > 0; half /= 2) {
    __syncthreads();
    if (thread < half) sums[thread] += sums[thread + half];
  }
  if (thread == 0) {
    a.logits_gradient[head] +=
        static_cast<float>(sums[0] * static_cast<double>(slope_of_gate(a.constant_logits[head])));
  }
}

}  // namespace

Status forget_gate_gradient(const ForgetGateGradient& a, Stream stream) {
  if (a.batch < 1 || a.heads < 1 || a.length < 1 || a.batch > kMost || a.heads > 65535 || a.length > kMost ||
      a.batch * a.length > kMost) {
    return Status::invalid_argument;
  }
  if (a.log_gate_gradient == nullptr || a.logits_gradient == nullptr ||
      (a.logits == nullptr) == (a.constant_logits == nullptr)) {
    return Status::invalid_argument;
  }
  if (a.logits != nullptr && (a.logits_stride < a.heads || a.logits_gradient_stride < a.heads)) {
    return Status::invalid_argument;
  }
  if (!is_available()) return Status::unavailable;
  if (a.constant_logits != nullptr) {
    constant_gradient_kernel<<<static_cast<unsigned>(a.heads), kSumThreads, 0, stream>>>(a);
    return launched();
  }
  const std::int64_t tiles = (a.length + kSide - 1) / kSide;
  const dim3 grid(static_cast<unsigned>(a.batch * tiles), static_cast<unsigned>((a.heads + kSide - 1) / kSide));
  gate_gradient_kernel<<<grid, dim3(kSide, kTileRows), 0, stream>>>(a, static_cast<int>(tiles));
  return launched();
}

}  // namespace foxscope::kernels::cuda
