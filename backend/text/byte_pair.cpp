#include "backend/text/byte_pair.h"

#include <algorithm>
#include <bit>
#include <cstdio>
#include <functional>
#include <unordered_map>
#include <utility>

#include "backend/base/error.h"
#include "backend/text/unicode/utf8.h"

namespace foxscope {
namespace {

/// Up to this many bytes, looking through all neighbours for each merge is faster than keeping them in order.
constexpr std::size_t longest_short_word = 64;

constexpr std::uint64_t pair_of(std::int32_t left, std::int32_t right) {
  return (std::uint64_t{static_cast<std::uint32_t>(left)} << 32) | static_cast<std::uint32_t>(right);
}

}  // namespace

/// The neighbouring pairs of one long word, taken out by rank and then by position. Pairs wait in one bucket for each
/// rank. In a trained list of merges a merge only makes pairs of higher rank, so each bucket is complete when its turn
/// comes and is sorted once; pairs that do not keep to this wait in a heap of their own.
struct BytePairModel::Workspace {
  static constexpr std::uint32_t none = ~std::uint32_t{0};
  struct Symbol {
    std::int32_t id = -1;  ///< -1: became part of a symbol to its left
    std::uint32_t previous = none;
    std::uint32_t next = none;
  };
  struct Pair {
    std::uint32_t rank = 0;
    std::uint32_t position = 0;
  };

  std::vector<Symbol> symbols;

  void start() {
    current_.clear();
    cursor_ = 0;
    current_rank_ = none;
    started_ = false;
    last_bucket_ = nullptr;
  }

  void put(std::uint32_t rank, std::uint32_t position) {
    if (started_ && rank <= current_rank_) {
      early_.push_back((std::uint64_t{rank} << 32) | position);
      std::push_heap(early_.begin(), early_.end(), std::greater<>());
      return;
    }
    if (last_bucket_ == nullptr || last_rank_ != rank) choose_bucket(rank);
    last_bucket_->push_back(position);
  }

  bool take(Pair& pair) {
    while (true) {
      const bool more = cursor_ < current_.size();
      if (!early_.empty() && (!more || early_.front() < ((std::uint64_t{current_rank_} << 32) | current_[cursor_]))) {
        const std::uint64_t first = early_.front();
        std::pop_heap(early_.begin(), early_.end(), std::greater<>());
        early_.pop_back();
        pair = {static_cast<std::uint32_t>(first >> 32), static_cast<std::uint32_t>(first)};
        return true;
      }
      if (more) {
        pair = {current_rank_, current_[cursor_++]};
        return true;
      }
      if (ranks_.empty()) return false;
      open_lowest_bucket();
    }
  }

 private:
  void choose_bucket(std::uint32_t rank) {
    const auto [found, added] = buckets_.try_emplace(rank);
    if (added) {
      if (!spare_.empty()) {
        found->second = std::move(spare_.back());
        spare_.pop_back();
      }
      ranks_.push_back(rank);
      std::push_heap(ranks_.begin(), ranks_.end(), std::greater<>());
    }
    last_rank_ = rank;
    last_bucket_ = &found->second;  // references into an unordered_map outlive rehashing
  }

  void open_lowest_bucket() {
    std::pop_heap(ranks_.begin(), ranks_.end(), std::greater<>());
    current_rank_ = ranks_.back();
    ranks_.pop_back();
    started_ = true;
    const auto found = buckets_.find(current_rank_);
    current_.swap(found->second);
    found->second.clear();
    spare_.push_back(std::move(found->second));
    buckets_.erase(found);
    last_bucket_ = nullptr;
    cursor_ = 0;
    if (!std::is_sorted(current_.begin(), current_.end())) std::sort(current_.begin(), current_.end());
  }

  std::unordered_map<std::uint32_t, std::vector<std::uint32_t>> buckets_;  ///< positions by rank
  std::vector<std::vector<std::uint32_t>> spare_;
  std::vector<std::uint32_t> ranks_;    ///< heap of the ranks that have a bucket, lowest first
  std::vector<std::uint64_t> early_;    ///< heap of rank and position of pairs not above the current rank
  std::vector<std::uint32_t> current_;  ///< positions of the pairs of the current rank
  std::size_t cursor_ = 0;
  std::uint32_t current_rank_ = none;
  std::uint32_t last_rank_ = none;
  std::vector<std::uint32_t>* last_bucket_ = nullptr;
  bool started_ = false;
};

void BytePairModel::WorkspaceDeleter::operator()(Workspace* workspace) const {
  std::default_delete<Workspace>()(workspace);
}

BytePairModel::WorkspacePointer BytePairModel::make_workspace() {
  return WorkspacePointer(std::make_unique<Workspace>().release());
}

void CharacterIds::set(char32_t character, std::int32_t id) {
  std::uint16_t& page = page_[character >> 8];
  if (page == 0) {
    page = static_cast<std::uint16_t>(pages_.size());
    pages_.push_back(pages_.front());
  }
  pages_[page][character & 0xFFU] = id;
}

BytePairModel::BytePairModel(Symbols symbols, std::span<const Merge> merges, std::string name)
    : symbols_(std::move(symbols)), name_(std::move(name)) {
  const std::size_t size = std::bit_ceil(std::max<std::size_t>(2 * merges.size(), 16));
  slots_.resize(size);
  shift_ = 64 - std::countr_zero(size);
  for (std::size_t i = 0; i < merges.size(); ++i) {
    const std::uint64_t pair = pair_of(merges[i].left, merges[i].right);
    std::size_t at = home(pair);
    while (slots_[at].pair != no_pair && slots_[at].pair != pair) at = (at + 1) & (size - 1);
    slots_[at] = {pair, static_cast<std::uint32_t>(i), merges[i].result};
  }
}

const BytePairModel::Slot& BytePairModel::find(std::int32_t left, std::int32_t right) const {
  const std::uint64_t pair = pair_of(left, right);
  std::size_t at = home(pair);
  while (slots_[at].pair != pair && slots_[at].pair != no_pair) at = (at + 1) & (slots_.size() - 1);
  return slots_[at];
}

std::size_t BytePairModel::first_ids(std::string_view word, std::int32_t* ids) const {
  if (!symbols_.of_bytes) return character_ids(word, ids);
  for (const char character : word) {
    const auto byte = static_cast<std::uint8_t>(character);
    *ids = symbols_.byte[byte];
    if (*ids < 0) {
      throw Error(name_ + ": the vocabulary has no token for the byte " + std::to_string(byte) +
                  ", which the text holds; use a vocabulary with all 256 bytes, or take it out of the text");
    }
    ++ids;
  }
  return word.size();
}

std::size_t BytePairModel::character_ids(std::string_view word, std::int32_t* ids) const {
  std::size_t count = 0;
  bool after_unknown = false;
  for (std::size_t at = 0; at < word.size();) {
    const Character character = character_at(word, at);
    const std::int32_t id = symbols_.character[character.code_point];
    const bool unknown = id < 0 && symbols_.byte[0] < 0;
    if (id >= 0) {
      ids[count++] = id;
    } else if (!unknown) {
      for (std::size_t i = 0; i < character.bytes; ++i) {
        ids[count++] = symbols_.byte[static_cast<std::uint8_t>(word[at + i])];
      }
    } else if (symbols_.unknown < 0) {
      std::array<char, 16> code{};
      std::snprintf(code.data(), code.size(), "U+%04X", static_cast<unsigned>(character.code_point));
      throw Error(
          name_ + ": the vocabulary has no token for the character " + code.data() +
          ", which the text holds, and no unk_token; use a vocabulary with byte_fallback, or take it out of the "
          "text");
    } else if (!(after_unknown && symbols_.fuse_unknown)) {
      ids[count++] = symbols_.unknown;
    }
    after_unknown = unknown;
    at += character.bytes;
  }
  return count;
}

std::size_t BytePairModel::unknown_size(std::string_view text) const {
  std::size_t at = 0;
  while (at < text.size()) {
    const Character character = character_at(text, at);
    if (at > 0 && (!symbols_.fuse_unknown || symbols_.character[character.code_point] >= 0)) break;
    at += character.bytes;
  }
  return at;
}

void BytePairModel::encode(std::string_view word, Workspace& workspace, std::vector<std::int32_t>& ids) const {
  if (word.size() <= longest_short_word) {
    encode_short(word, ids);
  } else {
    encode_long(word, workspace, ids);
  }
}

void BytePairModel::encode_short(std::string_view word, std::vector<std::int32_t>& ids) const {
  if (word.empty()) return;
  std::array<std::int32_t, longest_short_word> id;
  std::array<std::uint32_t, longest_short_word> rank_after;  // of the pair that a token makes with the next one
  std::size_t count = first_ids(word, id.data());
  for (std::size_t i = 0; i + 1 < count; ++i) rank_after[i] = rank(id[i], id[i + 1]);
  while (count > 1) {
    std::size_t best = 0;
    for (std::size_t i = 1; i + 1 < count; ++i) {
      if (rank_after[i] < rank_after[best]) best = i;
    }
    if (rank_after[best] == no_rank) break;
    id[best] = find(id[best], id[best + 1]).result;
    std::copy(id.begin() + best + 2, id.begin() + count, id.begin() + best + 1);
    if (best + 2 < count) {
      std::copy(rank_after.begin() + best + 2, rank_after.begin() + count - 1, rank_after.begin() + best + 1);
      rank_after[best] = rank(id[best], id[best + 1]);
    }
    --count;
    if (best > 0) rank_after[best - 1] = rank(id[best - 1], id[best]);
  }
  ids.insert(ids.end(), id.begin(), id.begin() + count);
}

void BytePairModel::encode_long(std::string_view word, Workspace& workspace, std::vector<std::int32_t>& ids) const {
  constexpr std::uint32_t none = Workspace::none;
  if (word.size() >= none) {
    throw Error("a single word of " + std::to_string(word.size()) +
                " bytes is too long to be cut into tokens (at most 4 GiB): put spaces or line breaks into the text");
  }
  std::vector<Workspace::Symbol>& symbols = workspace.symbols;
  std::vector<std::int32_t> first(word.size());
  const auto count = static_cast<std::uint32_t>(first_ids(word, first.data()));
  symbols.resize(count);
  for (std::uint32_t i = 0; i < count; ++i)
    symbols[i] = {first[i], i == 0 ? none : i - 1, i + 1 == count ? none : i + 1};

  workspace.start();
  const auto put = [&](std::uint32_t left, std::uint32_t right) {
    const std::uint32_t pair_rank = rank(symbols[left].id, symbols[right].id);
    if (pair_rank != no_rank) workspace.put(pair_rank, left);
  };
  for (std::uint32_t i = 0; i + 1 < count; ++i) put(i, i + 1);

  Workspace::Pair pair;
  while (workspace.take(pair)) {
    Workspace::Symbol& left = symbols[pair.position];
    if (left.id < 0 || left.next == none) continue;
    Workspace::Symbol& right = symbols[left.next];
    const Slot& slot = find(left.id, right.id);
    if (slot.rank != pair.rank) continue;  // the pair was there once; one of its tokens has changed since
    left.id = slot.result;
    left.next = right.next;
    right.id = -1;
    if (left.next != none) {
      symbols[left.next].previous = pair.position;
      put(pair.position, left.next);
    }
    if (left.previous != none) put(left.previous, pair.position);
  }
  for (std::uint32_t i = 0; i != none; i = symbols[i].next) ids.push_back(symbols[i].id);
}

}  // namespace foxscope
