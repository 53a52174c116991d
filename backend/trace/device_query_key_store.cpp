#include "backend/trace/device_query_key_store.h"

#include <new>

#include <fmt/format.h>

#include "backend/base/error.h"
#include "backend/base/measures.h"

namespace foxscope {
namespace {}  // namespace

DeviceQueryKeyStore::DeviceQueryKeyStore(const Shape& shape, DType dtype, int device)
    : RunQueryKeyStore(shape, dtype), device_(device) {
  const kernels::cuda::DeviceScope scope(device);
  if (!kernels::cuda::is_available()) {
    throw Error(fmt::format("cuda:{}: no GPU that could hold queries and keys: use --device cpu", device));
  }
  const std::size_t size = bytes(shape, dtype);
  try {
    memory_ = kernels::cuda::DeviceBuffer(size);
  } catch (const std::bad_alloc&) {
    throw Error(
        fmt::format("cuda:{}: no memory for {:.2f} GiB of queries and keys, {:.2f} GiB are free: use --limit, or leave "
                    "qk out of --keep",
                    device, gibibytes(size), gibibytes(kernels::cuda::free_memory())));
  }
}

std::span<const std::byte> DeviceQueryKeyStore::raw_rows(Part part, int layer, int head, std::int64_t begin,
                                                         std::int64_t end, std::vector<std::byte>& scratch) const {
  scratch.resize(static_cast<std::size_t>((end - begin) * shape().head_dim) * size_of(dtype()));
  if (!memory_.download(scratch, offset(part, layer, head, begin))) {
    throw Error(fmt::format("cuda:{}: the GPU failed, its queries and keys are lost: run again", device_));
  }
  return scratch;
}

void* DeviceQueryKeyStore::device_layer(Part part, int layer) {
  return static_cast<std::byte*>(memory_.data()) + offset(part, layer, 0, 0);
}

const void* DeviceQueryKeyStore::on_device(Part part, int layer, int head) const {
  return static_cast<const std::byte*>(memory_.data()) + offset(part, layer, head, 0);
}

}  // namespace foxscope
