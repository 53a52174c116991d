#include "backend/map/map_shades.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "backend/base/error.h"
#include "backend/base/index.h"

namespace foxscope {
namespace {

/// Levels between a limit and the extreme beyond it, on a linear scale.
constexpr int kBeyond = 4;
/// Levels below the lower limit of a logarithmic scale, one a decade.
constexpr int kDecadesBelow = 8;
/// What automatic limits are made of: a share of the sizes, and four decades below a round number, which is up to 2.5
/// times as large as its quantile.
constexpr double kSignedShare = 0.995;
constexpr double kLogarithmicShare = 0.999;
constexpr double kDecades = 1e-4;
constexpr double kRoundedUp = 2.5;
constexpr float kInfinity = std::numeric_limits<float>::infinity();

bool has_signs(const MapRequest& request) {
  return request.minus.has_value() || request.quantity == Quantity::gate_effect || request.quantity == Quantity::mixing;
}

/// Finite values of an image: their extremes, and the size that a share of them stay within.
struct Spread {
  std::vector<float> sizes;
  float lowest = kInfinity;
  float highest = -kInfinity;

  explicit Spread(const Image& image) {
    sizes.reserve(image.value.size());
    for (const float value : image.value) {
      if (!std::isfinite(value)) continue;
      sizes.push_back(std::abs(value));
      lowest = std::min(lowest, value);
      highest = std::max(highest, value);
    }
  }
  [[nodiscard]] float size_of_most(double share) {
    const auto place = sizes.begin() + static_cast<std::ptrdiff_t>(share * static_cast<double>(sizes.size() - 1));
    std::nth_element(sizes.begin(), place, sizes.end());
    return *place;
  }
};

/// Edges of the steps, ascending: values from one edge up to the next become one level.
class Edges {
 public:
  Edges(const MapRequest& request, Spread& spread, int steps)
      : shades_(*request.shades), spread_(spread), steps_(steps) {
    if (has_signs(request)) {
      const float most = spread.size_of_most(kSignedShare);
      keep(most);
      keep(-most);
      const double size = std::max(std::abs(spread.lowest), std::abs(spread.highest));
      const double limit = chosen(shades_.upper, chosen(shades_.lower, most > 0 ? most : size));
      add_linear(shades_.lower.value_or(-std::abs(limit)), shades_.upper.value_or(std::abs(limit)));
    } else if (shades_.logarithmic) {
      const float most = spread.size_of_most(kLogarithmicShare);
      keep(most);
      const double upper = chosen(shades_.upper, most > 0 ? kRoundedUp * static_cast<double>(most) : 1);
      const double automatic = (shades_.upper ? upper : upper / kRoundedUp) * kDecades;
      add_logarithmic(chosen(shades_.lower, automatic), upper);
    } else {
      const bool from_zero = request.quantity == Quantity::attention ||
                             request.quantity == Quantity::attention_without_gate ||
                             request.quantity == Quantity::forget;
      add_linear(chosen(shades_.lower, from_zero ? 0 : spread.lowest),
                 chosen(shades_.upper, request.quantity == Quantity::forget ? 1 : spread.highest));
    }
    if (shades_.blank_below) {
      const auto threshold = static_cast<float>(*shades_.blank_below);
      add(static_cast<double>(threshold) < *shades_.blank_below ? std::nextafter(threshold, kInfinity) : threshold);
      add(std::nextafter(-threshold, kInfinity));
    }
    keep(spread.lowest);
    keep(spread.highest);
    std::ranges::sort(edges_);
    edges_.erase(std::unique(edges_.begin(), edges_.end()), edges_.end());
  }

  [[nodiscard]] const std::vector<float>& all() const { return edges_; }

  /// The level of the values from one edge up to the next: the edge itself where that value is kept.
  [[nodiscard]] float level(std::size_t step) const {
    const float begin = edges_[step];
    if (step + 1 == edges_.size() || std::ranges::find(kept_, begin) != kept_.end()) return begin;
    const float end = edges_[step + 1];
    const double middle = shades_.logarithmic && begin > 0 ? std::sqrt(static_cast<double>(begin) * end)
                                                           : (static_cast<double>(begin) + end) / 2;
    return std::clamp(static_cast<float>(middle), begin, std::nextafter(end, -kInfinity));
  }

 private:
  static double chosen(const std::optional<double>& limit, double otherwise) { return limit.value_or(otherwise); }

  void add(float edge) {
    if (edge > spread_.lowest && edge < spread_.highest) edges_.push_back(edge);
  }
  /// A value that stays as it is.
  void keep(float value) {
    edges_.push_back(std::clamp(value, spread_.lowest, spread_.highest));
    kept_.push_back(edges_.back());
    add(std::nextafter(value, kInfinity));
  }
  void add_linear(double lower, double upper) {
    const auto even = [&](double from, double to, int steps) {
      for (int n = 0; n <= steps; ++n) add(static_cast<float>(from + (to - from) * n / steps));
    };
    even(lower, upper, steps_);
    if (spread_.lowest < lower) even(spread_.lowest, lower, kBeyond);
    if (spread_.highest > upper) even(upper, spread_.highest, kBeyond);
  }
  void add_logarithmic(double lower, double upper) {
    const double ratio = std::pow(upper / lower, 1.0 / steps_);
    double edge = lower;
    for (int n = 0; n <= steps_; ++n, edge *= ratio) add(static_cast<float>(edge));
    for (int n = 1; n <= kDecadesBelow; ++n) add(static_cast<float>(lower * std::pow(10.0, -n)));
  }

  const Shades& shades_;
  const Spread& spread_;
  int steps_;
  std::vector<float> edges_;
  std::vector<float> kept_;
};

}  // namespace

ShadedImage shaded(const Image& image, const MapRequest& request, int steps) {
  ShadedImage result{image.rows, image.columns, {}, {}, steps};
  result.index.resize(image.value.size());
  Spread spread(image);
  std::vector<float> edges;
  result.levels.push_back(-kInfinity);
  if (!spread.sizes.empty()) {
    const Edges of(request, spread, steps);
    edges = of.all();
    for (std::size_t step = 0; step < edges.size(); ++step) result.levels.push_back(of.level(step));
  }
  result.levels.push_back(kInfinity);
  result.levels.push_back(std::numeric_limits<float>::quiet_NaN());
  // Levels that no pixel has are left out, so that all have room.
  std::vector<std::uint16_t> level_of(image.value.size());
  std::vector<int> place(result.levels.size(), -1);
  for (std::size_t n = 0; n < image.value.size(); ++n) {
    const float value = image.value[n];
    std::size_t level = 0;
    if (std::isnan(value)) {
      level = result.levels.size() - 1;
    } else if (std::isinf(value)) {
      level = value < 0 ? 0 : result.levels.size() - 2;
    } else {
      level = static_cast<std::size_t>(std::upper_bound(edges.begin(), edges.end(), value) - edges.begin());
    }
    level_of[n] = static_cast<std::uint16_t>(level);
    place[level] = 0;
  }
  std::vector<float> levels;
  for (std::size_t level = 0; level < place.size(); ++level) {
    if (place[level] < 0) continue;
    place[level] = static_cast<int>(levels.size());
    levels.push_back(result.levels[level]);
  }
  for (std::size_t n = 0; n < level_of.size(); ++n) result.index[n] = static_cast<std::uint8_t>(place[level_of[n]]);
  result.levels = std::move(levels);
  return result;
}

ShadedImage with_differences(ShadedImage shaded) {
  const std::size_t columns = index_of(shaded.columns);
  for (std::size_t n = shaded.index.size(); n-- > columns;) {
    shaded.index[n] = static_cast<std::uint8_t>(shaded.index[n] - shaded.index[n - columns]);
  }
  shaded.differences = true;
  return shaded;
}

Image image_of(const ShadedImage& shaded) {
  const std::size_t columns = index_of(shaded.columns);
  if (shaded.rows < 0 || shaded.columns < 1 || shaded.index.size() % columns != 0 ||
      shaded.index.size() / columns != index_of(shaded.rows)) {
    throw Error("a map came in another size than it says");
  }
  Image image{shaded.rows, shaded.columns, {}};
  image.value.reserve(shaded.index.size());
  std::vector<std::uint8_t> line(columns);
  for (std::size_t n = 0; n < shaded.index.size(); ++n) {
    std::uint8_t& index = line[n % columns];
    index = static_cast<std::uint8_t>(shaded.differences ? index + shaded.index[n] : shaded.index[n]);
    if (index >= shaded.levels.size()) throw Error("a map came with a colour that it has not");
    image.value.push_back(shaded.levels[index]);
  }
  return image;
}

}  // namespace foxscope
