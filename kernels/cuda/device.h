#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "kernels/cuda/stream.h"
#include "kernels/status.h"

namespace foxscope::kernels::cuda {

/// Whether this build has the kernels at all.
bool is_built();

/// GPUs that the kernels run on: compute capability 8.0 and later. Makes no context.
int device_count();

/// Whether the current device is one that the kernels run on; false inside a scope whose device cannot be used.
bool is_available();

/// Whether a device has a context, which holds hundreds of MiB of its memory. Makes none.
bool has_context(int device);

/// "NVIDIA H200"; empty where there is none.
std::string device_name(int device);

/// Makes a device current for the calling thread, and the former one again at its end. A former device that has no
/// context gets none: the thread then stays where it is. Where the device cannot be used (is_available), nothing inside
/// the scope reaches another one: kernels are unavailable, memory is refused and copies fail.
class DeviceScope {
 public:
  explicit DeviceScope(int device);
  ~DeviceScope();
  DeviceScope(const DeviceScope&) = delete;
  DeviceScope& operator=(const DeviceScope&) = delete;

 private:
  int former_ = 0;
  bool former_refused_ = false;
};

/// Memory of the device that is current when it is allocated, for callers that know no CUDA. It may be used and freed
/// whatever the current device is. Copies wait for the whole device.
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
  int device_ = 0;
};

/// While one exists, memory of DeviceBuffers and PinnedBuffers that end is kept for those of the same size to come:
/// taking memory from a device, and giving it back, waits for all of its work. What used a buffer must have ended when
/// the buffer does. Memory that is kept is given back with the last of them, and where a device has no other.
class KeptBuffers {
 public:
  KeptBuffers();
  ~KeptBuffers();
  KeptBuffers(const KeptBuffers&) = delete;
  KeptBuffers& operator=(const KeptBuffers&) = delete;
};

/// Host memory that a GPU copies from and into at full speed.
class PinnedBuffer {
 public:
  /// @param device  the GPU
  /// @throws std::bad_alloc also where there is no such device
  PinnedBuffer(std::size_t bytes, int device);
  ~PinnedBuffer();
  PinnedBuffer(const PinnedBuffer&) = delete;
  PinnedBuffer& operator=(const PinnedBuffer&) = delete;

  [[nodiscard]] void* data() const { return data_; }

 private:
  void* data_ = nullptr;
  std::size_t bytes_ = 0;
  [[maybe_unused]] int device_ = 0;
};

/// A stream of the device that is current when it is made. It does not wait for others, so that a run's work and a
/// map's go on side by side.
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
  int device_ = 0;
};

/// Work of a stream that is given to it again and again as one: what its launches point to is read anew each time.
class DeviceGraph {
 public:
  /// @param stream  not the device's own (null) stream
  /// @param launch  gives work to the stream, which is taken down and not done: it must not wait for the device, nor
  /// take
  ///                or give back memory that its work uses
  /// @returns null where that failed, and the work is to be given anew; also in a build without CUDA
  static std::unique_ptr<DeviceGraph> record(Stream stream, const std::function<void()>& launch);
  ~DeviceGraph();
  DeviceGraph(const DeviceGraph&) = delete;
  DeviceGraph& operator=(const DeviceGraph&) = delete;

  [[nodiscard]] Status launch(Stream stream) const;

 private:
  DeviceGraph(void* executable, int device) : executable_(executable), device_(device) {}

  void* executable_;
  int device_;
};

/// Copies into memory of the current device, after what was given to the stream; waits for it.
bool copy_to_device(void* device, std::span<const std::byte> host, Stream stream = nullptr);
/// Copies out of memory of the current device; likewise.
bool copy_to_host(std::span<std::byte> host, const void* device, Stream stream = nullptr);

/// Bytes that the current device could still give; 0 where there is none.
std::size_t free_memory();

/// Time between two points of a stream of the current device.
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
