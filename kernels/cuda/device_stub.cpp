// Stands in for device.cu in a build without CUDA.
#include <new>

#include "kernels/cuda/device.h"

namespace foxscope::kernels::cuda {

bool is_built() { return false; }
int device_count() { return 0; }
bool is_available() { return false; }
std::string device_name(int /*device*/) { return {}; }
bool has_context(int /*device*/) { return false; }

DeviceScope::DeviceScope(int device) : former_(device) {}
DeviceScope::~DeviceScope() { former_refused_ = former_ != 0; }

DeviceBuffer::DeviceBuffer(std::size_t /*bytes*/) { throw std::bad_alloc(); }
// Bodies, since the classes are not trivial where there is CUDA.
DeviceBuffer::~DeviceBuffer() { device_ = 0; }
DeviceBuffer::DeviceBuffer(DeviceBuffer&& /*other*/) noexcept {}
DeviceBuffer& DeviceBuffer::operator=(DeviceBuffer&& /*other*/) noexcept { return *this; }
bool DeviceBuffer::upload(std::span<const std::byte> /*host*/) const { return false; }
bool DeviceBuffer::download(std::span<std::byte> /*host*/, std::size_t /*offset*/) const { return false; }
bool DeviceBuffer::fill(std::uint8_t /*value*/) const { return false; }

PinnedBuffer::PinnedBuffer(std::size_t /*bytes*/, int /*device*/) { throw std::bad_alloc(); }
PinnedBuffer::~PinnedBuffer() { device_ = 0; }

DeviceStream::DeviceStream() = default;
DeviceStream::~DeviceStream() { device_ = 0; }
bool DeviceStream::wait() const { return stream_ != nullptr; }

std::unique_ptr<DeviceGraph> DeviceGraph::record(Stream /*stream*/, const std::function<void()>& /*launch*/) {
  return nullptr;
}
DeviceGraph::~DeviceGraph() { executable_ = nullptr; }
Status DeviceGraph::launch(Stream /*stream*/) const {
  return device_ < 0 ? Status::invalid_argument : Status::unavailable;
}

bool copy_to_device(void* /*device*/, std::span<const std::byte> /*host*/, Stream /*stream*/) { return false; }
bool copy_to_host(std::span<std::byte> /*host*/, const void* /*device*/, Stream /*stream*/) { return false; }
std::size_t free_memory() { return 0; }

DeviceTimer::DeviceTimer() = default;
DeviceTimer::~DeviceTimer() { begin_ = end_ = nullptr; }
void DeviceTimer::start(Stream /*stream*/) {}
double DeviceTimer::stop(Stream /*stream*/) { return 0; }

bool synchronize() { return false; }

}  // namespace foxscope::kernels::cuda
