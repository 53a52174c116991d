#include "backend/text/normalizer.h"

#include <utility>

#include "backend/base/error.h"
#include "backend/text/pattern.h"
#include "backend/text/unicode/nfc.h"

namespace foxscope {
namespace {

/// A text may become this many times as long, plus a little; published tokenizers make it three times as long at most.
constexpr std::size_t kMostGrowth = 32;
constexpr std::size_t kGrowthOfAny = 1024;

void replace_literal(std::string_view text, std::string_view what, std::string_view content, std::size_t most,
                     Rewriting& rewriting) {
  for (std::size_t at = text.find(what); at != std::string_view::npos && rewriting.size() <= most;
       at = text.find(what, at + what.size())) {
    rewriting.change(at, at + what.size(), content);
  }
}

void replace_pattern(std::string_view text, const Pattern& pattern, std::string_view content, std::size_t most,
                     Rewriting& rewriting) {
  Matcher matcher(pattern);
  MatchesOf matches(matcher, text);
  while (const std::optional<Matcher::Match> match = matches.next()) {
    if (rewriting.size() > most) return;
    rewriting.change(match->begin, match->end, content);
  }
}

}  // namespace

Normalizer::Normalizer(const TokenizerDescription& description) : name_(description.name) {
  for (const NormalizerStep& step : description.normalizer) {
    std::unique_ptr<const Pattern> pattern;
    if (step.kind == NormalizerStep::Kind::replace_pattern) {
      pattern = std::make_unique<const Pattern>(step.what, step.label);
    }
    steps_.push_back({step, std::move(pattern)});
  }
}

AlignedText Normalizer::apply(const Step& step, std::string_view text, std::size_t most) const {
  Rewriting rewriting(text);
  switch (step.step.kind) {
    case NormalizerStep::Kind::nfc:
      normalize_nfc(text, rewriting);
      break;
    case NormalizerStep::Kind::prepend:
      if (!text.empty()) rewriting.change(0, 0, step.step.content);
      break;
    case NormalizerStep::Kind::replace_literal:
      replace_literal(text, step.step.what, step.step.content, most, rewriting);
      break;
    case NormalizerStep::Kind::replace_pattern:
      replace_pattern(text, *step.pattern, step.step.content, most, rewriting);
      break;
  }
  if (rewriting.size() > most) {
    throw Error(name_ + ": the normalizer makes the text more than " + std::to_string(kMostGrowth) +
                " times as long; fetch the file again or repair it");
  }
  return rewriting.finish();
}

AlignedText Normalizer::normalize(std::string_view text, std::size_t original_begin) const {
  const std::size_t most = kMostGrowth * text.size() + kGrowthOfAny;
  AlignedText result;
  result.original_begin = original_begin;
  bool first = true;
  for (const Step& step : steps_) {
    result.become(apply(step, first ? text : std::string_view(result.text), most));
    first = false;
  }
  return result;
}

void apply_metaspace(const Metaspace& metaspace, AlignedText& text) {
  Rewriting rewriting(text.text);
  const std::string_view source = text.text;
  const bool at_beginning = text.changes.empty() || text.changes.front().begin > 0
                                ? text.original_begin == 0
                                : text.changes.front().original_begin == 0;
  const bool has_one = source.starts_with(metaspace.replacement) || source.starts_with(' ');
  const bool wanted = metaspace.prepend == Metaspace::Prepend::always ||
                      (metaspace.prepend == Metaspace::Prepend::first && at_beginning);
  if (wanted && !has_one && !source.empty()) rewriting.change(0, 0, metaspace.replacement);
  for (std::size_t at = source.find(' '); at != std::string_view::npos; at = source.find(' ', at + 1)) {
    rewriting.change(at, at + 1, metaspace.replacement);
  }
  text.become(rewriting.finish());
}

}  // namespace foxscope
