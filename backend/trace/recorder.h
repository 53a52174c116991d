#pragma once

#include <memory>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "backend/trace/trace.h"

namespace foxscope {

/// The parts of a run that a trace may keep (`--keep`).
enum class Keep { loss, gates, rows, ungated, query_key, logits, hidden };
using KeepSet = std::set<Keep>;

/// Parses "loss,gates,qk".  @throws UsageError naming the word and those that exist
KeepSet parse_keep(const std::string& list);

/// Takes down what a forward pass computes for one sequence; the forward writes straight into these arrays.
class Recorder {
 public:
  /// @param info        shapes must be set: layers, heads, key_heads, head_dim, length, dtype
  /// @param query_key   where q and k go; null if they are not kept
  Recorder(TraceInfo info, KeepSet keep, std::shared_ptr<RunQueryKeyStore> query_key);

  [[nodiscard]] const TraceInfo& info() const { return info_; }
  TraceInfo& info() { return info_; }
  [[nodiscard]] bool keeps(Keep part) const { return keep_.contains(part); }

  std::span<double> cumulative_log_gate(int layer);         ///< [H, L] f64; dropped in the end if not kept
  std::span<float> log_normalizer(int layer);               ///< [H, L] f32; likewise
  std::span<float> log_normalizer_without_gate(int layer);  ///< [H, L] f32; empty if not kept
  std::span<float> per_token_loss();                        ///< [L] f32; likewise
  /// [H, L, d] or [H_kv, L, d] in info().dtype; empty if not kept, or kept on the GPU
  std::span<std::byte> query_key(QueryKeyStore::Part part, int layer);
  /// The same where the store is in GPU memory; null if it is not
  void* query_key_on_device(QueryKeyStore::Part part, int layer);
  std::span<float> logits(std::int64_t vocabulary_size);                ///< [L, V] f32; empty if not kept
  std::span<float> hidden_states(int index, std::int64_t hidden_size);  ///< [L, D] f32; empty if not kept

  /// The trace of all that was recorded; the recorder is empty afterwards. What was not to be kept is dropped.
  std::shared_ptr<const Trace> finish(std::shared_ptr<const Text> text, std::shared_ptr<const TokenTable> tokens);

 private:
  TraceInfo info_;
  KeepSet keep_;
  std::shared_ptr<RunQueryKeyStore> query_key_;
  std::vector<LayerRows> rows_;
  std::vector<float> per_token_loss_;
  std::vector<float> logits_;
  std::vector<std::vector<float>> hidden_states_;
};

}  // namespace foxscope
