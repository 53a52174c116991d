#include <cmath>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "app/figure/colour_scale.h"
#include "app/figure/curves/curve_palette.h"
#include "app/figure/kinds/ablation.h"
#include "app/figure/kinds/distance.h"
#include "app/figure/kinds/labels.h"
#include "app/figure/kinds/needle.h"
#include "app/figure/kinds/perplexity.h"
#include "app/figure/kinds/sweep.h"
#include "backend/base/error.h"
#include "tests/error_of.h"
#include "tests/figure/rendering.h"

// Kinds of figures that are drawn from evaluations: their pixels and words follow from the numbers.

namespace foxscope::test {
namespace {

using Kind = figure::FigureFormat::Kind;

figure::LossSource losses(const std::string& name, double level, int windows, std::int64_t length) {
  figure::LossSource source;
  source.name = name;
  EvaluatedWindows where;
  where.length = length;
  for (int window = 0; window < windows; ++window) {
    where.document.push_back(window);
    where.tokens.push_back(length);
    for (std::int64_t p = 0; p < length; ++p) {
      source.model.losses.loss.push_back(
          static_cast<float>(level + 0.1 * window + 0.05 * std::sin(static_cast<double>(p * (window + 1)))));
    }
  }
  source.model.info.name = name;
  source.model.losses.windows = windows;
  source.model.losses.length = length;
  source.model.losses.tokens = where.tokens;
  source.model.windows = std::make_shared<EvaluatedWindows>(where);
  return source;
}

TEST(Losses, CurvesAndBandsAreMeansAndErrorsOfWindows) {
  const std::vector<figure::LossSource> sources = {losses("a", 3, 4, 2000)};
  const auto plot = figure::lossPlot(sources, {}, 1);
  ASSERT_EQ(plot.curves.size(), 1U);
  EXPECT_EQ(plot.curves[0].x.front(), 128);
  EXPECT_EQ(plot.curves[0].x.back(), 1999);
  for (std::size_t index = 0; index < plot.curves[0].x.size(); index += 97) {
    const auto p = static_cast<std::size_t>(plot.curves[0].x[index]);
    double mean = 0;
    for (std::size_t window = 0; window < 4; ++window) mean += sources[0].model.losses.loss[window * 2000 + p] / 4.0;
    double squares = 0;
    for (std::size_t window = 0; window < 4; ++window) {
      squares += std::pow(sources[0].model.losses.loss[window * 2000 + p] - mean, 2);
    }
    const double error = std::sqrt(squares / 3) / 2;
    EXPECT_NEAR(plot.curves[0].y[index], mean, 1e-6);
    EXPECT_NEAR(plot.curves[0].bandUpper[index] - plot.curves[0].bandLower[index], 2 * error, 1e-6);
  }
}

TEST(Losses, ModelsHaveTheLooksThatTheyWereGiven) {
  const std::vector<figure::LossSource> sources = {losses("a", 3, 4, 60), losses("b", 3, 4, 60)};
  figure::FigureStyle style;
  style.looks = {{"b", {0, 2}}};
  const auto plot = figure::lossPlot(sources, {}, 1, style);
  EXPECT_EQ(plot.curves[0].colour, 0);
  EXPECT_EQ(plot.curves[1].colour, 0);
  EXPECT_EQ(plot.curves[1].line, figure::curveLine(0, 2));
  EXPECT_EQ(figure::lossPlot(sources, {}, 1).curves[1].colour, 1);
}

TEST(Losses, ShortOnesBeginAtTheFirstPositionAndAreSmoothedLess) {
  const std::vector<figure::LossSource> small = {losses("a", 3, 10, 60)};
  EXPECT_EQ(figure::lossPlot(small, {}, 1).curves[0].x.front(), 0);
  EXPECT_EQ(figure::smoothingWidth(small, {}), 15);
  const std::vector<figure::LossSource> tiny = {losses("a", 3, 10, 1)};
  EXPECT_EQ(figure::smoothingWidth(tiny, {}), 1);
  EXPECT_GT(figure::drawLoss(tiny, {}, style_of(Kind::pdf)).file.size(), 1000U);
  const std::vector<figure::LossSource> usual = {losses("a", 3, 10, 5000)};
  EXPECT_EQ(figure::smoothingWidth(usual, {}), 101);
  const std::vector<figure::LossSource> single = {losses("a", 3, 1, 5000)};
  EXPECT_EQ(figure::smoothingWidth(single, {}), 1001);
  EXPECT_EQ(figure::smoothingWidth(single, 7), 7);
  EXPECT_THROW((void)figure::smoothingWidth(single, 8), UsageError);
}

TEST(Losses, DifferencesAreFromTheBase) {
  const std::vector<figure::LossSource> sources = {losses("whole", 3, 4, 2000), losses("cut", 3.25, 4, 2000)};
  const auto drawn = figure::drawAblation(sources, "whole", {}, style_of(Kind::pdf));
  const std::string text = text_of(drawn.file);
  // As in the window: the first less the other.
  EXPECT_NE(text.find("whole − cut"), std::string::npos) << text;
  EXPECT_NE(text.find("−0.25"), std::string::npos) << text;
  EXPECT_THROW((void)figure::drawAblation(sources, "other", {}, style_of(Kind::pdf)), UsageError);
}

// Documents are one with 6 windows and one with 1: no band, which the figure and the line say.
TEST(Losses, TwoUnequalDocumentsHaveNoBand) {
  std::vector<figure::LossSource> sources = {losses("a", 3, 7, 60)};
  auto windows = std::make_shared<EvaluatedWindows>(*sources[0].model.windows);
  windows->document = {0, 0, 0, 0, 0, 0, 1};
  sources[0].model.windows = windows;
  const auto plot = figure::lossPlot(sources, {}, 1);
  EXPECT_TRUE(plot.curves[0].bandUpper.empty());
  EXPECT_EQ(plot.note, "no band: 2 documents, effectively 1.3");
  const auto drawn = figure::drawLoss(sources, {}, style_of(Kind::pdf));
  // The font draws ff as one sign.
  const std::string words = text_of(drawn.file);
  EXPECT_NE(words.find("no band: 2 documents, e\xef\xac\x80"
                       "ectively 1.3"),
            std::string::npos)
      << words;
  ASSERT_EQ(drawn.notes.size(), 2U);
  EXPECT_EQ(drawn.notes[1],
            "no errors: the windows lie in 2 documents, effectively 1.3, and an error takes 4 of about one size "
            "(effectively 3.5): use more documents");
}

TEST(Losses, BandsSayWhatTheyAreOverAndWhichPositionIsTheFirst) {
  const std::vector<figure::LossSource> sources = {losses("a", 3, 4, 2000), losses("b", 3, 4, 2000)};
  EXPECT_EQ(figure::lossPlot(sources, {}, 1).note, "band: ± 1 standard error\nover 4 documents\nfrom position 128");
  const auto drawn = figure::drawLoss(sources, {}, style_of(Kind::pdf));
  const std::string text = text_of(drawn.file);
  for (const char* words : {"over 4 documents", "from position 128"})
    EXPECT_NE(text.find(words), std::string::npos) << text;
  const auto says = [&](const std::string& words) {
    return std::ranges::any_of(drawn.notes,
                               [&](const std::string& note) { return note.find(words) != std::string::npos; });
  };
  EXPECT_TRUE(says("the first 128 positions are left out, as in the paper: --x-limits 0:2000 shows them"));
  EXPECT_TRUE(says("over 4 documents; a 95 % interval is ± 3.18 errors"));
  const auto ablation = figure::drawAblation(sources, "a", {}, style_of(Kind::pdf));
  EXPECT_NE(text_of(ablation.file).find("from position 128"), std::string::npos);
  EXPECT_NE(text_of(figure::drawPerplexity(sources, {}, style_of(Kind::pdf)).file).find("from length 128"),
            std::string::npos);
  // Limits that are asked for are drawn.
  figure::LossOptions options;
  options.curves.xLimits = figure::AxisLimits{40, 2000};
  const auto early = figure::lossPlot(sources, options, 1);
  EXPECT_EQ(early.curves[0].x.front(), 40);
  EXPECT_EQ(early.note, "band: ± 1 standard error\nover 4 documents\nfrom position 40");
  options.curves.xLimits = figure::AxisLimits{0, 2000};
  EXPECT_EQ(figure::lossPlot(sources, options, 1).note, "band: ± 1 standard error\nover 4 documents");
  options.curves.xLimits = figure::AxisLimits{500, 2000};
  EXPECT_EQ(figure::lossPlot(sources, options, 1).curves[0].x.front(), 128);
}

TEST(Losses, AMeanOverNearlyAllPositionsIsRefused) {
  const std::vector<figure::LossSource> sources = {losses("a", 3, 4, 2048)};
  EXPECT_EQ(figure::smoothingWidth(sources, 1023), 1023);
  EXPECT_EQ(error_of([&] { (void)figure::smoothingWidth(sources, 1025); }),
            "--smooth 1025: the losses have 2048 positions: use an odd number up to 1023");
  EXPECT_EQ(error_of([&] { (void)figure::smoothingWidth(sources, 100001); }),
            "--smooth 100001: the losses have 2048 positions: use an odd number up to 1023");
  EXPECT_EQ(figure::smoothingWidth(std::vector{losses("a", 3, 4, 1)}, 1), 1);
}

TEST(Losses, OfDifferentTextsTheySaySo) {
  std::vector<figure::LossSource> sources = {losses("a", 3, 4, 60), losses("b", 3, 4, 60)};
  EXPECT_EQ(figure::differentTexts(sources), "");
  const auto read = [](figure::LossSource& source, const char* corpus, std::int32_t token) {
    auto windows = std::make_shared<EvaluatedWindows>(*source.model.windows);
    windows->token_id.assign(240, token);
    source.model.windows = windows;
    source.corpus.source = corpus;
  };
  read(sources[0], "books.jsonl", 1);
  read(sources[1], "books.jsonl", 1);
  EXPECT_EQ(figure::differentTexts(sources), "");
  read(sources[1], "code.jsonl", 2);
  EXPECT_EQ(figure::differentTexts(sources),
            "these losses are of different tokens and do not compare: a (4 windows of books.jsonl); b (4 windows of "
            "code.jsonl)");
  EXPECT_NE(
      error_of([&] { (void)figure::drawLoss(sources, {}, style_of(Kind::pdf)); }).find("did not predict the same"),
      std::string::npos);
  // Imported files do not tell their tokens.
  auto unknown = std::make_shared<EvaluatedWindows>(*sources[1].model.windows);
  unknown->token_id.clear();
  sources[1].model.windows = unknown;
  const auto drawn = figure::drawLoss(sources, {}, style_of(Kind::pdf));
  EXPECT_TRUE(std::ranges::any_of(drawn.notes, [](const std::string& note) {
    return note == "a (books.jsonl) and b (code.jsonl): it is not known whether they are of the same windows";
  }));
}

/// Mass that is the same in every octave of 1 + distance.
/// How many pixels of a figure of labels are those of cells without one.
int unlabelled_pixels(const LayerMixer& second_layer) {
  EvaluatedHeads model;
  model.info.name = "m";
  model.info.length = 8;
  model.info.set_mixers({attention_layer(2, 2, 8), second_layer});
  for (int label = 0; label < kHeadLabels; ++label) {
    model.numbers.push_back(
        {std::string("label_") + text_of(static_cast<HeadLabel>(label)).key, "1", std::vector<double>(4, 0.0), {}});
  }
  const QImage page =
      rendered(figure::drawLabels({&model, 1}, style_of(Kind::png)).file, Kind::png, figure::FigureFormat{}.dpi);
  int count = 0;
  for (int y = 0; y < page.height(); ++y) {
    for (int x = 0; x < page.width(); ++x) count += page.pixelColor(x, y) == QColor(236, 236, 236) ? 1 : 0;
  }
  return count;
}

TEST(Labels, LayersWithoutHeadsHaveNoCells) {
  const int all = unlabelled_pixels(attention_layer(2, 2, 8));
  ASSERT_GT(all, 100);
  EXPECT_NEAR(unlabelled_pixels({.mixer = Mixer::none, .decay = Decay::none}), 0.5 * all, 0.05 * all);
}

EvaluatedHeads level_head(std::int64_t length) {
  EvaluatedHeads model;
  model.info.name = "level";
  model.info.layers = model.info.heads = 1;
  model.info.length = length;
  model.distances = distance_bins(length);
  std::vector<double> mass;
  for (const DistanceBin& bin : model.distances) mass.push_back(0.1 * octaves(bin));
  const std::vector<double> none(mass.size(), std::nan(""));
  model.numbers = {{"d50", "tokens", {3}, {std::nan("")}}};
  model.by_distance = {{"mass_without_first", "1", mass, none},
                       {"logit_content", "nats", std::vector<double>(mass.size(), 1.0), none}};
  return model;
}

TEST(Distance, MassIsDrawnByTheOctave) {
  // The last bin holds one distance of 64.
  const EvaluatedHeads model = level_head(65);
  const QImage page = rendered(figure::drawDistance(model, {}, style_of(Kind::png)).file, Kind::png, 300);
  const figure::Rgb colour = figure::curveColour(0);
  int top = page.height();
  int bottom = 0;
  for (int y = 0; y < page.height(); ++y) {
    for (int x = 0; x < page.width(); ++x) {
      if (page.pixel(x, y) != qRgb(colour.red, colour.green, colour.blue)) continue;
      top = std::min(top, y);
      bottom = std::max(bottom, y);
    }
  }
  ASSERT_GT(bottom, 0);
  EXPECT_LT(bottom - top, page.height() / 40) << "a level line is drawn level";
}

TEST(Distance, SaysThatKeyZeroIsLeftOut) {
  EvaluatedHeads model = level_head(65);
  model.by_distance.push_back(model.by_distance[0]);
  model.by_distance.back().name = "mass";
  const auto told = [&](FirstKey first) {
    const auto drawn = figure::drawDistance(model, {{}, first}, style_of(Kind::pdf));
    const bool note = std::ranges::count(drawn.notes, "attention on key 0 is left out: --with-first counts it") == 1;
    return std::pair(note, text_of(drawn.file).find("key 0 left out") != std::string::npos);
  };
  EXPECT_EQ(told(FirstKey::left_out), std::pair(true, true));
  EXPECT_EQ(told(FirstKey::counted), std::pair(false, false));
}

TEST(Distance, OfNothingButZeroAndOfOneTokenThereAreAxes) {
  EvaluatedHeads flat = level_head(65);
  for (HeadArray& array : flat.by_distance) array.value.assign(array.value.size(), 0);
  EXPECT_NE(text_of(figure::drawDistance(flat, {}, style_of(Kind::pdf)).file).find("mean logit"), std::string::npos);
  const auto one = figure::drawDistance(level_head(1), {}, style_of(Kind::pdf));
  EXPECT_NE(text_of(one.file).find("attention per octave"), std::string::npos);
}

/// A head or several of one layer whose losses change by noise, and by so much more each.
SweepEvaluation sweep_of(std::int64_t tokens, const std::vector<double>& changes) {
  SweepEvaluation sweep;
  sweep.info.name = "fox";
  sweep.info.layers = 1;
  sweep.info.heads = static_cast<int>(changes.size());
  sweep.info.length = tokens;
  sweep.change = Intervention::parse_change("cut");
  sweep.source = "text.txt";
  sweep.unchanged_loss.assign(static_cast<std::size_t>(tokens), 3);
  for (std::size_t head = 0; head < changes.size(); ++head) {
    std::vector<float> losses;
    for (std::int64_t p = 0; p < tokens; ++p) {
      const double noise = std::sin(static_cast<double>((p + 1) * (p + 3)) * (1 + static_cast<double>(head)));
      losses.push_back(static_cast<float>(3 + changes[head] + noise));
    }
    sweep.changed_loss.push_back(losses);
  }
  return sweep;
}

TEST(Sweep, SaysHowManyHeadsAreBeyondChance) {
  const SweepEvaluation sweep = sweep_of(1024, {0.5, 0, 0, -0.4});
  std::vector<Estimate> means;
  for (const HeadChange& head : sweep.changes(0)) means.push_back(head.change.mean);
  const auto drawn = figure::drawSweep({&sweep, 1}, style_of(Kind::pdf));
  ASSERT_EQ(drawn.notes.size(), 2U);
  EXPECT_EQ(drawn.notes[0], "fox: " + errors_text(error_blocks(1024)));
  EXPECT_EQ(drawn.notes[1], "fox: " + beyond_chance_text(means));
  std::string text = text_of(drawn.file);
  EXPECT_NE(text.find("beyond two errors by chance: about 1 head in 20"), std::string::npos) << text;
  EXPECT_EQ(text.find("•"), std::string::npos) << text;
  text = text_of(figure::drawSweep({&sweep, 1}, style_of(Kind::pdf), 0.1).file);
  EXPECT_NE(text.find("not found at a false discovery rate of 10 %"), std::string::npos) << text;
  // The two that do not change, and the legend's.
  const auto dots = [](const std::string& words) {
    std::size_t count = 0;
    for (std::size_t at = 0; (at = words.find("•", at)) != std::string::npos; ++at) ++count;
    return count;
  };
  EXPECT_EQ(dots(text), 3U) << text;
  EXPECT_THROW((void)figure::drawSweep({&sweep, 1}, style_of(Kind::pdf), 1.0), UsageError);
}

TEST(Sweep, OfAShortTextItSaysThatThereAreNoErrors) {
  const SweepEvaluation sweep = sweep_of(100, {0.5, 0});
  const auto drawn = figure::drawSweep({&sweep, 1}, style_of(Kind::pdf));
  ASSERT_EQ(drawn.notes.size(), 2U);  // and where the colours end
  EXPECT_EQ(drawn.notes[0], "fox: no errors: the text gives 3 blocks of 33 tokens, and an error takes 8");
  const std::string text = text_of(drawn.file);
  EXPECT_EQ(text.find("±"), std::string::npos) << text;
  EXPECT_EQ(text.find("•"), std::string::npos) << text;
}

NeedleEvaluation needle_test() {
  NeedleEvaluation evaluation;
  evaluation.haystack = "essays.txt";
  evaluation.lengths = {1000, 2000, 3000};
  evaluation.depths = {0, 0.5};
  NeedleModel model;
  model.info.name = "fox";
  model.info.layers = 1;
  model.info.heads = 2;
  model.baseline_log_probability = {-4, -4, -4};
  // The needle at the start of the longest context is lost; at the middle of the shortest it is found.
  model.answer_log_probability = {-1, 0, -2, -2, -4, -3};
  model.found = {0, 1, 0, 0, 0, 0};
  for (int cell = 0; cell < 6; ++cell) {
    model.needle_mass.insert(model.needle_mass.end(), {0.1F, 0.2F + 0.1F * static_cast<float>(cell)});
    model.needle_gate.insert(model.needle_gate.end(), {0.5F, 1.0F});
  }
  evaluation.models = {model};
  return evaluation;
}

TEST(Needle, LengthGoesAcrossAndDepthDown) {
  const QImage page = rendered(figure::drawNeedle(needle_test(), {}, style_of(Kind::png)).file, Kind::png, 300);
  const QRect raster = raster_of(page);
  const auto at = [&](int length, int depth) {
    return page.pixel(raster.left() + (6 * length + 1) * raster.width() / 18,
                      raster.top() + (6 * depth + 1) * raster.height() / 12);
  };
  const auto colour = [](double gain) {
    const figure::Rgb expected = figure::colourAt(figure::viridis(), gain / 4);
    return qRgb(expected.red, expected.green, expected.blue);
  };
  EXPECT_EQ(at(0, 0), colour(3));
  EXPECT_EQ(at(0, 1), colour(4));
  EXPECT_EQ(at(2, 0), colour(0));
  EXPECT_EQ(at(2, 1), colour(1));
}

TEST(Needle, WordsHeadsAndDots) {
  const std::string text = text_of(figure::drawNeedle(needle_test(), {}, style_of(Kind::pdf)).file);
  for (const char* word : {"fox", "1000", "3000", "50", "depth (%)", "context length (tokens)", "answer found"}) {
    EXPECT_NE(text.find(word), std::string::npos) << word << " in " << text;
  }
  figure::NeedleOptions options{figure::NeedleTint::mass, {}};
  const auto mass = figure::drawNeedle(needle_test(), options, style_of(Kind::pdf));
  ASSERT_EQ(mass.notes.size(), 1U);
  EXPECT_NE(mass.notes[0].find("fox: 0:1 has the most attention"), std::string::npos) << mass.notes[0];
  options.head = figure::HeadIndex{0, 2};
  EXPECT_THROW((void)figure::drawNeedle(needle_test(), options, style_of(Kind::pdf)), UsageError);
  NeedleEvaluation lost = needle_test();
  lost.models[0].found.assign(6, 0);
  EXPECT_EQ(text_of(figure::drawNeedle(lost, {}, style_of(Kind::pdf)).file).find("answer found"), std::string::npos);
}

}  // namespace
}  // namespace foxscope::test
