#pragma once

#include <deque>
#include <functional>
#include <future>
#include <memory>
#include <vector>

#include <ATen/core/Tensor.h>
#include <c10/core/Event.h>

#include "backend/model/layer/pass_bytes.h"
#include "backend/model/spec/model_config.h"
#include "backend/trace/trace_arrays.h"

namespace foxscope {

/// The results of a pass's layers on their way to the host, copied while later layers are computed: the host enqueues
/// at most two layers beyond the one that the GPU is at, and hands over what a layer left once the GPU has passed it.
/// So it can tell how far a pass is, and stop it, without ever making the GPU wait.
class LayerDownloads {
 public:
  explicit LayerDownloads(at::Device device) : device_(device) {}

  /// Bytes that a layer's gates and normalisers and the losses take of the host on their way.
  static PassBytes bytes(const ModelConfig& config, const KeepSet& keep) {
    return {0, 4 + config.heads * (8 + 8 + 4 + std::int64_t{keep.contains(Keep::ungated) ? 4 : 0})};
  }

  /// Copies a tensor through pinned memory, on a thread of the layer's: host memory that is touched for the first time
  /// comes slower than the GPU computes.
  /// @param from  on the GPU, contiguous
  /// @param into  called there once the GPU has passed the layer; gives host memory of from.nbytes() bytes, which is
  ///              filled when the layer has been waited for
  void take(const at::Tensor& from, std::function<void*()> into);

  /// Marks the end of a layer, and waits for the one two before it.
  void end_layer();

  /// Waits for everything.
  void finish();

  /// Layers that the GPU has passed.
  [[nodiscard]] int layers_done() const { return layers_done_; }

 private:
  struct Copy {
    at::Tensor pinned;
    std::function<void*()> into;
  };
  struct Layer {
    c10::Event passed{c10::DeviceType::CUDA};
    std::vector<Copy> copies;
    std::future<void> copied;
  };
  void hand_over();

  at::Device device_;
  std::vector<Copy> copies_;  ///< of the layer that is being enqueued
  std::deque<std::unique_ptr<Layer>> under_way_;
  int layers_done_ = 0;
};

}  // namespace foxscope
