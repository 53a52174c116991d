#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "app/gui/document/document.h"
#include "app/gui/text/text_shape.h"
#include "backend/trace/recorder.h"
#include "tests/gui/support.h"

namespace foxscope::gui::test {

/// A run on a text, with random numbers of one layer and two heads.
struct TextRun {
  std::string name = "fox";
  std::string text;
  std::vector<std::pair<std::int64_t, std::int64_t>> tokens;  ///< bytes of each
  bool withText = true;
  bool byIds = false;  ///< of token ids alone, and the last one is not known
  bool gated = true;
  /// Experts that a position may read, of which it reads two where these are kept (Keep::experts); -1: the layer has
  /// none.
  int experts = 0;
  KeepSet keep = {Keep::loss, Keep::gates, Keep::rows, Keep::query_key};
  unsigned seed = 1;
};

/// Tokens of so many bytes each, the last of what is left.
std::vector<std::pair<std::int64_t, std::int64_t>> cutEvery(const std::string& text, std::int64_t bytes);
/// A token for every word with the blank before it.
std::vector<std::pair<std::int64_t, std::int64_t>> cutIntoWords(const std::string& text);
/// English-like prose with paragraphs, of this many words.
std::string prose(int words);
/// A run on prose of so many words, a token each.
TextRun words(int count);

/// Row normalisers are right up to 2000 tokens, 0 beyond.
std::shared_ptr<const Trace> makeTextRun(const TextRun& run);

/// Runs in a document, by way of a run file. @returns false if they did not come
bool openRuns(Document& document, const Folder& folder, const std::vector<std::shared_ptr<const Trace>>& traces);

/// The cells of a run, measured in the application's font.
std::shared_ptr<const TextShape> shapeOf(const Trace& trace);

}  // namespace foxscope::gui::test
