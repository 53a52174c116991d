#include <utility>

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include "backend/base/error.h"
#include "backend/model/cpu_team.h"
#include "backend/model/differentiable_attention_torch.h"
#include "backend/model/interventions.h"
#include "kernels/cpu/forgetting_attention_backward.h"

namespace foxscope {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// What the gradient does not go through, on the way there and back.
struct AttentionCall : torch::CustomClassHolder {
  at::Tensor cumulative;
  double scale = 0;
  std::int64_t window_size = 0;
  double pruning_tolerance = 0;
  std::stop_token stop;
  bool stopped = false;
  kernels::cpu::AttentionBlocks blocks;
};

void check_kernel(kernels::Status status) {
  if (status == kernels::Status::ok) return;
  throw Error("the attention kernels refused heads of this size: leave saliency out of --keep");
}

kernels::cpu::AttentionStrides strides_of(const at::Tensor& x) { return {x.stride(0), x.stride(1), x.stride(2)}; }

/// Rows of heads whose last axis is contiguous.
at::Tensor as_rows_of_heads(const at::Tensor& x) { return x.stride(3) == 1 ? x : x.contiguous(); }

/// [B, H, L, d] with the rows [B, L, H, d] in memory, as what follows reads them.
at::Tensor empty_rows(const at::Tensor& like) {
  return at::empty({like.size(0), like.size(2), like.size(1), like.size(3)}, like.options()).transpose(1, 2);
}

/// The forward's call of the CPU's kernels.
struct CpuCall {
  CpuCall(const AttentionCall& call, const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
          const at::Tensor& output, const at::Tensor& log_normalizer) {
    arguments.batch = query.size(0);
    arguments.heads = query.size(1);
    arguments.key_heads = key.size(1);
    arguments.length = query.size(2);
    arguments.head_dim = query.size(3);
    arguments.query = query.const_data_ptr<float>();
    arguments.query_strides = strides_of(query);
    arguments.key = key.const_data_ptr<float>();
    arguments.key_strides = strides_of(key);
    arguments.value = value.const_data_ptr<float>();
    arguments.value_strides = strides_of(value);
    if (call.cumulative.defined()) arguments.cumulative_log_gate = call.cumulative.const_data_ptr<double>();
    arguments.output = output.mutable_data_ptr<float>();
    arguments.output_strides = strides_of(output);
    arguments.log_normalizer = log_normalizer.mutable_data_ptr<float>();
    arguments.scale = static_cast<float>(call.scale);
    arguments.window_size = call.window_size;
    arguments.pruning_tolerance = call.pruning_tolerance;
  }
  kernels::cpu::ForgettingAttention arguments;
};

struct ForgettingAttentionFunction : torch::autograd::Function<ForgettingAttentionFunction> {
  static variable_list forward(AutogradContext* context, const at::Tensor& query_in, const at::Tensor& key_in,
                               const at::Tensor& value_in, const at::Tensor& log_gate,
                               const c10::intrusive_ptr<AttentionCall>& call) {
    const at::Tensor query = as_rows_of_heads(query_in);
    const at::Tensor key = as_rows_of_heads(key_in);
    const at::Tensor value = as_rows_of_heads(value_in);
    const at::Tensor output = empty_rows(query);
    const at::Tensor log_normalizer = at::empty(query.sizes().slice(0, 3), query.options().dtype(at::kFloat));
    const CpuCall cpu(*call, query, key, value, output, log_normalizer);
    LibTorchTeam team;
    const kernels::Status status = kernels::cpu::forgetting_attention(cpu.arguments, team, call->stop, &call->blocks);
    call->stopped = status == kernels::Status::cancelled;
    if (!call->stopped) check_kernel(status);
    context->save_for_backward({query, key, value, log_gate, output, log_normalizer});
    context->saved_data["call"] = c10::IValue::make_capsule(call);
    context->mark_non_differentiable({log_normalizer});
    return {output, log_normalizer};
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const auto call = c10::static_intrusive_pointer_cast<AttentionCall>(context->saved_data["call"].toCapsule());
    const variable_list saved = context->get_saved_variables();
    const at::Tensor& query = saved[0];
    const at::Tensor& key = saved[1];
    const at::Tensor& log_gate = saved[3];
    const at::Tensor of_output = as_rows_of_heads(gradients[0]);
    const at::Tensor of_query = empty_rows(query);
    const at::Tensor of_key = empty_rows(key);
    const at::Tensor of_value = empty_rows(key);
    const at::Tensor of_log_gate = at::empty(log_gate.sizes(), query.options());
    kernels::cpu::ForgettingAttentionBackward arguments;
    arguments.forward = CpuCall(*call, query, key, saved[2], saved[4], saved[5]).arguments;
    arguments.output_gradient = of_output.const_data_ptr<float>();
    arguments.output_gradient_strides = strides_of(of_output);
    arguments.query_gradient = of_query.mutable_data_ptr<float>();
    arguments.query_gradient_strides = strides_of(of_query);
    arguments.key_gradient = of_key.mutable_data_ptr<float>();
    arguments.key_gradient_strides = strides_of(of_key);
    arguments.value_gradient = of_value.mutable_data_ptr<float>();
    arguments.value_gradient_strides = strides_of(of_value);
    arguments.log_gate_gradient = of_log_gate.mutable_data_ptr<float>();
    LibTorchTeam team;
    check_kernel(kernels::cpu::forgetting_attention_backward(arguments, team, {}, nullptr));
    const at::Tensor held = log_gate < kLowestLogGate;
    return {of_query, of_key, of_value, of_log_gate.to(at::kDouble).masked_fill_(held, 0.0), at::Tensor()};
  }
};

}  // namespace

bool differentiable_attention_takes(const TorchWeights& weights) {
  return !weights.on_gpu() && weights.matrix == at::kFloat;
}

std::optional<DifferentiableAttentionResult> differentiable_attention(const DifferentiableAttention& arguments) {
  auto call = c10::make_intrusive<AttentionCall>();
  call->cumulative = arguments.cumulative_log_gate;
  call->scale = arguments.scale;
  call->window_size = arguments.window_size;
  call->pruning_tolerance = arguments.pruning_tolerance;
  if (arguments.stop != nullptr) call->stop = *arguments.stop;
  const variable_list results =
      ForgettingAttentionFunction::apply(arguments.query, arguments.key, arguments.value, arguments.log_gate, call);
  if (call->stopped) return std::nullopt;
  return DifferentiableAttentionResult{results[0], results[1], "cpu-tiled", call->blocks.total, call->blocks.skipped};
}

}  // namespace foxscope
