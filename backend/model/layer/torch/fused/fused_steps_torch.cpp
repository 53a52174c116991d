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

struct NormFunction : torch::autograd::Function<NormFunction> {
  static variable_list forward(AutogradContext* context, const at::Tensor& rows, const at::Tensor& weight,
                               double epsilon, bool with_full) {
    context->save_for_backward({rows, weight});
    context->saved_data["epsilon"] = epsilon;
    const at::TensorOptions floats = rows.options().requires_grad(false);
    at::Tensor half = at::empty(rows.sizes(), floats.dtype(at::kBFloat16));
    at::Tensor full = at::empty(with_full ? rows.sizes().vec() : std::vector<std::int64_t>{0}, floats);
    gpu::ResidualNorm call;
    call.rows = rows.size(0);
    call.width = rows.size(1);
    call.residual = floats_of(rows);
    call.weight = floats_of(weight);
    call.epsilon = static_cast<float>(epsilon);
    call.normed = memory_of(half);
    if (with_full) call.normed_float32 = floats_of(full);
    require(gpu::residual_norm(call, current_stream(rows.device())), "a norm");
    return {half, full};
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const variable_list saved = context->get_saved_variables();
    const at::Tensor& rows = saved[0];
    const CurrentDevice current(rows.device());
    at::Tensor grad_normed = gradients[0].contiguous();
    if (gradients[1].numel() > 0) grad_normed = gradients[1] + grad_normed;
    const at::Tensor grad_rows = at::zeros_like(rows);
    const at::Tensor grad_weight = at::zeros_like(saved[1]);
    gpu::ResidualNormGradient call;
    call.rows = rows.size(0);
    call.width = rows.size(1);
    call.residual = floats_of(rows);
    call.weight = floats_of(saved[1]);
    call.epsilon = static_cast<float>(context->saved_data["epsilon"].toDouble());
    call.normed_gradient = memory_of(grad_normed);
    call.normed_gradient_type =
        grad_normed.scalar_type() == at::kFloat ? gpu::ElementType::float32 : gpu::ElementType::bfloat16;
    call.residual_gradient = floats_of(grad_rows);
    call.weight_gradient = floats_of(grad_weight);
    const at::Tensor workspace =
        at::empty({static_cast<std::int64_t>(gpu::workspace_bytes(call))}, rows.options().dtype(at::kByte));
    call.workspace = memory_of(workspace);
    require(gpu::residual_norm_gradient(call, current_stream(rows.device())), "the gradient of a norm");
    return {grad_rows, grad_weight, at::Tensor(), at::Tensor()};
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

NormedRows fused_norm(const at::Tensor& rows, const at::Tensor& weight, double epsilon, bool with_full) {
  const variable_list made = NormFunction::apply(rows, weight, epsilon, with_full);
  return {made[0], with_full ? made[1] : at::Tensor()};
}

at::Tensor fused_swiglu(const at::Tensor& wide) { return SwiGluFunction::apply(wide); }

}  // namespace foxscope
