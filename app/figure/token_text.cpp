#include "app/figure/token_text.h"

#include "backend/text/tokenizer.h"
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

QString predictedText(const TokenTable& tokens, std::int64_t position, Whitespace whitespace) {
  return tokenText(predicted_string(tokens, position), whitespace);
}

QString readText(const TokenTable& tokens, std::int64_t position, Whitespace whitespace) {
  return tokenText(read_string(tokens, position), whitespace);
}

}  // namespace foxscope::figure
