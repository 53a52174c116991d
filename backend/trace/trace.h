#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "backend/trace/query_key_store.h"

namespace foxscope {

class DeviceHeads;

/// A text that was read, with its identity.
struct Text {
  std::string content;  ///< UTF-8
  std::string sha256;   ///< lower-case hexadecimal, of the content's bytes
};

/// The tokens of a run, by position. Position p reads input_id[p] (BOS at 0, then the text's token p-1) and predicts
/// id[p], the text's token p. Queries, keys, gates and maps belong to what is read, losses to what is predicted.
struct TokenTable {
  std::vector<std::int32_t> id;          ///< [L] what position p predicts
  std::vector<std::int32_t> input_id;    ///< [L] what position p reads
  std::vector<std::int64_t> byte_start;  ///< [L] of token id[p] in the text; empty where there is no text (--ids)
  std::vector<std::int64_t> byte_end;
  std::vector<std::string> string;  ///< [L] of token id[p], U+FFFD where it is part of a character; may be empty
  bool operator==(const TokenTable&) const = default;
};

/// What a model and its run are, in numbers and names.
struct TraceInfo {
  std::string name;            ///< NAME of the run file
  std::string model_type;      ///< of config.json
  std::string config;          ///< config.json, JSON text
  std::string weights_sha256;  ///< over the weight files in the order of their names
  std::string device;          ///< "cpu", "cuda:0"
  DType dtype = DType::float32;
  std::string attention_kernel;  ///< which implementation ran
  int layers = 0;
  int heads = 0;
  int key_heads = 0;
  int head_dim = 0;
  std::int64_t length = 0;       ///< L, positions
  float softmax_scale = 0;       ///< 1/sqrt(d)
  std::int64_t window_size = 0;  ///< w: position i sees i-w < j <= i; 0: no window
  double pruning_tolerance = 0;  ///< share of a row's attention that may have been skipped; 0: none
  bool gated = false;            ///< false: f = 1 everywhere
  std::string intervention;      ///< JSON; empty: none
};

/// The key head that a query head reads: h / (H / H_kv).
int key_head_of(const TraceInfo& info, int head);

/// What is known of every row of one layer. An array that was not kept is empty.
struct LayerRows {
  std::vector<double> cumulative_log_gate;         ///< [H, L] c_i = sum of log f up to and including i, nats
  std::vector<float> log_normalizer;               ///< [H, L] nats
  std::vector<float> log_normalizer_without_gate;  ///< [H, L] nats, softmax of the same logits without the gate
};

/// Where a trace's larger arrays come from: memory or a run file. Safe to call from several threads.
class TraceSource {
 public:
  virtual ~TraceSource() = default;
  [[nodiscard]] virtual std::shared_ptr<const LayerRows> rows(int layer) const = 0;
  /// Whether these were kept, without reading them.
  [[nodiscard]] virtual bool has_logits() const = 0;
  [[nodiscard]] virtual bool has_hidden_states() const = 0;
  /// [L, V] float32; empty where it was not kept
  [[nodiscard]] virtual std::vector<float> logits() const = 0;
  /// [L, D] float32, the input of layer `index`; index = layers: after the final norm; empty where it was not kept
  [[nodiscard]] virtual std::vector<float> hidden_states(int index) const = 0;
};

/// All that is known of one run of one model on one text: O(L) per head, immutable, shared by const pointer. A live run
/// and a reopened run file give the same type. Safe to use from several threads.
class Trace {
 public:
  Trace(TraceInfo info, std::shared_ptr<const Text> text, std::shared_ptr<const TokenTable> tokens,
        std::vector<float> per_token_loss, std::unique_ptr<const TraceSource> source,
        std::shared_ptr<const QueryKeyStore> query_key);

  [[nodiscard]] const TraceInfo& info() const { return info_; }
  [[nodiscard]] const std::shared_ptr<const Text>& text() const { return text_; }  ///< null with --ids
  [[nodiscard]] const std::shared_ptr<const TokenTable>& tokens() const { return tokens_; }
  [[nodiscard]] std::span<const float> per_token_loss() const { return per_token_loss_; }  ///< [L] nats; may be empty
  [[nodiscard]] const TraceSource& source() const { return *source_; }
  /// Null where queries and keys were not kept.
  [[nodiscard]] const QueryKeyStore* query_key() const { return query_key_.get(); }

  /// c of one head, [L] nats. Layers are read when first asked for and then kept.
  /// @throws Error for a layer or head that does not exist, or gates that were not kept, with the remedy
  [[nodiscard]] std::span<const double> cumulative_log_gate(int layer, int head) const;
  /// [L] nats. @throws Error likewise
  [[nodiscard]] std::span<const float> log_normalizer(int layer, int head) const;
  /// Whether entries of attention can be computed: queries, keys and the row normalisers of this layer were kept.
  [[nodiscard]] bool has_attention(int layer) const;

  /// The log-normaliser of softmax without the gate, [L] nats, kept in the trace once it is known: from the file, or
  /// from `compute`, which may return an empty vector to say that it was cancelled (then so is the result).
  std::span<const float> log_normalizer_without_gate(int layer, int head,
                                                     const std::function<std::vector<float>()>& compute) const;

  /// Whether it is known already.
  [[nodiscard]] bool knows_log_normalizer_without_gate(int layer, int head) const;

  /// The GPU that computes this trace's maps and statistics; none: the CPU does. At first the one whose memory holds
  /// the queries and keys, if any.
  [[nodiscard]] std::optional<int> gpu() const;
  void compute_on(std::optional<int> gpu) const;
  /// What of the trace is in a GPU's memory for its maps, kept until the trace goes or another GPU is named.
  [[nodiscard]] std::shared_ptr<DeviceHeads> device_heads(int gpu) const;

  /// @throws UsageError naming the numbers that exist
  void check_head(int layer, int head) const;
  /// Queries and keys. @throws Error with the remedy where they were not kept
  [[nodiscard]] const QueryKeyStore& require_query_key() const;

 private:
  const LayerRows& rows(int layer) const;

  TraceInfo info_;
  std::shared_ptr<const Text> text_;
  std::shared_ptr<const TokenTable> tokens_;
  std::vector<float> per_token_loss_;
  std::unique_ptr<const TraceSource> source_;
  std::shared_ptr<const QueryKeyStore> query_key_;
  mutable std::mutex mutex_;
  mutable std::map<int, std::shared_ptr<const LayerRows>> rows_;
  mutable std::map<std::pair<int, int>, std::vector<float>> without_gate_;
  mutable std::optional<int> gpu_;
  mutable std::shared_ptr<DeviceHeads> device_heads_;
};

}  // namespace foxscope
