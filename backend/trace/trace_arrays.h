#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "backend/base/index.h"
#include "backend/trace/dtype.h"
#include "backend/trace/mixers/layer_mixer.h"

namespace foxscope {

/// The parts of a run that a trace may keep, word by word of `--keep`.
enum class Keep { loss, gates, rows, ungated, query_key, values, logits, hidden, predictions, saliency, experts };
using KeepSet = std::set<Keep>;

struct KeepWord {
  Keep keep;
  const char* word;   ///< of --keep
  const char* title;  ///< "the run did not keep ..."
};

inline constexpr std::array<KeepWord, 11> kKeepWords = {{
    {Keep::loss, "loss", "losses"},
    {Keep::gates, "gates", "gates"},
    {Keep::rows, "rows", "row normalisers"},
    {Keep::ungated, "ungated", "row normalisers without gates"},
    {Keep::query_key, "qk", "queries and keys"},
    {Keep::values, "values", "values"},
    {Keep::logits, "logits", "logits"},
    {Keep::hidden, "hidden", "hidden states"},
    {Keep::predictions, "predictions", "predictions"},
    {Keep::saliency, "saliency", "saliency"},
    {Keep::experts, "experts", "chosen experts"},
}};

constexpr const KeepWord& word_of(Keep keep) { return kKeepWords[index_of(keep)]; }
/// All words with `between` between them.
std::string keep_words(const char* between);
/// Parses "loss,gates,qk".  @throws UsageError naming the word and those that exist
KeepSet parse_keep(const std::string& list);

/// Every array of a run, but for its tokens.
enum class TraceArray {
  per_token_loss,
  cumulative_log_gate,
  log_normalizer,
  log_normalizer_without_gate,
  query,
  key,
  value,
  cumulative_log_decay,
  decay_rate,
  beta,
  erase_read,
  erase_write,
  log_forget_gradient,
  logits,
  hidden_states,
  prediction_state,
  sink_logit,
  expert,
  expert_weight,
};

/// Axes of arrays, which are dimension scales of a run file.
enum class Axis {
  layer,
  head,
  query_head,
  key_head,
  value_head,
  position,
  channel,
  value_channel,
  vocabulary,
  hidden,
  choice,
};
/// Name of the dimension scale.
const char* to_string(Axis axis);
/// The axis by the name that a mixer has for it: softmax attention has as many queries as heads, and values are like
/// its keys.
Axis axis_of(Axis axis, const LayerMixer& mixer);

/// Extents of the axes; 0 where one is not known.
struct TraceSizes {
  int layers = 0;
  int heads = 0;                     ///< H, query heads
  int key_heads = 0;                 ///< H_kv; query head h reads key head h / (H / H_kv)
  std::int64_t length = 0;           ///< L, positions
  int head_dim = 0;                  ///< d
  std::int64_t vocabulary_size = 0;  ///< V
  std::int64_t hidden_size = 0;      ///< D
  int chosen_experts = 0;            ///< k, experts that a position reads of a layer's mixture; 0: there is none
  /// One a layer; empty: softmax attention in every one. Where there are any, heads, key_heads and head_dim are each
  /// the largest of all layers.
  std::vector<LayerMixer> mixers = {};

  /// The mixer of one layer.
  [[nodiscard]] LayerMixer mixer(int layer) const;
  /// Whether any layer is softmax attention.
  [[nodiscard]] bool has_softmax() const;
  /// Heads of all layers together, which need not have equally many.
  [[nodiscard]] std::int64_t head_count() const;
  /// Layers, heads, key_heads and head_dim from what each layer is.
  void set_mixers(std::vector<LayerMixer> of_layers);
};

/// How often a run has an array.
enum class Repeat {
  once,
  layers,             ///< one a layer
  layers_and_output,  ///< one a layer, and one behind the last
};

/// Number format of an array.
enum class ArrayNumber { float32, float64, float16, int32, run };  ///< run: the run's DType

/// How an array is held while a model runs, and how it lies in a run file.
enum class Storage {
  packed,  ///< in host memory; in compressed chunks, of two axes at most
  raw,     ///< in host memory; in one piece
  store,   ///< in a QueryKeyStore, where it may be in a temporary file or on a GPU; in one piece, read by tile
};

/// The axes of an array, the slowest first; three at most.
class AxisList {
 public:
  constexpr AxisList(std::initializer_list<Axis> axes) : size_(axes.size()) { std::ranges::copy(axes, axes_.begin()); }
  [[nodiscard]] constexpr const Axis* begin() const { return axes_.data(); }
  [[nodiscard]] constexpr const Axis* end() const { return axes_.data() + size_; }
  [[nodiscard]] constexpr std::size_t size() const { return size_; }

 private:
  std::array<Axis, 3> axes_{};
  std::size_t size_;
};

/// The description of an array, wherever it is recorded, written, read, or its size estimated.
struct ArraySpec {
  TraceArray array;
  Keep keep;         ///< the word that keeps it
  const char* path;  ///< in a run file, below the model's group; NN is the layer
  Repeat repeat;
  AxisList axes;
  ArrayNumber number;
  Storage storage;
  const char* units;      ///< attribute `units`; empty: a pure number
  const char* long_name;  ///< attribute `long_name`
};

// clang-format off
inline constexpr std::array<ArraySpec, 19> kTraceArrays = {{
    {TraceArray::per_token_loss, Keep::loss, "loss/per_token_loss", Repeat::once, {Axis::position},
     ArrayNumber::float32, Storage::packed, "nats", "loss of the token that a position predicts"},
    {TraceArray::cumulative_log_gate, Keep::gates, "layers/NN/cumulative_log_gate", Repeat::layers,
     {Axis::head, Axis::position}, ArrayNumber::float64, Storage::packed, "nats",
     "c, the sum of log forget gates up to and including a position"},
    {TraceArray::log_normalizer, Keep::rows, "layers/NN/log_normalizer", Repeat::layers,
     {Axis::head, Axis::position}, ArrayNumber::float32, Storage::packed, "nats",
     "log of the sum over a row of exp(logit + c_i - c_j)"},
    {TraceArray::log_normalizer_without_gate, Keep::ungated, "layers/NN/log_normalizer_without_gate", Repeat::layers,
     {Axis::head, Axis::position}, ArrayNumber::float32, Storage::packed, "nats",
     "log of the sum over a row of exp(logit)"},
    {TraceArray::query, Keep::query_key, "layers/NN/query", Repeat::layers,
     {Axis::query_head, Axis::position, Axis::channel}, ArrayNumber::run, Storage::store, "",
     "queries as they enter the mixer"},
    {TraceArray::key, Keep::query_key, "layers/NN/key", Repeat::layers,
     {Axis::key_head, Axis::position, Axis::channel}, ArrayNumber::run, Storage::store, "",
     "keys as they enter the mixer"},
    {TraceArray::value, Keep::values, "layers/NN/value", Repeat::layers,
     {Axis::value_head, Axis::position, Axis::value_channel}, ArrayNumber::run, Storage::store, "",
     "values as they enter the mixer"},
    {TraceArray::cumulative_log_decay, Keep::gates, "layers/NN/cumulative_log_decay", Repeat::layers,
     {Axis::key_head, Axis::position, Axis::channel}, ArrayNumber::float64, Storage::raw, "nats",
     "the sum of log decays of a channel up to and including a position"},
    {TraceArray::decay_rate, Keep::gates, "layers/NN/decay_rate", Repeat::layers,
     {Axis::head, Axis::channel}, ArrayNumber::float64, Storage::raw, "",
     "log decay of a channel in parts of the mean over its head's channels, which c sums up"},
    {TraceArray::beta, Keep::query_key, "layers/NN/beta", Repeat::layers,
     {Axis::head, Axis::position}, ArrayNumber::float32, Storage::packed, "",
     "how much of a position is written: the delta rule's beta, the step of Mamba and Mamba-2"},
    {TraceArray::erase_read, Keep::query_key, "layers/NN/erase_read", Repeat::layers,
     {Axis::key_head, Axis::position, Axis::channel}, ArrayNumber::float32, Storage::raw, "",
     "e, what a position reads of the state before it, to be taken away along b"},
    {TraceArray::erase_write, Keep::query_key, "layers/NN/erase_write", Repeat::layers,
     {Axis::key_head, Axis::position, Axis::channel}, ArrayNumber::float32, Storage::raw, "",
     "b, the direction along which what e read is added to the state"},
    {TraceArray::log_forget_gradient, Keep::saliency, "gradients/log_forget", Repeat::once,
     {Axis::layer, Axis::head, Axis::position}, ArrayNumber::float32, Storage::raw, "nats per nat",
     "derivative of the target by the log forget gate of a position"},
    {TraceArray::logits, Keep::logits, "logits", Repeat::once, {Axis::position, Axis::vocabulary},
     ArrayNumber::float32, Storage::raw, "", "logits of the token that a position predicts"},
    {TraceArray::hidden_states, Keep::hidden, "hidden_states/NN", Repeat::layers_and_output,
     {Axis::position, Axis::hidden}, ArrayNumber::float32, Storage::raw, "",
     "input of a layer; the last is behind the final norm"},
    {TraceArray::prediction_state, Keep::predictions, "predictions/hidden_state", Repeat::once,
     {Axis::position, Axis::hidden}, ArrayNumber::float16, Storage::raw, "",
     "state behind the final norm, whose product with the rows of the head is the logits of the next token"},
    {TraceArray::sink_logit, Keep::rows, "layers/NN/sink_logit", Repeat::layers, {Axis::head}, ArrayNumber::float32,
     Storage::packed, "", "logit of a head's sink, which every row's sum holds beside those of keys"},
    {TraceArray::expert, Keep::experts, "experts/expert", Repeat::once, {Axis::layer, Axis::position, Axis::choice},
     ArrayNumber::int32, Storage::raw, "", "experts that a position reads; -1 in a layer without experts"},
    {TraceArray::expert_weight, Keep::experts, "experts/weight", Repeat::once,
     {Axis::layer, Axis::position, Axis::choice}, ArrayNumber::float32, Storage::raw, "",
     "what the output of such an expert is multiplied by"},
}};
// clang-format on

constexpr const ArraySpec& spec_of(TraceArray array) { return kTraceArrays[index_of(array)]; }
static_assert(std::ranges::all_of(kTraceArrays, [](const ArraySpec& spec) { return &spec_of(spec.array) == &spec; }));
static_assert(std::ranges::all_of(kKeepWords, [](const KeepWord& word) { return &word_of(word.keep) == &word; }));

static_assert(std::ranges::all_of(kTraceArrays, [](const ArraySpec& spec) {
  return spec.storage != Storage::packed || spec.axes.size() <= 2;
}));

/// How many of an array a run of so many layers has.
int count_of(const ArraySpec& spec, int layers);
/// Whether a layer of that kind has an array: softmax attention has row normalisers, and logits of sinks if any; heads
/// with one decay, with rates or without, have c (zero for attention without a gate); both Mambas and the delta rule
/// have beta.
bool belongs_to(const ArraySpec& spec, const LayerMixer& mixer);
/// The path of an array for layer `index`, which has two digits or more.
std::string path_of(const ArraySpec& spec, int index);
/// The last part of its path.
std::string name_of(const ArraySpec& spec);
/// The extents of an array; of layer `index` if there is one a layer.
std::vector<std::uint64_t> shape_of(const ArraySpec& spec, const TraceSizes& sizes, int index);
/// How many numbers such an array has; 0 in a layer that has none.
std::size_t elements_of(const ArraySpec& spec, const TraceSizes& sizes, int index);
/// Bytes of one number.
std::size_t size_of(ArrayNumber number, DType dtype);
/// Bytes of all of an array together.
std::size_t bytes_of(const ArraySpec& spec, const TraceSizes& sizes, DType dtype);
/// Bytes of all arrays that are kept and held in this way.
std::size_t bytes_of(const KeepSet& keep, Storage storage, const TraceSizes& sizes, DType dtype);

/// The parts that these words keep: linear mixers keep values beside queries and keys, so that a file holds all that y
/// = M v needs.
KeepSet with_values_of_linear_mixers(KeepSet keep, const TraceSizes& sizes);

/// The arrays that a QueryKeyStore holds where these are kept.
std::vector<TraceArray> stored_arrays(const KeepSet& keep);

}  // namespace foxscope
