#include "backend/text/pre_tokenizer.h"

namespace foxscope {

const Pattern& word_pattern() {
  // White space is spelled out: PCRE2's own \s takes in U+180E, which lost that property in Unicode 6.3.
  static const Pattern pattern(
      "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\t-\\r\\x{85}\\p{Z}\\p{L}\\p{N}]+"
      "|[\\t-\\r\\x{85}\\p{Z}]+(?![^\\t-\\r\\x{85}\\p{Z}])|[\\t-\\r\\x{85}\\p{Z}]+");
  return pattern;
}

Splits::Splits(const std::vector<SplitStep>& steps) {
  for (const SplitStep& step : steps) steps_.push_back(std::make_unique<const Step>(step));
}

Splitter::Splitter(const Splits& splits) : splits_(splits) {
  for (const auto& step : splits.steps_) matchers_.push_back(std::make_unique<Matcher>(step->pattern));
}

}  // namespace foxscope
