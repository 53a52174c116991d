#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "backend/text/aligned_text.h"
#include "backend/text/tokenizer_description.h"

namespace foxscope {

class Pattern;

/// The changes of a tokenizer to a text before it cuts it into words, as the `tokenizers` package does: form C of
/// Unicode, replacements, a text put in front.
class Normalizer {
 public:
  /// @throws Error where a pattern is not one
  explicit Normalizer(const TokenizerDescription& description);
  [[nodiscard]] bool empty() const { return steps_.empty(); }

  /// @param text            well-formed UTF-8
  /// @param original_begin  where the original begins in the text whose places are wanted
  /// @throws Error where the text becomes many times as long
  [[nodiscard]] AlignedText normalize(std::string_view text, std::size_t original_begin) const;

 private:
  struct Step {
    NormalizerStep step;
    std::unique_ptr<const Pattern> pattern;  ///< of a replacement that is not literal
  };
  [[nodiscard]] AlignedText apply(const Step& step, std::string_view text, std::size_t most) const;

  std::vector<Step> steps_;
  std::string name_;
};

/// Puts `replacement` for each space, and in front as the scheme says.
/// @param text  becomes what a Metaspace pre-tokenizer makes of it
void apply_metaspace(const Metaspace& metaspace, AlignedText& text);

}  // namespace foxscope
