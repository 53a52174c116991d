#include "backend/model/layer/cpu/cpu_forward.h"

#include <algorithm>
#include <cassert>

#include "backend/model/layer/cpu/cpu_steps.h"
#include "backend/model/layer/cpu/linear_cpu.h"
#include "backend/model/layer/cpu/mamba_cpu.h"
#include "backend/model/layer/cpu/rwkv7_cpu.h"

namespace foxscope {
namespace {

/// The steps of the layers that are no attention; null where all are.
std::unique_ptr<MixerSteps> make_linear(CpuPass& pass) {
  const auto& mixer = pass.config().linear;
  if (!mixer) return nullptr;
  if (mixer->shifts_tokens()) return std::make_unique<Rwkv7Cpu>(pass);
  if (mixer->is_selective()) return std::make_unique<MambaCpu>(pass);
  return std::make_unique<LinearCpu>(pass);
}

/// Copies x of all rows to CpuWorkspace::entered.
void keep_residual(CpuPass& pass) {
  const FloatArray& residual = pass.memory().residual;
  pass.memory().entered.assign(residual.begin(), residual.begin() + pass.rows() * pass.hidden());
}

}  // namespace

CpuForward::CpuForward(const ModelConfig& config, const ModelWeights& weights, std::int64_t batch, std::int64_t length,
                       WorkspaceCache& kept)
    : Forward(config, batch, length),
      pass_(config, weights, batch, length, kept),
      linear_(make_linear(pass_)),
      mlp_(pass_),
      prediction_(pass_) {
  if (config.attends()) attention_.emplace(pass_);
  pass_.allocate();
}

PassBytes CpuForward::bytes(const ModelConfig& config, const KeepSet& keep) {
  const std::int64_t hidden = config.hidden_size;
  const std::int64_t heads = config.heads;
  const std::int64_t queries = config.query_size();
  const std::int64_t keys = config.key_size();
  PassBytes bytes;
  // The residual stream, what heads attend to, angles, losses; of the layer at hand log f, c and normalisers.
  std::int64_t streams = config.paired ? 2 : 1;
  if (config.side_attention) streams = 3;  // x, what the mixer behind reads, the embedding
  bytes.per_token = 4 * (streams * hidden + std::max(hidden, queries) +
                         config.widest_rotary() * std::max<std::int64_t>(1, std::ssize(config.rotaries)) + 1) +
                    heads * (8 + 8 + 4) + config.linear_bytes_per_position();
  // e and b, and the tables of heads at a time.
  if (config.path) bytes.per_token += 4 * (2 * keys + 6 * (config.head_dim + 16) + 64);
  if (config.mixture) bytes += MixtureCpu::bytes(config);
  if (keep.contains(Keep::ungated)) bytes.per_token += heads * 4;
  if (!keep.contains(Keep::query_key)) bytes.per_token += 4 * (queries + keys);
  if (!keep.contains(Keep::values)) bytes.per_token += 4 * keys;
  return bytes;
}

void CpuForward::lay_out(const ModelConfig& config, int layer, LayerWeights& weights) {
  const LinearMixer* const mixer = config.linear_at(layer);
  if (mixer == nullptr) {
    if (config.path) ConvolutionCpu::lay_out(config.path->taps, weights);
    return;
  }
  ConvolutionCpu::lay_out(mixer->convolution, weights);
  if (mixer->is_selective()) MambaCpu::lay_out(*mixer, weights);
}

void CpuForward::begin() {
  pass_.begin_run(*this);
  if (attention_) attention_->begin();
  report().attention_kernel = attention_ ? "cpu-tiled" : "cpu-chunked";
  FloatArray& residual = pass_.memory().residual;
  if (input().hidden.empty()) {
    embed(residual);
  } else {
    std::ranges::copy(input().hidden, residual.begin());
  }
  if (!config().side_attention) return;
  CpuWorkspace::grow(pass_.memory().embedded, index_of(rows() * pass_.hidden()));
  embed(pass_.memory().embedded);
}

/// The embedding of all rows.
void CpuForward::embed(FloatArray& into) const {
  const ModelWeights& weights = pass_.weights();
  const std::int64_t hidden = pass_.hidden();
  for (std::int64_t row = 0; row < rows(); ++row) {
    const std::int32_t id = input().ids[index_of(row)];
    assert(id >= 0 && id < config().vocabulary_size);
    const float* from = weights.embedding.data() + id * hidden;
    float* const to = into.data() + row * hidden;
    std::copy(from, from + hidden, to);
    if (config().embedding_factor != 1) {
      const auto factor = static_cast<float>(config().embedding_factor);
      for (std::int64_t n = 0; n < hidden; ++n) to[n] *= factor;
    }
    if (weights.positions.empty()) continue;
    const std::int64_t position = first_position(row / length()) + row % length();
    assert(position < config().learned_positions);
    cpu_steps::add(weights.positions.data() + position * hidden, hidden, to);
  }
}

MixerSteps& CpuForward::mixer(int layer) {
  if (config().linear_at(layer) != nullptr) return *linear_;
  return *attention_;
}

void CpuForward::hold_input(int layer) {
  if (config().reads_with_previous(layer)) return;
  keep_residual(pass_);
}

void CpuForward::step_aside() {
  keep_residual(pass_);
  pass_.replace_residual(true);
}

bool CpuForward::step_back(int layer) {
  const FloatArray& weight = pass_.weights(layer).side_output;
  const std::int64_t hidden = pass_.hidden();
  pass_.replace_residual(false);
  pass_.pack(0, rows(), weight, hidden);
  return pass_.for_rows([&](const CpuPass::Rows& rows) {
    const std::int64_t numbers = rows.count() * hidden;
    float* const made = pass_.memory().residual.data() + rows.begin * hidden;
    float* const entered = pass_.memory().entered.data() + rows.begin * hidden;
    float* const beside = rows.scratch.normed.data();
    pass_.multiply({.rows = rows.count(),
                    .columns = hidden,
                    .depth = hidden,
                    .in = made,
                    .in_stride = hidden,
                    .weight = weight.data(),
                    .out = beside,
                    .out_stride = hidden});
    std::copy_n(entered, numbers, made);
    cpu_steps::add(beside, numbers, entered);
  });
}

bool CpuForward::norm_residual(int layer, bool mlp) {
  const LayerWeights& weights = pass_.weights(layer);
  return pass_.for_rows([&](const CpuPass::Rows& rows) {
    float* const x = pass_.memory().residual.data() + rows.begin * pass_.hidden();
    pass_.norm(mlp ? weights.mlp_residual_norm : weights.residual_norm, {}, rows.begin, rows.end, x);
  });
}

bool CpuForward::scale_residual(double factor) {
  return pass_.for_rows([&](const CpuPass::Rows& rows) {
    float* const x = pass_.memory().residual.data() + rows.begin * pass_.hidden();
    for (std::int64_t n = 0; n < rows.count() * pass_.hidden(); ++n) x[n] *= static_cast<float>(factor);
  });
}

bool CpuForward::predict() {
  if (!keeps(Keep::logits) && !keeps(Keep::loss) && !keeps(Keep::hidden) && !keeps(Keep::predictions)) return true;
  if (!prediction_.predict()) return false;
  keep_hidden(config().layers);
  prediction_.take_losses();
  return true;
}

void CpuForward::keep_hidden(int layer) {
  const std::int64_t hidden = pass_.hidden();
  const auto size = index_of(length() * hidden);
  for (std::size_t sequence = 0; sequence < probes().size(); ++sequence) {
    const bool last = layer == config().layers;
    const FloatArray& rows = last ? pass_.memory().attended : pass_.memory().residual;
    const std::span<const float> own = std::span(rows).subspan(sequence * size, size);
    probes()[sequence].take_hidden(layer, hidden, own);
    if (last) probes()[sequence].take_prediction_state(hidden, own);
  }
}

}  // namespace foxscope
