#include "tests/bench/torch_peer.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>
#include <vector>

#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>
#include <torch/csrc/autograd/autograd.h>

#include "kernels/cuda/device.h"

namespace foxscope::bench {
namespace {

constexpr std::int64_t kMatrix = 8192;
constexpr std::int64_t kCopied = std::int64_t{1} << 29;  // float32
constexpr int kWarm = 3;
constexpr int kRuns = 11;

/// LibTorch's default stream is the null stream.
double median_seconds(const std::function<void()>& run) {
  for (int warm = 0; warm < kWarm; ++warm) run();
  kernels::cuda::DeviceTimer timer;
  std::vector<double> seconds;
  for (int i = 0; i < kRuns; ++i) {
    timer.start(nullptr);
    run();
    seconds.push_back(timer.stop(nullptr));
  }
  std::nth_element(seconds.begin(), seconds.begin() + kRuns / 2, seconds.end());
  return seconds[kRuns / 2];
}

double matrix_rate(at::ScalarType type) {
  const auto options = at::TensorOptions().device(at::kCUDA).dtype(type);
  const at::Tensor a = at::randn({kMatrix, kMatrix}, options);
  const at::Tensor b = at::randn({kMatrix, kMatrix}, options);
  at::Tensor c = at::empty({kMatrix, kMatrix}, options);
  return 2 * std::pow(static_cast<double>(kMatrix), 3) / median_seconds([&] { at::mm_out(c, a, b); });
}

/// Of scaled_dot_product_attention's kernels.
void allow_only(Peer peer) {
  at::Context& context = at::globalContext();
  context.setSDPUseMath(false);
  context.setSDPUseMemEfficient(false);
  context.setSDPUseFlash(peer == Peer::flash);
  context.setSDPUseCuDNN(peer == Peer::cudnn);
}

at::Tensor random_rows(const AttentionShape& shape) {
  return at::randn({shape.batch, shape.heads, shape.length, shape.head_dim},
                   at::TensorOptions().device(at::kCUDA).dtype(at::kBFloat16));
}

}  // namespace

Limits measure_limits() {
  if (!at::hasCUDA()) return {};
  const c10::InferenceMode guard;
  Limits limits;
  limits.bfloat16 = matrix_rate(at::kBFloat16);
  limits.float32 = matrix_rate(at::kFloat);
  const at::Tensor from = at::randn({kCopied}, at::TensorOptions().device(at::kCUDA));
  at::Tensor to = at::empty_like(from);
  limits.memory = 8 * static_cast<double>(kCopied) / median_seconds([&] { to.copy_(from); });
  return limits;
}

double peer_attention_seconds(const AttentionShape& shape, Peer peer) {
  if (!at::hasCUDA()) return 0;
  const c10::InferenceMode guard;
  allow_only(peer);
  const at::Tensor q = random_rows(shape);
  const at::Tensor k = random_rows(shape);
  const at::Tensor v = random_rows(shape);
  try {
    return median_seconds([&] { at::scaled_dot_product_attention(q, k, v, {}, 0.0, true); });
  } catch (const c10::Error& error) {
    std::fprintf(stderr, "scaled_dot_product_attention: %s\n", error.what_without_backtrace());
    return 0;
  }
}

double peer_attention_backward_seconds(const AttentionShape& shape, Peer peer) {
  if (!at::hasCUDA()) return 0;
  allow_only(peer);
  const at::Tensor q = random_rows(shape).requires_grad_();
  const at::Tensor k = random_rows(shape).requires_grad_();
  const at::Tensor v = random_rows(shape).requires_grad_();
  const at::Tensor gradient = random_rows(shape);
  try {
    const at::Tensor output = at::scaled_dot_product_attention(q, k, v, {}, 0.0, true);
    return median_seconds([&] { torch::autograd::grad({output}, {q, k, v}, {gradient}, /*retain_graph=*/true); });
  } catch (const c10::Error& error) {
    std::fprintf(stderr, "gradients of scaled_dot_product_attention: %s\n", error.what_without_backtrace());
    return 0;
  }
}

}  // namespace foxscope::bench
