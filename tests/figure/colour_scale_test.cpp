#include "app/figure/colour_scale.h"

#include <cmath>
#include <functional>
#include <limits>
#include <string>

#include <gtest/gtest.h>

#include "tests/error_of.h"
#include "tests/figure/random_run.h"

namespace foxscope::test {
namespace {

using figure::ColourScale;
using figure::MapFigure;

constexpr float kNoValue = std::numeric_limits<float>::quiet_NaN();

MapFigure figure_of(Quantity quantity, std::vector<float> values) {
  static const auto run = random_run(16);
  MapFigure figure;
  figure.request.head = {run, 0, 0};
  figure.request.quantity = quantity;
  figure.image = {1, static_cast<std::int64_t>(values.size()), std::move(values)};
  figure.scale = figure::defaultScale(figure.request);
  return figure;
}

bool same(const figure::Rgb& a, const figure::Rgb& b) {
  return a.red == b.red && a.green == b.green && a.blue == b.blue;
}

std::string refused(MapFigure figure, std::optional<double> lower, std::optional<double> upper) {
  figure.colours.lower = lower;
  figure.colours.upper = upper;
  return error_of<UsageError>([&] { (void)figure::chooseColours(figure); });
}

TEST(ColourScale, FollowsTheQuantityWhereNothingIsChosen) {
  const auto forget = figure::chooseColours(figure_of(Quantity::forget, {0.2F, 0.5F, kNoValue}));
  EXPECT_EQ(forget.lower, 0);
  EXPECT_EQ(forget.upper, 1);
  EXPECT_EQ(forget.map, &figure::viridis());
  EXPECT_EQ(forget.note, "");
  const auto attention = figure::chooseColours(figure_of(Quantity::attention, {1e-9F, 0.3F}));
  EXPECT_EQ(attention.scale, ColourScale::logarithmic);
  EXPECT_NEAR(attention.upper / attention.lower, 1e4, 1e-6);
  EXPECT_EQ(attention.note.find("colours from "), 0U) << attention.note;
  const auto effect = figure::chooseColours(figure_of(Quantity::gate_effect, {-0.4F, 0.1F}));
  EXPECT_EQ(effect.map, &figure::diverging());
  EXPECT_EQ(effect.lower, -effect.upper);
  const auto absent = figure::chooseColours(figure_of(Quantity::attention, {kNoValue}));
  EXPECT_EQ(absent.note, "no key of this region is before its query");
  EXPECT_GT(absent.lower, 0);
}

TEST(ColourScale, WhatIsChosenCounts) {
  MapFigure figure = figure_of(Quantity::forget, {0.001F, 0.2F, 0.5F, kNoValue});
  figure.colours = {&figure::cividis(), 0.125, 0.375, 0.01};
  const auto colours = figure::chooseColours(figure);
  EXPECT_EQ(colours.map, &figure::cividis());
  EXPECT_TRUE(same(colours.colour(0.125), figure::cividis().front()));
  EXPECT_TRUE(same(colours.colour(0.375), figure::cividis().back()));
  EXPECT_TRUE(same(colours.colour(0.5), figure::cividis().back()));
  EXPECT_TRUE(same(colours.colour(0.25), figure::colourAt(figure::cividis(), 0.5)));
  EXPECT_TRUE(same(colours.colour(0.001), figure::kBlank));
  EXPECT_TRUE(same(colours.colour(kNoValue), figure::kAbsent));
  EXPECT_EQ(colours.note, "colours from 0.12 to 0.38, entries from 0.001 to 0.5; white: entries below 0.01");
}

TEST(ColourScale, SignedQuantitiesAreMirroredAndBlankBySize) {
  MapFigure figure = figure_of(Quantity::gate_effect, {-0.4F, 0.1F});
  figure.colours.upper = 0.2;
  figure.colours.blankBelow = 0.15;
  auto colours = figure::chooseColours(figure);
  EXPECT_EQ(colours.lower, -0.2);
  EXPECT_TRUE(same(colours.colour(-0.1), figure::kBlank));
  EXPECT_FALSE(same(colours.colour(-0.16), figure::kBlank));
  EXPECT_EQ(colours.note, "colours from −0.2 to 0.2, entries from −0.4 to 0.1; white: size below 0.15");
  figure.colours = {nullptr, -0.3, std::nullopt, std::nullopt};
  EXPECT_EQ(figure::chooseColours(figure).upper, 0.3);
}

TEST(ColourScale, ALogarithmicScaleKeepsItsDecadesUnderAChosenLimit) {
  MapFigure figure = figure_of(Quantity::attention, {1e-9F, 0.3F});
  figure.colours.upper = 0.01;
  const auto colours = figure::chooseColours(figure);
  EXPECT_NEAR(colours.lower, 1e-6, 1e-12);
  for (const double position : {0.0, 0.3, 1.0}) EXPECT_NEAR(colours.position(colours.value(position)), position, 1e-12);
}

TEST(ColourScale, LimitsThatAreNoneAreRefused) {
  const MapFigure forget = figure_of(Quantity::forget, {0.2F, 0.5F});
  EXPECT_EQ(refused(forget, 0.5, 0.5), "colour limits 0.5 to 0.5: the lower must be below the upper");
  EXPECT_EQ(refused(forget, 2, std::nullopt), "colour limits 2 to 1: the lower must be below the upper");
  EXPECT_EQ(refused(forget, std::nan(""), std::nullopt), "colour limits nan to 1: the lower must be below the upper");
  const MapFigure attention = figure_of(Quantity::attention, {0.2F, 0.5F});
  EXPECT_EQ(
      refused(attention, 0, 1),
      "colour limits 0 to 1: a logarithmic scale begins above 0: give a lower limit above 0, leave the lower one out, "
      "or choose the linear scale");
}

}  // namespace
}  // namespace foxscope::test
