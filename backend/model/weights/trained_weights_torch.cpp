#include "backend/model/weights/trained_weights_torch.h"

#include <utility>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "backend/base/index.h"

namespace foxscope {
namespace {

/// Weights begin at multiples of so many numbers.
constexpr std::int64_t kCacheLine = 64;

/// Norms that are one for all heads, where a model shares them.
constexpr at::Tensor TorchLayer::*kHeadNorms[] = {&TorchLayer::query_norm, &TorchLayer::key_norm};

bool is_head_norm(at::Tensor TorchLayer::*member) { return member == kHeadNorms[0] || member == kHeadNorms[1]; }

constexpr at::Tensor TorchLayer::*kMatrices[] = {&TorchLayer::projection, &TorchLayer::output_gate, &TorchLayer::output,
                                                 &TorchLayer::mlp_in, &TorchLayer::mlp_out};

bool is_matrix(at::Tensor TorchLayer::*member) {
  for (const auto matrix : kMatrices) {
    if (member == matrix) return true;
  }
  return false;
}

/// Float32 whatever the dtype of matrices is, and decayed as they are.
constexpr at::Tensor TorchLayer::*kPreciseMatrices[] = {&TorchLayer::gates, &TorchLayer::x_proj, &TorchLayer::decay_up,
                                                        &TorchLayer::convolution};

bool is_precise_matrix(at::Tensor TorchLayer::*member) {
  for (const auto matrix : kPreciseMatrices) {
    if (member == matrix) return true;
  }
  return false;
}

bool shares_norms(const ModelConfig& config) { return config.query_key_norm == QueryKeyNorm::shared; }

/// Columns of the gates' biases that no parameter stands for: those of shifts.
std::int64_t columns_without_bias(const TorchWeights& weights) {
  return weights.config.forget_gate == ForgetGate::full ? weights.columns.forget - weights.columns.key_shift : 0;
}

}  // namespace

FlatLayout::FlatLayout(const TorchWeights& weights, int processes)
    : layers_(weights.config.layers),
      gate_row_(weights.columns.key_shift),
      output_gate_(weights.config.output_gate),
      processes_(processes) {
  for (int layer = 0; layer < layers_; ++layer) {
    const bool merged = weights.layers[index_of(layer)].projection_and_gate.defined();
    if (merged) add(weights, layer, &TorchLayer::projection_and_gate);
    for (const auto member : differentiable_weights()) {
      const bool in_merged = merged && (member == &TorchLayer::projection || member == &TorchLayer::output_gate);
      if (is_matrix(member) && !in_merged) add(weights, layer, member);
    }
    end_chunk(/*decayed=*/true, layer);
  }
  if (!weights.config.tie_word_embeddings) {
    add(weights, &WeightTensors::padded_head);
    end_chunk(/*decayed=*/true);
  }
  matrices_ = size_;
  add(weights, &WeightTensors::embedding);
  add(weights, &WeightTensors::positions);
  for (int layer = 0; layer < layers_; ++layer) {
    for (const auto member : kPreciseMatrices) add(weights, layer, member);
  }
  end_chunk(/*decayed=*/true);
  for (int layer = 0; layer < layers_; ++layer) {
    for (const auto member : differentiable_weights()) {
      const bool fixed = member == &TorchLayer::constant_gate && weights.config.forget_gate == ForgetGate::fixed;
      if (!is_matrix(member) && !is_precise_matrix(member) && !fixed) add(weights, layer, member);
    }
  }
  add(weights, &WeightTensors::final_norm);
  add(weights, &WeightTensors::final_norm_bias);
  add(weights, &WeightTensors::lower_bounds);
  end_chunk(/*decayed=*/false);
  const std::int64_t padding = weights.padded_head.size(0) - weights.config.vocabulary_size;
  if (!weights.config.tie_word_embeddings) trained_ -= padding * weights.config.hidden_size;
  trained_ -= columns_without_bias(weights) * layers_;
}

void FlatLayout::add(const TorchWeights& weights, at::Tensor WeightTensors::*outside) {
  const at::Tensor& weight = weights.*outside;
  if (weight.defined()) place({outside, -1, nullptr, {}, 0}, weight.sizes());
}

void FlatLayout::add(const TorchWeights& weights, int layer, at::Tensor TorchLayer::*of_layer) {
  const at::Tensor& weight = weights.layers[index_of(layer)].*of_layer;
  if (!weight.defined() || weight.numel() == 0) return;
  const bool shared = is_head_norm(of_layer) && shares_norms(weights.config);
  place({nullptr, layer, of_layer, {}, 0}, shared ? weight.sizes().slice(1) : weight.sizes());
}

void FlatLayout::place(Slot slot, at::IntArrayRef shape) {
  slot.shape = shape.vec();
  slot.offset = size_;
  const std::int64_t count = c10::multiply_integers(shape);
  trained_ += count;
  size_ += (count + kCacheLine - 1) / kCacheLine * kCacheLine;
  slots_.push_back(std::move(slot));
}

void FlatLayout::end_chunk(bool decayed, int layer) {
  const std::int64_t begin = chunks_.empty() ? 0 : chunks_.back().end;
  const std::int64_t unit = kCacheLine * processes_;
  size_ = begin + (size_ - begin + unit - 1) / unit * unit;
  if (size_ > begin) chunks_.push_back({begin, size_, decayed, layer});
}

WeightTensors FlatLayout::views(const at::Tensor& flat) const {
  WeightTensors tensors;
  tensors.layers.resize(static_cast<std::size_t>(layers_));
  view(flat, 0, tensors);
  return tensors;
}

void FlatLayout::view(const at::Tensor& stretch, std::int64_t begin, WeightTensors& into) const {
  for (const Slot& slot : slots_) {
    const std::int64_t count = c10::multiply_integers(slot.shape);
    if (slot.offset < begin) continue;
    if (slot.offset + count > begin + stretch.numel()) break;
    const at::Tensor view = stretch.narrow(0, slot.offset - begin, count).view(slot.shape);
    if (slot.outside != nullptr) {
      into.*slot.outside = view;
      continue;
    }
    TorchLayer& layer = into.layers[index_of(slot.layer)];
    layer.*slot.of_layer = view;
    if (slot.of_layer != &TorchLayer::projection_and_gate) continue;
    layer.projection = view.slice(0, 0, gate_row_);
    if (output_gate_) layer.output_gate = view.slice(0, gate_row_);
  }
}

TrainedWeights::TrainedWeights(TorchWeights start, DType dtype, int processes)
    : computing_(std::move(start)), layout_(computing_, processes) {
  const at::NoGradGuard no_graph;
  const auto zeros = [&](std::int64_t size) { return at::zeros({size}, computing_.options(at::kFloat)); };
  master = zeros(layout_.size());
  first_moment = zeros(layout_.size() / processes);
  second_moment = zeros(layout_.size() / processes);
  masters_ = layout_.views(master);
  const std::vector<FlatLayout::Chunk>& chunks = layout_.chunks();
  chunk_gradients_.resize(chunks.size());
  for (WeightTensors* const gradients : {&flat_gradients_, &gradients_})
    gradients->layers.resize(masters_.layers.size());
  for (std::size_t number = 0; number < chunks.size(); ++number) {
    if (chunks[number].layer >= 0) continue;
    chunk_gradients_[number] = zeros(chunks[number].end - chunks[number].begin);
    for (WeightTensors* const gradients : {&flat_gradients_, &gradients_}) {
      layout_.view(chunk_gradients_[number], chunks[number].begin, *gradients);
    }
  }
  computing_.dtype = dtype;
  if (dtype == DType::bfloat16) {
    computing_.matrix = at::kBFloat16;
    matrices_ = at::zeros({layout_.matrices()}, computing_.options(at::kBFloat16));
  }
  const WeightTensors matrices = matrices_.defined() ? layout_.views(matrices_) : WeightTensors();

  /// Moves a weight into the flat arrays.
  const auto move = [](at::Tensor& weight, const at::Tensor& flat_master, const at::Tensor& matrix) {
    if (!flat_master.defined()) return;
    flat_master.copy_(weight);
    weight = matrix.defined() ? matrix : flat_master;
  };
  for (const auto member : WeightTensors::outside()) {
    if (member == &WeightTensors::padded_head && computing_.config.tie_word_embeddings) {
      computing_.padded_head = computing_.padded_head.to(computing_.matrix).clone();
      gradients_.padded_head = at::zeros(computing_.padded_head.sizes(), master.options());
      continue;
    }
    move(computing_.*member, masters_.*member, matrices_.defined() ? matrices.*member : at::Tensor());
  }
  for (std::size_t layer = 0; layer < computing_.layers.size(); ++layer) {
    TorchLayer& weights = computing_.layers[layer];
    for (const auto member : kHeadNorms) {
      if (!shares_norms(computing_.config) || !(weights.*member).defined()) continue;
      (masters_.layers[layer].*member).copy_((weights.*member)[0]);
      weights.*member = (weights.*member).clone();
      gradients_.layers[layer].*member = at::zeros_like(weights.*member);
    }
    for (const auto member : differentiable_weights()) {
      if (is_head_norm(member) && shares_norms(computing_.config)) continue;
      move(weights.*member, masters_.layers[layer].*member,
           matrices_.defined() ? matrices.layers[layer].*member : at::Tensor());
    }
    const WeightTensors& matrix_views = matrices_.defined() ? matrices : masters_;
    weights.projection_and_gate = matrix_views.layers[layer].projection_and_gate;
    if (matrices_.defined() && weights.gates.size(0) > 0) {
      weights.gates_high = at::empty({weights.gates.size(0), 2 * weights.gates.size(1)}, matrices_.options());
      weights.gates_rest = at::empty(weights.gates.sizes(), matrices_.options());
    }
  }
  refresh();
  computing_.require_gradients();
}

void TrainedWeights::begin_gradients(int layer) {
  const std::vector<FlatLayout::Chunk>& chunks = layout_.chunks();
  for (std::size_t number = 0; number < chunks.size(); ++number) {
    if (chunks[number].layer != layer || chunk_gradients_[number].defined()) continue;
    chunk_gradients_[number] = at::zeros({chunks[number].end - chunks[number].begin}, master.options());
    layout_.view(chunk_gradients_[number], chunks[number].begin, gradients_);
  }
}

std::int64_t TrainedWeights::absent_gradients() const {
  const std::vector<FlatLayout::Chunk>& chunks = layout_.chunks();
  std::int64_t absent = 0;
  for (std::size_t number = 0; number < chunks.size(); ++number) {
    if (!chunk_gradients_[number].defined()) absent += chunks[number].end - chunks[number].begin;
  }
  return absent;
}

void TrainedWeights::collect_gradients() {
  const at::NoGradGuard no_graph;
  for (int layer = 0; layer < computing_.config.layers; ++layer) begin_gradients(layer);
  if (computing_.config.tie_word_embeddings) {
    gradients_.embedding.add_(gradients_.padded_head.slice(0, 0, computing_.config.vocabulary_size));
    gradients_.padded_head.zero_();
  }
  const std::int64_t without_bias = columns_without_bias(computing_);
  for (std::size_t layer = 0; layer < computing_.layers.size(); ++layer) {
    TorchLayer& grad_layer = gradients_.layers[layer];
    if (grad_layer.gates_bias.defined()) grad_layer.gates_bias.slice(0, 0, without_bias).zero_();
    if (!shares_norms(computing_.config)) continue;
    for (const auto member : kHeadNorms) {
      const at::Tensor& grad_heads = grad_layer.*member;
      if (!grad_heads.defined()) continue;
      (flat_gradients_.layers[layer].*member).add_(grad_heads.sum(0));
      grad_heads.zero_();
    }
  }
}

void TrainedWeights::clear_gradients() {
  const std::vector<FlatLayout::Chunk>& chunks = layout_.chunks();
  for (std::size_t number = 0; number < chunks.size(); ++number) {
    if (chunks[number].layer < 0) {
      chunk_gradients_[number].zero_();
    } else {
      chunk_gradients_[number] = at::Tensor();
    }
  }
  for (TorchLayer& layer : gradients_.layers) {
    layer.projection_and_gate = at::Tensor();
    for (const auto matrix : kMatrices) layer.*matrix = at::Tensor();
  }
}

void TrainedWeights::refresh() {
  const at::NoGradGuard no_graph;
  if (matrices_.defined()) matrices_.copy_(master.narrow(0, 0, layout_.matrices()));
  if (computing_.config.tie_word_embeddings) {
    computing_.padded_head.detach().slice(0, 0, computing_.config.vocabulary_size).copy_(masters_.embedding);
  }
  for (std::size_t layer = 0; layer < computing_.layers.size(); ++layer) {
    const TorchLayer& weights = computing_.layers[layer];
    if (weights.gates_high.defined()) {
      const at::Tensor gates = masters_.layers[layer].gates;
      const at::Tensor high = gates.to(at::kBFloat16);
      weights.gates_high.view({gates.size(0), 2, gates.size(1)}).copy_(high.unsqueeze(1));
      weights.gates_rest.copy_(gates - high);
    }
    if (!shares_norms(computing_.config)) continue;
    for (const auto member : kHeadNorms) {
      if ((weights.*member).defined()) (weights.*member).detach().copy_(masters_.layers[layer].*member);
    }
  }
}

}  // namespace foxscope
