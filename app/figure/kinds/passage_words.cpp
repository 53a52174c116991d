#include "app/figure/kinds/passage_words.h"

#include <cmath>
#include <string>

#include <fmt/format.h>

#include "app/figure/token_text.h"
#include "backend/base/error.h"
#include "backend/base/index.h"

namespace foxscope::figure {
namespace {

bool beginsCharacter(const std::string& text, std::int64_t byte) {
  return byte >= static_cast<std::int64_t>(text.size()) ||
         (static_cast<unsigned char>(text[index_of(byte)]) & 0xc0U) != 0x80U;
}

double larger(double a, double b) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) ? b : a;
  return std::abs(b) > std::abs(a) ? b : a;
}

}  // namespace

std::vector<TintedPiece> tintedPieces(const Trace& trace, const PassageWords& words,
                                      const std::vector<double>& values) {
  const TokenTable& tokens = *trace.tokens();
  const bool predicted = words.shown == PassageWords::Shown::predicted;
  const bool byText = trace.text() && !tokens.byte_start.empty();
  std::vector<TintedPiece> pieces;
  std::int64_t open = -1;  // first byte of a character that goes on in the next token
  for (std::int64_t position = words.range.begin; position < words.range.end; ++position) {
    const double value = values[index_of(position - words.range.begin)];
    const bool outlined = words.outlined == position;
    const std::int64_t token = predicted ? position : position - 1;
    if (!byText || token < 0) {
      const QString text =
          predicted ? predictedText(tokens, position, Whitespace::asIs) : readText(tokens, position, Whitespace::asIs);
      pieces.push_back({text, value, outlined, position});
      continue;
    }
    const std::string& text = trace.text()->content;
    const std::int64_t start = open >= 0 ? open : tokens.byte_start[index_of(token)];
    const std::int64_t end = tokens.byte_end[index_of(token)];
    const QString part =
        QString::fromStdString(text.substr(static_cast<std::size_t>(start), static_cast<std::size_t>(end - start)));
    if (open >= 0) {
      TintedPiece& piece = pieces.back();
      piece.text = part;
      piece.value = larger(piece.value, value);
      piece.outlined = piece.outlined || outlined;
    } else {
      pieces.push_back({part, value, outlined, position});
    }
    open = beginsCharacter(text, end) ? -1 : start;
  }
  return pieces;
}

void requirePositions(const Range& range, std::int64_t length) {
  if (range.begin < 0 || range.begin >= range.end || range.end > length) {
    throw UsageError(fmt::format("positions {}:{}: the text has {}", range.begin, range.end, length));
  }
}

}  // namespace foxscope::figure
