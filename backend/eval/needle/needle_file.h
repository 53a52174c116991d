#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "backend/eval/needle/needle_prompt.h"
#include "backend/file/run_file.h"
#include "backend/trace/trace.h"

namespace foxscope {

inline constexpr const char* kNeedleContent = "eval_needle";

/// One model's needle test. P lengths, Q depths; cells [P, Q] in C order.
struct NeedleModel {
  TraceInfo info;                               ///< length: of the longest prompt
  std::vector<std::int32_t> found;              ///< [P, Q] 1: the answer stands in the greedy continuation
  std::vector<float> answer_log_probability;    ///< [P, Q] mean over the answer's tokens, nats
  std::vector<float> baseline_log_probability;  ///< [P] the same in the prompt without the needle
  std::vector<std::int64_t> position;           ///< [P] that predicts the answer's first token
  std::vector<std::int64_t> needle_begin;       ///< [P, Q] first position that reads the needle
  std::vector<std::int64_t> needle_end;         ///< [P, Q] behind the last
  std::vector<float> needle_mass;         ///< [P, Q, layers, H] attention from `position`, summed over the needle;
                                          ///< NaN for a head that its layer does not have
  std::vector<float> needle_gate;         ///< [P, Q, layers, H] F from `position` to the needle's last token
  std::vector<std::string> continuation;  ///< [P, Q]
  std::int64_t haystack_tokens = 0;       ///< of the haystack, before it was repeated

  /// answer_log_probability minus the baseline of the same length.
  /// @returns [P, Q] nats a token
  [[nodiscard]] std::vector<float> gain() const;
};

/// A needle test, as `foxscope eval needle` writes it (docs/evaluation.md, Needle test).
///
/// Layout of the file (float32 unless said):
///   /              the run file's attributes, @content = "eval_needle", @haystack (name), @mode, @template (JSON),
///                  @reserved_tokens
///   /length [P]    int64, tokens; /depth [Q] float64, share of the context before the needle (needle_prompt.h)
///   /models/<NAME> NXdata: gain [P, Q] against length and depth; @order and the model's attributes
///     found [P, Q] int32, answer_log_probability [P, Q], baseline_log_probability [P]
///     position [P], needle_begin, needle_end [P, Q] int64
///     needle_mass, needle_gate [P, Q, layers, H]
///     continuation [P * Q] strings, depths of the first length first
struct NeedleEvaluation {
  std::string haystack;
  NeedleMode mode = NeedleMode::easy;
  NeedleTemplate words;
  std::vector<std::int64_t> lengths;  ///< [P]
  std::vector<double> depths;         ///< [Q]
  std::vector<NeedleModel> models;    ///< in the order of the command line
  std::string program_version;
  std::string command_line;
  std::string created;

  [[nodiscard]] std::size_t cells() const { return lengths.size() * depths.size(); }
  enum class CsvHeader { none, names };
  /// A line a cell of every model, by length, then depth: model, haystack, length (tokens), depth (share), gain and the
  /// two log probabilities (nats a token), whether the answer was given (1 or 0), and the positions of the question and
  /// of the needle.
  /// @param header  whether the names of the columns stand above
  [[nodiscard]] std::string csv(CsvHeader header = CsvHeader::names) const;

  /// @throws Error naming the file, the object in it, and the remedy: not HDF5, another kind of file, newer schema,
  ///         damaged
  static NeedleEvaluation open(const std::filesystem::path& path);
};

/// @throws Error naming the file and the remedy (exists, not writable, disk full)
void write_needle_file(const std::filesystem::path& path, const NeedleEvaluation& evaluation,
                       const Provenance& provenance, Overwrite overwrite);

}  // namespace foxscope
