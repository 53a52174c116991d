#pragma once

#include <vector>

#include "backend/eval/windows.h"
#include "backend/text/token_class.h"
#include "backend/text/tokenizer.h"

namespace foxscope {

/// Classes of a window's tokens, [L]; what stands before the window is not known, so that its first word counts as one
/// that begins a sentence. Empty for a window without text.
/// @param tokenizer  that the window's ids belong to
/// @param counts     of the corpus
std::vector<TokenClassSet> window_classes(const Window& window, const Tokenizer& tokenizer, const WordCounts& counts);

}  // namespace foxscope
