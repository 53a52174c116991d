#include "app/figure/token_text.h"

#include <algorithm>
#include <cstdlib>

#include "backend/base/index.h"
#include "backend/text/tokenizer.h"
#include "backend/text/unicode/utf8.h"
#include "backend/trace/token_strings.h"

namespace foxscope::figure {
namespace {

QString madeVisible(const QString& text) {
  QString shown;
  for (const QChar character : text) {
    if (character == ' ') {
      shown += QChar(0x2423);
    } else if (character == '\n') {
      shown += QChar(0x23ce);
    } else if (character == '\t') {
      shown += QChar(0x21e5);
    } else if (!character.isPrint() && !character.isSurrogate()) {
      shown += QStringLiteral("\\x%1").arg(character.unicode(), 2, 16, QLatin1Char('0'));
    } else {
      shown += character;
    }
  }
  return shown;
}

}  // namespace

QString tokenText(const std::string& token, Whitespace whitespace) {
  const QString text = QString::fromStdString(spell_invalid_utf8(token));
  return whitespace == Whitespace::visible ? madeVisible(text) : text;
}

std::string shortToken(std::string token) {
  constexpr std::size_t kMost = 256;
  if (token.size() <= kMost) return token;
  token.resize(previous_character(token, kMost + 1));  // where the character begins that has the next byte
  return token + "…";
}

QString predictedText(const TokenTable& tokens, std::int64_t position, Whitespace whitespace) {
  return tokenText(predicted_string(tokens, position), whitespace);
}

QString readText(const TokenTable& tokens, std::int64_t position, Whitespace whitespace) {
  return tokenText(read_string(tokens, position), whitespace);
}

FoundPhrase findPhrase(const QStringList& pieces, const QString& phrase, std::size_t place) {
  FoundPhrase answer{std::vector<bool>(index_of(pieces.size())), place};
  if (phrase.isEmpty()) return answer;
  std::vector<std::ptrdiff_t> pieceAt;  // of each character
  for (qsizetype n = 0; n < pieces.size(); ++n) pieceAt.insert(pieceAt.end(), index_of(pieces[n].size()), n);
  const QString text = pieces.join(QString());
  const auto wanted = static_cast<std::ptrdiff_t>(place);
  std::ptrdiff_t nearest = pieces.size();
  for (auto at = text.indexOf(phrase, 0, Qt::CaseInsensitive); at >= 0;
       at = text.indexOf(phrase, at + 1, Qt::CaseInsensitive)) {
    const std::ptrdiff_t first = pieceAt[index_of(at)];
    const std::ptrdiff_t last = pieceAt[index_of(at + phrase.size() - 1)];
    for (std::ptrdiff_t n = first; n <= last; ++n) answer.found[index_of(n)] = true;
    const std::ptrdiff_t middle = std::clamp(wanted, first, last);
    if (std::abs(middle - wanted) >= nearest) continue;
    nearest = std::abs(middle - wanted);
    answer.middle = index_of(middle);
  }
  return answer;
}

}  // namespace foxscope::figure
