#include "backend/eval/predictions/predictions.h"

#include <algorithm>
#include <cmath>
#include <memory>

#include <fmt/format.h>

#include "backend/base/error.h"
#include "backend/base/index.h"
#include "backend/map/team.h"
#include "backend/trace/dtype.h"
#include "backend/trace/token_strings.h"

namespace foxscope {
namespace {

/// Positions whose logits are in memory at once.
constexpr std::int64_t kPositionsAtOnce = 256;

/// log of the sum of exponentials, nats.
double normalizer_of(std::span<const float> logits) {
  const auto largest = static_cast<double>(std::ranges::max(logits));
  double sum = 0;
  for (const float logit : logits) sum += std::exp(static_cast<double>(logit) - largest);
  return largest + std::log(sum);
}

bool has_hidden_output(const Trace& run) { return run.has(TraceArray::hidden_states, run.info().layers); }

/// The states of a run behind its final norm.
class KeptStates {
 public:
  explicit KeptStates(const Trace& run) : run_(run) {
    if (run.has(TraceArray::prediction_state) || !has_hidden_output(run)) {
      halves_ = run.prediction_state();
    } else {
      hidden_ = run.source().read(TraceArray::hidden_states, run.info().layers);
    }
  }

  /// [n, D] as the head read them.
  [[nodiscard]] std::vector<float> at(const Range& positions) const {
    const auto width = static_cast<std::size_t>(run_.info().hidden_size);
    const auto begin = static_cast<std::size_t>(positions.begin) * width;
    std::vector<float> states(static_cast<std::size_t>(positions.size()) * width);
    if (hidden_) {
      std::ranges::copy(std::span(std::get<std::vector<float>>(*hidden_)).subspan(begin, states.size()),
                        states.begin());
      if (run_.info().dtype == DType::bfloat16) {
        for (float& number : states) number = from_bfloat16(to_bfloat16(number));
      }
    } else {
      std::ranges::transform(halves_.subspan(begin, states.size()), states.begin(), from_float16);
    }
    const auto bad = std::ranges::find_if_not(states, [](float number) { return std::isfinite(number); });
    if (bad != states.end()) {
      throw Error(
          fmt::format("model '{}': the state of position {} is no number, or too large for 16 bit: run again "
                      "with 'logits' in --keep",
                      run_.info().name, positions.begin + (bad - states.begin()) / static_cast<std::ptrdiff_t>(width)));
    }
    return states;
  }

 private:
  const Trace& run_;
  std::span<const std::uint16_t> halves_;
  std::shared_ptr<const ArrayValues> hidden_;
};

void check_state_width(const Trace& run, const OutputHead& head) {
  if (run.info().hidden_size == head.hidden_size()) return;
  throw Error(
      fmt::format("model '{}': its states have {} numbers and the head of the checkpoint has {}: give the "
                  "checkpoint that made the run",
                  run.info().name, run.info().hidden_size, head.hidden_size()));
}

bool for_kept_logits(const Trace& run, const Range& positions, const Job& job,
                     const std::function<void(std::int64_t position, std::span<const float> logits)>& take) {
  Team team(job);
  const std::shared_ptr<const ArrayValues> kept = run.source().read(TraceArray::logits, 0);
  const std::span<const float> logits = std::get<std::vector<float>>(*kept);
  const std::size_t vocabulary = logits.size() / static_cast<std::size_t>(run.info().length);
  return team.run({"predictions", "tokens", positions.size()}, positions.size(), [&](std::int64_t task, int thread) {
    const std::int64_t position = positions.begin + task;
    take(position, logits.subspan(static_cast<std::size_t>(position) * vocabulary, vocabulary));
    team.advance(1, thread);
  });
}

}  // namespace

bool keeps_predictions(const Trace& run) {
  return run.has(TraceArray::prediction_state) || has_hidden_output(run) || run.has(TraceArray::logits);
}

PredictionSource prediction_source(const Trace& run, bool head) {
  if (head && (run.has(TraceArray::prediction_state) || has_hidden_output(run))) return PredictionSource::states;
  return run.has(TraceArray::logits) ? PredictionSource::logits : PredictionSource::none;
}

bool for_logits(const Trace& run, const OutputHead* head, const Range& positions, const Job& job,
                const std::function<void(std::int64_t position, std::span<const float> logits)>& take) {
  if (prediction_source(run, head != nullptr) == PredictionSource::logits) {
    return for_kept_logits(run, positions, job, take);
  }
  if (!keeps_predictions(run)) (void)run.prediction_state();  // which says what to do
  if (head == nullptr) {
    throw Error(
        fmt::format("model '{}': predictions need the head of the model beside the states that the run kept: "
                    "give its checkpoint",
                    run.info().name));
  }
  check_state_width(run, *head);
  const KeptStates states(run);
  Job quiet = job;  // progress is told here
  quiet.report = nullptr;
  Team team(quiet);
  quiet.executor = team.executor();
  const auto vocabulary = static_cast<std::size_t>(head->vocabulary_size());
  std::vector<float> logits;
  for (std::int64_t begin = positions.begin; begin < positions.end; begin += kPositionsAtOnce) {
    const Range range{begin, std::min(begin + kPositionsAtOnce, positions.end)};
    job.tell({begin - positions.begin, positions.size(), "tokens", "predictions"});
    logits.resize(static_cast<std::size_t>(range.size()) * vocabulary);
    if (!head->multiply(states.at(range), range.size(), logits, quiet)) return false;
    const bool whole = team.run({}, range.size(), [&](std::int64_t task, int /*thread*/) {
      take(range.begin + task, std::span(logits).subspan(static_cast<std::size_t>(task) * vocabulary, vocabulary));
    });
    if (!whole) return false;
  }
  return !job.stopped();
}

std::string token_string(const Trace& run, const OutputHead* head, std::int32_t id) {
  if (head != nullptr) return head->token_string(id);
  const TokenTable& tokens = *run.tokens();
  const auto found = std::ranges::find(tokens.id, id);
  return found == tokens.id.end() ? fmt::format("⟨{}⟩", id) : predicted_string(tokens, found - tokens.id.begin());
}

std::optional<Prediction> predict(const Trace& run, const OutputHead* head, std::int64_t position, int top,
                                  const Job& job) {
  if (position < 0 || position >= run.info().length) {
    throw UsageError(fmt::format("position {}: the run of '{}' has positions 0 to {}", position, run.info().name,
                                 run.info().length - 1));
  }
  Prediction prediction;
  prediction.position = position;
  const bool whole = for_logits(
      run, head, {position, position + 1}, job, [&](std::int64_t /*position*/, std::span<const float> logits) {
        const double normalizer = normalizer_of(logits);
        TokenChoice choice(run.tokens()->id[index_of(position)], top, true);
        choice.add(0, logits);
        prediction.scored = choice.finish(normalizer);
        for (const float logit : logits) {
          prediction.log_probability.push_back(static_cast<float>(static_cast<double>(logit) - normalizer));
        }
      });
  if (!whole) return std::nullopt;
  return prediction;
}

std::optional<TokenDistributions> distributions_of(const Trace& run, const OutputHead* head, const Job& job) {
  TokenDistributions found;
  if (prediction_source(run, head != nullptr) == PredictionSource::none) return found;
  const auto length = static_cast<std::size_t>(run.info().length);
  found.entropy.resize(length);
  found.rank.resize(length);
  found.likeliest.resize(length);
  const bool whole =
      for_logits(run, head, {0, run.info().length}, job, [&](std::int64_t position, std::span<const float> logits) {
        const std::size_t p = index_of(position);
        TokenChoice choice(run.tokens()->id[p], 1, true);
        choice.add(0, logits);
        const ScoredPosition scored = choice.finish(normalizer_of(logits));
        found.entropy[p] = scored.entropy;
        found.rank[p] = scored.rank;
        found.likeliest[p] = scored.top.front();
      });
  if (!whole) return std::nullopt;
  return found;
}

}  // namespace foxscope
