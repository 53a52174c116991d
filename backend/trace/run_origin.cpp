#include "backend/trace/run_origin.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <tuple>
#include <vector>

#include <fmt/format.h>

namespace foxscope {
namespace {

constexpr const char* kRecordingPage = "docs/python-recording.md";

/// Says what to do in Python, where the model of a recorded run is.
std::string recorded_remedy(Keep lacking) {
  const char* const word = word_of(lacking).word;
  const char* const title = word_of(lacking).title;
  switch (lacking) {
    case Keep::loss:
      return "record it again, and call rec.logits(...) in the block";
    case Keep::gates:
    case Keep::query_key:
    case Keep::values:
      return fmt::format("record it again with '{}' in keep=", word);
    case Keep::logits:
      return "record it again with 'logits' in keep=, and call rec.logits(...) in the block";
    case Keep::predictions:
      return "a recorded run has no model here, and predictions are made of its logits: record it again with 'logits' "
             "in keep=, and call rec.logits(...) in the block";
    case Keep::rows:
    case Keep::ungated:
      return "record it again with 'qk' in keep=, and the program computes them";
    case Keep::saliency:
      return fmt::format("a recorded run has no model here: take the gradients in Python ({}, Saliency)",
                         kRecordingPage);
    case Keep::hidden:
    case Keep::experts:
      break;
  }
  return fmt::format("a recorded run has no model here, and foxscope.record keeps no {}", title);
}

/// Whether a run reads, behind its first token, what another reads from its first one on.
bool begins_one_earlier(const Trace& run, const Trace& other) {
  const std::vector<std::int32_t>& read = run.tokens()->input_id;
  const std::vector<std::int32_t>& others = other.tokens()->input_id;
  if (read.size() < 2) return false;
  const auto common = static_cast<std::ptrdiff_t>(std::min(read.size() - 1, others.size()));
  return common > 0 && std::equal(read.begin() + 1, read.begin() + 1 + common, others.begin());
}

}  // namespace

RunOrigin origin_of(const TraceInfo& info) {
  // foxscope.record says so there, and only runs of this program know the checksum of their weights.
  if (info.attention_kernel.starts_with("recorded")) return RunOrigin::recorded;
  return info.weights_sha256.empty() ? RunOrigin::other : RunOrigin::program;
}

bool is_unrecorded(const TraceInfo& info, int layer) {
  return origin_of(info) == RunOrigin::recorded && !info.mixer(layer).kind().mixes;
}

std::string keep_remedy(const TraceInfo& info, Keep lacking, const std::string& options) {
  if (origin_of(info) == RunOrigin::recorded) return recorded_remedy(lacking);
  if (!options.empty()) return "run again with " + options;
  if (lacking == Keep::saliency) return "run again with --keep loss,gates,saliency";
  return fmt::format("run again with '{}' in --keep", word_of(lacking).word);
}

std::string losses_remedy(const TraceInfo& info) {
  if (origin_of(info) == RunOrigin::other) {
    return "import it again with a tensor named loss, or write loss/per_token_loss";
  }
  return keep_remedy(info, Keep::loss, "--keep loss");
}

std::string one_token_more(const NamedTrace& a, const NamedTrace& b) {
  const bool first = begins_one_earlier(a.run, b.run);
  if (first == begins_one_earlier(b.run, a.run)) return {};  // a text of one token again and again does not tell
  const auto& [longer, shorter] = first ? std::tie(a, b) : std::tie(b, a);
  const TokenTable& tokens = *longer.run.tokens();
  const std::string token = fmt::format("token {}", tokens.input_id.front());
  return fmt::format("{} begins with {}, which {} does not read", longer.name,
                     tokens.first_string.empty() ? "BOS (" + token + ")" : token, shorter.name);
}

std::string same_text_remedy(const NamedTrace& a, const NamedTrace& b, const std::string& run_again) {
  const bool first = origin_of(a.run.info()) == RunOrigin::recorded;
  const bool second = origin_of(b.run.info()) == RunOrigin::recorded;
  if (first && second) return "record both with the same input_ids";
  if (!first && !second) return run_again;
  const auto& [recorded, other] = first ? std::tie(a, b) : std::tie(b, a);
  return fmt::format("record {} again on the tokens that {} read ({}, Beside a model that the program runs)",
                     recorded.name, other.name, kRecordingPage);
}

}  // namespace foxscope
