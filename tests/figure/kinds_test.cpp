#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <set>
#include <span>
#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "app/figure/colour_scale.h"
#include "app/figure/curves/curve_palette.h"
#include "app/figure/figure_kind.h"
#include "app/figure/figure_length.h"
#include "app/figure/heads/head_choice.h"
#include "app/figure/kinds/compare.h"
#include "app/figure/kinds/grid.h"
#include "app/figure/kinds/maps.h"
#include "app/figure/kinds/passage.h"
#include "app/figure/kinds/saliency.h"
#include "app/figure/run_figure.h"
#include "backend/base/error.h"
#include "backend/base/index.h"
#include "tests/error_of.h"
#include "tests/figure/rendering.h"
#include "tests/map/dense.h"

// Kinds of figures that are drawn from runs: their pixels and words follow from the numbers.

namespace foxscope::test {
namespace {

using figure::FigureStyle;
using Kind = figure::FigureFormat::Kind;

std::shared_ptr<const Trace> run_of(std::int64_t length, int layers, int heads, unsigned seed = 1) {
  RunShape shape;
  shape.length = length;
  shape.layers = layers;
  shape.heads = heads;
  shape.key_heads = heads;
  shape.seed = seed;
  return make_run(shape);
}

// Colours of the page that a map of this head can have.
std::set<QRgb> colours_of_forget(const HeadOf& head) {
  const auto entries = DenseHead(head).entries(Quantity::forget);
  std::set<QRgb> colours;
  for (const double entry : entries) {
    if (std::isnan(entry)) continue;
    const figure::Rgb colour = figure::colourAt(figure::viridis(), static_cast<float>(entry));
    colours.insert(qRgb(colour.red, colour.green, colour.blue));
  }
  return colours;
}

TEST(Maps, PixelsAreTheEntriesInEveryKindOfFile) {
  const auto run = run_of(20, 1, 1);
  figure::MapsOptions options;
  options.heads = {{0, 0}};
  options.quantities = {Quantity::forget};
  const auto expected = colours_of_forget({run, 0, 0});
  for (const Kind kind : {Kind::png, Kind::svg, Kind::pdf}) {
    const auto drawn = figure::drawMaps(run, options, style_of(kind), {});
    const QImage page = rendered(drawn->file, kind, 300);
    const QRect raster = raster_of(page);
    ASSERT_EQ(raster.width() % 20, 0);
    const int cell = raster.width() / 20;
    const auto entries = DenseHead({run, 0, 0}).entries(Quantity::forget);
    for (int row = 0; row < 20; ++row) {
      for (int column = 0; column <= row; ++column) {
        const QRgb seen = page.pixel(raster.left() + column * cell + cell / 2, raster.top() + row * cell + cell / 2);
        const auto entry = static_cast<float>(entries[index_of(row * 20 + column)]);
        const figure::Rgb colour = figure::colourAt(figure::viridis(), entry);
        EXPECT_NEAR(qRed(seen), colour.red, 1);
        EXPECT_NEAR(qGreen(seen), colour.green, 1);
        EXPECT_NEAR(qBlue(seen), colour.blue, 1);
      }
    }
  }
}

TEST(Maps, HeadsOfSeveralRunsAreTheirOwn) {
  const auto run = run_of(20, 1, 1);
  const auto other = run_of(20, 2, 2, 2);
  figure::MapsOptions options;
  options.heads = {{{0, 0}, {}}, {{1, 1}, other}};
  options.quantities = {Quantity::forget};
  const std::string both = figure::drawMaps(run, options, style_of(Kind::png), {})->file;
  // The first is drawn as where its run is the figure's, the second as where it is not.
  options.heads = {{{0, 0}, run}, {{1, 1}, {}}};
  EXPECT_EQ(figure::drawMaps(other, options, style_of(Kind::png), {})->file, both);
  options.heads = {{{0, 0}, run}, {{0, 1}, other}};
  EXPECT_NE(figure::drawMaps(run, options, style_of(Kind::png), {})->file, both);
  options.heads = {{{0, 0}, run}, {{0, 0}, run_of(21, 1, 1)}};
  EXPECT_NE(error_of([&] { figure::drawMaps(run, options, style_of(Kind::png), {}); }).find("did not read the same"),
            std::string::npos);
}

TEST(Maps, HeadsOfOtherModelsAreNamed) {
  const auto run = run_of(20, 2, 3);
  figure::RunFigure figure{{"maps"}, {{run, "fox", "run.h5"}}};
  figure.set("heads", std::vector<std::string>{"0:0", run->info().name + ":1:2"});
  figure::EvaluatedRuns evaluated;
  const auto drawn = figure::drawRunFigure(figure, style_of(Kind::pdf), evaluated, {});
  const auto same = figure::drawMaps(run, {.heads = {{{0, 0}, {}}, {{1, 2}, run}}}, style_of(Kind::pdf), {});
  ASSERT_TRUE(drawn && same);
  EXPECT_EQ(drawn->file, same->file);
  figure.options = {{"heads", std::vector<std::string>{"other:0:0"}}};
  EXPECT_EQ(error_of([&] { (void)figure::drawRunFigure(figure, style_of(Kind::pdf), evaluated, {}); }),
            "--heads other:  has " + run->info().name);
}

TEST(Kinds, OptionsDifferAndAreFoundByTheirNames) {
  for (const figure::FigureKind& kind : figure::figureKinds()) {
    SCOPED_TRACE(kind.name);
    EXPECT_EQ(figure::findFigureKind(kind.name), &kind);
    std::set<std::string> names;
    for (const figure::FigureOption& option : kind.options) {
      EXPECT_TRUE(names.emplace(option.name()).second) << option.names;
      EXPECT_TRUE(kind.takes(option.name()));
      EXPECT_EQ(option.type == nullptr, option.takes == figure::FigureOption::Takes::flag) << option.names;
    }
    EXPECT_TRUE(names.contains("output") && names.contains("force"));
    EXPECT_FALSE(kind.takes("colors") || kind.takes("o"));
  }
  EXPECT_EQ(figure::findFigureKind("map"), nullptr);
}

TEST(Kinds, WidthsOfVenuesAreLengthsOfTheirOwn) {
  std::set<std::string> words;
  for (const figure::Venue& venue : figure::venues()) {
    EXPECT_TRUE(words.insert(venue.word).second);
    EXPECT_EQ(figure::parseLength("--width", venue.word), figure::parseLength("--width", venue.length));
  }
  // By the style files: (21 cm - 2 x 2.5 cm - 6 mm) / 2, and (7 in - 3/8 in) / 2.
  EXPECT_DOUBLE_EQ(figure::parseLength("--width", "acl"), (210 - 2 * 25 - 6) / 2.0);
  EXPECT_DOUBLE_EQ(figure::parseLength("--width", "aaai"), (7 - 0.375) / 2 * 25.4);
}

TEST(Maps, ManyHeadsTakeSeveralRows) {
  const auto run = run_of(50, 4, 4);
  figure::MapsOptions options;
  for (int layer = 0; layer < 4; ++layer) {
    for (int head = 0; head < 4; ++head) options.heads.push_back({layer, head});
  }
  const auto drawn = figure::drawMaps(run, options, style_of(Kind::pdf), {});
  const std::string text = text_of(drawn->file);
  EXPECT_NE(text.find("(p)"), std::string::npos) << text;
  EXPECT_TRUE(drawn->notes.empty());
}

TEST(Maps, OneTokenIsDrawn) {
  const auto run = run_of(1, 1, 1);
  const auto drawn = figure::drawMaps(run, {}, style_of(Kind::png), {});
  EXPECT_GT(drawn->file.size(), 1000U);
}

TEST(Maps, AThresholdLeavesSmallAttentionWhite) {
  const auto run = run_of(30, 1, 1);
  figure::MapsOptions options;
  options.heads = {{0, 0}};
  options.quantities = {Quantity::attention};
  options.threshold = 0.05;
  const QImage page = rendered(figure::drawMaps(run, options, style_of(Kind::png), {})->file, Kind::png, 300);
  const QRect raster = raster_of(page);
  const int cell = raster.width() / 30;
  const auto entries = DenseHead({run, 0, 0}).entries(Quantity::attention);
  int white = 0;
  for (int row = 0; row < 30; ++row) {
    for (int column = 0; column <= row; ++column) {
      const QRgb seen = page.pixel(raster.left() + column * cell + cell / 2, raster.top() + row * cell + cell / 2);
      const double entry = entries[index_of(row * 30 + column)];
      if (std::abs(entry - 0.05) < 1e-4) continue;
      EXPECT_EQ(seen == qRgb(255, 255, 255), entry < 0.05) << row << " " << column << " " << entry;
      white += entry < 0.05 ? 1 : 0;
    }
  }
  EXPECT_GT(white, 100);
  EXPECT_LT(white, 400);
}

TEST(Heads, ShortMiddleAndLongMemoryAreChosen) {
  RunShape shape;
  shape.length = 200;
  shape.layers = 1;
  shape.heads = 5;
  shape.key_heads = 5;
  const double times[] = {30, 2, 900, 4, 120};
  shape.log_gate = [&](int head, std::int64_t, double) { return -1 / times[head]; };
  const auto choice = figure::representativeHeads(make_run(shape), {});
  const std::vector<figure::HeadIndex> expected = {{0, 1}, {0, 0}, {0, 2}};
  EXPECT_EQ(choice->heads, expected) << choice->note;

  shape.gated = false;
  shape.heads = shape.key_heads = 2;
  EXPECT_EQ(figure::representativeHeads(make_run(shape), {})->heads.size(), 2U);
  shape.heads = shape.key_heads = 1;
  EXPECT_EQ(figure::representativeHeads(make_run(shape), {})->heads.size(), 1U);
}

TEST(Grid, EveryHeadHasItsCell) {
  const auto run = run_of(40, 3, 2);
  const QImage page = rendered(figure::drawGrid(run, {}, style_of(Kind::png), {})->file, Kind::png, 300);
  // The diagonal's first entry is 1, the map's last colour, at the upper left corner of every cell.
  const figure::Rgb last = figure::viridis().back();
  std::set<int> corners;
  int count = 0;
  const auto is_last = [&](int x, int y) { return page.pixel(x, y) == qRgb(last.red, last.green, last.blue); };
  for (int y = 1; y < page.height(); ++y) {
    for (int x = 1; x < page.width(); ++x) {
      if (!is_last(x, y) || page.pixel(x - 1, y) != qRgb(255, 255, 255) || page.pixel(x, y - 1) != qRgb(255, 255, 255))
        continue;
      corners.insert(x);
      ++count;
    }
  }
  EXPECT_EQ(count, 6);
  EXPECT_EQ(corners.size(), 2U) << "heads go across";
  EXPECT_NE(text_of(figure::drawGrid(run, {}, style_of(Kind::pdf), {})->file).find("layer"), std::string::npos);
}

TEST(Compare, TheDifferenceOfAHeadAndItselfIsWhite) {
  const auto run = run_of(24, 1, 2);
  figure::CompareOptions options;
  options.first = options.second = figure::HeadIndex{0, 1};
  options.quantities = {Quantity::attention};
  const QImage page = rendered(figure::drawCompare(run, run, options, style_of(Kind::png), {})->file, Kind::png, 300);
  const QRect first = raster_of(page);
  // The third map is as far behind the second as it is wide and more: its lower left corner is white, the first's not.
  int white = 0;
  for (int x = page.width() * 7 / 10; x < page.width() * 8 / 10; ++x) {
    white += page.pixel(x, first.bottom() - 3) == qRgb(255, 255, 255) ? 1 : 0;
  }
  EXPECT_GT(white, page.width() / 20);
  EXPECT_NE(page.pixel(first.left() + 4, first.bottom() - 4), qRgb(255, 255, 255));
}

TEST(Compare, AHeadIsNearestToItself) {
  const auto run = run_of(120, 2, 3);
  figure::CompareOptions options;
  options.first = figure::HeadIndex{1, 2};
  const auto drawn = figure::drawCompare(run, run, options, style_of(Kind::pdf), {});
  ASSERT_EQ(drawn->notes.size(), 1U);
  EXPECT_NE(drawn->notes[0].find("1:2 is nearest to it by distance profile, 0 octaves apart"), std::string::npos)
      << drawn->notes[0];
}

/// Two layers of two heads; the last one's gates matter most, and the loss falls at every tenth of them.
/// @param peak  how many times as much it falls at the last position
std::shared_ptr<const Trace> run_with_saliency(const char* target, float peak = 1, bool unchecked = false) {
  TraceInfo info;
  info.name = "fox";
  info.layers = info.heads = info.key_heads = 2;
  info.head_dim = 4;
  info.length = 100;
  info.saliency_target = target;
  info.unchecked = unchecked;
  info.forgetting = {true, true};
  Recorder recorder(info, {Keep::saliency, Keep::gates}, nullptr);
  // log f is -0.5 everywhere.
  for (int layer = 0; layer < 2; ++layer) {
    const std::span<double> c = recorder.cumulative_log_gate(layer);
    for (std::size_t n = 0; n < c.size(); ++n) c[n] = -0.5 * static_cast<double>(n % 100 + 1);
  }
  const std::span<float> gradient = recorder.log_forget_gradient();
  for (std::size_t n = 0; n < gradient.size(); ++n) {
    const float size = n < 300 ? 1e-4F : 2e-3F;
    gradient[n] = n % 10 == 9 ? -size : 0.25F * size;
    if (n % 100 == 99) gradient[n] *= peak;
  }
  auto tokens = std::make_shared<TokenTable>();
  tokens->id.assign(100, 7);
  tokens->input_id.assign(100, 8);
  return recorder.finish(nullptr, tokens);
}

int count_of(const QImage& page, const figure::Rgb& colour) {
  int count = 0;
  for (int y = 0; y < page.height(); ++y) {
    for (int x = 0; x < page.width(); ++x) count += page.pixel(x, y) == qRgb(colour.red, colour.green, colour.blue);
  }
  return count;
}

/// One layer of heads of these decay times.
std::shared_ptr<const Trace> run_of_memories(std::int64_t length, const std::vector<double>& decay_times) {
  TraceInfo info;
  info.name = "fox";
  info.layers = 1;
  info.heads = info.key_heads = static_cast<int>(decay_times.size());
  info.head_dim = 4;
  info.length = length;
  info.forgetting = {true};
  Recorder recorder(info, {Keep::gates}, nullptr);
  const std::span<double> c = recorder.cumulative_log_gate(0);
  for (std::size_t n = 0; n < c.size(); ++n) {
    const auto position = n % static_cast<std::size_t>(length);
    c[n] = -static_cast<double>(position + 1) / decay_times[n / static_cast<std::size_t>(length)];
  }
  auto tokens = std::make_shared<TokenTable>();
  tokens->id.assign(static_cast<std::size_t>(length), 7);
  tokens->input_id = tokens->id;
  return recorder.finish(nullptr, tokens);
}

TEST(Maps, AFigureOfTheBeginningOfATextSaysSo) {
  const auto title_of = [](std::int64_t length, figure::MapsOptions options) {
    options.quantities = {Quantity::forget};
    const auto drawn = figure::drawMaps(run_of_memories(length, {0.5, 3, 10, 20}), options, style_of(Kind::pdf), {});
    return text_of(drawn->file);
  };
  EXPECT_NE(title_of(1000, {}).find("160 of 1000 positions"), std::string::npos);
  EXPECT_EQ(title_of(150, {}).find("positions"), std::string::npos);
  figure::MapsOptions asked;
  asked.rows = asked.columns = Range{0, 160};
  EXPECT_EQ(title_of(1000, asked).find("positions"), std::string::npos);
}

TEST(Maps, OneHeadAndItsPositionsFitEachOtherToo) {
  const auto run = run_of_memories(1000, {0.5, 3, 10, 20});
  const auto cropped = figure::headOnMap(run, /*crops=*/true, {});
  EXPECT_EQ(cropped->head, (figure::HeadIndex{0, 3})) << cropped->note;
  EXPECT_EQ(cropped->positions.end, 160);
  EXPECT_EQ(cropped->note,
            "fox: 0:3 is drawn (decay time 20 tokens): --head chooses another; of 1000 positions the first "
            "160 are shown, in which these memories can be seen: --rows and --cols choose others");
  const auto whole = figure::headOnMap(run, /*crops=*/false, {});
  EXPECT_EQ(whole->head, (figure::HeadIndex{0, 1})) << whole->note;
  EXPECT_EQ(whole->positions.end, 1000);
  // A head that is asked for stays; a note names the part that would show it.
  EXPECT_EQ(figure::beginningThatShows({run, 0, 1})->end, 64);
  EXPECT_EQ(figure::beginningThatShows({run, 0, 2})->end, 80);
  EXPECT_FALSE(figure::beginningThatShows({run_of_memories(900, {20}), 0, 0}));
  EXPECT_FALSE(figure::beginningThatShows({run_of_memories(64, {0.5}), 0, 0}));
}

TEST(Maps, HeadsAndPositionsFitEachOtherWhereNeitherIsAskedFor) {
  const auto note_of = [](std::int64_t length, const std::vector<double>& decay_times,
                          figure::MapsOptions options = {}) {
    options.quantities = {Quantity::forget};
    const auto drawn = figure::drawMaps(run_of_memories(length, decay_times), options, style_of(Kind::png), {});
    EXPECT_EQ(drawn->notes.size(), 1U);
    return drawn->notes.front();
  };
  // A text of 50 memories: eight of the longest are shown, and no head whose memory is a line on them.
  const std::string cropped = note_of(1000, {0.5, 3, 10, 20});
  EXPECT_NE(cropped.find("0:2 (10 tokens), 0:3 (20 tokens);"), std::string::npos) << cropped;
  EXPECT_NE(cropped.find("of 1000 positions the first 160 are shown"), std::string::npos) << cropped;
  // A head that leaves less than a tenth of the map is dark.
  const std::string whole = note_of(150, {0.5, 3, 10, 20});
  EXPECT_NE(whole.find("0:2 (10 tokens), 0:3 (20 tokens);"), std::string::npos) << whole;
  EXPECT_EQ(whole.find("0:1 "), std::string::npos) << whole;
  EXPECT_EQ(whole.find("are shown"), std::string::npos) << whole;
  // Heads that are seen, and are nearly the same, are no short and long memory: the next one is shown too.
  const std::string twins = note_of(2048, {5, 15, 40, 50});
  EXPECT_NE(twins.find("0:1 (15 tokens), 0:2 (40 tokens), 0:3 (50 tokens);"), std::string::npos) << twins;
  EXPECT_NE(note_of(5000, {3, 300, 1589}).find("0:2 (1,589 tokens)"), std::string::npos);
  // Of a head that never forgets any text is a part.
  EXPECT_EQ(note_of(1000, {0.5, 3, std::numeric_limits<double>::infinity()}).find("are shown"), std::string::npos);
  // Where no two heads fit, those that come nearest are shown all the same.
  EXPECT_NE(note_of(1000, {0.5, 20}).find("0:0 (0.5 tokens), 0:1 (20 tokens)"), std::string::npos);
  // Positions that are asked for stay, and the heads are those that are seen there.
  figure::MapsOptions asked;
  asked.rows = Range{0, 1000};
  const std::string all = note_of(1000, {0.5, 3, 10, 20}, asked);
  EXPECT_NE(all.find("0:1 (3 tokens), 0:2 (10 tokens), 0:3 (20 tokens);"), std::string::npos) << all;
  EXPECT_EQ(all.find("are shown"), std::string::npos) << all;
  asked.rows = asked.columns = Range{500, 520};
  const std::string near = note_of(1000, {0.5, 3, 10, 1e6}, asked);
  EXPECT_NE(near.find("0:0 (0.5 tokens), 0:1 (3 tokens), 0:2 (10 tokens);"), std::string::npos) << near;
}

TEST(Heads, WhatIsRetainedOfARegionIsTheMeanOfItsEntries) {
  const auto run = run_of(90, 1, 2);
  for (int head = 0; head < 2; ++head) {
    const auto entries = DenseHead({run, 0, head}).entries(Quantity::forget);
    for (const figure::MapRegion& region :
         {figure::MapRegion{{0, 90}, {0, 90}}, figure::MapRegion{{30, 80}, {10, 50}},
          figure::MapRegion{{5, 20}, {10, 40}}, figure::MapRegion{{60, 90}, {0, 1}}}) {
      double sum = 0;
      double count = 0;
      for (std::int64_t i = region.rows.begin; i < region.rows.end; ++i) {
        for (std::int64_t j = region.columns.begin; j < std::min(region.columns.end, i + 1); ++j) {
          sum += entries[index_of(i * 90 + j)];
          ++count;
        }
      }
      EXPECT_NEAR(figure::meanRetained(run->cumulative_log_gate(0, head), region), sum / count, 1e-12);
    }
    EXPECT_TRUE(std::isnan(figure::meanRetained(run->cumulative_log_gate(0, head), {{0, 10}, {20, 30}})));
  }
}

TEST(Saliency, TheHeadThatMattersMostTintsThePassage) {
  const auto run = run_with_saliency("mean of loss[0:100]");
  const auto drawn = figure::drawSaliency(run, {}, style_of(Kind::pdf), {});
  ASSERT_EQ(drawn->notes.size(), 1U);
  EXPECT_EQ(drawn->notes[0], "fox: 1:1 has the largest saliency_absolute; --head chooses another");
  const std::string text = text_of(drawn->file);
  // Of sizes of 1e-4 and of 2e-3 a tenth is whole and the others a quarter: 0.325 of them in the mean, but for the
  // first position. Times log f and 99 positions.
  for (const char* const word : {"3.2", "0.16", "layer", "head", "saliency_absolute", "10⁻² nats",
                                 "g of 1:1: change of the mean loss per nat of log f (nats)"}) {
    EXPECT_NE(text.find(word), std::string::npos) << word << " in " << text;
  }
  const QImage page = rendered(figure::drawSaliency(run, {}, style_of(Kind::png), {})->file, Kind::png, 300);
  // A tenth of the words has the first colour, and none but the bar's end the last.
  EXPECT_GT(count_of(page, figure::signedTint().front()), 3000);
  EXPECT_LT(count_of(page, figure::signedTint().back()), 1000);
}

TEST(Saliency, ValuesBeyondTheColoursOfThePassageAreSaid) {
  const auto drawn = figure::drawSaliency(run_with_saliency("mean of loss[0:100]", 10), {}, style_of(Kind::pdf), {});
  ASSERT_EQ(drawn->notes.size(), 2U);
  EXPECT_EQ(drawn->notes[1], "colours from −0.002 to 0.002, values from −0.02 to 0.0005");
  const std::string text = text_of(drawn->file);
  EXPECT_NE(text.find("(nats, some beyond)"), std::string::npos) << text;
}

TEST(Saliency, EveryNumberOfTheHeadsIsDrawnUnderItsName) {
  const auto run = run_with_saliency("mean of loss[0:100]");
  for (const SaliencyNumber number : kSaliencyNumbers) {
    const auto drawn = figure::drawSaliency(run, {{}, {}, number}, style_of(Kind::pdf), {});
    EXPECT_EQ(drawn->notes[0], fmt::format("fox: 1:1 has the largest {}; --head chooses another", to_string(number)));
    EXPECT_NE(text_of(drawn->file).find(to_string(number)), std::string::npos);
  }
  // A tenth of 2e-3 pulls down, nine tenths of a quarter pull up, times -0.5: below 0, and with the sign's colours.
  const std::string text =
      text_of(figure::drawSaliency(run, {{}, {}, SaliencyNumber::scale}, style_of(Kind::pdf), {})->file);
  EXPECT_NE(text.find("1.2"), std::string::npos) << text;
}

TEST(Saliency, PositionsAreThoseOfTheTarget) {
  const auto text_at = [](const char* target, const figure::SaliencyOptions& options = {}) {
    const auto drawn = figure::drawSaliency(run_with_saliency(target), options, style_of(Kind::pdf), {});
    return output_of("pdfinfo " + in_file(drawn->file, ".pdf"));
  };
  EXPECT_NE(text_at("mean of loss[0:100]").find("positions: 0:100"), std::string::npos);
  EXPECT_NE(text_at("mean of loss[40:41]").find("positions: 0:41"), std::string::npos);
  EXPECT_NE(text_at("mean of loss[40:41]", {{}, Range{10, 20}, {}}).find("positions: 10:20"), std::string::npos);
  EXPECT_NE(text_at("mean of loss[40:41]").find("target: mean of loss[40:41]"), std::string::npos);
}

TEST(Saliency, OnlyWhatExistsIsDrawn) {
  const auto run = run_with_saliency("mean of loss[0:100]");
  const auto refused = [](const std::shared_ptr<const Trace>& of, const figure::SaliencyOptions& options) {
    return error_of([&] { (void)figure::drawSaliency(of, options, style_of(Kind::png), {}); });
  };
  EXPECT_EQ(refused(run, {{}, Range{90, 101}, {}}), "positions 90:101: the text has 100");
  EXPECT_EQ(refused(run, {figure::HeadIndex{2, 0}, {}, {}}), "model 'fox' has no layer 2: layers are 0 to 1");
  EXPECT_EQ(refused(run_of(20, 1, 1), {}), "random: saliency was not kept: run again with --keep loss,gates,saliency");
}

TEST(Passage, PositionsAndQueriesThatDoNotExistAreRefused) {
  const auto run = run_of(20, 1, 1);
  figure::PassageOptions options;
  options.tint = figure::PassageTint::gate;
  options.positions = Range{0, 21};
  EXPECT_THROW((void)figure::drawPassage(run, options, style_of(Kind::png), {}), UsageError);
  options.positions = Range{0, 20};
  options.query = 20;
  EXPECT_THROW((void)figure::drawPassage(run, options, style_of(Kind::png), {}), UsageError);
  options.query.reset();
  EXPECT_GT(figure::drawPassage(run, options, style_of(Kind::png), {})->file.size(), 1000U);
}

TEST(Passage, ValuesBeyondTheColoursAreSaid) {
  const auto drawn_with = [](double most) {
    RunShape shape;
    shape.length = 100;
    shape.layers = shape.heads = shape.key_heads = 1;
    shape.log_gate = [most](int, std::int64_t position, double) { return std::log1p(position == 50 ? -most : -1e-3); };
    figure::PassageOptions options;
    options.tint = figure::PassageTint::gate;
    options.head = figure::HeadIndex{0, 0};
    options.positions = Range{0, 100};
    return *figure::drawPassage(make_run(shape), options, style_of(Kind::pdf), {});
  };
  const auto beyond = drawn_with(0.1);
  ASSERT_EQ(beyond.notes.size(), 1U);
  EXPECT_EQ(beyond.notes[0], "colours from 0 to 0.001, values from 0.001 to 0.1");
  EXPECT_NE(text_of(beyond.file).find("layer 0, head 0 (some beyond)"), std::string::npos) << text_of(beyond.file);
  const auto within = drawn_with(1e-3);
  EXPECT_TRUE(within.notes.empty()) << within.notes[0];
  EXPECT_EQ(text_of(within.file).find("beyond"), std::string::npos);
}

TEST(Marks, OfRunsThatWereNotCheckedAreWhole) {
  const auto run = run_with_saliency("mean of loss[0:100]", 1, true);
  FigureStyle style;
  style.format.widthMm = 2.65 * figure::kMillimetresPerInch;
  style.format.fontSizePt = 12;
  figure::PassageOptions passage;
  passage.tint = figure::PassageTint::gate;
  passage.head = figure::HeadIndex{0, 0};
  const std::function<std::string()> kinds[] = {
      [&] { return figure::drawSaliency(run, {}, style, {})->file; },
      [&] { return figure::drawGrid(run, {}, style, {})->file; },
      [&] { return figure::drawPassage(run, passage, style, {})->file; },
  };
  for (const auto& draw : kinds) {
    style.format.kind = Kind::pdf;
    const QString text =
        QString::fromStdString(text_of(draw())).normalized(QString::NormalizationForm_KC);  // ligatures
    const std::string words = text.simplified().toStdString();
    EXPECT_TRUE(words.ends_with("unchecked run file: its arrays may contradict one another")) << words;
    style.format.kind = Kind::png;
    const QImage page = rendered(draw(), Kind::png, 300);
    const auto red = [&](int x, int y) { return page.pixel(x, y) == qRgb(200, 0, 0); };
    int count = 0;
    for (int y = 0; y < page.height(); ++y) {
      EXPECT_FALSE(red(0, y) || red(page.width() - 1, y));
      for (int x = 0; x < page.width(); ++x) count += red(x, y);
    }
    for (int x = 0; x < page.width(); ++x) EXPECT_FALSE(red(x, page.height() - 1));
    EXPECT_GT(count, 1000);
  }
}

TEST(Passage, GatesAreTintedByTheHeadsOwnMeasure) {
  // A head of long memory forgets a hundredth at every tenth token and a thousandth at the others.
  RunShape shape;
  shape.length = 100;
  shape.layers = shape.heads = shape.key_heads = 1;
  shape.log_gate = [](int, std::int64_t position, double) { return std::log1p(position % 10 == 9 ? -1e-2 : -1e-3); };
  figure::PassageOptions options;
  options.tint = figure::PassageTint::gate;
  options.head = figure::HeadIndex{0, 0};
  options.positions = Range{0, 100};
  const QImage page =
      rendered(figure::drawPassage(make_run(shape), options, style_of(Kind::png), {})->file, Kind::png, 300);
  const figure::Rgb most = figure::tint().back();
  int saturated = 0;
  for (int y = 0; y < page.height(); ++y) {
    for (int x = 0; x < page.width(); ++x)
      saturated += page.pixel(x, y) == qRgb(most.red, most.green, most.blue) ? 1 : 0;
  }
  EXPECT_GT(saturated, 5000);
  EXPECT_LT(saturated, page.width() * page.height() / 8);
}

}  // namespace
}  // namespace foxscope::test
