#include "backend/eval/atlas/atlas_tables.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <numeric>
#include <utility>

#include "backend/base/index.h"
#include "backend/eval/estimate.h"
#include "backend/eval/heads/decay_times.h"
#include "backend/map/statistics/gate_groups.h"

namespace foxscope {
namespace {

constexpr double kNoNumber = std::numeric_limits<double>::quiet_NaN();

/// One entry of a class of documents, [entries, N] flattened.
LongNumber class_value(const std::vector<std::int64_t>& values, std::size_t entry) {
  return exact_long_value(std::span(values).subspan(entry * kExactLimbs).first<kExactLimbs>());
}

/// Documents by how many windows of theirs have a number.
using DocumentSizes = std::vector<std::pair<std::int64_t, std::int64_t>>;

ErrorGroups groups_of(const DocumentSizes& documents) {
  std::vector<double> sizes;
  for (const auto& [windows, count] : documents) {
    sizes.insert(sizes.end(), index_of(count), static_cast<double>(windows));
  }
  return group_sizes(ErrorGroups::Kind::documents, sizes);
}

/// Means over windows of the numbers of heads. Most numbers are of the same documents, whose groups are made once.
class WindowMeans {
 public:
  explicit WindowMeans(const AtlasSums& sums) : sums_(sums) {}

  Estimate of(std::size_t entry, std::size_t place) {
    const std::size_t at = entry * sums_.shape().head_count() + place;
    DocumentSizes sizes;
    double windows = 0;
    LongNumber sum = 0;
    for (const auto& [size, documents] : sums_.classes()) {
      if (documents.documents[at] == 0) continue;
      sizes.emplace_back(size, documents.documents[at]);
      windows += static_cast<double>(size) * static_cast<double>(documents.documents[at]);
      sum += class_value(documents.sum, at);
    }
    if (sizes.empty()) return {kNoNumber, kNoNumber, {}};
    const auto [groups, is_new] = groups_.try_emplace(sizes);
    if (is_new) groups->second = groups_of(sizes);
    const ErrorGroups& over = groups->second;
    const LongNumber mean = sum / windows;
    if (!over.suffice()) return {static_cast<double>(mean), kNoNumber, over};
    // The mean without document g changes by (s_g - mean m_g) / (M - m_g).
    double squares = 0;
    for (const auto& [size, count] : sizes) {
      const DocumentClass& documents = sums_.classes().at(size);
      const auto m = static_cast<double>(size);
      const LongNumber square = class_value(documents.square, at);
      const LongNumber spread =
          square - 2 * mean * m * class_value(documents.sum, at) + mean * mean * m * m * static_cast<double>(count);
      // A spread that rounding alone leaves is none: of long numbers, and of terms that are whole numbers of 2^-82.
      const LongNumber rounding = 0x1p-100 * square + 0x1p-80 * static_cast<double>(count);
      squares += spread > rounding ? static_cast<double>(spread) / ((windows - m) * (windows - m)) : 0.0;
    }
    const auto g = static_cast<double>(over.count);
    return {static_cast<double>(mean), std::sqrt((g - 1) / g * squares), over};
  }

 private:
  const AtlasSums& sums_;
  std::map<DocumentSizes, ErrorGroups> groups_;
};

/// Sums over documents for a ratio of sums, sum of s over sum of n.
struct RatioSums {
  double sum = 0;               ///< of s
  std::int64_t count = 0;       ///< sum of n
  std::int64_t documents = 0;   ///< that have n > 0
  LongNumber square = 0;        ///< sum of s^2
  LongNumber sum_count = 0;     ///< sum of s n
  LongNumber count_square = 0;  ///< sum of n^2
};

/// The ratio with its error by linearisation (HeadTokens::error). The degrees of freedom are the effective documents
/// less one.
Estimate ratio_of(const RatioSums& of) {
  const auto n = static_cast<double>(of.count);
  const double ratio = of.sum / n;
  ErrorGroups over;
  over.count = of.documents;
  if (of.documents > 0) over.effective = static_cast<double>(LongNumber(n) * n / of.count_square);
  over.degrees = over.effective - 1;
  if (!over.suffice()) return {ratio, kNoNumber, over};
  const LongNumber r = LongNumber(of.sum) / n;
  const LongNumber spread = of.square - 2 * r * of.sum_count + r * r * of.count_square;
  // A ratio is rounded to 53 bits of its sum.
  const LongNumber rounding = 0x1p-50 * of.square;
  const auto g = static_cast<double>(of.documents);
  const double variance = spread > rounding ? static_cast<double>(spread) * g / (g - 1) / (n * n) : 0.0;
  return {ratio, std::sqrt(variance), over};
}

/// The nearest float of so many significant bits.
float rounded(double value, int bits) {
  if (value == 0 || !std::isfinite(value)) return static_cast<float>(value);
  int exponent = 0;
  const double fraction = std::frexp(value, &exponent);
  return static_cast<float>(std::ldexp(std::nearbyint(std::ldexp(fraction, bits)), exponent - bits));
}

/// The nearest multiple of 2^-kTokenShareBits.
float rounded_share(double share) {
  return static_cast<float>(std::ldexp(std::nearbyint(std::ldexp(share, kTokenShareBits)), -kTokenShareBits));
}

LongNumber exact_of(const AtlasSums& sums, AtlasSum sum, std::size_t index) {
  return exact_long_value(sums.exact(sum, index));
}

/// Arrays of the numbers, or of the profiles.
std::vector<HeadArray> arrays_of(const AtlasModel& model, const std::vector<AtlasNumber>& list, std::size_t bins,
                                 const std::function<std::size_t(std::size_t n, std::size_t bin)>& entry_of) {
  WindowMeans means(model.sums);
  std::vector<HeadArray> arrays;
  for (std::size_t n = 0; n < list.size(); ++n) {
    HeadArray array{list[n].name, list[n].unit, {}, {}};
    for (std::size_t place = 0; place < model.sums.shape().head_count(); ++place) {
      for (std::size_t bin = 0; bin < bins; ++bin) {
        const Estimate mean = means.of(entry_of(n, bin), place);
        array.value.push_back(mean.value);
        array.error.push_back(mean.error);
      }
    }
    const bool any = std::ranges::any_of(array.value, [](double value) { return !std::isnan(value); });
    if (any) arrays.push_back(std::move(array));
  }
  return arrays;
}

/// Sums of numbers of heads and of their products, over the same entries.
struct ProductSums {
  AtlasSum sum;
  AtlasSum product;
  AtlasSum first_product;
  std::int64_t (*entries)(const AtlasModel& model);
  bool (*has)(const AtlasModel& model, std::size_t place);
};

constexpr ProductSums kGates = {AtlasSum::log_gate, AtlasSum::log_gate_product, AtlasSum::first_log_gate_product,
                                [](const AtlasModel& model) { return model.positions(); },
                                [](const AtlasModel& model, std::size_t place) { return model.has_gate(place); }};
constexpr ProductSums kMasses = {
    AtlasSum::mass, AtlasSum::mass_product, AtlasSum::first_mass_product,
    [](const AtlasModel& model) { return model.sums.shape().rows == 0 ? 0 : model.sums.at(AtlasSum::mass_count)[0]; },
    [](const AtlasModel& model, std::size_t place) { return model.has_attention(place); }};

/// Means of the numbers of heads, and their standard deviations: NaN of heads that have none, and of constant ones.
struct HeadMoments {
  std::vector<double> mean;
  std::vector<double> spread;
};

double product_mean(const AtlasModel& model, AtlasSum product, std::size_t index, double entries) {
  return exact_value(model.sums.exact(product, index)) / entries;
}

HeadMoments moments_of(const AtlasModel& model, const ProductSums& of) {
  const auto entries = static_cast<double>(of.entries(model));
  HeadMoments moments;
  for (std::size_t n = 0; n < model.sums.shape().head_count(); ++n) {
    const double mean = exact_value(model.sums.exact(of.sum, n)) / entries;
    const double variance = product_mean(model, of.product, n * (n + 1) / 2 + n, entries) - mean * mean;
    // A variance that rounding alone leaves of numbers that never change is none.
    const bool changes = of.has(model, n) && variance > 1e-13 * mean * mean;
    moments.mean.push_back(mean);
    moments.spread.push_back(changes ? std::sqrt(variance) : kNoNumber);
  }
  return moments;
}

float correlation_of(double covariance, double spread_a, double spread_b) {
  const double r = covariance / (spread_a * spread_b);
  return static_cast<float>(std::isnan(r) ? r : std::clamp(r, -1.0, 1.0));
}

std::vector<float> similarity_of(const AtlasModel& model, const ProductSums& of) {
  const std::size_t heads = model.sums.shape().head_count();
  const auto entries = static_cast<double>(of.entries(model));
  if (entries == 0) return {};
  const HeadMoments moments = moments_of(model, of);
  std::vector<float> similarity(heads * heads);
  for (std::size_t a = 0; a < heads; ++a) {
    for (std::size_t b = 0; b <= a; ++b) {
      const double covariance =
          product_mean(model, of.product, a * (a + 1) / 2 + b, entries) - moments.mean[a] * moments.mean[b];
      const float r = a == b ? static_cast<float>(moments.spread[a] / moments.spread[a])
                             : correlation_of(covariance, moments.spread[a], moments.spread[b]);
      similarity[a * heads + b] = similarity[b * heads + a] = r;
    }
  }
  return similarity;
}

std::vector<float> similarity_with(const AtlasModel& model, const AtlasModel& first, const ProductSums& of) {
  const auto others = index_of(model.sums.shape().first_heads);
  const auto entries = static_cast<double>(of.entries(model));
  if (others == 0 || entries == 0) return {};
  const HeadMoments moments = moments_of(model, of);
  const HeadMoments other = moments_of(first, of);
  std::vector<float> similarity;
  for (std::size_t a = 0; a < model.sums.shape().head_count(); ++a) {
    for (std::size_t b = 0; b < others; ++b) {
      const double covariance =
          product_mean(model, of.first_product, a * others + b, entries) - moments.mean[a] * other.mean[b];
      similarity.push_back(correlation_of(covariance, moments.spread[a], other.spread[b]));
    }
  }
  return similarity;
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

bool AtlasModel::has_attention(std::size_t place) const {
  const auto entropy = std::ranges::find(numbers.numbers, "entropy", &AtlasNumber::name);
  if (entropy == numbers.numbers.end()) return false;
  const std::size_t at = index_of(entropy - numbers.numbers.begin()) * sums.shape().head_count() + place;
  return std::ranges::any_of(sums.classes(), [at](const auto& one) { return one.second.documents[at] > 0; });
}

bool AtlasModel::has_attention() const {
  for (std::size_t place = 0; place < sums.shape().head_count(); ++place) {
    if (has_attention(place)) return true;
  }
  return false;
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
  const bool rows = model.sums.shape().rows != 0;
  const bool attention = model.has_attention(place);
  const std::size_t errors = model.sums.shape().error_tokens();
  const double mean_of_all =
      exact_value(model.sums.exact(AtlasSum::log_gate, place)) / static_cast<double>(model.positions());
  const double square_of_all = product_mean(model, AtlasSum::log_gate_product, place * (place + 1) / 2 + place,
                                            static_cast<double>(model.positions()));
  const double spread = std::sqrt(std::max(0.0, square_of_all - mean_of_all * mean_of_all));
  const auto counts = model.sums.at(AtlasSum::token_count);
  const auto log_gates = model.sums.row(AtlasSum::token_log_gate, place);
  const auto resets = model.sums.row(AtlasSum::token_below_half, place);
  for (const std::int32_t token : tokens) {
    const auto id = index_of(token);
    const auto count = static_cast<double>(counts[id]);
    const double sum = static_cast<double>(log_gates[id]) * kTokenLogGateUnit;
    head.mean_log_gate.push_back(rounded(gate ? sum / count : kNoNumber, kTokenMeanBits));
    head.share_below_half.push_back(rounded_share(gate ? static_cast<double>(resets[id]) / count : kNoNumber));
    if (rows) {
      const auto received = static_cast<double>(model.sums.row(AtlasSum::token_received, place)[id]) * kMassUnit;
      head.received.push_back(rounded(attention ? received / count : kNoNumber, kTokenMeanBits));
    }
    Estimate mean{kNoNumber, kNoNumber, {}};
    if (gate && id < errors) {
      const std::size_t at = place * errors + id;
      mean = ratio_of({sum, counts[id], model.sums.at(AtlasSum::token_documents)[id],
                       exact_of(model.sums, AtlasSum::token_log_gate_square, at),
                       exact_of(model.sums, AtlasSum::token_log_gate_count, at),
                       exact_of(model.sums, AtlasSum::token_count_square, id)});
    }
    head.error.push_back(rounded(mean.error, kTokenErrorBits));
    mean.value -= mean_of_all;
    mean.error = std::max({mean.error, spread / std::sqrt(count), kTokenLogGateUnit});
    head.p_value.push_back(counts[id] < kFewestReadings ? kNoNumber : p_value(mean));
  }
  return head;
}

HeadTokens tokens_of_heads(const AtlasModel& model, const std::vector<std::int32_t>& tokens) {
  HeadTokens all;
  const auto append = [](auto& to, const auto& more) { to.insert(to.end(), more.begin(), more.end()); };
  for (std::size_t place = 0; place < model.sums.shape().head_count(); ++place) {
    const HeadTokens head = tokens_of_head(model, place, tokens);
    append(all.mean_log_gate, head.mean_log_gate);
    append(all.share_below_half, head.share_below_half);
    append(all.received, head.received);
    append(all.error, head.error);
    append(all.p_value, head.p_value);
  }
  return all;
}

std::vector<std::int32_t> atlas_token_discoveries(const std::vector<double>& p_values) {
  std::vector<std::int32_t> found;
  found.reserve(p_values.size());
  for (const bool one : discoveries(p_values, kChance)) found.push_back(one ? 1 : 0);
  return found;
}

ErrorGroups atlas_documents(const AtlasSums& sums) {
  return groups_of({sums.documents().begin(), sums.documents().end()});
}

std::vector<HeadArray> atlas_head_numbers(const AtlasModel& model) {
  std::vector<HeadArray> arrays =
      arrays_of(model, model.numbers.numbers, 1, [](std::size_t n, std::size_t /*bin*/) { return n; });
  if (const HeadArray* const means = find_array(arrays, "mean_log_gate")) {
    arrays.insert(arrays.begin(), decay_times(*means));
  }
  return arrays;
}

std::vector<HeadArray> atlas_profiles(const AtlasModel& model) {
  const AtlasShape& shape = model.sums.shape();
  return arrays_of(model, model.numbers.profiles, index_of(shape.bins),
                   [&](std::size_t n, std::size_t bin) { return shape.entry_of(n, bin); });
}

std::vector<double> row_errors(const AtlasModel& model, const std::string& name) {
  const AtlasShape& shape = model.sums.shape();
  if (shape.rows == 0) return {};
  std::vector<std::size_t> entries;
  const auto number = std::ranges::find(model.numbers.numbers, name, &AtlasNumber::name);
  const auto profile = std::ranges::find(model.numbers.profiles, name, &AtlasNumber::name);
  if (number != model.numbers.numbers.end()) {
    entries.push_back(index_of(number - model.numbers.numbers.begin()));
  } else if (profile != model.numbers.profiles.end()) {
    for (std::size_t bin = 0; bin < index_of(shape.bins); ++bin) {
      entries.push_back(shape.entry_of(index_of(profile - model.numbers.profiles.begin()), bin));
    }
  }
  const bool is_mass = name.starts_with("mass");
  WindowMeans means(model.sums);
  std::vector<double> errors;
  bool any = false;
  for (std::size_t place = 0; place < shape.head_count(); ++place) {
    for (const std::size_t entry : entries) {
      const std::size_t at = entry * shape.head_count() + place;
      double windows = 0;
      for (const auto& [size, documents] : model.sums.classes()) {
        windows += static_cast<double>(size) * static_cast<double>(documents.documents[at]);
      }
      const double squares = exact_value(model.sums.exact(AtlasSum::row_variance, at));
      any = any || squares > 0;
      const bool known = windows > 0 && !(is_mass && means.of(entry, place).value < kLeastSampledMass);
      errors.push_back(known ? std::sqrt(squares) / windows : kNoNumber);
    }
  }
  return any ? errors : std::vector<double>();
}

std::vector<HeadArray> atlas_class_numbers(const AtlasModel& model) {
  const auto counts = model.sums.at(AtlasSum::class_count);
  HeadArray mean{"mean_log_gate", "nats", {}, {}};
  HeadArray lower{"gate_lower_quartile", "1", {}, {}};
  HeadArray median{"gate_median", "1", {}, {}};
  HeadArray upper{"gate_upper_quartile", "1", {}, {}};
  HeadArray share{"share_below_half", "1", {}, {}};
  const auto put = [](HeadArray& array, double value, double error) {
    array.value.push_back(value);
    array.error.push_back(error);
  };
  for (std::size_t place = 0; place < model.sums.shape().head_count(); ++place) {
    for (std::size_t n = 0; n < kBoundaryClasses; ++n) {
      const std::size_t at = place * kBoundaryClasses + n;
      Estimate of_mean{kNoNumber, kNoNumber, {}};
      Estimate of_share = of_mean;
      GateGroup group{0, kNoNumber, kNoNumber, kNoNumber, kNoNumber, kNoNumber};
      if (counts[n] > 0 && model.has_gate(place)) {
        const double sum = static_cast<double>(model.sums.at(AtlasSum::class_log_gate)[at]) * kLogGateUnit;
        const std::int64_t resets = model.sums.at(AtlasSum::class_resets)[at];
        const std::int64_t documents = model.sums.at(AtlasSum::class_documents)[n];
        const LongNumber squares = exact_of(model.sums, AtlasSum::class_count_square, n);
        of_mean = ratio_of({sum, counts[n], documents, exact_of(model.sums, AtlasSum::class_log_gate_square, at),
                            exact_of(model.sums, AtlasSum::class_log_gate_count, at), squares});
        of_share = ratio_of({static_cast<double>(resets), counts[n], documents,
                             exact_of(model.sums, AtlasSum::class_resets_square, at),
                             exact_of(model.sums, AtlasSum::class_resets_count, at), squares});
        const auto histogram = model.sums.row(AtlasSum::class_histogram, place).subspan(n * kLogGateBins, kLogGateBins);
        group = GateTally(GateTally::State{counts[n], resets, sum, {histogram.begin(), histogram.end()}}).summary();
      }
      put(mean, of_mean.value, of_mean.error);
      put(lower, group.lower_quartile, kNoNumber);
      put(median, group.median, kNoNumber);
      put(upper, group.upper_quartile, kNoNumber);
      put(share, of_share.value, of_share.error);
    }
  }
  return {std::move(mean), std::move(lower), std::move(median), std::move(upper), std::move(share)};
}

AtlasResets atlas_resets(const AtlasModel& model) {
  AtlasResets table;
  for (std::size_t place = 0; place < model.sums.shape().head_count(); ++place) {
    const auto below = model.sums.row(AtlasSum::token_below_half, place);
    const std::int64_t count = std::accumulate(below.begin(), below.end(), std::int64_t{0});
    table.count.push_back(count);
    const auto all = static_cast<double>(count);
    for (std::size_t n = 0; n < kResetClasses; ++n) {
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
  return model.has_gate(place) ? model.sums.places(AtlasList::resets, place) : std::vector<AtlasPlace>();
}

std::vector<AtlasPlace> farthest_places(const AtlasModel& model, std::size_t place) {
  return model.sums.places(AtlasList::reach, place);
}

std::vector<AtlasPlace> gaining_places(const AtlasModel& model, std::size_t place) {
  return model.sums.places(AtlasList::gain, place);
}

std::vector<AtlasPlace> decile_places(const AtlasModel& model, std::size_t place) {
  constexpr std::size_t kDeciles = 10;
  if (!model.has_gate(place)) return {};
  const auto by_value = [](const AtlasPlace& a, const AtlasPlace& b) {
    return std::pair(a.value, a.window) < std::pair(b.value, b.window);
  };
  std::vector<AtlasPlace> sample = model.sums.places(AtlasList::samples, place);
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

std::vector<AtlasPassages> atlas_passages(const AtlasModel& model, std::size_t place) {
  std::vector<AtlasPassages> all;
  const auto add = [&](const char* kind, const char* quantity, std::vector<AtlasPlace> places) {
    if (!places.empty()) all.push_back({kind, quantity, std::move(places)});
  };
  add("resets", "log *f* (nats)", strongest_resets(model, place));
  add("reach", "share of attention half a window back and farther", farthest_places(model, place));
  add("gain", "attention beyond 32 tokens times the fall of the loss (nats)", gaining_places(model, place));
  add("deciles", "log *f* (nats)", decile_places(model, place));
  return all;
}

std::vector<float> atlas_similarity(const AtlasModel& model) { return similarity_of(model, kGates); }
std::vector<float> attention_similarity(const AtlasModel& model) { return similarity_of(model, kMasses); }

std::vector<float> similarity_with_first(const AtlasModel& model, const AtlasModel& first) {
  return similarity_with(model, first, kGates);
}
std::vector<float> attention_similarity_with_first(const AtlasModel& model, const AtlasModel& first) {
  return similarity_with(model, first, kMasses);
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
