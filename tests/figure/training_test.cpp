#include "app/figure/kinds/training.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include <gtest/gtest.h>

#include "app/figure/curves/curve_palette.h"
#include "backend/base/error.h"
#include "backend/base/index.h"
#include "tests/error_of.h"
#include "tests/figure/rendering.h"

// Figures of trainings: curves from the numbers, pages from the curves.

namespace foxscope::test {
namespace {

using figure::FigureStyle;
using figure::LineStyle;
using Kind = figure::FigureFormat::Kind;

constexpr double kInfinite = std::numeric_limits<double>::infinity();

/// Steps of 1000 tokens with the loss 9 - step / 10; measures at every fifth.
figure::TrainingSource training(const std::string& name, int steps, int layers, int heads) {
  figure::TrainingSource source;
  source.name = name;
  for (int n = 1; n <= steps; ++n) {
    TrainingStep step;
    step.step = n;
    step.tokens = 1000 * n;
    step.loss = 9 - n / 10.0;
    source.record.steps.push_back(step);
    if (n % 5 != 0) continue;
    TrainingMeasures line;
    line.step = n;
    line.tokens = 1000 * n;
    line.loss = 9.5 - n / 10.0;
    line.loss_error = 0.25;
    line.layers = layers;
    line.heads = heads;
    for (int head = 0; head < layers * heads; ++head) line.decay_times.push_back((head + 1) * n);
    source.record.measures.push_back(std::move(line));
  }
  return source;
}

TEST(TrainingFigure, LossesAreThoseOfTheStepsOverTokens) {
  const std::vector<figure::TrainingSource> sources = {training("fox", 20, 2, 2)};
  const auto plot = figure::trainingLossPlot(sources, {3, {}});
  EXPECT_EQ(plot.xLabel, "tokens seen (thousands)");
  EXPECT_EQ(plot.note, "lines: mean of 3 steps");
  const auto& line = plot.curves.at(0);
  ASSERT_EQ(line.x.size(), 20U);
  for (std::size_t n = 0; n < 20; ++n) {
    EXPECT_EQ(line.x[n], static_cast<double>(n + 1));
    EXPECT_EQ(line.rawY[n], sources[0].record.steps[n].loss);
  }
  EXPECT_NEAR(line.y[0], (8.9 + 8.8) / 2, 1e-9);
  EXPECT_NEAR(line.y[7], 8.2, 1e-9);
  const auto& points = plot.curves.at(2);
  EXPECT_EQ(plot.curves.at(1).name, "held-out, ± 1 standard error");
  EXPECT_EQ(points.line, LineStyle::points);
  EXPECT_EQ(points.x, (std::vector<double>{5, 10, 15, 20}));
  EXPECT_NEAR(points.y[3], 7.5, 1e-9);
  EXPECT_NEAR(points.bandUpper[3] - points.bandLower[3], 0.5, 1e-9);
}

TEST(TrainingFigure, SmoothingFollowsTheNumberOfSteps) {
  const auto width = [](int steps) { return figure::smoothingSteps(std::vector{training("a", steps, 1, 1)}, {}); };
  EXPECT_EQ(width(40), 1);
  EXPECT_EQ(width(150), 3);
  EXPECT_EQ(width(1000), 21);
  EXPECT_EQ(error_of([] { (void)smoothed_losses({}, 4); }),
            "--smooth 4: use an odd number of steps, as 9 or 101; 1 is none");
  const auto plot = figure::trainingLossPlot(std::vector{training("a", 10, 1, 1)}, {});
  EXPECT_TRUE(plot.curves[0].rawY.empty());
  EXPECT_TRUE(plot.note.empty());
}

TEST(TrainingFigure, TokensAreCountedInUnitsThatFit) {
  const auto unit = [](std::int64_t tokens) {
    auto source = training("a", 1, 1, 1);
    source.record.steps[0].tokens = tokens;
    return std::string(figure::tokenUnit(std::vector{source}).name);
  };
  EXPECT_EQ(unit(1500), "");
  EXPECT_EQ(unit(2000), "thousands");
  EXPECT_EQ(unit(8'192'000), "millions");
  EXPECT_EQ(unit(2'700'000'000), "billions");
}

TEST(TrainingFigure, LimitsAndTicksAreTokens) {
  figure::TrainingOptions options;
  options.curves.xLimits = figure::AxisLimits{0, 10000};
  options.curves.xTicks = {5000};
  const auto plot = figure::trainingLossPlot(std::vector{training("a", 20, 1, 1)}, options);
  EXPECT_EQ(plot.xLimits->upper, 10);
  EXPECT_EQ(plot.xTicks, std::vector<double>{5});
}

TEST(TrainingFigure, DecayTimesHaveTheColourOfTheirLayerAndGapsWhereNothingIsForgotten) {
  auto source = training("a", 20, 3, 2);
  source.record.measures[1].decay_times[3] = kInfinite;
  const auto plot = figure::trainingDecayPlot(source, {1000, "thousands"});
  ASSERT_EQ(plot.curves.size(), 6U);
  EXPECT_EQ(plot.yScale, figure::AxisScale::logarithmic);
  for (int layer = 0; layer < 3; ++layer) {
    for (int head = 0; head < 2; ++head) {
      const auto& curve = plot.curves[index_of(2 * layer + head)];
      EXPECT_EQ(curve.ownColour, figure::layerColour(layer, 3));
      EXPECT_EQ(curve.name, head == 0 ? "layer " + std::to_string(layer) : "");
      EXPECT_EQ(curve.y[2], (2 * layer + head + 1) * 15);
    }
  }
  EXPECT_TRUE(std::isnan(plot.curves[3].y[1]));
  // In grey print a later layer is lighter.
  double before = -1;
  for (int layer = 0; layer < 12; ++layer) {
    const figure::Rgb colour = figure::layerColour(layer, 12);
    const double luminance = 0.2126 * colour.red + 0.7152 * colour.green + 0.0722 * colour.blue;
    EXPECT_GT(luminance, before);
    EXPECT_LT(luminance, 215);
    before = luminance;
  }
  const auto notes = figure::drawTraining(std::vector{source}, {}, style_of(Kind::pdf)).notes;
  ASSERT_EQ(notes.size(), 2U);  // and what the error bars are over
  EXPECT_EQ(std::ranges::count(notes, "a: heads that forget nothing at a save have a gap there: 1:1"), 1);
}

TEST(TrainingFigure, NotesSayWhatTheBarsAreOver) {
  auto source = training("fox", 20, 1, 1);
  const auto last_note = [&] {
    return figure::drawTraining(std::vector{source}, {}, style_of(Kind::pdf)).notes.back();
  };
  EXPECT_EQ(last_note(), "fox: held-out losses: bars as the log has them, which does not say what they are over");
  for (TrainingMeasures& line : source.record.measures) {
    line.error_over = group_sizes(ErrorGroups::Kind::documents, std::vector<double>(12, 64));
  }
  auto without = source;
  for (TrainingMeasures& line : without.record.measures) {
    line.loss_error.reset();
    line.error_over = {};
  }
  EXPECT_EQ(figure::drawTraining(std::vector{without}, {}, style_of(Kind::pdf)).notes.back(),
            "fox: held-out losses: no bars: the log has no errors of them");
  for (TrainingMeasures& line : without.record.measures) {
    line.error_over = group_sizes(ErrorGroups::Kind::documents, std::vector<double>(2, 64));
  }
  EXPECT_EQ(figure::drawTraining(std::vector{without}, {}, style_of(Kind::pdf)).notes.back(),
            "fox: held-out losses: no errors: the windows lie in 2 documents, and an error takes 4 of about one size "
            "(effectively 3.5): use more documents");
  EXPECT_EQ(
      last_note(),
      "fox: held-out losses: ± 1 standard error over 12 documents; a 95 % interval is ± 2.20 errors (Student's t)");
}

TEST(TrainingFigure, ManyLayersHaveFewNames) {
  const auto plot = figure::trainingDecayPlot(training("a", 5, 24, 1), {});
  EXPECT_EQ(std::ranges::count_if(plot.curves, [](const auto& curve) { return !curve.name.empty(); }), 6);
  EXPECT_EQ(plot.curves[0].line, LineStyle::points);  // measured once
}

TEST(TrainingFigure, TrainingsWithoutGatesHaveLossesAlone) {
  auto plain = training("base", 20, 1, 1);
  for (TrainingMeasures& line : plain.record.measures) {
    line.decay_times.clear();
    line.loss_error.reset();
  }
  const auto alone = figure::drawTraining(std::vector{plain}, {}, style_of(Kind::pdf));
  EXPECT_EQ(alone.notes.at(0), "base: no decay times were measured (no gates, or no save yet): its heads are left out");
  EXPECT_EQ(text_of(alone.file).find("decay time"), std::string::npos);
  EXPECT_NE(text_of(alone.file).find("held-out"), std::string::npos);
  const auto both = figure::drawTraining(std::vector{training("fox", 20, 2, 2), plain}, {}, style_of(Kind::pdf));
  const std::string text = text_of(both.file);
  EXPECT_NE(text.find("Decay times of heads, fox"), std::string::npos) << text;
  EXPECT_EQ(text.find("heads, base"), std::string::npos) << text;
}

TEST(TrainingFigure, LooksAndLabelsAreThoseOfTheirTraining) {
  FigureStyle style = style_of(Kind::pdf);
  style.labels = {{"b", "FoX (Pro)"}};
  figure::TrainingOptions options;
  options.curves.order = {"b"};
  options.curves.colours = {{"b", {1, 2, 3}}};
  const std::vector<figure::TrainingSource> sources = {training("a", 20, 1, 1), training("b", 20, 1, 1)};
  const auto plot = figure::trainingLossPlot(sources, options, style);
  EXPECT_EQ(plot.curves[0].name, "FoX (Pro)");
  EXPECT_EQ(plot.curves[1].name, "a");
  EXPECT_EQ(plot.curves[4].ownColour, (figure::Rgb{1, 2, 3}));
  EXPECT_NE(plot.curves[3].shape, plot.curves[4].shape);
  options.curves.order = {"c"};
  EXPECT_THROW((void)figure::trainingLossPlot(sources, options, style), UsageError);
  EXPECT_THROW((void)figure::drawTraining({}, {}, style), UsageError);
}

TEST(TrainingFigure, HeldOutPointsHaveBars) {
  FigureStyle style = style_of(Kind::png);
  auto source = training("a", 20, 1, 1);
  source.record.measures.resize(2);
  for (TrainingMeasures& line : source.record.measures) line.decay_times.clear();
  const QImage with = rendered(figure::drawTraining(std::vector{source}, {}, style).file, Kind::png, 300);
  for (TrainingMeasures& line : source.record.measures) line.loss_error = 0;
  const QImage without = rendered(figure::drawTraining(std::vector{source}, {}, style).file, Kind::png, 300);
  const auto inked = [](const QImage& page) {
    int count = 0;
    for (int y = 0; y < page.height(); ++y) {
      for (int x = 0; x < page.width(); ++x) count += qBlue(page.pixel(x, y)) > qRed(page.pixel(x, y)) + 40 ? 1 : 0;
    }
    return count;
  };
  EXPECT_GT(inked(with), inked(without) + 100);
}

}  // namespace
}  // namespace foxscope::test
