#include "backend/eval/loss/loss_comparison.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include <fmt/format.h>

#include "backend/base/error.h"
#include "backend/base/index.h"

namespace foxscope {
namespace {

constexpr std::int64_t kFirstOctave = 256;  // the fewest positions that have an error

double mean_of(std::span<const float> losses) {
  return std::accumulate(losses.begin(), losses.end(), 0.0) / static_cast<double>(losses.size());
}

std::span<const float> part_of(std::span<const float> losses, const Range& positions) {
  return losses.subspan(index_of(positions.begin), index_of(positions.size()));
}

}  // namespace

std::optional<TokensDiffer> tokens_differ(const Trace& run, const Trace& minus) {
  const std::vector<std::int32_t>& ids = run.tokens()->id;
  const std::vector<std::int32_t>& others = minus.tokens()->id;
  if (ids == others) return std::nullopt;
  if (run.text() && minus.text() && !same_text(*run.text(), *minus.text())) return TokensDiffer::texts;
  const auto common = static_cast<std::ptrdiff_t>(std::min(ids.size(), others.size()));
  return std::equal(ids.begin(), ids.begin() + common, others.begin()) ? TokensDiffer::lengths : TokensDiffer::tokens;
}

std::string differ_text(TokensDiffer differ, const NamedTrace& run, const NamedTrace& minus,
                        const std::string& other_tokens) {
  const std::string names = fmt::format("{} and {} read", run.name, minus.name);
  const std::string remedy = same_text_remedy(run, minus);
  if (const std::string why = one_token_more(run, minus); !why.empty()) {
    return fmt::format("{} different tokens: {}: {}", names, why, remedy);
  }
  switch (differ) {
    case TokensDiffer::texts:
      return fmt::format("{} two texts, and losses are compared token by token of one: {}", names, remedy);
    case TokensDiffer::lengths:
      return fmt::format("{} {} and {} tokens, and losses are compared token by token: {}", names,
                         run.run.info().length, minus.run.info().length,
                         same_text_remedy(run, minus, "run both to one --length"));
    case TokensDiffer::tokens:
      break;
  }
  return fmt::format("{} different tokens, and losses are compared token by token: {}", names, other_tokens);
}

std::optional<std::int64_t> first_unknown_loss(std::span<const float> losses) {
  const auto unknown = std::ranges::find_if(losses, [](float loss) { return !std::isfinite(loss); });
  return unknown == losses.end() ? std::nullopt : std::optional<std::int64_t>(unknown - losses.begin());
}

LossComparison compare_losses(std::span<const float> loss, std::span<const float> minus, const Range& positions,
                              std::size_t most) {
  if (loss.size() != minus.size() || loss.empty()) {
    throw ShapeError(
        fmt::format("[compare_losses] loss: expected {} losses, at least one, got {}", minus.size(), loss.size()));
  }
  const std::int64_t length = std::ssize(loss);
  if (positions.begin < 0 || positions.end > length || positions.begin >= positions.end) {
    throw UsageError(fmt::format("positions {}:{}: choose some of 0:{}", positions.begin, positions.end, length));
  }
  for (const auto losses : {loss, minus}) {
    if (const auto unknown = first_unknown_loss(losses)) {
      throw Error(fmt::format("the loss of position {} is not a finite number: run the model again", *unknown));
    }
  }
  LossComparison result;
  result.positions = positions;
  result.loss = mean_of(part_of(loss, positions));
  result.minus = mean_of(part_of(minus, positions));
  result.difference = loss_change(part_of(loss, positions), part_of(minus, positions), most);
  for (auto* tokens : {&result.difference.hurt, &result.difference.helped}) {
    for (TokenChange& token : *tokens) token.position += positions.begin;
  }
  for (std::int64_t begin = 0, end = kFirstOctave; begin < positions.end; begin = end, end *= 2) {
    const Range octave{std::max(begin, positions.begin), std::min(end, positions.end)};
    if (octave.begin >= octave.end) continue;
    const auto own = part_of(loss, octave);
    const auto other = part_of(minus, octave);
    result.octaves.push_back({octave, mean_of(own), mean_of(other), loss_change(own, other, 0).mean});
  }
  return result;
}

}  // namespace foxscope
