#include "backend/model/layer/torch/layer_downloads_torch.h"

#include <cstring>
#include <utility>

#include <ATen/ATen.h>
#include <ATen/DeviceAccelerator.h>
#include <c10/core/DeviceGuard.h>

namespace foxscope {
namespace {

constexpr std::size_t kLayersAhead = 2;

}  // namespace

void LayerDownloads::take(const at::Tensor& from, std::function<void*()> into) {
  at::Tensor pinned = at::empty(from.sizes(), at::TensorOptions().dtype(from.scalar_type()).pinned_memory(true));
  pinned.copy_(from, /*non_blocking=*/true);
  copies_.push_back({std::move(pinned), std::move(into)});
}

void LayerDownloads::end_layer() {
  auto layer = std::make_unique<Layer>();
  layer->copies = std::exchange(copies_, {});
  layer->passed.record(at::accelerator::getCurrentStream(device_.index()));
  if (!layer->copies.empty()) {
    // Where the system gives no more threads the copy is made when it is waited for.
    layer->copied = std::async(std::launch::async | std::launch::deferred, [layer = layer.get(), device = device_] {
      const c10::DeviceGuard guard(device);  // to wait in a new thread would else make a context on the first GPU
      layer->passed.synchronize();
      for (const Copy& copy : layer->copies) {
        std::memcpy(copy.into(), copy.pinned.const_data_ptr(), copy.pinned.nbytes());
      }
    });
  }
  under_way_.push_back(std::move(layer));
  while (under_way_.size() > kLayersAhead) hand_over();
}

void LayerDownloads::finish() {
  if (!copies_.empty()) end_layer();
  while (!under_way_.empty()) hand_over();
}

void LayerDownloads::hand_over() {
  Layer& layer = *under_way_.front();
  layer.passed.synchronize();
  if (layer.copied.valid()) layer.copied.get();
  under_way_.pop_front();
  ++layers_done_;
}

}  // namespace foxscope
