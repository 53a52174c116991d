#include "backend/text/added_tokens.h"

#include <algorithm>

#include "backend/text/pattern.h"
#include "backend/text/unicode/utf8.h"

namespace foxscope {
namespace {

std::size_t white_space_before(std::string_view text, std::size_t position) {
  while (position > 0) {
    const std::size_t previous = previous_character(text, position);
    if (!is_white_space(character_at(text, previous).code_point)) break;
    position = previous;
  }
  return position;
}

std::size_t white_space_after(std::string_view text, std::size_t position) {
  while (position < text.size()) {
    const Character character = character_at(text, position);
    if (!is_white_space(character.code_point)) break;
    position += character.bytes;
  }
  return position;
}

bool stands_alone(std::string_view text, std::size_t begin, std::size_t end) {
  if (begin > 0 && begins_with_word_character(text.substr(previous_character(text, begin)))) return false;
  return end == text.size() || !begins_with_word_character(text.substr(end));
}

}  // namespace

void AddedTokens::Group::add(const AddedToken& token) {
  std::vector<AddedToken>& list = by_first_byte[static_cast<std::uint8_t>(token.content.front())];
  if (list.empty()) first_bytes += token.content.front();
  list.push_back(token);
  std::bitset<256>& second = second_byte[static_cast<std::uint8_t>(token.content.front())];
  if (token.content.size() == 1) {
    second.set();
  } else {
    second.set(static_cast<std::uint8_t>(token.content[1]));
  }
}

void AddedTokens::Group::sort() {
  for (std::vector<AddedToken>& list : by_first_byte) {
    std::sort(list.begin(), list.end(),
              [](const AddedToken& one, const AddedToken& other) { return one.content.size() > other.content.size(); });
  }
}

/// The first added token from `from` on and where it begins; null: none.
const AddedToken* AddedTokens::Group::next(std::string_view text, std::size_t from, std::size_t& at) const {
  for (at = from; at < text.size(); ++at) {
    if (first_bytes.size() == 1) {
      at = text.find(first_bytes.front(), at);
      if (at == std::string_view::npos) return nullptr;
    }
    const auto first = static_cast<std::uint8_t>(text[at]);
    if (by_first_byte[first].empty()) continue;
    if (at + 1 < text.size() && !second_byte[first][static_cast<std::uint8_t>(text[at + 1])]) continue;
    for (const AddedToken& token : by_first_byte[first]) {
      if (text.compare(at, token.content.size(), token.content) == 0) return &token;
    }
  }
  return nullptr;
}

void AddedTokens::Group::split(std::string_view text, Section section, std::vector<Section>& sections) const {
  const std::string_view part = text.substr(section.begin, section.end - section.begin);
  const auto put = [&](std::size_t begin, std::size_t end, std::int32_t id) {
    sections.push_back({section.begin + begin, section.begin + end, id});
  };
  std::size_t done = 0;
  std::size_t at = 0;
  std::size_t from = 0;
  while (!first_bytes.empty()) {
    const AddedToken* token = next(part, from, at);
    if (token == nullptr) break;
    std::size_t begin = at;
    std::size_t end = from = at + token->content.size();
    if (token->single_word && !stands_alone(part, begin, end)) continue;
    if (token->strip_left) begin = std::max(white_space_before(part, begin), done);
    if (token->strip_right) end = white_space_after(part, end);
    if (begin >= end) continue;  // the token before took all of it along
    if (done < begin) put(done, begin, -1);
    put(begin, end, token->id);
    done = end;
  }
  if (done < part.size()) put(done, part.size(), -1);
}

AddedTokens::AddedTokens(const std::vector<AddedToken>& tokens) {
  for (const AddedToken& token : tokens) (token.normalized ? normalized_ : plain_).add(token);
  plain_.sort();
  normalized_.sort();
}

std::vector<Section> AddedTokens::split(std::string_view text) const {
  std::vector<Section> sections;
  plain_.split(text, {0, text.size(), -1}, sections);
  return sections;
}

std::vector<Section> AddedTokens::split_normalized(std::string_view text) const {
  std::vector<Section> sections;
  normalized_.split(text, {0, text.size(), -1}, sections);
  return sections;
}

}  // namespace foxscope
