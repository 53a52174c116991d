#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/attention/forgetting_attention.h"
#include "kernels/cuda/steps/steps.h"
#include "kernels/cuda/stream.h"
#include "kernels/status.h"

// Backward of the pointwise operations between a layer's matrix products (steps.h, token_loss.h, gate_scan.h), each one
// pass over its data, with symbols and layouts of those. dy is the gradient of the loss by y, bfloat16 unless it says
// float32. Arithmetic is float32; all pointers are to memory of the current device; outputs overlap inputs only where
// it says so.
//
// Gradients of weights are float32 and are ADDED to what is there, so that micro-batches sum up. Their sums are made in
// an order that depends on the sizes alone, without atomics: two runs give the same bits. They need a workspace of
// workspace_bytes(arguments), aligned to 256, in use until the stream gets past; where it is 0 bytes it may be null.
// workspace_bytes looks at the sizes and at which gradients there are; it is 0 for what cannot be taken and, where it
// says so, without a device.
//
// Every step is asynchronous on the stream and returns invalid_argument for a size below 1, a stride below its row, a
// null pointer that is not allowed to be null or what it lists; unavailable without a device or in a build without
// CUDA; failed where a launch fails. Rows that start at multiples of 16 bytes and whose lengths are multiples of 8 are
// read and written 16 bytes at a time, others one number at a time.
namespace foxscope::kernels::cuda {

/// Gradients of residual_norm, y = x r w with r = (mean(x^2) + epsilon)^(-1/2): with g = w dy
///   dx = r g - x r^3 mean(g x), which is ADDED to the gradient of the residual stream, as x goes on past the norm;
///   dw += sum over rows of dy x r.
struct ResidualNormGradient {
  std::int64_t rows = 0;
  std::int64_t width = 0;           ///< D, at most 16,384
  const float* residual = nullptr;  ///< x [n, D]: the stream as the norm read it, its increment included
  const float* weight = nullptr;    ///< w [D]
  float epsilon = 0;
  const void* normed_gradient = nullptr;  ///< dy [n, D]
  ElementType normed_gradient_type = ElementType::bfloat16;
  float* residual_gradient = nullptr;  ///< [n, D], added to
  void* increment_gradient = nullptr;  ///< [n, D] bf16, the new residual_gradient rounded: what the increment that
                                       ///< residual_norm added gets; may be null
  float* weight_gradient = nullptr;    ///< [D], added to; may be null
  void* workspace = nullptr;           ///< needed with weight_gradient alone
};
std::size_t workspace_bytes(const ResidualNormGradient& arguments);
Status residual_norm_gradient(const ResidualNormGradient& arguments, Stream stream);

/// Gradients of project_heads, from the gradients of what enters attention back to the projection: rotary embedding
/// (the negative angle), then RMSNorm over d per head, then the shift s_t = a_t y_(t-1) + (1 - a_t) y_t with a_t =
/// sigmoid(logit):
///   dy_t = (1 - a_t) ds_t + a_(t+1) ds_(t+1) inside a sequence;
///   dlogit_t = a_t (1 - a_t) sum over d of ds_t (y_(t-1) - y_t), with zeros before a sequence.
/// Row n = b L + t of the projection is row t of sequence b.
struct ProjectedHeadsGradient {
  std::int64_t rows = 0;
  std::int64_t length = 0;  ///< rows of each sequence, L, a divisor of n: nothing passes between them; 0: all are one
  std::int64_t heads = 0;
  std::int64_t key_heads = 0;
  std::int64_t head_dim = 0;                  ///< a multiple of 8 up to 256; of 16 with a rotation
  const void* projected = nullptr;            ///< y [n, (H + 2 H_kv) d] bf16, as project_heads read it
  std::int64_t projected_stride = 0;          ///< elements from one row to the next
  const float* key_shift_logits = nullptr;    ///< [n, H_kv]; null: no shift of keys
  const float* value_shift_logits = nullptr;  ///< [n, H_kv]; null: no shift of values
  std::int64_t shift_stride = 0;              ///< of both logits, elements from one row to the next
  const float* query_norm = nullptr;          ///< [H, d]; null: no norm
  const float* key_norm = nullptr;            ///< [H_kv, d]; null: no norm
  float norm_epsilon = 0;
  const float* rotation = nullptr;       ///< [L, d/2, 2] of rotary_table; null: none
  const void* query_gradient = nullptr;  ///< [B, H, L, d] bf16
  AttentionStrides query_strides;
  const void* key_gradient = nullptr;  ///< [B, H_kv, L, d] bf16
  AttentionStrides key_strides;
  const void* value_gradient = nullptr;  ///< [B, H_kv, L, d] bf16
  AttentionStrides value_strides;
  void* projected_gradient = nullptr;  ///< [n, (H + 2 H_kv) d] bf16; not projected: its rows are read by two threads
  std::int64_t projected_gradient_stride = 0;  ///< elements from one row to the next
  float* key_shift_gradient = nullptr;         ///< dlogit [n, H_kv], where keys are shifted
  float* value_shift_gradient = nullptr;       ///< dlogit [n, H_kv], where values are shifted
  std::int64_t shift_gradient_stride = 0;      ///< of both, elements from one row to the next
  float* query_norm_gradient = nullptr;        ///< [H, d], added to; null: not wanted, or no norm
  float* key_norm_gradient = nullptr;          ///< [H_kv, d], likewise
  void* workspace = nullptr;                   ///< needed with a gradient of a norm alone
};
std::size_t workspace_bytes(const ProjectedHeadsGradient& arguments);
Status project_heads_gradient(const ProjectedHeadsGradient& arguments, Stream stream);

/// Gradients of gate_output, y = m act(z) with m the normed head and z the gate's logit:
///   dz = dy m act'(z), with sigmoid' = s (1 - s) and silu' = s (1 + z (1 - s)) for s = sigmoid(z);
///   dattended: RMSNorm's (ResidualNormGradient) of dy act(z), or that itself without a norm.
struct GatedOutputGradient {
  std::int64_t rows = 0;
  std::int64_t heads = 0;
  std::int64_t head_dim = 0;       ///< a multiple of 8 up to 256
  const void* attended = nullptr;  ///< [n, H, d] bf16
  const float* norm = nullptr;     ///< [H, d]; null: no norm
  float norm_epsilon = 0;
  const void* gate = nullptr;    ///< z [n, D] bf16; null: no gate
  std::int64_t gate_stride = 0;  ///< elements from one row to the next
  OutputGateActivation activation = OutputGateActivation::sigmoid;
  const void* output_gradient = nullptr;  ///< dy [n, D] bf16
  void* attended_gradient = nullptr;      ///< [n, H, d] bf16; may be output_gradient
  void* gate_gradient = nullptr;          ///< dz [n, D] bf16, where there is a gate; may be gate, of one stride
  std::int64_t gate_gradient_stride = 0;  ///< elements from one row to the next
  float* norm_gradient = nullptr;         ///< [H, d], added to; null: not wanted, or no norm
  void* workspace = nullptr;              ///< needed with norm_gradient alone
};
std::size_t workspace_bytes(const GatedOutputGradient& arguments);
Status gate_output_gradient(const GatedOutputGradient& arguments, Stream stream);

/// Gradients of swiglu, p = silu(g) u with wide = [g, u]: dg = dp u s (1 + g (1 - s)) for s = sigmoid(g), du = dp
/// silu(g).
struct SwiGluGradient {
  std::int64_t rows = 0;
  std::int64_t inner = 0;                  ///< I
  const void* wide = nullptr;              ///< [n, 2 I] bf16
  const void* product_gradient = nullptr;  ///< dp [n, I] bf16
  void* wide_gradient = nullptr;           ///< [n, 2 I] bf16; may be wide
  void* product = nullptr;                 ///< p [n, I] bf16 once more, if it was not kept; may be null or dp
};
Status swiglu_gradient(const SwiGluGradient& arguments, Stream stream);

/// Loss of each token as token_loss computes it, and of a total that depends on loss t with derivative w_t
///   dlogits[t, x] = w_t (softmax(logits[t])[x] - (x == label[t] ? 1 : 0)).
/// A row is read once as far as the device's shared memory holds it, twice beyond that.
struct TokenLossGradient {
  std::int64_t rows = 0;
  std::int64_t vocabulary = 0;
  const void* logits = nullptr;  ///< [n, V]
  ElementType logits_type = ElementType::bfloat16;
  std::int64_t logits_stride = 0;           ///< elements from one row to the next
  const std::int32_t* labels = nullptr;     ///< [n]; one outside [0, V) gives NaN
  const float* loss_gradient = nullptr;     ///< w [n]; the row's gradient is exactly 0 where it is 0, label or not
  float* loss = nullptr;                    ///< [n] nats; may be null
  void* logits_gradient = nullptr;          ///< [n, V] bf16; may be logits of bf16, of one stride
  std::int64_t logits_gradient_stride = 0;  ///< elements from one row to the next; those past V are set to 0
};
Status token_loss_gradient(const TokenLossGradient& arguments, Stream stream);

/// Gradients of log f = max(logsigmoid(z), -1000) per head: dz = dlog f (1 - sigmoid(z)), and 0 where z < -1000.
/// Exactly one of the two inputs is given.
struct ForgetGateGradient {
  std::int64_t batch = 1;
  std::int64_t heads = 0;
  std::int64_t length = 0;
  const float* log_gate_gradient = nullptr;  ///< dlog f [B, H, L] contiguous, per nat
  const float* logits = nullptr;             ///< z [B L, H]
  std::int64_t logits_stride = 0;            ///< elements from one position to the next
  const float* constant_logits = nullptr;    ///< z [H], the same at each position
  float* logits_gradient = nullptr;          ///< dz [B L, H], written; with constant logits [H], ADDED to: summed over
                                             ///< positions, in float64
  std::int64_t logits_gradient_stride = 0;   ///< of [B L, H], elements from one position to the next
};
Status forget_gate_gradient(const ForgetGateGradient& arguments, Stream stream);

/// Gradients of table[id]: dtable[id] += sum of the rows with that id. Rows of ids outside [0, V) are left out.
struct EmbeddingGradient {
  std::int64_t rows = 0;                     ///< at most 2^30
  std::int64_t width = 0;                    ///< D, at most 2^20
  std::int64_t vocabulary = 0;               ///< V, at most 2^30
  const std::int32_t* ids = nullptr;         ///< [n]
  const float* residual_gradient = nullptr;  ///< [n, D]
  float* table_gradient = nullptr;           ///< [V, D], added to
  void* workspace = nullptr;
};
/// 0 without a device: it asks the device what sorting takes.
std::size_t workspace_bytes(const EmbeddingGradient& arguments);
Status embedding_gradient(const EmbeddingGradient& arguments, Stream stream);

}  // namespace foxscope::kernels::cuda
