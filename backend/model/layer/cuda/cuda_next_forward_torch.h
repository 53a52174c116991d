#pragma once

#include <cstdint>
#include <memory>

#include "backend/model/layer/cuda/cuda_forward_torch.h"
#include "backend/model/layer/cuda/next_attention_cuda_torch.h"
#include "kernels/cuda/device.h"

namespace foxscope {

/// One more position of each of up to B sequences that have been read, together. The memory of its steps stays where it
/// is, and the numbers that differ from token to token go to the device in one piece; so the launches of all layers are
/// recorded once and given to the GPU as one. A sequence has the same digits alone and beside others: a pass always has
/// B rows, those without a sequence being of no use.
class CudaNextForward final : public CudaForward {
 public:
  static bool takes(const TorchWeights& weights);

  /// @param weights  that it takes, on the current device; must outlive it
  /// @param batch    B
  CudaNextForward(const TorchWeights& weights, std::int64_t batch);

 protected:
  void begin() override;
  bool run_layers() override;
  std::unique_ptr<MixerSteps> make_attention() override;
  bool finish() override;

 private:
  CudaNextAttentionSteps* next_ = nullptr;  ///< what make_attention() made
  bool run_before_ = false;
  std::unique_ptr<kernels::cuda::DeviceGraph> graph_;  ///< all layers, of sequences that nothing changes
};

}  // namespace foxscope
