#include <cassert>

#include <ATen/ATen.h>
#include <ATen/DeviceAccelerator.h>

#include "backend/base/error.h"
#include "backend/model/cuda_attention_torch.h"
#include "kernels/cuda/device.h"
#include "kernels/cuda/forgetting_attention.h"

namespace foxscope {
namespace {

using kernels::cuda::AttentionKernel;

kernels::cuda::AttentionStrides strides(const at::Tensor& x) { return {0, x.stride(0), x.stride(1)}; }

kernels::cuda::ForgettingAttention describe(const CudaAttention& a) {
  assert(a.query.dim() == 3 && a.key.dim() == 3 && a.key.sizes() == a.value.sizes());
  assert(a.output.sizes() == a.query.sizes() && a.query.size(0) % a.key.size(0) == 0);
  assert(a.key.size(1) == a.query.size(1) && a.key.size(2) == a.query.size(2));
  assert(a.query.stride(2) == 1 && a.key.stride(2) == 1 && a.value.stride(2) == 1 && a.output.stride(2) == 1);
  assert(!a.cumulative_log_gate.defined() ||
         (a.cumulative_log_gate.is_contiguous() && a.cumulative_log_gate.numel() == a.query.size(0) * a.query.size(1)));
  assert(!a.log_normalizer.defined() ||
         (a.log_normalizer.is_contiguous() && a.log_normalizer.numel() == a.query.size(0) * a.query.size(1)));
  kernels::cuda::ForgettingAttention k;
  k.batch = 1;
  k.heads = a.query.size(0);
  k.key_heads = a.key.size(0);
  k.length = a.query.size(1);
  k.head_dim = a.query.size(2);
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
  if (!kernels::cuda::is_available()) return false;
  if (type == at::kFloat) return head_dim % 8 == 0 && head_dim <= 128;
  return head_dim == 16 || head_dim == 32 || head_dim == 64 || head_dim == 96 || head_dim == 128;
}

const char* cuda_forgetting_attention(const CudaAttention& arguments) {
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

}  // namespace foxscope
