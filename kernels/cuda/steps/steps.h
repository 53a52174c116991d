#pragma once

#include <cstdint>

#include "kernels/cuda/stream.h"
#include "kernels/status.h"

// The pointwise operations between a layer's matrix products, each one pass over its data. n rows (tokens), H query
// heads, H_kv key heads, d head dimension, D = H d hidden size. Arithmetic is float32; all pointers are to memory of
// the current device; outputs overlap inputs only where it says so. Every step is asynchronous on the stream and
// returns invalid_argument for a size below 1, a stride below its row, a null pointer that is not allowed to be null or
// what it lists; unavailable without a device or in a build without CUDA; failed where a launch fails. Rows that start
// at multiples of 16 bytes and whose lengths are multiples of 8 are read and written 16 bytes at a time, others one
// number at a time.
namespace foxscope::kernels::cuda {

/// residual += increment (where there is one), then normed = residual / rms(residual) * weight with
/// rms(x) = sqrt(mean(x^2) + epsilon).
struct ResidualNorm {
  std::int64_t rows = 0;
  std::int64_t width = 0;           ///< D, at most 16,384
  float* residual = nullptr;        ///< [n, D], changed only where there is an increment
  const void* increment = nullptr;  ///< [n, D]; may be null
  ElementType increment_type = ElementType::bfloat16;
  const float* weight = nullptr;  ///< [D]; null only where all outputs are
  float epsilon = 0;
  void* normed = nullptr;           ///< [n, D] bf16; may be null
  void* normed_rest = nullptr;      ///< [n, D] bf16, what rounding took from normed; null, or beside normed
  std::int64_t normed_stride = 0;   ///< of both, elements from one row to the next; 0: D
  float* normed_float32 = nullptr;  ///< [n, D]; may be null
};
Status residual_norm(const ResidualNorm& arguments, Stream stream);

/// How queries and keys lie.
enum class HeadLayout {
  rows_first,   ///< [n, H, d]
  heads_first,  ///< [H, n, d]
};

/// From a layer's projection to what enters attention (docs/models.md): for keys and values the shift
/// x_t <- a_t x_(t-1) + (1 - a_t) x_t with a_t = sigmoid(logit) per key head and zeros before the first, then for
/// queries and keys RMSNorm over d per head, then rotary embedding (first half with second half).
struct ProjectedHeads {
  std::int64_t rows = 0;
  std::int64_t length = 0;  ///< rows of each sequence, L: nothing comes before every L-th row; 0: all are one
  std::int64_t heads = 0;
  std::int64_t key_heads = 0;
  std::int64_t head_dim = 0;        ///< a multiple of 8 up to 256; of 16 with a rotation
  const void* projected = nullptr;  ///< [n, (H + 2 H_kv) d]: queries, keys, values
  ElementType projected_type = ElementType::bfloat16;
  std::int64_t projected_stride = 0;          ///< elements from one row to the next
  const float* key_shift_logits = nullptr;    ///< [n, H_kv]; null: no shift of keys
  const float* value_shift_logits = nullptr;  ///< [n, H_kv]; null: no shift of values
  std::int64_t shift_stride = 0;              ///< of both logits, elements from one row to the next
  const float* query_norm = nullptr;          ///< [H, d]; null: no norm
  const float* key_norm = nullptr;            ///< [H_kv, d]; null: no norm
  float norm_epsilon = 0;
  const float* rotation = nullptr;             ///< [L, d/2, 2] of rotary_table; null: none
  HeadLayout layout = HeadLayout::rows_first;  ///< of query and key; heads_first for one sequence alone
  void* query = nullptr;                       ///< [n, H, d] or [H, n, d] bf16
  void* key = nullptr;                         ///< [n, H_kv, d] or [H_kv, n, d] bf16
  void* value = nullptr;                       ///< [n, H_kv, d] bf16
};
Status project_heads(const ProjectedHeads& arguments, Stream stream);

/// table[p, x] = (cos, sin) of (first_position + p) frequencies[x], in float64 until it is rounded.
/// @param half         numbers of frequencies, d/2
/// @param frequencies  [d/2] radians a position
/// @param table        [n, d/2, 2]
Status rotary_table(std::int64_t first_position, std::int64_t rows, std::int64_t half, const double* frequencies,
                    float* table, Stream stream);

/// The activation that multiplies attention's output, of the gate's logit x.
enum class OutputGateActivation {
  sigmoid,
  silu,  ///< x sigmoid(x)
};

/// output = RMSNorm over d of each head (where there is a norm) * activation(gate) (where there is a gate).
struct GatedOutput {
  std::int64_t rows = 0;
  std::int64_t heads = 0;
  std::int64_t head_dim = 0;       ///< a multiple of 8 up to 256
  const void* attended = nullptr;  ///< [n, H, d] bf16
  const float* norm = nullptr;     ///< [H, d]; null: no norm
  float norm_epsilon = 0;
  const void* gate = nullptr;  ///< [n, D] logits; null: no gate
  ElementType gate_type = ElementType::bfloat16;
  std::int64_t gate_stride = 0;  ///< elements from one row to the next
  OutputGateActivation activation = OutputGateActivation::sigmoid;
  void* output = nullptr;  ///< [n, D] bf16; may be attended
};
Status gate_output(const GatedOutput& arguments, Stream stream);

/// product[t, x] = silu(wide[t, x]) wide[t, I + x].
struct SwiGlu {
  std::int64_t rows = 0;
  std::int64_t inner = 0;      ///< I
  const void* wide = nullptr;  ///< [n, 2 I]
  ElementType wide_type = ElementType::bfloat16;
  void* product = nullptr;  ///< [n, I] bf16
};
Status swiglu(const SwiGlu& arguments, Stream stream);

}  // namespace foxscope::kernels::cuda
