#include "backend/model/layer/torch/fused_linear_torch.h"

#include <algorithm>
#include <vector>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/custom_function.h>

#include "backend/base/error.h"
#include "backend/model/layer/torch/cuda_attention_torch.h"
#include "backend/model/weights/current_device_torch.h"
#include "kernels/cuda/linear/delta_chunks.h"
#include "kernels/cuda/linear/linear_chunks.h"
#include "kernels/cuda/linear/linear_steps.h"

namespace foxscope {
namespace {

namespace gpu = kernels::cuda;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// Positions whose chunks are in memory at once where nothing is differentiated.
constexpr std::int64_t kFusedSpan = 16384;
constexpr std::int64_t kChunk = gpu::kLinearChunk;
constexpr std::int64_t kMostChannels = 256;
constexpr std::int64_t kMostDeltaHeads = 65536;
constexpr std::int64_t kMostUnitDim = 1024;
constexpr std::int64_t kMostOutputWidth = 4096;
constexpr std::int64_t kMostMixColumns = 256;
static_assert(kMostChannels <= gpu::kMostDeltaRows);

void check(kernels::Status status) {
  if (status != kernels::Status::ok) throw Error("the GPU refused a step of a linear mixer: try --device cpu");
}

at::TensorOptions floats_like(const at::Tensor& x) { return x.options().dtype(at::kFloat).requires_grad(false); }
at::TensorOptions halves_like(const at::Tensor& x) { return x.options().dtype(at::kBFloat16).requires_grad(false); }

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
    check(gpu::decayed_scores(call, current_stream(product.device())));
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
    check(gpu::decayed_scores_gradient(call, current_stream(saved[0].device())));
    return {grad_product, grad_cumulative, grad_beta};
  }
};

/// [B, heads, n, width] as kernels read them, 16 bytes at a time.
at::Tensor readable(const at::Tensor& rows) {
  const bool whole = rows.stride(3) == 1 && rows.storage_offset() % 4 == 0 && rows.stride(0) % 4 == 0 &&
                     rows.stride(1) % 4 == 0 && rows.stride(2) % 4 == 0;
  return whole ? rows : rows.contiguous();
}

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
    check(gpu::scaled_rows(call, current_stream(rows.device())));
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
    check(gpu::scaled_rows_gradient(call, current_stream(saved[0].device())));
    return {grad_rows, grad_factor};
  }
};

void describe_states(const at::Tensor& before, const at::Tensor& kept, gpu::PassedStates& call) {
  call.heads = before.size(0) * before.size(1);
  call.chunks = before.size(2);
  call.rows = before.size(3);
  call.columns = before.size(4);
  call.kept_by_row = kept.dim() == 4;
  call.kept = kept.const_data_ptr<float>();
  call.before = before.mutable_data_ptr();
}

/// @param written  [B, H, N, d, d_v] bfloat16
/// @param kept     [B, H, N] or [B, H, N, d] float32
/// @param state    [B, H, d, d_v] float32, or undefined: 0; then what is behind the last chunk
/// @returns as `written`, S before each chunk
at::Tensor fused_states_before(const at::Tensor& written, const at::Tensor& kept, at::Tensor& state) {
  at::Tensor before = at::empty(written.sizes(), halves_like(written));
  const at::Tensor factor = kept.contiguous();
  gpu::PassedStates call;
  describe_states(before, factor, call);
  const at::Tensor contiguous = written.contiguous();
  const at::Tensor first = state.defined() ? state.contiguous() : state;
  call.written = contiguous.const_data_ptr();
  call.first = first.defined() ? first.const_data_ptr<float>() : nullptr;
  state = at::empty({written.size(0), written.size(1), written.size(3), written.size(4)}, floats_like(written));
  call.last = state.mutable_data_ptr<float>();
  check(gpu::pass_states(call, current_stream(written.device())));
  return before;
}

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
    const at::Tensor grad_before = gradients[0].contiguous();
    const at::Tensor grad_written = at::empty_like(saved[0]);
    const at::Tensor grad_kept = at::empty_like(saved[1]);
    gpu::PassedStatesGradient call;
    describe_states(saved[0], saved[1], call);
    call.before_gradient = grad_before.const_data_ptr();
    call.written_gradient = grad_written.mutable_data_ptr();
    call.kept_gradient = grad_kept.mutable_data_ptr<float>();
    check(gpu::pass_states_gradient(call, current_stream(saved[0].device())));
    return {grad_written, grad_kept};
  }
};

/// silu(convolution), [B, n, C] float32; `before` only where no gradient is wanted.
struct ConvolutionFunction : torch::autograd::Function<ConvolutionFunction> {
  static void describe(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                       gpu::ShortConvolution& call) {
    call.batch = x.size(0);
    call.length = x.size(1);
    call.channels = x.size(2);
    call.taps = weight.size(1);
    call.x = x.const_data_ptr();
    call.x_type = x.scalar_type() == at::kFloat ? gpu::ElementType::float32 : gpu::ElementType::bfloat16;
    call.batch_stride = x.stride(0);
    call.row_stride = x.stride(1);
    call.weight = weight.const_data_ptr<float>();
    call.bias = bias.defined() ? bias.const_data_ptr<float>() : nullptr;
  }

  static at::Tensor run(const at::Tensor& x, const at::Tensor& before, const at::Tensor& weight,
                        const at::Tensor& bias) {
    at::Tensor out = at::empty(x.sizes(), floats_like(x));
    gpu::ShortConvolution call;
    describe(x, weight, bias, call);
    call.before = before.defined() ? before.const_data_ptr<float>() : nullptr;
    call.out = out.mutable_data_ptr<float>();
    check(gpu::short_convolution(call, current_stream(x.device())));
    return out;
  }

  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& weight,
                            const at::Tensor& bias) {
    const at::Tensor rows = x.stride(2) == 1 ? x : x.contiguous();
    context->save_for_backward({rows, weight, bias});
    return run(rows, at::Tensor(), weight, bias);
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const variable_list saved = context->get_saved_variables();
    const at::Tensor& x = saved[0];
    const CurrentDevice current(x.device());
    const at::Tensor grad_out = gradients[0].contiguous();
    const at::Tensor grad_x = at::empty(x.sizes(), floats_like(x));
    gpu::ShortConvolutionGradient call;
    describe(x, saved[1], saved[2], call);
    const at::Tensor parts = at::empty({gpu::short_convolution_parts(call), x.size(2), call.taps + 1}, floats_like(x));
    call.out_gradient = grad_out.const_data_ptr<float>();
    call.x_gradient = grad_x.mutable_data_ptr<float>();
    call.parts = parts.mutable_data_ptr<float>();
    check(gpu::short_convolution_gradient(call, current_stream(x.device())));
    const at::Tensor sums = parts.sum(0);
    return {grad_x, sums.slice(1, 0, call.taps), saved[2].defined() ? sums.select(1, call.taps) : at::Tensor()};
  }
};

/// Axis 2 up to whole chunks, by zeros.
at::Tensor padded(const at::Tensor& x) {
  const std::int64_t missing = (kChunk - x.size(2) % kChunk) % kChunk;
  if (missing == 0) return x;
  std::vector<std::int64_t> padding(static_cast<std::size_t>(2 * (x.dim() - 2)));
  padding.back() = missing;
  return at::constant_pad_nd(x, padding);
}

/// [B, H, N, T, ...]
at::Tensor chunked(const at::Tensor& x) { return x.unflatten(2, {x.size(2) / kChunk, kChunk}); }

/// Splits x in one pass, heads first, as products read them.
at::Tensor halves_in_chunks(const at::Tensor& x) {
  return chunked(padded(x.to(at::kBFloat16, /*non_blocking=*/false, /*copy=*/false, at::MemoryFormat::Contiguous)));
}

/// M V + Q S, [B, H, N, T, d_v].
at::Tensor mixed(const at::Tensor& scores, const at::Tensor& value, const at::Tensor& query, const at::Tensor& before) {
  const at::Tensor within = at::matmul(scores, value);
  return at::baddbmm(within.flatten(0, 2), query.flatten(0, 2), before.flatten(0, 2)).view(within.sizes());
}

gpu::HeadRows head_rows(const at::Tensor& x) {
  return {x.const_data_ptr<float>(), x.stride(0), x.stride(1), x.stride(2)};
}

/// The chunks of a mixer with one decay a head.
struct HeadChunks {
  at::Tensor query, key;  ///< [B, G, N, T, d] bfloat16
  at::Tensor product;     ///< [B, G, N, T, T] bfloat16 of them
  at::Tensor sums;        ///< [B, H, N, T] float64 c
  at::Tensor cumulative;  ///< the same in float32
  at::Tensor beta;        ///< likewise
  at::Tensor to_end;      ///< likewise, exp(c_T - c) beta
  at::Tensor kept;        ///< [B, H, N] float32 exp(c_T)

  explicit HeadChunks(const LinearOperands& operands)
      : query(halves_in_chunks(operands.query)), key(halves_in_chunks(operands.key)) {
    const at::TensorOptions doubles = operands.key.options().dtype(at::kDouble).requires_grad(false);
    sums = operands.log_decay.defined() ? chunked(padded(operands.log_decay)).cumsum(3)
                                        : at::zeros({key.size(0), operands.heads, key.size(2), kChunk}, doubles);
    const at::Tensor total = sums.select(3, kChunk - 1);
    beta = operands.beta.defined() ? chunked(padded(operands.beta)) : at::ones_like(sums, at::kFloat);
    product = at::matmul(query, key.transpose(3, 4));
    cumulative = sums.to(at::kFloat);
    to_end = (total.unsqueeze(3) - sums).exp().to(at::kFloat) * beta;
    kept = total.exp().to(at::kFloat);
  }
};

/// Where nothing is differentiated and all heads read the same queries and keys: these go through one product with
/// what all heads write, and one with all their states, positions first.
at::Tensor fused_of_one_group(const LinearOperands& operands, const HeadChunks& chunks, at::Tensor& state) {
  const at::Tensor value = readable(operands.value);
  const std::int64_t batch = value.size(0);
  const std::int64_t count = chunks.key.size(2);
  const std::int64_t columns = value.size(3);
  const std::int64_t width = operands.heads * columns;
  const auto positions_first = [&] { return at::empty({batch * count, kChunk, width}, halves_like(value)); };
  const at::Tensor scaled = positions_first();
  const at::Tensor to_end = chunks.to_end.contiguous();
  gpu::ScaledRows scale;
  ScaledRowsFunction::describe(value, to_end.flatten(2, 3), scale);
  scale.positions_first = true;
  scale.scaled = scaled.mutable_data_ptr();
  check(gpu::scaled_rows(scale, current_stream(value.device())));
  const at::Tensor written = at::bmm(chunks.key.flatten(0, 2).transpose(1, 2), scaled);  // [B N, d, H d_v]
  const at::Tensor before = at::empty_like(written);
  const at::Tensor kept = chunks.kept.contiguous();
  const at::Tensor first = state.defined() ? state.contiguous() : state;
  state = at::empty({batch, operands.heads, written.size(1), columns}, floats_like(value));
  gpu::PassedStates pass;
  pass.heads = batch * operands.heads;
  pass.chunks = count;
  pass.rows = written.size(1);
  pass.columns = columns;
  pass.heads_inside = operands.heads;
  pass.written = written.const_data_ptr();
  pass.kept = kept.const_data_ptr<float>();
  pass.first = first.defined() ? first.const_data_ptr<float>() : nullptr;
  pass.before = before.mutable_data_ptr();
  pass.last = state.mutable_data_ptr<float>();
  check(gpu::pass_states(pass, current_stream(value.device())));
  const at::Tensor carried = at::bmm(chunks.query.flatten(0, 2), before);
  const at::Tensor cumulative = chunks.cumulative.contiguous();
  const at::Tensor beta = chunks.beta.contiguous();
  const at::Tensor mixed = positions_first();
  gpu::DecayedMix mix;
  mix.batch = batch;
  mix.heads = operands.heads;
  mix.groups = 1;
  mix.length = value.size(2);
  mix.chunks = count;
  mix.columns = columns;
  mix.product = chunks.product.const_data_ptr();
  mix.cumulative = cumulative.const_data_ptr<float>();
  mix.beta = beta.const_data_ptr<float>();
  mix.value = head_rows(value);
  mix.carried = carried.const_data_ptr();
  mix.mixed = mixed.mutable_data_ptr();
  check(gpu::decayed_mix(mix, current_stream(value.device())));
  return mixed.view({batch, count, kChunk, operands.heads, columns}).permute({0, 3, 1, 2, 4});
}

at::Tensor fused_by_head(const LinearOperands& operands, at::Tensor& state) {
  const HeadChunks chunks(operands);
  const bool one_group = operands.key.size(1) == 1 && operands.value.size(3) <= kMostMixColumns;
  if (one_group && !at::GradMode::is_enabled()) return fused_of_one_group(operands, chunks, state);
  const at::Tensor value = halves_in_chunks(operands.value);
  const at::Tensor scores = DecayedScoresFunction::apply(chunks.product, chunks.cumulative, chunks.beta);
  const at::Tensor key = chunked(ScaledRowsFunction::apply(operands.key, chunks.to_end.flatten(2, 3)));
  const at::Tensor from_begin = chunks.sums.exp().to(at::kFloat);
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

at::Tensor fused_by_channel(const LinearOperands& operands, at::Tensor& state) {
  const at::Tensor value = halves_in_chunks(operands.value);
  const std::int64_t chunks = value.size(2);
  const std::int64_t width = operands.key.size(3);
  const at::Tensor query = readable(operands.query);
  const at::Tensor key = readable(operands.key);
  const at::Tensor log_decay = operands.log_decay.stride(3) == 1 ? operands.log_decay : operands.log_decay.contiguous();
  const at::TensorOptions halves = halves_like(key);
  const at::Tensor scores = at::empty({key.size(0), key.size(1), chunks, kChunk, kChunk}, halves);
  const at::Tensor query_decayed = at::empty({key.size(0), key.size(1), chunks, kChunk, width}, halves);
  const at::Tensor key_decayed = at::empty(query_decayed.sizes(), halves);
  const at::Tensor kept = at::empty({key.size(0), key.size(1), chunks, width}, floats_like(key));
  gpu::ChannelChunks call;
  call.batch = key.size(0);
  call.heads = key.size(1);
  call.length = key.size(2);
  call.width = width;
  call.query = head_rows(query);
  call.key = head_rows(key);
  call.log_decay = log_decay.const_data_ptr<double>();
  call.decay_batch_stride = log_decay.stride(0);
  call.decay_head_stride = log_decay.stride(1);
  call.decay_row_stride = log_decay.stride(2);
  call.scores = scores.mutable_data_ptr();
  call.query_decayed = query_decayed.mutable_data_ptr();
  call.key_decayed = key_decayed.mutable_data_ptr();
  call.kept = kept.mutable_data_ptr<float>();
  check(gpu::channel_chunks(call, current_stream(key.device())));
  const at::Tensor before = fused_states_before(at::matmul(key_decayed.transpose(3, 4), value), kept, state);
  return mixed(scores, value, query_decayed, before);
}

at::Tensor fused_by_delta_rule(const LinearOperands& operands, at::Tensor& state) {
  const at::Tensor query = readable(operands.query);
  const at::Tensor key = readable(operands.key);
  const at::Tensor value = readable(operands.value);
  const at::Tensor log_decay = operands.log_decay.defined() ? operands.log_decay.contiguous() : at::Tensor();
  const at::Tensor beta = operands.beta.defined() ? operands.beta.contiguous() : at::Tensor();
  const std::int64_t batch = key.size(0);
  const std::int64_t heads = operands.heads;
  const std::int64_t chunks = (key.size(2) + kChunk - 1) / kChunk;
  const std::int64_t rows = key.size(3);
  const std::int64_t columns = value.size(3);
  const auto of_positions = [&](std::int64_t width) {
    return at::empty({batch, heads, chunks, kChunk, width}, halves_like(key));
  };
  const at::Tensor scores = of_positions(kChunk);
  const at::Tensor query_decayed = of_positions(rows);
  const at::Tensor key_decayed = of_positions(rows);
  const at::Tensor erased = of_positions(rows);
  const at::Tensor written = of_positions(columns);
  const at::Tensor kept = at::empty({batch, heads, chunks}, floats_like(key));
  gpu::DeltaChunks call;
  call.batch = batch;
  call.heads = heads;
  call.groups = key.size(1);
  call.length = key.size(2);
  call.rows = rows;
  call.columns = columns;
  call.query = head_rows(query);
  call.key = head_rows(key);
  call.value = head_rows(value);
  call.log_decay = log_decay.defined() ? log_decay.const_data_ptr<double>() : nullptr;
  call.beta = beta.defined() ? beta.const_data_ptr<float>() : nullptr;
  call.scores = scores.mutable_data_ptr();
  call.query_decayed = query_decayed.mutable_data_ptr();
  call.key_decayed = key_decayed.mutable_data_ptr();
  call.erased = erased.mutable_data_ptr();
  call.written = written.mutable_data_ptr();
  call.kept = kept.mutable_data_ptr<float>();
  check(gpu::delta_chunks(call, current_stream(key.device())));
  const at::Tensor before = at::empty({batch, heads, chunks, rows, columns}, halves_like(key));
  const at::Tensor first = state.defined() ? state.contiguous() : state;
  gpu::DeltaStates pass;
  pass.heads = batch * heads;
  pass.chunks = chunks;
  pass.rows = rows;
  pass.columns = columns;
  pass.erased = erased.const_data_ptr();
  pass.key_decayed = key_decayed.const_data_ptr();
  pass.written = written.const_data_ptr();
  pass.kept = kept.const_data_ptr<float>();
  pass.first = first.defined() ? first.const_data_ptr<float>() : nullptr;
  pass.updates = written.mutable_data_ptr();
  pass.before = before.mutable_data_ptr();
  state = at::empty({batch, heads, rows, columns}, floats_like(key));
  pass.last = state.mutable_data_ptr<float>();
  check(gpu::delta_states(pass, current_stream(key.device())));
  return mixed(scores, written, query_decayed, before);
}

LinearOperands slice(const LinearOperands& operands, std::int64_t begin, std::int64_t end) {
  LinearOperands part = operands;
  for (at::Tensor* x : {&part.query, &part.key, &part.value, &part.log_decay, &part.beta}) {
    if (x->defined()) *x = x->slice(2, begin, end);
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
    return !at::GradMode::is_enabled() && !by_channel && operands.heads % key.size(1) == 0 &&
           key.size(0) * operands.heads < kMostDeltaHeads;
  }
  if (!by_channel) return operands.beta.defined() && operands.log_decay.defined();
  return !at::GradMode::is_enabled() && key.size(1) == operands.heads && operands.log_decay.size(1) == operands.heads &&
         !operands.beta.defined();
}

std::optional<at::Tensor> fused_linear_mixing(const LinearOperands& operands, at::Tensor& state,
                                              const std::stop_token& stop) {
  const std::int64_t length = operands.key.size(2);
  const bool by_channel = operands.decays_by_channel();
  const bool whole = at::GradMode::is_enabled() || length <= kFusedSpan;
  const std::int64_t span = whole ? length : kFusedSpan;
  at::Tensor output;
  for (std::int64_t begin = 0; begin < length; begin += span) {
    if (stop.stop_requested()) return std::nullopt;
    const std::int64_t end = std::min(begin + span, length);
    const LinearOperands part = slice(operands, begin, end);
    const at::Tensor y = operands.delta_rule ? fused_by_delta_rule(part, state)
                         : by_channel        ? fused_by_channel(part, state)
                                             : fused_by_head(part, state);
    const at::Tensor of_span = y.flatten(2, 3).slice(2, 0, end - begin);
    if (whole) return at::GradMode::is_enabled() ? of_span.to(at::kFloat) : of_span;
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

bool fused_convolution_takes(const at::Tensor& x, const at::Tensor& before, const at::Tensor& weight) {
  return x.is_cuda() && gpu::is_available() && weight.size(1) >= 2 && weight.size(1) <= 4 &&
         !(at::GradMode::is_enabled() && before.defined());
}

at::Tensor fused_convolution(const at::Tensor& x, const at::Tensor& before, const at::Tensor& weight,
                             const at::Tensor& bias) {
  if (at::GradMode::is_enabled()) return ConvolutionFunction::apply(x, weight, bias);
  return ConvolutionFunction::run(x.stride(2) == 1 ? x : x.contiguous(),
                                  before.defined() ? before.contiguous() : before, weight, bias);
}

bool fused_unit_heads_takes(const at::Tensor& x, std::int64_t head_dim) {
  return x.is_cuda() && x.scalar_type() == at::kFloat && gpu::is_available() && !at::GradMode::is_enabled() &&
         head_dim % 4 == 0 && head_dim <= kMostUnitDim;
}

at::Tensor fused_unit_heads(const at::Tensor& x, std::int64_t head_dim, double factor) {
  const at::Tensor rows = readable(x.unsqueeze(1)).squeeze(1);
  const std::int64_t heads = x.size(2) / head_dim;
  const at::Tensor out = at::empty({x.size(0), x.size(1), heads, head_dim}, floats_like(x));
  gpu::UnitHeads call;
  call.batch = x.size(0);
  call.length = x.size(1);
  call.heads = heads;
  call.head_dim = head_dim;
  call.x = rows.const_data_ptr<float>();
  call.batch_stride = rows.stride(0);
  call.row_stride = rows.stride(1);
  call.epsilon = static_cast<float>(kLinearNormEpsilon);
  call.factor = static_cast<float>(factor);
  call.out = out.mutable_data_ptr<float>();
  check(gpu::unit_heads(call, current_stream(x.device())));
  return out.transpose(1, 2);
}

bool fused_linear_output_takes(const LinearMixer& mixer, const LinearOutput& output, at::ScalarType matrix) {
  const at::Tensor& y = output.mixed;
  if (!y.is_cuda() || matrix != at::kBFloat16 || at::GradMode::is_enabled() ||
      mixer.gate_activation != LinearActivation::silu) {
    return false;
  }
  return gpu::is_available() && y.size(3) % 4 == 0 && y.size(1) * y.size(3) <= kMostOutputWidth &&
         mixer.norm_size % 4 == 0 && (!output.skip.defined() || output.value.size(1) == y.size(1));
}

at::Tensor fused_linear_output(const LinearMixer& mixer, const LinearOutput& output) {
  const at::Tensor y = readable(output.mixed);
  const std::int64_t heads = y.size(1);
  const std::int64_t width = heads * y.size(3);
  at::Tensor out = at::empty({y.size(0) * y.size(2), width}, halves_like(y));
  gpu::LinearOutput call;
  call.batch = y.size(0);
  call.length = y.size(2);
  call.heads = heads;
  call.head_dim = y.size(3);
  call.y = y.const_data_ptr();
  call.y_type = y.scalar_type() == at::kFloat ? gpu::ElementType::float32 : gpu::ElementType::bfloat16;
  call.batch_stride = y.stride(0);
  call.head_stride = y.stride(1);
  call.row_stride = y.stride(2);
  at::Tensor value;
  if (output.skip.defined()) {
    value = readable(output.value);
    call.value = value.const_data_ptr<float>();
    call.value_batch_stride = value.stride(0);
    call.value_head_stride = value.stride(1);
    call.value_row_stride = value.stride(2);
    call.skip = output.skip.const_data_ptr<float>();
    call.skip_by_channel = mixer.skip == LinearSkip::channel;
  }
  at::Tensor gate;
  if (output.gate.defined()) {
    gate = readable(output.gate.unsqueeze(1)).squeeze(1);
    call.gate = gate.const_data_ptr();
    call.gate_type = gate.scalar_type() == at::kFloat ? gpu::ElementType::float32 : gpu::ElementType::bfloat16;
    call.gate_batch_stride = gate.stride(0);
    call.gate_row_stride = gate.stride(1);
    call.gate_before_norm = mixer.gate == LinearGate::before_norm;
  }
  at::Tensor norm;
  if (mixer.norm_size > 0) {
    norm = output.norm.view({-1, mixer.norm_size}).expand({width / mixer.norm_size, mixer.norm_size}).contiguous();
    call.norm_size = mixer.norm_size;
    call.norm = norm.const_data_ptr<float>();
    call.epsilon = static_cast<float>(mixer.norm_epsilon);
  }
  call.out = out.mutable_data_ptr();
  check(gpu::linear_output(call, current_stream(y.device())));
  return out;
}

}  // namespace foxscope
