#include <cuda.h>

#include <map>
#include <mutex>
#include <new>
#include <tuple>
#include <utility>

#include "kernels/cuda/device.h"
#include "kernels/cuda/errors.cuh"

namespace foxscope::kernels::cuda {
namespace {

/// The calling thread is in a scope whose device cannot be used.
thread_local bool refused = false;

int current_device() {
  int device = 0;
  return succeeded(cudaGetDevice(&device)) ? device : 0;
}

/// Memory that no buffer has, while somebody wants it kept.
class FreeBuffers {
 public:
  enum class Kind { device, pinned };

  void keep() {
    const std::lock_guard lock(mutex_);
    ++keepers_;
  }
  void release() {
    const std::lock_guard lock(mutex_);
    if (--keepers_ == 0) clear();
  }
  /// @returns null where there is none
  void* take(Kind kind, int device, std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    const auto found = free_.find(Key(kind, device, bytes));
    if (found == free_.end()) return nullptr;
    void* const data = found->second;
    free_.erase(found);
    return data;
  }
  /// Takes memory of the current device.
  void put(Kind kind, int device, std::size_t bytes, void* data) {
    const std::lock_guard lock(mutex_);
    if (keepers_ > 0) {
      free_.emplace(Key(kind, device, bytes), data);
    } else {
      give_back(kind, data);
    }
  }
  /// Gives all of it back. @returns whether there was any
  bool drain() {
    const std::lock_guard lock(mutex_);
    const bool any = !free_.empty();
    clear();
    return any;
  }

 private:
  using Key = std::tuple<Kind, int, std::size_t>;

  static void give_back(Kind kind, void* data) {
    succeeded(kind == Kind::device ? cudaFree(data) : cudaFreeHost(data));
  }
  void clear() {
    for (const auto& [key, data] : free_) {
      const auto [kind, device, bytes] = key;
      const DeviceScope scope(device);
      if (!refused) give_back(kind, data);
    }
    free_.clear();
  }

  std::mutex mutex_;
  int keepers_ = 0;
  std::multimap<Key, void*> free_;
};

FreeBuffers& free_buffers() {
  static FreeBuffers buffers;
  return buffers;
}

bool copied(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind, Stream stream) {
  return !refused && succeeded(cudaMemcpyAsync(to, from, bytes, kind, stream)) &&
         succeeded(cudaStreamSynchronize(stream));
}

}  // namespace

bool is_built() { return true; }

int device_count() {
  int count = 0;
  if (!succeeded(cudaGetDeviceCount(&count))) return 0;
  for (int device = 0; device < count; ++device) {
    int major = 0;
    if (!succeeded(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device)) || major < 8) {
      return device;
    }
  }
  return count;
}

bool is_available() {
  int device = 0;
  int major = 0;
  return !refused && succeeded(cudaGetDevice(&device)) &&
         succeeded(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device)) && major >= 8;
}

std::string device_name(int device) {
  cudaDeviceProp properties{};
  return cudaGetDeviceProperties(&properties, device) == cudaSuccess ? properties.name : "";
}

bool has_context(int device) {
  // The driver's library is found while the program runs: machines without a driver have none to link.
  static const auto query = [] {
    void* function = nullptr;
    cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSymbolNotFound;
    const auto error =
        cudaGetDriverEntryPointByVersion("cuDevicePrimaryCtxGetState", &function, 7000, cudaEnableDefault, &found);
    return succeeded(error) && found == cudaDriverEntryPointSuccess
               ? reinterpret_cast<decltype(&cuDevicePrimaryCtxGetState)>(function)
               : nullptr;
  }();
  unsigned flags = 0;
  int active = 0;
  return query != nullptr && query(device, &flags, &active) == CUDA_SUCCESS && active != 0;
}

DeviceScope::DeviceScope(int device) : former_(current_device()), former_refused_(refused) {
  refused = (device != former_ || refused) && !succeeded(cudaSetDevice(device));
}

DeviceScope::~DeviceScope() {
  refused = former_refused_;
  // Making a device current makes its context too.
  if (current_device() != former_ && has_context(former_)) succeeded(cudaSetDevice(former_));
}

DeviceBuffer::DeviceBuffer(std::size_t bytes) : bytes_(bytes), device_(current_device()) {
  if (refused) throw std::bad_alloc();
  data_ = free_buffers().take(FreeBuffers::Kind::device, device_, bytes);
  if (data_ != nullptr || succeeded(cudaMalloc(&data_, bytes))) return;
  data_ = nullptr;
  if (!free_buffers().drain() || !succeeded(cudaMalloc(&data_, bytes))) throw std::bad_alloc();
}

DeviceBuffer::~DeviceBuffer() {
  if (data_ == nullptr) return;
  const DeviceScope scope(device_);
  if (!refused) free_buffers().put(FreeBuffers::Kind::device, device_, bytes_, data_);
}

DeviceBuffer::DeviceBuffer(DeviceBuffer&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)), device_(other.device_) {}

DeviceBuffer& DeviceBuffer::operator=(DeviceBuffer&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  std::swap(device_, other.device_);
  return *this;
}

bool DeviceBuffer::upload(std::span<const std::byte> host) const {
  const DeviceScope scope(device_);
  return !refused && host.size() <= bytes_ &&
         succeeded(cudaMemcpy(data_, host.data(), host.size(), cudaMemcpyHostToDevice));
}

bool DeviceBuffer::download(std::span<std::byte> host, std::size_t offset) const {
  const DeviceScope scope(device_);
  return !refused && offset <= bytes_ && host.size() <= bytes_ - offset &&
         succeeded(
             cudaMemcpy(host.data(), static_cast<const char*>(data_) + offset, host.size(), cudaMemcpyDeviceToHost));
}

bool DeviceBuffer::fill(std::uint8_t value) const {
  const DeviceScope scope(device_);
  return !refused && succeeded(cudaMemset(data_, value, bytes_));
}

PinnedBuffer::PinnedBuffer(std::size_t bytes, int device) : bytes_(bytes), device_(device) {
  const DeviceScope scope(device);
  if (refused) throw std::bad_alloc();
  data_ = free_buffers().take(FreeBuffers::Kind::pinned, device, bytes);
  if (data_ == nullptr && !succeeded(cudaHostAlloc(&data_, bytes, cudaHostAllocPortable))) throw std::bad_alloc();
}

PinnedBuffer::~PinnedBuffer() {
  const DeviceScope scope(device_);
  if (!refused) free_buffers().put(FreeBuffers::Kind::pinned, device_, bytes_, data_);
}

KeptBuffers::KeptBuffers() { free_buffers().keep(); }
KeptBuffers::~KeptBuffers() { free_buffers().release(); }

DeviceStream::DeviceStream() : device_(current_device()) {
  if (refused || !succeeded(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking))) stream_ = nullptr;
}

DeviceStream::~DeviceStream() {
  if (stream_ == nullptr) return;
  const DeviceScope scope(device_);
  if (!refused) succeeded(cudaStreamDestroy(stream_));
}

bool DeviceStream::wait() const {
  const DeviceScope scope(device_);
  return !refused && succeeded(cudaStreamSynchronize(stream_));
}

std::unique_ptr<DeviceGraph> DeviceGraph::record(Stream stream, const std::function<void()>& launch) {
  // Other threads may take memory meanwhile.
  if (refused || stream == nullptr || !succeeded(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed))) {
    return nullptr;
  }
  cudaGraph_t graph = nullptr;
  try {
    launch();
  } catch (...) {
    if (succeeded(cudaStreamEndCapture(stream, &graph)) && graph != nullptr) succeeded(cudaGraphDestroy(graph));
    throw;
  }
  if (!succeeded(cudaStreamEndCapture(stream, &graph)) || graph == nullptr) return nullptr;
  cudaGraphExec_t executable = nullptr;
  const bool made = succeeded(cudaGraphInstantiate(&executable, graph, 0));
  succeeded(cudaGraphDestroy(graph));
  if (!made) return nullptr;
  return std::unique_ptr<DeviceGraph>(new DeviceGraph(executable, current_device()));
}

DeviceGraph::~DeviceGraph() {
  const DeviceScope scope(device_);
  if (!refused) succeeded(cudaGraphExecDestroy(static_cast<cudaGraphExec_t>(executable_)));
}

Status DeviceGraph::launch(Stream stream) const {
  if (refused) return Status::unavailable;
  return status_of(cudaGraphLaunch(static_cast<cudaGraphExec_t>(executable_), stream));
}

bool copy_to_device(void* device, std::span<const std::byte> host, Stream stream) {
  return copied(device, host.data(), host.size(), cudaMemcpyHostToDevice, stream);
}

bool copy_to_host(std::span<std::byte> host, const void* device, Stream stream) {
  return copied(host.data(), device, host.size(), cudaMemcpyDeviceToHost, stream);
}

std::size_t free_memory() {
  std::size_t free = 0;
  std::size_t total = 0;
  return !refused && succeeded(cudaMemGetInfo(&free, &total)) ? free : 0;
}

DeviceTimer::DeviceTimer() {
  cudaEvent_t begin = nullptr;
  cudaEvent_t end = nullptr;
  succeeded(cudaEventCreate(&begin));
  succeeded(cudaEventCreate(&end));
  begin_ = begin;
  end_ = end;
}

DeviceTimer::~DeviceTimer() {
  succeeded(cudaEventDestroy(static_cast<cudaEvent_t>(begin_)));
  succeeded(cudaEventDestroy(static_cast<cudaEvent_t>(end_)));
}

void DeviceTimer::start(Stream stream) { succeeded(cudaEventRecord(static_cast<cudaEvent_t>(begin_), stream)); }

double DeviceTimer::stop(Stream stream) {
  float milliseconds = 0;
  const bool timed =
      succeeded(cudaEventRecord(static_cast<cudaEvent_t>(end_), stream)) &&
      succeeded(cudaEventSynchronize(static_cast<cudaEvent_t>(end_))) &&
      succeeded(cudaEventElapsedTime(&milliseconds, static_cast<cudaEvent_t>(begin_), static_cast<cudaEvent_t>(end_)));
  return timed ? static_cast<double>(milliseconds) * 1e-3 : 0;
}

bool synchronize() { return !refused && succeeded(cudaDeviceSynchronize()); }

}  // namespace foxscope::kernels::cuda
