#pragma once

#include <cstddef>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <span>

#include "backend/trace/trace.h"
#include "kernels/cuda/device.h"
#include "kernels/cuda/maps/mixing_map.h"
#include "kernels/cuda/maps/pooled_map.h"

namespace foxscope {

/// The arrays of a head that are asked for.
struct DeviceParts {
  bool query_key = false;
  bool gate = false;  ///< with the tables that maps need beside it, where queries and keys are asked for too
  bool normalizer = false;
  bool without_gate = false;  ///< that normaliser has to be known to the trace already
  bool mixing = false;        ///< tables of a linear mixer's M
  bool mean_decay = false;    ///< tables of the mean over channels of F, where each channel decays
  bool row_sizes = false;     ///< these have to be known to the trace already
};

/// Addresses of one head's arrays in GPU memory, those that were asked for so far; null where not.
struct DeviceHead {
  int layer = 0;
  int head = 0;
  const void* query = nullptr;          ///< [L, d] in the store's dtype
  const void* key = nullptr;            ///< [L, d]
  const double* gate = nullptr;         ///< [L] c, nats; null also where the run has no gate
  const float* normalizer = nullptr;    ///< [L] nats
  const float* without_gate = nullptr;  ///< [L] nats
  const void* tables = nullptr;         ///< of kernels::cuda::prepare_map_head
  const void* mixing = nullptr;         ///< of prepare_mixing_head; null also where the device has no room for a block
  const void* mean_decay = nullptr;     ///< likewise, without queries and keys
  const float* row_sizes = nullptr;     ///< [L] sum over j of |M_ij|
  std::shared_ptr<const void> held;     ///< keeps the arrays, but for those that are the store's own
};

/// A head for the kernels, with all that was uploaded of it.
kernels::cuda::MapHead map_head(const Trace& trace, const DeviceHead& head);

/// The recurrence of a linear mixer that kernels have; none: no kernel computes its M.
std::optional<kernels::cuda::MixingKind> mixing_kind(const LayerMixer& mixer);

/// A head of a linear mixer for the kernels, without arrays.
/// @param of_decay  F alone, whose queries are 1/d and keys 1
kernels::cuda::MixingHead mixing_head(const Trace& trace, int layer, bool of_decay);

/// The arrays of one trace in GPU memory for its maps, head by head, the one not used for longest let go first; and the
/// stream and the working memory of what computes them. One piece of work at a time: hold `lock` around it, and be on
/// the device (DeviceScope).
class DeviceHeads {
 public:
  static constexpr std::size_t kBudget = std::size_t{4} << 30U;

  /// @param budget  bytes that heads may hold together; one head is always held
  DeviceHeads(int device, std::size_t budget);

  [[nodiscard]] int device() const { return device_; }
  [[nodiscard]] std::unique_lock<std::mutex> lock() { return std::unique_lock(mutex_); }
  [[nodiscard]] kernels::cuda::Stream stream() const { return stream_->get(); }
  [[nodiscard]] bool wait() const { return stream_->wait(); }

  /// A head with the parts asked for, uploaded where they are not there yet.
  /// @throws Error for parts that the trace did not keep, and for memory that the GPU does not have, with the figure
  DeviceHead head(const Trace& trace, int layer, int head, const DeviceParts& parts);

  /// Memory of at least so many bytes, the same at every call. @throws Error with the figure
  void* workspace(std::size_t bytes);
  /// The same of the host, for copies to and from the GPU, pinned where memory can be.
  std::span<std::byte> host_workspace(std::size_t bytes);

 private:
  struct Entry {
    DeviceHead head;
    std::list<kernels::cuda::DeviceBuffer> buffers;  ///< grows while the head is held, so that addresses stay
    std::size_t bytes = 0;
  };
  const void* upload(std::span<const std::byte> values, Entry& entry);
  kernels::cuda::DeviceBuffer allocate(std::size_t bytes);
  void add_query_key(const Trace& trace, Entry& entry);
  void add_gate(const Trace& trace, Entry& entry);
  void add_tables(const Trace& trace, Entry& entry);
  const void* add_mixing(const Trace& trace, bool of_decay, Entry& entry);
  void keep_within_budget();

  int device_;
  std::size_t budget_;
  std::mutex mutex_;
  std::unique_ptr<kernels::cuda::DeviceStream> stream_;
  kernels::cuda::DeviceBuffer workspace_;
  std::unique_ptr<kernels::cuda::PinnedBuffer> pinned_;
  std::vector<std::byte> pageable_;  ///< in its place where no memory can be pinned
  std::span<std::byte> host_workspace_;
  std::list<std::shared_ptr<Entry>> heads_;  ///< the one used last comes first
};

}  // namespace foxscope
