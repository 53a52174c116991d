#include "tests/model/dense_twin.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace foxscope::test {
namespace {

std::string layer_name(int layer) { return "model.layers." + std::to_string(layer) + "."; }

at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& weight, double epsilon) {
  return x / at::sqrt(x.square().mean(-1, true) + epsilon) * weight;
}

/// x [L, d] of one head: pairs (n, n + d/2) turn by position * base^(-2n/d).
at::Tensor rotate(const at::Tensor& x, double base) {
  const std::int64_t length = x.size(0);
  const std::int64_t half = x.size(1) / 2;
  at::Tensor turned = at::empty_like(x);
  for (std::int64_t n = 0; n < half; ++n) {
    const double rate = std::pow(base, -2.0 * static_cast<double>(n) / static_cast<double>(2 * half));
    const at::Tensor angle = at::arange(length, at::kDouble) * rate;
    const at::Tensor a = x.select(1, n);
    const at::Tensor b = x.select(1, n + half);
    turned.select(1, n).copy_(a * at::cos(angle) - b * at::sin(angle));
    turned.select(1, n + half).copy_(b * at::cos(angle) + a * at::sin(angle));
  }
  return turned;
}

/// softmax(Q K^T / sqrt(d) + D) V of one head, D from log f [L], with every entry of the rows written out: some rows at
/// a time, each with all keys up to the last of them.
at::Tensor dense_head(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value, const at::Tensor& log_f,
                      std::int64_t window) {
  constexpr std::int64_t kRows = 256;
  const std::int64_t length = query.size(0);
  const at::Tensor sum = at::cumsum(log_f, 0);
  const at::Tensor position = at::arange(length);
  at::Tensor output = at::empty_like(query);
  for (std::int64_t begin = 0; begin < length; begin += kRows) {
    const std::int64_t end = std::min(begin + kRows, length);
    at::Tensor scores = at::matmul(query.slice(0, begin, end), key.slice(0, 0, end).t());
    scores.div_(std::sqrt(static_cast<double>(query.size(1))));
    scores.add_(sum.slice(0, begin, end).unsqueeze(1)).sub_(sum.slice(0, 0, end).unsqueeze(0));
    const at::Tensor distance = position.slice(0, begin, end).unsqueeze(1) - position.slice(0, 0, end).unsqueeze(0);
    at::Tensor hidden = distance < 0;
    if (window > 0) hidden.logical_or_(distance >= window);
    scores.masked_fill_(hidden, -std::numeric_limits<double>::infinity());
    output.slice(0, begin, end).copy_(at::matmul(at::softmax(scores, 1), value.slice(0, 0, end)));
  }
  return output;
}

}  // namespace

at::Tensor DenseTwin::project(const at::Tensor& x, const std::string& name) const {
  const at::Tensor y = at::matmul(x, weight(name + ".weight").t());
  return has(name + ".bias") ? y + weight(name + ".bias") : y;
}

at::Tensor DenseTwin::project_shifted(const at::Tensor& x, const std::string& name, bool shift) const {
  const std::int64_t length = x.size(0);
  if (!shift) return project(x, name).view({length, -1, config_.head_dim});
  const at::Tensor now = project(x, name + ".linear").view({length, -1, config_.head_dim});
  const at::Tensor share = at::sigmoid(project(x, name + ".shift_proj")).unsqueeze(2);
  at::Tensor before = at::zeros_like(now);
  if (length > 1) before.slice(0, 1).copy_(now.slice(0, 0, length - 1));
  return share * before + (1 - share) * now;
}

at::Tensor DenseTwin::normalize_heads(const at::Tensor& x, const std::string& name, double epsilon) const {
  // A weight of size d is shared by all heads, one of size H d holds a row a head.
  return rms_norm(x, weight(name + ".weight").view({-1, config_.head_dim}), epsilon);
}

at::Tensor DenseTwin::log_gate(const at::Tensor& x, const std::string& name) const {
  if (config_.forget_gate == ForgetGate::none) return at::zeros({x.size(0), config_.heads}, at::kDouble);
  if (config_.forget_gate == ForgetGate::full) {
    return at::log_sigmoid(
        project(x, name + (config_.model_type == "forgetting_transformer" ? "f_proj" : "fgate_proj")));
  }
  return at::log_sigmoid(weight(name + "fgate_bias")).expand({x.size(0), config_.heads});
}

at::Tensor DenseTwin::attend(const at::Tensor& x, int layer, const TwinChange& change) const {
  const std::string name = layer_name(layer) + "attn.";
  const std::int64_t length = x.size(0);
  at::Tensor query = project(x, name + "q_proj").view({length, config_.heads, config_.head_dim});
  at::Tensor key = project_shifted(x, name + "k_proj", config_.key_shift);
  const at::Tensor value = project_shifted(x, name + "v_proj", config_.value_shift);
  if (config_.query_key_norm != QueryKeyNorm::none) {
    query = normalize_heads(query, name + "q_norm", 1e-5);
    key = normalize_heads(key, name + "k_norm", 1e-5);
  }
  at::Tensor log_f = log_gate(x, name).clone();
  if (change.gates) change.gates(layer, log_f);
  at::Tensor output = at::empty({length, config_.heads, config_.head_dim}, at::kDouble);
  for (int head = 0; head < config_.heads; ++head) {
    const int key_head = head / (config_.heads / config_.key_heads);
    at::Tensor q = query.select(1, head);
    at::Tensor k = key.select(1, key_head);
    if (const Rotary* const rotary = config_.rotary_at(layer)) {
      q = rotate(q, rotary->base);
      k = rotate(k, rotary->base);
    }
    output.select(1, head).copy_(dense_head(q, k, value.select(1, key_head), log_f.select(1, head),
                                            config_.attention[static_cast<std::size_t>(layer)].window_size));
  }
  if (config_.output_norm) output = normalize_heads(output, name + "output_norm", config_.norm_epsilon);
  output = output.reshape({length, -1});
  if (config_.output_gate) {
    const at::Tensor gate =
        project(x, name + (config_.model_type == "forgetting_transformer" ? "g_proj" : "ogate_proj"));
    const bool silu = config_.output_gate_activation == OutputGateActivation::silu && !config_.output_norm;
    output = output * at::sigmoid(gate) * (silu ? gate : at::ones_like(gate));
  }
  if (change.heads) {
    at::Tensor heads = output.view({length, config_.heads, config_.head_dim});
    change.heads(layer, heads);
  }
  return project(output, name + "o_proj");
}

at::Tensor DenseTwin::mlp(const at::Tensor& x, const std::string& name) const {
  at::Tensor gate = project(x, name + "gate_proj");
  at::Tensor up;
  if (has(name + "up_proj.weight")) {
    up = project(x, name + "up_proj");
  } else {
    up = gate.slice(1, config_.intermediate_size);
    gate = gate.slice(1, 0, config_.intermediate_size);
  }
  return project(gate * at::sigmoid(gate) * up, name + "down_proj");
}

at::Tensor DenseTwin::logits(const at::Tensor& input_ids, const TwinChange& change) const {
  at::Tensor x = weight("model.embeddings.weight").index_select(0, input_ids);
  for (int n = 0; n < config_.layers; ++n) {
    const std::string name = layer_name(n);
    x = x + attend(rms_norm(x, weight(name + "attn_norm.weight"), config_.norm_epsilon), n, change);
    x = x + mlp(rms_norm(x, weight(name + "mlp_norm.weight"), config_.norm_epsilon), name + "mlp.");
  }
  x = rms_norm(x, weight("model.norm.weight"), config_.norm_epsilon);
  return at::matmul(x, weight(config_.tie_word_embeddings ? "model.embeddings.weight" : "lm_head.weight").t());
}

}  // namespace foxscope::test
