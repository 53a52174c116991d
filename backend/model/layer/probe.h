#pragma once

#include <cstdint>
#include <span>

#include "backend/model/layer/expert_choice.h"
#include "backend/model/spec/intervention.h"
#include "backend/trace/recorder.h"

namespace foxscope {

/// The observer of a forward over one sequence, which keeps and changes what passes: a recorder, interventions, both,
/// or neither. The forward owns its memory; only for arrays too large to be there twice does the recorder lend its own.
class Probe {
 public:
  /// A probe that keeps and changes nothing.
  Probe() = default;
  /// @param recorder       may be null
  /// @param interventions  must outlive the probe
  Probe(Recorder* recorder, std::span<const Intervention> interventions)
      : recorder_(recorder), interventions_(interventions) {}

  [[nodiscard]] bool keeps(Keep part) const { return recorder_ != nullptr && recorder_->keeps(part); }
  /// The recorder; null: nothing is recorded.
  [[nodiscard]] Recorder* recorder() const { return recorder_; }
  /// Memory for queries [H, L, d], keys or values [H_kv, L, d] of a layer, float32; null: the forward uses its
  /// own.
  [[nodiscard]] float* stored(TraceArray array, int layer) const;
  /// The same for logits [L, V].
  [[nodiscard]] float* logits(std::int64_t vocabulary_size) const;

  /// @param rows  [L, D] what enters a layer; after the last layer, behind the final norm
  void take_hidden(int index, std::int64_t hidden_size, std::span<const float> rows) const;
  /// @param rows  [L, D] behind the final norm
  void take_prediction_state(std::int64_t hidden_size, std::span<const float> rows) const;
  /// @param cumulative  [H, L] c, nats; empty where every f is 1
  void take_gates(int layer, std::span<const double> cumulative) const;
  /// @param log_normalizer  [H, L] nats
  /// @param without_gate    likewise; empty unless Keep::ungated
  void take_normalizers(int layer, std::span<const float> log_normalizer, std::span<const float> without_gate) const;
  /// A mixer's float32 array of a layer, such as beta, or what is erased by arrays.
  /// @param values  as many as its ArraySpec says
  void take(TraceArray array, int layer, const float* values) const;
  /// @param chosen  [L, k] of a layer's mixture of experts
  void take_experts(int layer, std::span<const ChosenExpert> chosen) const;
  /// @param loss  [n] nats, of the positions from `first` on
  void take_loss(std::int64_t first, std::span<const float> loss) const;

  /// Whether anything is.
  [[nodiscard]] bool changes() const { return !interventions_.empty(); }
  [[nodiscard]] bool changes_gates(int layer) const;
  [[nodiscard]] bool cuts_head(int layer, int head) const;
  [[nodiscard]] bool drops_experts(int layer) const;
  [[nodiscard]] bool drops_expert(int layer, int expert) const;
  /// @param first     position of the first column
  /// @param log_gate  [H, n] log f, nats, changed in place
  void change_gates(int layer, int heads, std::int64_t first, std::int64_t length, double* log_gate) const;
  /// The backward pass through change_gates of a whole text: see pull_back_gates.
  void pull_back_gates(int layer, int heads, std::int64_t length, const double* log_gate, double* gradient) const;

 private:
  Recorder* recorder_ = nullptr;
  std::span<const Intervention> interventions_;
};

}  // namespace foxscope
