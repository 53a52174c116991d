#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "backend/trace/query_key_store.h"
#include "backend/trace/trace_arrays.h"

namespace foxscope {

class DeviceHeads;

/// A text that was read, with its identity. Of a longer text of which a run read the first tokens it is the part that
/// these tokens are.
struct Text {
  std::string content;            ///< UTF-8
  std::string sha256;             ///< lower-case hexadecimal, of the content's bytes
  std::int64_t unread_bytes = 0;  ///< how many bytes of the longer text follow
  bool cut_word = false;          ///< its last word goes on in them, or a character of it does
};

/// The part of a text up to the end of a token. A character of which the token is the first part is there whole.
/// @param byte_end  of the last token that was read
/// @returns the part, without its SHA-256
Text part_read(const Text& text, std::int64_t byte_end);
/// Whether both are one text, of which either may be the part that was read.
bool same_text(const Text& a, const Text& b);
/// Whether a text is `whole`, or the part of it that was read.
bool is_read_of(const Text& text, std::string_view whole);

/// The tokens of a run, by position. Position p reads input_id[p] (BOS at 0, then the text's token p-1) and predicts
/// id[p], the text's token p. Queries, keys, gates and maps belong to what is read, losses to what is predicted.
struct TokenTable {
  std::vector<std::int32_t> id;          ///< [L] what position p predicts
  std::vector<std::int32_t> input_id;    ///< [L] what position p reads
  std::vector<std::int64_t> byte_start;  ///< [L] of token id[p] in the text; empty where there is no text (--ids)
  std::vector<std::int64_t> byte_end;
  std::vector<std::string> string;  ///< [L] of token id[p], U+FFFD where it is part of a character; may be empty
  std::string first_string;         ///< the token that position 0 reads, or ⟨id⟩; empty: it reads BOS
  bool operator==(const TokenTable&) const = default;
};

/// The facts of a model and its run, in numbers and names. V and D are known where logits or hidden states were kept.
struct TraceInfo : TraceSizes {
  std::string name;            ///< NAME of the run file
  std::string model_type;      ///< of config.json
  std::string config;          ///< config.json, JSON text
  std::string weights_sha256;  ///< over the weight files in the order of their names
  std::string device;          ///< "cpu", "cuda:0"
  DType dtype = DType::float32;
  std::string attention_kernel;  ///< which implementation ran
  float softmax_scale = 0;       ///< 1/sqrt(d)
  std::int64_t window_size = 0;  ///< w of all layers: position i sees i-w < j <= i; 0: no window
  /// [layers] the same where layers of attention differ; empty: window_size says it.
  std::vector<std::int64_t> window_sizes;
  double logit_cap = 0;          ///< logits of attention are cap tanh(s / cap) of s = q.k softmax_scale; 0: s
  double pruning_tolerance = 0;  ///< share of a row's attention that may have been skipped; 0: none
  /// [layers] what forgets() answers. A trace fills it from c and the decays that it holds, and leaves what is here
  /// where they were not kept; empty: nobody has said.
  std::vector<bool> forgetting;
  std::string intervention;     ///< JSON; empty: none
  std::string saliency_target;  ///< what gradients are of, "mean of loss[0:4096]"; empty without them
  bool unchecked = false;       ///< of a run file whose arrays nobody held against one another: pictures say so
};

/// The key head that a head of a layer of softmax attention reads: h / (H / H_kv).
int key_head_of(const TraceInfo& info, int layer, int head);
/// Whether a layer forgets: c of some head, or the sum of log decays of some channel, is not 0 throughout. The reason
/// does not matter: the model's gates, an intervention, what a file holds. No other place decides this.
bool forgets(const TraceInfo& info, int layer);
/// Whether any layer does.
bool forgets(const TraceInfo& info);
/// Keys that a query of a layer sees; 0: all. Only softmax attention has a window.
std::int64_t window_of(const TraceInfo& info, int layer);
/// Whether layers of softmax attention have a window each of its own.
inline bool has_windows_by_layer(const TraceInfo& info) { return !info.window_sizes.empty(); }
/// The logit of attention of q.k softmax_scale.
double capped_logit(const TraceInfo& info, double logit);
/// The head of an array with `among` heads that head h of a layer reads: h / (H / among).
constexpr int shared_head(int heads, int among, int head) { return head / (heads / among); }

/// P of a head, [L, d] nats: of a trace that keeps it, or made of c and the rates of its channels for who asked.
struct ChannelSums {
  std::shared_ptr<const std::vector<double>> made;  ///< null where the trace keeps it
  std::span<const double> values;
};

/// The numbers of one array, C order; of float16 their bits.
using ArrayValues =
    std::variant<std::vector<float>, std::vector<double>, std::vector<std::uint16_t>, std::vector<std::int32_t>>;

/// The source of a trace's arrays, except those of a QueryKeyStore: memory or a run file. Safe to call from several
/// threads. `index` is the layer of arrays that are not Repeat::once.
class TraceSource {
 public:
  virtual ~TraceSource() = default;
  /// Whether it was kept, without reading it.
  [[nodiscard]] virtual bool has(TraceArray array, int index) const = 0;
  /// Null where it was not kept. @throws Error if the file behind the source cannot be read
  [[nodiscard]] virtual std::shared_ptr<const ArrayValues> read(TraceArray array, int index) const = 0;
  /// Whether all numbers of an array that was kept are 0. It is read no further than to the first that is not; false
  /// where it cannot be read, which read() says.
  [[nodiscard]] virtual bool is_zero(TraceArray array, int index) const;

  /// A copy; empty where it was not kept.
  template <typename T>
  [[nodiscard]] std::vector<T> copy(TraceArray array, int index = 0) const {
    const std::shared_ptr<const ArrayValues> values = read(array, index);
    return values ? std::get<std::vector<T>>(*values) : std::vector<T>{};
  }
  /// [L, V] float32
  [[nodiscard]] std::vector<float> logits() const { return copy<float>(TraceArray::logits); }
  /// [L, D] float32, the input of layer `index`; index = layers: after the final norm
  [[nodiscard]] std::vector<float> hidden_states(int index) const {
    return copy<float>(TraceArray::hidden_states, index);
  }
};

/// All that is known of one run of one model on one text: O(L) per head, immutable, shared by const pointer. A live run
/// and a reopened run file give the same type. Safe to use from several threads.
class Trace {
 public:
  /// @param made_on  of made_on(); none: the GPU whose memory the store is in, if any
  Trace(TraceInfo info, std::shared_ptr<const Text> text, std::shared_ptr<const TokenTable> tokens,
        std::unique_ptr<const TraceSource> source, std::shared_ptr<const QueryKeyStore> store,
        std::optional<int> made_on = std::nullopt);

  [[nodiscard]] const TraceInfo& info() const { return info_; }
  [[nodiscard]] const std::shared_ptr<const Text>& text() const { return text_; }  ///< null with --ids
  [[nodiscard]] const std::shared_ptr<const TokenTable>& tokens() const { return tokens_; }
  [[nodiscard]] std::span<const float> per_token_loss() const;  ///< [L] nats; may be empty
  [[nodiscard]] const TraceSource& source() const { return *source_; }
  /// Whether an array was kept, of that layer where there are several.
  [[nodiscard]] bool has(TraceArray array, int index = 0) const;
  /// The store that has an array, Part::query with Part::key, or Part::value; null where it was not kept.
  [[nodiscard]] const QueryKeyStore* store_of(TraceArray array) const;
  [[nodiscard]] const QueryKeyStore* query_key() const { return store_of(TraceArray::query); }

  /// c of one head, [L] nats; where each channel decays the mean of P over channels, and zeros in a linear mixer
  /// without a decay. Layers are read when first asked for and then kept.
  /// @throws Error for a layer or head that does not exist, or gates that were not kept, with the remedy
  [[nodiscard]] std::span<const double> cumulative_log_gate(int layer, int head) const;
  /// P of the key head that a head of a linear mixer reads, [L, d] nats, where each channel decays; where it does so by
  /// a rate, made of c anew each time, so that no more than one head's is there at once. @throws Error likewise
  [[nodiscard]] ChannelSums cumulative_log_decay(int layer, int head) const;
  /// P of one channel, [L] nats. @throws Error likewise
  [[nodiscard]] std::vector<double> cumulative_log_decay(int layer, int head, int channel) const;
  /// P of all channels at a position, [d] nats. @throws Error likewise
  [[nodiscard]] std::vector<double> log_decay_at(int layer, int head, std::int64_t position) const;
  /// The delta rule's beta, or dt of Mamba and Mamba-2, [L]. @throws Error likewise
  [[nodiscard]] std::span<const float> beta(int layer, int head) const;
  /// e and b of the recurrence (MixerKind) of a layer that keeps them, [L, d]. @throws Error likewise
  [[nodiscard]] std::span<const float> erase_read(int layer, int head) const;
  [[nodiscard]] std::span<const float> erase_write(int layer, int head) const;
  /// [L] nats. @throws Error likewise
  [[nodiscard]] std::span<const float> log_normalizer(int layer, int head) const;
  /// The logit of a head's sink, which log_normalizer holds beside those of keys; none where the layer has no sinks.
  /// @throws Error likewise
  [[nodiscard]] std::optional<double> sink_logit(int layer, int head) const;
  /// Saliency: the gradient of info().saliency_target by log f of each position, [L] nats per nat.
  /// @throws Error likewise
  [[nodiscard]] std::span<const float> log_forget_gradient(int layer, int head) const;
  /// The experts that each position of a layer reads, [L, k] by rank; -1 in a layer without experts.
  /// @throws Error with the remedy where they were not kept, UsageError for a layer that does not exist
  [[nodiscard]] std::span<const std::int32_t> experts(int layer) const;
  /// The outputs of these experts are multiplied by these weights, [L, k]. @throws likewise
  [[nodiscard]] std::span<const float> expert_weights(int layer) const;
  /// The state behind the final norm, [L, D], bits of float16. @throws Error with the remedy where it was not kept
  [[nodiscard]] std::span<const std::uint16_t> prediction_state() const;
  /// Whether entries of attention can be computed: queries, keys and the row normalisers of this layer were kept; of a
  /// linear mixer queries, keys, beta and its decays.
  [[nodiscard]] bool has_attention(int layer) const { return !lacking(layer); }
  /// The first of these arrays that was not kept; none: entries can be computed, or the layer has no heads.
  [[nodiscard]] std::optional<TraceArray> lacking(int layer) const;

  /// The log-normaliser of softmax without the gate, [L] nats, kept in the trace once it is known: from the file, or
  /// from `compute`, which may return an empty vector to say that it was cancelled (then so is the result).
  std::span<const float> log_normalizer_without_gate(int layer, int head,
                                                     const std::function<std::vector<float>()>& compute) const;

  /// The sums of |M_ij| over each row of a linear mixer, [L], kept in the trace once they are known from `compute`,
  /// which may return an empty vector to say that it was cancelled (then so is the result).
  std::span<const float> row_sizes(int layer, int head, const std::function<std::vector<float>()>& compute) const;
  [[nodiscard]] bool knows_row_sizes(int layer, int head) const;

  /// Whether it is known already.
  [[nodiscard]] bool knows_log_normalizer_without_gate(int layer, int head) const;

  /// The GPU that the run was made on in this process, if kernels/cuda can use it; none of a run on a CPU or of a file.
  [[nodiscard]] std::optional<int> made_on() const { return made_on_; }
  /// The arrays of the trace in a GPU's memory for its maps, kept until the trace goes or another GPU is named.
  [[nodiscard]] std::shared_ptr<DeviceHeads> device_heads(int gpu) const;

  /// @throws UsageError naming the numbers that exist
  void check_layer(int layer) const;
  /// @throws UsageError naming the numbers that exist, or that the layer has none
  void check_head(int layer, int head) const;
  /// Queries and keys. @throws Error with the remedy where they were not kept
  [[nodiscard]] const QueryKeyStore& require_query_key() const;

 private:
  const ArrayValues* find(TraceArray array, int index) const;
  using HeadRows = std::map<std::pair<int, int>, std::vector<float>>;
  std::span<const double> mean_decay(int layer, int head) const;
  std::vector<double> decays_by_rates(int layer, int head, std::span<const double> sums) const;
  std::span<const float> known_or(HeadRows& rows, int layer, int head,
                                  const std::function<std::vector<float>()>& compute) const;
  template <typename T>
  std::span<const T> row(TraceArray array, int layer, int head) const;
  template <typename T>
  std::span<const T> part_of_layer(TraceArray array, int layer) const;

  TraceInfo info_;
  std::shared_ptr<const Text> text_;
  std::shared_ptr<const TokenTable> tokens_;
  std::unique_ptr<const TraceSource> source_;
  std::shared_ptr<const QueryKeyStore> store_;
  std::optional<int> made_on_;
  std::shared_ptr<const ArrayValues> per_token_loss_;
  mutable std::mutex mutex_;
  mutable std::map<std::pair<TraceArray, int>, std::shared_ptr<const ArrayValues>> arrays_;
  mutable std::map<std::pair<int, int>, std::vector<double>> mean_decay_;  ///< of linear mixers without c
  mutable HeadRows without_gate_;
  mutable HeadRows row_sizes_;
  mutable std::shared_ptr<DeviceHeads> device_heads_;
};

}  // namespace foxscope
