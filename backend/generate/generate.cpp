#include "backend/generate/generate.h"

#include <algorithm>
#include <chrono>
#include <memory>

#include <fmt/format.h>

#include "backend/base/error.h"
#include "backend/base/index.h"
#include "backend/base/measures.h"
#include "backend/data/text_stream.h"
#include "backend/model/layer/checks.h"
#include "backend/model/layer/forward_pass.h"
#include "backend/model/session/decode_state.h"

namespace foxscope {
namespace {

/// The cache grows with the tokens that are added; that is known before anything is loaded.
void check_memory(const OpenedModel& model, std::int64_t prompt, std::int64_t tokens) {
  const double cache = (static_cast<double>(prompt) + static_cast<double>(tokens)) *
                       static_cast<double>(ForwardState::bytes(model.config, model.dtype).per_token);
  RunNeeds needs = model.needs({});
  // More tokens than any memory holds may be asked for.
  (needs.gpu ? *needs.gpu : needs.host).fixed += static_cast<std::int64_t>(std::min(cache, 0x1p60));
  memory_left(needs, prompt, free_memory(model.device),
              {fmt::format("a prompt of {} tokens and {} more need", prompt, tokens),
               "",
               {"shorten the prompt", "ask for fewer --max-tokens"}});
}

/// Adds the tokens one by one.
bool extend(const GenerateRequest& request, DecodeState& decode_state, TextStream* stream, Generation& generation,
            const std::function<void(std::string_view)>& give, const Job& job) {
  Sampler sampler(request.sampling);
  const auto add_text = [&](const std::string& piece) {
    generation.text += piece;
    if (give && !piece.empty()) give(piece);
  };
  for (std::int64_t n = 0; n < request.tokens; ++n) {
    if (job.stopped()) return false;
    job.tell({n, request.tokens, "tokens", "generate"});
    const std::int32_t id = sampler.choose(decode_state.next());
    generation.ids.push_back(id);
    generation.log_probability.push_back(decode_state.log_probabilities()[index_of(id)]);
    if (stream != nullptr) add_text(stream->add(id));
    if (n + 1 < request.tokens) decode_state.read(id);
  }
  if (stream != nullptr) add_text(stream->finish());
  job.tell({request.tokens, request.tokens, "tokens", "generate"});
  return true;
}

}  // namespace

std::optional<Generation> generate(const OpenedModel& model, const GenerateRequest& request,
                                   const std::function<void(std::string_view)>& give, const Job& job) {
  const auto start = std::chrono::steady_clock::now();
  if (request.tokens < 0) throw UsageError(fmt::format("--max-tokens {}: it must be at least 0", request.tokens));
  const Sampler checked(request.sampling);
  check_continued(model.options.interventions, model.config);
  Generation generation;
  generation.prompt = read_prompt(model, request.input);
  const std::int64_t prompt = std::ssize(generation.prompt);
  check_memory(model, prompt, request.tokens);
  check_length(prompt + std::max<std::int64_t>(0, request.tokens - 1), model.config);  // the last is not read
  const std::shared_ptr<CausalLM> loaded = model.load(job);
  if (!loaded) return std::nullopt;
  generation.load_seconds = seconds_since(start);

  const auto prompt_start = std::chrono::steady_clock::now();
  const std::unique_ptr<DecodeState> decode_state = loaded->begin({model.options, generation.prompt}, job);
  if (!decode_state) return std::nullopt;
  generation.prompt_seconds = seconds_since(prompt_start);
  const auto token_start = std::chrono::steady_clock::now();
  std::optional<TextStream> stream;
  if (const Tokenizer* tokenizer = model.find_tokenizer()) stream.emplace(*tokenizer);
  if (!extend(request, *decode_state, stream ? &*stream : nullptr, generation, give, job)) return std::nullopt;
  generation.token_seconds = seconds_since(token_start);
  generation.held_keys = decode_state->held_keys();
  return generation;
}

}  // namespace foxscope
