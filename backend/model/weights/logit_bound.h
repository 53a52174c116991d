#pragma once

#include <vector>

#include "backend/model/spec/parameters.h"

namespace foxscope {

/// For each query head what |q_i . k_j| / sqrt(d) cannot exceed for any text. A normed head is no longer than sqrt(d)
/// times its largest weight. Else q = W (n * w + b) + bias with |n| <= sqrt(D), of RMSNorm and of LayerNorm, and w
/// folded into W, so |q| <= |W|_2 sqrt(D) + |W b + bias|; the spectral norm is bounded by trace((W W^T)^8)^(1/16).
/// Shift and rotation lengthen nothing.
/// @param weights  norms, projection and bias must be there
/// @returns [H]; empty where the layer has no softmax
std::vector<double> bound_logits(const ModelConfig& config, int layer, const LayerWeights& weights);

}  // namespace foxscope
