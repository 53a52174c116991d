#include "backend/eval/surprisal/trace_surprisal.h"

#include <cmath>
#include <limits>
#include <memory>
#include <span>

#include <fmt/format.h>

#include "backend/base/error.h"
#include "backend/trace/run_origin.h"

namespace foxscope {
namespace {

bool has_gates(const HeadOf& head) {
  const Trace& trace = *head.trace;
  return forgets(trace.info(), head.layer) && (trace.has(TraceArray::cumulative_log_gate, head.layer) ||
                                               trace.has(TraceArray::cumulative_log_decay, head.layer));
}

}  // namespace

Surprisals surprisals_of(const HeadOf& head, const std::string& document, WordRule rule,
                         const TokenDistributions& distributions) {
  const Trace& trace = *head.trace;
  const TokenTable& tokens = *trace.tokens();
  if (!trace.text() || tokens.byte_start.empty()) {
    throw Error(fmt::format("{}: the run read token ids and has no words: run it on a text", trace.info().name));
  }
  const std::span<const float> losses = trace.per_token_loss();
  if (losses.empty()) {
    throw Error(fmt::format("{}: the run did not keep losses: {}", trace.info().name, losses_remedy(trace.info())));
  }
  constexpr float kUnknown = std::numeric_limits<float>::quiet_NaN();
  const std::size_t length = tokens.id.size();
  Surprisals table;
  table.model = trace.info().name;
  table.documents = {document};
  table.document.assign(length, 0);
  for (std::size_t t = 0; t < length; ++t) table.token.push_back(static_cast<std::int64_t>(t));
  table.id = tokens.id;
  table.byte_start = tokens.byte_start;
  table.byte_end = tokens.byte_end;
  table.string = tokens.string;
  table.string.resize(length);
  table.surprisal.assign(losses.begin(), losses.end());
  table.entropy = distributions.entropy;
  table.entropy.resize(length, kUnknown);
  table.rank = distributions.rank;
  table.rank.resize(length, 0);
  // The text of a file of several models may go on behind what this one read.
  const Text& text = *trace.text();
  const Text read = text.unread_bytes > 0 ? part_read(text, tokens.byte_end.back()) : text;
  table.words = words_of(read, rule);
  table.word = give_tokens(table.words, read, tokens.byte_start, 0);
  if (has_gates(head)) {
    table.gate_names = {fmt::format("gate_{}_{}", head.layer, head.head)};
    const std::span<const double> c = trace.cumulative_log_gate(head.layer, head.head);
    for (std::size_t t = 0; t + 1 < length; ++t) table.gate.push_back(static_cast<float>(std::exp(c[t + 1] - c[t])));
    table.gate.push_back(kUnknown);
  }
  return table;
}

}  // namespace foxscope
