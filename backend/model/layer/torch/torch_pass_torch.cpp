#include "backend/model/layer/torch/torch_pass_torch.h"

#include <algorithm>
#include <utility>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include "backend/base/error.h"
#include "backend/base/index.h"
#include "backend/model/layer/chunk_sizes.h"
#include "backend/model/layer/torch/composed_steps_torch.h"
#include "backend/model/layer/torch/cuda_attention_torch.h"
#include "backend/model/layer/torch/fused/fused_steps_torch.h"

namespace foxscope {

void copy_to_host(const at::Tensor& from, void* into) {
  at::from_blob(into, from.sizes(), at::TensorOptions().dtype(from.scalar_type())).copy_(from.detach());
}

TorchPass::TorchPass(const TorchWeights& weights, std::int64_t batch, std::int64_t length)
    : ForwardPass(weights.config, batch, length),
      weights_(weights),
      by_kernel_(weights.on_gpu() && cuda_attention_takes(weights.config.head_dim, weights.matrix)) {}

PassBytes TorchPass::bytes(const ModelConfig& config, DType dtype, const KeepSet& keep) {
  const auto size = static_cast<std::int64_t>(size_of(dtype));
  const std::int64_t queries = config.query_size();
  const std::int64_t projected = queries + 2 * config.key_size();
  const std::int64_t gate = config.output_gate ? queries : 0;
  PassBytes bytes;
  // Rows of the MLP, and a block of logits, once more where it goes to the host.
  bytes.fixed = std::max(3 * kDeviceMlpRows, kGatedMlpRows) * config.widest_intermediate() * size +
                kDeviceLogitElements * 4 * (keep.contains(Keep::logits) ? 2 : 1);
  // Rows of an expert, which all may have chosen: what it reads, its units and what it makes, with their sums.
  if (config.mixture) bytes.fixed += kDeviceMlpRows * 4 * (4 * config.hidden_size + 6 * config.mixture->size);
  // Ids, labels, losses; the residual stream, and where it is kept its norm; the norm with what rounding took from it,
  // projection, heads and what they attend to; gates and normalisers; the attention kernel's workspace.
  const bool states = keep.contains(Keep::hidden) || keep.contains(Keep::predictions);
  bytes.per_token = 20 + 4 * config.hidden_size * ((states ? 2 : 1) + (config.side_attention ? 4 : 0)) +
                    (keep.contains(Keep::predictions) ? (size + 2) * config.hidden_size : 0) +
                    2 * size * config.hidden_size + size * (projected + gate) + size * (projected + queries) +
                    std::int64_t{config.heads} * (8 + 4 + 4 + 24);
  // LibTorch's operations have results of their own, of which a few are there at once.
  bytes.per_token += 4 * config.linear_bytes_per_position();
  // One layer on its way to the host.
  if (!stored_arrays(keep).empty()) bytes.per_token += size * queries;
  return bytes;
}

void TorchPass::begin_texts() {
  if (continues()) return;
  if (weights_.on_gpu()) downloads_.emplace(weights_.place);
  if (by_kernel_) blocks = at::zeros({config().layers, 2}, weights_.options(at::kLong));
}

void TorchPass::end_layer() {
  if (downloads_ && !continues()) downloads_->end_layer();
}

int TorchPass::layers_done(int begun) const {
  return downloads_ && !continues() ? input().first_layer + downloads_->layers_done() : begun;
}

bool TorchPass::finish() {
  if (!downloads_ || continues()) return true;
  if (blocks.defined()) downloads_->take(blocks.sum(0), [this] { return &block_count_; });
  downloads_->finish();
  if (job().stopped()) return false;
  report().attention_blocks += block_count_.total;
  report().skipped_blocks += block_count_.skipped;
  return true;
}

at::Tensor TorchPass::put(std::span<const std::int32_t> numbers) const {
  return at::tensor(at::ArrayRef<std::int32_t>(numbers.data(), numbers.size()), at::kInt).to(weights_.place);
}

at::Tensor TorchPass::norm(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) const {
  if (config().norm == NormKind::rms) return composed_steps::rms_norm(x, weight, config().norm_epsilon);
  return composed_steps::layer_norm(x, weight, bias, config().norm_epsilon);
}

bool TorchPass::norms_by_kernel(const at::Tensor& x, const at::Tensor& weight) const {
  return config().norm == NormKind::rms && fused_norm_takes(x, weight, weights_.matrix);
}

at::Tensor TorchPass::mixer_input(int layer) const {
  if (config().is_aside(layer)) return at::cat({residual, embedded}, 1);
  return config().reads_with_previous(layer) ? entered : residual;
}

void TorchPass::add(const at::Tensor& made) {
  if (replaces_) {
    residual = made;
  } else if (sums_apart_) {
    residual = at::add(residual, made, config().residual_factor);
  } else {
    residual.add_(made, config().residual_factor);
  }
}

void TorchPass::add_affine(const at::Tensor& in, const at::Tensor& weight, const at::Tensor& bias) {
  if (sums_apart_ && !replaces_ && config().residual_factor == 1 && !bias.defined()) {
    residual = composed_steps::add_product(residual, in, weight, kept);
  } else {
    add(composed_steps::affine(in, weight, bias));
  }
}

void TorchPass::cut_heads(int layer, at::Tensor& output) const {
  if (config().layer(layer).steps() > 1) return;  // what is read is of several heads, whose values were cut
  const int heads = config().heads_of(layer);
  const std::int64_t dim = output.size(1) / heads;
  bool own = !at::GradMode::is_enabled();  // else what made it may need it in the backward pass
  for (std::int64_t b = 0; b < batch(); ++b) {
    for (int head = 0; head < heads; ++head) {
      if (!probes()[index_of(b)].cuts_head(layer, head)) continue;
      if (!std::exchange(own, true)) output = output.clone();
      output.slice(0, b * length(), (b + 1) * length()).slice(1, head * dim, (head + 1) * dim).zero_();
    }
  }
}

void TorchPass::keep(const at::Tensor& from, std::function<void*()> into) {
  if (downloads_) {
    downloads_->take(from.detach(), std::move(into));
  } else {
    copy_to_host(from, into());
  }
}

void TorchPass::check(kernels::Status status, const char* step) const {
  if (status == kernels::Status::ok) return;
  throw Error(fmt::format("{}: the GPU refused {} in a forward pass over {} tokens: try --device cpu",
                          weights_.device.name(), step, length()));
}

}  // namespace foxscope
