#pragma once

#include <memory>
#include <vector>

#include "backend/data/tensor_layers.h"
#include "backend/trace/trace.h"

namespace foxscope {

/// Makes the store of a run whose queries, keys and values lie in a file of tensors, converted tile by tile.
/// @param layers  located: heads, widths and strides are set
/// @param info  of the run; its dtype is the store's
/// @param parts  which of query, key and value the file has in every layer that mixes
std::shared_ptr<const QueryKeyStore> tensor_store(std::shared_ptr<const TensorLayers> layers, const TraceInfo& info,
                                                  QueryKeyStore::Parts parts);

/// Makes the source of gates, decays, beta, sinks and losses of such a run. Each is converted where it is asked for:
/// c_i = sum over l <= i of log f_l in compensated float64 (kernels/cpu/gate_scan.h).
/// @param loss  nats of what each position predicts, [L] float32; empty: there is none
std::unique_ptr<const TraceSource> tensor_source(std::shared_ptr<const TensorLayers> layers, const TraceInfo& info,
                                                 std::vector<float> loss);

}  // namespace foxscope
