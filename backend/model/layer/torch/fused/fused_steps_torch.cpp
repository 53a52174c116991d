#include "backend/model/layer/torch/fused/fused_steps_torch.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include "backend/base/error.h"
#include "backend/model/layer/torch/cuda_attention_torch.h"
#include "backend/model/layer/torch/tensor_memory_torch.h"
#include "backend/model/weights/current_device_torch.h"
#include "kernels/cuda/device.h"
#include "kernels/cuda/steps/step_gradients.h"
#include "kernels/cuda/steps/steps.h"

namespace foxscope {
namespace {

namespace gpu = kernels::cuda;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

void require(kernels::Status status, const char* what) {
  if (status != kernels::Status::ok) throw Error(std::string("the GPU refused ") + what + ": try --device cpu");
}

/// @param normed  [R, D] bfloat16, as rest, which may be undefined; rows may lie apart
void norm_rows(const at::Tensor& rows, const at::Tensor& weight, double epsilon, const at::Tensor& normed,
               const at::Tensor& rest) {
  gpu::ResidualNorm call;
  call.rows = rows.size(0);
  call.width = rows.size(1);
  call.residual = floats_of(rows);
  call.weight = floats_of(weight);
  call.epsilon = static_cast<float>(epsilon);
  call.normed = memory_of(normed);
  call.normed_rest = memory_of(rest);
  call.normed_stride = normed.stride(0);
  require(gpu::residual_norm(call, current_stream(rows.device())), "a norm");
}

struct RowsGradient {
  at::Tensor rows;    ///< [R, D] float32
  at::Tensor weight;  ///< [D]
};

/// @param grad_normed  [R, D] bfloat16, dense
RowsGradient norm_rows_backward(const at::Tensor& rows, const at::Tensor& weight, double epsilon,
                                const at::Tensor& grad_normed) {
  const RowsGradient gradient{at::zeros_like(rows), at::zeros_like(weight)};
  gpu::ResidualNormGradient call;
  call.rows = rows.size(0);
  call.width = rows.size(1);
  call.residual = floats_of(rows);
  call.weight = floats_of(weight);
  call.epsilon = static_cast<float>(epsilon);
  call.normed_gradient = memory_of(grad_normed);
  call.residual_gradient = floats_of(gradient.rows);
  call.weight_gradient = floats_of(gradient.weight);
  const at::Tensor workspace =
      at::empty({static_cast<std::int64_t>(gpu::workspace_bytes(call))}, rows.options().dtype(at::kByte));
  call.workspace = memory_of(workspace);
  require(gpu::residual_norm_gradient(call, current_stream(rows.device())), "the gradient of a norm");
  return gradient;
}

struct NormFunction : torch::autograd::Function<NormFunction> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& rows, const at::Tensor& weight,
                            double epsilon) {
    context->save_for_backward({rows, weight});
    context->saved_data["epsilon"] = epsilon;
    at::Tensor normed = at::empty(rows.sizes(), rows.options().requires_grad(false).dtype(at::kBFloat16));
    norm_rows(rows, weight, epsilon, normed, at::Tensor());
    return normed;
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const variable_list saved = context->get_saved_variables();
    const CurrentDevice current(saved[0].device());
    const RowsGradient gradient =
        norm_rows_backward(saved[0], saved[1], context->saved_data["epsilon"].toDouble(), gradients[0].contiguous());
    return {gradient.rows, gradient.weight, at::Tensor()};
  }
};

/// W in two parts, which autograd is not to look at.
struct SplitMatrix {
  at::Tensor high, rest;
};

struct NormGatesFunction : torch::autograd::Function<NormGatesFunction> {
  static variable_list forward(AutogradContext* context, const at::Tensor& rows, const at::Tensor& weight,
                               double epsilon, const at::Tensor& matrix, const SplitMatrix& split) {
    const at::Tensor pair =
        at::empty({rows.size(0), 2, rows.size(1)}, rows.options().requires_grad(false).dtype(at::kBFloat16));
    const at::Tensor normed = pair.select(1, 0);
    norm_rows(rows, weight, epsilon, normed, pair.select(1, 1));
    at::Tensor gates = at::mm(pair.flatten(1), split.high.t(), at::kFloat);
    at::addmm_out(gates, gates, normed, split.rest.t(), at::kFloat);
    context->save_for_backward({rows, weight, pair, matrix});
    context->saved_data["epsilon"] = epsilon;
    return {normed, gates};
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const variable_list saved = context->get_saved_variables();
    const CurrentDevice current(saved[0].device());
    const at::Tensor grad_gates = gradients[1].to(at::kBFloat16).contiguous();
    const at::Tensor grad_normed = at::addmm(gradients[0], grad_gates, saved[3].to(at::kBFloat16));
    const RowsGradient gradient =
        norm_rows_backward(saved[0], saved[1], context->saved_data["epsilon"].toDouble(), grad_normed.contiguous());
    return {gradient.rows, gradient.weight, at::Tensor(), at::mm(grad_gates.t(), saved[2].select(1, 0), at::kFloat),
            at::Tensor()};
  }
};

struct SwiGluFunction : torch::autograd::Function<SwiGluFunction> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& wide) {
    context->save_for_backward({wide});
    at::Tensor product = at::empty({wide.size(0), wide.size(1) / 2}, wide.options().requires_grad(false));
    gpu::SwiGlu call;
    call.rows = wide.size(0);
    call.inner = product.size(1);
    call.wide = memory_of(wide);
    call.product = memory_of(product);
    require(gpu::swiglu(call, current_stream(wide.device())), "SwiGLU");
    return product;
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const at::Tensor wide = context->get_saved_variables()[0];
    const CurrentDevice current(wide.device());
    const at::Tensor grad_product = gradients[0].contiguous();
    const at::Tensor grad_wide = at::empty_like(wide);
    gpu::SwiGluGradient call;
    call.rows = wide.size(0);
    call.inner = grad_product.size(1);
    call.wide = memory_of(wide);
    call.product_gradient = memory_of(grad_product);
    call.wide_gradient = memory_of(grad_wide);
    require(gpu::swiglu_gradient(call, current_stream(wide.device())), "the gradient of SwiGLU");
    return {grad_wide};
  }
};

}  // namespace

bool fused_norm_takes(const at::Tensor& rows, const at::Tensor& weight, at::ScalarType matrix) {
  constexpr std::int64_t kMostWidth = 16384;
  return rows.is_cuda() && matrix == at::kBFloat16 && rows.scalar_type() == at::kFloat && rows.dim() == 2 &&
         rows.is_contiguous() && rows.size(1) <= kMostWidth && weight.defined() && gpu::is_available();
}

at::Tensor fused_norm(const at::Tensor& rows, const at::Tensor& weight, double epsilon) {
  return NormFunction::apply(rows, weight, epsilon);
}

NormedGates fused_norm_gates(const at::Tensor& rows, const at::Tensor& weight, double epsilon, const at::Tensor& matrix,
                             const at::Tensor& high, const at::Tensor& rest) {
  const variable_list made = NormGatesFunction::apply(rows, weight, epsilon, matrix, SplitMatrix{high, rest});
  return {made[0], made[1]};
}

at::Tensor fused_swiglu(const at::Tensor& wide) { return SwiGluFunction::apply(wide); }

}  // namespace foxscope
