#include "backend/model/backward/cpu_pointwise_ops_torch.h"

#include <algorithm>
#include <cstdint>

#include <ATen/ATen.h>

#include "backend/base/error.h"
#include "backend/model/layer/cpu/cpu_rows.h"
#include "backend/model/layer/cpu/cpu_steps.h"
#include "backend/model/layer/cpu/cpu_team.h"
#include "kernels/cpu/step_gradients.h"

namespace foxscope {
namespace {

namespace cpu = kernels::cpu;

constexpr std::int64_t kRowsOfTask = 32;

float* numbers(const at::Tensor& x) { return x.defined() ? x.mutable_data_ptr<float>() : nullptr; }
const float* read_numbers(const at::Tensor& x) { return x.defined() ? x.const_data_ptr<float>() : nullptr; }

void check_step(kernels::Status status) {
  if (status != kernels::Status::ok) throw Error("the gradients of a layer's steps were refused: leave saliency out");
}

/// The embedding that all heads turn by; of no numbers where they do not.
Rotary rotary_of(const ModelConfig& config) { return config.rotaries.empty() ? Rotary() : config.rotaries.front(); }

class CpuPointwiseOps final : public PointwiseOps {
 public:
  CpuPointwiseOps(const TorchWeights& weights, std::int64_t length)
      : config_(weights.config), length_(length), rotary_(rotary_of(config_), length), back_(rotary_.sine) {
    for (float& sine : back_) sine = -sine;
  }

  void norm(const Norm& step, const at::Tensor& out, const at::Tensor& /*rest*/) override {
    const std::int64_t width = step.x.size(1);
    for_rows(step.x.size(0), [&](std::int64_t row) {
      cpu_steps::rms_norm(read_numbers(step.x) + row * width, read_numbers(step.weight), width, epsilon(),
                          numbers(out) + row * out.stride(0));
    });
  }

  void norm_backward(const Norm& step, const at::Tensor& grad_out, const at::Tensor& grad_x,
                     const at::Tensor& grad_weight, const at::Tensor& /*rounded*/) override {
    cpu::RmsNormGradient call;
    call.rows = step.x.size(0);
    call.width = step.x.size(1);
    call.epsilon = epsilon();
    call.input = read_numbers(step.x);
    call.weight = read_numbers(step.weight);
    call.output_gradient = read_numbers(grad_out);
    call.output_gradient_stride = grad_out.stride(0);
    call.residual_gradient = read_numbers(grad_x);
    call.input_gradient = numbers(grad_x);
    call.weight_gradient = numbers(grad_weight);
    check_step(cpu::rms_norm_gradient(call, team_));
  }

  void heads(const Heads& step, const QueryKeyValue& out) override {
    const TorchLayer& layer = *step.layer;
    const std::int64_t queries = config_.query_size();
    const std::int64_t keys = config_.key_size();
    for_rows(out.query.size(0), [&](std::int64_t row) {
      float* const query = numbers(out.query) + row * queries;
      float* const key = numbers(out.key) + row * keys;
      std::copy_n(read_numbers(step.projected) + row * step.projected.stride(0), queries, query);
      shift_row(step, Part::key, row, key);
      shift_row(step, Part::value, row, numbers(out.value) + row * keys);
      if (layer.query_norm.defined()) {
        cpu_steps::rms_norm_heads(query, read_numbers(layer.query_norm), config_.heads, config_.head_dim,
                                  query_key_epsilon(), query);
        cpu_steps::rms_norm_heads(key, read_numbers(layer.key_norm), config_.key_heads, config_.head_dim,
                                  query_key_epsilon(), key);
      }
      rotate_row(row, config_.heads, rotary_.sine, query);
      rotate_row(row, config_.key_heads, rotary_.sine, key);
    });
  }

  void heads_backward(const Heads& step, const QueryKeyValue& grad_out, const at::Tensor& grad_projected,
                      const at::Tensor& grad_gates, const TorchLayer& grad_layer) override {
    const std::int64_t queries = config_.query_size();
    const std::int64_t keys = config_.key_size();
    for_rows(grad_out.query.size(0), [&](std::int64_t row) {
      rotate_row(row, config_.heads, back_, numbers(grad_out.query) + row * queries);
      rotate_row(row, config_.key_heads, back_, numbers(grad_out.key) + row * keys);
    });
    const TorchLayer& layer = *step.layer;
    const auto part = [](const at::Tensor& x, std::int64_t begin, std::int64_t size) {
      return x.slice(1, begin, begin + size);
    };
    if (layer.query_norm.defined()) {
      norm_heads_backward(part(step.projected, 0, queries), layer.query_norm, grad_out.query.flatten(1),
                          part(grad_projected, 0, queries), grad_layer.query_norm);
      // The norm read keys that were shifted.
      const at::Tensor shifted = at::empty_like(grad_out.key).flatten(1);
      for_rows(shifted.size(0),
               [&](std::int64_t row) { shift_row(step, Part::key, row, numbers(shifted) + row * keys); });
      norm_heads_backward(shifted, layer.key_norm, grad_out.key.flatten(1), grad_out.key.flatten(1),
                          grad_layer.key_norm);
    } else {
      part(grad_projected, 0, queries).copy_(grad_out.query.flatten(1));
    }
    shift_backward(step, Part::key, grad_out.key.flatten(1), part(grad_projected, queries, keys), grad_gates);
    shift_backward(step, Part::value, grad_out.value.flatten(1), part(grad_projected, queries + keys, keys),
                   grad_gates);
  }

  void gated(const Gated& step, const at::Tensor& out) override {
    const std::int64_t size = config_.query_size();
    for_rows(out.size(0), [&](std::int64_t row) {
      float* const to = numbers(out) + row * size;
      const float* const from = read_numbers(step.attended) + row * size;
      if (step.norm.defined()) {
        cpu_steps::rms_norm_heads(from, read_numbers(step.norm), config_.heads, config_.head_dim, epsilon(), to);
      } else {
        std::copy_n(from, size, to);
      }
      if (!step.gate.defined()) return;
      const float* const gate = read_numbers(step.gate) + row * step.gate.stride(0);
      if (config_.gates_by_silu()) {
        cpu_steps::multiply_silu(gate, size, to);
      } else {
        cpu_steps::multiply_sigmoid(gate, size, to);
      }
    });
  }

  void gated_backward(const Gated& step, const at::Tensor& grad_out, const at::Tensor& grad_attended,
                      const at::Tensor& grad_gate, const at::Tensor& grad_norm) override {
    if (!step.norm.defined() && !step.gate.defined()) {
      grad_attended.flatten(1).copy_(grad_out);
      return;
    }
    cpu::GatedOutputGradient call;
    call.rows = grad_out.size(0);
    call.heads = config_.heads;
    call.head_dim = config_.head_dim;
    call.attended = read_numbers(step.attended);
    call.norm = read_numbers(step.norm);
    call.norm_epsilon = epsilon();
    call.gate = read_numbers(step.gate);
    if (step.gate.defined()) call.gate_stride = step.gate.stride(0);
    call.activation = config_.gates_by_silu() ? cpu::GateActivation::silu : cpu::GateActivation::sigmoid;
    call.output_gradient = read_numbers(grad_out);
    call.attended_gradient = numbers(grad_attended);
    call.gate_gradient = numbers(grad_gate);
    if (grad_gate.defined()) call.gate_gradient_stride = grad_gate.stride(0);
    call.norm_gradient = numbers(grad_norm);
    check_step(cpu::gated_output_gradient(call, team_));
  }

  void swiglu(const at::Tensor& wide, const at::Tensor& product) override {
    const std::int64_t inner = product.size(1);
    for_rows(wide.size(0), [&](std::int64_t row) {
      const float* const gate = read_numbers(wide) + row * 2 * inner;
      cpu_steps::swiglu(gate, gate + inner, inner, numbers(product) + row * inner);
    });
  }

  void swiglu_backward(const at::Tensor& wide, const at::Tensor& product, bool product_wanted) override {
    cpu::SwiGluGradient call;
    call.rows = wide.size(0);
    call.inner = product.size(1);
    call.wide = read_numbers(wide);
    call.product_gradient = read_numbers(product);
    call.wide_gradient = numbers(wide);
    if (product_wanted) call.product = numbers(product);
    check_step(cpu::swiglu_gradient(call, team_));
  }

  at::Tensor loss_backward(const at::Tensor& logits, const at::Tensor& labels, const at::Tensor& weight,
                           const at::Tensor& loss) override {
    const at::Tensor wide_labels = labels.to(at::kLong);
    const bool all = at::all(weight != 0).item<bool>();
    if (!all) {
      const at::Tensor of_label = logits.gather(1, wide_labels.unsqueeze(1)).squeeze(1);
      loss.copy_(at::logsumexp(logits, {1}) - of_label);
    }
    cpu::CrossEntropyGradient call;
    call.rows = logits.size(0);
    call.vocabulary = logits.size(1);
    call.logits = numbers(logits);
    call.logits_stride = logits.stride(0);
    call.labels = wide_labels.const_data_ptr<std::int64_t>();
    call.weights = read_numbers(weight);
    if (all) call.losses = numbers(loss);
    check_step(cpu::cross_entropy_gradient(call, team_));
    // Between the rows lie logits of no token.
    at::Tensor whole = logits.as_strided({logits.size(0), logits.stride(0)}, {logits.stride(0), 1});
    whole.slice(1, logits.size(1)).zero_();
    return whole;
  }

  void embedding_backward(const at::Tensor& ids, const at::Tensor& grad_rows, const at::Tensor& grad_table) override {
    grad_table.index_add_(0, ids, grad_rows);
  }

  void log_gate_backward(const Heads& step, const at::Tensor& grad_log_gate, const at::Tensor& grad_gates,
                         const at::Tensor& grad_constant) override {
    const at::Tensor& constant = step.layer->constant_gate;
    if (constant.defined()) {
      if (grad_constant.defined())
        grad_constant.add_(grad_log_gate.sum(at::IntArrayRef({0, 2})) * at::sigmoid(-constant));
      return;
    }
    const std::int64_t first = step.gates.size(1) - config_.heads;
    const at::Tensor logits = step.gates.slice(1, first);
    grad_gates.slice(1, first).copy_(grad_log_gate.transpose(1, 2).reshape(logits.sizes()) * at::sigmoid(-logits));
  }

 private:
  enum class Part { key, value };

  template <typename Body>
  void for_rows(std::int64_t rows, const Body& body) {
    team_.run((rows + kRowsOfTask - 1) / kRowsOfTask, [&](std::int64_t task, int /*thread*/) {
      const std::int64_t end = std::min((task + 1) * kRowsOfTask, rows);
      for (std::int64_t row = task * kRowsOfTask; row < end; ++row) body(row);
    });
  }

  [[nodiscard]] float epsilon() const { return static_cast<float>(config_.norm_epsilon); }
  [[nodiscard]] float query_key_epsilon() const { return static_cast<float>(config_.query_key_norm_epsilon); }
  [[nodiscard]] bool shifts(Part part) const { return part == Part::key ? config_.key_shift : config_.value_shift; }
  /// Column of the shift's logits.
  [[nodiscard]] std::int64_t shift_column(Part part) const {
    return part == Part::value && config_.key_shift ? config_.key_heads : 0;
  }
  [[nodiscard]] std::int64_t first_column(Part part) const {
    return config_.query_size() + (part == Part::value ? config_.key_size() : 0);
  }

  void shift_row(const Heads& step, Part part, std::int64_t row, float* out) const {
    const std::int64_t dim = config_.head_dim;
    const float* const now = read_numbers(step.projected) + row * step.projected.stride(0) + first_column(part);
    if (!shifts(part)) {
      std::copy_n(now, config_.key_size(), out);
      return;
    }
    const bool starts = row % length_ == 0;
    const float* const logits = read_numbers(step.gates) + row * step.gates.stride(0) + shift_column(part);
    for (std::int64_t head = 0; head < config_.key_heads; ++head) {
      const float a = cpu_steps::sigmoid(logits[head]);
      const float* const of_head = now + head * dim;
      if (starts) {
        std::transform(of_head, of_head + dim, out + head * dim, [a](float x) { return (1 - a) * x; });
      } else {
        cpu_steps::shift(of_head - step.projected.stride(0), of_head, a, dim, out + head * dim);
      }
    }
  }

  void shift_backward(const Heads& step, Part part, const at::Tensor& grad_shifted, const at::Tensor& grad_projected,
                      const at::Tensor& grad_gates) {
    if (!shifts(part)) {
      grad_projected.copy_(grad_shifted);
      return;
    }
    cpu::ShiftGradient call;
    call.rows = grad_shifted.size(0);
    call.length = length_;
    call.heads = config_.key_heads;
    call.head_dim = config_.head_dim;
    call.input = read_numbers(step.projected) + first_column(part);
    call.input_stride = step.projected.stride(0);
    call.logits = read_numbers(step.gates) + shift_column(part);
    call.logits_stride = step.gates.stride(0);
    call.output_gradient = read_numbers(grad_shifted);
    call.input_gradient = numbers(grad_projected);
    call.input_gradient_stride = grad_projected.stride(0);
    call.logits_gradient = numbers(grad_gates) + shift_column(part);
    call.logits_gradient_stride = grad_gates.stride(0);
    check_step(cpu::shift_gradient(call, team_));
  }

  void norm_heads_backward(const at::Tensor& input, const at::Tensor& weight, const at::Tensor& grad_out,
                           const at::Tensor& grad_input, const at::Tensor& grad_weight) {
    cpu::RmsNormGradient call;
    call.rows = input.size(0);
    call.heads = weight.size(0);
    call.width = weight.size(1);
    call.weight_heads = call.heads;
    call.epsilon = query_key_epsilon();
    call.input = read_numbers(input);
    call.input_stride = input.stride(0);
    call.weight = read_numbers(weight);
    call.output_gradient = read_numbers(grad_out);
    call.input_gradient = numbers(grad_input);
    call.input_gradient_stride = grad_input.stride(0);
    call.weight_gradient = numbers(grad_weight);
    check_step(cpu::rms_norm_gradient(call, team_));
  }

  void rotate_row(std::int64_t row, std::int64_t heads, const FloatArray& sine, float* x) const {
    if (rotary_.cosine.empty()) return;
    const std::int64_t at = row % length_ * rotary_.half;
    for (std::int64_t head = 0; head < heads; ++head) {
      cpu_steps::rotate(rotary_.cosine.data() + at, sine.data() + at, 2 * rotary_.half, x + head * config_.head_dim);
    }
  }

  const ModelConfig& config_;
  std::int64_t length_;
  RotaryTable rotary_;
  FloatArray back_;  ///< sines of the negative angles
  LibTorchTeam team_;
};

}  // namespace

std::unique_ptr<PointwiseOps> make_cpu_pointwise_ops(const TorchWeights& weights, std::int64_t length) {
  return std::make_unique<CpuPointwiseOps>(weights, length);
}

}  // namespace foxscope
