// Mixers whose channels decay, in chunks (kernels/cuda/linear/linear_chunks.h).
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/custom_function.h>

#include "backend/model/layer/torch/cuda_attention_torch.h"
#include "backend/model/layer/torch/fused/chunk_tensors_torch.h"
#include "backend/model/layer/torch/fused/fused_mixing_torch.h"
#include "backend/model/layer/torch/fused/fused_states_torch.h"
#include "backend/model/weights/current_device_torch.h"
#include "kernels/cuda/linear/linear_chunks.h"

namespace foxscope {
namespace {

namespace gpu = kernels::cuda;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// The operands as kernels read them.
struct ChannelOperands {
  at::Tensor query, key, log_decay;
  at::Tensor value;  ///< [B, H, N, T, d_v] bfloat16

  void describe(gpu::ChannelChunks& call) const {
    call.batch = key.size(0);
    call.heads = key.size(1);
    call.length = key.size(2);
    call.width = key.size(3);
    call.query = head_rows(query);
    call.key = head_rows(key);
    call.log_decay = log_decay.const_data_ptr<double>();
    call.decay_batch_stride = log_decay.stride(0);
    call.decay_head_stride = log_decay.stride(1);
    call.decay_row_stride = log_decay.stride(2);
  }
};

ChannelOperands readable_operands(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                                  const at::Tensor& log_decay) {
  return {readable(query), readable(key), log_decay.stride(3) == 1 ? log_decay : log_decay.contiguous(),
          halves_in_chunks(value)};
}

/// The chunks' matrices, and the states before them.
struct ChannelTensors {
  at::Tensor scores;                      ///< [B, H, N, T, T] bfloat16
  at::Tensor query_decayed, key_decayed;  ///< [B, H, N, T, d] bfloat16
  at::Tensor kept;                        ///< [B, H, N, d]
  at::Tensor before;                      ///< [B, H, N, d, d_v] bfloat16
  at::Tensor output;                      ///< [B, H, N, T, d_v] bfloat16, y
};

ChannelTensors make_chunks(const ChannelOperands& operands, at::Tensor& state) {
  const at::Tensor& key = operands.key;
  const std::int64_t chunks = operands.value.size(2);
  const at::TensorOptions halves = halves_like(key);
  ChannelTensors made;
  made.scores = at::empty({key.size(0), key.size(1), chunks, kChunk, kChunk}, halves);
  made.query_decayed = at::empty({key.size(0), key.size(1), chunks, kChunk, key.size(3)}, halves);
  made.key_decayed = at::empty(made.query_decayed.sizes(), halves);
  made.kept = at::empty({key.size(0), key.size(1), chunks, key.size(3)}, floats_like(key));
  gpu::ChannelChunks call;
  operands.describe(call);
  call.scores = made.scores.mutable_data_ptr();
  call.query_decayed = made.query_decayed.mutable_data_ptr();
  call.key_decayed = made.key_decayed.mutable_data_ptr();
  call.kept = made.kept.mutable_data_ptr<float>();
  require_step(gpu::channel_chunks(call, current_stream(key.device())));
  made.before = fused_states_before(at::matmul(made.key_decayed.transpose(3, 4), operands.value), made.kept, state);
  made.output = mixed(made.scores, operands.value, made.query_decayed, made.before);
  return made;
}

/// The same, of which all may have been kept.
ChannelTensors mix_chunks(const ChannelOperands& operands, at::Tensor& state, KeptResults* kept) {
  const std::vector<at::Tensor> all = results_of(kept, KeptResults::Of::mixing, [&] {
    const ChannelTensors made = make_chunks(operands, state);
    return std::vector<at::Tensor>{made.scores, made.query_decayed, made.key_decayed,
                                   made.kept,   made.before,        made.output};
  });
  return {all[0], all[1], all[2], all[3], all[4], all[5]};
}

/// y = M V + (exp(c) Q) S of chunks, whose states go on by (exp(c_T - c) K)^T V.
struct ChannelMixing : torch::autograd::Function<ChannelMixing> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& query, const at::Tensor& key,
                            const at::Tensor& value, const at::Tensor& log_decay, KeptResults* kept) {
    const ChannelOperands operands = readable_operands(query, key, value, log_decay);
    at::Tensor state;
    const ChannelTensors made = mix_chunks(operands, state, kept);
    context->save_for_backward({operands.query, operands.key, operands.log_decay, operands.value, made.scores,
                                made.query_decayed, made.key_decayed, made.kept, made.before});
    return made.output;
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const variable_list saved = context->get_saved_variables();
    const ChannelOperands operands{saved[0], saved[1], saved[2], saved[3]};
    const at::Tensor& scores = saved[4];
    const at::Tensor& query_decayed = saved[5];
    const at::Tensor& key_decayed = saved[6];
    const at::Tensor& before = saved[8];
    const CurrentDevice current(before.device());
    const at::Tensor grad_mixed = gradients[0].contiguous();
    const StatesGradient states =
        fused_states_gradient(before, saved[7], at::matmul(query_decayed.transpose(3, 4), grad_mixed));
    const at::Tensor grad_value = mixed(scores.transpose(3, 4), grad_mixed, key_decayed, states.written);
    const at::Tensor grad_scores = at::matmul(grad_mixed, operands.value.transpose(3, 4));
    const at::Tensor grad_query_decayed = at::matmul(grad_mixed, before.transpose(3, 4));
    const at::Tensor grad_key_decayed = at::matmul(operands.value, states.written.transpose(3, 4));
    const at::Tensor grad_query = at::empty(operands.key.sizes(), floats_like(operands.key));
    const at::Tensor grad_key = at::empty_like(grad_query);
    const at::Tensor grad_log_decay = at::empty(grad_query.sizes(), grad_query.options().dtype(at::kDouble));
    gpu::ChannelChunksGradient call;
    operands.describe(call);
    call.scores_gradient = grad_scores.const_data_ptr();
    call.query_decayed_gradient = grad_query_decayed.const_data_ptr();
    call.key_decayed_gradient = grad_key_decayed.const_data_ptr();
    call.kept_gradient = states.kept.const_data_ptr<float>();
    call.query_gradient = grad_query.mutable_data_ptr<float>();
    call.key_gradient = grad_key.mutable_data_ptr<float>();
    call.log_decay_gradient = grad_log_decay.mutable_data_ptr<double>();
    require_step(gpu::channel_chunks_gradient(call, current_stream(before.device())));
    return {grad_query, grad_key, floats_of_chunks(grad_value, operands.key.size(2)), grad_log_decay, at::Tensor()};
  }
};

}  // namespace

at::Tensor fused_by_channel(const LinearOperands& operands, at::Tensor& state, KeptResults* kept) {
  if (at::GradMode::is_enabled()) {
    return ChannelMixing::apply(operands.query, operands.key, operands.value, operands.log_decay, kept);
  }
  return mix_chunks(readable_operands(operands.query, operands.key, operands.value, operands.log_decay), state, kept)
      .output;
}

}  // namespace foxscope
