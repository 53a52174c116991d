#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "backend/trace/query_key_store.h"
#include "kernels/cuda/device.h"

namespace foxscope {

/// Queries, keys and values in the memory of a GPU: a forward there writes them without a copy to the host, and maps
/// read them where they lie. Rows that the host asks for are downloaded, after all work of the GPU that was given
/// before.
class DeviceQueryKeyStore final : public RunQueryKeyStore {
 public:
  /// @param device  index of the GPU
  /// @throws Error naming the size, and what the GPU has left, when it does not fit, or that there is no GPU
  DeviceQueryKeyStore(const Shape& shape, DType dtype, int device, Parts parts = {Part::query, Part::key});

  [[nodiscard]] const char* where() const override { return "GPU memory"; }
  [[nodiscard]] std::span<const std::byte> raw_rows(Part part, int layer, int head, std::int64_t begin,
                                                    std::int64_t end, std::vector<std::byte>& scratch) const override;
  void* device_layer(Part part, int layer) override;
  [[nodiscard]] const void* on_device(Part part, int layer, int head) const override;
  [[nodiscard]] int device() const override { return device_; }

 private:
  int device_ = 0;
  kernels::cuda::DeviceBuffer memory_;
};

}  // namespace foxscope
