#pragma once

#include <span>

#include <ATen/core/Tensor.h>

#include "backend/model/layer/probe.h"

namespace foxscope {

/// log f as the probes' interventions change it, as an operation of LibTorch's autograd.
/// @param log_gate  [B, H, L] float64, nats
/// @param probes    [B]; what they look at must outlive the graph
at::Tensor change_gates(const at::Tensor& log_gate, int layer, std::span<const Probe> probes);

/// c_i = sum_{l <= i} log f_l, log f held at kLowestLogGate. Without a gradient.
/// @param log_gate  [B, H, L] float64, nats
at::Tensor sum_log_gates(const at::Tensor& log_gate);

}  // namespace foxscope
