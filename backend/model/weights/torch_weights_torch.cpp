#include "backend/model/weights/torch_weights_torch.h"

#include <algorithm>
#include <array>
#include <future>
#include <iterator>

#include <ATen/ATen.h>

#include "backend/base/index.h"
#include "backend/model/weights/checkpoint.h"
#include "backend/model/weights/current_device_torch.h"
#include "backend/model/weights/logit_bound.h"
#include "backend/model/weights/weight_reader.h"

namespace foxscope {
namespace {

/// Beyond it the zeros of gates_joined take longer than the norm, which two products read twice.
constexpr std::int64_t kMostJoinedGates = 128;

/// Rows of the head are a multiple of this.
constexpr std::int64_t kHeadRows = 8;
/// Numbers of a weight that go to a GPU at a time: 32 MiB of bfloat16.
constexpr std::int64_t kUploadedNumbers = std::int64_t{1} << 24;

/// A weight of a layer on a device, and the same on the host; null: it is a part of the merged projection there.
struct WeightOfLayer {
  at::Tensor TorchLayer::*device;
  FloatArray LayerWeights::*host;
};
constexpr WeightOfLayer kLayerWeights[] = {
    {&TorchLayer::attention_norm, &LayerWeights::attention_norm},
    {&TorchLayer::attention_norm_bias, &LayerWeights::attention_norm_bias},
    {&TorchLayer::projection, nullptr},
    {&TorchLayer::projection_bias, nullptr},
    {&TorchLayer::gates, nullptr},
    {&TorchLayer::gates_bias, nullptr},
    {&TorchLayer::query_norm, &LayerWeights::query_norm},
    {&TorchLayer::key_norm, &LayerWeights::key_norm},
    {&TorchLayer::constant_gate, &LayerWeights::constant_gate},
    {&TorchLayer::output_gate, &LayerWeights::output_gate},
    {&TorchLayer::output_norm, &LayerWeights::output_norm},
    {&TorchLayer::output, &LayerWeights::output},
    {&TorchLayer::output_bias, &LayerWeights::output_bias},
    {&TorchLayer::attention_post_norm, &LayerWeights::attention_post_norm},
    {&TorchLayer::mlp_post_norm, &LayerWeights::mlp_post_norm},
    {&TorchLayer::mlp_norm, &LayerWeights::mlp_norm},
    {&TorchLayer::mlp_norm_bias, &LayerWeights::mlp_norm_bias},
    {&TorchLayer::mlp_in, &LayerWeights::mlp_in},
    {&TorchLayer::mlp_in_bias, &LayerWeights::mlp_in_bias},
    {&TorchLayer::mlp_out, &LayerWeights::mlp_out},
    {&TorchLayer::mlp_out_bias, &LayerWeights::mlp_out_bias},
    {&TorchLayer::sinks, &LayerWeights::sinks},
    {&TorchLayer::router, &LayerWeights::router},
    {&TorchLayer::router_bias, &LayerWeights::router_bias},
    {&TorchLayer::selection_bias, &LayerWeights::selection_bias},
    {&TorchLayer::shared_gate, &LayerWeights::shared_gate},
    {&TorchLayer::experts_down, &LayerWeights::experts_down},
    {&TorchLayer::experts_up, &LayerWeights::experts_up},
    {&TorchLayer::experts_in, &LayerWeights::experts_in},
    {&TorchLayer::experts_in_bias, &LayerWeights::experts_in_bias},
    {&TorchLayer::experts_out, &LayerWeights::experts_out},
    {&TorchLayer::experts_out_bias, &LayerWeights::experts_out_bias},
    {&TorchLayer::convolution, &LayerWeights::convolution},
    {&TorchLayer::convolution_bias, &LayerWeights::convolution_bias},
    {&TorchLayer::x_proj, &LayerWeights::x_proj},
    {&TorchLayer::decay_up, &LayerWeights::decay_up},
    {&TorchLayer::decay_bias, &LayerWeights::decay_bias},
    {&TorchLayer::decay_rate, &LayerWeights::decay_rate},
    {&TorchLayer::skip, &LayerWeights::skip},
    {&TorchLayer::x_proj_bias, &LayerWeights::x_proj_bias},
    {&TorchLayer::query_map, &LayerWeights::query_map},
    {&TorchLayer::query_map_bias, &LayerWeights::query_map_bias},
    {&TorchLayer::key_map, &LayerWeights::key_map},
    {&TorchLayer::key_map_bias, &LayerWeights::key_map_bias},
    {&TorchLayer::output_gate_bias, &LayerWeights::output_gate_bias},
    {&TorchLayer::feedback_decay, &LayerWeights::feedback_decay},
    {&TorchLayer::query_correction, &LayerWeights::query_correction},
    {&TorchLayer::latent_norm, &LayerWeights::latent_norm},
    {&TorchLayer::latent_up, &LayerWeights::latent_up},
    {&TorchLayer::path_up, &LayerWeights::path_up},
    {&TorchLayer::residual_norm, &LayerWeights::residual_norm},
    {&TorchLayer::mlp_residual_norm, &LayerWeights::mlp_residual_norm},
    {&TorchLayer::side_output, &LayerWeights::side_output},
    {&TorchLayer::pre_norm, &LayerWeights::pre_norm},
    {&TorchLayer::pre_norm_bias, &LayerWeights::pre_norm_bias},
    {&TorchLayer::shift, &LayerWeights::shift},
    {&TorchLayer::mlp_shift, &LayerWeights::mlp_shift},
    {&TorchLayer::decay_down, &LayerWeights::decay_down},
    {&TorchLayer::erase_down, &LayerWeights::erase_down},
    {&TorchLayer::value_down, &LayerWeights::value_down},
    {&TorchLayer::gate_down, &LayerWeights::gate_down},
    {&TorchLayer::erase_up, &LayerWeights::erase_up},
    {&TorchLayer::value_up, &LayerWeights::value_up},
    {&TorchLayer::erase_bias, &LayerWeights::erase_bias},
    {&TorchLayer::value_bias, &LayerWeights::value_bias},
    {&TorchLayer::unit_key, &LayerWeights::unit_key},
    {&TorchLayer::key_share, &LayerWeights::key_share},
    {&TorchLayer::bonus, &LayerWeights::bonus},
    {&TorchLayer::output_norm_bias, &LayerWeights::output_norm_bias},
};

at::Tensor frequencies_on(const Rotary& rotary, std::int64_t length, const at::Device& place) {
  const std::vector<double> angles = rotary.frequencies(length);
  return at::tensor(at::ArrayRef<double>(angles.data(), angles.size()), at::kDouble).to(place);
}

}  // namespace

TorchWeights::TorchWeights(const ModelConfig& model_config, const Device& on, DType type)
    : config(model_config),
      device(on),
      dtype(type),
      place(torch_device(on)),
      matrix(type == DType::bfloat16 ? at::kBFloat16 : at::kFloat),
      columns(config) {}

TorchWeights::TorchWeights(const ModelConfig& model_config, const ModelWeights& host)
    : TorchWeights(model_config, Device{}, DType::float32) {
  lent_ = true;
  put_frequencies();
  put_outside(host);
  for (int layer = 0; layer < config.layers; ++layer) {
    layers.push_back(put_layer(layer, host.layers[index_of(layer)]));
  }
}

bool TorchWeights::load(const Checkpoint& checkpoint, const Job& job) {
  return load(CheckpointSource(checkpoint), job);
}

bool TorchWeights::load(const ParameterSource& source, const Job& job) {
  WeightReader reader(config, source, job);
  put_frequencies();
  // A vocabulary of 250,000 tokens is as large as several layers: it is read beside them.
  auto outside = std::async(std::launch::async | std::launch::deferred, [&reader] { return reader.read_outside(); });
  const bool whole = reader.read_layers([this](int layer, LayerWeights host) {
    host.logit_bound = bound_logits(config, layer, host);
    layers.push_back(put_layer(layer, host));
  });
  const auto read = outside.get();
  if (!whole || !read) return false;
  put_outside(*read);
  return true;
}

void TorchWeights::put_frequencies() {
  frequencies.clear();
  for (const Rotary& rotary : config.rotaries) frequencies.push_back(frequencies_on(rotary, 1, place));
}

at::Tensor TorchWeights::frequencies_of(int rotary, std::int64_t length) const {
  const Rotary& of = config.rotaries[index_of(rotary)];
  return of.turns_alike(1, length) ? frequencies[index_of(rotary)] : frequencies_on(of, length, place);
}

void TorchWeights::put_outside(const ModelWeights& host) {
  const std::int64_t hidden = config.hidden_size;
  embedding = put(host.embedding, {config.vocabulary_size, hidden}, at::kFloat);
  positions = put(host.positions, {config.learned_positions, hidden}, at::kFloat);
  padded_head = put(host.head(), {config.vocabulary_size, hidden}, matrix);
  const std::int64_t missing = (kHeadRows - config.vocabulary_size % kHeadRows) % kHeadRows;
  if (missing > 0) padded_head = at::constant_pad_nd(padded_head, {0, 0, 0, missing});
  final_norm = put(host.final_norm, {hidden}, at::kFloat);
  final_norm_bias = put(host.final_norm_bias, {hidden}, at::kFloat);
  if (!host.lower_bounds.empty()) {
    lower_bounds = put(host.lower_bounds, {config.layers, hidden}, at::kFloat);
  }
}

at::Tensor TorchWeights::put(std::span<const float> values, at::IntArrayRef shape, at::ScalarType type) const {
  if (values.empty()) return {};
  if (lent_) return at::from_blob(const_cast<float*>(values.data()), shape, at::kFloat);  // nothing writes to weights
  const at::Tensor host = at::from_blob(const_cast<float*>(values.data()), shape, at::kFloat);
  if (!on_gpu()) return host.to(type, /*non_blocking=*/false, /*copy=*/true);
  // The host rounds a piece, in memory that the GPU reads by itself, while the piece before travels.
  at::Tensor weight = at::empty(shape, at::TensorOptions(place).dtype(type));
  const at::Tensor from = host.view(-1);
  const at::Tensor to = weight.view(-1);
  for (std::int64_t first = 0; first < from.numel(); first += kUploadedNumbers) {
    const std::int64_t end = std::min(first + kUploadedNumbers, from.numel());
    const at::Tensor piece = at::empty({end - first}, at::TensorOptions(at::kCPU).dtype(type).pinned_memory(true));
    piece.copy_(from.slice(0, first, end));
    to.slice(0, first, end).copy_(piece, /*non_blocking=*/true);
  }
  return weight;
}

void TorchWeights::split_gates(TorchLayer& weights) const {
  if (matrix != at::kBFloat16) return;
  const at::Tensor high = weights.gates.to(matrix);
  weights.gates_high = at::cat({high, high}, 1);
  weights.gates_rest = (weights.gates - high).to(matrix);
  if (high.size(0) == 0 || high.size(0) > kMostJoinedGates) return;
  const at::Tensor below = at::cat({weights.gates_rest, at::zeros_like(high)}, 1);
  weights.gates_joined = at::cat({weights.gates_high, below}, 0);
  weights.gates_high = weights.gates_joined.slice(0, 0, high.size(0));
}

/// RWKV-7's matrices, of which each reads an input of its own.
void TorchWeights::put_shifted(const LinearMixer& mixer, const LayerWeights& host, TorchLayer& weights) const {
  const std::int64_t hidden = config.hidden_size;
  weights.projection = put(host.projection, {3 * hidden, hidden}, matrix);
  weights.shift = put(host.shift, {6, hidden}, at::kFloat);
  weights.decay_down = put(host.decay_down, {mixer.decay_rank, hidden}, at::kFloat);
  weights.erase_down = put(host.erase_down, {mixer.erase_rank, hidden}, at::kFloat);
  weights.erase_up = put(host.erase_up, {hidden, mixer.erase_rank}, at::kFloat);
  weights.value_down = put(host.value_down, {mixer.value_rank, hidden}, at::kFloat);
  weights.value_up = put(host.value_up, {hidden, mixer.value_rank}, at::kFloat);
  weights.gate_down = put(host.gate_down, {mixer.gate_rank, hidden}, at::kFloat);
}

void TorchWeights::put_linear(const LinearMixer& mixer, const LayerWeights& host, TorchLayer& weights) const {
  const LinearColumns parts(mixer);
  const std::int64_t hidden = config.hidden_size;
  if (mixer.shifts_tokens()) put_shifted(mixer, host, weights);
  const auto vector = [&](const FloatArray& values) { return put(values, {std::ssize(values)}, at::kFloat); };
  if (!mixer.shifts_tokens()) {
    const at::Tensor projection = put(host.projection, {parts.count, hidden}, at::kFloat);
    weights.projection = projection.slice(0, 0, parts.precise).to(matrix);
    weights.gates = projection.slice(0, parts.precise).contiguous();
    split_gates(weights);
  }
  if (const at::Tensor bias = vector(host.projection_bias); bias.defined()) {
    weights.projection_bias = bias.slice(0, 0, parts.precise).contiguous();
    weights.gates_bias = bias.slice(0, parts.precise).contiguous();
  }
  weights.convolution = put(host.convolution, {parts.convolved_size(), mixer.convolution}, at::kFloat);
  if (mixer.is_gated_recurrence()) {
    const std::int64_t block = mixer.heads / mixer.gate_blocks;
    weights.x_proj = put(host.x_proj, {2, mixer.gate_blocks, block, block}, at::kFloat);
    weights.x_proj_bias = put(host.x_proj_bias, {2, mixer.heads}, at::kFloat);
  } else {
    weights.x_proj = put(host.x_proj, {mixer.x_proj_size(), mixer.value_size()}, at::kFloat);
  }
  weights.query_map = put(host.query_map, {2 * std::int64_t{mixer.key_dim}, mixer.key_dim}, at::kFloat);
  weights.key_map = put(host.key_map, {2 * std::int64_t{mixer.key_dim}, mixer.key_dim}, at::kFloat);
  weights.output_gate = put(host.output_gate, {mixer.output_size(), mixer.gate_rank}, at::kFloat);
  weights.decay_up = put(host.decay_up, {mixer.raised_size(), mixer.decay_rank}, at::kFloat);
  if (mixer.layer().has_rates()) weights.decay_rate = put(host.decay_rate, {mixer.heads, mixer.key_dim}, at::kFloat);
  weights.output = put(host.output, {hidden, mixer.output_size()}, matrix);
  for (const auto& [member, own] : kLayerWeights) {
    if (own != nullptr && !(weights.*member).defined()) weights.*member = vector(host.*own);
  }
}

void TorchWeights::put_mixture(const ExpertMixture& mixture, const LayerWeights& host, TorchLayer& weights) const {
  const std::int64_t hidden = config.hidden_size;
  const std::int64_t wide = (is_gated(config.mlp) ? 2 : 1) * mixture.size;
  weights.router = put(host.router, {mixture.experts, hidden}, at::kFloat);
  weights.router_bias = put(host.router_bias, {mixture.experts}, at::kFloat);
  weights.selection_bias = put(host.selection_bias, {mixture.experts}, at::kFloat);
  weights.shared_gate = put(host.shared_gate, {1, hidden}, at::kFloat);
  const std::int64_t width = config.expert_width();
  weights.experts_down = put(host.experts_down, {width, hidden}, matrix);
  weights.experts_up = put(host.experts_up, {hidden, width}, matrix);
  weights.experts_in = put(host.experts_in, {mixture.experts, wide, width}, matrix);
  weights.experts_in_bias = put(host.experts_in_bias, {mixture.experts, wide}, at::kFloat);
  weights.experts_out = put(host.experts_out, {mixture.experts, width, mixture.size}, matrix);
  weights.experts_out_bias = put(host.experts_out_bias, {mixture.experts, width}, at::kFloat);
}

TorchLayer TorchWeights::put_layer(int layer, const LayerWeights& host) const {
  const std::int64_t hidden = config.hidden_size;
  const std::int64_t inner = config.intermediate_of(layer);
  const std::int64_t wide = is_gated(config.mlp) ? 2 * inner : inner;
  const std::int64_t queries = config.query_size();
  const std::int64_t matrix_rows = columns.key_shift;
  TorchLayer weights;
  weights.attention_post_norm = put(host.attention_post_norm, {hidden}, at::kFloat);
  weights.mlp_post_norm = put(host.mlp_post_norm, {hidden}, at::kFloat);
  weights.mlp_norm = put(host.mlp_norm, {hidden}, at::kFloat);
  weights.mlp_norm_bias = put(host.mlp_norm_bias, {hidden}, at::kFloat);
  weights.mlp_in = put(host.mlp_in, {wide, hidden}, matrix);
  weights.mlp_in_bias = put(host.mlp_in_bias, {wide}, at::kFloat);
  weights.mlp_out = put(host.mlp_out, {hidden, inner}, matrix);
  weights.mlp_out_bias = put(host.mlp_out_bias, {hidden}, at::kFloat);
  if (const ExpertMixture* const mixture = config.mixture_at(layer)) put_mixture(*mixture, host, weights);
  weights.residual_norm = put(host.residual_norm, {hidden}, at::kFloat);
  weights.mlp_residual_norm = put(host.mlp_residual_norm, {hidden}, at::kFloat);
  if (!config.has_mixer(layer)) return weights;
  if (const LinearMixer* const mixer = config.linear_at(layer)) {
    put_linear(*mixer, host, weights);
    return weights;
  }
  const std::int64_t read = config.input_size(layer);
  weights.attention_norm = put(host.attention_norm, {read}, at::kFloat);
  weights.side_output = put(host.side_output, {hidden, hidden}, matrix);
  weights.attention_norm_bias = put(host.attention_norm_bias, {hidden}, at::kFloat);
  if (config.latent) {
    weights.projection = put(host.projection, {config.latent_columns(), hidden}, matrix);
    weights.latent_norm = put(host.latent_norm, {config.latent->rank}, at::kFloat);
    const std::int64_t each = config.latent->own_dim + config.latent->value_dim;
    weights.latent_up = put(host.latent_up, {config.heads * each, config.latent->rank}, matrix);
    weights.output = put(host.output, {hidden, config.attended_size()}, matrix);
    weights.logit_bound = host.logit_bound;
    return weights;
  }
  const at::Tensor projection = put(host.projection, {columns.count, read}, at::kFloat);
  weights.gates = projection.slice(0, matrix_rows).contiguous();
  split_gates(weights);
  const at::Tensor bias = put(host.projection_bias, {columns.count}, at::kFloat);
  if (bias.defined()) {
    weights.gates_bias = bias.slice(0, matrix_rows).contiguous();
    if (config.query_key_value_bias) weights.projection_bias = bias.slice(0, 0, matrix_rows).contiguous();
  }
  if (config.path) {
    weights.path_up = put(host.path_up, {config.key_size(), config.path->rank}, at::kFloat);
    weights.convolution = put(host.convolution, {config.key_size(), config.path->taps}, at::kFloat);
  }
  weights.query_norm = put(host.query_norm, {config.heads, config.head_dim}, at::kFloat);
  weights.key_norm = put(host.key_norm, {config.key_heads, config.head_dim}, at::kFloat);
  weights.constant_gate = put(host.constant_gate, {1, config.heads}, at::kFloat);
  weights.projection = projection.slice(0, 0, matrix_rows).to(matrix);
  weights.output_gate = put(host.output_gate, {queries, hidden}, matrix);
  if (on_gpu()) {
    weights.projection_and_gate =
        config.output_gate ? at::cat({weights.projection, weights.output_gate}, 0) : weights.projection;
    weights.projection = weights.projection_and_gate.slice(0, 0, matrix_rows);
    if (config.output_gate) weights.output_gate = weights.projection_and_gate.slice(0, matrix_rows);
  }
  weights.output_norm = put(host.output_norm, {config.heads, config.head_dim}, at::kFloat);
  weights.output = put(host.output, {hidden, queries}, matrix);
  weights.output_bias = put(host.output_bias, {hidden}, at::kFloat);
  weights.sinks = put(host.sinks, {config.heads}, at::kFloat);
  weights.logit_bound = host.logit_bound;
  return weights;
}

void TorchWeights::require_gradients() {
  const auto require = [](at::Tensor& weight) {
    if (weight.defined()) weight = weight.detach().requires_grad_();
  };
  for (const auto member : outside()) require(this->*member);
  for (TorchLayer& layer : layers) {
    for (const auto member : differentiable_weights()) require(layer.*member);
  }
}

WeightTensors TorchWeights::zero_gradients() const {
  const auto zeros = [](const at::Tensor& weight) {
    return weight.defined() ? at::zeros(weight.sizes(), weight.options().dtype(at::kFloat).requires_grad(false))
                            : at::Tensor();
  };
  WeightTensors gradients;
  for (const auto member : outside()) gradients.*member = zeros(this->*member);
  for (const TorchLayer& layer : layers) {
    TorchLayer& grad_layer = gradients.layers.emplace_back();
    for (const auto member : differentiable_weights()) grad_layer.*member = zeros(layer.*member);
  }
  return gradients;
}

std::span<at::Tensor WeightTensors::*const> WeightTensors::outside() {
  static constexpr at::Tensor WeightTensors::*kWeights[] = {
      &WeightTensors::embedding,  &WeightTensors::positions,       &WeightTensors::padded_head,
      &WeightTensors::final_norm, &WeightTensors::final_norm_bias, &WeightTensors::lower_bounds};
  return kWeights;
}

std::span<at::Tensor TorchLayer::*const> differentiable_weights() {
  static constexpr auto kMembers = [] {
    std::array<at::Tensor TorchLayer::*, std::size(kLayerWeights)> members{};
    std::ranges::transform(kLayerWeights, members.begin(), &WeightOfLayer::device);
    return members;
  }();
  return kMembers;
}

LayerWeights to_host(const TorchLayer& layer) {
  const auto take = [](std::initializer_list<at::Tensor> parts) {
    FloatArray all;
    for (const at::Tensor& part : parts) {
      if (!part.defined()) continue;
      const at::Tensor host = part.detach().to(at::kCPU, at::kFloat).contiguous();
      const float* const values = host.const_data_ptr<float>();
      all.insert(all.end(), values, values + host.numel());
    }
    return all;
  };
  LayerWeights host;
  host.projection = take({layer.projection, layer.gates});
  // Where gates alone have a bias, the rest of the merged one is 0.
  const bool gates_alone = layer.gates_bias.defined() && !layer.projection_bias.defined();
  const at::Tensor others = gates_alone ? at::zeros({layer.projection.size(0)}) : layer.projection_bias;
  host.projection_bias = take({others, layer.gates_bias});
  for (const auto& [member, own] : kLayerWeights) {
    if (own != nullptr) host.*own = take({layer.*member});
  }
  return host;
}

}  // namespace foxscope
