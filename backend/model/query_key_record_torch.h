#pragma once

#include <ATen/core/Tensor.h>

#include "backend/trace/recorder.h"

namespace foxscope {

/// Copies queries, keys or values of a layer to where the recorder keeps them, if it does and they are not there
/// already. From a GPU to its own memory or to pinned memory nothing waits: the copies are there when the stream has
/// got past them.
/// @param rows  [H, L, d] or [H_kv, L, d] in the run's dtype, of any strides
void record_stored(Recorder& recorder, TraceArray array, int layer, const at::Tensor& rows);

}  // namespace foxscope
