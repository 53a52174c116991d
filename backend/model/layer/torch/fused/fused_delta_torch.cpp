// The delta rule in chunks (kernels/cuda/linear/delta_chunks.h).
#include <optional>
#include <vector>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/custom_function.h>

#include "backend/model/layer/torch/cuda_attention_torch.h"
#include "backend/model/layer/torch/fused/chunk_tensors_torch.h"
#include "backend/model/layer/torch/fused/fused_mixing_torch.h"
#include "backend/model/weights/current_device_torch.h"
#include "kernels/cuda/linear/delta_chunks.h"

namespace foxscope {
namespace {

namespace gpu = kernels::cuda;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

at::Tensor dense(const at::Tensor& x) { return x.defined() ? x.contiguous() : x; }

const float* floats_or_null(const at::Tensor& x) { return x.defined() ? x.const_data_ptr<float>() : nullptr; }

/// The operands as kernels read them.
struct DeltaOperands {
  at::Tensor query, key, value;
  at::Tensor log_decay, beta;  ///< may be undefined

  [[nodiscard]] std::int64_t batch() const { return value.size(0); }
  [[nodiscard]] std::int64_t heads() const { return value.size(1); }
  [[nodiscard]] std::int64_t length() const { return value.size(2); }
  [[nodiscard]] std::int64_t chunks() const { return (length() + kChunk - 1) / kChunk; }
  [[nodiscard]] std::int64_t rows() const { return key.size(3); }
  [[nodiscard]] std::int64_t columns() const { return value.size(3); }
  /// [B, H, N, ...]
  [[nodiscard]] at::Tensor empty(std::vector<std::int64_t> sizes, at::ScalarType type = at::kBFloat16) const {
    sizes.insert(sizes.begin(), {batch(), heads(), chunks()});
    return at::empty(sizes, floats_like(value).dtype(type));
  }
};

DeltaOperands readable_operands(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                                const at::Tensor& log_decay, const at::Tensor& beta) {
  return {readable(query), readable(key), readable(value), dense(log_decay), dense(beta)};
}

/// The chunks' matrices, and the states before them.
struct DeltaTensors {
  at::Tensor scores;                              ///< [B, H, N, T, T] bfloat16
  at::Tensor query_decayed, key_decayed, erased;  ///< [B, H, N, T, d] bfloat16
  at::Tensor updates;                             ///< [B, H, N, T, d_v] bfloat16, V'
  at::Tensor kept;                                ///< [B, H, N]
  at::Tensor before;                              ///< [B, H, N, d, d_v] bfloat16
  at::Tensor inverse;                             ///< [B, H, N, 2, T, T] bfloat16, where gradients are wanted
  at::Tensor cumulative;                          ///< [B, H, N, T], likewise
  at::Tensor triangle;                            ///< [B, H, N, T, T] bfloat16, likewise, A
};

/// Makes the chunks' matrices; `updates` is U.
DeltaTensors make_chunks(const DeltaOperands& operands, bool with_gradients) {
  DeltaTensors made;
  made.scores = operands.empty({kChunk, kChunk});
  made.query_decayed = operands.empty({kChunk, operands.rows()});
  made.key_decayed = operands.empty({kChunk, operands.rows()});
  made.erased = operands.empty({kChunk, operands.rows()});
  made.updates = operands.empty({kChunk, operands.columns()});
  made.kept = operands.empty({}, at::kFloat);
  gpu::DeltaChunks call;
  call.batch = operands.batch();
  call.heads = operands.heads();
  call.groups = operands.key.size(1);
  call.length = operands.length();
  call.rows = operands.rows();
  call.columns = operands.columns();
  call.query = head_rows(operands.query);
  call.key = head_rows(operands.key);
  call.value = head_rows(operands.value);
  call.log_decay = operands.log_decay.defined() ? operands.log_decay.const_data_ptr<double>() : nullptr;
  call.beta = floats_or_null(operands.beta);
  call.scores = made.scores.mutable_data_ptr();
  call.query_decayed = made.query_decayed.mutable_data_ptr();
  call.key_decayed = made.key_decayed.mutable_data_ptr();
  call.erased = made.erased.mutable_data_ptr();
  call.written = made.updates.mutable_data_ptr();
  call.kept = made.kept.mutable_data_ptr<float>();
  if (with_gradients) {
    made.inverse = operands.empty({2, kChunk, kChunk});
    made.cumulative = operands.empty({kChunk}, at::kFloat);
    call.inverse = made.inverse.mutable_data_ptr();
    call.cumulative = made.cumulative.mutable_data_ptr<float>();
    made.triangle = operands.empty({kChunk, kChunk});
    call.triangle = made.triangle.mutable_data_ptr();
  }
  require_step(gpu::delta_chunks(call, current_stream(operands.key.device())));
  return made;
}

/// Passes over the chunks: V' takes the place of U, and `before` is made.
void pass_states(const DeltaOperands& operands, DeltaTensors& made, at::Tensor& state) {
  made.before = operands.empty({operands.rows(), operands.columns()});
  const at::Tensor first = dense(state);
  gpu::DeltaStates pass;
  pass.heads = operands.batch() * operands.heads();
  pass.chunks = operands.chunks();
  pass.rows = operands.rows();
  pass.columns = operands.columns();
  pass.erased = made.erased.const_data_ptr();
  pass.key_decayed = made.key_decayed.const_data_ptr();
  pass.written = made.updates.const_data_ptr();
  pass.kept = made.kept.const_data_ptr<float>();
  pass.first = floats_or_null(first);
  pass.updates = made.updates.mutable_data_ptr();
  pass.before = made.before.mutable_data_ptr();
  state =
      at::empty({operands.batch(), operands.heads(), operands.rows(), operands.columns()}, floats_like(operands.key));
  pass.last = state.mutable_data_ptr<float>();
  require_step(gpu::delta_states(pass, current_stream(operands.key.device())));
}

struct DeltaMixed {
  DeltaTensors tensors;
  at::Tensor mixed;  ///< [B, H, N, T, d_v] bfloat16, y
};

/// @param kept  takes up what the pass over the chunks makes, and y
DeltaMixed mix_chunks(const DeltaOperands& operands, bool with_gradients, at::Tensor& state, KeptResults* kept) {
  DeltaTensors made = make_chunks(operands, with_gradients);
  const std::vector<at::Tensor> passed = results_of(kept, KeptResults::Of::mixing, [&] {
    pass_states(operands, made, state);
    return std::vector<at::Tensor>{made.updates, made.before,
                                   mixed(made.scores, made.updates, made.query_decayed, made.before)};
  });
  made.updates = passed[0];
  made.before = passed[1];
  return {made, passed[2]};
}

/// dV' and dS behind each chunk.
struct DeltaStatesBack {
  at::Tensor updates;  ///< [B H N, T, d_v] bfloat16
  at::Tensor after;    ///< [B H N, d, d_v] bfloat16
  at::Tensor kept;     ///< [B, H, N]; undefined without decays
};

DeltaStatesBack pass_back(const DeltaOperands& operands, const DeltaTensors& made, const at::Tensor& grad_mixed) {
  DeltaStatesBack back;
  back.updates = at::bmm(made.scores.flatten(0, 2).transpose(1, 2), grad_mixed.flatten(0, 2));
  back.after = at::empty_like(made.before).flatten(0, 2);
  gpu::DeltaStatesGradient call;
  call.heads = operands.batch() * operands.heads();
  call.chunks = operands.chunks();
  call.rows = operands.rows();
  call.columns = operands.columns();
  call.erased = made.erased.const_data_ptr();
  call.query_decayed = made.query_decayed.const_data_ptr();
  call.key_decayed = made.key_decayed.const_data_ptr();
  call.mixed_gradient = grad_mixed.const_data_ptr();
  call.kept = made.kept.const_data_ptr<float>();
  call.before = made.before.const_data_ptr();
  call.updates_gradient = back.updates.mutable_data_ptr();
  call.after_gradient = back.after.mutable_data_ptr();
  at::Tensor parts;
  if (operands.log_decay.defined()) {
    parts = operands.empty({gpu::delta_state_parts(operands.columns())}, at::kFloat);
    call.kept_gradient = parts.mutable_data_ptr<float>();
  }
  require_step(gpu::delta_states_gradient(call, current_stream(grad_mixed.device())));
  if (parts.defined()) back.kept = parts.sum(-1);
  return back;
}

/// Queries and keys of each chunk and head, one behind the other, [B H N, 2, T, d] bfloat16.
at::Tensor queries_and_keys(const DeltaOperands& operands) {
  const std::int64_t groups = operands.key.size(1);
  const at::Tensor both =
      at::empty({operands.batch(), groups, operands.heads() / groups, operands.chunks(), 2, kChunk, operands.rows()},
                halves_like(operands.key));
  both.select(4, 0).copy_(chunked(padded(operands.query)).unsqueeze(2));
  both.select(4, 1).copy_(chunked(padded(operands.key)).unsqueeze(2));
  return both.flatten(0, 3);
}

struct DeltaMixing : torch::autograd::Function<DeltaMixing> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& query, const at::Tensor& key,
                            const at::Tensor& value, const std::optional<at::Tensor>& log_decay,
                            const std::optional<at::Tensor>& beta, KeptResults* kept) {
    const DeltaOperands operands =
        readable_operands(query, key, value, log_decay.value_or(at::Tensor()), beta.value_or(at::Tensor()));
    at::Tensor state;
    const auto [made, y] = mix_chunks(operands, /*with_gradients=*/true, state, kept);
    context->save_for_backward({operands.query, operands.key, operands.value, operands.log_decay, operands.beta,
                                made.scores, made.query_decayed, made.key_decayed, made.erased, made.updates, made.kept,
                                made.before, made.inverse, made.cumulative, made.triangle});
    return y;
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const variable_list saved = context->get_saved_variables();
    const DeltaOperands operands{saved[0], saved[1], saved[2], saved[3], saved[4]};
    const DeltaTensors made{saved[5],  saved[6],  saved[7],  saved[8],  saved[9],
                            saved[10], saved[11], saved[12], saved[13], saved[14]};
    const CurrentDevice current(made.before.device());
    const at::Tensor grad_mixed = gradients[0].contiguous();
    const DeltaStatesBack back = pass_back(operands, made, grad_mixed);

    // X = (I + A)^-T dV', of which rounding takes once, with the gradient of y behind it.
    const at::Tensor inverse = made.inverse.flatten(0, 2);
    const at::Tensor right = operands.empty({2, kChunk, operands.columns()}).flatten(0, 2);
    at::Tensor written = right.select(1, 0);
    at::bmm_out(written, inverse.select(1, 1).transpose(1, 2), back.updates);
    written.baddbmm_(inverse.select(1, 0).transpose(1, 2), back.updates);
    right.select(1, 1).copy_(grad_mixed.flatten(0, 2));
    const at::Tensor both = right.flatten(1, 2);
    const at::Tensor updates = made.updates.flatten(0, 2);
    const at::Tensor products = at::bmm(both, updates.transpose(1, 2));
    const at::Tensor of_states = at::bmm(both, made.before.flatten(0, 2).transpose(1, 2));
    const at::Tensor of_updates = at::bmm(updates, back.after.transpose(1, 2));

    const gpu::Stream stream = current_stream(grad_mixed.device());
    const at::Tensor triangles = operands.empty({3, kChunk, kChunk}).view({-1, 3 * kChunk, kChunk});
    gpu::DeltaTriangleGradient triangle;
    triangle.heads = operands.batch() * operands.heads();
    triangle.length = operands.length();
    triangle.cumulative = made.cumulative.const_data_ptr<float>();
    triangle.beta = floats_or_null(operands.beta);
    triangle.products = products.const_data_ptr();
    triangle.triangles = triangles.mutable_data_ptr();
    triangle.scores = made.scores.const_data_ptr();
    triangle.triangle = made.triangle.const_data_ptr();
    const at::Tensor of_pairs = operands.empty({kChunk}, at::kFloat);
    triangle.of_pairs = of_pairs.mutable_data_ptr<float>();
    require_step(gpu::delta_triangle_gradient(triangle, stream));
    const at::Tensor query_key = queries_and_keys(operands);
    const at::Tensor of_keys = at::bmm(triangles.slice(1, 0, 2 * kChunk), query_key.select(1, 1));
    const at::Tensor of_both = at::bmm(triangles.slice(1, kChunk).transpose(1, 2), query_key.flatten(1, 2));
    return add_up(operands, made, back, {of_keys, of_both, of_states, of_updates, right, of_pairs});
  }

 private:
  struct Products {
    at::Tensor of_keys, of_both, of_states, of_updates, right, of_pairs;
  };

  static variable_list add_up(const DeltaOperands& operands, const DeltaTensors& made, const DeltaStatesBack& back,
                              const Products& products) {
    const std::int64_t batch = operands.batch();
    const std::int64_t heads = operands.heads();
    const std::int64_t length = operands.length();
    const std::int64_t groups = operands.key.size(1);
    const at::TensorOptions floats = floats_like(operands.key);
    at::Tensor grad_query = at::empty({batch, heads, length, operands.rows()}, floats);
    at::Tensor grad_key = at::empty_like(grad_query);
    const at::Tensor grad_value = at::empty({batch, heads, length, operands.columns()}, floats);
    at::Tensor grad_beta;
    at::Tensor grad_log_decay;
    gpu::DeltaRowsGradient call;
    call.batch = batch;
    call.heads = heads;
    call.groups = groups;
    call.length = length;
    call.rows = operands.rows();
    call.columns = operands.columns();
    call.query = head_rows(operands.query);
    call.key = head_rows(operands.key);
    call.value = head_rows(operands.value);
    call.cumulative = made.cumulative.const_data_ptr<float>();
    call.beta = floats_or_null(operands.beta);
    call.kept = made.kept.const_data_ptr<float>();
    call.of_pairs = products.of_pairs.const_data_ptr<float>();
    call.of_keys = products.of_keys.const_data_ptr();
    call.of_both = products.of_both.const_data_ptr();
    call.of_states = products.of_states.const_data_ptr();
    call.of_updates = products.of_updates.const_data_ptr();
    call.right = products.right.const_data_ptr();
    call.query_gradient = grad_query.mutable_data_ptr<float>();
    call.key_gradient = grad_key.mutable_data_ptr<float>();
    call.value_gradient = grad_value.mutable_data_ptr<float>();
    if (operands.beta.defined()) {
      grad_beta = at::empty({batch, heads, length}, floats);
      call.beta_gradient = grad_beta.mutable_data_ptr<float>();
    }
    if (operands.log_decay.defined()) {
      grad_log_decay = at::empty({batch, heads, length}, floats.dtype(at::kDouble));
      call.kept_gradient = back.kept.const_data_ptr<float>();
      call.log_decay_gradient = grad_log_decay.mutable_data_ptr<double>();
    }
    require_step(gpu::delta_rows_gradient(call, current_stream(operands.key.device())));
    if (groups < heads) {
      grad_query = grad_query.unflatten(1, {groups, heads / groups}).sum(2);
      grad_key = grad_key.unflatten(1, {groups, heads / groups}).sum(2);
    }
    return {grad_query, grad_key, grad_value, grad_log_decay, grad_beta, at::Tensor()};
  }
};

}  // namespace

at::Tensor fused_by_delta_rule(const LinearOperands& operands, at::Tensor& state, KeptResults* kept) {
  if (at::GradMode::is_enabled()) {
    const auto maybe = [](const at::Tensor& x) { return x.defined() ? std::optional(x) : std::nullopt; };
    return DeltaMixing::apply(operands.query, operands.key, operands.value, maybe(operands.log_decay),
                              maybe(operands.beta), kept);
  }
  return mix_chunks(readable_operands(operands.query, operands.key, operands.value, operands.log_decay, operands.beta),
                    /*with_gradients=*/false, state, kept)
      .mixed;
}

}  // namespace foxscope
