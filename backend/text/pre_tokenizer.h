#pragma once

#include <cstddef>
#include <memory>
#include <string_view>
#include <vector>

#include "backend/text/pattern.h"
#include "backend/text/tokenizer_description.h"

namespace foxscope {

/// GPT-2's pattern (Radford et al. 2019), which cuts text into the words that byte pair merges never cross:
///   's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
/// Every character of a text belongs to exactly one word.
const Pattern& word_pattern();

/// The Split steps of a pre-tokenizer, one after the other on the pieces of the one before.
class Splits {
 public:
  /// @throws Error where a pattern is not one
  explicit Splits(const std::vector<SplitStep>& steps);

 private:
  friend class Splitter;
  struct Step {
    explicit Step(const SplitStep& step)
        : pattern(step.pattern, step.label), behavior(step.behavior), invert(step.invert) {}
    Pattern pattern;
    SplitBehavior behavior;
    bool invert;
  };
  std::vector<std::unique_ptr<const Step>> steps_;
};

/// Cuts texts by Splits. Each thread needs its own.
class Splitter {
 public:
  explicit Splitter(const Splits& splits);

  /// Calls body(piece) for every piece, in order; none is empty. A piece that was removed is in none.
  template <typename Body>
  void split(std::string_view text, const Body& body) {
    split_from(0, text, body);
  }

 private:
  /// Gives on pieces as the behavior of one step wants them.
  template <typename Body>
  class Joiner;

  template <typename Body>
  void split_from(std::size_t step, std::string_view text, const Body& body);

  const Splits& splits_;
  std::vector<std::unique_ptr<Matcher>> matchers_;
};

template <typename Body>
class Splitter::Joiner {
 public:
  Joiner(SplitBehavior behavior, const Body& body) : behavior_(behavior), body_(body) {}

  /// The next piece, which begins where the last one ended.
  void put(std::string_view piece, bool match) {
    if (behavior_ == SplitBehavior::isolated) return give(piece);
    if (behavior_ == SplitBehavior::removed) return match ? void() : give(piece);
    const bool joins = behavior_ == SplitBehavior::contiguous             ? match == last_match_
                       : behavior_ == SplitBehavior::merged_with_previous ? match && !last_match_
                                                                          : last_match_ && !match;
    if (waits_ && joins) {
      waiting_ = {waiting_.data(), waiting_.size() + piece.size()};
    } else {
      finish();
      waiting_ = piece;
      waits_ = true;
    }
    last_match_ = match;
  }

  void finish() {
    if (waits_) give(waiting_);
    waits_ = false;
  }

 private:
  void give(std::string_view piece) {
    if (!piece.empty()) body_(piece);
  }
  SplitBehavior behavior_;
  const Body& body_;
  std::string_view waiting_;
  bool waits_ = false;
  bool last_match_ = false;
};

template <typename Body>
void Splitter::split_from(std::size_t step, std::string_view text, const Body& body) {
  if (text.empty()) return;
  if (step == splits_.steps_.size()) return body(text);
  const Splits::Step& one = *splits_.steps_[step];
  const auto next = [&](std::string_view piece) { split_from(step + 1, piece, body); };
  Joiner<decltype(next)> joiner(one.behavior, next);
  std::size_t done = 0;
  MatchesOf matches(*matchers_[step], text);
  while (const std::optional<Matcher::Match> match = matches.next()) {
    if (done < match->begin) joiner.put(text.substr(done, match->begin - done), one.invert);
    joiner.put(text.substr(match->begin, match->end - match->begin), !one.invert);
    done = match->end;
  }
  if (done < text.size()) joiner.put(text.substr(done), one.invert);
  joiner.finish();
}

}  // namespace foxscope
