#pragma once

#include "kernels/cuda/stream.h"
#include "kernels/gate_sums.h"

namespace foxscope::kernels::cuda {

/// Asynchronous; all pointers are to memory of the device. of_head, slot_sums and resets are cleared first.
/// @returns ok, invalid_argument, unavailable or failed
Status gate_sums(const GateSums& sums, Stream stream);
/// Likewise.
Status gate_products(const GateProducts& products, Stream stream);

}  // namespace foxscope::kernels::cuda
