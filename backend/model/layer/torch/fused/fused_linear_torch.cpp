#include "backend/model/layer/torch/fused/fused_linear_torch.h"

#include <algorithm>
#include <optional>
#include <vector>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/custom_function.h>

#include "backend/model/layer/torch/cuda_attention_torch.h"
#include "backend/model/layer/torch/fused/chunk_tensors_torch.h"
#include "backend/model/layer/torch/fused/fused_mixing_torch.h"
#include "backend/model/layer/torch/fused/fused_states_torch.h"
#include "backend/model/weights/current_device_torch.h"
#include "kernels/cuda/linear/delta_chunks.h"
#include "kernels/cuda/linear/linear_chunks.h"

namespace foxscope {
namespace {

namespace gpu = kernels::cuda;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// Positions whose chunks are in memory at once where nothing is differentiated.
constexpr std::int64_t kFusedSpan = 16384;
constexpr std::int64_t kMostChannels = 256;
constexpr std::int64_t kMostDeltaHeads = 65536;
constexpr std::int64_t kMostMixColumns = 256;
static_assert(kMostChannels <= gpu::kMostDeltaRows);

/// M of each chunk (gpu::DecayedScores).
struct DecayedScoresFunction : torch::autograd::Function<DecayedScoresFunction> {
  static void describe(const at::Tensor& product, const at::Tensor& cumulative, const at::Tensor& beta,
                       gpu::DecayedScores& call) {
    call.batch = cumulative.size(0);
    call.heads = cumulative.size(1);
    call.groups = product.size(1);
    call.chunks = cumulative.size(2);
    call.product = product.const_data_ptr();
    call.cumulative = cumulative.const_data_ptr<float>();
    call.beta = beta.const_data_ptr<float>();
  }

  static at::Tensor forward(AutogradContext* context, const at::Tensor& product, const at::Tensor& cumulative,
                            const at::Tensor& beta) {
    const variable_list saved{product.contiguous(), cumulative.contiguous(), beta.contiguous()};
    context->save_for_backward(saved);
    at::Tensor scores =
        at::empty({cumulative.size(0), cumulative.size(1), cumulative.size(2), kChunk, kChunk}, halves_like(product));
    gpu::DecayedScores call;
    describe(saved[0], saved[1], saved[2], call);
    call.scores = scores.mutable_data_ptr();
    require_step(gpu::decayed_scores(call, current_stream(product.device())));
    return scores;
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const variable_list saved = context->get_saved_variables();
    const CurrentDevice current(saved[0].device());
    const at::Tensor grad_scores = gradients[0].contiguous();
    const at::Tensor grad_product = at::empty_like(saved[0]);
    const at::Tensor grad_cumulative = at::empty_like(saved[1]);
    const at::Tensor grad_beta = at::empty_like(saved[2]);
    gpu::DecayedScoresGradient call;
    describe(saved[0], saved[1], saved[2], call);
    call.scores_gradient = grad_scores.const_data_ptr();
    call.product_gradient = grad_product.mutable_data_ptr();
    call.cumulative_gradient = grad_cumulative.mutable_data_ptr<float>();
    call.beta_gradient = grad_beta.mutable_data_ptr<float>();
    require_step(gpu::decayed_scores_gradient(call, current_stream(saved[0].device())));
    return {grad_product, grad_cumulative, grad_beta};
  }
};

/// gpu::ScaledRows; rows [B, G, n, d], factor [B, H, N T] to [B, H, N T, d] bfloat16.
struct ScaledRowsFunction : torch::autograd::Function<ScaledRowsFunction> {
  static void describe(const at::Tensor& rows, const at::Tensor& factor, gpu::ScaledRows& call) {
    call.batch = factor.size(0);
    call.heads = factor.size(1);
    call.groups = rows.size(1);
    call.length = rows.size(2);
    call.padded = factor.size(2);
    call.width = rows.size(3);
    call.rows = rows.const_data_ptr<float>();
    call.batch_stride = rows.stride(0);
    call.group_stride = rows.stride(1);
    call.row_stride = rows.stride(2);
    call.factor = factor.const_data_ptr<float>();
  }

  static at::Tensor forward(AutogradContext* context, const at::Tensor& rows, const at::Tensor& factor) {
    const variable_list saved{readable(rows), factor.contiguous()};
    context->save_for_backward(saved);
    at::Tensor scaled = at::empty({factor.size(0), factor.size(1), factor.size(2), rows.size(3)}, halves_like(rows));
    gpu::ScaledRows call;
    describe(saved[0], saved[1], call);
    call.scaled = scaled.mutable_data_ptr();
    require_step(gpu::scaled_rows(call, current_stream(rows.device())));
    return scaled;
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const variable_list saved = context->get_saved_variables();
    const CurrentDevice current(saved[0].device());
    const at::Tensor grad_scaled = gradients[0].contiguous();
    const at::Tensor grad_rows = at::empty(saved[0].sizes(), floats_like(saved[0]));
    const at::Tensor grad_factor = at::empty_like(saved[1]);
    gpu::ScaledRowsGradient call;
    describe(saved[0], saved[1], call);
    call.scaled_gradient = grad_scaled.const_data_ptr();
    call.rows_gradient = grad_rows.mutable_data_ptr<float>();
    call.factor_gradient = grad_factor.mutable_data_ptr<float>();
    require_step(gpu::scaled_rows_gradient(call, current_stream(saved[0].device())));
    return {grad_rows, grad_factor};
  }
};

/// fused_states_before from 0, with what is behind the last chunk.
struct PassedStatesFunction : torch::autograd::Function<PassedStatesFunction> {
  static variable_list forward(AutogradContext* context, const at::Tensor& written, const at::Tensor& kept) {
    at::Tensor state;
    const at::Tensor factor = kept.contiguous();
    const at::Tensor before = fused_states_before(written, factor, state);
    context->save_for_backward({before, factor});
    context->mark_non_differentiable({state});
    return {before, state};
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const variable_list saved = context->get_saved_variables();
    const CurrentDevice current(saved[0].device());
    const StatesGradient gradient = fused_states_gradient(saved[0], saved[1], gradients[0]);
    return {gradient.written, gradient.kept};
  }
};

/// gpu::HeadDecays and its gradients, of B sequences, H heads and n positions.
struct HeadDecaysFunction : torch::autograd::Function<HeadDecaysFunction> {
  using MaybeTensor = std::optional<at::Tensor>;

  static void describe(at::IntArrayRef sizes, const MaybeTensor& log_decay, const MaybeTensor& beta,
                       gpu::HeadDecays& call) {
    call.batch = sizes[0];
    call.heads = sizes[1];
    call.length = sizes[2];
    if (log_decay) {
      call.log_decay = log_decay->const_data_ptr<double>();
      call.decay_batch_stride = log_decay->stride(0);
      call.decay_head_stride = log_decay->stride(1);
      call.decay_row_stride = log_decay->stride(2);
    }
    if (beta) {
      call.beta = beta->const_data_ptr<float>();
      call.beta_batch_stride = beta->stride(0);
      call.beta_head_stride = beta->stride(1);
      call.beta_row_stride = beta->stride(2);
    }
  }

  static variable_list forward(AutogradContext* context, const MaybeTensor& log_decay, const MaybeTensor& beta,
                               const std::vector<std::int64_t>& sizes, const at::TensorOptions& floats) {
    const std::int64_t chunks = (sizes[2] + kChunk - 1) / kChunk;
    const auto of_positions = [&] { return at::empty({sizes[0], sizes[1], chunks, kChunk}, floats); };
    at::Tensor cumulative = of_positions();
    at::Tensor chunk_beta = of_positions();
    at::Tensor to_end = of_positions();
    at::Tensor kept = at::empty({sizes[0], sizes[1], chunks}, floats);
    gpu::HeadDecays call;
    describe(sizes, log_decay, beta, call);
    call.cumulative = cumulative.mutable_data_ptr<float>();
    call.chunk_beta = chunk_beta.mutable_data_ptr<float>();
    call.to_end = to_end.mutable_data_ptr<float>();
    call.kept = kept.mutable_data_ptr<float>();
    require_step(gpu::head_decays(call, current_stream(cumulative.device())));
    context->save_for_backward({cumulative, to_end, kept});
    context->saved_data["sizes"] = sizes;
    context->saved_data["decays"] = log_decay.has_value();
    context->saved_data["beta"] = beta.has_value();
    return {cumulative, chunk_beta, to_end, kept};
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const variable_list saved = context->get_saved_variables();
    const at::TensorOptions floats = floats_like(saved[0]);
    const CurrentDevice current(saved[0].device());
    const std::vector<std::int64_t> sizes = context->saved_data["sizes"].toIntVector();
    for (at::Tensor& gradient : gradients) gradient = gradient.contiguous();
    gpu::HeadDecaysGradient call;
    describe(sizes, std::nullopt, std::nullopt, call);
    call.cumulative = saved[0].mutable_data_ptr<float>();
    call.to_end = saved[1].mutable_data_ptr<float>();
    call.kept = saved[2].mutable_data_ptr<float>();
    call.cumulative_gradient = gradients[0].const_data_ptr<float>();
    call.chunk_beta_gradient = gradients[1].const_data_ptr<float>();
    call.to_end_gradient = gradients[2].const_data_ptr<float>();
    call.kept_gradient = gradients[3].const_data_ptr<float>();
    at::Tensor grad_log_decay, grad_beta;
    if (context->saved_data["decays"].toBool()) {
      grad_log_decay = at::empty(sizes, floats.dtype(at::kDouble));
      call.log_decay_gradient = grad_log_decay.mutable_data_ptr<double>();
    }
    if (context->saved_data["beta"].toBool()) {
      grad_beta = at::empty(sizes, floats);
      call.beta_gradient = grad_beta.mutable_data_ptr<float>();
    }
    require_step(gpu::head_decays_gradient(call, current_stream(saved[0].device())));
    return {grad_log_decay, grad_beta, at::Tensor(), at::Tensor()};
  }
};

/// The chunks of a mixer with one decay a head.
struct HeadChunks {
  at::Tensor query, key;  ///< [B, G, N, T, d] bfloat16
  at::Tensor cumulative;  ///< [B, H, N, T] c
  at::Tensor beta;        ///< likewise
  at::Tensor to_end;      ///< likewise, exp(c_T - c) beta
  at::Tensor kept;        ///< [B, H, N] exp(c_T)

  explicit HeadChunks(const LinearOperands& operands)
      : query(halves_in_chunks(operands.query)), key(halves_in_chunks(operands.key)) {
    const auto maybe = [](const at::Tensor& x) { return x.defined() ? std::optional(x) : std::nullopt; };
    const variable_list made =
        HeadDecaysFunction::apply(maybe(operands.log_decay), maybe(operands.beta),
                                  std::vector<std::int64_t>{operands.key.size(0), operands.heads, operands.key.size(2)},
                                  floats_like(operands.key));
    cumulative = made[0];
    beta = made[1];
    to_end = made[2];
    kept = made[3];
  }
};

/// Heads that read the same queries and keys: these go through one product with what all heads write, and one with all
/// their states, positions first. W = H d_v.
struct GroupTensors {
  at::Tensor query, key;    ///< [B N, T, d] bfloat16
  at::Tensor value;         ///< [B, H, n, d_v] float32
  at::Tensor product;       ///< [B N, T, T] bfloat16
  at::Tensor cumulative;    ///< [B, H, N, T], as beta and to_end
  at::Tensor beta, to_end;  ///< HeadChunks'
  at::Tensor kept;          ///< [B, H, N]
  at::Tensor scaled;        ///< [B N, T, W] bfloat16, to_end V
  at::Tensor before;        ///< [B N, d, W] bfloat16, S before each chunk
  at::Tensor carried;       ///< [B N, T, W] bfloat16, Q S

  [[nodiscard]] std::int64_t batch() const { return value.size(0); }
  [[nodiscard]] std::int64_t heads() const { return value.size(1); }
  [[nodiscard]] std::int64_t columns() const { return value.size(3); }
  [[nodiscard]] at::Tensor empty_rows() const {
    return at::empty({query.size(0), kChunk, heads() * columns()}, halves_like(value));
  }
  void describe(gpu::PassedStates& call) const {
    call.heads = batch() * heads();
    call.chunks = kept.size(2);
    call.rows = query.size(2);
    call.columns = columns();
    call.heads_inside = heads();
    call.kept = kept.const_data_ptr<float>();
    call.before = before.mutable_data_ptr();
  }
  void describe(gpu::DecayedMix& call) const {
    call.batch = batch();
    call.heads = heads();
    call.groups = 1;
    call.length = value.size(2);
    call.chunks = kept.size(2);
    call.columns = columns();
    call.product = product.const_data_ptr();
    call.cumulative = cumulative.const_data_ptr<float>();
    call.beta = beta.const_data_ptr<float>();
    call.value = head_rows(value);
    call.carried = carried.const_data_ptr();
  }

  /// Makes `scaled`, `before` and `carried`.
  /// @returns y [B, H, N, T, d_v], positions first in memory
  at::Tensor mix(at::Tensor& state) {
    const gpu::Stream stream = current_stream(value.device());
    scaled = empty_rows();
    gpu::ScaledRows scale;
    ScaledRowsFunction::describe(value, to_end.flatten(2, 3), scale);
    scale.positions_first = true;
    scale.scaled = scaled.mutable_data_ptr();
    require_step(gpu::scaled_rows(scale, stream));
    const at::Tensor written = at::bmm(key.transpose(1, 2), scaled);
    before = at::empty_like(written);
    const at::Tensor first = state.defined() ? state.contiguous() : state;
    state = at::empty({batch(), heads(), written.size(1), columns()}, floats_like(value));
    gpu::PassedStates pass;
    describe(pass);
    pass.written = written.const_data_ptr();
    pass.first = first.defined() ? first.const_data_ptr<float>() : nullptr;
    pass.last = state.mutable_data_ptr<float>();
    require_step(gpu::pass_states(pass, stream));
    carried = at::bmm(query, before);
    const at::Tensor mixed = empty_rows();
    gpu::DecayedMix mix;
    describe(mix);
    mix.mixed = mixed.mutable_data_ptr();
    require_step(gpu::decayed_mix(mix, stream));
    return mixed.view({batch(), kept.size(2), kChunk, heads(), columns()}).permute({0, 3, 1, 2, 4});
  }
};

struct GroupMixing : torch::autograd::Function<GroupMixing> {
  /// @param query, key  [B, 1, N, T, d] bfloat16
  static at::Tensor forward(AutogradContext* context, const at::Tensor& query, const at::Tensor& key,
                            const at::Tensor& value, const at::Tensor& cumulative, const at::Tensor& beta,
                            const at::Tensor& to_end, const at::Tensor& kept) {
    GroupTensors group;
    group.query = query.flatten(0, 2);
    group.key = key.flatten(0, 2);
    group.value = readable(value);
    group.product = at::bmm(group.query, group.key.transpose(1, 2));
    group.cumulative = cumulative.contiguous();
    group.beta = beta.contiguous();
    group.to_end = to_end.contiguous();
    group.kept = kept.contiguous();
    at::Tensor state;
    at::Tensor mixed = group.mix(state);
    context->save_for_backward({group.query, group.key, group.value, group.product, group.cumulative, group.beta,
                                group.to_end, group.kept, group.scaled, group.before, group.carried});
    return mixed;
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const variable_list saved = context->get_saved_variables();
    const GroupTensors group{saved[0], saved[1], saved[2], saved[3], saved[4], saved[5],
                             saved[6], saved[7], saved[8], saved[9], saved[10]};
    const CurrentDevice current(group.value.device());
    const gpu::Stream stream = current_stream(group.value.device());
    const at::Tensor grad_mixed = gradients[0].permute({0, 2, 3, 1, 4}).contiguous();
    const at::Tensor grad_carried = group.empty_rows();
    gpu::CarriedGradient carried;
    carried.batch = group.batch();
    carried.heads = group.heads();
    carried.chunks = group.kept.size(2);
    carried.columns = group.columns();
    carried.cumulative = group.cumulative.const_data_ptr<float>();
    carried.mixed_gradient = grad_mixed.const_data_ptr();
    carried.carried_gradient = grad_carried.mutable_data_ptr();
    require_step(gpu::carried_gradient(carried, stream));
    const at::Tensor grad_before = at::bmm(group.query.transpose(1, 2), grad_carried);
    const at::Tensor grad_written = at::empty_like(group.before);
    const at::Tensor grad_kept = at::empty_like(group.kept);
    gpu::PassedStatesGradient pass;
    group.describe(pass);
    pass.before_gradient = grad_before.const_data_ptr();
    pass.written_gradient = grad_written.mutable_data_ptr();
    pass.kept_gradient = grad_kept.mutable_data_ptr<float>();
    require_step(gpu::pass_states_gradient(pass, stream));
    const at::Tensor grad_scaled = at::bmm(group.key, grad_written);
    const std::int64_t length = group.value.size(2);
    const at::Tensor grad_value = at::empty(
        {group.batch(), group.kept.size(2) * kChunk, group.heads(), group.columns()}, floats_like(group.value));
    const at::Tensor grad_cumulative = at::empty_like(group.cumulative);
    const at::Tensor grad_beta = at::empty_like(group.beta);
    const at::Tensor grad_to_end = at::empty_like(group.to_end);
    gpu::DecayedMixGradient mix;
    group.describe(mix);
    const at::Tensor parts =
        at::empty({gpu::decayed_mix_parts(mix), group.query.size(0), kChunk, kChunk}, floats_like(group.value));
    mix.mixed_gradient = grad_mixed.const_data_ptr();
    mix.to_end = group.to_end.const_data_ptr<float>();
    mix.scaled_gradient = grad_scaled.const_data_ptr();
    mix.value_gradient = grad_value.mutable_data_ptr<float>();
    mix.product_parts = parts.mutable_data_ptr<float>();
    mix.cumulative_gradient = grad_cumulative.mutable_data_ptr<float>();
    mix.beta_gradient = grad_beta.mutable_data_ptr<float>();
    mix.to_end_gradient = grad_to_end.mutable_data_ptr<float>();
    require_step(gpu::decayed_mix_gradient(mix, stream));
    const at::Tensor grad_product = parts.sum(0).to(at::kBFloat16);
    const at::Tensor grad_query =
        at::baddbmm(at::bmm(grad_carried, group.before.transpose(1, 2)), grad_product, group.key);
    const at::Tensor grad_key =
        at::baddbmm(at::bmm(group.scaled, grad_written.transpose(1, 2)), grad_product.transpose(1, 2), group.query);
    const std::vector<std::int64_t> sizes{group.batch(), 1, group.kept.size(2), kChunk, group.query.size(2)};
    return {grad_query.view(sizes),
            grad_key.view(sizes),
            grad_value.transpose(1, 2).slice(2, 0, length),
            grad_cumulative,
            grad_beta,
            grad_to_end,
            grad_kept};
  }
};

at::Tensor fused_of_one_group(const LinearOperands& operands, const HeadChunks& chunks, at::Tensor& state) {
  if (at::GradMode::is_enabled()) {
    return GroupMixing::apply(chunks.query, chunks.key, operands.value, chunks.cumulative, chunks.beta, chunks.to_end,
                              chunks.kept);
  }
  GroupTensors group;
  group.query = chunks.query.flatten(0, 2);
  group.key = chunks.key.flatten(0, 2);
  group.value = readable(operands.value);
  group.product = at::bmm(group.query, group.key.transpose(1, 2));
  group.cumulative = chunks.cumulative.contiguous();
  group.beta = chunks.beta.contiguous();
  group.to_end = chunks.to_end.contiguous();
  group.kept = chunks.kept.contiguous();
  return group.mix(state);
}

at::Tensor fused_by_head(const LinearOperands& operands, at::Tensor& state) {
  const HeadChunks chunks(operands);
  const std::int64_t columns = operands.value.size(3);
  const bool one_group = operands.key.size(1) == 1 &&
                         (at::GradMode::is_enabled() ? columns % 16 == 0 && columns <= gpu::kMostMixGradientColumns
                                                     : columns <= kMostMixColumns);
  if (one_group) return fused_of_one_group(operands, chunks, state);
  const at::Tensor value = halves_in_chunks(operands.value);
  const at::Tensor scores = DecayedScoresFunction::apply(at::matmul(chunks.query, chunks.key.transpose(3, 4)),
                                                         chunks.cumulative, chunks.beta);
  const at::Tensor key = chunked(ScaledRowsFunction::apply(operands.key, chunks.to_end.flatten(2, 3)));
  const at::Tensor from_begin = chunks.cumulative.exp();
  const at::Tensor query = chunked(ScaledRowsFunction::apply(operands.query, from_begin.flatten(2, 3)));
  const at::Tensor written = at::matmul(key.transpose(3, 4), value);
  at::Tensor before;
  if (at::GradMode::is_enabled()) {
    const variable_list passed = PassedStatesFunction::apply(written, chunks.kept);
    before = passed[0];
    state = passed[1];
  } else {
    before = fused_states_before(written, chunks.kept, state);
  }
  return mixed(scores, value, query, before);
}

/// Positions of [B, heads, n, ...]. All of them are x itself: autograd goes back through a slice by zeros and a copy.
at::Tensor positions_of(const at::Tensor& x, std::int64_t begin, std::int64_t end) {
  return begin == 0 && end == x.size(2) ? x : x.slice(2, begin, end);
}

LinearOperands slice(const LinearOperands& operands, std::int64_t begin, std::int64_t end) {
  LinearOperands part = operands;
  for (at::Tensor* x : {&part.query, &part.key, &part.value, &part.log_decay, &part.beta}) {
    if (x->defined()) *x = positions_of(*x, begin, end);
  }
  return part;
}

}  // namespace

bool fused_linear_takes(const LinearOperands& operands, at::ScalarType matrix) {
  const at::Tensor& key = operands.key;
  if (!key.is_cuda() || matrix != at::kBFloat16 || operands.rate.defined() || !gpu::is_available()) return false;
  if (key.size(2) < kChunk || operands.erase_read.defined()) return false;
  if (operands.query.size(1) != key.size(1) || operands.value.size(1) != operands.heads) return false;
  if (key.size(3) % 8 != 0 || key.size(3) > kMostChannels || operands.value.size(3) % 8 != 0) return false;
  const bool by_channel = operands.decays_by_channel();
  if (operands.delta_rule) {
    return !by_channel && operands.heads % key.size(1) == 0 && key.size(0) * operands.heads < kMostDeltaHeads &&
           (!at::GradMode::is_enabled() || gpu::delta_states_gradient_fits(key.size(3)));
  }
  if (!by_channel) return operands.heads % key.size(1) == 0;
  return key.size(1) == operands.heads && operands.log_decay.size(1) == operands.heads && !operands.beta.defined() &&
         (!at::GradMode::is_enabled() || gpu::channel_chunks_gradient_fits(key.size(3)));
}

std::optional<at::Tensor> fused_linear_mixing(const LinearOperands& operands, at::Tensor& state,
                                              const std::stop_token& stop, KeptResults* kept) {
  const std::int64_t length = operands.key.size(2);
  const bool by_channel = operands.decays_by_channel();
  const bool whole = at::GradMode::is_enabled() || kept != nullptr || length <= kFusedSpan;
  const std::int64_t span = whole ? length : kFusedSpan;
  at::Tensor output;
  for (std::int64_t begin = 0; begin < length; begin += span) {
    if (stop.stop_requested()) return std::nullopt;
    const std::int64_t end = std::min(begin + span, length);
    const LinearOperands part = slice(operands, begin, end);
    const at::Tensor y = operands.delta_rule ? fused_by_delta_rule(part, state, kept)
                         : by_channel        ? fused_by_channel(part, state, kept)
                                             : fused_by_head(part, state);
    const at::Tensor of_span = positions_of(y.flatten(2, 3), 0, end - begin);
    if (whole) return of_span;
    if (!output.defined()) {
      // The result lies in the order of its spans.
      const bool heads_first = of_span.stride(1) > of_span.stride(2);
      const at::Tensor rows = heads_first ? of_span : of_span.transpose(1, 2);
      auto sizes = rows.sizes().vec();
      sizes[heads_first ? 2 : 1] = length;
      output = at::empty(sizes, rows.options());
      if (!heads_first) output = output.transpose(1, 2);
    }
    output.slice(2, begin, end).copy_(of_span);
  }
  return output;
}

}  // namespace foxscope
