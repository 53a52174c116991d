#include "backend/model/layer/torch/cuda_attention_torch.h"

#include <cassert>

#include <ATen/ATen.h>
#include <ATen/DeviceAccelerator.h>

#include "backend/base/error.h"
#include "kernels/cuda/attention/forgetting_attention_backward.h"
#include "kernels/cuda/device.h"

namespace foxscope {
namespace {

using kernels::cuda::AttentionKernel;

constexpr std::int64_t kMostBackHeadDim = 128;

/// The next head dimension that there is a kernel for; 0: none.
std::int64_t kernel_head_dim(std::int64_t head_dim, at::ScalarType type) {
  if (type == at::kFloat) return head_dim <= 128 ? (head_dim + 7) / 8 * 8 : 0;
  for (const std::int64_t dim : {16, 32, 64, 96, 128, 192, 256}) {
    if (head_dim <= dim) return dim;
  }
  return 0;
}

kernels::cuda::AttentionStrides strides(const at::Tensor& x) { return {x.stride(0), x.stride(1), x.stride(2)}; }

kernels::cuda::ForgettingAttention describe(const CudaAttention& a) {
  assert(a.query.dim() == 4 && a.key.dim() == 4 && a.key.sizes() == a.value.sizes());
  assert(a.output.sizes() == a.query.sizes() && a.query.size(1) % a.key.size(1) == 0);
  assert(a.key.size(2) == a.query.size(2) && a.key.size(3) == a.query.size(3));
  assert(a.query.stride(3) == 1 && a.key.stride(3) == 1 && a.value.stride(3) == 1 && a.output.stride(3) == 1);
  assert(!a.cumulative_log_gate.defined() ||
         (a.cumulative_log_gate.is_contiguous() && a.cumulative_log_gate.sizes() == a.query.sizes().slice(0, 3)));
  assert(!a.log_normalizer.defined() ||
         (a.log_normalizer.is_contiguous() && a.log_normalizer.sizes() == a.query.sizes().slice(0, 3)));
  kernels::cuda::ForgettingAttention k;
  k.batch = a.query.size(0);
  k.heads = a.query.size(1);
  k.key_heads = a.key.size(1);
  k.length = a.query.size(2);
  k.head_dim = a.query.size(3);
  k.query = a.query.const_data_ptr();
  k.query_strides = strides(a.query);
  k.key = a.key.const_data_ptr();
  k.key_strides = strides(a.key);
  k.value = a.value.const_data_ptr();
  k.value_strides = strides(a.value);
  k.output = a.output.mutable_data_ptr();
  k.output_strides = strides(a.output);
  if (a.cumulative_log_gate.defined()) k.cumulative_log_gate = a.cumulative_log_gate.const_data_ptr<double>();
  if (a.log_normalizer.defined()) k.log_normalizer = a.log_normalizer.mutable_data_ptr<float>();
  k.scale = static_cast<float>(a.scale);
  k.window_size = a.window_size;
  k.pruning_tolerance = a.pruning_tolerance;
  if (a.blocks.defined()) k.blocks = static_cast<kernels::cuda::AttentionBlocks*>(a.blocks.mutable_data_ptr());
  return k;
}

}  // namespace

kernels::cuda::Stream current_stream(const at::Device& device) {
  return static_cast<kernels::cuda::Stream>(at::accelerator::getCurrentStream(device.index()).native_handle());
}

bool cuda_attention_takes(std::int64_t head_dim, at::ScalarType type) {
  return kernels::cuda::is_available() && kernel_head_dim(head_dim, type) > 0;
}

bool cuda_attention_back_takes(std::int64_t head_dim, at::ScalarType type) {
  return head_dim <= kMostBackHeadDim && cuda_attention_takes(head_dim, type);
}

const char* cuda_forgetting_attention(const CudaAttention& arguments) {
  const std::int64_t head_dim = arguments.query.size(3);
  const std::int64_t missing = kernel_head_dim(head_dim, arguments.query.scalar_type()) - head_dim;
  if (missing > 0) {
    CudaAttention wider = arguments;
    for (at::Tensor* heads : {&wider.query, &wider.key, &wider.value}) {
      *heads = at::constant_pad_nd(*heads, {0, missing}).contiguous();
    }
    wider.output = at::empty_like(wider.query);
    const char* const kernel = cuda_forgetting_attention(wider);
    at::Tensor output = arguments.output;
    output.copy_(wider.output.slice(3, 0, head_dim));
    return kernel;
  }
  kernels::cuda::ForgettingAttention kernel = describe(arguments);
  const auto bytes = static_cast<std::int64_t>(kernels::cuda::workspace_bytes(kernel));
  const at::Tensor workspace = at::empty({bytes}, arguments.query.options().dtype(at::kByte));
  kernel.workspace = workspace.mutable_data_ptr();
  const kernels::cuda::Stream stream = current_stream(arguments.query.device());
  const bool wide = arguments.query.scalar_type() == at::kFloat;
  const kernels::Status status = wide ? kernels::cuda::forgetting_attention_float32(kernel, stream)
                                      : kernels::cuda::forgetting_attention(kernel, stream);
  if (status != kernels::Status::ok) {
    throw Error("the GPU refused forgetting attention's kernel: try --device cpu");
  }
  if (wide) return "cuda float32";
  return kernels::cuda::automatic_kernel(kernel) == AttentionKernel::hopper ? "cuda hopper" : "cuda portable";
}

void cuda_forgetting_attention_backward(const CudaAttention& arguments, const CudaAttentionGradients& gradients) {
  const std::int64_t head_dim = arguments.query.size(3);
  const std::int64_t missing = kernel_head_dim(head_dim, arguments.query.scalar_type()) - head_dim;
  if (missing > 0) {
    const auto fill_up = [&](const at::Tensor& x) { return at::constant_pad_nd(x, {0, missing}).contiguous(); };
    CudaAttention wider = arguments;
    for (at::Tensor* heads : {&wider.query, &wider.key, &wider.value, &wider.output}) *heads = fill_up(*heads);
    CudaAttentionGradients found = {fill_up(gradients.grad_output), at::empty_like(wider.query),
                                    at::empty_like(wider.key), at::empty_like(wider.value), gradients.grad_log_gate};
    cuda_forgetting_attention_backward(wider, found);
    const auto cut = [&](const at::Tensor& x) { return x.slice(3, 0, head_dim); };
    gradients.grad_query.copy_(cut(found.grad_query));
    gradients.grad_key.copy_(cut(found.grad_key));
    gradients.grad_value.copy_(cut(found.grad_value));
    return;
  }
  kernels::cuda::ForgettingAttentionBackward kernel;
  kernel.forward = describe(arguments);
  kernel.output_gradient = gradients.grad_output.const_data_ptr();
  kernel.output_gradient_strides = strides(gradients.grad_output);
  kernel.query_gradient = gradients.grad_query.mutable_data_ptr();
  kernel.query_gradient_strides = strides(gradients.grad_query);
  kernel.key_gradient = gradients.grad_key.mutable_data_ptr();
  kernel.key_gradient_strides = strides(gradients.grad_key);
  kernel.value_gradient = gradients.grad_value.mutable_data_ptr();
  kernel.value_gradient_strides = strides(gradients.grad_value);
  kernel.log_gate_gradient = gradients.grad_log_gate.mutable_data_ptr<float>();
  kernel.deterministic = at::globalContext().deterministicAlgorithms();
  const auto bytes = static_cast<std::int64_t>(kernels::cuda::backward_workspace_bytes(kernel));
  const at::Tensor workspace = at::empty({bytes}, arguments.query.options().dtype(at::kByte));
  kernel.workspace = workspace.mutable_data_ptr();
  const kernels::cuda::Stream stream = current_stream(arguments.query.device());
  const bool wide = arguments.query.scalar_type() == at::kFloat;
  const kernels::Status status = wide ? kernels::cuda::forgetting_attention_backward_float32(kernel, stream)
                                      : kernels::cuda::forgetting_attention_backward(kernel, stream);
  if (status != kernels::Status::ok) {
    throw Error("the GPU refused the gradient of forgetting attention: try --device cpu");
  }
}

}  // namespace foxscope
