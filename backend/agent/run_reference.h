#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "backend/agent/described.h"
#include "backend/file/run_check.h"

namespace foxscope::agent {

/// A run file in a request.
struct RunReference {
  std::string path;
  std::string identity;    ///< of the file that was opened
  bool unchecked = false;  ///< it was opened so
  bool rows = false;       ///< row normalisers that it lacks were computed
};

/// A head in a request.
struct HeadReference {
  RunReference run;
  std::string model;
  std::string device;  ///< "auto", "cpu", "cuda", "cuda:N" of that machine
  int layer = 0;
  int head = 0;
};

/// An array of a run that is there.
struct KeptArray {
  TraceArray array = TraceArray::per_token_loss;
  int index = 0;
  bool zero = false;  ///< all its numbers are 0
};

/// Tokens of models, or a part of them, in an answer, without what follows from the rest.
struct OpenedTokens {
  std::optional<std::vector<std::int32_t>> id;  ///< [L] what position p predicts; absent: as id_of_bytes says
  /// The id of each token that has other bytes in the text than those before it.
  std::vector<std::int32_t> id_of_bytes;
  std::optional<std::vector<std::int32_t>> input_id;  ///< absent: first_input_id, then id[p-1]
  std::int32_t first_input_id = 0;
  std::int64_t first_byte = 0;
  std::optional<std::vector<std::int64_t>> byte_start;  ///< absent: first_byte, then byte_end[p-1]
  std::vector<std::int32_t> byte_size;                  ///< byte_end - byte_start; empty without a text
  std::optional<std::vector<std::string>> string;       ///< absent: the bytes of the text
  std::optional<std::string> first_string;              ///< what position 0 reads; absent: BOS, or a later part
};
OpenedTokens packed_tokens(const TokenTable& tokens, const Text* text, const Range& part);
/// Adds a part of the tokens behind those that came before.
/// @throws ProtocolError where the lists do not fit each other or the text
void unpack_tokens(const OpenedTokens& part, const Text* text, TokenTable& tokens);

/// A model's run in the answer to "open".
struct OpenedTrace {
  TraceInfo info;
  RunCheckReport check;
  std::vector<KeptArray> kept;
  std::vector<TraceArray> stored;          ///< queries, keys, values: those that are there
  std::optional<std::vector<float>> loss;  ///< [L] nats, where it was asked for and is short enough
  /// [layers, H] as the request "gates" answers them, where losses were asked for and the means are known already.
  std::optional<std::vector<double>> mean_log_gates;
  int tokens = 0;  ///< place of its tokens in the answer's list
};

/// The answer to "open".
struct OpenedRun {
  RunReference run;
  std::int64_t bytes = 0;  ///< of the file
  std::string program_version;
  std::string command_line;
  std::string created;
  std::vector<Text> texts;  ///< one, or none
  /// Models with equal tokens share them. Where text and tokens are too long for one answer, they are all empty, and
  /// come piece by piece ("text", "tokens").
  std::vector<OpenedTokens> tokens;
  std::optional<std::int64_t> text_bytes;  ///< of the text that comes in pieces
  std::vector<OpenedTrace> traces;
};

template <typename Visit>
void fields(Visit& visit, RunReference& run) {
  visit("path", run.path);
  visit("identity", run.identity);
  visit("unchecked", run.unchecked);
  visit("rows", run.rows);
}

template <typename Visit>
void fields(Visit& visit, HeadReference& head) {
  visit("run", head.run);
  visit("model", head.model);
  visit("device", head.device);
  visit("layer", head.layer);
  visit("head", head.head);
}

template <typename Visit>
void fields(Visit& visit, KeptArray& kept) {
  visit("array", kept.array);
  visit("index", kept.index);
  visit("zero", kept.zero);
}

template <typename Visit>
void fields(Visit& visit, OpenedTokens& tokens) {
  visit("id", tokens.id);
  visit("id_of_bytes", tokens.id_of_bytes);
  visit("input_id", tokens.input_id);
  visit("first_input_id", tokens.first_input_id);
  visit("first_byte", tokens.first_byte);
  visit("byte_start", tokens.byte_start);
  visit("byte_size", tokens.byte_size);
  visit("string", tokens.string);
  visit("first_string", tokens.first_string);
}

template <typename Visit>
void fields(Visit& visit, OpenedTrace& trace) {
  visit("info", trace.info);
  visit("check", trace.check);
  visit("kept", trace.kept);
  visit("stored", trace.stored);
  visit("loss", trace.loss);
  visit("mean_log_gates", trace.mean_log_gates);
  visit("tokens", trace.tokens);
}

template <typename Visit>
void fields(Visit& visit, OpenedRun& opened) {
  visit("run", opened.run);
  visit("bytes", opened.bytes);
  visit("program_version", opened.program_version);
  visit("command_line", opened.command_line);
  visit("created", opened.created);
  visit("texts", opened.texts);
  visit("tokens", opened.tokens);
  visit("text_bytes", opened.text_bytes);
  visit("traces", opened.traces);
}

}  // namespace foxscope::agent

namespace foxscope {

template <typename Visit>
void fields(Visit& visit, RunCheckReport& report) {
  visit("layers", report.layers);
  visit("gates", report.gates);
  visit("rows", report.rows);
  visit("unknown", report.unknown);
  visit("largest_error", report.largest_error);
  visit("whole", report.whole);
}

}  // namespace foxscope
