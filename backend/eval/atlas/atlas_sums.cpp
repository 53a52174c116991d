#include "backend/eval/atlas/atlas_sums.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>

#include "backend/base/error.h"
#include "backend/base/index.h"

namespace foxscope {
namespace {

constexpr std::array<AtlasSumSpec, kAtlasSums> kSpecs = {{
    {"token_count", false, true, 0},
    {"token_log_gate", true, true, 0},
    {"token_below_half", true, true, 0},
    {"log_gate_histogram", true, false, kLogGateBins},
    {"reset_gap", true, false, kGapBins},
    {"class_count", false, false, kBoundaryClasses},
    {"class_log_gate", true, false, kBoundaryClasses},
    {"class_resets", true, false, kBoundaryClasses},
    {"class_shifted", true, false, kBoundaryClasses* kShifts},
    {"log_gate", true, false, kExactLimbs},
    {"log_gate_product", false, false, 0},
}};

std::size_t size_of(std::size_t sum, const AtlasShape& shape) {
  const AtlasSumSpec& spec = kSpecs[sum];
  const std::size_t heads = shape.head_count();
  if (static_cast<AtlasSum>(sum) == AtlasSum::log_gate_product) return heads * (heads + 1) / 2 * kExactLimbs;
  return (spec.by_head ? heads : 1) * (spec.by_token ? static_cast<std::size_t>(shape.vocabulary) : spec.entries);
}

bool before_by_value(const AtlasPlace& a, const AtlasPlace& b) {
  return std::pair(a.value, a.window) < std::pair(b.value, b.window);
}
bool before_by_priority(const AtlasPlace& a, const AtlasPlace& b) {
  return std::pair(a.priority, a.window) < std::pair(b.priority, b.window);
}

template <typename Before>
void insert(std::vector<AtlasPlace>& list, const AtlasPlace& place, std::size_t most, Before before) {
  const auto at = std::ranges::upper_bound(list, place, before);
  if (list.size() == most) {
    if (at == list.end()) return;
    list.insert(at, place);
    list.pop_back();
  } else {
    list.insert(at, place);
  }
}

void add_or_take(const std::vector<std::int64_t>& more, std::vector<std::int64_t>& to) {
  if (to.empty()) {
    to = more;
  } else {
    if (to.size() != more.size()) throw Error("sums of an atlas have other sizes than those before them");
    add_whole(more, to);
  }
}

using Words = std::vector<std::int64_t>;

void put_list(Words& words, std::span<const std::int64_t> list) {
  words.push_back(std::ssize(list));
  words.insert(words.end(), list.begin(), list.end());
}

void put_places(Words& words, const std::vector<std::vector<AtlasPlace>>& lists) {
  for (const auto& list : lists) {
    words.push_back(std::ssize(list));
    for (const AtlasPlace& place : list) {
      words.insert(words.end(), {std::int64_t{std::bit_cast<std::int32_t>(place.value)}, place.window, place.position,
                                 std::bit_cast<std::int64_t>(place.priority)});
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
  std::vector<std::int64_t> numbers() {
    const auto taken = list();
    return {taken.begin(), taken.end()};
  }
  AtlasPlace place() {
    const auto words = take(4);
    return {std::bit_cast<float>(static_cast<std::int32_t>(words[0])), words[1], words[2],
            std::bit_cast<std::uint64_t>(words[3])};
  }

 private:
  std::span<const std::int64_t> words_;
};

}  // namespace

double log_gate_bin(std::size_t bin) { return bin == 0 ? 0 : std::exp2(-24 + (static_cast<double>(bin) - 1) / 16); }

const AtlasSumSpec& spec_of(AtlasSum sum) { return kSpecs[index_of(sum)]; }

AtlasSums::AtlasSums(const AtlasShape& shape)
    : shape_(shape), resets_(shape.head_count()), samples_(shape.head_count()) {
  for (std::size_t n = 0; n < kAtlasSums; ++n) sums_[n].resize(size_of(n, shape));
}

std::int64_t AtlasSums::bytes(const AtlasShape& shape) {
  std::size_t words = 0;
  for (std::size_t n = 0; n < kAtlasSums; ++n) words += size_of(n, shape);
  return static_cast<std::int64_t>(words * sizeof(std::int64_t));
}

std::span<std::int64_t> AtlasSums::row(AtlasSum sum, std::size_t head) {
  auto& values = sums_[index_of(sum)];
  const std::size_t size = values.size() / shape_.head_count();
  return std::span(values).subspan(head * size, size);
}

std::span<const std::int64_t> AtlasSums::row(AtlasSum sum, std::size_t head) const {
  return const_cast<AtlasSums*>(this)->row(sum, head);
}

void AtlasSums::add_reset(std::size_t head, const AtlasPlace& place) {
  insert(resets_[head], place, index_of(shape_.passages), before_by_value);
}

void AtlasSums::add_sample(std::size_t head, const AtlasPlace& place) {
  insert(samples_[head], place, shape_.sampled(), before_by_priority);
}

DocumentSums& AtlasSums::document(std::int32_t document, std::size_t numbers) {
  DocumentSums& sums = open_[document];
  sums.sum.resize(numbers * shape_.head_count() * kExactLimbs);
  return sums;
}

void AtlasSums::close_documents(std::span<const std::int64_t> windows_of) {
  for (auto it = open_.begin(); it != open_.end();) {
    const DocumentSums& of = it->second;
    if (of.windows != windows_of[index_of(it->first)]) {
      ++it;
      continue;
    }
    DocumentClass one{1, std::vector<std::int64_t>(of.sum.size()), std::vector<std::int64_t>(of.sum.size())};
    for (std::size_t n = 0; n < of.sum.size(); n += kExactLimbs) {
      const double sum = exact_value(std::span(of.sum).subspan(n).first<kExactLimbs>());
      add_exactly(sum, std::span(one.sum).subspan(n).first<kExactLimbs>());
      // A square and what rounding takes from it.
      const auto square = std::span(one.square).subspan(n).first<kExactLimbs>();
      add_exactly(sum * sum, square);
      add_exactly(std::fma(sum, sum, -(sum * sum)), square);
    }
    add_class(of.windows, one);
    it = open_.erase(it);
  }
}

void AtlasSums::add_class(std::int64_t windows_of_each, const DocumentClass& more) {
  DocumentClass& to = classes_[windows_of_each];
  to.documents += more.documents;
  add_or_take(more.sum, to.sum);
  add_or_take(more.square, to.square);
}

void AtlasSums::move_windows(std::int64_t before) {
  for (auto* const lists : {&resets_, &samples_}) {
    for (auto& list : *lists) {
      for (AtlasPlace& place : list) place.window += before;
    }
  }
  for (std::int64_t& window : windows) window += before;
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
    const std::vector<std::int64_t>& values = sums_[n];
    if (!kSpecs[n].by_token) {
      words.insert(words.end(), values.begin(), values.end());
      continue;
    }
    const auto vocabulary = index_of(shape_.vocabulary);
    for (std::size_t begin = 0; begin < values.size(); begin += vocabulary) {
      for (const std::int64_t id : ids) words.push_back(values[begin + index_of(id)]);
    }
  }
  put_places(words, resets_);
  put_places(words, samples_);
  words.push_back(std::ssize(open_));
  for (const auto& [document, sums] : open_) {
    words.insert(words.end(), {std::int64_t{document}, sums.windows});
    put_list(words, sums.sum);
  }
  words.push_back(std::ssize(classes_));
  for (const auto& [of_each, one] : classes_) {
    words.insert(words.end(), {of_each, one.documents});
    put_list(words, one.sum);
    put_list(words, one.square);
  }
  return words;
}

void AtlasSums::add_packed(std::span<const std::int64_t> words) {
  WordReader reader(words);
  const auto more_windows = reader.list();
  const auto ids = reader.list();
  for (const std::int64_t id : ids) {
    if (id < 0 || id >= shape_.vocabulary) throw Error("sums of an atlas name a token that the model does not have");
  }
  for (std::size_t n = 0; n < kAtlasSums; ++n) {
    std::vector<std::int64_t>& values = sums_[n];
    if (!kSpecs[n].by_token) {
      add_whole(reader.take(std::ssize(values)), values);
      continue;
    }
    const auto vocabulary = index_of(shape_.vocabulary);
    for (std::size_t begin = 0; begin < values.size(); begin += vocabulary) {
      for (const std::int64_t id : ids) add_whole(reader.take(1), std::span(values).subspan(begin + index_of(id), 1));
    }
  }
  for (std::size_t head = 0; head < shape_.head_count(); ++head) {
    for (std::int64_t left = reader.one(); left > 0; --left) add_reset(head, reader.place());
  }
  for (std::size_t head = 0; head < shape_.head_count(); ++head) {
    for (std::int64_t left = reader.one(); left > 0; --left) add_sample(head, reader.place());
  }
  for (std::int64_t left = reader.one(); left > 0; --left) {
    DocumentSums& to = open_[static_cast<std::int32_t>(reader.one())];
    to.windows += reader.one();
    add_or_take(reader.numbers(), to.sum);
  }
  for (std::int64_t left = reader.one(); left > 0; --left) {
    const std::int64_t of_each = reader.one();
    DocumentClass more{reader.one(), reader.numbers(), {}};
    more.square = reader.numbers();
    add_class(of_each, more);
  }
  windows.insert(windows.end(), more_windows.begin(), more_windows.end());
}

}  // namespace foxscope
