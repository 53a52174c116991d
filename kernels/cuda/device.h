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
  /// @param offset  byte of the buffer to begin at
  [[nodiscard]] bool download(std::span<std::byte> host, std::size_t offset = 0) const;
  /// Sets every byte.
  [[nodiscard]] bool fill(std::uint8_t value) const;

 private:
  void* data_ = nullptr;
  std::size_t bytes_ = 0;
};

/// Host memory that the GPU copies from and into at full speed.
class PinnedBuffer {
 public:
  PinnedBuffer() = default;
  /// @throws std::bad_alloc also where there is no device
  explicit PinnedBuffer(std::size_t bytes);
  ~PinnedBuffer();
  PinnedBuffer(PinnedBuffer&& other) noexcept;
  PinnedBuffer& operator=(PinnedBuffer&& other) noexcept;
  PinnedBuffer(const PinnedBuffer&) = delete;
  PinnedBuffer& operator=(const PinnedBuffer&) = delete;

  [[nodiscard]] void* data() const { return data_; }

 private:
  void* data_ = nullptr;
};

/// Makes a device current for the calling thread, and the former one again at its end.
class DeviceScope {
 public:
  explicit DeviceScope(int device);
  ~DeviceScope();
  DeviceScope(const DeviceScope&) = delete;
  DeviceScope& operator=(const DeviceScope&) = delete;

 private:
  int former_ = 0;
};

/// A stream of the current device that does not wait for others, so that a run's work and a map's go on side by side.
class DeviceStream {
 public:
  DeviceStream();
  ~DeviceStream();
  DeviceStream(const DeviceStream&) = delete;
  DeviceStream& operator=(const DeviceStream&) = delete;

  [[nodiscard]] Stream get() const { return stream_; }
  /// Waits for the work given to it; false where some of it failed.
  [[nodiscard]] bool wait() const;

 private:
  Stream stream_ = nullptr;
};

/// Whether this build has the kernels at all.
bool is_built();

/// GPUs that the kernels run on: compute capability 8.0 and later.
int device_count();

/// Copies into memory of a device, after what was given to the stream; waits for it.
bool copy_to_device(void* device, std::span<const std::byte> host, Stream stream = nullptr);
/// Copies out of memory of a device; likewise.
bool copy_to_host(std::span<std::byte> host, const void* device, Stream stream = nullptr);

/// Bytes that the current device could still give; 0 where there is none.
std::size_t free_memory();

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
