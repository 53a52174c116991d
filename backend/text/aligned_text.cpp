#include "backend/text/aligned_text.h"

#include <algorithm>
#include <cassert>
#include <limits>
#include <utility>

#include "backend/base/error.h"

namespace foxscope {
namespace {

std::uint32_t change_size(std::size_t bytes) {
  if (bytes <= std::numeric_limits<std::uint32_t>::max()) return static_cast<std::uint32_t>(bytes);
  throw Error("the tokenizer changes " + std::to_string(bytes) +
              " bytes of text at once, at most 4 GiB can be: put line breaks into the text");
}

/// Changes of a text made from `before`'s, as changes of before's original. Those that overlap become one.
std::vector<AlignedText::Change> compose_changes(const AlignedText& before,
                                                 const std::vector<AlignedText::Change>& after) {
  using Change = AlignedText::Change;
  const std::vector<Change>& first = before.changes;
  std::vector<Change> result;
  result.reserve(first.size() + after.size());
  std::size_t i = 0;
  std::size_t k = 0;
  // Places of the middle text, in front of the next group: in the original and in the result.
  const auto original_of = [&](std::size_t middle) {
    return i == 0 ? before.original_begin + middle : first[i - 1].original_end() + (middle - first[i - 1].end());
  };
  const auto result_of = [&](std::size_t middle) {
    return k == 0 ? middle : after[k - 1].end() + (middle - after[k - 1].original_end());
  };
  while (i < first.size() || k < after.size()) {
    const std::size_t begin = std::min(i < first.size() ? first[i].begin : ~std::size_t{0},
                                       k < after.size() ? after[k].original_begin : ~std::size_t{0});
    std::size_t end = begin;
    const std::size_t original_begin = original_of(begin);
    const std::size_t result_begin = result_of(begin);
    if (k < after.size() && after[k].original_begin == begin && after[k].original_size == 0) {
      ++k;  // what is put in stands for nothing, whatever comes behind it
    } else {
      bool some = false;
      while (true) {
        if (i < first.size() && (some ? first[i].begin < end : first[i].begin == begin)) {
          end = std::max(end, first[i++].end());
        } else if (k < after.size() && (some ? after[k].original_begin < end : after[k].original_begin == begin)) {
          end = std::max(end, after[k++].original_end());
        } else {
          break;
        }
        some = true;
      }
    }
    result.push_back({result_begin, original_begin, change_size(result_of(end) - result_begin),
                      change_size(original_of(end) - original_begin)});
  }
  return result;
}

}  // namespace

AlignedText AlignedText::part(std::size_t begin, std::size_t end) const {
  AlignedText result;
  result.text = text.substr(begin, end - begin);
  auto change = std::partition_point(changes.begin(), changes.end(), [&](const Change& one) {
    return one.end() < begin || (one.end() == begin && one.size > 0);
  });
  if (change == changes.begin()) {
    result.original_begin = original_begin + begin;
  } else {
    const Change& before = *std::prev(change);
    result.original_begin = before.original_end() + (begin - before.end());
  }
  for (; change != changes.end() && change->begin < end; ++change) {
    const std::size_t from = std::max(change->begin, begin);
    const std::size_t to = std::min(change->end(), end);
    result.changes.push_back(
        {from - begin, change->original_begin, static_cast<std::uint32_t>(to - from), change->original_size});
  }
  return result;
}

void AlignedText::become(AlignedText next) {
  if (changes.empty()) {
    for (Change& change : next.changes) change.original_begin += original_begin;
    changes = std::move(next.changes);
  } else {
    changes = compose_changes(*this, next.changes);
  }
  text = std::move(next.text);
}

Rewriting::Rewriting(std::string_view source) : source_(source) {}

void Rewriting::change(std::size_t begin, std::size_t end, std::string_view content) {
  assert(begin >= done_ && end >= begin && end <= source_.size());
  if (result_.text.empty()) result_.text.reserve(source_.size() + source_.size() / 2 + content.size());
  result_.text.append(source_, done_, begin - done_);
  result_.changes.push_back({result_.text.size(), begin, change_size(content.size()), change_size(end - begin)});
  result_.text += content;
  done_ = end;
}

AlignedText Rewriting::finish() {
  result_.text.append(source_, done_);
  done_ = source_.size();
  return std::move(result_);
}

OriginalPlaces::Place OriginalPlaces::of(std::size_t begin, std::size_t end) {
  const std::vector<AlignedText::Change>& changes = text_.changes;
  while (next_ < changes.size() && changes[next_].end() <= begin) ++next_;
  Place place;
  const bool inside = next_ < changes.size() && changes[next_].begin <= begin;
  place.begin = inside ? changes[next_].original_begin : shifted(begin, next_);
  // The last byte decides where it ends: what follows it may stand for other bytes.
  std::size_t last = next_;
  while (last < changes.size() && changes[last].end() < end) ++last;
  const bool ends_inside = last < changes.size() && changes[last].begin < end;
  place.end = ends_inside ? changes[last].original_end() : shifted(end, last);
  place.end = std::max(place.begin, place.end);
  return place;
}

}  // namespace foxscope
