#include "backend/model/layer/torch/composed_linear_torch.h"

#include <algorithm>
#include <limits>
#include <vector>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>

namespace foxscope {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// Positions of a chunk: with a decay a head, and with one a channel, whose exponents take [chunk, chunk, d].
constexpr std::int64_t kHeadChunk = 64;
constexpr std::int64_t kChannelChunk = 16;
/// Positions of a scan that are doubled together, whose states are there at once.
constexpr std::int64_t kScanChunk = 64;
/// Positions whose chunks are in memory at once.
constexpr std::int64_t kSpan = 2048;

at::Tensor exponential_of(const at::Tensor& nats) { return nats.exp().to(at::kFloat); }

/// Chunks of a span, [B, H, N, T, ...]; c is inclusive within each chunk.
struct Chunks {
  at::Tensor query, key, value, beta, cumulative;
  at::Tensor total;  ///< c of the last position of each chunk
  /// e and b; where channels of a delta rule decay, alpha k and -beta k, which are the same. Undefined: nothing is
  /// erased, or by a delta rule whose heads decay.
  at::Tensor erase_read, erase_write;
};

/// @param x  [B, H, n, ...], filled up with zeros: such positions leave the state as it is
at::Tensor in_chunks(const at::Tensor& x, std::int64_t chunk) {
  const std::int64_t length = x.size(2);
  const std::int64_t chunks = (length + chunk - 1) / chunk;
  std::vector<std::int64_t> padding(static_cast<std::size_t>(2 * (x.dim() - 2)));
  padding.back() = chunks * chunk - length;
  const at::Tensor whole = padding.back() > 0 ? at::constant_pad_nd(x, padding) : x;
  return whole.unflatten(2, {chunks, chunk});
}

Chunks chunks_of(const LinearOperands& all, std::int64_t begin, std::int64_t end, std::int64_t chunk) {
  const auto part = [&](const at::Tensor& x) {
    return in_chunks(x.slice(2, begin, end).repeat_interleave(all.heads / x.size(1), 1), chunk);
  };
  Chunks chunks;
  chunks.query = part(all.query);
  chunks.key = part(all.key);
  chunks.value = part(all.value);
  chunks.beta = all.beta.defined() ? part(all.beta) : at::ones(chunks.key.sizes().slice(0, 4), chunks.key.options());
  chunks.cumulative = all.log_decay.defined()
                          ? part(all.log_decay).cumsum(3)
                          : at::zeros(chunks.key.sizes().slice(0, 4), chunks.key.options().dtype(at::kDouble));
  chunks.total = chunks.cumulative.select(3, chunks.cumulative.size(3) - 1);
  if (all.erase_read.defined()) {
    chunks.erase_read = part(all.erase_read);
    chunks.erase_write = part(all.erase_write);
  } else if (all.delta_rule && all.decays_by_channel()) {
    chunks.erase_read = chunks.key * part(exponential_of(all.log_decay));
    chunks.erase_write = -chunks.key * chunks.beta.unsqueeze(4);
  }
  return chunks;
}

/// True above the diagonal of [T, T].
at::Tensor above_diagonal(std::int64_t size, const at::Device& device) {
  return at::ones({size, size}, at::TensorOptions(device).dtype(at::kBool)).triu(1);
}

/// S over the chunks one after the other, for mixers whose chunks write what does not depend on S.
/// @param written  [B, H, N, d, d_v] what each chunk adds
/// @param kept     [B, H, N, d, 1] what it leaves of what was there
/// @returns [B, H, N, d, d_v] S before each chunk
at::Tensor states_before(const at::Tensor& written, const at::Tensor& kept, at::Tensor& state) {
  std::vector<at::Tensor> before;
  for (std::int64_t chunk = 0; chunk < written.size(2); ++chunk) {
    before.push_back(state);
    state = state * kept.select(2, chunk) + written.select(2, chunk);
  }
  return at::stack(before, 2);
}

/// Computes the same as states_before() by one product, if all channels of a head decay alike.
/// @param written  [B, H, N, d, d_v]
/// @param total    [B, H, N] sum of log decays of each chunk, nats
at::Tensor states_before_by_head(const at::Tensor& written, const at::Tensor& total, at::Tensor& state) {
  const std::int64_t chunks = written.size(2);
  const at::Tensor after = total.cumsum(2);
  const at::Tensor before = at::constant_pad_nd(after, {1, 0});  // [B, H, N + 1], the last one after all chunks
  const at::Tensor difference = before.unsqueeze(3) - after.unsqueeze(2);
  const at::Tensor not_before = at::ones({chunks + 1, chunks}, difference.options().dtype(at::kBool)).triu(0);
  const at::Tensor kept = exponential_of(difference.masked_fill(not_before, -std::numeric_limits<double>::infinity()));
  const at::Tensor states = at::matmul(kept, written.flatten(3))
                                .view({state.size(0), state.size(1), chunks + 1, state.size(2), state.size(3)}) +
                            exponential_of(before).unsqueeze(3).unsqueeze(4) * state.unsqueeze(2);
  state = states.select(2, chunks);
  return states.slice(2, 0, chunks);
}

/// Gamma_ij = exp(c_i - c_j) for j <= i, [B, H, N, T, T].
at::Tensor decays_between(const Chunks& chunks) {
  const at::Tensor difference = chunks.cumulative.unsqueeze(4) - chunks.cumulative.unsqueeze(3);
  const at::Tensor future = above_diagonal(difference.size(4), difference.device());
  return exponential_of(difference.masked_fill(future, -std::numeric_limits<double>::infinity()));
}

at::Tensor mix_by_head(const Chunks& chunks, at::Tensor& state) {
  const at::Tensor mixing =
      at::matmul(chunks.query, chunks.key.transpose(3, 4)) * decays_between(chunks) * chunks.beta.unsqueeze(3);
  const at::Tensor to_end = exponential_of(chunks.total.unsqueeze(3) - chunks.cumulative) * chunks.beta;
  const at::Tensor written = at::matmul((chunks.key * to_end.unsqueeze(4)).transpose(3, 4), chunks.value);
  const at::Tensor before = states_before_by_head(written, chunks.total, state);
  const at::Tensor decayed = chunks.query * exponential_of(chunks.cumulative).unsqueeze(4);
  return at::matmul(mixing, chunks.value) + at::matmul(decayed, before);
}

/// The triangles x_t^T diag(exp(c_t - c_j)) y_j, j <= t, of each chunk.
class DecayedProducts {
 public:
  explicit DecayedProducts(const Chunks& chunks) : by_channel_(chunks.cumulative.dim() == 5) {
    if (!by_channel_) {
      decays_ = decays_between(chunks);
      return;
    }
    const at::Tensor difference = chunks.cumulative.unsqueeze(4) - chunks.cumulative.unsqueeze(3);  // [.., T, T, d]
    const at::Tensor future = above_diagonal(difference.size(4), difference.device()).unsqueeze(2);
    decays_ = exponential_of(difference.masked_fill(future, -std::numeric_limits<double>::infinity()));
  }

  /// @param x, y  [B, H, N, T, d]
  /// @returns [B, H, N, T, T]
  [[nodiscard]] at::Tensor of(const at::Tensor& x, const at::Tensor& y) const { return with(decays_, x, y); }
  /// The same with c_(t-1) in place of c_t, for j < t.
  [[nodiscard]] at::Tensor of_position_before(const at::Tensor& x, const at::Tensor& y) const {
    const at::Tensor above = at::zeros_like(decays_.slice(3, 0, 1));
    return with(at::cat({above, decays_.slice(3, 0, decays_.size(3) - 1)}, 3), x, y);
  }

 private:
  [[nodiscard]] at::Tensor with(const at::Tensor& decays, const at::Tensor& x, const at::Tensor& y) const {
    if (!by_channel_) return at::matmul(x, y.transpose(3, 4)) * decays;
    return (x.unsqueeze(4) * decays * y.unsqueeze(3)).sum(5);
  }

  bool by_channel_;
  at::Tensor decays_;  ///< [B, H, N, T, T] or [B, H, N, T, T, d]
};

at::Tensor mix_by_channel(const Chunks& chunks, at::Tensor& state) {
  const at::Tensor mixing = DecayedProducts(chunks).of(chunks.query, chunks.key);
  const at::Tensor to_end = exponential_of(chunks.total.unsqueeze(3) - chunks.cumulative);
  const at::Tensor written = at::matmul((chunks.key * to_end).transpose(3, 4), chunks.value);
  const at::Tensor before = states_before(written, exponential_of(chunks.total).unsqueeze(4), state);
  return at::matmul(mixing, chunks.value) + at::matmul(chunks.query * exponential_of(chunks.cumulative), before);
}

/// A chunk in which position t writes r_t - E_t S, S before the chunk, by rows b: what it leaves and what is read are
///     S <- kept S + B^T (r - E S) + added,  y = decayed S + mixing (r - E S) + own.
struct Rewriting {
  at::Tensor written, erased;       ///< r [B, H, N, T, d_v] and E [B, H, N, T, d]
  at::Tensor kept;                  ///< [B, H, N, d or 1, 1]
  at::Tensor to_end;                ///< B [B, H, N, T, d]
  at::Tensor decayed, mixing;       ///< [B, H, N, T, d] and [B, H, N, T, T]
  at::Tensor added = {}, own = {};  ///< [B, H, N, d, d_v] and [B, H, N, T, d_v]; undefined: 0
};

/// y [B, H, N, T, d_v], a chunk after the other.
at::Tensor rewrite(const Rewriting& chunks, at::Tensor& state) {
  std::vector<at::Tensor> output;
  for (std::int64_t chunk = 0; chunk < chunks.written.size(2); ++chunk) {
    const auto of_chunk = [chunk](const at::Tensor& x) { return x.select(2, chunk); };
    const at::Tensor update = of_chunk(chunks.written) - at::matmul(of_chunk(chunks.erased), state);
    output.push_back(at::matmul(of_chunk(chunks.decayed), state) + at::matmul(of_chunk(chunks.mixing), update));
    state = state * of_chunk(chunks.kept) + at::matmul(of_chunk(chunks.to_end).transpose(2, 3), update);
    if (chunks.added.defined()) state = state + of_chunk(chunks.added);
  }
  const at::Tensor y = at::stack(output, 2);
  return chunks.own.defined() ? y + chunks.own : y;
}

/// (I + triangle)^-1 right, of which the triangle's entries on and above the diagonal are not read.
at::Tensor solve_unit_triangle(const at::Tensor& triangle, const at::Tensor& right) {
  return at::linalg_solve_triangular(triangle, right, /*upper=*/false, /*left=*/true, /*unitriangular=*/true);
}

at::Tensor mix_by_delta_rule(const Chunks& chunks, at::Tensor& state) {
  const DecayedProducts products(chunks);
  const at::Tensor keys = chunks.key * chunks.beta.unsqueeze(4);
  const at::Tensor triangle = products.of(keys, chunks.key).tril(-1);
  const at::Tensor decay = exponential_of(chunks.cumulative).unsqueeze(4);
  return rewrite({.written = solve_unit_triangle(triangle, chunks.value * chunks.beta.unsqueeze(4)),
                  .erased = solve_unit_triangle(triangle, keys * decay),
                  .kept = exponential_of(chunks.total).unsqueeze(3).unsqueeze(4),
                  .to_end = chunks.key * exponential_of(chunks.total.unsqueeze(3) - chunks.cumulative).unsqueeze(4),
                  .decayed = chunks.query * decay,
                  .mixing = products.of(chunks.query, chunks.key)},
                 state);
}

/// With x_t = S_(t-1)^T e_t of the chunk's own positions solved for, S_t = diag(alpha_t) S_(t-1) + b_t x_t^T + k_t
/// w_t^T with w = beta v is linear in S before the chunk:
///     x = (I - N)^-1 (exp(c_(t-1)) e S + N_k w), N and N_k the products of e_t with b_j and k_j at c_(t-1), j < t.
at::Tensor mix_by_erasing(const Chunks& chunks, at::Tensor& state) {
  const at::Tensor& read = chunks.erase_read;
  const at::Tensor& write = chunks.erase_write;
  const DecayedProducts products(chunks);
  const auto whole = [&](const at::Tensor& nats) { return nats.dim() == 5 ? nats : nats.unsqueeze(4); };
  const at::Tensor decay = exponential_of(whole(chunks.cumulative));
  const at::Tensor decay_before =
      at::cat({at::ones_like(decay.slice(3, 0, 1)), decay.slice(3, 0, decay.size(3) - 1)}, 3);
  const at::Tensor to_end = exponential_of(whole(chunks.total.unsqueeze(3) - chunks.cumulative));
  const at::Tensor value = chunks.value * chunks.beta.unsqueeze(4);
  const at::Tensor triangle = -products.of_position_before(read, write);
  const at::Tensor kept = exponential_of(chunks.total);
  return rewrite(
      {.written = solve_unit_triangle(triangle, at::matmul(products.of_position_before(read, chunks.key), value)),
       .erased = -solve_unit_triangle(triangle, read * decay_before),
       .kept = kept.dim() == 4 ? kept.unsqueeze(4) : kept.unsqueeze(3).unsqueeze(4),
       .to_end = write * to_end,
       .decayed = chunks.query * decay,
       .mixing = products.of(chunks.query, write),
       .added = at::matmul((chunks.key * to_end).transpose(3, 4), value),
       .own = at::matmul(products.of(chunks.query, chunks.key), value)},
      state);
}

/// The selective scan of a few positions (kernels/cpu/selective_scan.h), by doubling: after s steps each position holds
/// what the last 2^s have written, and the decay over them.
/// @param log_decay  [B, H, n] nats
/// @param rate       [H, d]
/// @param written    [B, H, n]
/// @param key, query [B, n, d]
/// @param state      [B, H, d] before them
/// @returns y [B, H, n], and the state behind them
variable_list scan_positions(const at::Tensor& log_decay, const at::Tensor& rate, const at::Tensor& written,
                             const at::Tensor& key, const at::Tensor& query, const at::Tensor& state) {
  const std::int64_t length = written.size(2);
  at::Tensor alpha = (log_decay.to(at::kFloat).unsqueeze(3) * rate.unsqueeze(1)).exp();
  at::Tensor states = written.unsqueeze(3) * key.unsqueeze(1);  // [B, H, n, d]
  states = at::cat({states.slice(2, 0, 1) + alpha.slice(2, 0, 1) * state.unsqueeze(2), states.slice(2, 1)}, 2);
  for (std::int64_t back = 1; back < length; back *= 2) {
    const at::Tensor later = alpha.slice(2, back);
    const at::Tensor earlier = states.slice(2, 0, length - back);
    states = at::cat({states.slice(2, 0, back), states.slice(2, back) + later * earlier}, 2);
    if (2 * back < length) {
      alpha = at::cat({alpha.slice(2, 0, back), later * alpha.slice(2, 0, length - back)}, 2);
    }
  }
  return {(states * query.unsqueeze(1)).sum(3), states.select(2, length - 1)};
}

/// scan_positions() that keeps no more of its steps for the backward pass than what it was given: they are made once
/// more.
struct ScanPositions : torch::autograd::Function<ScanPositions> {
  static variable_list forward(AutogradContext* context, const at::Tensor& log_decay, const at::Tensor& rate,
                               const at::Tensor& written, const at::Tensor& key, const at::Tensor& query,
                               const at::Tensor& state) {
    context->save_for_backward({log_decay, rate, written, key, query, state});
    return scan_positions(log_decay, rate, written, key, query, state);
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    variable_list given;
    for (const at::Tensor& saved : context->get_saved_variables()) given.push_back(saved.detach().requires_grad_());
    const at::AutoGradMode with_graph(true);
    const variable_list made = scan_positions(given[0], given[1], given[2], given[3], given[4], given[5]);
    return torch::autograd::grad(made, given, gradients);
  }
};

/// @param state  [B, H, d, 1]
std::optional<at::Tensor> mix_by_rates(const LinearOperands& operands, at::Tensor& state, const std::stop_token& stop) {
  const std::int64_t length = operands.key.size(2);
  const at::Tensor written = operands.value.squeeze(3) * operands.beta;
  const at::Tensor key = operands.key.select(1, 0);
  const at::Tensor query = operands.query.select(1, 0);
  at::Tensor held = state.squeeze(3);
  std::vector<at::Tensor> output;
  for (std::int64_t begin = 0; begin < length; begin += kScanChunk) {
    if (stop.stop_requested()) return std::nullopt;
    const std::int64_t end = std::min(begin + kScanChunk, length);
    const auto scan = [&](const auto& function) {
      return function(operands.log_decay.slice(2, begin, end), operands.rate, written.slice(2, begin, end),
                      key.slice(1, begin, end), query.slice(1, begin, end), held);
    };
    variable_list made = at::GradMode::is_enabled()
                             ? scan([](const auto&... parts) { return ScanPositions::apply(parts...); })
                             : scan(scan_positions);
    output.push_back(std::move(made[0]));
    held = std::move(made[1]);
  }
  state = held.unsqueeze(3);
  return at::cat(output, 2).unsqueeze(3);
}

}  // namespace

std::optional<at::Tensor> composed_linear_mixing(const LinearOperands& operands, at::Tensor& state,
                                                 const std::stop_token& stop) {
  const at::Tensor& key = operands.key;
  const std::int64_t length = key.size(2);
  const bool by_channel = operands.decays_by_channel();
  const std::int64_t chunk = std::min(by_channel ? kChannelChunk : kHeadChunk, length);
  if (!state.defined()) {
    state = at::zeros({key.size(0), operands.heads, key.size(3), operands.value.size(3)}, key.options());
  }
  if (operands.rate.defined()) return mix_by_rates(operands, state, stop);
  const bool erases = operands.erase_read.defined() || (by_channel && operands.delta_rule);
  std::vector<at::Tensor> output;
  for (std::int64_t begin = 0; begin < length; begin += kSpan) {
    if (stop.stop_requested()) return std::nullopt;
    const std::int64_t end = std::min(begin + kSpan, length);
    const Chunks chunks = chunks_of(operands, begin, end, chunk);
    const at::Tensor mixed = erases                ? mix_by_erasing(chunks, state)
                             : operands.delta_rule ? mix_by_delta_rule(chunks, state)
                             : by_channel          ? mix_by_channel(chunks, state)
                                                   : mix_by_head(chunks, state);
    output.push_back(mixed.flatten(2, 3).slice(2, 0, end - begin));
  }
  return at::cat(output, 2);
}

at::Tensor composed_convolution(const at::Tensor& x, const at::Tensor& before, const at::Tensor& weight,
                                const at::Tensor& bias) {
  const at::Tensor all = at::cat({before, x}, 1);
  const std::int64_t taps = weight.size(1);
  at::Tensor out = all.slice(1, taps - 1) * weight.select(1, taps - 1);
  for (std::int64_t tap = 0; tap + 1 < taps; ++tap) {
    out = out + all.slice(1, tap, tap + x.size(1)) * weight.select(1, tap);
  }
  return bias.defined() ? out + bias : out;
}

at::Tensor composed_activation(const at::Tensor& x, LinearActivation activation) {
  switch (activation) {
    case LinearActivation::none:
      return x;
    case LinearActivation::silu:
      return at::silu(x);
    case LinearActivation::relu:
      return at::relu(x);
    case LinearActivation::elu_plus_one:
      return at::elu(x) + 1;
    case LinearActivation::sigmoid:
      return at::sigmoid(x);
    case LinearActivation::gelu_tanh:
      return at::gelu(x, "tanh");
  }
  return x;
}

at::Tensor composed_linear_norm(const at::Tensor& x, LinearNorm norm) {
  switch (norm) {
    case LinearNorm::none:
      return x;
    case LinearNorm::l2:
      return x * (x.square().sum(-1, true) + kLinearNormEpsilon).rsqrt();
    case LinearNorm::sum:
      return x / x.sum(-1, true);
    case LinearNorm::share:
      return x / (x.sum(-1, true) + kLinearShareEpsilon);
  }
  return x;
}

}  // namespace foxscope
