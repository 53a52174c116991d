#include "backend/model/layer/torch/torch_state_torch.h"

#include <algorithm>
#include <cstddef>

#include <ATen/ATen.h>

#include "backend/base/index.h"
#include "backend/model/layer/cpu/gate_history.h"

namespace foxscope {
namespace {

/// Positions between two looks at the gates on a GPU.
constexpr std::int64_t kLookEvery = 64;

}  // namespace

std::unique_ptr<ForwardState> TorchState::copy() const {
  auto copied = std::make_unique<TorchState>(*this);
  if (last_.defined()) copied->last_ = last_.clone();
  return copied;
}

void TorchState::keep_last(int index, const at::Tensor& key, const at::Tensor& value) {
  if (!last_.defined()) {
    last_ = at::empty({static_cast<std::int64_t>(layers_.size()), 2, key.numel()}, key.options());
  }
  const at::Tensor both = last(index);
  both[0].view_as(key).copy_(key);
  both[1].view_as(value).copy_(value);
}

void* TorchState::last_place(int index) const {
  auto* const bytes = static_cast<std::byte*>(last_.mutable_data_ptr());
  return bytes + index * last_.stride(0) * static_cast<std::int64_t>(last_.element_size());
}

void TorchState::drop_keys(int index, std::int64_t window_size, const std::vector<double>& logit_bound) {
  Layer& cache = layer(index);
  const std::int64_t end = cache.first + cache.key.size();
  std::int64_t first = cache.first;
  const bool looks = !cache.key.is_cuda() || end % kLookEvery == 0 || length() == 0;
  if (cache.gated() && tolerance_ > 0 && looks) {
    first = end;
    const at::Tensor sums = cache.cumulative_log_gate.rows().to(at::kCPU).contiguous();
    for (int head = 0; head < heads_; ++head) {
      const std::span<const double> of_head(sums.const_data_ptr<double>() + head * sums.size(1),
                                            static_cast<std::size_t>(sums.size(1)));
      first = std::min(first, first_needed_key(of_head, cache.first, logit_bound[index_of(head)], tolerance_));
    }
  }
  // The next row sees keys from end - w + 1 on.
  if (window_size > 0) first = std::max(first, end - window_size + 1);
  if (first <= cache.first) return;
  const std::int64_t dropped = first - cache.first;
  cache.key.drop_front(dropped);
  cache.value.drop_front(dropped);
  if (cache.gated()) cache.cumulative_log_gate.drop_front(dropped);
  cache.first = first;
}

std::vector<std::int64_t> TorchState::held_keys() const {
  std::vector<std::int64_t> held;
  for (const Layer& cache : layers_) {
    // A linear mixer holds its past in its state, not in keys.
    if (cache.recurrent.defined()) {
      held.insert(held.end(), static_cast<std::size_t>(cache.recurrent.size(0)), 0);
      continue;
    }
    held.insert(held.end(), static_cast<std::size_t>(heads_), length() - cache.first);
  }
  return held;
}

}  // namespace foxscope
