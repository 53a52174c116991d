#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "backend/data/windows.h"
#include "backend/eval/loss/loss_statistics.h"
#include "backend/file/run_file.h"
#include "backend/trace/trace.h"

namespace foxscope {

/// @content of the root group.
inline constexpr const char* kLossContent = "eval_loss";

/// Where the windows of an evaluation lie, as one tokenizer cut them.
struct EvaluatedWindows {
  std::vector<std::int32_t> document;     ///< [M] index into the documents; without a corpus the window's own number
  std::vector<std::int64_t> token_start;  ///< [M] in the document's tokens, -1 where the text was cut on its own;
                                          ///< empty without a corpus
  std::vector<std::int64_t> byte_start;   ///< [M] in the document's text; empty without a corpus
  std::vector<std::int64_t> byte_end;
  std::vector<std::int64_t> tokens;    ///< [M] their number
  std::int64_t length = 0;             ///< L, the largest of these
  std::vector<std::int32_t> token_id;  ///< [M, L], -1 behind the end of a shorter window; empty where unknown
  bool operator==(const EvaluatedWindows&) const = default;
};

/// One model's losses.
struct EvaluatedModel {
  TraceInfo info;  ///< of a file that was imported the name alone
  std::shared_ptr<const EvaluatedWindows> windows;
  LossTable losses;
  bool averaged = false;  ///< the only row is already a mean over windows that are not known

  /// Mean loss over all tokens, nats.
  [[nodiscard]] Estimate nats_per_token() const;
  /// Sum of the losses over the bytes of the text, in bits: comparable between tokenizers. Nothing without a corpus.
  [[nodiscard]] std::optional<Estimate> bits_per_byte() const;
  /// exp of nats_per_token, its error by the delta method.
  [[nodiscard]] Estimate perplexity() const;
  /// The document of each window, for the functions of loss_statistics.h.
  [[nodiscard]] std::span<const std::int32_t> documents() const { return windows->document; }
  /// Documents that hold windows.
  [[nodiscard]] std::int64_t document_count() const;
};

/// One model minus another on the same windows. Errors come from the spread of the differences.
struct LossDifference {
  std::optional<Estimate> nats_per_token;  ///< nothing where the tokens differ
  std::optional<Estimate> bits_per_byte;   ///< nothing without a corpus
};
/// Whether two models predicted the same tokens in the same windows, so that difference_curve is of use.
bool same_tokens(const EvaluatedModel& model, const EvaluatedModel& minus);
/// @throws UsageError if the two were not evaluated on the same windows
LossDifference loss_difference(const EvaluatedModel& model, const EvaluatedModel& minus);

/// Where the windows came from.
struct EvaluatedCorpus {
  std::string source;                     ///< corpus or file of ids, as it was named
  std::vector<WindowDocument> documents;  ///< that hold windows; empty without a corpus
  std::uint64_t seed = 0;
  std::int64_t documents_read = 0;  ///< of the whole corpus
  std::int64_t tokens_read = 0;
};

/// Losses of one or more models over the same windows, as `foxscope eval loss` and `foxscope eval import` write them.
///
/// Layout of the file (float64 unless said):
///   /                       the run file's attributes, @content = "eval_loss", @source @seed @corpus_documents
///                           @corpus_tokens @error_estimator
///   /documents/name, sha256 strings
///   /windows/document [M] int32, token_start, byte_start, byte_end, tokens [M] int64, token_id [M, L] int32
///                           token_id is -1 behind the end of a shorter window; no bytes without a corpus
///   /models/<NAME>          the run file's attributes, @order (0: the first), @averaged, @documents,
///                           @effective_documents, @nats_per_token(_error) @bits_per_byte(_error) @perplexity(_error)
///     windows               /windows, or windows of its own where its tokenizer cuts the text otherwise
///     loss/                 NXdata: loss, loss_errors [L] = L(p) against position; and what they come from,
///                           per_token_loss [M, L] float32, with window and position as its scales
///     perplexity/           NXdata: perplexity, perplexity_errors [L] = P(l) against context_length (1 to L)
///   /differences/<A>_minus_<B>   NXdata: loss, loss_errors [L] against position, not where tokens differ;
///                           @model @minus @nats_per_token(_error) @bits_per_byte(_error)
/// Unknown errors are NaN. Readers need windows and per_token_loss alone; all else is computed from these.
struct LossEvaluation {
  EvaluatedCorpus corpus;
  std::vector<EvaluatedModel> models;  ///< in the order of the command line
  std::string program_version;
  std::string command_line;
  std::string created;

  /// @throws Error naming the file, the object in it, and the remedy: not HDF5, another kind of file, newer schema,
  ///         damaged
  static LossEvaluation open(const std::filesystem::path& path);
};

/// @throws Error naming the file and the remedy (exists, not writable, disk full)
void write_loss_file(const std::filesystem::path& path, const LossEvaluation& evaluation, const Provenance& provenance,
                     Overwrite overwrite);

}  // namespace foxscope
