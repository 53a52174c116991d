#include "app/figure/token_text.h"

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

QString byId(std::int32_t id) { return QStringLiteral("⟨%1⟩").arg(id); }

}  // namespace

QString predictedText(const TokenTable& tokens, std::int64_t position, Whitespace whitespace) {
  const auto index = static_cast<std::size_t>(position);
  if (index >= tokens.string.size()) return byId(tokens.id[index]);
  const QString text = QString::fromStdString(tokens.string[index]);
  return whitespace == Whitespace::visible ? madeVisible(text) : text;
}

QString readText(const TokenTable& tokens, std::int64_t position, Whitespace whitespace) {
  const std::int32_t read = tokens.input_id[static_cast<std::size_t>(position)];
  // Position p reads the token that p - 1 predicts, but for what stands before the text.
  if (position > 0 && tokens.id[static_cast<std::size_t>(position - 1)] == read) {
    return predictedText(tokens, position - 1, whitespace);
  }
  return position == 0 ? QStringLiteral("⟨BOS⟩") : byId(read);
}

}  // namespace foxscope::figure
