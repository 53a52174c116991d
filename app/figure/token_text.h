#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <QString>
#include <QStringList>

#include "backend/trace/trace.h"

namespace foxscope::figure {

/// How text is shown where a line break or a blank would not be seen.
enum class Whitespace { asIs, visible };

/// The token that position p reads, as text: "⟨BOS⟩" or "⟨id⟩" where it is no token of the text, visible signs for
/// blanks and line breaks if asked for ("␣the", "⏎").
/// @param position  0 <= position < length of the table
QString readText(const TokenTable& tokens, std::int64_t position, Whitespace whitespace);
/// The token that position p predicts, likewise.
QString predictedText(const TokenTable& tokens, std::int64_t position, Whitespace whitespace);
/// Any token, as its text is; bytes that are no whole character are spelled out (\xc3).
QString tokenText(const std::string& token, Whitespace whitespace);

/// A token's bytes for a line of words: of more than 256, which no tokenizer makes, the first of them and an ellipsis.
/// A file may say anything of its tokens, and to lay out a line takes time that grows with the square of their length.
std::string shortToken(std::string token);

/// Where a phrase stands in the pieces of a passage.
struct FoundPhrase {
  std::vector<bool> found;  ///< whether a piece holds a part of an occurrence
  std::size_t middle = 0;   ///< the piece that a row shows in its middle
};

/// Looks for a phrase in pieces of text that follow each other, whatever its case. The middle is that piece of an
/// occurrence which is nearest to the place; without an occurrence it is the place.
/// @param phrase  empty: it occurs nowhere
/// @param place   a piece
FoundPhrase findPhrase(const QStringList& pieces, const QString& phrase, std::size_t place);

}  // namespace foxscope::figure
