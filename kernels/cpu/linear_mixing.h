#pragma once

#include <cstdint>
#include <stop_token>

#include "kernels/executor.h"
#include "kernels/status.h"

namespace foxscope::kernels::cpu {

/// Arguments of linear_mixing: one sequence. Head h reads query head h / (heads / query_heads), and so with keys and
/// values. All rows are contiguous float32.
struct LinearMixing {
  int heads = 0;  ///< H
  int query_heads = 0;
  int key_heads = 0;
  int value_heads = 0;
  std::int64_t length = 0;               ///< n
  std::int64_t key_dim = 0;              ///< d
  std::int64_t value_dim = 0;            ///< d_v
  const float* query = nullptr;          ///< [query_heads, n, d], its factor in it
  const float* key = nullptr;            ///< [key_heads, n, d]
  const float* value = nullptr;          ///< [value_heads, n, d_v]
  const float* decay = nullptr;          ///< [H, n] alpha in [0, 1]; null: 1
  const float* channel_decay = nullptr;  ///< [key_heads, n, d] alpha of each channel of the keys, in place of `decay`
  const float* beta = nullptr;           ///< [H, n]; null: 1
  bool delta_rule = false;               ///< each position first takes away what the state holds at its key
  const float* erase_read = nullptr;     ///< [key_heads, n, d] e; null: nothing is erased by arrays
  const float* erase_write = nullptr;    ///< [key_heads, n, d] b; null where e is
  float* state = nullptr;                ///< [H, d, d_v] S before the first position; then behind the last
  float* output = nullptr;               ///< [n, H d_v] y, rows output_stride apart
  std::int64_t output_stride = 0;
};

/// y_t = S_t^T q_t with S_t = diag(alpha_t) S_(t-1) + k_t (beta_t u_t)^T, where u_t = v_t, or for the delta rule
/// u_t = v_t - (diag(alpha_t) S_(t-1))^T k_t (Dao and Gu 2024; Yang et al. 2024), in chunks of positions: the chunk's
/// own matrix and, for what lies before it, the state. The delta rule's u solve the chunk's unit triangle forwards.
/// Products of decays are made by multiplication from one position to the next, so none is ever divided by.
/// S_t = (diag(alpha_t) + b_t e_t^T) S_(t-1) + k_t (beta_t v_t)^T where b and e are given (Peng et al. 2025), and the
/// delta rule whose channels decay (Kimi Team 2025), go position by position. A head is a task. O(n) time, and memory
/// that does not depend on n.
/// @returns cancelled, with the state and the output incomplete; invalid_argument
Status linear_mixing(const LinearMixing& arguments, Executor& executor, const std::stop_token& stop);

}  // namespace foxscope::kernels::cpu
