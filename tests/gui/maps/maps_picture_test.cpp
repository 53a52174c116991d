#include <algorithm>
#include <cmath>
#include <numeric>

#include <QTest>

#include "app/gui/maps/map_picture.h"
#include "app/gui/maps/picture_shading.h"
#include "backend/base/error.h"
#include "kernels/executor.h"
#include "tests/gui/maps/support.h"
#include "tests/gui/subject.h"

namespace foxscope::gui::test {
namespace {

using foxscope::test::make_trace;
using foxscope::test::SyntheticRun;

constexpr QRgb kAbsentColour = 0xff112233;
constexpr QRgb kBlankColour = 0xff445566;

PictureRequest requestFor(const std::shared_ptr<const Trace>& trace, Quantity quantity) {
  PictureRequest request;
  request.content.sides = {{{trace, 1, 2}, nullptr}};
  request.content.quantity = quantity;
  request.content.reduction = default_reduction(quantity, false);
  request.view = {{100, 400}, {50, 350}};
  request.pixels = {120, 90};
  request.shading.absent = kAbsentColour;
  request.shading.blank = kBlankColour;
  return request;
}

/// The whole of a model's only head.
PictureRequest wholeAttention(std::int64_t length, std::int64_t pixels) {
  SyntheticRun run;
  run.length = length;
  run.layers = run.heads = run.key_heads = 1;
  PictureRequest request;
  request.content = {{{{make_trace(run), 0, 0}, nullptr}}, {}, Quantity::attention, Reduction::max};
  request.view = {{0, length}, {0, length}};
  request.pixels = {pixels, pixels};
  return request;
}

QRgb rgbOf(const figure::Rgb& colour) { return qRgb(colour.red, colour.green, colour.blue); }

}  // namespace

class MapsPictureTest : public QObject {
  Q_OBJECT

 private slots:
  void initTestCase();
  void colourIsThatOfTheValue_data();
  void colourIsThatOfTheValue();
  void coarseLinesAreSamplesOfTheMap();
  void coarseTakesTheColoursOfItsNeighbour();
  void stagesHoldLinesOfTheExactPicture();
  void whatIsSkippedHasTheColourOfZero();
  void otherTokensAreShownByPlace();
  void twoSidesShareTheirLimits();
  void blankBelowTheThreshold();
  void recolouredPicturesShareTheirValues();
  void valuesAreFoundByPosition();
  void summaryHoldsRangeAndPercentiles();
  void stoppedJobsGiveNothing();
  void limitsInTheWrongOrderAreRefused();

 private:
  std::shared_ptr<const Trace> m_trace;
};

void MapsPictureTest::initTestCase() {
  SyntheticRun run;
  run.length = 500;
  m_trace = make_trace(run);
}

void MapsPictureTest::colourIsThatOfTheValue_data() {
  QTest::addColumn<Quantity>("quantity");
  QTest::addColumn<bool>("logarithmic");
  QTest::newRow("forget") << Quantity::forget << false;
  QTest::newRow("forget, logarithmic") << Quantity::forget << true;
  QTest::newRow("log forget") << Quantity::log_forget << false;
  QTest::newRow("logits") << Quantity::logits << false;
  QTest::newRow("attention") << Quantity::attention << true;
  QTest::newRow("attention, linear") << Quantity::attention << false;
  QTest::newRow("without gate") << Quantity::attention_without_gate << true;
  QTest::newRow("gate effect") << Quantity::gate_effect << false;
}

void MapsPictureTest::colourIsThatOfTheValue() {
  QFETCH(const Quantity, quantity);
  QFETCH(const bool, logarithmic);
  PictureRequest request = requestFor(m_trace, quantity);
  if (logarithmic) request.shading.scale = figure::ColourScale::logarithmic;
  const PicturePointer picture = makeExactPicture(request, {}).value();
  QVERIFY(picture->exact);
  MapRequest map;
  map.head = {m_trace, 1, 2};
  map.quantity = quantity;
  map.reduction = default_reduction(quantity, false);
  map.rows = request.view.rows;
  map.columns = request.view.columns;
  map.pixel_rows = 120;
  map.pixel_columns = 90;
  const Image expected = compute_map(map, {}).value();
  figure::MapFigure figure;
  figure.request = map;
  figure.image = expected;
  figure.scale = request.shading.scale;
  const figure::ScaledColours colours = figure::chooseColours(figure);
  const QImage& image = picture->images.front();
  QCOMPARE(image.size(), QSize(90, 120));
  int absent = 0;
  for (int row = 0; row < 120; ++row) {
    for (int column = 0; column < 90; ++column) {
      const float value = expected.value[index_of(row * 90 + column)];
      const QRgb colour = std::isnan(value) ? kAbsentColour : rgbOf(colours.colour(value));
      absent += std::isnan(value) ? 1 : 0;
      QVERIFY2(sameColour(image.pixel(column, row), colour), qPrintable(QString("%1, %2").arg(row).arg(column)));
    }
  }
  QVERIFY(absent > 100);
}

void MapsPictureTest::coarseLinesAreSamplesOfTheMap() {
  SyntheticRun run;
  run.length = 3000;
  run.layers = 1;
  run.heads = 1;
  run.key_heads = 1;
  const auto trace = make_trace(run);
  for (const Range& rows : {Range{100, 400}, Range{0, 3000}}) {
    PictureRequest request;
    request.content = {{{{trace, 0, 0}, nullptr}}, {}, Quantity::attention, Reduction::max};
    request.view = {rows, rows};
    request.pixels = {250, 250};
    kernels::ThreadPool pool(2);
    const PicturePointer picture = makeCoarsePicture(request, nullptr, {{}, {}, &pool}).value();
    QVERIFY(!picture->exact);
    const Image& values = *picture->values.front();
    QVERIFY(values.rows < 250);
    MapRequest map{{trace, 0, 0}, Quantity::attention, Reduction::max, rows, rows, values.rows, values.columns, {}, 0};
    const Image bands = compute_map(map, {}).value();
    // No line is more than its band, and none is less where the sample is all of the band.
    const bool whole = rows.size() / values.rows < 64;
    int present = 0;
    for (std::size_t n = 0; n < bands.value.size(); ++n) {
      const float value = values.value[n];
      if (whole) QCOMPARE(std::isnan(value), std::isnan(bands.value[n]));
      if (std::isnan(value)) continue;
      ++present;
      QVERIFY(value <= bands.value[n] * 1.00001F);
      if (whole) QVERIFY(value >= bands.value[n] * 0.99999F);
    }
    QVERIFY(present > static_cast<int>(bands.value.size()) / 3);
  }
}

void MapsPictureTest::coarseTakesTheColoursOfItsNeighbour() {
  PictureRequest request = requestFor(m_trace, Quantity::logits);
  const PicturePointer beside = makeExactPicture(request, {}).value();
  request.view = {{300, 500}, {0, 200}};
  const PicturePointer coarse = makeCoarsePicture(request, beside, {}).value();
  QCOMPARE(coarse->colours.lower, beside->colours.lower);
  QCOMPARE(coarse->colours.upper, beside->colours.upper);
}

void MapsPictureTest::stagesHoldLinesOfTheExactPicture() {
  const PictureRequest request = wholeAttention(5000, 250);
  std::vector<PicturePointer> shown;
  const PictureStages stages{[&](const PicturePointer& picture) { shown.push_back(picture); }, {}};
  kernels::ThreadPool pool(1);
  const PicturePointer exact = makeExactPicture(request, {{}, {}, &pool}, stages).value();
  QVERIFY(exact->exact);
  QVERIFY(!shown.empty());
  const auto same = [](float a, float b) { return a == b || (std::isnan(a) && std::isnan(b)); };
  const Image& whole = *exact->values.front();
  int before = 0;
  for (const PicturePointer& picture : shown) {
    QVERIFY(!picture->exact);
    QCOMPARE(picture->images.front().size(), exact->images.front().size());
    const Image& values = *picture->values.front();
    int equal = 0;
    for (std::int64_t line = 0; line < 250; ++line) {
      const float* const row = values.value.data() + line * 250;
      equal += std::equal(row, row + 250, whole.value.data() + line * 250, same) ? 1 : 0;
      for (std::int64_t x = 0; x < 250; ++x) {
        if (x > line) QVERIFY(std::isnan(row[x]));
      }
    }
    QVERIFY(equal >= before);
    before = equal;
  }
  QVERIFY(before > 200);
  QCOMPARE(makeExactPicture(request, {}).value()->images.front(), exact->images.front());
}

void MapsPictureTest::whatIsSkippedHasTheColourOfZero() {
  PictureRequest request = wholeAttention(3000, 300);
  request.shading.scale = figure::ColourScale::logarithmic;
  const PicturePointer all = makeExactPicture(request, {}).value();
  // A tolerance among the colours is given up: what it left out would be seen.
  for (const double tolerance : {0x1p-40, 0x1p-25, all->colours.lower * 2, 0.5}) {
    request.skipTolerance = tolerance;
    const PicturePointer picture = makeExactPicture(request, {}).value();
    QCOMPARE(picture->images.front(), all->images.front());
    QCOMPARE(picture->colours.lower, all->colours.lower);
    QCOMPARE(picture->colours.upper, all->colours.upper);
    QVERIFY(picture->request.skipTolerance <= picture->colours.lower);
    QCOMPARE(picture->computed.skip_tolerance, picture->request.skipTolerance);
  }
}

void MapsPictureTest::otherTokensAreShownByPlace() {
  const auto other = withPairedTokens(*m_trace, "pairs");
  const auto places = std::make_shared<const PlaceMap>(m_trace->tokens(), other->tokens());
  PictureRequest request = requestFor(m_trace, Quantity::forget);
  request.content.sides = {{{other, 1, 2}, places}};
  request.view = {{100, 140}, {90, 130}};
  request.pixels = {400, 400};
  const PicturePointer picture = makeExactPicture(request, {}).value();
  QCOMPARE(picture->values.front()->rows, 40);
  const std::span<const double> c = other->cumulative_log_gate(1, 2);
  for (std::int64_t row = 100; row < 140; ++row) {
    for (std::int64_t column = 90; column < 130; ++column) {
      const std::int64_t i = (*places)(row).value();
      const std::int64_t j = (*places)(column).value();
      const float value = picture->value(0, row, column);
      if (column > row || j > i) {
        QVERIFY(std::isnan(value));
      } else {
        QCOMPARE(value, static_cast<float>(std::exp(c[index_of(i)] - c[index_of(j)])));
      }
    }
  }
}

void MapsPictureTest::twoSidesShareTheirLimits() {
  PictureRequest request = requestFor(m_trace, Quantity::logits);
  request.content.sides.push_back({{m_trace, 0, 1}, nullptr});
  const PicturePointer both = makeExactPicture(request, {}).value();
  QCOMPARE(both->images.size(), std::size_t{2});
  double lowest = 0;
  double highest = 0;
  for (const auto& values : both->values) {
    for (const float value : values->value) {
      if (std::isnan(value)) continue;
      lowest = std::min<double>(lowest, value);
      highest = std::max<double>(highest, value);
    }
  }
  QCOMPARE(both->colours.lower, lowest);
  QCOMPARE(both->colours.upper, highest);
  request.content.sides.erase(request.content.sides.begin());
  QCOMPARE(both->values[1]->value.size(), makeExactPicture(request, {}).value()->values[0]->value.size());
}

void MapsPictureTest::blankBelowTheThreshold() {
  PictureRequest request = requestFor(m_trace, Quantity::forget);
  request.shading.colours.blankBelow = 0.3;
  const PicturePointer picture = makeExactPicture(request, {}).value();
  const Image& values = *picture->values.front();
  for (int n = 0; n < 120 * 90; ++n) {
    const float value = values.value[index_of(n)];
    const QRgb colour = picture->images.front().pixel(n % 90, n / 90);
    if (!std::isnan(value)) QCOMPARE(colour == kBlankColour, value < 0.3F);
  }
}

void MapsPictureTest::recolouredPicturesShareTheirValues() {
  const PicturePointer picture = makeExactPicture(requestFor(m_trace, Quantity::attention), {}).value();
  Shading shading = picture->request.shading;
  shading.colours.map = figure::ColourMapName::grey;
  shading.scale = figure::ColourScale::logarithmic;
  const PicturePointer grey = recoloured(*picture, shading);
  QCOMPARE(grey->values.front(), picture->values.front());
  QVERIFY(grey->exact);
  PictureRequest request = picture->request;
  request.shading = shading;
  QCOMPARE(grey->images.front(), makeExactPicture(request, {}).value()->images.front());
  QVERIFY(grey->images.front() != picture->images.front());
}

void MapsPictureTest::valuesAreFoundByPosition() {
  const PicturePointer picture = makeExactPicture(requestFor(m_trace, Quantity::forget), {}).value();
  const Image& values = *picture->values.front();
  for (std::int64_t line = 0; line < 120; ++line) {
    const std::int64_t row = bin_begin({100, 400}, 120, line);
    for (std::int64_t place = 0; place < 90; ++place) {
      const std::int64_t column = bin_begin({50, 350}, 90, place);
      if (column > row) continue;
      QCOMPARE(picture->value(0, row, column), values.value[index_of(line * 90 + place)]);
    }
  }
  QVERIFY(std::isnan(picture->value(0, 99, 60)));
  QVERIFY(std::isnan(picture->value(0, 120, 121)));
  QVERIFY(std::isnan(picture->value(1, 120, 60)));
}

void MapsPictureTest::summaryHoldsRangeAndPercentiles() {
  Image image{1, 1001, {}};
  for (int n = 0; n <= 1000; ++n) image.value.push_back(static_cast<float>(n));
  image.value[500] = std::numeric_limits<float>::quiet_NaN();
  const ValueSummary summary = summaryOf({std::make_shared<const Image>(image)});
  QVERIFY(!summary.empty);
  QCOMPARE(summary.lowest, 0.0);
  QCOMPARE(summary.highest, 1000.0);
  QCOMPARE(summary.percentile0_1, 1.0);
  QCOMPARE(summary.percentile99_9, 999.0);
  QCOMPARE(std::accumulate(summary.linear.counts.begin(), summary.linear.counts.end(), 0), 1000);
  QCOMPARE(summary.logarithmic.lower, 0.0);
  QCOMPARE(summary.logarithmic.upper, 3.0);
  const ValueSummary nothing =
      summaryOf({std::make_shared<const Image>(Image{1, 1, {std::numeric_limits<float>::quiet_NaN()}})});
  QVERIFY(nothing.empty);
}

void MapsPictureTest::stoppedJobsGiveNothing() {
  std::stop_source stop;
  stop.request_stop();
  const Job job{stop.get_token(), {}, nullptr};
  QVERIFY(!makeExactPicture(requestFor(m_trace, Quantity::attention), job));
  QVERIFY(!makeCoarsePicture(requestFor(m_trace, Quantity::attention), nullptr, job));
}

void MapsPictureTest::limitsInTheWrongOrderAreRefused() {
  PictureRequest request = requestFor(m_trace, Quantity::forget);
  request.shading.colours.lower = 0.5;
  request.shading.colours.upper = 0.25;
  QVERIFY_EXCEPTION_THROWN(makeExactPicture(request, {}), UsageError);
}

}  // namespace foxscope::gui::test

FOXSCOPE_GUILESS_SUBJECT(maps_picture, foxscope::gui::test::MapsPictureTest)
#include "backend/base/index.h"
#include "maps_picture_test.moc"
