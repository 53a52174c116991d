#include "backend/model/backward/cuda_pointwise_ops_torch.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include "backend/base/error.h"
#include "backend/model/layer/torch/cuda_attention_torch.h"
#include "backend/model/layer/torch/tensor_memory_torch.h"
#include "kernels/cuda/steps/step_gradients.h"
#include "kernels/cuda/steps/steps.h"

namespace foxscope {
namespace {

namespace gpu = kernels::cuda;

gpu::AttentionStrides strides_by_rows(const at::Tensor& x, std::int64_t length) {
  return {length * x.stride(0), x.stride(1), x.stride(0)};
}

class CudaPointwiseOps final : public PointwiseOps {
 public:
  CudaPointwiseOps(const TorchWeights& weights, std::int64_t length)
      : weights_(weights), config_(weights.config), length_(length), stream_(current_stream(weights.place)) {
    if (config_.rotaries.empty()) return;
    rotation_ = at::empty({length, config_.head_dim / 2, 2}, weights.options(at::kFloat));
    check(gpu::rotary_table(0, length, config_.head_dim / 2, weights.frequencies[0].const_data_ptr<double>(),
                            floats_of(rotation_), stream_),
          "the table of rotations");
  }

  void norm(const Norm& step, const at::Tensor& out, const at::Tensor& rest) override {
    gpu::ResidualNorm call;
    call.rows = step.x.size(0);
    call.width = step.x.size(1);
    call.residual = floats_of(step.x);
    call.weight = floats_of(step.weight);
    call.epsilon = epsilon();
    call.normed = memory_of(out);
    call.normed_rest = memory_of(rest);
    call.normed_stride = out.stride(0);
    check(gpu::residual_norm(call, stream_), "a norm");
  }

  void norm_backward(const Norm& step, const at::Tensor& grad_out, const at::Tensor& grad_x,
                     const at::Tensor& grad_weight, const at::Tensor& rounded) override {
    gpu::ResidualNormGradient call;
    call.rows = step.x.size(0);
    call.width = step.x.size(1);
    call.residual = floats_of(step.x);
    call.weight = floats_of(step.weight);
    call.epsilon = epsilon();
    const at::Tensor rows = grad_out.contiguous();
    call.normed_gradient = memory_of(rows);
    call.residual_gradient = floats_of(grad_x);
    call.increment_gradient = memory_of(rounded);
    call.weight_gradient = floats_of(grad_weight);
    const at::Tensor workspace = workspace_of(gpu::workspace_bytes(call));
    call.workspace = memory_of(workspace);
    check(gpu::residual_norm_gradient(call, stream_), "the gradient of a norm");
  }

  void heads(const Heads& step, const QueryKeyValue& out) override {
    gpu::ProjectedHeads call;
    describe(step, call);
    call.query = memory_of(out.query);
    call.key = memory_of(out.key);
    call.value = memory_of(out.value);
    check(gpu::project_heads(call, stream_), "the shift and norm of heads");
  }

  void heads_backward(const Heads& step, const QueryKeyValue& grad_out, const at::Tensor& grad_projected,
                      const at::Tensor& grad_gates, const TorchLayer& grad_layer) override {
    gpu::ProjectedHeadsGradient call;
    describe(step, call);
    call.query_gradient = memory_of(grad_out.query);
    call.query_strides = strides_by_rows(grad_out.query, length_);
    call.key_gradient = memory_of(grad_out.key);
    call.key_strides = strides_by_rows(grad_out.key, length_);
    call.value_gradient = memory_of(grad_out.value);
    call.value_strides = strides_by_rows(grad_out.value, length_);
    call.projected_gradient = memory_of(grad_projected);
    call.projected_gradient_stride = grad_projected.stride(0);
    if (config_.key_shift) call.key_shift_gradient = floats_of(grad_gates);
    if (config_.value_shift) call.value_shift_gradient = floats_of(grad_gates) + value_shift_column();
    if (grad_gates.defined()) call.shift_gradient_stride = grad_gates.stride(0);
    call.query_norm_gradient = floats_of(grad_layer.query_norm);
    call.key_norm_gradient = floats_of(grad_layer.key_norm);
    const at::Tensor workspace = workspace_of(gpu::workspace_bytes(call));
    call.workspace = memory_of(workspace);
    check(gpu::project_heads_gradient(call, stream_), "the gradient of the shift and norm of heads");
  }

  void gated(const Gated& step, const at::Tensor& out) override {
    if (!step.norm.defined() && !step.gate.defined()) {
      out.copy_(step.attended.flatten(1));
      return;
    }
    gpu::GatedOutput call;
    describe(step, call);
    call.output = memory_of(out);
    check(gpu::gate_output(call, stream_), "the output's norm and gate");
  }

  void gated_backward(const Gated& step, const at::Tensor& grad_out, const at::Tensor& grad_attended,
                      const at::Tensor& grad_gate, const at::Tensor& grad_norm) override {
    if (!step.norm.defined() && !step.gate.defined()) {
      grad_attended.flatten(1).copy_(grad_out);
      return;
    }
    gpu::GatedOutputGradient call;
    describe(step, call);
    call.output_gradient = memory_of(grad_out);
    call.attended_gradient = memory_of(grad_attended);
    call.gate_gradient = memory_of(grad_gate);
    if (grad_gate.defined()) call.gate_gradient_stride = grad_gate.stride(0);
    call.norm_gradient = floats_of(grad_norm);
    const at::Tensor workspace = workspace_of(gpu::workspace_bytes(call));
    call.workspace = memory_of(workspace);
    check(gpu::gate_output_gradient(call, stream_), "the gradient of the output's norm and gate");
  }

  void swiglu(const at::Tensor& wide, const at::Tensor& product) override {
    gpu::SwiGlu call;
    call.rows = wide.size(0);
    call.inner = product.size(1);
    call.wide = memory_of(wide);
    call.product = memory_of(product);
    check(gpu::swiglu(call, stream_), "SwiGLU");
  }

  void swiglu_backward(const at::Tensor& wide, const at::Tensor& product, bool product_wanted) override {
    gpu::SwiGluGradient call;
    call.rows = wide.size(0);
    call.inner = product.size(1);
    call.wide = memory_of(wide);
    call.product_gradient = memory_of(product);
    call.wide_gradient = memory_of(wide);
    if (product_wanted) call.product = memory_of(product);
    check(gpu::swiglu_gradient(call, stream_), "the gradient of SwiGLU");
  }

  at::Tensor loss_backward(const at::Tensor& logits, const at::Tensor& labels, const at::Tensor& weight,
                           const at::Tensor& loss) override {
    at::Tensor grad_logits = at::empty({logits.size(0), logits.stride(0)}, weights_.options(at::kBFloat16));
    gpu::TokenLossGradient call;
    call.rows = logits.size(0);
    call.vocabulary = logits.size(1);
    call.logits = memory_of(logits);
    call.logits_type = gpu::ElementType::float32;
    call.logits_stride = logits.stride(0);
    call.labels = labels.const_data_ptr<std::int32_t>();
    call.loss_gradient = weight.const_data_ptr<float>();
    call.loss = floats_of(loss);
    call.logits_gradient = memory_of(grad_logits);
    call.logits_gradient_stride = grad_logits.stride(0);
    check(gpu::token_loss_gradient(call, stream_), "the gradient of the loss");
    return grad_logits;
  }

  void embedding_backward(const at::Tensor& ids, const at::Tensor& grad_rows, const at::Tensor& grad_table) override {
    gpu::EmbeddingGradient call;
    call.rows = grad_rows.size(0);
    call.width = grad_rows.size(1);
    call.vocabulary = grad_table.size(0);
    call.ids = ids.const_data_ptr<std::int32_t>();
    call.residual_gradient = floats_of(grad_rows);
    call.table_gradient = floats_of(grad_table);
    const at::Tensor workspace = workspace_of(gpu::workspace_bytes(call));
    call.workspace = memory_of(workspace);
    check(gpu::embedding_gradient(call, stream_), "the gradient of the embedding");
  }

  void log_gate_backward(const Heads& step, const at::Tensor& grad_log_gate, const at::Tensor& grad_gates,
                         const at::Tensor& grad_constant) override {
    const at::Tensor& constant = step.layer->constant_gate;
    if (constant.defined() && !grad_constant.defined()) return;
    gpu::ForgetGateGradient call;
    call.batch = grad_log_gate.size(0);
    call.heads = config_.heads;
    call.length = grad_log_gate.size(2);
    call.log_gate_gradient = floats_of(grad_log_gate);
    if (constant.defined()) {
      call.constant_logits = floats_of(constant);
      call.logits_gradient = floats_of(grad_constant);
    } else {
      const std::int64_t first = step.gates.size(1) - config_.heads;
      call.logits = floats_of(step.gates) + first;
      call.logits_stride = step.gates.stride(0);
      call.logits_gradient = floats_of(grad_gates) + first;
      call.logits_gradient_stride = grad_gates.stride(0);
    }
    check(gpu::forget_gate_gradient(call, stream_), "the gradient of the gates");
  }

 private:
  [[nodiscard]] float epsilon() const { return static_cast<float>(config_.norm_epsilon); }
  [[nodiscard]] std::int64_t value_shift_column() const { return config_.key_shift ? config_.key_heads : 0; }

  [[nodiscard]] at::Tensor workspace_of(std::size_t bytes) const {
    return bytes == 0 ? at::Tensor() : at::empty({static_cast<std::int64_t>(bytes)}, weights_.options(at::kByte));
  }

  /// The arguments that the step and its gradient have in common.
  template <typename Call>
  void describe(const Heads& step, Call& call) const {
    call.rows = step.projected.size(0);
    call.length = length_;
    call.heads = config_.heads;
    call.key_heads = config_.key_heads;
    call.head_dim = config_.head_dim;
    call.projected = memory_of(step.projected);
    call.projected_stride = step.projected.stride(0);
    if (config_.key_shift) call.key_shift_logits = floats_of(step.gates);
    if (config_.value_shift) call.value_shift_logits = floats_of(step.gates) + value_shift_column();
    if (step.gates.defined()) call.shift_stride = step.gates.stride(0);
    call.query_norm = floats_of(step.layer->query_norm);
    call.key_norm = floats_of(step.layer->key_norm);
    call.norm_epsilon = static_cast<float>(config_.query_key_norm_epsilon);
    call.rotation = floats_of(rotation_);
  }

  template <typename Call>
  void describe(const Gated& step, Call& call) const {
    call.rows = step.attended.size(0);
    call.heads = config_.heads;
    call.head_dim = config_.head_dim;
    call.attended = memory_of(step.attended);
    call.norm = floats_of(step.norm);
    call.norm_epsilon = epsilon();
    call.gate = memory_of(step.gate);
    if (step.gate.defined()) call.gate_stride = step.gate.stride(0);
    call.activation = config_.gates_by_silu() ? gpu::OutputGateActivation::silu : gpu::OutputGateActivation::sigmoid;
  }

  void check(kernels::Status status, const char* what) const {
    if (status == kernels::Status::ok) return;
    throw Error(
        fmt::format("{}: the GPU refused {} over {} tokens: try --device cpu", weights_.device.name(), what, length_));
  }

  const TorchWeights& weights_;
  const ModelConfig& config_;
  std::int64_t length_;
  gpu::Stream stream_;
  at::Tensor rotation_;  ///< [n, d/2, 2] float32; undefined without rotation
};

}  // namespace

std::unique_ptr<PointwiseOps> make_cuda_pointwise_ops(const TorchWeights& weights, std::int64_t length) {
  return std::make_unique<CudaPointwiseOps>(weights, length);
}

}  // namespace foxscope
