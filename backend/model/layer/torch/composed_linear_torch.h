#pragma once

#include <optional>
#include <stop_token>

#include <ATen/core/Tensor.h>

#include "backend/model/spec/linear_mixer.h"

namespace foxscope {

/// The operands of a linear mixer; all tensors on one device.
struct LinearOperands {
  at::Tensor query;        ///< [B, H_q, n, d] float32, its factor in it; head h reads h / (H / H_q), and so with others
  at::Tensor key;          ///< [B, H_k, n, d] float32
  at::Tensor value;        ///< [B, H_v, n, d_v] float32
  at::Tensor log_decay;    ///< [B, H, n], or [B, H_k, n, d] where channels decay, float64 nats; undefined: 0
  at::Tensor rate;         ///< [H, d] float32 that log_decay [B, H, n] is multiplied by for each channel; undefined: 1
  at::Tensor beta;         ///< [B, H, n] float32; undefined: 1
  std::int64_t heads = 0;  ///< H
  bool delta_rule = false;
  at::Tensor erase_read;   ///< [B, H_k, n, d] float32 e; undefined: nothing is erased by arrays
  at::Tensor erase_write;  ///< [B, H_k, n, d] float32 b

  [[nodiscard]] bool decays_by_channel() const { return log_decay.defined() && log_decay.dim() == 4; }
};

/// y_t = S_t^T q_t with S_t = diag(alpha_t) S_(t-1) + k_t (beta_t u_t)^T (LinearMixer), composed of LibTorch operations
/// in chunks of positions: within a chunk the matrix M of the chunk alone, between chunks the state. Exponents are
/// differences of cumulative sums, never positive, taken in float64. Delta rules solve the chunk's unit triangle
/// I + tril(diag(beta) (K K^T o Gamma), -1) (Yang et al. 2024, section 3.2; 2025, section 3.3). Where b and e are given
/// (kernels/cpu/linear_mixing.h), what they read is solved for likewise; a delta rule whose channels decay is that with
/// e = alpha k and b = -beta k. With rates, of one key, query and value a position, states are made position by
/// position, by doubling. Memory is
/// O(n).
/// @param state  [B, H, d, d_v] float32 S before the first position, undefined: 0; left as it is behind the last
/// @returns y [B, H, n, d_v] float32; nothing if it was stopped
std::optional<at::Tensor> composed_linear_mixing(const LinearOperands& operands, at::Tensor& state,
                                                 const std::stop_token& stop);

/// A causal convolution, a channel each: out_t = bias + sum_{s < K} w_s x_(t - K + 1 + s).
/// @param x       [B, n, C] float32
/// @param before  [B, K - 1, C] what precedes x
/// @param weight  [C, K]
/// @param bias    [C], or undefined
at::Tensor composed_convolution(const at::Tensor& x, const at::Tensor& before, const at::Tensor& weight,
                                const at::Tensor& bias);

/// @param x  of any shape
at::Tensor composed_activation(const at::Tensor& x, LinearActivation activation);

/// Over the last axis.
at::Tensor composed_linear_norm(const at::Tensor& x, LinearNorm norm);

}  // namespace foxscope
