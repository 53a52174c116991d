#pragma once

#include <span>

#include "backend/base/range.h"
#include "backend/model/layer/forward.h"
#include "backend/model/weights/torch_weights_torch.h"

namespace foxscope {

/// A forward pass and the backward pass: beside what the probes keep of any run, d (mean loss over some positions) / d
/// log f of every layer, head and position, each sequence by its own mean (Keep::saliency).
/// @param weights  not made in inference mode
/// @returns false if the job was stopped
bool run_with_saliency(const TorchWeights& weights, const Forward::Input& input, const Range& target,
                       std::span<const Probe> probes, const Job& job, ForwardReport& report);

}  // namespace foxscope
