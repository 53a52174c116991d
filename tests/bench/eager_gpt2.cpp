#include "tests/bench/eager_gpt2.h"

#include <cstring>

#include <ATen/ATen.h>

namespace foxscope::bench {

EagerGpt2::EagerGpt2(const Checkpoint& checkpoint) : config_(checkpoint.config()) {
  for (const auto& [name, view] : checkpoint.tensors()) {
    at::Tensor values = at::empty(view.shape, at::kFloat);
    float* to = values.mutable_data_ptr<float>();
    checkpoint.read(name, [&to](std::span<const float> piece) {
      std::memcpy(to, piece.data(), piece.size_bytes());
      to += piece.size();
      return true;
    });
    weights_[name.substr(config_.name_prefix.size())] = values;
  }
}

at::Tensor EagerGpt2::norm(const at::Tensor& x, const std::string& name) const {
  return at::layer_norm(x, {config_.hidden_size}, weight(name + ".weight"), weight(name + ".bias"),
                        config_.norm_epsilon);
}

at::Tensor EagerGpt2::product(const at::Tensor& x, const std::string& name) const {
  return at::addmm(weight(name + ".bias"), x, weight(name + ".weight"));
}

at::Tensor EagerGpt2::per_token_loss(const at::Tensor& input_ids, const at::Tensor& labels) const {
  const std::int64_t length = input_ids.size(0);
  at::Tensor x = at::embedding(weight("wte.weight"), input_ids) + weight("wpe.weight").slice(0, 0, length);
  for (int layer = 0; layer < config_.layers; ++layer) {
    const std::string name = "h." + std::to_string(layer) + ".";
    const at::Tensor projected = product(norm(x, name + "ln_1"), name + "attn.c_attn");
    const auto heads = [&](std::int64_t part) {
      return projected.slice(1, part * config_.hidden_size, (part + 1) * config_.hidden_size)
          .view({1, length, config_.heads, config_.head_dim})
          .transpose(1, 2);
    };
    const at::Tensor attended = at::scaled_dot_product_attention(heads(0), heads(1), heads(2), {}, 0.0, true);
    x = x + product(attended.transpose(1, 2).reshape({length, config_.hidden_size}), name + "attn.c_proj");
    x = x + product(at::gelu(product(norm(x, name + "ln_2"), name + "mlp.c_fc"), "tanh"), name + "mlp.c_proj");
  }
  const at::Tensor logits = at::matmul(norm(x, "ln_f"), weight("wte.weight").t());
  return at::cross_entropy_loss(logits, labels, {}, at::Reduction::None);
}

}  // namespace foxscope::bench
