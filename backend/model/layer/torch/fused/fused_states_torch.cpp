#include "backend/model/layer/torch/fused/fused_states_torch.h"

#include <ATen/ATen.h>

#include "backend/model/layer/torch/cuda_attention_torch.h"
#include "backend/model/layer/torch/fused/chunk_tensors_torch.h"
#include "kernels/cuda/linear/linear_chunks.h"

namespace foxscope {
namespace {

void describe_states(const at::Tensor& before, const at::Tensor& kept, kernels::cuda::PassedStates& call) {
  call.heads = before.size(0) * before.size(1);
  call.chunks = before.size(2);
  call.rows = before.size(3);
  call.columns = before.size(4);
  call.kept_by_row = kept.dim() == 4;
  call.kept = kept.const_data_ptr<float>();
  call.before = before.mutable_data_ptr();
}

}  // namespace

at::Tensor fused_states_before(const at::Tensor& written, const at::Tensor& kept, at::Tensor& state) {
  at::Tensor before = at::empty(written.sizes(), halves_like(written));
  const at::Tensor factor = kept.contiguous();
  kernels::cuda::PassedStates call;
  describe_states(before, factor, call);
  const at::Tensor contiguous = written.contiguous();
  const at::Tensor first = state.defined() ? state.contiguous() : state;
  call.written = contiguous.const_data_ptr();
  call.first = first.defined() ? first.const_data_ptr<float>() : nullptr;
  state = at::empty({written.size(0), written.size(1), written.size(3), written.size(4)}, floats_like(written));
  call.last = state.mutable_data_ptr<float>();
  require_step(kernels::cuda::pass_states(call, current_stream(written.device())));
  return before;
}

StatesGradient fused_states_gradient(const at::Tensor& before, const at::Tensor& kept,
                                     const at::Tensor& before_gradient) {
  const at::Tensor contiguous = before_gradient.contiguous();
  StatesGradient gradient{at::empty_like(before), at::empty_like(kept)};
  kernels::cuda::PassedStatesGradient call;
  describe_states(before, kept, call);
  call.before_gradient = contiguous.const_data_ptr();
  call.written_gradient = gradient.written.mutable_data_ptr();
  call.kept_gradient = gradient.kept.mutable_data_ptr<float>();
  require_step(kernels::cuda::pass_states_gradient(call, current_stream(before.device())));
  return gradient;
}

}  // namespace foxscope
