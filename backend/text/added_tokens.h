#pragma once

#include <array>
#include <bitset>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace foxscope {

/// A token that is looked for in the text before anything else.
struct AddedToken {
  std::string content;
  std::int32_t id = 0;
  bool single_word = false;  ///< only where no letter, mark, digit or underscore is beside it
  bool strip_left = false;   ///< takes the white space before it along
  bool strip_right = false;  ///< takes the white space after it along
  bool normalized = false;   ///< looked for after the others, in what the normalizer made of what they left
};

/// A piece of the text: an added token, or what lies between two of them.
struct Section {
  std::size_t begin = 0;
  std::size_t end = 0;
  std::int32_t id = -1;  ///< of the added token; -1: text to be cut into words
};

/// Finds added tokens as the `tokenizers` package does: from left to right, of several at one place the longest.
/// Sections cover the text in order. They overlap only where white space that `strip_right` took along is itself an
/// added token: it is then found once more, as in that package.
class AddedTokens {
 public:
  /// @param tokens  their contents, none of it empty, are what is looked for
  explicit AddedTokens(const std::vector<AddedToken>& tokens);

  /// Looks for those that are looked for in the text as it is given.
  [[nodiscard]] std::vector<Section> split(std::string_view text) const;

  /// Looks for the normalized ones, in what a normalizer made of a section.
  [[nodiscard]] std::vector<Section> split_normalized(std::string_view text) const;
  [[nodiscard]] bool any_normalized() const { return !normalized_.first_bytes.empty(); }

 private:
  /// One of the two groups, ready to be looked for.
  struct Group {
    std::array<std::vector<AddedToken>, 256> by_first_byte;  ///< longest first
    std::array<std::bitset<256>, 256> second_byte;  ///< by first byte: what may follow it; all, if nothing has to
    std::string first_bytes;
    void add(const AddedToken& token);
    void sort();
    [[nodiscard]] const AddedToken* next(std::string_view text, std::size_t from, std::size_t& at) const;
    void split(std::string_view text, Section section, std::vector<Section>& sections) const;
  };
  Group plain_;
  Group normalized_;
};

}  // namespace foxscope
