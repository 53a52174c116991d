#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <vector>

namespace foxscope {

/// Tokens of the words seen so far in one text. Words of at most 15 bytes, which nearly all words of English are; the
/// key holds the word itself, so that a look-up touches one line of memory and compares two integers.
class WordCache {
 public:
  static constexpr std::size_t longest_word = 15;

  /// Two little-endian integers: the word's bytes, then zeros, its length in the last byte.
  struct Key {
    std::uint64_t low = 0;
    std::uint64_t high = 0;
    bool operator==(const Key&) const = default;
  };

  WordCache() : slots_(first_size) {}

  /// @param word        1 to 15 bytes
  /// @param text_bytes  bytes that may be read from the word's beginning on
  static Key key_of(std::string_view word, std::size_t text_bytes) {
    std::array<std::uint64_t, 2> parts{};
    if (text_bytes >= sizeof(parts)) {
      std::memcpy(parts.data(), word.data(), sizeof(parts));
      const std::size_t bits = 8 * word.size();
      parts[0] &= bits >= 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << bits) - 1;
      parts[1] &= bits <= 64 ? 0 : (std::uint64_t{1} << (bits - 64)) - 1;
    } else {
      std::memcpy(parts.data(), word.data(), word.size());
    }
    return {parts[0], parts[1] | (std::uint64_t{word.size()} << 56)};
  }

  /// The word's tokens; empty where it was not seen. Valid until the next insert.
  [[nodiscard]] std::span<const std::int32_t> find(const Key& key) const {
    for (std::size_t at = hash(key) & mask();; at = (at + 1) & mask()) {
      const Slot& slot = slots_[at];
      if (slot.key == key) return {slot.count <= slot.ids.size() ? slot.ids.data() : &many_[slot.begin()], slot.count};
      if (slot.count == 0) return {};
    }
  }

  /// Remembers a word that find() did not know. Beyond a quarter of a million words nothing more is remembered.
  void insert(const Key& key, std::span<const std::int32_t> ids) {
    if (2 * used_ >= slots_.size()) {
      if (slots_.size() >= last_size) return;
      grow();
    }
    Slot slot{key, {}, static_cast<std::uint32_t>(ids.size())};
    if (ids.size() <= slot.ids.size()) {
      std::copy(ids.begin(), ids.end(), slot.ids.begin());
    } else {
      slot.ids[0] = static_cast<std::int32_t>(many_.size());
      many_.insert(many_.end(), ids.begin(), ids.end());
    }
    place(slot);
    ++used_;
  }

 private:
  static constexpr std::size_t first_size = 1024;
  static constexpr std::size_t last_size = std::size_t{1} << 19;
  struct Slot {
    Key key;
    std::array<std::int32_t, 3> ids{};  ///< or, of more than three, the first's place in many_
    std::uint32_t count = 0;            ///< 0: the slot is free
    [[nodiscard]] std::size_t begin() const { return static_cast<std::size_t>(ids[0]); }
  };
  static_assert(sizeof(Slot) == 32);

  static std::size_t hash(const Key& key) {
    std::uint64_t mixed = (key.low ^ (key.high * 0xD6E8FEB86659FD93U)) * 0x9E3779B97F4A7C15U;
    mixed ^= mixed >> 32;
    return static_cast<std::size_t>(mixed);
  }
  [[nodiscard]] std::size_t mask() const { return slots_.size() - 1; }

  void place(const Slot& slot) {
    std::size_t at = hash(slot.key) & mask();
    while (slots_[at].count != 0) at = (at + 1) & mask();
    slots_[at] = slot;
  }

  void grow() {
    std::vector<Slot> old(slots_.size() * 4);
    old.swap(slots_);
    for (const Slot& slot : old) {
      if (slot.count != 0) place(slot);
    }
  }

  std::vector<Slot> slots_;
  std::vector<std::int32_t> many_;
  std::size_t used_ = 0;
};

}  // namespace foxscope
