#include "backend/map/map_shades.h"

#include <algorithm>
#include <bit>
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
/// Automatic limits are made of a share of the sizes, and of four decades below a round number, which is up to 2.5
/// times as large as its quantile.
constexpr double kSignedShare = 0.995;
constexpr double kLogarithmicShare = 0.999;
constexpr double kDecades = 1e-4;
constexpr double kRoundedUp = 2.5;
constexpr float kInfinity = std::numeric_limits<float>::infinity();

bool has_signs(const MapRequest& request) {
  return request.minus.has_value() || request.quantity == Quantity::gate_effect || request.quantity == Quantity::mixing;
}

double share_of_limits(const MapRequest& request) { return has_signs(request) ? kSignedShare : kLogarithmicShare; }

/// Finite values of an image: their extremes, and the size that the share of them stay within of which limits are made.
struct Spread {
  float lowest = kInfinity;
  float highest = -kInfinity;
  float most = 0;
  bool any = false;

  Spread(const Image& image, const MapRequest& request) {
    std::vector<float> sizes;
    sizes.reserve(image.value.size());
    for (const float value : image.value) {
      if (!std::isfinite(value)) continue;
      sizes.push_back(std::abs(value));
      lowest = std::min(lowest, value);
      highest = std::max(highest, value);
    }
    any = !sizes.empty();
    if (!any || (!has_signs(request) && !request.shades->logarithmic)) return;
    const double share = share_of_limits(request) * static_cast<double>(sizes.size() - 1);
    const auto place = sizes.begin() + static_cast<std::ptrdiff_t>(share);
    std::nth_element(sizes.begin(), place, sizes.end());
    most = *place;
  }
};

/// Where a step begins.
struct Edge {
  float value = 0;
  int begins = 0;  ///< as of Shading::Level
};
constexpr int kAlways = 0;
constexpr int kNever = -1;

/// Edges of the steps, ascending: values from one edge up to the next become one level.
class Edges {
 public:
  Edges(const MapRequest& request, const Spread& spread) : shades_(*request.shades), spread_(spread) {
    const float most = spread.most;
    if (has_signs(request)) {
      keep(most);
      keep(-most);
      const double size = std::max(std::abs(spread.lowest), std::abs(spread.highest));
      const double limit = chosen(shades_.upper, chosen(shades_.lower, most > 0 ? most : size));
      add_linear(shades_.lower.value_or(-std::abs(limit)), shades_.upper.value_or(std::abs(limit)));
    } else if (shades_.logarithmic) {
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
    const auto sooner = [](const Edge& a, const Edge& b) {
      return a.value != b.value ? a.value < b.value : importance(a) < importance(b);
    };
    std::ranges::sort(edges_, sooner);
    const auto same = [](const Edge& a, const Edge& b) { return a.value == b.value; };
    edges_.erase(std::unique(edges_.begin(), edges_.end(), same), edges_.end());
  }

  [[nodiscard]] const std::vector<Edge>& all() const { return edges_; }

  /// The level of the values from one edge up to the next: the edge itself where that value is kept.
  [[nodiscard]] float level(std::size_t step) const {
    const float begin = edges_[step].value;
    if (step + 1 == edges_.size() || std::ranges::find(kept_, begin) != kept_.end()) return begin;
    const float end = edges_[step + 1].value;
    const double middle = shades_.logarithmic && begin > 0 ? std::sqrt(static_cast<double>(begin) * end)
                                                           : (static_cast<double>(begin) + end) / 2;
    return std::clamp(static_cast<float>(middle), begin, std::nextafter(end, -kInfinity));
  }

 private:
  static double chosen(const std::optional<double>& limit, double otherwise) { return limit.value_or(otherwise); }
  /// Where edges lie at one place, the one that stays longest counts.
  static int importance(const Edge& edge) {
    return edge.begins == kAlways ? 0 : edge.begins == kNever ? kColourSteps + 1 : kColourSteps - edge.begins;
  }

  void add(float value, int begins = kAlways) {
    if (value > spread_.lowest && value < spread_.highest) edges_.push_back({value, begins});
  }
  /// A value that stays as it is.
  void keep(float value) {
    edges_.push_back({std::clamp(value, spread_.lowest, spread_.highest), kAlways});
    kept_.push_back(edges_.back().value);
    add(std::nextafter(value, kInfinity));
  }
  /// The first and the last of the even steps begin and end at the limits, whatever is joined.
  static int begins_at(int step) { return step == kColourSteps ? kAlways : step; }
  void add_linear(double lower, double upper) {
    const auto even = [&](double from, double to, int steps, auto begins) {
      for (int n = 0; n <= steps; ++n) add(static_cast<float>(from + (to - from) * n / steps), begins(n));
    };
    const auto never = [](int /*step*/) { return kNever; };
    even(lower, upper, kColourSteps, begins_at);
    if (spread_.lowest < lower) even(spread_.lowest, lower, kBeyond, never);
    if (spread_.highest > upper) even(upper, spread_.highest, kBeyond, never);
  }
  void add_logarithmic(double lower, double upper) {
    const double ratio = std::pow(upper / lower, 1.0 / kColourSteps);
    double edge = lower;
    for (int n = 0; n <= kColourSteps; ++n, edge *= ratio) add(static_cast<float>(edge), begins_at(n));
    for (int n = 1; n <= kDecadesBelow; ++n) add(static_cast<float>(lower * std::pow(10.0, -n)), kNever);
  }

  const Shades& shades_;
  const Spread& spread_;
  std::vector<Edge> edges_;
  std::vector<float> kept_;
};

/// Finds the number of edges that are no higher than a value. The first bits of a value lead next to the place.
class EdgeSearch {
 public:
  explicit EdgeSearch(const std::vector<Edge>& edges) : edges_(edges), first_(std::size_t{1} << kBits) {
    std::size_t passed = 0;
    for (std::size_t key = 0; key < first_.size(); ++key) {
      const float least = value_of(static_cast<std::uint32_t>(key) << kRest);
      while (passed < edges.size() && edges[passed].value <= least) ++passed;
      first_[key] = static_cast<std::uint16_t>(passed);
    }
  }

  [[nodiscard]] std::size_t operator()(float value) const {
    std::size_t passed = first_[ordered(value) >> kRest];
    while (passed < edges_.size() && edges_[passed].value <= value) ++passed;
    return passed;
  }

 private:
  static constexpr unsigned kBits = 16;
  static constexpr unsigned kRest = 32 - kBits;
  static constexpr std::uint32_t kSign = std::uint32_t{1} << 31U;

  /// Bits that are in the order of the values.
  static std::uint32_t ordered(float value) {
    const auto bits = std::bit_cast<std::uint32_t>(value);
    return (bits & kSign) != 0 ? ~bits : bits | kSign;
  }
  /// The value of such bits; the lowest value there is where they are none's.
  static float value_of(std::uint32_t bits) {
    const auto value = std::bit_cast<float>((bits & kSign) != 0 ? bits & ~kSign : ~bits);
    return !std::isnan(value) ? value : (bits & kSign) != 0 ? kInfinity : -kInfinity;
  }

  const std::vector<Edge>& edges_;
  std::vector<std::uint16_t> first_;  ///< edges that are no higher than the least value with these first bits
};

}  // namespace

Shading::Shading(const Image& image, const MapRequest& request)
    : rows_(image.rows), columns_(image.columns), level_of_(image.value.size()) {
  const Spread spread(image, request);
  levels_.push_back({-kInfinity});
  std::vector<Edge> edges;
  if (spread.any) {
    const Edges of(request, spread);
    edges = of.all();
    for (std::size_t step = 0; step < edges.size(); ++step) levels_.push_back({of.level(step), 0, edges[step].begins});
  }
  const std::size_t infinite = levels_.size();
  const std::size_t none = infinite + 1;
  levels_.push_back({kInfinity});
  levels_.push_back({std::numeric_limits<float>::quiet_NaN()});
  const EdgeSearch search(edges);
  const float kept[] = {spread.lowest, spread.highest, spread.most};
  for (std::size_t n = 0; n < kept_.size() && spread.any; ++n) kept_[n] = static_cast<std::uint16_t>(search(kept[n]));
  for (std::size_t n = 0; n < image.value.size(); ++n) {
    const float value = image.value[n];
    const std::size_t level = std::isfinite(value) ? search(value)
                              : std::isnan(value)  ? none
                              : value < 0          ? 0
                                                   : infinite;
    level_of_[n] = static_cast<std::uint16_t>(level);
    ++levels_[level].pixels;
  }
}

std::vector<std::size_t> Shading::groups(int joined) const {
  std::vector<std::size_t> first(levels_.size());
  for (std::size_t level = 1; level < levels_.size(); ++level) {
    const int begins = levels_[level].begins;
    const bool apart = joined == 1 || begins == kAlways || (begins > 0 && begins % joined == 0);
    first[level] = apart ? level : first[level - 1];
  }
  return first;
}

double Shading::bits(int joined) const {
  const std::vector<std::size_t> first = groups(joined);
  std::vector<std::int64_t> pixels(levels_.size());
  for (std::size_t level = 0; level < first.size(); ++level) pixels[first[level]] += levels_[level].pixels;
  double bits = 0;
  for (const std::int64_t count : pixels) {
    const double share = static_cast<double>(count) / static_cast<double>(level_of_.size());
    if (count > 0) bits -= share * std::log2(share);
  }
  return bits;
}

/// The level that a square gets: of a pixel in its middle, or of one that is kept.
std::uint16_t Shading::pick(std::int64_t row, std::int64_t column, int side) const {
  const std::int64_t end_row = std::min(rows_, row + side);
  const std::int64_t end_column = std::min(columns_, column + side);
  for (std::int64_t r = row; r < end_row; ++r) {
    for (std::int64_t c = column; c < end_column; ++c) {
      const std::uint16_t level = level_of_[index_of(r * columns_ + c)];
      if (level == kept_[0] || level == kept_[1] || level == kept_[2]) return level;
    }
  }
  return level_of_[index_of((row + end_row) / 2 * columns_ + (column + end_column) / 2)];
}

ShadedImage Shading::image(int joined, int side) const {
  ShadedImage result{rows_, columns_, {}, {}, std::max(1, kColourSteps / joined)};
  result.side = side;
  const std::vector<std::size_t> first = groups(joined);
  // Levels that no pixel has are left out, so that all have room.
  std::vector<std::uint8_t> place(levels_.size());
  for (std::size_t begin = 0; begin < levels_.size();) {
    std::size_t end = begin;
    std::int64_t pixels = 0;
    double middle = 0;
    for (; end < levels_.size() && first[end] == begin; ++end) {
      pixels += levels_[end].pixels;
      middle += static_cast<double>(end - begin) * static_cast<double>(levels_[end].pixels);
    }
    if (pixels > 0) {
      std::fill(place.begin() + static_cast<std::ptrdiff_t>(begin), place.begin() + static_cast<std::ptrdiff_t>(end),
                static_cast<std::uint8_t>(result.levels.size()));
      const auto nearest = static_cast<std::size_t>(std::llround(middle / static_cast<double>(pixels)));
      result.levels.push_back(levels_[begin + nearest].value);
    }
    begin = end;
  }
  if (side == 1) {
    result.index.resize(level_of_.size());
    for (std::size_t n = 0; n < level_of_.size(); ++n) result.index[n] = place[level_of_[n]];
    return result;
  }
  for (std::int64_t row = 0; row < rows_; row += side) {
    for (std::int64_t column = 0; column < columns_; column += side) {
      result.index.push_back(place[pick(row, column, side)]);
    }
  }
  return result;
}

namespace {

std::int64_t squares(std::int64_t pixels, int side) { return (pixels + side - 1) / side; }

[[noreturn]] void fail_size() { throw Error("a map came in another size than it says"); }

}  // namespace

ShadedImage with_differences(ShadedImage shaded) {
  const std::size_t columns = index_of(squares(shaded.columns, shaded.side));
  for (std::size_t n = shaded.index.size(); n-- > columns;) {
    shaded.index[n] = static_cast<std::uint8_t>(shaded.index[n] - shaded.index[n - columns]);
  }
  shaded.differences = true;
  return shaded;
}

int indices_of_byte(std::size_t levels) {
  int indices = 1;
  constexpr std::size_t kNumbers = 256;
  for (std::size_t all = levels * levels; levels > 1 && all <= kNumbers; all *= levels) ++indices;
  return indices;
}

ShadedImage packed(ShadedImage shaded) {
  const auto digits = static_cast<std::size_t>(indices_of_byte(shaded.levels.size()));
  const std::size_t bytes = (shaded.index.size() + digits - 1) / digits;
  for (std::size_t byte = 0; byte < bytes; ++byte) {
    std::size_t number = 0;
    for (std::size_t n = std::min(shaded.index.size(), (byte + 1) * digits); n-- > byte * digits;) {
      number = number * shaded.levels.size() + shaded.index[n];
    }
    shaded.index[byte] = static_cast<std::uint8_t>(number);  // of indices that were read
  }
  shaded.index.resize(bytes);
  shaded.packed = true;
  return shaded;
}

namespace {

/// The indices of a packed image, of which there are so many. @throws Error where there are more or fewer bytes
std::vector<std::uint8_t> unpacked(const ShadedImage& shaded, std::size_t all) {
  const std::size_t levels = shaded.levels.size();
  const auto digits = static_cast<std::size_t>(indices_of_byte(levels));
  if (levels == 0 || shaded.index.size() != all / digits + (all % digits > 0 ? 1 : 0)) fail_size();
  std::vector<std::uint8_t> index;
  index.reserve(shaded.index.size() * digits);
  for (std::size_t number : shaded.index) {
    for (std::size_t digit = 0; digit < digits; ++digit, number /= levels) {
      index.push_back(static_cast<std::uint8_t>(number % levels));
    }
  }
  index.resize(all);
  return index;
}

}  // namespace

Image image_of(const ShadedImage& shaded) {
  constexpr std::int64_t kMostPixels = std::int64_t{1} << 26;  // however few bytes they come in
  if (shaded.rows < 0 || shaded.columns < 1 || shaded.side < 1 || shaded.rows > kMostPixels / shaded.columns) {
    fail_size();
  }
  const std::size_t columns = index_of(squares(shaded.columns, shaded.side));
  const std::size_t all = index_of(squares(shaded.rows, shaded.side)) * columns;
  const std::vector<std::uint8_t> plain = shaded.packed ? unpacked(shaded, all) : std::vector<std::uint8_t>();
  const std::vector<std::uint8_t>& index = shaded.packed ? plain : shaded.index;
  if (index.size() != all) fail_size();
  Image image{shaded.rows, shaded.columns, {}};
  image.value.reserve(index_of(shaded.rows * shaded.columns));
  std::vector<std::uint8_t> line(columns);
  for (std::size_t begin = 0; begin < all; begin += columns) {
    for (std::size_t n = 0; n < columns; ++n) {
      line[n] = static_cast<std::uint8_t>(shaded.differences ? line[n] + index[begin + n] : index[begin + n]);
      if (line[n] >= shaded.levels.size()) throw Error("a map came with a colour that it has not");
    }
    const std::size_t first = image.value.size();
    for (std::int64_t column = 0; column < shaded.columns; ++column) {
      image.value.push_back(shaded.levels[line[index_of(column / shaded.side)]]);
    }
    for (int row = 1; row < shaded.side && std::ssize(image.value) < shaded.rows * shaded.columns; ++row) {
      image.value.insert(image.value.end(), image.value.begin() + static_cast<std::ptrdiff_t>(first),
                         image.value.begin() + static_cast<std::ptrdiff_t>(first) + shaded.columns);
    }
  }
  return image;
}

}  // namespace foxscope
