#pragma once

#include <ATen/core/Tensor.h>

#include "backend/trace/recorder.h"

namespace foxscope {

/// Copies the queries and keys of a layer to where the recorder keeps them, if it does. From a GPU to its own memory or
/// to pinned memory nothing waits: the copies are there when the stream has got past them.
/// @param query  [H, L, d] in the run's dtype, of any strides
/// @param key    [H_kv, L, d] likewise
void record_query_key(Recorder& recorder, int layer, const at::Tensor& query, const at::Tensor& key);

}  // namespace foxscope
