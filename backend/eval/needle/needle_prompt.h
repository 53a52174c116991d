#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "backend/text/tokenizer.h"

namespace foxscope {

/// The part of the needle that stands in the text: question and answer (the paper's easy mode), or the answer alone.
enum class NeedleMode { easy, standard };
const char* to_string(NeedleMode mode);
/// @throws UsageError naming those that exist
NeedleMode needle_mode_from_string(const std::string& name);

/// The words of the needle test, without white space around them. A JSON object with these keys, all of them strings.
struct NeedleTemplate {
  std::string instruction;  ///< before the text: that it hides a fact which will be asked for
  std::string needle;       ///< the fact, a sentence that holds the answer
  std::string question;     ///< what will be asked
  std::string opening;      ///< how the answer begins, given to the model
  std::string answer;       ///< what the model has to say then

  static NeedleTemplate built_in();
  /// @param name  of the file, for errors
  /// @throws Error naming the file and the key: not JSON, a key that is missing, unknown or empty, an answer that the
  ///         needle does not hold
  static NeedleTemplate from_json(std::string_view content, std::string_view name);
  [[nodiscard]] std::string json() const;  ///< indented, with a line feed at the end
  bool operator==(const NeedleTemplate&) const = default;
};

/// Tokens of a length that are kept for the question with the opening words, and the answer.
inline constexpr std::int64_t kReservedTokens = 200;

/// The parts of a prompt as one tokenizer cuts them, each on its own.
struct NeedleParts {
  std::vector<std::int32_t> instruction;  ///< instruction, empty line
  std::vector<std::int32_t> needle;       ///< space, (question, space,) needle
  std::vector<std::int32_t> question;     ///< empty line, question, space, opening
  std::vector<std::int32_t> answer;       ///< space, answer
  std::vector<std::int32_t> haystack;     ///< at least as many as the longest prompt takes
  std::vector<bool> ends_sentence;        ///< of each token of the haystack: . ! or ?, closing quotes after it allowed
  std::int64_t haystack_tokens = 0;       ///< before it was repeated
};

/// Where things are in a prompt, in positions: position 0 reads BOS.
struct NeedlePrompt {
  std::vector<std::int32_t> input_ids;
  std::int64_t needle_begin = 0;  ///< positions [needle_begin, needle_end) read the needle; none without it
  std::int64_t needle_end = 0;
};

/// Cuts the template's words.
/// @throws Error if question and answer take more than kReservedTokens
NeedleParts cut_needle(const NeedleTemplate& words, NeedleMode mode, const Tokenizer& tokenizer);

/// Fills parts.haystack with at least `tokens` tokens: texts cut one by one, an empty line between them, all of them
/// again where they are too few.
/// @throws Error naming the source where it has no tokens
void cut_haystack(const std::vector<std::string>& texts, const std::string& name, std::int64_t tokens,
                  const Tokenizer& tokenizer, NeedleParts& parts);

/// Context tokens of a prompt of this length: BOS, instruction, needle and context take length - kReservedTokens.
/// @throws UsageError naming the length and the shortest that there is room for
std::int64_t context_tokens(const NeedleParts& parts, std::int64_t length);

/// The prompt of a length with the needle at a depth: of C context tokens floor(C depth) stand before the needle. They
/// are cut back to the last end of a sentence, or to none; at depth 1 all C stand before it.
/// @param depth  share, from 0 to 1
NeedlePrompt needle_prompt(const NeedleParts& parts, std::int32_t bos, std::int64_t length, double depth);

/// The same prompt without the needle, as long as with it: context goes on in its place.
NeedlePrompt plain_prompt(const NeedleParts& parts, std::int32_t bos, std::int64_t length);

}  // namespace foxscope
