#include "backend/model/layer/torch/torch_forward_torch.h"

#include <algorithm>
#include <span>
#include <vector>

#include <ATen/ATen.h>

#include "backend/base/index.h"
#include "backend/model/layer/torch/attention_torch.h"
#include "backend/model/layer/torch/composed_steps_torch.h"
#include "backend/model/layer/torch/linear_torch.h"
#include "backend/model/layer/torch/mlp_torch.h"
#include "backend/model/layer/torch/path_torch.h"
#include "backend/model/layer/torch/prediction_torch.h"
#include "backend/model/layer/torch/recording_torch.h"
#include "backend/model/layer/torch/rwkv7_torch.h"

namespace foxscope {

TorchForward::TorchForward(const TorchWeights& weights, std::int64_t batch, std::int64_t length)
    : Forward(weights.config, batch, length), pass_(weights, batch, length) {}

PassBytes TorchForward::bytes(const ModelConfig& config, const KeepSet& keep) {
  PassBytes bytes = TorchPass::bytes(config, DType::float32, keep);
  // Each of LibTorch's operations has a result of its own.
  const std::int64_t queries = config.query_size();
  bytes.per_token += 4 * 2 * (queries + 2 * config.key_size()) + 4 * 4 * std::max(config.hidden_size, queries);
  // Blocks of keys that are passed on, of every head.
  if (config.path) bytes.per_token += 4 * std::int64_t{config.heads} * (6 * config.head_dim + 4 * PathBlocks::kKeys);
  return bytes;
}

void TorchForward::begin() {
  pass_.begin_run(*this);
  pass_.begin_texts();
  report().attention_kernel = pass_.by_kernel() ? "cuda" : "composed";
  const TorchWeights& weights = pass_.weights();
  const std::span<const float> hidden = input().hidden;
  if (!hidden.empty()) {
    // A copy: the layers add to it in place.
    pass_.residual = at::tensor(at::ArrayRef<float>(hidden.data(), hidden.size()), at::kFloat)
                         .view({rows(), config().hidden_size})
                         .to(weights.place);
  } else {
    pass_.residual = embedding();
  }
  if (config().side_attention) pass_.embedded = embedding();
}

/// [B n, D]
at::Tensor TorchForward::embedding() const {
  const TorchWeights& weights = pass_.weights();
  at::Tensor rows = weights.embedding.index_select(0, pass_.put(input().ids));
  if (config().embedding_factor != 1) rows = rows * config().embedding_factor;
  if (!weights.positions.defined()) return rows;
  const at::Tensor table = weights.positions.slice(0, first_position(), first_position() + length());
  rows.view({batch(), length(), -1}).add_(table);
  return rows;
}

MixerSteps& TorchForward::mixer(int layer) {
  const bool linear = config().is_linear(layer);
  std::unique_ptr<MixerSteps>& steps = linear ? linear_ : attention_;
  if (steps == nullptr) steps = linear ? make_linear() : make_attention();
  return *steps;
}

std::unique_ptr<MixerSteps> TorchForward::make_attention() { return std::make_unique<TorchAttentionSteps>(pass_); }

std::unique_ptr<MixerSteps> TorchForward::make_linear() {
  if (config().linear->shifts_tokens()) return std::make_unique<TorchRwkv7Steps>(pass_);
  return std::make_unique<TorchLinearSteps>(pass_);
}

void TorchForward::keep_hidden(int layer) {
  const bool last = layer == config().layers;
  const bool predicts = last && keeps(Keep::predictions);
  if (!keeps(Keep::hidden) && !predicts) return;
  const TorchWeights& weights = pass_.weights();
  const at::Tensor rows =
      last ? pass_.norm(pass_.residual, weights.final_norm, weights.final_norm_bias) : pass_.residual;
  if (keeps(Keep::hidden)) record_hidden(pass_, layer, rows);
  if (predicts) record_prediction_state(pass_, rows.to(weights.matrix));
}

bool TorchForward::feed_forward(int layer) {
  add_mlp(pass_, layer);
  return !job().stopped();
}

void TorchForward::hold_input(int layer) {
  if (!config().reads_with_previous(layer)) pass_.entered = pass_.residual.clone();
}

void TorchForward::step_aside() {
  pass_.entered = pass_.residual;
  pass_.replace_residual(true);
}

bool TorchForward::step_back(int layer) {
  const TorchWeights& weights = pass_.weights();
  pass_.replace_residual(false);
  const at::Tensor made =
      composed_steps::affine(pass_.residual.to(weights.matrix), weights.layers[index_of(layer)].side_output, {});
  pass_.residual = pass_.entered;
  pass_.entered = pass_.entered + made;
  return !job().stopped();
}

bool TorchForward::norm_residual(int layer, bool mlp) {
  const TorchLayer& weights = pass_.weights(layer);
  pass_.residual = pass_.norm(pass_.residual, mlp ? weights.mlp_residual_norm : weights.residual_norm, {});
  return !job().stopped();
}

bool TorchForward::scale_residual(double factor) {
  pass_.residual = pass_.residual * factor;
  return !job().stopped();
}

at::Tensor TorchForward::final_norm(std::int64_t first_row) { return final_norm_of(pass_, first_row); }

at::Tensor TorchForward::logits(const at::Tensor& normed) { return logits_of(pass_.weights(), normed); }

bool TorchForward::predict() {
  keep_hidden(config().layers);
  if (!keeps(Keep::loss) && !keeps(Keep::logits)) return true;
  return record_predictions(pass_, final_norm(0), [this](const at::Tensor& normed) { return logits(normed); });
}

NextTokens TorchForward::predict_next(std::int64_t count) {
  const std::span<const std::int64_t> lengths = input().lengths;
  at::Tensor last;  // [B, D]
  if (std::ranges::all_of(lengths, [this](std::int64_t text) { return text == length(); })) {
    last = final_norm(length() - 1).slice(0, 0, rows(), length());
  } else {
    std::vector<std::int64_t> ends;
    for (std::int64_t b = 0; b < batch(); ++b) ends.push_back(b * length() + text_length(b) - 1);
    const at::Tensor indices = at::tensor(at::ArrayRef<std::int64_t>(ends), at::kLong).to(pass_.weights().place);
    last = final_norm(0).index_select(0, indices);
  }
  // Logits of all rows, so that digits do not depend on how many are asked for.
  return next_tokens(logits(last).slice(0, 0, count));
}

bool TorchForward::score(std::span<const ScoredRow> scored, int top, const Job& job) {
  const auto make_logits = [this](const at::Tensor& normed) { return logits(normed); };
  return score_rows(final_norm(0), make_logits, config().vocabulary_size, scored, top, job);
}

void TorchForward::end_layer(int /*layer*/) { pass_.end_layer(); }

int TorchForward::layers_done(int begun) const { return pass_.layers_done(begun); }

bool TorchForward::finish() { return pass_.finish(); }

}  // namespace foxscope
