#include "backend/model/layer/cuda/prediction_cuda_torch.h"

#include <algorithm>

#include <ATen/ATen.h>

#include "backend/model/layer/chunk_sizes.h"
#include "backend/model/layer/torch/recording_torch.h"
#include "kernels/cuda/steps/loss_product.h"
#include "kernels/cuda/steps/token_loss.h"

namespace foxscope {
namespace {

/// Rows of a block of logits are a multiple of this.
constexpr std::int64_t kLossRows = 256;

/// Rows whose sums a product with the head leaves at a time.
constexpr std::int64_t kLossProductRows = 65536;

/// Losses of a long text, whose logits stay in registers.  @returns false where the kernel does not take them
bool make_losses(const CudaPass& cuda, const at::Tensor& normed, const at::Tensor& wanted, const at::Tensor& loss) {
  const TorchPass& pass = cuda.torch();
  const std::int64_t rows = pass.rows();
  if (!pass.input().lengths.empty() || rows < kFewestThriftyRows) return false;
  kernels::cuda::LossProduct step;
  step.rows = std::min(rows, kLossProductRows);
  step.width = normed.size(1);
  step.vocabulary = pass.config().vocabulary_size;
  step.in_stride = normed.stride(0);
  step.head = memory_of(pass.weights().padded_head);
  const at::Tensor workspace =
      at::empty({static_cast<std::int64_t>(kernels::cuda::loss_product_bytes(step))}, loss.options().dtype(at::kByte));
  step.workspace = memory_of(workspace);
  for (std::int64_t begin = 0; begin < rows; begin += kLossProductRows) {
    step.rows = std::min(rows - begin, kLossProductRows);
    step.in = memory_of(normed.slice(0, begin));
    step.labels = wanted.const_data_ptr<std::int32_t>() + begin;
    step.loss = floats_of(loss) + begin;
    const kernels::Status status = kernels::cuda::loss_product(step, cuda.stream());
    if (begin == 0 && status != kernels::Status::ok) return false;
    pass.check(status, "the loss");
  }
  return true;
}

}  // namespace

at::Tensor cuda_logits(const CudaPass& pass, const at::Tensor& normed) {
  const TorchWeights& weights = pass.torch().weights();
  const at::Tensor head = weights.padded_head.slice(0, 0, weights.config.vocabulary_size);
  at::Tensor made = at::empty({normed.size(0), head.size(0)}, weights.options(at::kFloat));
  // One row after the other, wherever they lay.
  pass.multiply(made, normed.contiguous(), head, CudaPass::Sum::no, kLossRows);
  return made;
}

bool record_cuda_predictions(CudaPass& cuda, const at::Tensor& normed) {
  TorchPass& pass = cuda.torch();
  const std::int64_t rows = pass.rows();
  const std::int64_t vocabulary = pass.config().vocabulary_size;
  const at::TensorOptions floats = pass.weights().options(at::kFloat);
  const at::Tensor wanted = pass.put(pass.input().labels);
  const at::Tensor loss = at::empty({rows}, floats);
  const bool made = make_losses(cuda, normed, wanted, loss);
  if (made && !pass.keeps(Keep::logits)) {
    record_losses(pass, loss);
    return true;
  }
  const at::Tensor& head = pass.weights().padded_head;
  const std::int64_t most =
      std::min(rows, std::max(kDeviceLogitElements / head.size(0) / kLossRows, std::int64_t{1}) * kLossRows);
  const at::Tensor chunk = at::empty({most, head.size(0)}, floats);
  const bool whole = for_blocks(rows, most, pass.job(), [&](std::int64_t begin, std::int64_t end) {
    const at::Tensor logits = chunk.slice(0, 0, end - begin);
    cuda.multiply(logits, normed.slice(0, begin, end), head, CudaPass::Sum::no, kLossRows);
    if (!made) {
      kernels::cuda::TokenLoss step;
      step.rows = end - begin;
      step.vocabulary = vocabulary;
      step.logits = memory_of(logits);
      step.logits_type = kernels::cuda::ElementType::float32;
      step.logits_stride = logits.stride(0);
      step.labels = wanted.const_data_ptr<std::int32_t>() + begin;
      step.loss = floats_of(loss) + begin;
      pass.check(kernels::cuda::token_loss(step, cuda.stream()), "the loss");
    }
    record_logits(pass, begin, logits.slice(1, 0, vocabulary));
  });
  if (whole) record_losses(pass, loss);
  return whole;
}

}  // namespace foxscope
