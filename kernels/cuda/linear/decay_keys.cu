#include <cstdint>

#include "kernels/cuda/device.h"
#include "kernels/cuda/errors.cuh"
#include "kernels/cuda/linear/linear_steps.h"
#include "kernels/cuda/row_access.cuh"

namespace foxscope::kernels::cuda {
namespace {

constexpr int kChannels = 128;   // of a block
constexpr int kRowsOfPart = 64;  // of a thread
constexpr std::int64_t kMostBlocks = std::int64_t{1} << 31;

/// What a logit makes, in float32.
struct Gate {
  float share;  ///< sigmoid(f)
  float other;  ///< 1 - share
  float key;    ///< 1 - alpha
  float alpha;

  __device__ __forceinline__ Gate(float logit, float bound)
      : share(sigmoid(logit)),
        other(sigmoid(-logit)),
        key((1.0F - bound) * other),
        alpha(bound + (1.0F - bound) * share) {}
};

/// log alpha, to float32's digits where alpha is near 0 or 1 as well.
__device__ __forceinline__ float log_of(const Gate& gate, float logit, float bound) {
  if (gate.key < 0.5F) return log1pf(-gate.key);
  return bound > 0.0F ? logf(gate.alpha) : logit - log1pf(expf(logit));
}

/// A thread is a channel through some rows.
__global__ void __launch_bounds__(kChannels) decay_keys_kernel(const __grid_constant__ DecayKeys a) {
  const std::int64_t width = a.heads * a.head_dim;
  const std::int64_t channel = std::int64_t{blockIdx.x} * kChannels + threadIdx.x;
  if (channel >= width) return;
  const std::int64_t b = blockIdx.z;
  const float bound = a.bound == nullptr ? 0.0F : a.bound[channel];
  const std::int64_t first = std::int64_t{blockIdx.y} * kRowsOfPart;
#pragma unroll 4
  for (std::int64_t t = first; t < min(first + kRowsOfPart, a.length); ++t) {
    const float logit = a.logit[b * a.batch_stride + t * a.row_stride + channel];
    const Gate gate(logit, bound);
    const std::int64_t place = (b * a.length + t) * width + channel;
    a.key[place] = gate.key;
    a.log_decay[place] = log_of(gate, logit, bound);
  }
}

__global__ void __launch_bounds__(kChannels) decay_keys_gradient_kernel(const __grid_constant__ DecayKeysGradient a) {
  const std::int64_t width = a.heads * a.head_dim;
  const std::int64_t channel = std::int64_t{blockIdx.x} * kChannels + threadIdx.x;
  if (channel >= width) return;
  const std::int64_t b = blockIdx.z;
  const float bound = a.bound == nullptr ? 0.0F : a.bound[channel];
  const std::int64_t first = std::int64_t{blockIdx.y} * kRowsOfPart;
  const std::int64_t of_head = (b * a.heads + channel / a.head_dim) * a.length;
  float sum = 0;
#pragma unroll 4
  for (std::int64_t t = first; t < min(first + kRowsOfPart, a.length); ++t) {
    const Gate gate(a.logit[b * a.batch_stride + t * a.row_stride + channel], bound);
    const std::int64_t place = (b * a.length + t) * width + channel;
    const auto of_log = static_cast<float>(a.log_decay_gradient[(of_head + t) * a.head_dim + channel % a.head_dim]);
    const float of_key = a.key_gradient[place];
    // Without a bound both are the same, also where they are 0.
    const float share = bound > 0.0F ? gate.share / gate.alpha : 1.0F;
    a.logit_gradient[place] = (1.0F - bound) * gate.other * (of_log * share - of_key * gate.share);
    if (bound > 0.0F) sum += gate.other * (of_log / gate.alpha - of_key);
  }
  if (a.bound != nullptr) a.parts[(b * gridDim.y + blockIdx.y) * width + channel] = sum;
}

bool is_valid(const DecayKeys& a) {
  return a.batch >= 1 && a.batch < 65536 && a.length >= 1 && a.length <= 65535 * std::int64_t{kRowsOfPart} &&
         a.heads >= 1 && a.head_dim >= 1 && a.heads * a.head_dim < kMostBlocks &&
         a.row_stride >= a.heads * a.head_dim && a.logit != nullptr;
}

dim3 blocks_of(const DecayKeys& a) {
  return {static_cast<unsigned>((a.heads * a.head_dim + kChannels - 1) / kChannels),
          static_cast<unsigned>((a.length + kRowsOfPart - 1) / kRowsOfPart), static_cast<unsigned>(a.batch)};
}

}  // namespace

Status decay_keys(const DecayKeys& a, Stream stream) {
  if (!is_valid(a) || a.log_decay == nullptr || a.key == nullptr) return Status::invalid_argument;
  if (!is_available()) return Status::unavailable;
  decay_keys_kernel<<<blocks_of(a), kChannels, 0, stream>>>(a);
  return launched();
}

std::int64_t decay_keys_parts(const DecayKeys& a) { return a.batch * ((a.length + kRowsOfPart - 1) / kRowsOfPart); }

Status decay_keys_gradient(const DecayKeysGradient& a, Stream stream) {
  if (!is_valid(a) || a.log_decay_gradient == nullptr || a.key_gradient == nullptr || a.logit_gradient == nullptr ||
      (a.bound != nullptr && a.parts == nullptr)) {
    return Status::invalid_argument;
  }
  if (!is_available()) return Status::unavailable;
  decay_keys_gradient_kernel<<<blocks_of(a), kChannels, 0, stream>>>(a);
  return launched();
}

}  // namespace foxscope::kernels::cuda
