#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include <ATen/core/Tensor.h>

#include "backend/base/index.h"
#include "backend/model/layer/forward.h"
#include "backend/model/layer/torch/growing_tensor_torch.h"

namespace foxscope {

/// The state of a sequence in LibTorch's tensors. Copies share what both hold. The heads of a layer drop keys together:
/// those that none of them needs.
class TorchState final : public ForwardState {
 public:
  /// @param layers     number of layers
  /// @param heads      H
  /// @param tolerance  largest share of a row's attention that dropped keys may hold; 0: none
  TorchState(int layers, int heads, double tolerance)
      : heads_(heads), tolerance_(tolerance), layers_(static_cast<std::size_t>(layers)) {}

  [[nodiscard]] std::unique_ptr<ForwardState> copy() const override;
  [[nodiscard]] std::vector<std::int64_t> held_keys() const override;

  struct Layer {
    GrowingTensor key;                  ///< [H_kv, n, d] of the positions from `first` on
    GrowingTensor value;                ///< likewise
    GrowingTensor cumulative_log_gate;  ///< [H, n] float64, nats; not used where every f is 1
    std::int64_t first = 0;
    at::Tensor recurrent;  ///< [H, d, d_v] float32 S of a linear mixer
    at::Tensor window;     ///< [taps - 1, columns] float32 what its convolution reads again
    [[nodiscard]] bool gated() const { return cumulative_log_gate.size() > 0; }
  };
  [[nodiscard]] Layer& layer(int index) { return layers_[index_of(index)]; }

  /// Takes down the key and value of the last position as projected, before their shift.
  /// @param key, value  [H_kv, d] or flat
  void keep_last(int layer, const at::Tensor& key, const at::Tensor& value);
  /// [2, H_kv d] of keep_last, in its dtype, this state's alone.
  [[nodiscard]] at::Tensor last(int layer) const { return last_[layer]; }
  [[nodiscard]] void* last_place(int layer) const;  ///< where that begins

  /// Lets go of the keys that no later row can see, or give more than the tolerance. Gates are looked at now and then
  /// alone, as what is on a GPU has to be waited for.
  /// @param logit_bound  [H] of the layer
  void drop_keys(int layer, std::int64_t window_size, const std::vector<double>& logit_bound);

 private:
  int heads_;
  double tolerance_;
  std::vector<Layer> layers_;
  at::Tensor last_;  ///< [layers, 2, H_kv d]; undefined before keep_last
};

}  // namespace foxscope
