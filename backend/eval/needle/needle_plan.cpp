#include "backend/eval/needle/needle_plan.h"

#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "backend/base/error.h"
#include "backend/base/sha256.h"
#include "backend/data/corpus.h"
#include "backend/model/layer/checks.h"
#include "backend/model/layer/forward_pass.h"
#include "backend/model/session/decode_state.h"

namespace foxscope {
namespace {

std::int64_t longest(const NeedleRequest& request) {
  return *std::max_element(request.lengths.begin(), request.lengths.end());
}

void check_grid(const NeedleRequest& request) {
  for (const double depth : request.depths) {
    if (!(depth >= 0 && depth <= 1)) {
      throw UsageError(fmt::format("--depths: {} % is not from 0 to 100", depth * 100));
    }
  }
  if (request.lengths.empty() || request.depths.empty()) {
    throw UsageError("eval needle needs at least one length and one depth");
  }
}

/// Documents of the haystack in order, no more than the longest prompt can take.
std::optional<std::vector<std::string>> read_haystack(const NeedleRequest& request, const Job& job) {
  std::vector<std::string> texts;
  CorpusReader reader(request.haystack);
  constexpr std::int64_t kBytesPerToken = 64;  // no tokenizer makes as many of a long text
  std::int64_t left = longest(request) * kBytesPerToken;
  while (left > 0) {
    auto document = reader.next();
    if (!document) break;
    if (job.stopped()) return std::nullopt;
    std::string& text = document->text;
    if (static_cast<std::int64_t>(text.size()) > left) {
      // A character that is cut in two would be no UTF-8.
      auto end = static_cast<std::size_t>(left);
      while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80U) --end;
      text.resize(end);
    }
    left -= static_cast<std::int64_t>(text.size()) + 1;
    texts.push_back(std::move(text));
  }
  return texts;
}

/// Makes room for the results and says where every needle is.
void lay_out(const NeedleRequest& request, PlannedNeedle& planned) {
  NeedleModel& result = planned.result;
  const std::size_t lengths = request.lengths.size();
  const std::size_t cells = lengths * request.depths.size();
  const std::size_t heads =
      cells * static_cast<std::size_t>(result.info.layers) * static_cast<std::size_t>(result.info.heads);
  result.found.resize(cells);
  result.answer_log_probability.resize(cells);
  result.baseline_log_probability.resize(lengths);
  result.position.resize(lengths);
  result.needle_begin.resize(cells);
  result.needle_end.resize(cells);
  result.needle_mass.resize(heads);
  result.needle_gate.resize(heads);
  result.continuation.resize(cells);
  planned.cell_done.resize(cells);
  planned.baseline_done.resize(lengths);
  for (std::size_t p = 0; p < lengths; ++p) {
    result.position[p] =
        request.lengths[p] - kReservedTokens + static_cast<std::int64_t>(planned.parts.question.size()) - 1;
    for (std::size_t q = 0; q < request.depths.size(); ++q) {
      const NeedlePrompt prompt = needle_prompt(planned.parts, planned.bos_id, request.lengths[p], request.depths[q]);
      result.needle_begin[p * request.depths.size() + q] = prompt.needle_begin;
      result.needle_end[p * request.depths.size() + q] = prompt.needle_end;
    }
  }
}

/// How many tokens of prompts are read together, and where their queries and keys go.
/// @param length  of the longest prompt, no more than the largest of --lengths
void choose_place(PlannedNeedle& model, std::int64_t length) {
  RunNeeds needs = model.needs(kNeedleKept);
  RunMemory& memory = needs.gpu ? *needs.gpu : needs.host;
  memory.per_token += ForwardState::bytes(model.config, model.dtype).per_token;
  const MemoryUser user{
      fmt::format("{}: a prompt of {} tokens needs", model.request.name, length), "--lengths up to", {}};
  const FreeMemory free = free_memory(model.device);
  memory_left(needs, length, free, user);
  model.tokens_at_once = batch_tokens(needs, free);
  model.place = {needs, std::max(length, model.tokens_at_once), free, user, kernel_gpu(model.device)};
}

/// @returns nothing if the job was stopped
std::optional<PlannedNeedle> plan(const NeedleRequest& request, const OpenedModel& model,
                                  const std::vector<std::string>& texts, const Job& job) {
  check_continued(model.options.interventions, model.config);
  PlannedNeedle planned{model, model.bos()};
  const Tokenizer& tokenizer = model.tokenizer();
  planned.parts = cut_needle(request.words, request.mode, tokenizer);
  for (const std::int64_t length : request.lengths) context_tokens(planned.parts, length);
  const auto longest_prompt =
      longest(request) - kReservedTokens + static_cast<std::int64_t>(planned.parts.question.size());
  check_length(longest_prompt, model.config);
  choose_place(planned, longest_prompt);
  cut_haystack(texts, request.haystack.string(), haystack_needed(request, planned.parts), tokenizer, planned.parts);
  for (const auto* ids : {&planned.parts.instruction, &planned.parts.needle, &planned.parts.question,
                          &planned.parts.answer, &planned.parts.haystack}) {
    check_ids(*ids, model.config.vocabulary_size, model.request.name + ", a part of the prompt");
  }
  auto info = model.describe(longest_prompt, job);
  if (!info) return std::nullopt;
  NeedleModel& result = planned.result;
  result.info = std::move(*info);
  result.haystack_tokens = planned.parts.haystack_tokens;
  lay_out(request, planned);
  return planned;
}

}  // namespace

std::int64_t haystack_needed(const NeedleRequest& request, const NeedleParts& parts) {
  return context_tokens(parts, longest(request)) + static_cast<std::int64_t>(parts.needle.size());
}

std::optional<std::vector<PlannedNeedle>> plan_needle(const NeedleRequest& request, const Job& job) {
  check_grid(request);
  const auto texts = read_haystack(request, job);
  if (!texts) return std::nullopt;
  std::vector<PlannedNeedle> models;
  for (const OpenedModel& model : request.models) {
    auto planned = plan(request, model, *texts, job);
    if (!planned) return std::nullopt;
    models.push_back(std::move(*planned));
  }
  return models;
}

std::string needle_facts(const NeedleRequest& request, const std::vector<PlannedNeedle>& models) {
  std::string facts = fmt::format("haystack {}\nlengths {}\ndepths {}\n", to_string(request.mode),
                                  fmt::join(request.lengths, ", "), fmt::join(request.depths, ", "));
  for (const PlannedNeedle& model : models) {
    const nlohmann::json ids = {model.parts.haystack, model.parts.needle, model.parts.question, model.parts.answer};
    facts += fmt::format("tokens of prompts {}\n", sha256(ids.dump()));
  }
  return facts + fmt::format("answer {}\n", request.words.answer);
}

std::string needle_fingerprint(const NeedleRequest& request, const std::vector<PlannedNeedle>& models) {
  nlohmann::json list = {kNeedleContent, request.words.json(), to_string(request.mode), request.lengths,
                         request.depths};
  for (const PlannedNeedle& model : models) {
    const TraceInfo& info = model.result.info;
    const auto& ids = model.parts.haystack;
    const std::string_view bytes(reinterpret_cast<const char*>(ids.data()), ids.size() * sizeof(ids[0]));
    list.push_back({info.name, info.weights_sha256, sha256(info.config), to_string(info.dtype), info.device,
                    fmt::format("{}", info.pruning_tolerance), info.intervention, model.bos_id, sha256(bytes),
                    model.parts.needle, model.parts.question, model.parts.answer});
  }
  return sha256(list.dump());
}

}  // namespace foxscope
