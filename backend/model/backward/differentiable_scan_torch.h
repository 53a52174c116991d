#pragma once

#include <optional>
#include <stop_token>

#include "backend/model/layer/torch/composed_linear_torch.h"

namespace foxscope {

/// Whether differentiable_scan takes them: on the CPU, with rates for channels.
bool differentiable_scan_takes(const LinearOperands& operands);

/// composed_linear_mixing of whole texts by kernels/cpu/selective_scan, forward and back, as one operation of
/// LibTorch's autograd: no state before the first position, and none is given behind the last.
/// @pre differentiable_scan_takes
/// @returns y [B, H, n, 1]; nothing if it was stopped
std::optional<at::Tensor> differentiable_scan(const LinearOperands& operands, const std::stop_token& stop);

}  // namespace foxscope
