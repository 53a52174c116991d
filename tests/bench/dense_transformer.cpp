#include "tests/bench/dense_transformer.h"

#include <cmath>
#include <limits>

#include <torch/csrc/autograd/autograd.h>

#include "backend/base/error.h"

namespace foxscope::bench {
namespace {

at::Tensor to_float(const TensorView& view) {
  at::ScalarType type = at::kFloat;
  if (view.dtype == TensorDType::bf16) type = at::kBFloat16;
  if (view.dtype == TensorDType::f16) type = at::kHalf;
  // LibTorch takes a pointer to non-const memory; nothing writes through it.
  auto* data = const_cast<std::byte*>(view.bytes.data());
  return at::from_blob(data, view.shape, at::TensorOptions().dtype(type)).to(at::kFloat, false, true);
}

at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& weight, double epsilon) {
  return x * at::rsqrt(x.pow(2).mean(-1, true) + epsilon) * weight;
}

/// Half-rotation layout: the first half of the dimensions turns with the second. x [H, L, d].
at::Tensor rotate(const at::Tensor& x, double base) {
  const std::int64_t half = x.size(2) / 2;
  const at::Tensor frequency = at::pow(base, -at::arange(half, at::kFloat) / static_cast<double>(half));
  const at::Tensor angle = at::outer(at::arange(x.size(1), at::kFloat), frequency);
  const at::Tensor cosine = at::cos(angle);
  const at::Tensor sine = at::sin(angle);
  const at::Tensor first = x.slice(2, 0, half);
  const at::Tensor second = x.slice(2, half);
  return at::cat({first * cosine - second * sine, second * cosine + first * sine}, 2);
}

}  // namespace

DenseTransformer::DenseTransformer(const Checkpoint& checkpoint) : config_(checkpoint.config()) {
  const bool known_gate = config_.forget_gate == ForgetGate::full || config_.forget_gate == ForgetGate::none;
  if (config_.model_type != "forgetting_transformer-project_fox" || !known_gate || config_.key_heads != config_.heads ||
      config_.common_window() != 0 || config_.query_key_norm == QueryKeyNorm::shared ||
      config_.output_norm != config_.output_gate || config_.tie_word_embeddings) {
    throw Error(checkpoint.folder().string() + ": the dense peer knows FoX (Pro) and Transformer (Pro) only");
  }
  for (const auto& [name, view] : checkpoint.tensors()) weights_[name] = to_float(view);
}

at::Tensor DenseTransformer::heads(const at::Tensor& x) const {
  return x.view({x.size(0), config_.heads, config_.head_dim}).transpose(0, 1);
}

at::Tensor DenseTransformer::shifted(const at::Tensor& x, const std::string& projection, bool shift) const {
  if (!shift) return heads(at::linear(x, weight(projection + ".weight")));
  const at::Tensor now = heads(at::linear(x, weight(projection + ".linear.weight")));
  const at::Tensor before = at::constant_pad_nd(now.slice(1, 0, now.size(1) - 1), {0, 0, 1, 0});
  const at::Tensor share = at::sigmoid(at::linear(x, weight(projection + ".shift_proj.weight"))).t().unsqueeze(2);
  return share * before + (1 - share) * now;
}

at::Tensor DenseTransformer::attend(const at::Tensor& x, const std::string& layer, DenseAttention attention) const {
  const std::string name = layer + ".attn.";
  at::Tensor query = heads(at::linear(x, weight(name + "q_proj.weight")));
  at::Tensor key = shifted(x, name + "k_proj", config_.key_shift);
  const at::Tensor value = shifted(x, name + "v_proj", config_.value_shift);
  if (config_.query_key_norm == QueryKeyNorm::per_head) {
    const std::vector<std::int64_t> per_head = {config_.heads, 1, config_.head_dim};
    query = rms_norm(query, weight(name + "q_norm.weight").view(per_head), config_.query_key_norm_epsilon);
    key = rms_norm(key, weight(name + "k_norm.weight").view(per_head), config_.query_key_norm_epsilon);
  }
  if (!config_.rotaries.empty()) {
    query = rotate(query, config_.rotaries.front().base);
    key = rotate(key, config_.rotaries.front().base);
  }
  at::Tensor output;
  if (attention == DenseAttention::scaled_dot_product) {
    output = at::scaled_dot_product_attention(query.unsqueeze(0), key.unsqueeze(0), value.unsqueeze(0), {}, 0.0, true)
                 .squeeze(0);
  } else {
    at::Tensor scores = at::matmul(query, key.transpose(1, 2)) / std::sqrt(static_cast<double>(config_.head_dim));
    if (config_.forget_gate == ForgetGate::full) {
      const at::Tensor logit = at::linear(x, weight(name + "fgate_proj.weight"), weight(name + "fgate_proj.bias"));
      const at::Tensor sum = at::cumsum(at::log_sigmoid(logit).t(), 1);
      scores = scores + (sum.unsqueeze(2) - sum.unsqueeze(1));
    }
    const at::Tensor future = at::ones({x.size(0), x.size(0)}, at::kBool).triu(1);
    scores = scores.masked_fill(future, -std::numeric_limits<double>::infinity());
    output = at::matmul(at::softmax(scores, -1), value);
  }
  if (config_.output_norm) {
    const at::Tensor norm_weight = weight(name + "output_norm.weight").view({config_.heads, 1, config_.head_dim});
    output = rms_norm(output, norm_weight, config_.norm_epsilon);
  }
  output = output.transpose(0, 1).reshape({x.size(0), config_.hidden_size});
  if (config_.output_gate) output = output * at::sigmoid(at::linear(x, weight(name + "ogate_proj.weight")));
  return at::linear(output, weight(name + "o_proj.weight"));
}

at::Tensor DenseTransformer::mlp(const at::Tensor& x, const std::string& layer) const {
  const std::vector<at::Tensor> halves = at::linear(x, weight(layer + ".mlp.gate_proj.weight")).chunk(2, -1);
  return at::linear(at::silu(halves[0]) * halves[1], weight(layer + ".mlp.down_proj.weight"));
}

at::Tensor DenseTransformer::per_token_loss(const at::Tensor& input_ids, const at::Tensor& labels,
                                            DenseAttention attention) const {
  at::Tensor x = at::embedding(weight("model.embeddings.weight"), input_ids);
  for (int n = 0; n < config_.layers; ++n) {
    const std::string layer = "model.layers." + std::to_string(n);
    x = x + attend(rms_norm(x, weight(layer + ".attn_norm.weight"), config_.norm_epsilon), layer, attention);
    x = x + mlp(rms_norm(x, weight(layer + ".mlp_norm.weight"), config_.norm_epsilon), layer);
  }
  const at::Tensor logits =
      at::linear(rms_norm(x, weight("model.norm.weight"), config_.norm_epsilon), weight("lm_head.weight"));
  return -at::log_softmax(logits, -1).gather(1, labels.unsqueeze(1)).squeeze(1);
}

void DenseTransformer::require_gradients() {
  for (auto& [name, weight] : weights_) weight.requires_grad_();
}

std::map<std::string, at::Tensor> DenseTransformer::gradients(const at::Tensor& loss) const {
  std::vector<at::Tensor> by;
  for (const auto& [name, weight] : weights_) by.push_back(weight);
  const std::vector<at::Tensor> found = torch::autograd::grad({loss}, by, {}, std::nullopt, /*create_graph=*/false,
                                                              /*allow_unused=*/true);
  std::map<std::string, at::Tensor> gradients;
  std::size_t n = 0;
  for (const auto& [name, weight] : weights_) gradients[name] = found[n++];
  return gradients;
}

}  // namespace foxscope::bench
