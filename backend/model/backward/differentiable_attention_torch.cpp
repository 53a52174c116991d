#include "backend/model/backward/differentiable_attention_torch.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include "backend/model/spec/interventions.h"

namespace foxscope {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// The arguments of attention that have no gradient, forward and backward.
struct AttentionCall : torch::CustomClassHolder {
  AttentionTensors tensors;  ///< without query, key, value and output
  std::stop_token stop;
  AttentionDone done;
};

/// Rows of heads whose last axis is contiguous.
at::Tensor as_rows_of_heads(const at::Tensor& x) { return x.stride(3) == 1 ? x : x.contiguous(); }

/// [B, H, n, d] with the rows [B, n, H, d] in memory, as what follows reads them.
at::Tensor empty_rows(const at::Tensor& like) {
  return at::empty({like.size(0), like.size(2), like.size(1), like.size(3)}, like.options()).transpose(1, 2);
}

struct ForgettingAttentionFunction : torch::autograd::Function<ForgettingAttentionFunction> {
  static variable_list forward(AutogradContext* context, const at::Tensor& query, const at::Tensor& key,
                               const at::Tensor& value, const at::Tensor& log_gate,
                               const c10::intrusive_ptr<AttentionCall>& call) {
    AttentionTensors tensors = call->tensors;
    tensors.query = as_rows_of_heads(query);
    tensors.key = as_rows_of_heads(key);
    tensors.value = as_rows_of_heads(value);
    tensors.output = empty_rows(query);
    call->done = attend(tensors, call->stop);
    context->save_for_backward({tensors.query, tensors.key, tensors.value, log_gate, tensors.output});
    context->saved_data["call"] = c10::IValue::make_capsule(call);
    return {tensors.output};
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const auto call = c10::static_intrusive_pointer_cast<AttentionCall>(context->saved_data["call"].toCapsule());
    const variable_list saved = context->get_saved_variables();
    AttentionTensors tensors = call->tensors;
    tensors.query = saved[0];
    tensors.key = saved[1];
    tensors.value = saved[2];
    tensors.output = saved[4];
    const at::Tensor& log_gate = saved[3];
    const AttentionGradients found = {empty_rows(saved[0]), empty_rows(saved[1]), empty_rows(saved[2]),
                                      at::empty(log_gate.sizes(), log_gate.options().dtype(at::kFloat))};
    attend_backward(tensors, as_rows_of_heads(gradients[0]), found);
    const at::Tensor held = log_gate < kLowestLogGate;
    return {found.grad_query, found.grad_key, found.grad_value,
            found.grad_log_gate.to(at::kDouble).masked_fill_(held, 0.0), at::Tensor()};
  }
};

}  // namespace

std::optional<DifferentiableAttentionResult> differentiable_attention(const AttentionTensors& tensors,
                                                                      const at::Tensor& log_gate, bool without_gate,
                                                                      const std::stop_token& stop) {
  auto call = c10::make_intrusive<AttentionCall>();
  call->tensors = tensors;
  call->tensors.query = call->tensors.key = call->tensors.value = at::Tensor();
  const at::IntArrayRef rows = tensors.query.sizes().slice(0, 3);
  const at::TensorOptions options = tensors.query.options().dtype(at::kFloat).requires_grad(false);
  call->tensors.log_normalizer = at::empty(rows, options);
  if (without_gate) call->tensors.log_normalizer_without_gate = at::empty(rows, options);
  call->stop = stop;
  const variable_list results =
      ForgettingAttentionFunction::apply(tensors.query, tensors.key, tensors.value, log_gate, call);
  if (call->done.kernel == nullptr) return std::nullopt;
  return DifferentiableAttentionResult{results[0], call->tensors.log_normalizer,
                                       call->tensors.log_normalizer_without_gate, call->done};
}

}  // namespace foxscope
