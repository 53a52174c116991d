#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <variant>
#include <vector>

#include "backend/trace/trace.h"

namespace foxscope {

/// Records what a forward pass computes for one sequence; the forward writes straight into these arrays. All are empty
/// where they are not kept, and in layers that do not have them.
class Recorder {
 public:
  /// @param info   shapes must be set: layers, heads, key_heads, head_dim (or mixers, by set_mixers), length, dtype
  /// @param store  where arrays of Storage::store go; null if none is kept
  Recorder(TraceInfo info, KeepSet keep, std::shared_ptr<RunQueryKeyStore> store);

  [[nodiscard]] const TraceInfo& info() const { return info_; }
  TraceInfo& info() { return info_; }
  [[nodiscard]] bool keeps(Keep part) const { return keep_.contains(part); }

  /// An array in host memory, in the shape and type of its ArraySpec.
  /// @param index  the layer, for arrays that are not Repeat::once
  template <typename T>
  std::span<T> array(TraceArray array, int index = 0) {
    ArrayValues* const values = sized(array, index);
    if (values == nullptr) return {};
    return std::get<std::vector<T>>(*values);
  }
  std::span<double> cumulative_log_gate(int layer) { return array<double>(TraceArray::cumulative_log_gate, layer); }
  /// P of a linear mixer that decays by channel, [H_k, L, d] nats: the inclusive sum of log decays over positions.
  std::span<double> cumulative_log_decay(int layer) { return array<double>(TraceArray::cumulative_log_decay, layer); }
  /// [H, d] what the head's log decay is multiplied by for each channel, where a layer decays by rates
  std::span<double> decay_rate(int layer) { return array<double>(TraceArray::decay_rate, layer); }
  /// [H, L], the delta rule's beta, or the step dt of Mamba and Mamba-2
  std::span<float> beta(int layer) { return array<float>(TraceArray::beta, layer); }
  std::span<float> log_normalizer(int layer) { return array<float>(TraceArray::log_normalizer, layer); }
  std::span<float> log_normalizer_without_gate(int layer) {
    return array<float>(TraceArray::log_normalizer_without_gate, layer);
  }
  /// [L, k] of a layer, filled with -1 and 0 before it is written: experts and their weights.
  struct Experts {
    std::span<std::int32_t> experts;
    std::span<float> weights;
  };
  Experts experts(int layer);
  std::span<float> per_token_loss() { return array<float>(TraceArray::per_token_loss); }
  /// [layers, H, L]; info().saliency_target says what they are the gradients of
  std::span<float> log_forget_gradient() { return array<float>(TraceArray::log_forget_gradient); }
  std::span<float> logits(std::int64_t vocabulary_size);                ///< [L, V]
  std::span<float> hidden_states(int index, std::int64_t hidden_size);  ///< [L, D]
  /// [L, D] bits of float16, of the state behind the final norm
  std::span<std::uint16_t> prediction_state(std::int64_t hidden_size);

  /// One layer of an array of Storage::store, in info().dtype; empty also where the store is on a GPU.
  std::span<std::byte> stored(TraceArray array, int layer);
  /// The same where the store is in GPU memory; null if it is not.
  void* stored_on_device(TraceArray array, int layer);

  /// The trace of all that was recorded; the recorder is empty afterwards.
  /// @param made_on  Trace::made_on
  std::shared_ptr<const Trace> finish(std::shared_ptr<const Text> text, std::shared_ptr<const TokenTable> tokens,
                                      std::optional<int> made_on = std::nullopt);

 private:
  ArrayValues* sized(TraceArray array, int index);

  TraceInfo info_;
  KeepSet keep_;
  std::shared_ptr<RunQueryKeyStore> store_;
  std::array<std::vector<ArrayValues>, kTraceArrays.size()> arrays_;  ///< of each, by index
};

}  // namespace foxscope
