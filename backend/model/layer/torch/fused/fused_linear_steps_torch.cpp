#include "backend/model/layer/torch/fused/fused_linear_steps_torch.h"

#include <optional>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/custom_function.h>

#include "backend/model/layer/torch/cuda_attention_torch.h"
#include "backend/model/layer/torch/fused/chunk_tensors_torch.h"
#include "backend/model/layer/torch/tensor_memory_torch.h"
#include "backend/model/weights/current_device_torch.h"
#include "kernels/cuda/linear/linear_chunks.h"
#include "kernels/cuda/linear/linear_steps.h"

namespace foxscope {
namespace {

namespace gpu = kernels::cuda;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr std::int64_t kMostUnitDim = 1024;
constexpr std::int64_t kMostOutputWidth = 4096;

gpu::ElementType type_of(const at::Tensor& x) {
  return x.scalar_type() == at::kFloat ? gpu::ElementType::float32 : gpu::ElementType::bfloat16;
}

/// Functions of autograd take what may be missing so.
using MaybeTensor = std::optional<at::Tensor>;

MaybeTensor maybe(const at::Tensor& x) { return x.defined() ? MaybeTensor(x) : std::nullopt; }

/// [B, n, width] likewise (readable).
at::Tensor readable_rows(const at::Tensor& x) { return readable(x.unsqueeze(1)).squeeze(1); }

/// silu(convolution), [B, n, C] float32; `before` only where no gradient is wanted.
struct ConvolutionFunction : torch::autograd::Function<ConvolutionFunction> {
  static void describe(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                       gpu::ShortConvolution& call) {
    call.batch = x.size(0);
    call.length = x.size(1);
    call.channels = x.size(2);
    call.taps = weight.size(1);
    call.x = x.const_data_ptr();
    call.x_type = x.scalar_type() == at::kFloat ? gpu::ElementType::float32 : gpu::ElementType::bfloat16;
    call.batch_stride = x.stride(0);
    call.row_stride = x.stride(1);
    call.weight = weight.const_data_ptr<float>();
    call.bias = bias.defined() ? bias.const_data_ptr<float>() : nullptr;
  }

  static at::Tensor run(const at::Tensor& x, const at::Tensor& before, const at::Tensor& weight,
                        const at::Tensor& bias) {
    at::Tensor out = at::empty(x.sizes(), floats_like(x));
    gpu::ShortConvolution call;
    describe(x, weight, bias, call);
    call.before = before.defined() ? before.const_data_ptr<float>() : nullptr;
    call.out = out.mutable_data_ptr<float>();
    require_step(gpu::short_convolution(call, current_stream(x.device())));
    return out;
  }

  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& weight,
                            const MaybeTensor& maybe_bias) {
    const at::Tensor bias = maybe_bias.value_or(at::Tensor());
    const at::Tensor rows = x.stride(2) == 1 ? x : x.contiguous();
    context->save_for_backward({rows, weight, bias});
    return run(rows, at::Tensor(), weight, bias);
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const variable_list saved = context->get_saved_variables();
    const at::Tensor& x = saved[0];
    const CurrentDevice current(x.device());
    const at::Tensor grad_out = gradients[0].contiguous();
    const at::Tensor grad_x = at::empty(x.sizes(), x.options());
    gpu::ShortConvolutionGradient call;
    describe(x, saved[1], saved[2], call);
    const at::Tensor parts = at::empty({gpu::short_convolution_parts(call), x.size(2), call.taps + 1}, floats_like(x));
    call.out_gradient = grad_out.const_data_ptr<float>();
    call.x_gradient = grad_x.mutable_data_ptr();
    call.parts = parts.mutable_data_ptr<float>();
    require_step(gpu::short_convolution_gradient(call, current_stream(x.device())));
    const at::Tensor sums = parts.sum(0);
    return {grad_x, sums.slice(1, 0, call.taps), saved[2].defined() ? sums.select(1, call.taps) : at::Tensor()};
  }
};

/// gpu::UnitHeads; x [B, n, H d] to [B, n, H, d].
struct UnitHeadsFunction : torch::autograd::Function<UnitHeadsFunction> {
  static void describe(const at::Tensor& rows, std::int64_t head_dim, double factor, gpu::UnitHeads& call) {
    call.batch = rows.size(0);
    call.length = rows.size(1);
    call.heads = rows.size(2) / head_dim;
    call.head_dim = head_dim;
    call.x = rows.const_data_ptr<float>();
    call.batch_stride = rows.stride(0);
    call.row_stride = rows.stride(1);
    call.epsilon = static_cast<float>(kLinearNormEpsilon);
    call.factor = static_cast<float>(factor);
  }

  static at::Tensor run(const at::Tensor& rows, std::int64_t head_dim, double factor) {
    at::Tensor out = at::empty({rows.size(0), rows.size(1), rows.size(2) / head_dim, head_dim}, floats_like(rows));
    gpu::UnitHeads call;
    describe(rows, head_dim, factor, call);
    call.out = out.mutable_data_ptr<float>();
    require_step(gpu::unit_heads(call, current_stream(rows.device())));
    return out;
  }

  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, std::int64_t head_dim, double factor) {
    const at::Tensor rows = readable_rows(x);
    context->save_for_backward({rows});
    context->saved_data["head_dim"] = head_dim;
    context->saved_data["factor"] = factor;
    return run(rows, head_dim, factor);
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const at::Tensor rows = context->get_saved_variables()[0];
    const CurrentDevice current(rows.device());
    const at::Tensor grad_out = readable(gradients[0]);
    at::Tensor grad_x = at::empty(rows.sizes(), floats_like(rows));
    gpu::UnitHeadsGradient call;
    describe(rows, context->saved_data["head_dim"].toInt(), context->saved_data["factor"].toDouble(), call);
    call.out_gradient = grad_out.const_data_ptr<float>();
    call.out_batch_stride = grad_out.stride(0);
    call.out_row_stride = grad_out.stride(1);
    call.out_head_stride = grad_out.stride(2);
    call.x_gradient = grad_x.mutable_data_ptr<float>();
    require_step(gpu::unit_heads_gradient(call, current_stream(rows.device())));
    return {grad_x, at::Tensor(), at::Tensor()};
  }
};

/// gpu::DecayKeys and its gradients.
struct DecayKeysFunction : torch::autograd::Function<DecayKeysFunction> {
  static void describe(const at::Tensor& rows, const at::Tensor& bound, std::int64_t head_dim, gpu::DecayKeys& call) {
    call.batch = rows.size(0);
    call.length = rows.size(1);
    call.heads = rows.size(2) / head_dim;
    call.head_dim = head_dim;
    call.logit = rows.const_data_ptr<float>();
    call.batch_stride = rows.stride(0);
    call.row_stride = rows.stride(1);
    call.bound = bound.defined() ? bound.const_data_ptr<float>() : nullptr;
  }

  static variable_list forward(AutogradContext* context, const at::Tensor& logit, const MaybeTensor& bound,
                               std::int64_t head_dim) {
    const at::Tensor rows = logit.stride(2) == 1 ? logit : logit.contiguous();
    const at::Tensor bounds = bound ? bound->contiguous() : at::Tensor();
    context->save_for_backward({rows, bounds});
    context->saved_data["head_dim"] = head_dim;
    at::Tensor key = at::empty(rows.sizes(), floats_like(rows));
    const at::Tensor log_decay = at::empty(rows.sizes(), floats_like(rows).dtype(at::kDouble));
    gpu::DecayKeys call;
    describe(rows, bounds, head_dim, call);
    call.key = key.mutable_data_ptr<float>();
    call.log_decay = log_decay.mutable_data_ptr<double>();
    require_step(gpu::decay_keys(call, current_stream(rows.device())));
    return {log_decay.unflatten(2, {call.heads, head_dim}).transpose(1, 2), key};
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const variable_list saved = context->get_saved_variables();
    const at::Tensor& rows = saved[0];
    const CurrentDevice current(rows.device());
    gpu::DecayKeysGradient call;
    describe(rows, saved[1], context->saved_data["head_dim"].toInt(), call);
    const at::Tensor grad_log_decay = gradients[0].contiguous();
    const at::Tensor grad_key = gradients[1].contiguous();
    at::Tensor grad_logit = at::empty(rows.sizes(), floats_like(rows));
    at::Tensor parts;
    if (saved[1].defined()) parts = at::empty({gpu::decay_keys_parts(call), rows.size(2)}, floats_like(rows));
    call.log_decay_gradient = grad_log_decay.const_data_ptr<double>();
    call.key_gradient = grad_key.const_data_ptr<float>();
    call.logit_gradient = grad_logit.mutable_data_ptr<float>();
    call.parts = floats_of(parts);
    require_step(gpu::decay_keys_gradient(call, current_stream(rows.device())));
    return {grad_logit, parts.defined() ? parts.sum(0) : at::Tensor(), at::Tensor()};
  }
};

/// The operands of gpu::LinearOutput as kernels read them, and what the mixer says of them.
struct OutputOperands {
  at::Tensor mixed, value, gate, skip, norm;  ///< LinearOutput's; norm [H d_v]
  LinearGate gate_place = LinearGate::none;
  bool skip_by_channel = false;
  std::int64_t norm_size = 0;
  double epsilon = 0;

  [[nodiscard]] std::int64_t width() const { return mixed.size(1) * mixed.size(3); }

  void describe(gpu::LinearOutput& call) const {
    call.batch = mixed.size(0);
    call.length = mixed.size(2);
    call.heads = mixed.size(1);
    call.head_dim = mixed.size(3);
    call.y = mixed.const_data_ptr();
    call.y_type = type_of(mixed);
    call.batch_stride = mixed.stride(0);
    call.head_stride = mixed.stride(1);
    call.row_stride = mixed.stride(2);
    if (skip.defined()) {
      call.value = value.const_data_ptr<float>();
      call.value_batch_stride = value.stride(0);
      call.value_head_stride = value.stride(1);
      call.value_row_stride = value.stride(2);
      call.skip = skip.const_data_ptr<float>();
      call.skip_by_channel = skip_by_channel;
    }
    if (gate.defined()) {
      call.gate = gate.const_data_ptr();
      call.gate_type = type_of(gate);
      call.gate_batch_stride = gate.stride(0);
      call.gate_row_stride = gate.stride(1);
      call.gate_before_norm = gate_place == LinearGate::before_norm;
    }
    if (norm_size > 0) {
      call.norm_size = norm_size;
      call.norm = norm.const_data_ptr<float>();
      call.epsilon = static_cast<float>(epsilon);
    }
  }

  [[nodiscard]] at::Tensor run() const {
    at::Tensor out = at::empty({mixed.size(0) * mixed.size(2), width()}, halves_like(mixed));
    gpu::LinearOutput call;
    describe(call);
    call.out = out.mutable_data_ptr();
    require_step(gpu::linear_output(call, current_stream(mixed.device())));
    return out;
  }
};

/// gpu::LinearOutput and its gradients.
struct LinearOutputFunction : torch::autograd::Function<LinearOutputFunction> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& mixed, const MaybeTensor& /*value*/,
                            const MaybeTensor& /*gate*/, const MaybeTensor& /*skip*/, const MaybeTensor& /*norm*/,
                            const OutputOperands& operands) {
    context->save_for_backward({mixed, operands.value, operands.gate, operands.skip, operands.norm});
    context->saved_data["gate_place"] = static_cast<std::int64_t>(operands.gate_place);
    context->saved_data["skip_by_channel"] = operands.skip_by_channel;
    context->saved_data["norm_size"] = operands.norm_size;
    context->saved_data["epsilon"] = operands.epsilon;
    return operands.run();
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const variable_list saved = context->get_saved_variables();
    OutputOperands operands{saved[0], saved[1], saved[2], saved[3], saved[4]};
    operands.gate_place = static_cast<LinearGate>(context->saved_data["gate_place"].toInt());
    operands.skip_by_channel = context->saved_data["skip_by_channel"].toBool();
    operands.norm_size = context->saved_data["norm_size"].toInt();
    operands.epsilon = context->saved_data["epsilon"].toDouble();
    const at::Tensor& mixed = operands.mixed;
    const CurrentDevice current(mixed.device());
    const at::Tensor grad_out = gradients[0].contiguous();
    gpu::LinearOutputGradient call;
    operands.describe(call);
    call.out_gradient = grad_out.const_data_ptr();
    // Gradients lie in the order that y has.
    const bool heads_first = mixed.stride(1) > mixed.stride(2);
    const auto like_mixed = [&](const at::TensorOptions& options) {
      const std::int64_t heads = mixed.size(1);
      const std::int64_t length = mixed.size(2);
      if (heads_first) return at::empty(mixed.sizes(), options);
      return at::empty({mixed.size(0), length, heads, mixed.size(3)}, options).transpose(1, 2);
    };
    const at::Tensor grad_mixed = like_mixed(mixed.options());
    call.y_gradient = grad_mixed.mutable_data_ptr();
    call.gradient_batch_stride = grad_mixed.stride(0);
    call.gradient_head_stride = grad_mixed.stride(1);
    call.gradient_row_stride = grad_mixed.stride(2);
    const std::int64_t parts = gpu::linear_output_parts(call);
    const auto empty_parts = [&] { return at::empty({parts, operands.width()}, floats_like(mixed)); };
    at::Tensor grad_value, skip_parts, grad_gate, norm_parts;
    if (operands.skip.defined()) {
      grad_value = like_mixed(floats_like(mixed));
      skip_parts = empty_parts();
    }
    if (operands.gate.defined()) grad_gate = at::empty(operands.gate.sizes(), operands.gate.options());
    if (operands.norm_size > 0) norm_parts = empty_parts();
    call.value_gradient = floats_of(grad_value);
    call.skip_parts = floats_of(skip_parts);
    call.gate_gradient = memory_of(grad_gate);
    call.norm_parts = floats_of(norm_parts);
    require_step(gpu::linear_output_gradient(call, current_stream(mixed.device())));
    at::Tensor grad_skip = skip_parts.defined() ? skip_parts.sum(0) : at::Tensor();
    if (grad_skip.defined() && !operands.skip_by_channel) grad_skip = grad_skip.view({mixed.size(1), -1}).sum(1);
    const at::Tensor grad_norm = norm_parts.defined() ? norm_parts.sum(0) : at::Tensor();
    return {grad_mixed, grad_value, grad_gate, grad_skip, grad_norm, at::Tensor()};
  }
};

}  // namespace

bool fused_convolution_takes(const at::Tensor& x, const at::Tensor& before, const at::Tensor& weight) {
  return x.is_cuda() && gpu::is_available() && weight.size(1) >= 2 && weight.size(1) <= 4 &&
         !(at::GradMode::is_enabled() && before.defined());
}

at::Tensor fused_convolution(const at::Tensor& x, const at::Tensor& before, const at::Tensor& weight,
                             const at::Tensor& bias) {
  if (at::GradMode::is_enabled()) return ConvolutionFunction::apply(x, weight, maybe(bias));
  return ConvolutionFunction::run(x.stride(2) == 1 ? x : x.contiguous(),
                                  before.defined() ? before.contiguous() : before, weight, bias);
}

bool fused_unit_heads_takes(const at::Tensor& x, std::int64_t head_dim) {
  return x.is_cuda() && x.scalar_type() == at::kFloat && gpu::is_available() && head_dim % 4 == 0 &&
         head_dim <= kMostUnitDim;
}

at::Tensor fused_unit_heads(const at::Tensor& x, std::int64_t head_dim, double factor) {
  const at::Tensor out = at::GradMode::is_enabled() ? UnitHeadsFunction::apply(x, head_dim, factor)
                                                    : UnitHeadsFunction::run(readable_rows(x), head_dim, factor);
  return out.transpose(1, 2);
}

bool fused_decay_keys_takes(const at::Tensor& logit) {
  return logit.is_cuda() && logit.scalar_type() == at::kFloat && gpu::is_available();
}

DecaysAndKeys fused_decay_keys(const at::Tensor& logit, const at::Tensor& bound, std::int64_t head_dim) {
  const variable_list made = DecayKeysFunction::apply(logit, maybe(bound), head_dim);
  return {made[0], made[1]};
}

bool fused_linear_output_takes(const LinearMixer& mixer, const LinearOutput& output, at::ScalarType matrix) {
  const at::Tensor& y = output.mixed;
  if (!y.is_cuda() || matrix != at::kBFloat16 || mixer.gate_activation != LinearActivation::silu) return false;
  return gpu::is_available() && y.size(3) % 4 == 0 && y.size(1) * y.size(3) <= kMostOutputWidth &&
         mixer.norm_size % 4 == 0 && (!output.skip.defined() || output.value.size(1) == y.size(1));
}

at::Tensor fused_linear_output(const LinearMixer& mixer, const LinearOutput& output) {
  OutputOperands operands;
  operands.mixed = readable(output.mixed);
  operands.skip = output.skip;
  if (output.skip.defined()) operands.value = readable(output.value);
  if (output.gate.defined()) operands.gate = readable_rows(output.gate);
  operands.gate_place = mixer.gate;
  operands.skip_by_channel = mixer.skip == LinearSkip::channel;
  operands.norm_size = mixer.norm_size;
  operands.epsilon = mixer.norm_epsilon;
  if (mixer.norm_size > 0) {
    const std::int64_t groups = operands.width() / mixer.norm_size;
    operands.norm = output.norm.view({-1, mixer.norm_size}).expand({groups, mixer.norm_size}).reshape({-1});
  }
  if (!at::GradMode::is_enabled()) return operands.run();
  return LinearOutputFunction::apply(operands.mixed, maybe(operands.value), maybe(operands.gate), maybe(operands.skip),
                                     maybe(operands.norm), operands);
}

}  // namespace foxscope
