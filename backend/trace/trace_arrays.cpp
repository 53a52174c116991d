#include "backend/trace/trace_arrays.h"

#include <utility>

#include <fmt/format.h>

#include "backend/base/error.h"

namespace foxscope {
namespace {

constexpr std::array<const char*, 5> kMixerNames = {"attention", "mamba2", "gated_linear_attention", "delta_rule",
                                                    "mamba"};
constexpr std::array<const char*, 4> kDecayNames = {"none", "head", "channel", "rates"};

template <typename Word, std::size_t N>
std::optional<Word> find_word(const std::array<const char*, N>& names, std::string_view name) {
  const auto found = std::ranges::find(names, name);
  if (found == names.end()) return std::nullopt;
  return static_cast<Word>(found - names.begin());
}

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

const char* to_string(Mixer mixer) { return kMixerNames[static_cast<std::size_t>(mixer)]; }
std::optional<Mixer> parse_mixer(std::string_view name) { return find_word<Mixer>(kMixerNames, name); }
const char* to_string(Decay decay) { return kDecayNames[static_cast<std::size_t>(decay)]; }
std::optional<Decay> parse_decay(std::string_view name) { return find_word<Decay>(kDecayNames, name); }

std::string mixer_problem(const LayerMixer& mixer) {
  if (mixer.heads < 1) return "there are no heads";
  for (const auto& [heads, what] : {std::pair(mixer.query_heads, "query"), std::pair(mixer.key_heads, "key"),
                                    std::pair(mixer.value_heads, "value")}) {
    if (heads < 1 || mixer.heads % heads != 0) {
      return fmt::format("{} heads cannot share {} {} heads", mixer.heads, heads, what);
    }
  }
  if (mixer.head_dim < 1 || mixer.value_dim < 1) return "a head has no channels";
  const bool by_channel = mixer.decay == Decay::channel;
  if (by_channel != (mixer.mixer == Mixer::gated_linear_attention) ||
      (mixer.decay == Decay::rates) != (mixer.mixer == Mixer::mamba) ||
      (mixer.mixer == Mixer::mamba2 && mixer.decay == Decay::none)) {
    return fmt::format("{} cannot have a decay by {}", to_string(mixer.mixer), to_string(mixer.decay));
  }
  return {};
}

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
  constexpr std::array<const char*, 10> kNames = {"layer",    "head",    "query_head",    "key_head",   "value_head",
                                                  "position", "channel", "value_channel", "vocabulary", "hidden"};
  return kNames[static_cast<std::size_t>(axis)];
}

Axis axis_of(Axis axis, Mixer mixer) {
  if (mixer != Mixer::attention) return axis;
  if (axis == Axis::query_head) return Axis::head;
  if (axis == Axis::value_head) return Axis::key_head;
  return axis == Axis::value_channel ? Axis::channel : axis;
}

LayerMixer TraceSizes::mixer(int layer) const {
  if (!mixers.empty()) return mixers.at(static_cast<std::size_t>(layer));
  return {Mixer::attention, Decay::head, heads, heads, key_heads, key_heads, head_dim, head_dim};
}

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
  const bool attention = mixer.mixer == Mixer::attention;
  switch (spec.array) {
    case TraceArray::cumulative_log_gate:
      return attention || mixer.decay == Decay::head || mixer.decay == Decay::rates;
    case TraceArray::cumulative_log_decay:
      return mixer.decay == Decay::channel;
    case TraceArray::decay_rate:
      return mixer.decay == Decay::rates;
    case TraceArray::beta:
      return mixer.mixer == Mixer::mamba2 || mixer.mixer == Mixer::delta_rule || mixer.mixer == Mixer::mamba;
    case TraceArray::log_normalizer:
    case TraceArray::log_normalizer_without_gate:
      return attention;
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
  const bool linear =
      std::ranges::any_of(sizes.mixers, [](const LayerMixer& m) { return m.mixer != Mixer::attention; });
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
