#include "backend/eval/generate.h"

#include <algorithm>
#include <chrono>
#include <memory>

#include <fmt/format.h>

#include "backend/base/error.h"
#include "backend/base/measures.h"
#include "backend/eval/text_stream.h"
#include "backend/model/continuation.h"
#include "backend/model/engine.h"
#include "backend/model/run_memory.h"
#include "backend/model/run_settings.h"
#include "backend/model/run_tokens.h"
#include "backend/text/tokenizer.h"

namespace foxscope {
namespace {

/// The cache grows with the tokens that are added; that is known before anything is loaded.
void check_memory(const GenerateRequest& request, const Checkpoint& checkpoint, const Generation& generation,
                  const Device& device) {
  const ModelConfig& config = checkpoint.config();
  const auto prompt = static_cast<std::int64_t>(generation.prompt.size());
  const double cache = (static_cast<double>(prompt) + static_cast<double>(request.tokens)) *
                       static_cast<double>(continuation_bytes_per_token(config, generation.dtype));
  RunNeeds needs = estimate_needs(config, checkpoint.parameter_count(), {}, generation.dtype, device);
  // More tokens than any memory holds may be asked for.
  (needs.gpu ? *needs.gpu : needs.host).fixed += static_cast<std::int64_t>(std::min(cache, 0x1p60));
  memory_left(needs, prompt, free_memory(device),
              {fmt::format("a prompt of {} tokens and {} more need", prompt, request.tokens),
               "",
               {"shorten the prompt", "ask for fewer --tokens"}});
}

/// Adds the tokens one by one.
bool extend(const GenerateRequest& request, Continuation& continuation, TextStream* stream, Generation& generation,
            const std::function<void(std::string_view)>& give, const Job& job) {
  Sampler sampler(request.sampling);
  const auto add_text = [&](const std::string& piece) {
    generation.text += piece;
    if (give && !piece.empty()) give(piece);
  };
  for (std::int64_t n = 0; n < request.tokens; ++n) {
    if (job.stopped()) return false;
    job.tell({n, request.tokens, "tokens", "generate"});
    const std::int32_t id = sampler.choose(continuation.log_probabilities());
    generation.ids.push_back(id);
    generation.log_probability.push_back(continuation.log_probabilities()[static_cast<std::size_t>(id)]);
    if (stream != nullptr) add_text(stream->add(id));
    if (n + 1 < request.tokens) continuation.read(id);
  }
  if (stream != nullptr) add_text(stream->finish());
  job.tell({request.tokens, request.tokens, "tokens", "generate"});
  return true;
}

}  // namespace

std::optional<Generation> generate(const GenerateRequest& request, const std::function<void(std::string_view)>& give,
                                   const Job& job) {
  const auto start = std::chrono::steady_clock::now();
  if (request.tokens < 0) throw UsageError(fmt::format("--tokens {}: it must be at least 0", request.tokens));
  const Sampler checked(request.sampling);
  Checkpoint checkpoint = Checkpoint::open(request.run.model);
  const ModelSettings settings = validate(request.run, checkpoint);
  check_continued(request.run.interventions, checkpoint.config());
  const Device& device = settings.device;
  Generation generation;
  generation.device = device.name();
  generation.dtype = settings.dtype;
  generation.pruning_tolerance = settings.pruning_tolerance;
  generation.layers = checkpoint.config().layers;
  generation.notes = checkpoint.config().notes;
  std::optional<Tokenizer> tokenizer;
  if (request.run.input.text || has_tokenizer(checkpoint)) tokenizer = Tokenizer::load(checkpoint.folder());
  generation.prompt = read_prompt(request.run, checkpoint, tokenizer ? &*tokenizer : nullptr);
  check_memory(request, checkpoint, generation, device);
  const std::shared_ptr<CausalLM> model = open_model(request.run, checkpoint, device, generation.dtype, job);
  if (!model) return std::nullopt;
  checkpoint = Checkpoint();  // its files need no longer be mapped
  generation.load_seconds = seconds_since(start);

  PromptRequest prompt;
  prompt.input_ids = generation.prompt;
  prompt.pruning_tolerance = generation.pruning_tolerance;
  prompt.interventions = request.run.interventions;
  const auto prompt_start = std::chrono::steady_clock::now();
  const std::unique_ptr<Continuation> continuation = model->begin(prompt, job);
  if (!continuation) return std::nullopt;
  generation.prompt_seconds = seconds_since(prompt_start);
  const auto token_start = std::chrono::steady_clock::now();
  std::optional<TextStream> stream;
  if (tokenizer) stream.emplace(*tokenizer);
  if (!extend(request, *continuation, stream ? &*stream : nullptr, generation, give, job)) return std::nullopt;
  generation.token_seconds = seconds_since(token_start);
  generation.held_keys = continuation->held_keys();
  return generation;
}

}  // namespace foxscope
