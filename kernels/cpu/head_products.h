#pragma once

#include <cstdint>

namespace foxscope::kernels::cpu {

/// Heads whose numbers are side by side.
inline constexpr std::int64_t kProductHeads = 8;

/// sum[n][m] = sum over entries e of a[e][n] b[e][m], in float64. Terms are added in the order of entries, whatever the
/// instruction set; without fused multiply-add (SSE) each product is rounded before.
/// @param a, b  [entries, kProductHeads] contiguous
/// @param sum   [kProductHeads, kProductHeads]
void head_products(std::int64_t entries, const double* a, const double* b, double* sum);

}  // namespace foxscope::kernels::cpu
