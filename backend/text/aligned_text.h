#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace foxscope {

/// A text that was made from another, the original, and which bytes of the original each of its bytes stands for: its
/// own, shifted, or where something was changed all that the change replaced.
struct AlignedText {
  /// Bytes [begin, begin + size) stand for bytes [original_begin, original_begin + original_size) of the original.
  struct Change {
    std::size_t begin = 0;
    std::size_t original_begin = 0;
    std::uint32_t size = 0;
    std::uint32_t original_size = 0;
    [[nodiscard]] std::size_t end() const { return begin + size; }
    [[nodiscard]] std::size_t original_end() const { return original_begin + original_size; }
  };

  std::string text;
  std::vector<Change> changes;     ///< by place, none inside another
  std::size_t original_begin = 0;  ///< what the text's beginning stands for

  /// The part [begin, end) of it. A change that is cut stands for all that it replaced in either part.
  [[nodiscard]] AlignedText part(std::size_t begin, std::size_t end) const;

  /// Puts `next`, made from this text, in its place: its changes become changes of this text's original.
  void become(AlignedText next);
};

/// Makes an AlignedText from left to right.
class Rewriting {
 public:
  explicit Rewriting(std::string_view source);

  /// Bytes [begin, end) of the source are to be `content`; all before them that was not spoken of stays.
  /// @param begin  not before the end of the change before
  void change(std::size_t begin, std::size_t end, std::string_view content);
  [[nodiscard]] std::size_t size() const { return result_.text.size(); }
  [[nodiscard]] bool changed() const { return !result_.changes.empty(); }
  /// The rest stays.
  AlignedText finish();

 private:
  std::string_view source_;
  std::size_t done_ = 0;
  AlignedText result_;
};

/// Finds what places of an AlignedText stand for in its original, for places that never go back.
class OriginalPlaces {
 public:
  explicit OriginalPlaces(const AlignedText& text) : text_(text) {}

  struct Place {
    std::size_t begin = 0;
    std::size_t end = 0;
  };
  /// @param begin  not before the one asked for last
  /// @param end    after `begin`
  Place of(std::size_t begin, std::size_t end);

 private:
  /// The original position of bytes that lie before change number n and behind the one before it.
  [[nodiscard]] std::size_t shifted(std::size_t position, std::size_t n) const {
    if (n == 0) return text_.original_begin + position;
    const AlignedText::Change& before = text_.changes[n - 1];
    return before.original_end() + (position - before.end());
  }
  const AlignedText& text_;
  std::size_t next_ = 0;  ///< first change that ends behind the beginning asked for last
};

}  // namespace foxscope
