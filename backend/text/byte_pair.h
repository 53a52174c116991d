#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace foxscope {

/// Two neighbouring tokens become one.
struct Merge {
  std::int32_t left = 0;
  std::int32_t right = 0;
  std::int32_t result = 0;
};

/// Ids by character, in pages of 256 characters.
class CharacterIds {
 public:
  CharacterIds() : pages_(1) { pages_.front().fill(-1); }
  void set(char32_t character, std::int32_t id);
  /// -1: it has none.
  [[nodiscard]] std::int32_t operator[](char32_t character) const {
    return pages_[page_[character >> 8]][character & 0xFFU];
  }

 private:
  std::array<std::uint16_t, 0x1100> page_{};
  std::vector<std::array<std::int32_t, 256>> pages_;  ///< the first has no ids
};

/// The symbols of a word before any merge.
struct Symbols {
  bool of_bytes = true;
  std::array<std::int32_t, 256> byte{};  ///< the token of each byte; -1: there is none
  CharacterIds character;                ///< unless of_bytes; those that have none fall back to bytes, then `unknown`
  std::int32_t unknown = -1;             ///< of a character that has no token and no bytes; -1: there is none
  bool fuse_unknown = false;             ///< one of them for all that follow one another
};

/// Byte pair encoding of words (Sennrich et al. 2016): beginning with single bytes or characters, again and again the
/// pair of neighbours with the lowest rank becomes one token, the leftmost first, until no pair has a rank.
class BytePairModel {
 public:
  /// Room that encode needs and reuses; one for each thread.
  struct Workspace;
  struct WorkspaceDeleter {
    void operator()(Workspace* workspace) const;
  };
  using WorkspacePointer = std::unique_ptr<Workspace, WorkspaceDeleter>;
  static WorkspacePointer make_workspace();

  /// @param merges  in the order of their rank; of equal pairs the last counts
  /// @param name    the file, for errors
  BytePairModel(Symbols symbols, std::span<const Merge> merges, std::string name);

  /// Appends the word's tokens to `ids`. Time grows as n log n at most, whatever the word is.
  /// @throws Error where a byte or a character has no token
  void encode(std::string_view word, Workspace& workspace, std::vector<std::int32_t>& ids) const;

  /// Bytes at the beginning of a text that the unknown token stands for there.
  [[nodiscard]] std::size_t unknown_size(std::string_view text) const;

 private:
  static constexpr std::uint64_t no_pair = ~std::uint64_t{0};
  static constexpr std::uint32_t no_rank = ~std::uint32_t{0};
  struct Slot {
    std::uint64_t pair = no_pair;
    std::uint32_t rank = no_rank;
    std::int32_t result = -1;
  };

  [[nodiscard]] std::size_t home(std::uint64_t pair) const { return (pair * 0x9E3779B97F4A7C15U) >> shift_; }
  [[nodiscard]] const Slot& find(std::int32_t left, std::int32_t right) const;
  [[nodiscard]] std::uint32_t rank(std::int32_t left, std::int32_t right) const { return find(left, right).rank; }
  /// Ids of the word's symbols, not more than it has bytes. @returns their number
  std::size_t first_ids(std::string_view word, std::int32_t* ids) const;
  std::size_t character_ids(std::string_view word, std::int32_t* ids) const;
  void encode_short(std::string_view word, std::vector<std::int32_t>& ids) const;
  void encode_long(std::string_view word, Workspace& workspace, std::vector<std::int32_t>& ids) const;

  Symbols symbols_;
  std::vector<Slot> slots_;  ///< open addressing, a power of two, at most half full
  int shift_ = 0;
  std::string name_;
};

}  // namespace foxscope
