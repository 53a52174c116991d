#include "backend/model/layer/cuda/mlp_cuda_torch.h"

#include <algorithm>

#include <ATen/ATen.h>

#include "backend/model/layer/chunk_sizes.h"
#include "kernels/cuda/steps/steps.h"
#include "kernels/cuda/steps/swiglu_product.h"

namespace foxscope {

void CudaMlp::keep_memory() {
  const TorchPass& pass = cuda_.torch();
  const at::TensorOptions half = pass.weights().options(at::kBFloat16);
  wide_ = at::empty({pass.rows(), 2 * pass.config().intermediate_size}, half);
  product_ = at::empty({pass.rows(), pass.config().intermediate_size}, half);
}

void CudaMlp::add(int layer) {
  const TorchPass& pass = cuda_.torch();
  const TorchLayer& weights = pass.weights(layer);
  cuda_.norm(weights.mlp_norm, 0, /*rest=*/false);
  if (add_gated(layer)) return;
  const at::TensorOptions half = pass.weights().options(at::kBFloat16);
  const std::int64_t inner = pass.config().intermediate_size;
  const std::int64_t rows = pass.rows();
  const std::int64_t most = std::min(rows, kDeviceMlpRows);
  const at::Tensor wide = wide_.defined() ? wide_ : at::empty({most, 2 * inner}, half);
  const at::Tensor product = product_.defined() ? product_ : at::empty({most, inner}, half);
  for (std::int64_t begin = 0; begin < rows; begin += kDeviceMlpRows) {
    const std::int64_t end = std::min(begin + kDeviceMlpRows, rows);
    const at::Tensor wide_rows = wide.slice(0, 0, end - begin);
    const at::Tensor product_rows = product.slice(0, 0, end - begin);
    cuda_.multiply(wide_rows, cuda_.normed().slice(0, begin, end), weights.mlp_in, CudaPass::Sum::no, kAlikeRows);
    kernels::cuda::SwiGlu step;
    step.rows = end - begin;
    step.inner = inner;
    step.wide = memory_of(wide_rows);
    step.product = memory_of(product_rows);
    pass.check(kernels::cuda::swiglu(step, cuda_.stream()), "SwiGLU");
    cuda_.multiply(pass.residual.slice(0, begin, end), product_rows, weights.mlp_out, CudaPass::Sum::yes, kAlikeRows);
  }
}

bool CudaMlp::add_gated(int layer) {
  const TorchPass& pass = cuda_.torch();
  const std::int64_t rows = pass.rows();
  // Rows of texts that are read together are alike by the other products.
  if (!pass.input().lengths.empty() || wide_.defined() || rows < kFewestThriftyRows) return false;
  const TorchLayer& weights = pass.weights(layer);
  const at::Tensor product = at::empty({std::min(rows, kGatedMlpRows), pass.config().intermediate_size},
                                       pass.weights().options(at::kBFloat16));
  for (std::int64_t begin = 0; begin < rows; begin += kGatedMlpRows) {
    const std::int64_t end = std::min(begin + kGatedMlpRows, rows);
    const at::Tensor in = cuda_.normed().slice(0, begin, end);
    const at::Tensor gated = product.slice(0, 0, end - begin);
    kernels::cuda::SwiGluProduct step;
    step.rows = end - begin;
    step.width = in.size(1);
    step.inner = product.size(1);
    step.in = memory_of(in);
    step.in_stride = in.stride(0);
    step.weight = memory_of(weights.mlp_in);
    step.product = memory_of(gated);
    const kernels::Status status = swiglu_product(step, cuda_.stream());
    if (begin == 0 && status != kernels::Status::ok) return false;
    pass.check(status, "SwiGLU");
    cuda_.multiply(pass.residual.slice(0, begin, end), gated, weights.mlp_out, CudaPass::Sum::yes, kAlikeRows);
  }
  return true;
}

}  // namespace foxscope
