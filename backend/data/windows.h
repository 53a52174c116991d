#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "backend/base/job.h"
#include "backend/text/token_class.h"
#include "backend/text/tokenizer.h"

namespace foxscope {

/// Windows of a corpus that are to be looked at.
struct WindowOptions {
  std::int64_t length = 2048;           ///< L, tokens of a window
  std::optional<std::int64_t> windows;  ///< M; none: kDefaultWindows, or as many as the corpus has room for
  std::uint64_t seed = 0;
};
inline constexpr std::int64_t kDefaultWindows = 24;

/// A document that holds windows.
struct WindowDocument {
  std::string name;    ///< CorpusDocument::name
  std::string sha256;  ///< of its text
};

/// A piece of a document that a model reads on its own, after BOS.
struct Window {
  std::int32_t document = 0;     ///< index among the documents that hold windows
  std::int64_t token_start = 0;  ///< its first token, counted in the document's tokens; -1: cut on its own
  std::int64_t byte_start = 0;   ///< of its text in the document's
  std::int64_t byte_end = 0;
  std::vector<std::int32_t> ids;  ///< its tokens: the labels of its positions
  /// The document's characters that it has a byte of: a window may begin and end within a character. Empty for windows
  /// given as ids, as are id_start and id_end.
  std::string text;
  std::int64_t text_start = 0;         ///< where `text` begins in the document's
  std::vector<std::int32_t> id_start;  ///< [L] where each of `ids` begins and ends in `text`, bytes
  std::vector<std::int32_t> id_end;

  /// `text` without the characters that it has only a part of.
  [[nodiscard]] std::string_view whole_characters() const;
};

/// Windows of a corpus, in the order of documents and tokens.
struct Windows {
  std::vector<WindowDocument> documents;
  std::vector<Window> windows;
  std::int64_t corpus_documents = 0;  ///< of the whole corpus
  std::int64_t corpus_tokens = 0;
  std::int64_t room = 0;      ///< how many windows of this length the corpus has room for
  std::int64_t repeated = 0;  ///< documents long enough for a window, or rows of ids, that were left out as repeated
};

/// Random numbers that are the same on every platform: the bits are those of std::mt19937_64, which the C++ standard
/// fixes; the standard's distributions are not fixed and not used.
class WindowRandom {
 public:
  explicit WindowRandom(std::uint64_t seed) : generator_(seed) {}
  /// A whole number from 0 to below `bound` (at least 1), each equally likely: draws from the top 2^64 mod `bound`
  /// values of the generator are rejected, the rest is taken modulo `bound`.
  std::uint64_t below(std::uint64_t bound);

 private:
  std::mt19937_64 generator_;
};

/// Chooses M windows of L tokens at random offsets inside documents. No window crosses the end of a document, and no
/// two overlap. The rule:
///
/// 1. Every document is cut into tokens as a whole. One of n tokens has room for floor(n / L) windows; the corpus has
///    the sum of these, K. Documents shorter than L give none, nor do those whose text one before them has: it would
///    count twice, as if it were independent.
/// 2. M of the K places are drawn without replacement (Floyd's algorithm: for j from K - M to K - 1 draw t below
///    j + 1, take t, or j if t is taken already). A document with m of its places drawn gets m windows, so that
///    documents weigh as much as they are long.
/// 3. Documents in order: of the n - m L tokens that its windows leave free, m numbers are drawn below n - m L + 1 and
///    sorted, g_0 <= g_1 <= ...; window i starts at token g_i + i L.
///
/// Draws are those of WindowRandom. Equal corpus, tokenizer, length, number and seed give equal windows.
/// The corpus is read twice, so it must be a file or a folder.
/// @returns nothing if the job was stopped
/// @throws Error as CorpusReader does; where no document is long enough, or there is no room for that many windows
/// @throws UsageError for a length or a number below 1
std::optional<Windows> choose_windows(const std::filesystem::path& corpus, const Tokenizer& tokenizer,
                                      const WindowOptions& options, const Job& job);

/// The same texts for another tokenizer. Where both tokenizers cut the whole characters of every window, taken on their
/// own, into the same tokens, the windows are returned as they are; else they are cut by `other`, and the numbers of
/// tokens differ between windows (token_start is -1).
/// @throws Error for a window without a whole character, which would have no tokens
Windows cut_windows(const Windows& windows, const Tokenizer& chosen_with, const Tokenizer& other);

/// Classes of a window's tokens, [L]; what stands before the window is not known, so that its first word counts as one
/// that begins a sentence. Empty for a window without text.
/// @param counts  of the corpus
std::vector<TokenClassSet> window_classes(const Window& window, const WordCounts& counts);

/// The input ids of a window's positions: BOS, then all labels but the last.
std::vector<std::int32_t> input_ids(const std::vector<std::int32_t>& labels, std::int32_t bos);

}  // namespace foxscope
