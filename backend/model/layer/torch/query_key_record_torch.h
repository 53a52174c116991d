#pragma once

#include <ATen/core/Tensor.h>

#include "backend/trace/recorder.h"

namespace foxscope {

/// Copies queries, keys or values of a layer to where the recorder keeps them, if it does and they are not there
/// already. From a GPU to its own memory or to pinned memory nothing waits: the copies are there when the stream has
/// got past them.
/// @param rows  [H, L, d] or [H_kv, L, d] of any strides
/// @param type  of what is kept, the run's dtype
void record_stored(Recorder& recorder, TraceArray array, int layer, const at::Tensor& rows, at::ScalarType type);

}  // namespace foxscope
