#include "backend/trace/device_query_key_store.h"

#include <new>
#include <utility>

#include <fmt/format.h>

#include "backend/base/error.h"
#include "backend/base/measures.h"

namespace foxscope {

DeviceQueryKeyStore::DeviceQueryKeyStore(const Shape& shape, DType dtype, int device, Parts parts)
    : RunQueryKeyStore(shape, dtype, std::move(parts)), device_(device) {
  const kernels::cuda::DeviceScope scope(device);
  if (!kernels::cuda::is_available()) {
    throw Error(
        fmt::format("cuda:{}: no GPU that could hold {}: use --device cpu", device, words_of(this->parts()).title));
  }
  const std::size_t size = bytes(shape, dtype, this->parts());
  try {
    memory_ = kernels::cuda::DeviceBuffer(size);
  } catch (const std::bad_alloc&) {
    const StoredWords held = words_of(this->parts());
    throw Error(fmt::format(
        "cuda:{}: no memory for {:.2f} GiB of {}, {:.2f} GiB are free: use --length, or leave {} out of --keep", device,
        gibibytes(size), held.title, gibibytes(kernels::cuda::free_memory()), held.words));
  }
}

std::span<const std::byte> DeviceQueryKeyStore::raw_rows(Part part, int layer, int head, std::int64_t begin,
                                                         std::int64_t end, std::vector<std::byte>& scratch) const {
  scratch.resize(static_cast<std::size_t>((end - begin) * channels(part, layer)) * size_of(dtype()));
  if (!memory_.download(scratch, offset(part, layer, head, begin))) {
    throw Error(fmt::format("cuda:{}: the GPU failed, its {} are lost: run again", device_, words_of(parts()).title));
  }
  return scratch;
}

void* DeviceQueryKeyStore::device_layer(Part part, int layer) {
  return has(part) ? static_cast<std::byte*>(memory_.data()) + offset(part, layer, 0, 0) : nullptr;
}

const void* DeviceQueryKeyStore::on_device(Part part, int layer, int head) const {
  return has(part) ? static_cast<const std::byte*>(memory_.data()) + offset(part, layer, head, 0) : nullptr;
}

}  // namespace foxscope
