#include <cstdint>

#include "kernels/cuda/device.h"
#include "kernels/cuda/errors.cuh"
#include "kernels/cuda/linear/delta_tiles.cuh"
#include "kernels/cuda/linear/linear_chunks.h"

namespace foxscope::kernels::cuda {
namespace {

using namespace delta_tiles;

constexpr int kWarps = kThreads / 32;
constexpr int kOfLane = kT / 32;  // positions of a lane

__device__ __forceinline__ double sum_of_warp(double x) {
#pragma unroll
  for (int step = 16; step > 0; step /= 2) x += __shfl_xor_sync(0xffffffffU, x, step);
  return x;
}

/// A warp is a chunk of a head, a lane two positions.
__global__ void __launch_bounds__(kThreads) head_decays_kernel(const __grid_constant__ HeadDecays a) {
  const std::int64_t chunks = (a.length + kT - 1) / kT;
  const std::int64_t chunk = std::int64_t{blockIdx.x} * kWarps + threadIdx.x / 32;  // (b H + h) N + n
  if (chunk >= a.batch * a.heads * chunks) return;
  const auto lane = static_cast<int>(threadIdx.x) % 32;
  const std::int64_t h = chunk / chunks % a.heads;
  const std::int64_t b = chunk / chunks / a.heads;
  const std::int64_t first = chunk % chunks * kT + kOfLane * lane;
  double step[kOfLane];
  float beta[kOfLane];
  double sum = 0;
#pragma unroll
  for (int i = 0; i < kOfLane; ++i) {
    const std::int64_t t = first + i;
    const bool inside = t < a.length;
    step[i] = 0;
    if (inside && a.log_decay != nullptr) {
      step[i] = a.log_decay[b * a.decay_batch_stride + h * a.decay_head_stride + t * a.decay_row_stride];
    }
    beta[i] = inside ? 1.0F : 0.0F;
    if (inside && a.beta != nullptr) {
      beta[i] = a.beta[b * a.beta_batch_stride + h * a.beta_head_stride + t * a.beta_row_stride];
    }
    sum += step[i];
  }
#pragma unroll
  for (int back = 1; back < 32; back *= 2) {
    const double before = __shfl_up_sync(0xffffffffU, sum, back);
    if (lane >= back) sum += before;
  }
  const double total = __shfl_sync(0xffffffffU, sum, 31);
  double before = __shfl_up_sync(0xffffffffU, sum, 1);
  if (lane == 0) before = 0;
#pragma unroll
  for (int i = 0; i < kOfLane; ++i) {
    before += step[i];
    const std::int64_t place = chunk * kT + kOfLane * lane + i;
    a.cumulative[place] = static_cast<float>(before);
    a.chunk_beta[place] = beta[i];
    a.to_end[place] = decay(static_cast<float>(total - before)) * beta[i];
  }
  if (lane == 0) a.kept[chunk] = decay(static_cast<float>(total));
}

__global__ void __launch_bounds__(kThreads) head_decays_gradient_kernel(const __grid_constant__ HeadDecaysGradient a) {
  const std::int64_t chunks = (a.length + kT - 1) / kT;
  const std::int64_t chunk = std::int64_t{blockIdx.x} * kWarps + threadIdx.x / 32;
  if (chunk >= a.batch * a.heads * chunks) return;
  const auto lane = static_cast<int>(threadIdx.x) % 32;
  const std::int64_t first = chunk % chunks * kT + kOfLane * lane;
  const std::int64_t out = chunk / chunks * a.length;
  const float last = a.cumulative[chunk * kT + kT - 1];
  double own[kOfLane];
  double end = 0;
  double sum = 0;
#pragma unroll
  for (int i = 0; i < kOfLane; ++i) {
    const std::int64_t place = chunk * kT + kOfLane * lane + i;
    const float of_end = a.to_end[place] * a.to_end_gradient[place];
    own[i] = static_cast<double>(a.cumulative_gradient[place]) - of_end;
    sum += own[i];
    end += of_end;
    if (a.beta_gradient != nullptr && first + i < a.length) {
      a.beta_gradient[out + first + i] =
          a.chunk_beta_gradient[place] + decay(last - a.cumulative[place]) * a.to_end_gradient[place];
    }
  }
  if (a.log_decay_gradient == nullptr) return;
  end = sum_of_warp(end) + static_cast<double>(a.kept[chunk]) * a.kept_gradient[chunk];
#pragma unroll
  for (int step = 1; step < 32; step *= 2) {
    const double later = __shfl_down_sync(0xffffffffU, sum, step);
    if (lane + step < 32) sum += later;
  }
#pragma unroll
  for (int i = 0; i < kOfLane; ++i) {
    if (first + i < a.length) a.log_decay_gradient[out + first + i] = sum + end;
    sum -= own[i];
  }
}

bool is_valid(const HeadDecays& a) {
  return is_size(a.batch) && is_size(a.heads) && is_size(a.length) &&
         is_size(a.batch * a.heads * ((a.length + kT - 1) / kT)) && a.cumulative != nullptr && a.to_end != nullptr &&
         a.kept != nullptr;
}

unsigned blocks_of(const HeadDecays& a) {
  const std::int64_t chunks = a.batch * a.heads * ((a.length + kT - 1) / kT);
  return static_cast<unsigned>((chunks + kWarps - 1) / kWarps);
}

}  // namespace

Status head_decays(const HeadDecays& a, Stream stream) {
  if (!is_valid(a) || a.chunk_beta == nullptr) return Status::invalid_argument;
  if (!is_available()) return Status::unavailable;
  head_decays_kernel<<<blocks_of(a), kThreads, 0, stream>>>(a);
  return launched();
}

Status head_decays_gradient(const HeadDecaysGradient& a, Stream stream) {
  if (!is_valid(a) || a.cumulative_gradient == nullptr || a.chunk_beta_gradient == nullptr ||
      a.to_end_gradient == nullptr || a.kept_gradient == nullptr) {
    return Status::invalid_argument;
  }
  if (!is_available()) return Status::unavailable;
  head_decays_gradient_kernel<<<blocks_of(a), kThreads, 0, stream>>>(a);
  return launched();
}

}  // namespace foxscope::kernels::cuda
