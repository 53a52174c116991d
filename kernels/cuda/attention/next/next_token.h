#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/steps/steps.h"
#include "kernels/cuda/stream.h"
#include "kernels/status.h"

// The newest position of each of B sequences that are continued together, each with keys and values of its own and as
// many as it likes. Numbers that differ from token to token lie in device memory (HeldSequence), so that launches that
// were recorded once (DeviceGraph) serve every token. Asynchronous on the stream; statuses as of steps.h.
namespace foxscope::kernels::cuda {

/// The keys, values and gates that a sequence holds of a layer. Row r of head h begins at h * stride + r * d.
struct HeldSequence {
  void* key = nullptr;            ///< [H_kv, rows, d] bf16
  void* value = nullptr;          ///< likewise
  double* cumulative = nullptr;   ///< [H, rows] c, nats; null where every f is 1
  void* key_before = nullptr;     ///< [H_kv, d] bf16 as projected, of the position before; null: no key is shifted
  void* value_before = nullptr;   ///< likewise
  std::int64_t key_stride = 0;    ///< elements from one head to the next
  std::int64_t value_stride = 0;  ///< likewise
  std::int64_t gate_stride = 0;   ///< likewise of c
  std::int64_t rows = 0;          ///< with that of the newest position, which is the last; 0: there is no such sequence
  std::int64_t hidden_rows = 0;   ///< the first of them, which have left the window
  std::int64_t position = 0;      ///< of the newest
};

/// rotary_table of one row a sequence, at its position.
/// @param sequences  [B] on the device
/// @param table      [B, d/2, 2]
Status next_rotations(const HeldSequence* sequences, std::int64_t batch, std::int64_t half, const double* frequencies,
                      float* table, Stream stream);

/// project_heads of one row a sequence: what comes before it is in HeldSequence, and is replaced by it; its key and
/// value go to the last of the held rows.
/// @param heads      of [B] rows, bf16, whose query alone is written; length, layout, key and value are not used, and
///                   `rotation` has a row for each
/// @param sequences  [B] on the device
Status project_next_heads(const ProjectedHeads& heads, const HeldSequence* sequences, Stream stream);

/// o = softmax(q k^T scale + c - c_j) v over the rows that a sequence holds. Equation 3 of the paper for one row.
struct NextAttention {
  std::int64_t batch = 0;
  std::int64_t heads = 0;
  std::int64_t key_heads = 0;
  std::int64_t head_dim = 0;                ///< a multiple of 8 up to 256
  const HeldSequence* sequences = nullptr;  ///< [B] on the device
  const void* query = nullptr;              ///< [B, H, d] bf16
  /// Gate logits at the newest position, whose c = c of the row before + log f (held as in gate_scan) is written to the
  /// last of the held rows: logits [B, ...] with a stride, or [H] for all; both null: that c is there, or no gates are.
  const float* gate_logits = nullptr;
  std::int64_t gate_stride = 0;
  const float* constant_logits = nullptr;
  float scale = 0;
  void* output = nullptr;  ///< [B, H, d] bf16; zeros where there is no sequence
  /// next_attention_workspace_bytes of it, zero before the first call; left so that it serves the same sizes again.
  void* workspace = nullptr;
};
Status next_attention(const NextAttention& arguments, Stream stream);

/// @returns 0 for sizes that next_attention refuses
std::size_t next_attention_workspace_bytes(std::int64_t batch, std::int64_t heads, std::int64_t head_dim);

}  // namespace foxscope::kernels::cuda
