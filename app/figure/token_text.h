#pragma once

#include <cstdint>
#include <string>

#include <QString>

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

}  // namespace foxscope::figure
