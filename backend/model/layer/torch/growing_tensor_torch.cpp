#include "backend/model/layer/torch/growing_tensor_torch.h"

#include <algorithm>
#include <cassert>
#include <cstddef>

#include <ATen/ATen.h>
#include <ATen/DeviceAccelerator.h>

namespace foxscope {

void GrowingTensor::start(const at::Tensor& rows) {
  memory_ = std::make_shared<Memory>(Memory{rows, rows.size(1)});
  first_ = 0;
  size_ = rows.size(1);
}

void GrowingTensor::append(const at::Tensor& rows) {
  const std::int64_t count = rows.size(1);
  reserve(count).slice(1, size_).copy_(rows);
  commit(count);
}

void GrowingTensor::make_room(std::int64_t count) {
  assert(memory_ != nullptr);
  const std::int64_t end = first_ + size_;
  if (memory_->end == end && memory_->tensor.size(1) >= end + count) return;
  constexpr std::int64_t kLeastRoom = 64;
  auto shape = memory_->tensor.sizes().vec();
  shape[1] = size_ + std::max(size_ / 2, kLeastRoom) + count;
  const at::Tensor wider = at::empty(shape, memory_->tensor.options());
  wider.slice(1, 0, size_).copy_(rows());
  // It may have been made for another stream, which is not to use it again before the copy is done.
  if (wider.is_cuda()) memory_->tensor.record_stream(at::accelerator::getCurrentStream(wider.device().index()));
  memory_ = std::make_shared<Memory>(Memory{wider, size_});
  first_ = 0;
}

at::Tensor GrowingTensor::reserve(std::int64_t count) {
  make_room(count);
  return memory_->tensor.slice(1, first_, first_ + size_ + count);
}

GrowingTensor::Place GrowingTensor::reserve_place(std::int64_t count) {
  make_room(count);
  const at::Tensor& tensor = memory_->tensor;
  auto* const bytes = static_cast<std::byte*>(tensor.mutable_data_ptr());
  return {bytes + first_ * tensor.stride(1) * static_cast<std::int64_t>(tensor.element_size()), tensor.stride(0)};
}

void GrowingTensor::commit(std::int64_t count) {
  size_ += count;
  memory_->end = first_ + size_;
}

void GrowingTensor::drop_front(std::int64_t rows) {
  assert(rows >= 0 && rows <= size_);
  first_ += rows;
  size_ -= rows;
}

at::Tensor GrowingTensor::rows() const { return memory_->tensor.slice(1, first_, first_ + size_); }

}  // namespace foxscope
