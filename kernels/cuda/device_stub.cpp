// Stands in for device.cu in a build without CUDA.
#include <new>

#include "kernels/cuda/device.h"

namespace foxscope::kernels::cuda {

DeviceBuffer::DeviceBuffer(std::size_t /*bytes*/) { throw std::bad_alloc(); }
// Bodies, since the classes are not trivial where there is CUDA.
DeviceBuffer::~DeviceBuffer() { data_ = nullptr; }
DeviceBuffer::DeviceBuffer(DeviceBuffer&& /*other*/) noexcept {}
DeviceBuffer& DeviceBuffer::operator=(DeviceBuffer&& /*other*/) noexcept { return *this; }
bool DeviceBuffer::upload(std::span<const std::byte> /*host*/) const { return false; }
bool DeviceBuffer::download(std::span<std::byte> /*host*/) const { return false; }
bool DeviceBuffer::fill(std::uint8_t /*value*/) const { return false; }

DeviceTimer::DeviceTimer() = default;
DeviceTimer::~DeviceTimer() { begin_ = end_ = nullptr; }
void DeviceTimer::start(Stream /*stream*/) {}
double DeviceTimer::stop(Stream /*stream*/) { return 0; }

bool synchronize() { return false; }

}  // namespace foxscope::kernels::cuda
