#include "backend/map/map_shades.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include <gtest/gtest.h>

#include "backend/base/index.h"

namespace foxscope::test {
namespace {

constexpr float kNone = std::numeric_limits<float>::quiet_NaN();
constexpr double kStepsOfColour = 240;

/// Values of several decades, of which a part are no entries.
Image random_image(bool with_signs) {
  std::mt19937 random(3);
  std::normal_distribution<float> normal;
  Image image{150, 200, {}};
  for (std::int64_t n = 0; n < image.rows * image.columns; ++n) {
    const float size = std::exp(3 * normal(random) - 6);
    image.value.push_back(n % 3 == 0 ? kNone : with_signs && normal(random) < 0 ? -size : size);
  }
  return image;
}

MapRequest request_of(Quantity quantity, const Shades& shades) {
  MapRequest request;
  request.quantity = quantity;
  request.shades = shades;
  return request;
}

Image rounded(const Image& image, const MapRequest& request) {
  const ShadedImage few = Shading(image, request).image();
  EXPECT_LE(few.levels.size(), 256U);
  Image result = image_of(few);
  EXPECT_EQ(result.rows, image.rows);
  EXPECT_EQ(result.columns, image.columns);
  EXPECT_EQ(result.value.size(), image.value.size());
  return result;
}

/// The size that a share of the values stay within, as a colour scale looks for it.
float size_of_most(const Image& image, double share) {
  std::vector<float> sizes;
  for (const float value : image.value) {
    if (std::isfinite(value)) sizes.push_back(std::abs(value));
  }
  std::ranges::sort(sizes);
  return sizes[static_cast<std::size_t>(share * static_cast<double>(sizes.size() - 1))];
}

struct Extremes {
  float lowest = std::numeric_limits<float>::infinity();
  float highest = -std::numeric_limits<float>::infinity();
  explicit Extremes(const Image& image) {
    for (const float value : image.value) {
      if (!std::isfinite(value)) continue;
      lowest = std::min(lowest, value);
      highest = std::max(highest, value);
    }
  }
};

void expect_same_order(const Image& exact, const Image& few) {
  std::vector<std::size_t> places;
  for (std::size_t n = 0; n < exact.value.size(); ++n) {
    ASSERT_EQ(std::isnan(exact.value[n]), std::isnan(few.value[n]));
    if (!std::isnan(exact.value[n])) places.push_back(n);
  }
  std::ranges::sort(places, {}, [&](std::size_t n) { return exact.value[n]; });
  for (std::size_t n = 1; n < places.size(); ++n) ASSERT_LE(few.value[places[n - 1]], few.value[places[n]]);
}

/// The largest difference of two places on a scale from `lower` at 0 to `upper` at 1, in steps.
double largest_step(const Image& exact, const Image& few, double lower, double upper, bool logarithmic) {
  const auto place = [&](double value) {
    const double at = logarithmic ? (value <= 0 ? 0 : std::log(value / lower) / std::log(upper / lower))
                                  : (value - lower) / (upper - lower);
    return std::clamp(at, 0.0, 1.0) * kStepsOfColour;
  };
  double largest = 0;
  for (std::size_t n = 0; n < exact.value.size(); ++n) {
    if (!std::isnan(exact.value[n])) largest = std::max(largest, std::abs(place(exact.value[n]) - place(few.value[n])));
  }
  return largest;
}

TEST(MapShades, OfALinearScaleAreAStepAtMostAway) {
  const Image image = random_image(false);
  const Image few = rounded(image, request_of(Quantity::attention, {}));
  expect_same_order(image, few);
  const Extremes extremes(image);
  EXPECT_EQ(Extremes(few).lowest, extremes.lowest);
  EXPECT_EQ(Extremes(few).highest, extremes.highest);
  EXPECT_LE(largest_step(image, few, 0, extremes.highest, false), 1.0 + 1e-6);
  const Image chosen = rounded(image, request_of(Quantity::attention, {.lower = 0.001, .upper = 0.02}));
  EXPECT_LE(largest_step(image, chosen, 0.001, 0.02, false), 1.0 + 1e-6);
  EXPECT_EQ(Extremes(chosen).highest, extremes.highest);
}

TEST(MapShades, OfALogarithmicScaleKeepWhatItsLimitsAreMadeOf) {
  const Image image = random_image(false);
  const Image few = rounded(image, request_of(Quantity::attention, {.logarithmic = true}));
  expect_same_order(image, few);
  const float most = size_of_most(image, 0.999);
  EXPECT_EQ(size_of_most(few, 0.999), most);
  // Steps are even from the lowest limit that can be to the highest, 2.5 times 4 decades.
  EXPECT_LE(largest_step(image, few, 1e-4 * most, 2.5 * most, true), 1.0 + 1e-6);
  const Image chosen =
      rounded(image, request_of(Quantity::attention, {.logarithmic = true, .lower = 1e-3, .upper = 1}));
  EXPECT_LE(largest_step(image, chosen, 1e-3, 1, true), 1.0 + 1e-6);
}

TEST(MapShades, OfWhatHasSignsKeepThem) {
  const Image image = random_image(true);
  const Image few = rounded(image, request_of(Quantity::gate_effect, {}));
  expect_same_order(image, few);
  const float most = size_of_most(image, 0.995);
  EXPECT_EQ(size_of_most(few, 0.995), most);
  EXPECT_LE(largest_step(image, few, -most, most, false), 1.0 + 1e-6);
  EXPECT_EQ(Extremes(few).lowest, Extremes(image).lowest);
}

TEST(MapShades, LeaveBlankWhatIsBelowTheThreshold) {
  for (const double threshold : {0.0031, 0.02}) {
    for (const bool with_signs : {false, true}) {
      const Image image = random_image(with_signs);
      const Quantity quantity = with_signs ? Quantity::mixing : Quantity::attention;
      const Image few = rounded(image, request_of(quantity, {.blank_below = threshold}));
      for (std::size_t n = 0; n < image.value.size(); ++n) {
        ASSERT_EQ(std::abs(image.value[n]) < threshold, std::abs(few.value[n]) < threshold) << image.value[n];
      }
    }
  }
}

TEST(MapShades, KeepWhatIsNoNumber) {
  const float infinity = std::numeric_limits<float>::infinity();
  const Image image{2, 3, {kNone, -infinity, -1, 0.5F, infinity, -1}};
  const Image few = rounded(image, request_of(Quantity::logits, {}));
  EXPECT_TRUE(std::isnan(few.value[0]));
  EXPECT_EQ(std::vector<float>(few.value.begin() + 1, few.value.end()),
            (std::vector<float>{-infinity, -1, 0.5F, infinity, -1}));
  const Image none{1, 2, {kNone, kNone}};
  EXPECT_TRUE(std::isnan(rounded(none, request_of(Quantity::attention, {.logarithmic = true})).value[1]));
  const Image same{1, 3, {0.25F, 0.25F, 0.25F}};
  EXPECT_EQ(rounded(same, request_of(Quantity::attention, {.logarithmic = true})).value, same.value);
  const Image zeros{1, 3, {0, 0, 0}};
  EXPECT_EQ(rounded(zeros, request_of(Quantity::attention, {.logarithmic = true})).value, zeros.value);
}

TEST(MapShades, AreTheSameWithDifferences) {
  const Image image = random_image(true);
  for (const int joined : {1, 4, 34, kColourSteps}) {
    const ShadedImage few = Shading(image, request_of(Quantity::mixing, {})).image(joined);
    EXPECT_EQ(few.steps, kColourSteps / joined);
    const Image again = image_of(with_differences(few));
    const Image plain = image_of(few);
    for (std::size_t n = 0; n < plain.value.size(); ++n) {
      ASSERT_TRUE(again.value[n] == plain.value[n] || std::isnan(plain.value[n]));
    }
    expect_same_order(image, plain);
    const float most = size_of_most(image, 0.995);
    EXPECT_LE(largest_step(image, plain, -most, most, false), joined + 1e-6);
  }
}

TEST(MapShades, AreTheSameInFewerBytes) {
  for (const bool logarithmic : {false, true}) {
    const Image image = random_image(false);
    const MapRequest request = request_of(Quantity::attention, {.logarithmic = logarithmic, .lower = 1e-4, .upper = 1});
    std::size_t least = image.value.size() + 1;
    for (const int joined : {1, 20, 60, 80, 120, kColourSteps}) {
      const ShadedImage few = Shading(image, request).image(joined);
      const ShadedImage small = packed(few);
      EXPECT_LE(small.index.size(), least);
      least = small.index.size();
      const Image again = image_of(small);
      const Image plain = image_of(few);
      for (std::size_t n = 0; n < plain.value.size(); ++n) {
        ASSERT_TRUE(again.value[n] == plain.value[n] || (std::isnan(plain.value[n]) && std::isnan(again.value[n])));
      }
      ShadedImage other = small;
      other.index.pop_back();
      EXPECT_THROW(image_of(other), std::exception);
    }
    EXPECT_LT(least, image.value.size());
  }
  EXPECT_EQ(indices_of_byte(1), 1);
  EXPECT_EQ(indices_of_byte(2), 8);
  EXPECT_EQ(indices_of_byte(4), 4);
  EXPECT_EQ(indices_of_byte(5), 3);
  EXPECT_EQ(indices_of_byte(16), 2);
  EXPECT_EQ(indices_of_byte(17), 1);
}

TEST(MapShades, InSquaresAreThoseOfAPixel) {
  const Image image = random_image(false);
  const Shading shading(image, request_of(Quantity::attention, {.logarithmic = true}));
  const Image exact = image_of(shading.image());
  for (const int side : {2, 3, 7}) {
    const ShadedImage few = shading.image(1, side);
    EXPECT_EQ(few.index.size(), index_of((150 + side - 1) / side * ((200 + side - 1) / side)));
    for (const ShadedImage& form : {few, with_differences(few), packed(few)}) {
      const Image again = image_of(form);
      ASSERT_EQ(again.value.size(), image.value.size());
      const auto same = [](float a, float b) { return a == b || (std::isnan(a) && std::isnan(b)); };
      for (std::int64_t row = 0; row < image.rows; ++row) {
        for (std::int64_t column = 0; column < image.columns; ++column) {
          const float value = again.value[index_of(row * image.columns + column)];
          bool found = false;
          for (std::int64_t r = row / side * side; r < std::min(image.rows, row / side * side + side); ++r) {
            for (std::int64_t c = column / side * side; c < std::min(image.columns, column / side * side + side); ++c) {
              found = found || same(value, exact.value[index_of(r * image.columns + c)]);
            }
          }
          ASSERT_TRUE(found) << row << " " << column;
          const std::size_t corner = index_of(row / side * side * image.columns + column / side * side);
          ASSERT_TRUE(same(value, again.value[corner]));
        }
      }
      EXPECT_EQ(Extremes(again).lowest, Extremes(image).lowest);
      EXPECT_EQ(Extremes(again).highest, Extremes(image).highest);
    }
  }
}

TEST(MapShades, AreAsManyAsTheirCodeSays) {
  Image image{1, 1024, {}};
  for (int n = 0; n < 1024; ++n) image.value.push_back(static_cast<float>(n % 4) / 4 + 0.1F);
  const Shading shading(image, request_of(Quantity::attention, {.lower = 0, .upper = 1}));
  EXPECT_NEAR(shading.bits(1), 2, 1e-9);
  EXPECT_NEAR(shading.bits(kColourSteps), 2 - 0.5, 1e-9);  // the extremes stay, and the two between become one
}

TEST(MapShades, ThatContradictThemselvesAreRefused) {
  EXPECT_THROW(image_of({1, 1, {1.0F}, {1}}), std::exception);
  EXPECT_THROW(image_of({2, 1, {1.0F}, {0}}), std::exception);
  EXPECT_THROW(image_of({1, 0, {1.0F}, {0}}), std::exception);
  EXPECT_THROW(image_of({-1, 1, {1.0F}, {0}}), std::exception);
  EXPECT_THROW(image_of({1, 1, {1.0F}, {0}, 240, false, false, 0}), std::exception);
  EXPECT_THROW(image_of({std::int64_t{1} << 62, 4, {1.0F}, {}, 240, false, true}), std::exception);
  EXPECT_THROW(image_of({1 << 14, 1 << 14, {1.0F}, {0}, 240, false, false, 1 << 14}), std::exception);
  EXPECT_THROW(image_of({2, 2, {1.0F}, {0, 0, 0, 0}, 240, false, false, 2}), std::exception);
  EXPECT_THROW(image_of({2, 2, {}, {0}, 240, false, true, 2}), std::exception);
}

}  // namespace
}  // namespace foxscope::test
