#include <cassert>

#include <ATen/ATen.h>

#include "backend/model/layer/torch/query_key_record_torch.h"

namespace foxscope {

void record_stored(Recorder& recorder, TraceArray array, int layer, const at::Tensor& rows, at::ScalarType type) {
  if (void* const device = recorder.stored_on_device(array, layer)) {
    if (device != rows.const_data_ptr()) at::from_blob(device, rows.sizes(), rows.options().dtype(type)).copy_(rows);
    return;
  }
  const std::span<std::byte> kept = recorder.stored(array, layer);
  if (kept.empty()) return;
  const at::Tensor stored = rows.to(type).contiguous();
  assert(kept.size() == stored.nbytes());
  at::from_blob(kept.data(), rows.sizes(), at::TensorOptions().dtype(type)).copy_(stored, /*non_blocking=*/true);
}

}  // namespace foxscope
