#pragma once

#include <cstdint>
#include <memory>

#include <ATen/core/Tensor.h>

namespace foxscope {

/// Rows along axis 1 that are added at the end and let go at the front, in memory that grows by half when it is full:
/// one more row costs the same however many there are. Copies share memory, and what one of them adds no other sees.
class GrowingTensor {
 public:
  /// @param rows  [H, n, ...]; its memory is taken over, and what is added goes elsewhere
  void start(const at::Tensor& rows);
  /// @param rows  [H, m, ...]
  void append(const at::Tensor& rows);
  /// Memory for `count` rows more that no copy sees, behind those that are held: [H, n + count, ...] with what is to be
  /// written there. They are held from commit on.
  [[nodiscard]] at::Tensor reserve(std::int64_t count);
  /// The same as an address, which costs no tensor: [H, n + count, ...] with `stride` numbers from head to head.
  struct Place {
    void* first = nullptr;
    std::int64_t stride = 0;
  };
  [[nodiscard]] Place reserve_place(std::int64_t count);
  void commit(std::int64_t count);
  void drop_front(std::int64_t rows);

  /// [H, n, ...], valid until the next append.
  [[nodiscard]] at::Tensor rows() const;
  [[nodiscard]] std::int64_t size() const { return size_; }
  [[nodiscard]] bool is_cuda() const { return memory_ != nullptr && memory_->tensor.is_cuda(); }

 private:
  struct Memory {
    at::Tensor tensor;
    std::int64_t end = 0;  ///< rows that some copy has written
  };
  /// Makes room behind the rows that are held.
  void make_room(std::int64_t count);

  std::shared_ptr<Memory> memory_;
  std::int64_t first_ = 0;
  std::int64_t size_ = 0;
};

}  // namespace foxscope
