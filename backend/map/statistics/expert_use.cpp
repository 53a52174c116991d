#include "backend/map/statistics/expert_use.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <unordered_map>

#include "backend/base/index.h"

namespace foxscope {
namespace {

/// Experts of a layer that are listed without being read: what a configuration says is not believed beyond this.
constexpr int kMostListedExperts = 1 << 16;

/// The experts of one layer with their weights.
struct LayerExperts {
  std::span<const std::int32_t> expert;  ///< [L, k]
  std::span<const float> weight;         ///< [L, k]
  std::size_t chosen = 0;                ///< k

  LayerExperts(const Trace& trace, int layer)
      : expert(trace.experts(layer)),
        weight(trace.expert_weights(layer)),
        chosen(expert.size() / index_of(trace.info().length)) {}

  [[nodiscard]] ReadExpert heaviest(std::int64_t position) const {
    ReadExpert found{-1, 0};
    for (std::size_t n = index_of(position) * chosen; n < (index_of(position) + 1) * chosen; ++n) {
      const auto w = static_cast<double>(weight[n]);
      if (expert[n] >= 0 && (found.expert < 0 || w > found.weight || std::isnan(found.weight))) found = {expert[n], w};
    }
    return found;
  }
};

/// The most frequent tokens, at most so many.
std::vector<ExpertUse::Token> most_frequent(const std::unordered_map<std::int32_t, ExpertUse::Token>& counted,
                                            std::size_t most) {
  std::vector<ExpertUse::Token> tokens;
  tokens.reserve(counted.size());
  for (const auto& [id, token] : counted) tokens.push_back(token);
  const auto end = tokens.begin() + static_cast<std::ptrdiff_t>(std::min(most, tokens.size()));
  std::partial_sort(tokens.begin(), end, tokens.end(), [](const ExpertUse::Token& a, const ExpertUse::Token& b) {
    return a.count != b.count ? a.count > b.count : a.position < b.position;
  });
  tokens.erase(end, tokens.end());
  return tokens;
}

}  // namespace

bool has_experts(const Trace& trace, int layer) {
  if (!trace.has(TraceArray::expert) || !trace.has(TraceArray::expert_weight)) return false;
  return std::ranges::any_of(trace.experts(layer), [](std::int32_t expert) { return expert >= 0; });
}

std::optional<int> expert_layer(const Trace& trace, int layer) {
  const TraceInfo& info = trace.info();
  for (int n = layer; n < info.layers; ++n) {
    if (n > layer && info.mixer(n).mixer != Mixer::none) break;
    if (has_experts(trace, n)) return n;
  }
  return std::nullopt;
}

std::vector<ReadExpert> experts_read(const Trace& trace, int layer, std::int64_t position) {
  const LayerExperts layers(trace, layer);
  std::vector<ReadExpert> read;
  for (std::size_t n = index_of(position) * layers.chosen; n < (index_of(position) + 1) * layers.chosen; ++n) {
    if (layers.expert[n] >= 0) read.push_back({layers.expert[n], static_cast<double>(layers.weight[n])});
  }
  const auto order = [](const ReadExpert& each) {
    return std::isnan(each.weight) ? -std::numeric_limits<double>::infinity() : each.weight;
  };
  std::ranges::stable_sort(read, std::greater<>(), order);
  return read;
}

std::vector<ReadExpert> heaviest_experts(const Trace& trace, int layer) {
  const LayerExperts layers(trace, layer);
  std::vector<ReadExpert> heaviest;
  for (std::int64_t position = 0; position < trace.info().length; ++position) {
    heaviest.push_back(layers.heaviest(position));
  }
  return heaviest;
}

std::vector<ExpertUse> expert_use(const Trace& trace, int layer, int experts, std::size_t tokens) {
  struct Counted {
    ExpertUse use;
    double weight = 0;  ///< sum
    std::unordered_map<std::int32_t, ExpertUse::Token> tokens;
  };
  const LayerExperts layers(trace, layer);
  std::map<int, Counted> counted;
  for (int expert = 0; expert < std::min(experts, kMostListedExperts); ++expert) counted[expert];
  const TokenTable* const table = trace.tokens().get();
  const bool reads = table != nullptr && !table->input_id.empty();
  for (std::int64_t position = 0; position < trace.info().length; ++position) {
    for (std::size_t n = index_of(position) * layers.chosen; n < (index_of(position) + 1) * layers.chosen; ++n) {
      if (layers.expert[n] < 0) continue;
      Counted& of = counted[layers.expert[n]];
      ++of.use.positions;
      of.weight += static_cast<double>(layers.weight[n]);
      if (!reads) continue;
      const std::int32_t id = table->input_id[index_of(position)];
      ++of.tokens.try_emplace(id, ExpertUse::Token{id, position, 0}).first->second.count;
    }
    if (const ReadExpert heaviest = layers.heaviest(position); heaviest.expert >= 0) {
      ++counted[heaviest.expert].use.heaviest;
    }
  }
  std::vector<ExpertUse> all;
  for (auto& [expert, of] : counted) {
    of.use.expert = expert;
    if (of.use.positions > 0) of.use.mean_weight = of.weight / static_cast<double>(of.use.positions);
    of.use.tokens = most_frequent(of.tokens, tokens);
    all.push_back(std::move(of.use));
  }
  return all;
}

}  // namespace foxscope
