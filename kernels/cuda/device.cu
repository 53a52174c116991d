#include <cuda_runtime.h>

#include <new>
#include <utility>

#include "kernels/cuda/device.h"

namespace foxscope::kernels::cuda {

DeviceBuffer::DeviceBuffer(std::size_t bytes) : bytes_(bytes) {
  if (cudaMalloc(&data_, bytes) != cudaSuccess) {
    cudaGetLastError();
    throw std::bad_alloc();
  }
}

DeviceBuffer::~DeviceBuffer() { cudaFree(data_); }

DeviceBuffer::DeviceBuffer(DeviceBuffer&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}

DeviceBuffer& DeviceBuffer::operator=(DeviceBuffer&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

bool DeviceBuffer::upload(std::span<const std::byte> host) const {
  return host.size() <= bytes_ && cudaMemcpy(data_, host.data(), host.size(), cudaMemcpyHostToDevice) == cudaSuccess;
}

bool DeviceBuffer::download(std::span<std::byte> host, std::size_t offset) const {
  return offset <= bytes_ && host.size() <= bytes_ - offset &&
         cudaMemcpy(host.data(), static_cast<const char*>(data_) + offset, host.size(), cudaMemcpyDeviceToHost) ==
             cudaSuccess;
}

bool DeviceBuffer::fill(std::uint8_t value) const { return cudaMemset(data_, value, bytes_) == cudaSuccess; }

PinnedBuffer::PinnedBuffer(std::size_t bytes) {
  if (cudaHostAlloc(&data_, bytes, cudaHostAllocPortable) != cudaSuccess) {
    cudaGetLastError();
    throw std::bad_alloc();
  }
}

PinnedBuffer::~PinnedBuffer() { cudaFreeHost(data_); }

PinnedBuffer::PinnedBuffer(PinnedBuffer&& other) noexcept : data_(std::exchange(other.data_, nullptr)) {}

PinnedBuffer& PinnedBuffer::operator=(PinnedBuffer&& other) noexcept {
  std::swap(data_, other.data_);
  return *this;
}

DeviceScope::DeviceScope(int device) {
  cudaGetDevice(&former_);
  if (device != former_) cudaSetDevice(device);
}

DeviceScope::~DeviceScope() { cudaSetDevice(former_); }

DeviceStream::DeviceStream() {
  if (cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking) != cudaSuccess) stream_ = nullptr;
}

DeviceStream::~DeviceStream() {
  if (stream_ != nullptr) cudaStreamDestroy(stream_);
}

bool DeviceStream::wait() const { return cudaStreamSynchronize(stream_) == cudaSuccess; }

bool is_built() { return true; }

int device_count() {
  int count = 0;
  if (cudaGetDeviceCount(&count) != cudaSuccess) {
    cudaGetLastError();
    return 0;
  }
  for (int device = 0; device < count; ++device) {
    int major = 0;
    cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device);
    if (major < 8) return device;
  }
  return count;
}

bool copy_to_device(void* device, std::span<const std::byte> host, Stream stream) {
  return cudaMemcpyAsync(device, host.data(), host.size(), cudaMemcpyHostToDevice, stream) == cudaSuccess &&
         cudaStreamSynchronize(stream) == cudaSuccess;
}

bool copy_to_host(std::span<std::byte> host, const void* device, Stream stream) {
  return cudaMemcpyAsync(host.data(), device, host.size(), cudaMemcpyDeviceToHost, stream) == cudaSuccess &&
         cudaStreamSynchronize(stream) == cudaSuccess;
}

std::size_t free_memory() {
  std::size_t free = 0;
  std::size_t total = 0;
  if (cudaMemGetInfo(&free, &total) == cudaSuccess) return free;
  cudaGetLastError();
  return 0;
}

DeviceTimer::DeviceTimer() {
  cudaEvent_t begin = nullptr;
  cudaEvent_t end = nullptr;
  cudaEventCreate(&begin);
  cudaEventCreate(&end);
  begin_ = begin;
  end_ = end;
}

DeviceTimer::~DeviceTimer() {
  cudaEventDestroy(static_cast<cudaEvent_t>(begin_));
  cudaEventDestroy(static_cast<cudaEvent_t>(end_));
}

void DeviceTimer::start(Stream stream) { cudaEventRecord(static_cast<cudaEvent_t>(begin_), stream); }

double DeviceTimer::stop(Stream stream) {
  cudaEventRecord(static_cast<cudaEvent_t>(end_), stream);
  cudaEventSynchronize(static_cast<cudaEvent_t>(end_));
  float milliseconds = 0;
  cudaEventElapsedTime(&milliseconds, static_cast<cudaEvent_t>(begin_), static_cast<cudaEvent_t>(end_));
  return static_cast<double>(milliseconds) * 1e-3;
}

bool synchronize() { return cudaDeviceSynchronize() == cudaSuccess; }

}  // namespace foxscope::kernels::cuda
