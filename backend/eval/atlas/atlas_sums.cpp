#include "backend/eval/atlas/atlas_sums.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <numeric>
#include <utility>

#include "backend/base/error.h"
#include "backend/base/index.h"
#include "backend/trace/dtype.h"

namespace foxscope {
namespace {

using Words = std::vector<std::int64_t>;

bool before_by_value(const AtlasPlace& a, const AtlasPlace& b) {
  return std::pair(a.value, a.window) < std::pair(b.value, b.window);
}
bool before_by_size(const AtlasPlace& a, const AtlasPlace& b) {
  return std::pair(-a.value, a.window) < std::pair(-b.value, b.window);
}
bool before_by_priority(const AtlasPlace& a, const AtlasPlace& b) {
  return std::pair(a.priority, a.window) < std::pair(b.priority, b.window);
}

auto order_of(AtlasList list) {
  return list == AtlasList::resets ? before_by_value : list == AtlasList::samples ? before_by_priority : before_by_size;
}

void add_or_take(const Words& more, Words& to) {
  if (to.empty()) {
    to = more;
  } else {
    if (to.size() != more.size()) throw Error("sums of an atlas have other sizes than those before them");
    add_whole(more, to);
  }
}

void put_list(Words& words, std::span<const std::int64_t> list) {
  words.push_back(std::ssize(list));
  words.insert(words.end(), list.begin(), list.end());
}

/// Words that the numbers around a place take.
constexpr std::size_t kSurroundingWords = (kSurrounding * sizeof(std::uint16_t) + 7) / 8;

void put_places(Words& words, const std::vector<std::vector<AtlasPlace>>& lists) {
  for (const auto& list : lists) {
    words.push_back(std::ssize(list));
    for (const AtlasPlace& place : list) {
      words.insert(words.end(), {std::int64_t{std::bit_cast<std::int32_t>(place.value)}, place.window, place.position,
                                 std::bit_cast<std::int64_t>(place.priority)});
      words.resize(words.size() + kSurroundingWords);
      std::memcpy(&words[words.size() - kSurroundingWords], place.log_gate.data(), sizeof(place.log_gate));
    }
  }
}

/// Words, taken one after the other.
class WordReader {
 public:
  explicit WordReader(std::span<const std::int64_t> words) : words_(words) {}
  std::int64_t one() { return take(1)[0]; }
  std::span<const std::int64_t> take(std::int64_t count) {
    if (count < 0 || count > std::ssize(words_)) throw Error("sums of an atlas are cut short");
    const auto taken = words_.first(index_of(count));
    words_ = words_.subspan(index_of(count));
    return taken;
  }
  std::span<const std::int64_t> list() { return take(one()); }
  Words numbers() {
    const auto taken = list();
    return {taken.begin(), taken.end()};
  }
  AtlasPlace place() {
    const auto words = take(4);
    AtlasPlace place{std::bit_cast<float>(static_cast<std::int32_t>(words[0])), words[1], words[2],
                     std::bit_cast<std::uint64_t>(words[3])};
    std::memcpy(place.log_gate.data(), take(kSurroundingWords).data(), sizeof(place.log_gate));
    return place;
  }

 private:
  std::span<const std::int64_t> words_;
};

/// Adds a b and what rounding takes from it.
void add_exact_product(double a, double b, std::span<std::int64_t, kExactLimbs> sum) {
  add_exactly(a * b, sum);
  add_exactly(std::fma(a, b, -(a * b)), sum);
}

}  // namespace

double log_gate_bin(std::size_t bin) { return bin == 0 ? 0 : std::exp2(-24 + (static_cast<double>(bin) - 1) / 16); }

const AtlasSumSpec& spec_of(AtlasSum sum) {
  using enum AtlasAxis;
  static const std::array<AtlasSumSpec, kAtlasSums> kSpecs = {{
      {"token_count", {token}, false},
      {"token_log_gate", {head, token}, false},
      {"token_below_half", {head, token}, false},
      {"token_received", {head, token}, true},
      {"token_documents", {error_token}, false},
      {"token_count_square", {error_token, limb}, false},
      {"token_log_gate_square", {head, error_token, limb}, false},
      {"token_log_gate_count", {head, error_token, limb}, false},
      {"log_gate_histogram", {head, log_gate_bin}, false},
      {"reset_gap", {head, gap}, false},
      {"class_count", {token_class}, false},
      {"class_log_gate", {head, token_class}, false},
      {"class_resets", {head, token_class}, false},
      {"class_histogram", {head, token_class, log_gate_bin}, false},
      {"class_documents", {token_class}, false},
      {"class_count_square", {token_class, limb}, false},
      {"class_log_gate_square", {head, token_class, limb}, false},
      {"class_log_gate_count", {head, token_class, limb}, false},
      {"class_resets_square", {head, token_class, limb}, false},
      {"class_resets_count", {head, token_class, limb}, false},
      {"class_shifted", {head, reset_class, shift}, false},
      {"log_gate", {head, limb}, false},
      {"log_gate_product", {pair, limb}, false},
      {"first_log_gate_product", {head, first_head, limb}, false},
      {"mass_count", {AtlasAxis::mass_count}, true},
      {"mass", {head, limb}, true},
      {"mass_product", {pair, limb}, true},
      {"first_mass_product", {head, first_head, limb}, true},
      {"row_variance", {entry, head, limb}, true},
  }};
  return kSpecs[index_of(sum)];
}

std::size_t size_of(AtlasAxis axis, const AtlasShape& shape) {
  const std::size_t heads = shape.head_count();
  switch (axis) {
    case AtlasAxis::head:
      return heads;
    case AtlasAxis::token:
      return index_of(shape.vocabulary);
    case AtlasAxis::error_token:
      return shape.error_tokens();
    case AtlasAxis::log_gate_bin:
      return kLogGateBins;
    case AtlasAxis::gap:
      return kGapBins;
    case AtlasAxis::token_class:
      return kBoundaryClasses;
    case AtlasAxis::reset_class:
      return kResetClasses;
    case AtlasAxis::shift:
      return kShifts;
    case AtlasAxis::pair:
      return heads * (heads + 1) / 2;
    case AtlasAxis::first_head:
      return index_of(shape.first_heads);
    case AtlasAxis::entry:
      return shape.entries();
    case AtlasAxis::mass_count:
      return 1;
    case AtlasAxis::limb:
      return kExactLimbs;
  }
  return 0;
}

std::size_t size_of(AtlasSum sum, const AtlasShape& shape) {
  const AtlasSumSpec& spec = spec_of(sum);
  if (spec.of_rows && shape.rows == 0) return 0;
  std::size_t size = 1;
  for (const AtlasAxis axis : spec.axes) size *= size_of(axis, shape);
  return size;
}

std::uint16_t surrounding_log_gate(float log_gate) {
  constexpr unsigned kLeftOut = 4;  // bits of the ten of a fraction
  const unsigned bits = to_float16(log_gate);
  return static_cast<std::uint16_t>((bits + (1U << (kLeftOut - 1))) >> kLeftOut << kLeftOut);
}

const char* to_string(AtlasList list) {
  constexpr std::array kNames = {"resets", "reach", "gain", "samples"};
  return kNames[index_of(list)];
}

AtlasSums::AtlasSums(const AtlasShape& shape) : shape_(shape) {
  for (std::size_t n = 0; n < kAtlasSums; ++n) sums_[n].resize(size_of(static_cast<AtlasSum>(n), shape));
  for (auto& lists : places_) lists.resize(shape.head_count());
}

std::int64_t AtlasSums::bytes(const AtlasShape& shape) {
  std::size_t words = 0;
  for (std::size_t n = 0; n < kAtlasSums; ++n) words += size_of(static_cast<AtlasSum>(n), shape);
  const std::size_t places = shape.head_count() * (3 * index_of(shape.passages) + shape.sampled());
  return static_cast<std::int64_t>(words * sizeof(std::int64_t) + places * sizeof(AtlasPlace));
}

void AtlasSums::clear() {
  for (auto& values : sums_) std::ranges::fill(values, 0);
  for (auto& lists : places_) {
    for (auto& list : lists) list.clear();
  }
  open_.clear();
  classes_.clear();
  documents_.clear();
  windows.clear();
}

std::span<std::int64_t> AtlasSums::row(AtlasSum sum, std::size_t head) {
  auto& values = sums_[index_of(sum)];
  const std::size_t size = values.size() / shape_.head_count();
  return std::span(values).subspan(head * size, size);
}

std::span<const std::int64_t> AtlasSums::row(AtlasSum sum, std::size_t head) const {
  return const_cast<AtlasSums*>(this)->row(sum, head);
}

std::size_t AtlasSums::most(AtlasList list) const {
  return list == AtlasList::samples ? shape_.sampled() : index_of(shape_.passages);
}

bool AtlasSums::takes_place(AtlasList list, std::size_t head, const AtlasPlace& place) const {
  const std::vector<AtlasPlace>& places = places_[index_of(list)][head];
  return places.size() < most(list) || (!places.empty() && order_of(list)(place, places.back()));
}

void AtlasSums::add_place(AtlasList list, std::size_t head, const AtlasPlace& place) {
  if (!takes_place(list, head, place)) return;
  std::vector<AtlasPlace>& places = places_[index_of(list)][head];
  if (places.size() == most(list)) places.pop_back();
  places.insert(std::ranges::upper_bound(places, place, order_of(list)), place);
}

DocumentSums& AtlasSums::document(std::int32_t document) {
  DocumentSums& sums = open_[document];
  const std::size_t numbers = shape_.entries() * shape_.head_count();
  sums.sum.resize(numbers * kExactLimbs);
  sums.count.resize(numbers);
  sums.classes.resize(kBoundaryClasses * (1 + 2 * shape_.head_count()));
  return sums;
}

void AtlasSums::add_product(AtlasSum sum, std::size_t index, double a, double b) {
  add_exact_product(a, b, exact(sum, index));
}

void AtlasSums::close_tokens(const DocumentSums& of) {
  const std::size_t tokens = shape_.error_tokens();
  for (const auto& [id, values] : of.tokens) {
    const auto token = index_of(id);
    const auto readings = static_cast<double>(values[0]);
    ++at(AtlasSum::token_documents)[token];
    add_product(AtlasSum::token_count_square, token, readings, readings);
    for (std::size_t head = 0; head < shape_.head_count(); ++head) {
      const double sum = static_cast<double>(values[1 + head]) * kTokenLogGateUnit;
      if (sum == 0) continue;
      add_product(AtlasSum::token_log_gate_square, head * tokens + token, sum, sum);
      add_product(AtlasSum::token_log_gate_count, head * tokens + token, sum, readings);
    }
  }
}

void AtlasSums::close_classes(const DocumentSums& of) {
  const std::size_t heads = shape_.head_count();
  for (std::size_t n = 0; n < kBoundaryClasses; ++n) {
    const auto values = std::span(of.classes).subspan(n * (1 + 2 * heads), 1 + 2 * heads);
    const auto readings = static_cast<double>(values[0]);
    if (readings == 0) continue;
    ++at(AtlasSum::class_documents)[n];
    add_product(AtlasSum::class_count_square, n, readings, readings);
    for (std::size_t head = 0; head < heads; ++head) {
      const std::size_t index = head * kBoundaryClasses + n;
      const double sum = static_cast<double>(values[1 + head]) * kLogGateUnit;
      const auto resets = static_cast<double>(values[1 + heads + head]);
      add_product(AtlasSum::class_log_gate_square, index, sum, sum);
      add_product(AtlasSum::class_log_gate_count, index, sum, readings);
      add_product(AtlasSum::class_resets_square, index, resets, resets);
      add_product(AtlasSum::class_resets_count, index, resets, readings);
    }
  }
}

void AtlasSums::close_documents(std::span<const std::int64_t> windows_of) {
  const std::size_t numbers = shape_.entries() * shape_.head_count();
  for (auto it = open_.begin(); it != open_.end();) {
    const DocumentSums& of = it->second;
    if (of.windows != windows_of[index_of(it->first)]) {
      ++it;
      continue;
    }
    for (std::size_t n = 0; n < numbers; ++n) {
      if (of.count[n] == 0) continue;
      DocumentClass& to = classes_[of.count[n]];
      to.documents.resize(numbers);
      to.sum.resize(numbers * kExactLimbs);
      to.square.resize(numbers * kExactLimbs);
      const auto at = n * kExactLimbs;
      const double sum = exact_value(std::span(of.sum).subspan(at).first<kExactLimbs>());
      ++to.documents[n];
      add_exactly(sum, std::span(to.sum).subspan(at).first<kExactLimbs>());
      add_exact_product(sum, sum, std::span(to.square).subspan(at).first<kExactLimbs>());
    }
    ++documents_[of.windows];
    close_tokens(of);
    close_classes(of);
    it = open_.erase(it);
  }
}

void AtlasSums::add_class(std::int64_t windows_of_each, const DocumentClass& more) {
  DocumentClass& to = classes_[windows_of_each];
  add_or_take(more.documents, to.documents);
  add_or_take(more.sum, to.sum);
  add_or_take(more.square, to.square);
}

void AtlasSums::move_windows(std::int64_t before) {
  for (auto& lists : places_) {
    for (auto& list : lists) {
      for (AtlasPlace& place : list) place.window += before;
    }
  }
  for (std::int64_t& window : windows) window += before;
}

void AtlasSums::widen(std::int64_t bins, std::int64_t masses) {
  if (bins <= shape_.bins) return;
  const auto before = index_of(shape_.bins);
  shape_.bins = bins;
  const std::size_t heads = shape_.head_count();
  const std::size_t numbers = shape_.entries() * heads;
  sums_[index_of(AtlasSum::row_variance)].resize(size_of(AtlasSum::row_variance, shape_));
  for (auto& [windows_of_each, one] : classes_) {
    one.documents.resize(numbers);
    one.sum.resize(numbers * kExactLimbs);
    one.square.resize(numbers * kExactLimbs);
    for (std::size_t bin = before; before > 0 && bin < index_of(bins); ++bin) {
      for (std::size_t n = 0; n < index_of(masses); ++n) {
        const auto from = one.documents.begin() + static_cast<std::ptrdiff_t>(shape_.entry_of(n, 0) * heads);
        std::copy_n(from, heads, one.documents.begin() + static_cast<std::ptrdiff_t>(shape_.entry_of(n, bin) * heads));
      }
    }
  }
}

std::vector<std::int64_t> AtlasSums::packed() const {
  Words words;
  put_list(words, windows);
  Words ids;
  const auto counts = at(AtlasSum::token_count);
  for (std::size_t id = 0; id < counts.size(); ++id) {
    if (counts[id] != 0) ids.push_back(static_cast<std::int64_t>(id));
  }
  put_list(words, ids);
  for (std::size_t n = 0; n < kAtlasSums; ++n) {
    const Words& values = sums_[n];
    if (!spec_of(static_cast<AtlasSum>(n)).by_token()) {
      // Most sums of tokens with errors are of documents, and those are not closed yet.
      const bool any = std::ranges::any_of(values, [](std::int64_t value) { return value != 0; });
      words.push_back(any ? 1 : 0);
      if (any) words.insert(words.end(), values.begin(), values.end());
      continue;
    }
    const auto vocabulary = index_of(shape_.vocabulary);
    for (std::size_t begin = 0; begin < values.size(); begin += vocabulary) {
      for (const std::int64_t id : ids) words.push_back(values[begin + index_of(id)]);
    }
  }
  for (const auto& lists : places_) put_places(words, lists);
  words.push_back(std::ssize(open_));
  for (const auto& [document, sums] : open_) {
    words.insert(words.end(), {std::int64_t{document}, sums.windows});
    put_list(words, sums.sum);
    put_list(words, sums.count);
    put_list(words, sums.classes);
    words.push_back(std::ssize(sums.tokens));
    for (const auto& [id, values] : sums.tokens) {
      words.push_back(id);
      words.insert(words.end(), values.begin(), values.end());
    }
  }
  words.push_back(std::ssize(classes_));
  for (const auto& [of_each, one] : classes_) {
    words.push_back(of_each);
    put_list(words, one.documents);
    put_list(words, one.sum);
    put_list(words, one.square);
  }
  words.push_back(std::ssize(documents_));
  for (const auto& [of_each, count] : documents_) words.insert(words.end(), {of_each, count});
  return words;
}

std::span<const std::int64_t> AtlasSums::packed_windows(std::span<const std::int64_t> words) {
  return WordReader(words).list();
}

void AtlasSums::add_packed(std::span<const std::int64_t> words) {
  WordReader reader(words);
  const auto more_windows = reader.list();
  const auto ids = reader.list();
  for (const std::int64_t id : ids) {
    if (id < 0 || id >= shape_.vocabulary) throw Error("sums of an atlas name a token that the model does not have");
  }
  for (std::size_t n = 0; n < kAtlasSums; ++n) {
    Words& values = sums_[n];
    if (!spec_of(static_cast<AtlasSum>(n)).by_token()) {
      if (reader.one() != 0) add_whole(reader.take(std::ssize(values)), values);
      continue;
    }
    const auto vocabulary = index_of(shape_.vocabulary);
    for (std::size_t begin = 0; begin < values.size(); begin += vocabulary) {
      for (const std::int64_t id : ids) add_whole(reader.take(1), std::span(values).subspan(begin + index_of(id), 1));
    }
  }
  for (std::size_t list = 0; list < kAtlasLists; ++list) {
    for (std::size_t head = 0; head < shape_.head_count(); ++head) {
      for (std::int64_t left = reader.one(); left > 0; --left) {
        add_place(static_cast<AtlasList>(list), head, reader.place());
      }
    }
  }
  for (std::int64_t left = reader.one(); left > 0; --left) {
    DocumentSums& to = open_[static_cast<std::int32_t>(reader.one())];
    to.windows += reader.one();
    add_or_take(reader.numbers(), to.sum);
    add_or_take(reader.numbers(), to.count);
    add_or_take(reader.numbers(), to.classes);
    for (std::int64_t tokens = reader.one(); tokens > 0; --tokens) {
      auto& values = to.tokens[static_cast<std::int32_t>(reader.one())];
      values.resize(1 + shape_.head_count());
      add_whole(reader.take(std::ssize(values)), values);
    }
  }
  for (std::int64_t left = reader.one(); left > 0; --left) {
    const std::int64_t of_each = reader.one();
    DocumentClass more;
    more.documents = reader.numbers();
    more.sum = reader.numbers();
    more.square = reader.numbers();
    add_class(of_each, more);
  }
  for (std::int64_t left = reader.one(); left > 0; --left) {
    const std::int64_t of_each = reader.one();
    add_documents(of_each, reader.one());
  }
  windows.insert(windows.end(), more_windows.begin(), more_windows.end());
}

}  // namespace foxscope
