#include <cassert>
#include <utility>

#include <ATen/ATen.h>

#include "backend/model/query_key_record_torch.h"

namespace foxscope {

void record_query_key(Recorder& recorder, int layer, const at::Tensor& query, const at::Tensor& key) {
  using Part = QueryKeyStore::Part;
  for (const auto& [part, rows] : {std::pair(Part::query, query), std::pair(Part::key, key)}) {
    if (void* device = recorder.query_key_on_device(part, layer)) {
      at::from_blob(device, rows.sizes(), rows.options()).copy_(rows);
      continue;
    }
    const std::span<std::byte> kept = recorder.query_key(part, layer);
    if (kept.empty()) continue;
    assert(kept.size() == rows.nbytes());
    at::from_blob(kept.data(), rows.sizes(), at::TensorOptions().dtype(rows.scalar_type()))
        .copy_(rows.contiguous(), /*non_blocking=*/true);
  }
}

}  // namespace foxscope
