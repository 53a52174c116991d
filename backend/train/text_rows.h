#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>

#include "backend/base/job.h"
#include "backend/train/token_rows.h"

namespace foxscope {

/// How texts become tokens.
struct TextOptions {
  std::filesystem::path tokenizer;     ///< folder
  std::int32_t bos = 0;                ///< stands between documents
  std::filesystem::path cache_folder;  ///< where tokens are kept; made if it is missing
  /// Bytes of all files there; beyond, those go whose last use is longest ago. The one used last stays, whatever its
  /// size.
  std::uint64_t cache_bytes = std::uint64_t{32} << 30;
};

/// $XDG_CACHE_HOME/foxscope/tokens, else ~/.cache/foxscope/tokens.
std::filesystem::path token_cache_folder();

/// The rows of a corpus (CorpusReader). Documents in their order, each cut into tokens as a whole, make one stream with
/// one BOS between each two; those without a token are passed over. Rows are cut from the stream, so that one may hold
/// the end of a document, BOS, and the beginning of the next.
///
/// Tokens are made once, on all threads of the job's executor, and kept in a file of the cache folder (docs/files.md),
/// found again by SHA-256 over the corpus's files, the tokenizer's files and BOS. Tokens that do not have the SHA-256
/// that the file names are made anew. The texts may be private: only their user may read the files. Several processes
/// may open one corpus at the same time; each makes the file.
/// @param length      L
/// @param vocabulary  ids are in [0, vocabulary)
/// @returns null if the job was stopped
/// @throws Error as CorpusReader and Tokenizer::load do; for a corpus of less than a row, a token outside the
///         vocabulary, a corpus that changes meanwhile, and a cache that cannot be written
std::unique_ptr<TokenRows> open_text_rows(const std::filesystem::path& corpus, std::int64_t length,
                                          std::int64_t vocabulary, const TextOptions& options, const Job& job);

}  // namespace foxscope
