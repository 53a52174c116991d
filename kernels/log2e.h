#pragma once

namespace foxscope::kernels {

/// log2 e: exp(x) = 2^(x log2 e). Logits are in powers of 2 where exp2 is the faster function.
inline constexpr double kLog2E = 1.4426950408889634;
inline constexpr float kLog2EFloat = static_cast<float>(kLog2E);

}  // namespace foxscope::kernels
