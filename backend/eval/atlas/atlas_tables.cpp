#include "backend/eval/atlas/atlas_tables.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "backend/base/index.h"
#include "backend/eval/atlas/atlas_window.h"
#include "backend/eval/estimate.h"
#include "backend/eval/heads/decay_times.h"

namespace foxscope {
namespace {

constexpr double kNoNumber = std::numeric_limits<double>::quiet_NaN();

double log_gate_sum(const AtlasSums& sums, std::size_t place) {
  return exact_value(sums.row(AtlasSum::log_gate, place).first<kExactLimbs>());
}

/// The sums of one number of a head over documents of one size.
LongNumber class_value(const std::vector<std::int64_t>& values, std::size_t entry) {
  return exact_long_value(std::span(values).subspan(entry * kExactLimbs).first<kExactLimbs>());
}

std::vector<double> document_sizes(const AtlasSums& sums) {
  std::vector<double> sizes;
  for (const auto& [windows, documents] : sums.classes()) {
    sizes.insert(sizes.end(), index_of(documents.documents), static_cast<double>(windows));
  }
  return sizes;
}

Estimate mean_over_documents(const AtlasSums& sums, std::size_t entry, const ErrorGroups& over, double windows) {
  LongNumber sum = 0;
  for (const auto& [size, documents] : sums.classes()) sum += class_value(documents.sum, entry);
  const LongNumber mean = sum / windows;
  // The mean without document g changes by (s_g - mean m_g) / (M - m_g).
  double squares = 0;
  for (const auto& [size, documents] : sums.classes()) {
    const auto m = static_cast<double>(size);
    const LongNumber spread = class_value(documents.square, entry) - 2 * mean * m * class_value(documents.sum, entry) +
                              mean * mean * m * m * static_cast<double>(documents.documents);
    // What rounding leaves of no spread is none: of long numbers, and of terms that are whole numbers of 2^-82.
    const LongNumber rounding =
        0x1p-100 * class_value(documents.square, entry) + 0x1p-80 * static_cast<double>(documents.documents);
    const bool any = spread > rounding;
    squares += any ? static_cast<double>(spread) / ((windows - m) * (windows - m)) : 0.0;
  }
  const auto g = static_cast<double>(over.count);
  return {static_cast<double>(mean), over.suffice() ? std::sqrt((g - 1) / g * squares) : kNoNumber, over};
}

/// A cluster of heads while clusters are joined.
struct Cluster {
  std::vector<std::int64_t> heads;
  bool joined = false;  ///< into another
};

/// Average linkage by the chain of nearest neighbours, in N^2 steps.
class Linkage {
 public:
  /// @param heads  that have similarities
  Linkage(const std::vector<float>& similarity, std::size_t count, const std::vector<std::int64_t>& heads)
      : distance_(heads.size() * heads.size()), clusters_(heads.size()) {
    for (std::size_t a = 0; a < heads.size(); ++a) {
      clusters_[a].heads = {heads[a]};
      for (std::size_t b = 0; b < heads.size(); ++b) {
        distance(a, b) = 1 - static_cast<double>(similarity[index_of(heads[a]) * count + index_of(heads[b])]);
      }
    }
  }

  std::vector<std::int64_t> order() {
    std::vector<std::size_t> chain;
    for (std::size_t left = clusters_.size(); left > 1;) {
      if (chain.empty()) chain.push_back(first());
      const std::size_t last = chain.back();
      const std::size_t before = chain.size() > 1 ? chain[chain.size() - 2] : last;
      const std::size_t next = nearest(last, before);
      if (next != before) {
        chain.push_back(next);
        continue;
      }
      // Each is the other's nearest.
      join(std::min(last, next), std::max(last, next));
      chain.resize(chain.size() - 2);
      --left;
    }
    return clusters_.empty() ? std::vector<std::int64_t>() : clusters_[first()].heads;
  }

 private:
  double& distance(std::size_t a, std::size_t b) { return distance_[a * clusters_.size() + b]; }
  [[nodiscard]] std::size_t first() const {
    return index_of(std::ranges::find(clusters_, false, &Cluster::joined) - clusters_.begin());
  }
  std::size_t nearest(std::size_t from, std::size_t preferred) {
    std::size_t best = preferred;
    for (std::size_t n = 0; n < clusters_.size(); ++n) {
      if (clusters_[n].joined || n == from) continue;
      if (best == from || distance(from, n) < distance(from, best)) best = n;
    }
    return best;
  }
  void join(std::size_t a, std::size_t b) {
    const auto size_a = static_cast<double>(clusters_[a].heads.size());
    const auto size_b = static_cast<double>(clusters_[b].heads.size());
    for (std::size_t n = 0; n < clusters_.size(); ++n) {
      if (clusters_[n].joined || n == a || n == b) continue;
      distance(a, n) = distance(n, a) = (size_a * distance(a, n) + size_b * distance(b, n)) / (size_a + size_b);
    }
    auto& heads = clusters_[a].heads;
    heads.insert(heads.end(), clusters_[b].heads.begin(), clusters_[b].heads.end());
    clusters_[b].joined = true;
  }

  std::vector<double> distance_;
  std::vector<Cluster> clusters_;
};

}  // namespace

bool AtlasModel::forgets(std::size_t layer) const {
  const auto heads = index_of(info.heads);
  for (std::size_t head = 0; head < heads; ++head) {
    if (std::ranges::any_of(sums.row(AtlasSum::log_gate, layer * heads + head), [](auto limb) { return limb != 0; })) {
      return true;
    }
  }
  return false;
}

bool AtlasModel::forgets() const {
  return std::ranges::any_of(sums.at(AtlasSum::log_gate), [](auto limb) { return limb != 0; });
}

bool AtlasModel::has_gate(std::size_t place) const {
  const auto heads = index_of(info.heads);
  const std::size_t layer = place / heads;
  return static_cast<int>(place % heads) < info.mixer(static_cast<int>(layer)).heads && forgets(layer);
}

std::int64_t AtlasModel::positions() const {
  const auto counts = sums.at(AtlasSum::token_count);
  return std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
}

std::vector<std::int32_t> atlas_tokens(const AtlasSums& sums) {
  std::vector<std::int32_t> tokens;
  const auto counts = sums.at(AtlasSum::token_count);
  for (std::size_t id = 0; id < counts.size(); ++id) {
    if (counts[id] != 0) tokens.push_back(static_cast<std::int32_t>(id));
  }
  return tokens;
}

HeadTokens tokens_of_head(const AtlasModel& model, std::size_t place, const std::vector<std::int32_t>& tokens) {
  HeadTokens head;
  const bool gate = model.has_gate(place);
  const auto counts = model.sums.at(AtlasSum::token_count);
  const auto log_gates = model.sums.row(AtlasSum::token_log_gate, place);
  const auto resets = model.sums.row(AtlasSum::token_below_half, place);
  for (const std::int32_t token : tokens) {
    const auto id = index_of(token);
    const auto count = static_cast<double>(counts[id]);
    const double mean = static_cast<double>(log_gates[id]) * kLogGateUnit / count;
    head.mean_log_gate.push_back(static_cast<float>(gate ? mean : kNoNumber));
    head.share_below_half.push_back(static_cast<float>(gate ? static_cast<double>(resets[id]) / count : kNoNumber));
  }
  return head;
}

ErrorGroups atlas_documents(const AtlasSums& sums) {
  return group_sizes(ErrorGroups::Kind::documents, document_sizes(sums));
}

std::vector<HeadArray> atlas_head_numbers(const AtlasModel& model) {
  const AtlasSums& sums = model.sums;
  const std::size_t heads = sums.shape().head_count();
  const std::vector<double> sizes = document_sizes(sums);
  const double windows = std::accumulate(sizes.begin(), sizes.end(), 0.0);
  const ErrorGroups over = group_sizes(ErrorGroups::Kind::documents, sizes);
  std::vector<HeadArray> arrays;
  for (std::size_t number = 0; number < atlas_numbers().size(); ++number) {
    HeadArray& array =
        arrays.emplace_back(HeadArray{atlas_numbers()[number].name, atlas_numbers()[number].unit, {}, {}});
    for (std::size_t place = 0; place < heads; ++place) {
      const bool gate = model.has_gate(place);
      const Estimate mean = gate ? mean_over_documents(sums, number * heads + place, over, windows)
                                 : Estimate{kNoNumber, kNoNumber, over};
      array.value.push_back(mean.value);
      array.error.push_back(mean.error);
    }
  }
  arrays.insert(arrays.begin(), decay_times(*find_array(arrays, "mean_log_gate")));
  return arrays;
}

std::vector<HeadArray> atlas_class_numbers(const AtlasModel& model) {
  HeadArray mean{"mean_log_gate", "nats", {}, {}};
  HeadArray share{"share_below_half", "1", {}, {}};
  const auto counts = model.sums.at(AtlasSum::class_count);
  for (std::size_t place = 0; place < model.sums.shape().head_count(); ++place) {
    const bool gate = model.has_gate(place);
    for (std::size_t n = 0; n < kBoundaryClasses; ++n) {
      const auto count = static_cast<double>(counts[n]);
      const bool known = gate && counts[n] > 0;
      const auto sum = static_cast<double>(model.sums.row(AtlasSum::class_log_gate, place)[n]) * kLogGateUnit;
      mean.value.push_back(known ? sum / count : kNoNumber);
      const auto resets = static_cast<double>(model.sums.row(AtlasSum::class_resets, place)[n]);
      share.value.push_back(known ? resets / count : kNoNumber);
    }
  }
  mean.error.assign(mean.value.size(), kNoNumber);
  share.error = mean.error;
  return {std::move(mean), std::move(share)};
}

AtlasResets atlas_resets(const AtlasModel& model) {
  AtlasResets table;
  for (std::size_t place = 0; place < model.sums.shape().head_count(); ++place) {
    const auto below = model.sums.row(AtlasSum::token_below_half, place);
    const std::int64_t count = std::accumulate(below.begin(), below.end(), std::int64_t{0});
    table.count.push_back(count);
    const auto all = static_cast<double>(count);
    for (std::size_t n = 0; n < kBoundaryClasses; ++n) {
      const std::int64_t observed = model.sums.row(AtlasSum::class_resets, place)[n];
      const auto shifted = model.sums.row(AtlasSum::class_shifted, place).subspan(n * kShifts, kShifts);
      const bool known = count > 0 && model.sums.at(AtlasSum::class_count)[n] > 0;
      const double mean = static_cast<double>(std::accumulate(shifted.begin(), shifted.end(), std::int64_t{0})) /
                          static_cast<double>(kShifts);
      double squares = 0;
      for (const std::int64_t by_chance : shifted) squares += std::pow(static_cast<double>(by_chance) - mean, 2);
      const auto as_many = std::ranges::count_if(shifted, [&](auto by_chance) { return by_chance >= observed; });
      table.share.push_back(known ? static_cast<double>(observed) / all : kNoNumber);
      table.chance.push_back(known ? mean / all : kNoNumber);
      table.chance_spread.push_back(known ? std::sqrt(squares / static_cast<double>(kShifts - 1)) / all : kNoNumber);
      table.p_value.push_back(known ? static_cast<double>(1 + as_many) / static_cast<double>(1 + kShifts) : kNoNumber);
    }
  }
  for (const bool found : discoveries(table.p_value, kChance)) table.discovered.push_back(found ? 1 : 0);
  return table;
}

std::vector<AtlasPlace> strongest_resets(const AtlasModel& model, std::size_t place) {
  return model.has_gate(place) ? model.sums.resets(place) : std::vector<AtlasPlace>();
}

std::vector<AtlasPlace> decile_places(const AtlasModel& model, std::size_t place) {
  constexpr std::size_t kDeciles = 10;
  if (!model.has_gate(place)) return {};
  const auto by_value = [](const AtlasPlace& a, const AtlasPlace& b) {
    return std::pair(a.value, a.window) < std::pair(b.value, b.window);
  };
  std::vector<AtlasPlace> sample = model.sums.samples(place);
  std::ranges::sort(sample, by_value);
  const auto passages = index_of(model.sums.shape().passages);
  const std::size_t parts = std::min(kDeciles, passages);
  // The turn of a place is its rank by priority within its part.
  std::vector<std::pair<std::size_t, AtlasPlace>> turns;
  for (std::size_t part = 0; part < parts; ++part) {
    std::vector<AtlasPlace> of_it(sample.begin() + static_cast<std::ptrdiff_t>(part * sample.size() / parts),
                                  sample.begin() + static_cast<std::ptrdiff_t>((part + 1) * sample.size() / parts));
    std::ranges::sort(of_it, {}, [](const AtlasPlace& one) { return std::pair(one.priority, one.window); });
    for (std::size_t n = 0; n < of_it.size(); ++n) turns.emplace_back(n, of_it[n]);
  }
  std::ranges::stable_sort(turns, {}, &std::pair<std::size_t, AtlasPlace>::first);
  std::vector<AtlasPlace> chosen;
  for (std::size_t n = 0; n < std::min(passages, turns.size()); ++n) chosen.push_back(turns[n].second);
  std::ranges::sort(chosen, by_value);
  return chosen;
}

std::vector<float> atlas_similarity(const AtlasModel& model) {
  const std::size_t heads = model.sums.shape().head_count();
  const auto positions = static_cast<double>(model.positions());
  const auto products = model.sums.at(AtlasSum::log_gate_product);
  std::vector<double> mean;
  for (std::size_t n = 0; n < heads; ++n) mean.push_back(log_gate_sum(model.sums, n) / positions);
  const auto covariance = [&](std::size_t a, std::size_t b) {  // b <= a
    const std::size_t pair = a * (a + 1) / 2 + b;
    return exact_value(products.subspan(pair * kExactLimbs).first<kExactLimbs>()) / positions - mean[a] * mean[b];
  };
  std::vector<double> spread;
  for (std::size_t n = 0; n < heads; ++n) {
    const double variance = covariance(n, n);
    // What rounding leaves of the variance of a gate that never changes is none.
    const bool changes = model.has_gate(n) && variance > 1e-13 * mean[n] * mean[n];
    spread.push_back(changes ? std::sqrt(variance) : kNoNumber);
  }
  std::vector<float> similarity(heads * heads);
  for (std::size_t a = 0; a < heads; ++a) {
    for (std::size_t b = 0; b <= a; ++b) {
      const double r = a == b ? spread[a] / spread[a] : covariance(a, b) / (spread[a] * spread[b]);
      const double value = std::isnan(r) ? r : std::clamp(r, -1.0, 1.0);
      similarity[a * heads + b] = similarity[b * heads + a] = static_cast<float>(value);
    }
  }
  return similarity;
}

std::vector<std::int64_t> similarity_order(const std::vector<float>& similarity) {
  const auto count = static_cast<std::size_t>(std::lround(std::sqrt(static_cast<double>(similarity.size()))));
  std::vector<std::int64_t> known;
  std::vector<std::int64_t> unknown;
  for (std::size_t n = 0; n < count; ++n) {
    (std::isnan(similarity[n * count + n]) ? unknown : known).push_back(static_cast<std::int64_t>(n));
  }
  std::vector<std::int64_t> order = Linkage(similarity, count, known).order();
  order.insert(order.end(), unknown.begin(), unknown.end());
  return order;
}

}  // namespace foxscope
