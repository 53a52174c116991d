#include "backend/text/token_decoder.h"

#include <optional>

#include "backend/base/error.h"
#include "backend/text/unicode/byte_alphabet.h"

namespace foxscope {
namespace {

/// The bytes of all tokens may be this many times those of their spellings, plus a little.
constexpr std::size_t kMostDecoderGrowth = 32;
constexpr std::size_t kDecoderGrowthOfAny = std::size_t{1} << 20;

std::string replaced(std::string_view text, std::string_view what, std::string_view content) {
  std::string result;
  std::size_t done = 0;
  for (std::size_t at = text.find(what); at != std::string_view::npos; at = text.find(what, done)) {
    result.append(text, done, at - done).append(content);
    done = at + what.size();
  }
  return result.append(text, done);
}

/// <0x0A> is a line break.
std::optional<char> fallback_byte(std::string_view token) {
  if (token.size() != 6 || !token.starts_with("<0x") || token.back() != '>') return std::nullopt;
  int byte = 0;
  for (const char c : token.substr(3, 2)) {
    const int digit = c >= '0' && c <= '9'   ? c - '0'
                      : c >= 'A' && c <= 'F' ? c - 'A' + 10
                      : c >= 'a' && c <= 'f' ? c - 'a' + 10
                                             : -1;
    if (digit < 0) return std::nullopt;
    byte = 16 * byte + digit;
  }
  return static_cast<char>(byte);
}

/// The steps that take tokens one by one.
std::string decode_token(std::string token, const std::vector<DecoderStep>& steps, bool first, std::size_t most) {
  for (const DecoderStep& step : steps) {
    if (token.size() > most) break;  // the caller refuses it
    switch (step.kind) {
      case DecoderStep::Kind::byte_level:
        return unspell_bytes(token).value_or(token);
      case DecoderStep::Kind::byte_fallback:
        if (const std::optional<char> byte = fallback_byte(token)) token = std::string(1, *byte);
        break;
      case DecoderStep::Kind::replace:
        token = replaced(token, step.what, step.content);
        break;
      case DecoderStep::Kind::metaspace:
        token = replaced(token, step.what, first && step.prepended ? "" : " ");
        break;
      case DecoderStep::Kind::fuse:
      case DecoderStep::Kind::strip:
        return token;
    }
  }
  return token;
}

void strip(const DecoderStep& step, std::string& text) {
  std::string_view rest = text;
  for (std::size_t n = 0; n < step.at_begin && rest.starts_with(step.what); ++n) rest.remove_prefix(step.what.size());
  for (std::size_t n = 0; n < step.at_end && rest.ends_with(step.what); ++n) rest.remove_suffix(step.what.size());
  text = std::string(rest);
}

}  // namespace

void TokenDecoder::Table::add(std::string_view bytes, std::size_t most, const std::string& name) {
  all_ += bytes;
  end_.push_back(all_.size());
  if (all_.size() <= most) return;
  throw Error(name + ": the decoder makes the tokens more than " + std::to_string(kMostDecoderGrowth) +
              " times as long; fetch the file again or repair it");
}

TokenDecoder::TokenDecoder(const TokenizerDescription& description,
                           const std::map<std::string, std::string>& normalized) {
  using Kind = DecoderStep::Kind;
  const std::vector<DecoderStep>& steps = description.decoder;
  for (const DecoderStep& step : steps) {
    if (step.kind == Kind::strip) strips_.push_back(step);
    first_differs_ = first_differs_ || (step.kind == Kind::metaspace && step.prepended);
  }
  std::size_t spelled = 0;
  const std::int32_t size = description.vocabulary.size();
  for (std::int32_t id = 0; id < size; ++id) {
    if (const std::string* spelling = description.vocabulary.spelling(id)) spelled += spelling->size();
  }
  const std::size_t most = kMostDecoderGrowth * spelled + kDecoderGrowthOfAny;
  for (std::int32_t id = 0; id < size; ++id) {
    std::string token;
    bool literal = true;
    if (const std::string* spelling = description.vocabulary.spelling(id)) {
      const auto changed = normalized.find(*spelling);
      token = changed == normalized.end() ? *spelling : changed->second;
      // The contents of added tokens are text: they are not spelled as bytes are.
      literal = description.symbols == SymbolKind::bytes && description.added_tokens.contains(*spelling);
    }
    within_.add(literal ? token : decode_token(token, steps, false, most), most, description.name);
    if (first_differs_) first_.add(literal ? token : decode_token(token, steps, true, most), most, description.name);
  }
}

std::string TokenDecoder::join(std::span<const std::int32_t> ids) const {
  std::string text;
  for (const std::int32_t id : ids) text += bytes(static_cast<std::size_t>(id));
  return text;
}

std::string TokenDecoder::decode(std::span<const std::int32_t> ids) const {
  std::string text;
  if (first_differs_ && !ids.empty()) {
    text = std::string(first_.bytes(static_cast<std::size_t>(ids.front()))) + join(ids.subspan(1));
  } else {
    text = join(ids);
  }
  for (const DecoderStep& step : strips_) strip(step, text);
  return text;
}

}  // namespace foxscope
