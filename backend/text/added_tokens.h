#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
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
  bool normalized = false;   ///< looked for after the others, in what they left
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
  /// @param tokens  by content, none of it empty
  explicit AddedTokens(const std::map<std::string, AddedToken>& tokens);
  [[nodiscard]] std::vector<Section> split(std::string_view text) const;

 private:
  /// One of the two groups, ready to be looked for.
  struct Group {
    std::array<std::vector<AddedToken>, 256> by_first_byte;  ///< longest first
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
