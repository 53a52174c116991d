#include "backend/trace/trace_arrays.h"

#include <string_view>

#include <fmt/format.h>

#include "backend/base/error.h"

namespace foxscope {

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
  constexpr std::array<const char*, 7> kNames = {"layer",   "head",       "key_head", "position",
                                                 "channel", "vocabulary", "hidden"};
  return kNames[static_cast<std::size_t>(axis)];
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

std::int64_t extent_of(Axis axis, const TraceSizes& sizes) {
  switch (axis) {
    case Axis::layer:
      return sizes.layers;
    case Axis::head:
      return sizes.heads;
    case Axis::key_head:
      return sizes.key_heads;
    case Axis::position:
      return sizes.length;
    case Axis::channel:
      return sizes.head_dim;
    case Axis::vocabulary:
      return sizes.vocabulary_size;
    case Axis::hidden:
      break;
  }
  return sizes.hidden_size;
}

std::vector<std::uint64_t> shape_of(const ArraySpec& spec, const TraceSizes& sizes) {
  std::vector<std::uint64_t> shape;
  for (const Axis axis : spec.axes) shape.push_back(static_cast<std::uint64_t>(extent_of(axis, sizes)));
  return shape;
}

std::size_t elements_of(const ArraySpec& spec, const TraceSizes& sizes) {
  std::size_t elements = 1;
  for (const Axis axis : spec.axes) elements *= static_cast<std::size_t>(extent_of(axis, sizes));
  return elements;
}

std::size_t size_of(ArrayNumber number, DType dtype) {
  if (number == ArrayNumber::run) return size_of(dtype);
  return number == ArrayNumber::float64 ? 8 : 4;
}

std::size_t bytes_of(const ArraySpec& spec, const TraceSizes& sizes, DType dtype) {
  return static_cast<std::size_t>(count_of(spec, sizes.layers)) * elements_of(spec, sizes) *
         size_of(spec.number, dtype);
}

std::size_t bytes_of(const KeepSet& keep, Storage storage, const TraceSizes& sizes, DType dtype) {
  std::size_t bytes = 0;
  for (const ArraySpec& spec : kTraceArrays) {
    if (spec.storage == storage && keep.contains(spec.keep)) bytes += bytes_of(spec, sizes, dtype);
  }
  return bytes;
}

std::vector<TraceArray> stored_arrays(const KeepSet& keep) {
  std::vector<TraceArray> arrays;
  for (const ArraySpec& spec : kTraceArrays) {
    if (spec.storage == Storage::store && keep.contains(spec.keep)) arrays.push_back(spec.array);
  }
  return arrays;
}

}  // namespace foxscope
