#include "backend/model/layer/cuda/prediction_cuda_torch.h"

#include <algorithm>

#include <ATen/ATen.h>

#include "backend/model/layer/chunk_sizes.h"
#include "backend/model/layer/torch/recording_torch.h"
#include "kernels/cuda/steps/token_loss.h"

namespace foxscope {
namespace {

/// Rows of a block of logits are a multiple of this.
constexpr std::int64_t kLossRows = 256;

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
  const at::Tensor& head = pass.weights().padded_head;
  const std::int64_t most =
      std::min(rows, std::max(kDeviceLogitElements / head.size(0) / kLossRows, std::int64_t{1}) * kLossRows);
  const at::Tensor chunk = at::empty({most, head.size(0)}, floats);
  const bool whole = for_blocks(rows, most, pass.job(), [&](std::int64_t begin, std::int64_t end) {
    const at::Tensor logits = chunk.slice(0, 0, end - begin);
    cuda.multiply(logits, normed.slice(0, begin, end), head, CudaPass::Sum::no, kLossRows);
    kernels::cuda::TokenLoss step;
    step.rows = end - begin;
    step.vocabulary = vocabulary;
    step.logits = memory_of(logits);
    step.logits_type = kernels::cuda::ElementType::float32;
    step.logits_stride = logits.stride(0);
    step.labels = wanted.const_data_ptr<std::int32_t>() + begin;
    step.loss = floats_of(loss) + begin;
    pass.check(kernels::cuda::token_loss(step, cuda.stream()), "the loss");
    record_logits(pass, begin, logits.slice(1, 0, vocabulary));
  });
  if (whole) record_losses(pass, loss);
  return whole;
}

}  // namespace foxscope
