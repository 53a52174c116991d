#pragma once

#include <cstdint>

#include "kernels/executor.h"
#include "kernels/status.h"

// Gradients of the pointwise operations between a layer's matrix products, each one pass over its data. n rows
// (tokens), H heads, d head dimension, D = H d. float32 throughout; pointers are not null unless it says that they may
// be. A stride counts elements from one row to the next, 0: rows follow each other; what makes up a row is contiguous.
// Gradients of inputs are written, not added to, and overlap inputs only where it says so. Rows are shared among the
// executor's threads and added up in one order: the results are the same bits for any number of threads. Every step
// returns invalid_argument for a size below 1, rows that overlap, a null pointer or what it lists; it throws
// std::bad_alloc only.
namespace foxscope::kernels::cpu {

/// Gradients of y = x r w with r = (mean(x^2) + epsilon)^-1/2 (Zhang and Sennrich 2019), the mean over `width` numbers;
/// a row may hold several heads that are normed each on its own:
///   dx = r w dy - x r^3 mean(w dy x)     dw = sum over rows (and heads that share it) of dy x r
struct RmsNormGradient {
  std::int64_t rows = 0;
  std::int64_t heads = 1;
  std::int64_t width = 0;         ///< D, or d where there are heads
  std::int64_t weight_heads = 1;  ///< H, or 1: all heads share a weight
  float epsilon = 0;
  const float* input = nullptr;  ///< [n, H, width] x
  std::int64_t input_stride = 0;
  const float* weight = nullptr;           ///< [weight_heads, width]
  const float* output_gradient = nullptr;  ///< [n, H, width] dy
  std::int64_t output_gradient_stride = 0;
  const float* residual_gradient = nullptr;  ///< [n, H, width], added to dx: what reaches x past the norm; may be null
  std::int64_t residual_gradient_stride = 0;
  float* input_gradient = nullptr;  ///< [n, H, width] dx; may be dy or the residual's gradient
  std::int64_t input_gradient_stride = 0;
  float* weight_gradient = nullptr;  ///< [weight_heads, width], added to; may be null
};
Status rms_norm_gradient(const RmsNormGradient& arguments, Executor& executor);

/// Gradients of the shift y_t = a_t x_(t-1) + (1 - a_t) x_t with a = sigmoid(z) per row and head, x_(-1) = 0 (Lin et
/// al. 2025, section 3.2):
///   dx_t = (1 - a_t) dy_t + a_(t+1) dy_(t+1)     dz_t = a_t (1 - a_t) sum over d of dy_t (x_(t-1) - x_t)
struct ShiftGradient {
  std::int64_t rows = 0;
  std::int64_t length = 0;  ///< rows of each sequence: nothing comes before every length-th row; 0: all are one
  std::int64_t heads = 0;
  std::int64_t head_dim = 0;
  const float* input = nullptr;  ///< [n, H, d] x
  std::int64_t input_stride = 0;
  const float* logits = nullptr;  ///< [n, H] z
  std::int64_t logits_stride = 0;
  const float* output_gradient = nullptr;  ///< [n, H, d] dy
  std::int64_t output_gradient_stride = 0;
  float* input_gradient = nullptr;  ///< [n, H, d] dx
  std::int64_t input_gradient_stride = 0;
  float* logits_gradient = nullptr;  ///< [n, H] dz
  std::int64_t logits_gradient_stride = 0;
};
/// Also invalid: rows that are not whole sequences.
Status shift_gradient(const ShiftGradient& arguments, Executor& executor);

/// The activation that multiplies attention's output, of the gate's logit z.
enum class GateActivation {
  sigmoid,
  silu,  ///< z sigmoid(z)
};

/// Gradients of y = RMSNorm(x) act(z), the norm over d of each head; either may be missing, not both. With m =
/// RMSNorm(x), or x:
///   dz = dy m act'(z)     dx and dw as of RmsNormGradient with dy act(z) for its dy
struct GatedOutputGradient {
  std::int64_t rows = 0;
  std::int64_t heads = 0;
  std::int64_t head_dim = 0;
  const float* attended = nullptr;  ///< [n, H, d] x
  std::int64_t attended_stride = 0;
  const float* norm = nullptr;  ///< [H, d]; null: no norm
  float norm_epsilon = 0;
  const float* gate = nullptr;  ///< [n, D] z; null: no gate
  std::int64_t gate_stride = 0;
  GateActivation activation = GateActivation::sigmoid;
  const float* output_gradient = nullptr;  ///< [n, D] dy
  std::int64_t output_gradient_stride = 0;
  float* attended_gradient = nullptr;  ///< [n, H, d] dx; may be dy
  std::int64_t attended_gradient_stride = 0;
  float* gate_gradient = nullptr;  ///< [n, D] dz; may be z; null without a gate
  std::int64_t gate_gradient_stride = 0;
  float* norm_gradient = nullptr;  ///< [H, d] dw, added to; may be null, and is without a norm
};
Status gated_output_gradient(const GatedOutputGradient& arguments, Executor& executor);

/// Gradients of p = silu(g) u with g and u side by side: dg = dp u sigmoid(g) (1 + g (1 - sigmoid(g))), du = dp
/// silu(g).
struct SwiGluGradient {
  std::int64_t rows = 0;
  std::int64_t inner = 0;       ///< I
  const float* wide = nullptr;  ///< [n, 2 I] g, then u
  std::int64_t wide_stride = 0;
  const float* product_gradient = nullptr;  ///< [n, I] dp
  std::int64_t product_gradient_stride = 0;
  float* wide_gradient = nullptr;  ///< [n, 2 I] dg, then du; may be wide
  std::int64_t wide_gradient_stride = 0;
  float* product = nullptr;  ///< [n, I] p once more, which a forward pass need not keep; may be dp; may be null
  std::int64_t product_stride = 0;
};
Status swiglu_gradient(const SwiGluGradient& arguments, Executor& executor);

/// Gradients of the weighted sum of cross entropies, sum_t w_t (log sum_v exp(x_tv) - x_(t, label)):
///   dx_tv = w_t (softmax(x_t)_v - [v = label])
/// A row whose weight is 0 becomes 0, whatever it holds and whatever its label is.
struct CrossEntropyGradient {
  std::int64_t rows = 0;
  std::int64_t vocabulary = 0;  ///< V
  float* logits = nullptr;      ///< [n, V] x, replaced by dx
  std::int64_t logits_stride = 0;
  const std::int64_t* labels = nullptr;  ///< [n]
  const float* weights = nullptr;        ///< [n] w; 1 / n of a mean
  float* losses = nullptr;               ///< [n] nats, not weighted, 0 where the weight is 0; may be null
};
/// Also invalid: a label outside [0, V) in a row whose weight is not 0. Nothing has been written then.
Status cross_entropy_gradient(const CrossEntropyGradient& arguments, Executor& executor);

}  // namespace foxscope::kernels::cpu
