#include "backend/trace/token_strings.h"

#include <algorithm>

#include <fmt/format.h>

#include "backend/base/index.h"

namespace foxscope {
namespace {

std::string by_id(std::int32_t id) { return fmt::format("⟨{}⟩", id); }

}  // namespace

std::string predicted_string(const TokenTable& tokens, std::int64_t position) {
  const auto index = static_cast<std::size_t>(position);
  if (index < tokens.string.size()) return tokens.string[index];
  return tokens.id[index] < 0 ? "" : by_id(tokens.id[index]);
}

std::string read_string(const TokenTable& tokens, std::int64_t position) {
  const std::int32_t read = tokens.input_id[index_of(position)];
  // Position p reads the token that p - 1 predicts, but for what stands before the text.
  if (position > 0 && tokens.id[index_of(position - 1)] == read) {
    return predicted_string(tokens, position - 1);
  }
  if (position > 0) return by_id(read);
  return tokens.first_string.empty() ? "⟨BOS⟩" : tokens.first_string;
}

std::string words_before(const TokenTable& tokens, std::int64_t position, int words) {
  constexpr std::int64_t kMostTokens = 24;
  std::string before;
  for (std::int64_t p = position - 1; p >= 0 && p >= position - kMostTokens && words > 0; --p) {
    const std::string token = predicted_string(tokens, p);
    before.insert(0, token);
    const bool by_id = index_of(p) >= tokens.string.size();
    if (by_id || token.starts_with(' ') || token.find('\n') != std::string::npos) --words;
  }
  before.erase(0, std::min(before.find_first_not_of(" \n"), before.size()));
  return before;
}

}  // namespace foxscope
