#include "backend/trace/trace_arrays.h"

#include <utility>

#include <fmt/format.h>

#include "backend/base/error.h"
#include "backend/base/index.h"

namespace foxscope {
namespace {

/// Extent of an axis in one layer, or of the whole run.
std::int64_t extent_of(Axis axis, const TraceSizes& sizes, const LayerMixer& mixer) {
  switch (axis) {
    case Axis::layer:
      return sizes.layers;
    case Axis::head:
      return mixer.heads;
    case Axis::query_head:
      return mixer.query_heads;
    case Axis::key_head:
      return mixer.key_heads;
    case Axis::value_head:
      return mixer.value_heads;
    case Axis::position:
      return sizes.length;
    case Axis::channel:
      return mixer.head_dim;
    case Axis::value_channel:
      return mixer.value_dim;
    case Axis::vocabulary:
      return sizes.vocabulary_size;
    case Axis::choice:
      return sizes.chosen_experts;
    case Axis::hidden:
      break;
  }
  return sizes.hidden_size;
}

/// Extents that belong to an array: those of its layer, or the largest of all.
LayerMixer extents_for(const ArraySpec& spec, const TraceSizes& sizes, int index) {
  if (spec.repeat == Repeat::layers) return sizes.mixer(index);
  LayerMixer largest;
  largest.heads = sizes.heads;
  return largest;
}

}  // namespace

std::string keep_words(const char* between) {
  std::string words;
  for (const KeepWord& word : kKeepWords) words += (words.empty() ? "" : between) + std::string(word.word);
  return words;
}

KeepSet parse_keep(const std::string& list) {
  KeepSet keep;
  std::size_t begin = 0;
  while (begin <= list.size()) {
    const std::size_t end = std::min(list.find(',', begin), list.size());
    const std::string word = list.substr(begin, end - begin);
    const auto* const found = std::ranges::find(kKeepWords, std::string_view(word), &KeepWord::word);
    if (found == kKeepWords.end()) {
      throw UsageError(fmt::format("--keep: '{}' is not known: choose from {}", word, keep_words(", ")));
    }
    keep.insert(found->keep);
    begin = end + 1;
  }
  return keep;
}

const char* to_string(Axis axis) {
  constexpr std::array<const char*, 11> kNames = {"layer",      "head",     "query_head", "key_head",
                                                  "value_head", "position", "channel",    "value_channel",
                                                  "vocabulary", "hidden",   "choice"};
  return kNames[index_of(axis)];
}

Axis axis_of(Axis axis, const LayerMixer& mixer) {
  if (!mixer.has_softmax()) return axis;
  if (axis == Axis::query_head) return Axis::head;
  if (axis == Axis::value_head) return Axis::key_head;
  return axis == Axis::value_channel ? Axis::channel : axis;
}

LayerMixer TraceSizes::mixer(int layer) const {
  if (!mixers.empty()) return mixers.at(static_cast<std::size_t>(layer));
  return attention_layer(heads, key_heads, head_dim);
}

bool TraceSizes::has_softmax() const { return mixers.empty() || std::ranges::any_of(mixers, &LayerMixer::has_softmax); }

std::int64_t TraceSizes::head_count() const {
  std::int64_t count = 0;
  for (int layer = 0; layer < layers; ++layer) count += mixer(layer).heads;
  return count;
}

void TraceSizes::set_mixers(std::vector<LayerMixer> of_layers) {
  mixers = std::move(of_layers);
  layers = static_cast<int>(mixers.size());
  heads = 0;
  key_heads = 0;
  head_dim = 0;
  for (const LayerMixer& mixer : mixers) {
    heads = std::max(heads, mixer.heads);
    key_heads = std::max(key_heads, mixer.key_heads);
    head_dim = std::max(head_dim, mixer.head_dim);
  }
}

bool belongs_to(const ArraySpec& spec, const LayerMixer& mixer) {
  if (spec.repeat == Repeat::layers && !mixer.kind().mixes) return false;
  switch (spec.array) {
    case TraceArray::cumulative_log_gate:
      return mixer.sums_heads();
    case TraceArray::cumulative_log_decay:
      return mixer.sums_channels();
    case TraceArray::decay_rate:
      return mixer.has_rates();
    case TraceArray::beta:
      return mixer.kind().writes_beta;
    case TraceArray::erase_read:
    case TraceArray::erase_write:
      return mixer.keeps_erasing();
    case TraceArray::log_normalizer:
    case TraceArray::log_normalizer_without_gate:
      return mixer.has_softmax();
    case TraceArray::sink_logit:
      return mixer.sinks;
    default:
      return true;
  }
}

int count_of(const ArraySpec& spec, int layers) {
  if (spec.repeat == Repeat::once) return 1;
  return spec.repeat == Repeat::layers ? layers : layers + 1;
}

std::string path_of(const ArraySpec& spec, int index) {
  std::string path = spec.path;
  if (spec.repeat != Repeat::once) path.replace(path.find("NN"), 2, fmt::format("{:02}", index));
  return path;
}

std::string name_of(const ArraySpec& spec) {
  const std::string path = spec.path;
  return path.substr(path.rfind('/') + 1);
}

std::vector<std::uint64_t> shape_of(const ArraySpec& spec, const TraceSizes& sizes, int index) {
  const LayerMixer extents = extents_for(spec, sizes, index);
  std::vector<std::uint64_t> shape;
  for (const Axis axis : spec.axes) shape.push_back(static_cast<std::uint64_t>(extent_of(axis, sizes, extents)));
  return shape;
}

std::size_t elements_of(const ArraySpec& spec, const TraceSizes& sizes, int index) {
  const LayerMixer extents = extents_for(spec, sizes, index);
  if (spec.repeat == Repeat::layers && !belongs_to(spec, extents)) return 0;
  std::size_t elements = 1;
  for (const Axis axis : spec.axes) elements *= static_cast<std::size_t>(extent_of(axis, sizes, extents));
  return elements;
}

std::size_t size_of(ArrayNumber number, DType dtype) {
  if (number == ArrayNumber::run) return size_of(dtype);
  if (number == ArrayNumber::float16) return 2;
  return number == ArrayNumber::float64 ? 8 : 4;
}

std::size_t bytes_of(const ArraySpec& spec, const TraceSizes& sizes, DType dtype) {
  std::size_t elements = 0;
  for (int index = 0; index < count_of(spec, sizes.layers); ++index) elements += elements_of(spec, sizes, index);
  return elements * size_of(spec.number, dtype);
}

std::size_t bytes_of(const KeepSet& keep, Storage storage, const TraceSizes& sizes, DType dtype) {
  std::size_t bytes = 0;
  for (const ArraySpec& spec : kTraceArrays) {
    if (spec.storage == storage && keep.contains(spec.keep)) bytes += bytes_of(spec, sizes, dtype);
  }
  return bytes;
}

KeepSet with_values_of_linear_mixers(KeepSet keep, const TraceSizes& sizes) {
  const bool linear = !std::ranges::all_of(sizes.mixers, &LayerMixer::has_softmax);
  if (linear && keep.contains(Keep::query_key)) keep.insert(Keep::values);
  return keep;
}

std::vector<TraceArray> stored_arrays(const KeepSet& keep) {
  std::vector<TraceArray> arrays;
  for (const ArraySpec& spec : kTraceArrays) {
    if (spec.storage == Storage::store && keep.contains(spec.keep)) arrays.push_back(spec.array);
  }
  return arrays;
}

}  // namespace foxscope
