#include "backend/eval/needle/needle_prompt.h"

#include <array>
#include <cmath>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "backend/base/error.h"
#include "backend/text/json_reading.h"

namespace foxscope {
namespace {

using Ids = std::vector<std::int32_t>;

constexpr std::array kKeys = {
    std::pair{"instruction", &NeedleTemplate::instruction}, std::pair{"needle", &NeedleTemplate::needle},
    std::pair{"question", &NeedleTemplate::question}, std::pair{"opening", &NeedleTemplate::opening},
    std::pair{"answer", &NeedleTemplate::answer}};

std::string trimmed(const std::string& text) {
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  if (first == std::string::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\r\n") - first + 1);
}

/// Whether a token's bytes end with . ! or ?, perhaps with closing quotes or brackets behind.
bool is_sentence_end(std::string_view bytes) {
  const std::size_t last = bytes.find_last_not_of("\"')]");
  return last != std::string_view::npos && std::string_view(".!?").find(bytes[last]) != std::string_view::npos;
}

void append(Ids& ids, const Ids& more, std::size_t begin, std::size_t end) {
  ids.insert(ids.end(), more.begin() + static_cast<std::ptrdiff_t>(begin),
             more.begin() + static_cast<std::ptrdiff_t>(end));
}

void append(Ids& ids, const Ids& more) { append(ids, more, 0, more.size()); }

}  // namespace

const char* to_string(NeedleMode mode) { return mode == NeedleMode::easy ? "easy" : "standard"; }

NeedleMode needle_mode_from_string(const std::string& name) {
  if (name == "easy") return NeedleMode::easy;
  if (name == "standard") return NeedleMode::standard;
  throw UsageError(fmt::format("--mode {}: use easy or standard", name));
}

NeedleTemplate NeedleTemplate::built_in() {
  return {
      "A fact about a mill is hidden somewhere in the following text. Find it and remember it: at the end there "
      "will be a question about it.",
      "In the cellar of the mill at Ashford they keep a silver bell and three jars of honey.",
      "What do they keep in the cellar of the mill at Ashford?", "In the cellar of the mill at Ashford they keep",
      "a silver bell and three jars of honey"};
}

NeedleTemplate NeedleTemplate::from_json(std::string_view content, std::string_view name) {
  check_json_bounds(content, std::string(name));
  refuse_repeated_keys(content, std::string(name));
  nlohmann::json object;
  try {
    object = nlohmann::json::parse(content);
  } catch (const nlohmann::json::exception&) {
    throw Error(fmt::format("{}: is not JSON: begin with what --print-template prints", name));
  }
  if (!object.is_object()) {
    throw Error(fmt::format("{}: is not a JSON object: begin with what --print-template prints", name));
  }
  NeedleTemplate result;
  for (const auto& [key, member] : kKeys) {
    if (!object.contains(key) || !object.at(key).is_string() || trimmed(object.at(key).get<std::string>()).empty()) {
      throw Error(fmt::format("{}: {} must be a text that is not empty", name, key));
    }
    result.*member = trimmed(object.at(key).get<std::string>());
    object.erase(key);
  }
  if (!object.empty()) {
    throw Error(fmt::format("{}: there is no key {}: use instruction, needle, question, opening and answer", name,
                            nlohmann::json(object.begin().key()).dump()));
  }
  if (result.needle.find(result.answer) == std::string::npos) {
    throw Error(fmt::format("{}: the needle does not hold the answer: it could not be found", name));
  }
  return result;
}

std::string NeedleTemplate::json() const {
  nlohmann::ordered_json object;
  for (const auto& [key, member] : kKeys) object[key] = this->*member;
  return object.dump(2) + "\n";
}

NeedleParts cut_needle(const NeedleTemplate& words, NeedleMode mode, const Tokenizer& tokenizer) {
  const std::string asked = mode == NeedleMode::easy ? " " + words.question : std::string();
  NeedleParts parts;
  parts.instruction = tokenizer.encode(words.instruction + "\n\n").id;
  parts.needle = tokenizer.encode(asked + " " + words.needle).id;
  parts.question = tokenizer.encode("\n\n" + words.question + " " + words.opening).id;
  parts.answer = tokenizer.encode(" " + words.answer).id;
  const auto reserved = static_cast<std::int64_t>(parts.question.size() + parts.answer.size());
  if (reserved > kReservedTokens) {
    throw Error(
        fmt::format("the template's question, opening words and answer take {} tokens: {} are kept for them, "
                    "shorten them",
                    reserved, kReservedTokens));
  }
  return parts;
}

void cut_haystack(const std::vector<std::string>& texts, const std::string& name, std::int64_t tokens,
                  const Tokenizer& tokenizer, NeedleParts& parts) {
  parts.haystack.clear();
  parts.haystack_tokens = 0;
  while (static_cast<std::int64_t>(parts.haystack.size()) < tokens) {
    for (const std::string& text : texts) {
      append(parts.haystack, tokenizer.encode(parts.haystack.empty() ? text : "\n\n" + text).id);
      if (static_cast<std::int64_t>(parts.haystack.size()) >= tokens) break;
    }
    if (parts.haystack.empty()) throw Error(fmt::format("{}: holds no text to hide a needle in", name));
    if (parts.haystack_tokens == 0) parts.haystack_tokens = static_cast<std::int64_t>(parts.haystack.size());
  }
  parts.ends_sentence.clear();
  for (const std::int32_t id : parts.haystack) {
    parts.ends_sentence.push_back(is_sentence_end(tokenizer.token_bytes(id)));
  }
}

std::int64_t context_tokens(const NeedleParts& parts, std::int64_t length) {
  const auto taken = static_cast<std::int64_t>(1 + parts.instruction.size() + parts.needle.size()) + kReservedTokens;
  if (length > taken) return length - taken;
  throw UsageError(
      fmt::format("--lengths: {} tokens leave no room for a context: instruction, needle and the {} "
                  "tokens kept for the question take {}",
                  length, kReservedTokens, taken));
}

NeedlePrompt needle_prompt(const NeedleParts& parts, std::int32_t bos, std::int64_t length, double depth) {
  const auto context = static_cast<std::size_t>(context_tokens(parts, length));
  std::size_t before = context;
  if (depth < 1) {
    before = static_cast<std::size_t>(std::floor(static_cast<double>(context) * depth));
    while (before > 0 && !parts.ends_sentence[before - 1]) --before;
  }
  NeedlePrompt prompt;
  prompt.input_ids = {bos};
  append(prompt.input_ids, parts.instruction);
  append(prompt.input_ids, parts.haystack, 0, before);
  prompt.needle_begin = static_cast<std::int64_t>(prompt.input_ids.size());
  append(prompt.input_ids, parts.needle);
  prompt.needle_end = static_cast<std::int64_t>(prompt.input_ids.size());
  append(prompt.input_ids, parts.haystack, before, context);
  append(prompt.input_ids, parts.question);
  return prompt;
}

NeedlePrompt plain_prompt(const NeedleParts& parts, std::int32_t bos, std::int64_t length) {
  const auto context = static_cast<std::size_t>(context_tokens(parts, length));
  NeedlePrompt prompt;
  prompt.input_ids = {bos};
  append(prompt.input_ids, parts.instruction);
  append(prompt.input_ids, parts.haystack, 0, context + parts.needle.size());
  append(prompt.input_ids, parts.question);
  return prompt;
}

}  // namespace foxscope
