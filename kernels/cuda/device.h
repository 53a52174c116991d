#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/cuda/forgetting_attention.h"

namespace foxscope::kernels::cuda {

/// Memory of the current device, for callers that know no CUDA. Copies wait for the whole device.
class DeviceBuffer {
 public:
  DeviceBuffer() = default;
  /// @throws std::bad_alloc also where there is no device
  explicit DeviceBuffer(std::size_t bytes);
  ~DeviceBuffer();
  DeviceBuffer(DeviceBuffer&& other) noexcept;
  DeviceBuffer& operator=(DeviceBuffer&& other) noexcept;
  DeviceBuffer(const DeviceBuffer&) = delete;
  DeviceBuffer& operator=(const DeviceBuffer&) = delete;

  [[nodiscard]] void* data() const { return data_; }
  [[nodiscard]] std::size_t bytes() const { return bytes_; }
  /// @param host  at most bytes() of them
  [[nodiscard]] bool upload(std::span<const std::byte> host) const;
  [[nodiscard]] bool download(std::span<std::byte> host) const;
  /// Sets every byte.
  [[nodiscard]] bool fill(std::uint8_t value) const;

 private:
  void* data_ = nullptr;
  std::size_t bytes_ = 0;
};

/// Time between two points of a stream.
class DeviceTimer {
 public:
  DeviceTimer();
  ~DeviceTimer();
  DeviceTimer(const DeviceTimer&) = delete;
  DeviceTimer& operator=(const DeviceTimer&) = delete;

  void start(Stream stream);
  /// Waits for the stream. @returns seconds since start
  double stop(Stream stream);

 private:
  void* begin_ = nullptr;
  void* end_ = nullptr;
};

/// Waits for all work of the current device; false where some of it failed.
bool synchronize();

}  // namespace foxscope::kernels::cuda
