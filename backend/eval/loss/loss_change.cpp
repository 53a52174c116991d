#include "backend/eval/loss/loss_change.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "backend/base/error.h"

namespace foxscope {
namespace {

constexpr std::int64_t kMostBlocks = 64;
constexpr std::int64_t kShortestBlock = 32;

/// The first by an order of changes, of those on its side of 0; of equal ones the first in the text.
template <typename Order>
std::vector<TokenChange> first_by(std::span<const double> changes, std::size_t most, Order before) {
  std::vector<TokenChange> tokens;
  for (std::size_t p = 0; p < changes.size(); ++p) {
    if (before(changes[p], 0.0)) tokens.push_back({static_cast<std::int64_t>(p), changes[p]});
  }
  const auto end = tokens.begin() + static_cast<std::ptrdiff_t>(std::min(most, tokens.size()));
  std::partial_sort(tokens.begin(), end, tokens.end(), [&](const TokenChange& a, const TokenChange& b) {
    return a.change != b.change ? before(a.change, b.change) : a.position < b.position;
  });
  tokens.erase(end, tokens.end());
  return tokens;
}

}  // namespace

double LossChange::perplexity_factor() const { return std::exp(mean.value); }

ErrorGroups error_blocks(std::int64_t tokens) {
  const std::int64_t count = std::clamp<std::int64_t>(tokens / kShortestBlock, 1, kMostBlocks);
  std::vector<double> sizes;
  for (std::int64_t g = 0; g < count; ++g) {
    sizes.push_back(static_cast<double>((g + 1) * tokens / count - g * tokens / count));
  }
  ErrorGroups blocks = group_sizes(ErrorGroups::Kind::blocks, sizes);
  blocks.tokens = tokens / count;
  return blocks;
}

LossChange loss_change(std::span<const float> changed, std::span<const float> unchanged, std::size_t most) {
  if (changed.size() != unchanged.size() || changed.empty()) {
    throw ShapeError(fmt::format("[loss_change] changed: expected {} losses, at least one, got {}", unchanged.size(),
                                 changed.size()));
  }
  LossChange result;
  result.tokens = static_cast<std::int64_t>(changed.size());
  const ErrorGroups over = error_blocks(result.tokens);
  std::vector<double> differences(changed.size());
  std::vector<double> sums(static_cast<std::size_t>(over.count));
  std::vector<double> sizes(sums.size());
  for (std::size_t p = 0; p < changed.size(); ++p) {
    differences[p] = static_cast<double>(changed[p]) - static_cast<double>(unchanged[p]);
    // The last g with g L / G <= p.
    const std::size_t block = ((p + 1) * sums.size() - 1) / changed.size();
    sums[block] += differences[p];
    ++sizes[block];
  }
  result.mean = ratio_over_groups(sums, sizes, over);
  result.hurt = first_by(differences, most, std::greater<>());
  result.helped = first_by(differences, most, std::less<>());
  return result;
}

}  // namespace foxscope
