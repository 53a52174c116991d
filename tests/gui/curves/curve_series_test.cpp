#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include <QTest>

#include "app/gui/curves/decay_spectrum.h"
#include "app/gui/curves/position_axis.h"
#include "app/gui/curves/series.h"
#include "tests/gui/subject.h"

namespace foxscope::gui::test {
namespace {

using curves::Point;
using curves::PositionAxis;
using curves::Series;

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

std::vector<double> randomValues(std::size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<double> normal(3, 2);
  std::vector<double> values(count);
  for (double& value : values) value = normal(random);
  return values;
}

/// The mean of a window, the plain way.
double plainMean(const std::vector<double>& values, std::int64_t begin, std::int64_t end) {
  double sum = 0;
  int count = 0;
  for (std::int64_t index = std::max<std::int64_t>(0, begin); index < end; ++index) {
    if (index >= static_cast<std::int64_t>(values.size())) break;
    const double value = values[index_of(index)];
    if (std::isnan(value)) continue;
    sum += value;
    ++count;
  }
  return count == 0 ? kNone : sum / count;
}

bool near(double a, double b) {
  return (std::isnan(a) && std::isnan(b)) || std::abs(a - b) <= 1e-10 * (1 + std::abs(b));
}

}  // namespace

class SeriesTest : public QObject {
  Q_OBJECT

 private slots:
  void smoothsAsAPlainLoopDoes_data();
  void smoothsAsAPlainLoopDoes();
  void meansSoFarAreThoseOfAPlainLoop();
  void findsTheValueAtOrBeforeAPosition();
  void decimationKeepsExtremes();
  void decimationLeavesSparseValuesAlone();
  void decimationKeepsGaps();
  void axisGoesBothWays_data();
  void axisGoesBothWays();
  void zoomKeepsWhatIsUnderThePointer_data();
  void zoomKeepsWhatIsUnderThePointer();
  void zoomStepsAreAtLeastOneToken();
  void panningKeepsTheWidthAndStopsAtTheEnds();
  void distancesHideWhatStandsAfterTheQuery();
  void distancesHideWhatStandsBeforeTheKey();
  void edgesCoverTheAxisAndItsSurroundings();
  void dotsOfASwarmDoNotCoverEachOther();
};

void SeriesTest::smoothsAsAPlainLoopDoes_data() {
  QTest::addColumn<int>("window");
  for (const int window : {1, 2, 3, 100, 101, 999, 1999, 5000}) QTest::addRow("%d", window) << window;
}

void SeriesTest::smoothsAsAPlainLoopDoes() {
  QFETCH(int, window);
  std::vector<double> values = randomValues(1000, 1);
  for (const std::size_t gap : {0, 1, 500, 501, 999}) values[gap] = kNone;
  const std::vector<double> smooth = curves::smoothed(values, window);
  QCOMPARE(smooth.size(), values.size());
  for (std::int64_t index = 0; index < 1000; ++index) {
    const double expected = plainMean(values, index - (window - 1) / 2, index + window / 2 + 1);
    QVERIFY2(near(smooth[index_of(index)], expected), qPrintable(QString::number(index)));
  }
}

void SeriesTest::meansSoFarAreThoseOfAPlainLoop() {
  std::vector<double> values = randomValues(500, 2);
  values[0] = kNone;
  values[77] = kNone;
  const std::vector<double> means = curves::meansSoFar(values);
  for (std::int64_t index = 0; index < 500; ++index) {
    QVERIFY(near(means[index_of(index)], plainMean(values, 0, index + 1)));
  }
}

void SeriesTest::findsTheValueAtOrBeforeAPosition() {
  const Series plain{{5, 6, 7}, {}};
  QCOMPARE(plain.indexAt(0), std::optional<std::size_t>(0));
  QCOMPARE(plain.indexAt(2.5), std::optional<std::size_t>(2));
  QVERIFY(!plain.indexAt(-0.5));
  QVERIFY(!plain.indexAt(3));
  const Series placed{{5, 6, 7}, {0, 0.5, 2}};
  QCOMPARE(placed.indexAt(0), std::optional<std::size_t>(0));
  QCOMPARE(placed.indexAt(1), std::optional<std::size_t>(1));
  QCOMPARE(placed.indexAt(2), std::optional<std::size_t>(2));
  QVERIFY(!placed.indexAt(3));
  QVERIFY(!Series{}.indexAt(0));
}

void SeriesTest::decimationKeepsExtremes() {
  const Series series{randomValues(65'536, 3), {}};
  std::vector<double> edges;
  for (int column = 0; column <= 700; ++column) edges.push_back(-0.5 + 65'536.0 * column / 700);
  const std::vector<Point> points = curves::decimated(series, edges);
  QCOMPARE(points.size(), std::size_t{1400});
  QVERIFY(std::is_sorted(points.begin(), points.end(),
                         [](const Point& a, const Point& b) { return a.position < b.position; }));
  for (std::size_t column = 0; column < 700; ++column) {
    double least = std::numeric_limits<double>::infinity();
    double largest = -least;
    for (std::size_t index = 0; index < series.size(); ++index) {
      const auto position = static_cast<double>(index);
      if (position < edges[column] || position >= edges[column + 1]) continue;
      least = std::min(least, series.value[index]);
      largest = std::max(largest, series.value[index]);
    }
    const auto [low, high] = std::minmax(points[2 * column].value, points[2 * column + 1].value);
    QCOMPARE(low, least);
    QCOMPARE(high, largest);
  }
}

void SeriesTest::decimationLeavesSparseValuesAlone() {
  const Series series{randomValues(40, 4), {}};
  std::vector<double> edges;
  for (int column = 0; column <= 30; ++column) edges.push_back(9.5 + column / 3.0);
  const std::vector<Point> points = curves::decimated(series, edges);
  QCOMPARE(points.size(), std::size_t{10});
  for (std::size_t index = 0; index < 10; ++index) {
    const Point expected{static_cast<double>(10 + index), series.value[10 + index]};
    QCOMPARE(points[index], expected);
  }
}

void SeriesTest::decimationKeepsGaps() {
  Series series{randomValues(100, 5), {}};
  for (std::size_t index = 0; index < 60; ++index) series.value[index] = kNone;
  const std::vector<Point> points = curves::decimated(series, std::vector<double>{0, 50, 100});
  QCOMPARE(points.size(), std::size_t{3});
  QVERIFY(std::isnan(points[0].value));
  const auto [low, high] = std::minmax_element(series.value.begin() + 60, series.value.end());
  QCOMPARE(std::min(points[1].value, points[2].value), *low);
  QCOMPARE(std::max(points[1].value, points[2].value), *high);
}

namespace {

using Kind = PositionAxis::Kind;
using Scale = figure::AxisScale;

void addAxes() {
  QTest::addColumn<std::optional<MapLine>>("line");
  QTest::addColumn<bool>("logarithmic");
  for (const bool logarithmic : {false, true}) {
    const char* const scale = logarithmic ? "logarithmic" : "linear";
    QTest::addRow("positions, %s", scale) << std::optional<MapLine>() << logarithmic;
    QTest::addRow("distances of a row, %s", scale) << std::optional(MapLine{MapLine::Along::row, 800}) << logarithmic;
    QTest::addRow("distances of a column, %s", scale)
        << std::optional(MapLine{MapLine::Along::column, 0}) << logarithmic;
  }
}

PositionAxis fetchedAxis() {
  PositionAxis axis;
  [&] {
    QFETCH(std::optional<MapLine>, line);
    QFETCH(bool, logarithmic);
    axis.kind = line ? Kind::distance : Kind::position;
    axis.line = line;
    axis.scale = logarithmic ? Scale::logarithmic : Scale::linear;
    axis.first = logarithmic ? 1 : 0;
  }();
  axis.length = 1000;
  return axis;
}

}  // namespace

void SeriesTest::axisGoesBothWays_data() { addAxes(); }

void SeriesTest::axisGoesBothWays() {
  const PositionAxis axis = fetchedAxis();
  for (const Range& range : {Range{0, 801}, Range{0, 1}, Range{800, 801}, Range{123, 456}}) {
    QCOMPARE(axis.positionsIn(axis.limitsOf(range)), range);
  }
  for (const std::int64_t position : {0, 1, 17, 799, 800}) {
    QCOMPARE(axis.nearest(axis.coordinate(static_cast<double>(position))), position);
  }
  QCOMPARE(axis.nearest(axis.coordinate(-7)), 0);
}

void SeriesTest::zoomKeepsWhatIsUnderThePointer_data() { addAxes(); }

void SeriesTest::zoomKeepsWhatIsUnderThePointer() {
  const PositionAxis axis = fetchedAxis();
  const Range before{100, 801};
  const auto share = [&](const Range& range) {
    const figure::AxisLimits limits = axis.limitsOf(range);
    return figure::axisPosition(axis.coordinate(300), limits, axis.scale);
  };
  const Range zoomed = axis.zoomed(before, axis.coordinate(300), 0.5);
  QVERIFY(zoomed.begin > before.begin && zoomed.size() < before.size());
  QVERIFY2(std::abs(share(zoomed) - share(before)) < 0.02, qPrintable(QString::number(share(zoomed) - share(before))));
}

void SeriesTest::zoomStepsAreAtLeastOneToken() {
  PositionAxis axis;
  axis.length = 1000;
  Range range{500, 508};
  for (int size = 7; size >= 1; --size) {
    range = axis.zoomed(range, 503, 0.99);
    QCOMPARE(range.size(), size);
    QVERIFY(range.begin <= 503 && range.end > 503);
  }
  QCOMPARE(axis.zoomed(range, 503, 0.5), range);
  QCOMPARE(axis.zoomed(range, 503, 1.01).size(), 2);
  const Range all{0, 1000};
  QCOMPARE(axis.zoomed(all, 10, 2), all);
  axis.length = 1;
  const Range one{0, 1};
  QCOMPARE(axis.zoomed(one, 0, 2), one);
  QCOMPARE(axis.zoomed(one, 0, 0.5), one);
}

void SeriesTest::panningKeepsTheWidthAndStopsAtTheEnds() {
  PositionAxis axis;
  axis.length = 1000;
  const Range right{150, 250};
  QCOMPARE(axis.moved({100, 200}, 0.5), right);
  const Range first{0, 100};
  QCOMPARE(axis.moved({50, 150}, -2), first);
  const Range last{900, 1000};
  QCOMPARE(axis.moved({850, 950}, 2), last);
}

void SeriesTest::distancesHideWhatStandsAfterTheQuery() {
  PositionAxis axis;
  axis.kind = Kind::distance;
  axis.line = {MapLine::Along::row, 10};
  axis.length = 100;
  const figure::AxisLimits limits = axis.limitsOf({0, 100});
  QCOMPARE(limits.lower, -0.5);
  QCOMPARE(limits.upper, 10.5);
  const figure::AxisLimits beyond = axis.limitsOf({50, 60});
  QVERIFY(beyond.lower < beyond.upper);
}

void SeriesTest::distancesHideWhatStandsBeforeTheKey() {
  PositionAxis axis;
  axis.kind = Kind::distance;
  axis.line = {MapLine::Along::column, 90};
  axis.length = 100;
  const figure::AxisLimits limits = axis.limitsOf({0, 100});
  QCOMPARE(limits.lower, -0.5);
  QCOMPARE(limits.upper, 9.5);
  QCOMPARE(axis.nearest(-3), 90);
  QCOMPARE(axis.nearest(2), 92);
  QVERIFY(axis.ascends());
  const figure::AxisLimits before = axis.limitsOf({50, 60});
  QVERIFY(before.lower < before.upper);
}

void SeriesTest::edgesCoverTheAxisAndItsSurroundings() {
  for (const auto& line : {std::optional<MapLine>(), std::optional(MapLine{MapLine::Along::row, 999}),
                           std::optional(MapLine{MapLine::Along::column, 0})}) {
    PositionAxis axis;
    axis.kind = line ? Kind::distance : Kind::position;
    axis.line = line;
    axis.length = 1000;
    const std::vector<double> edges = axis.edges(axis.limitsOf({400, 500}), 50);
    QCOMPARE(edges.size(), std::size_t{151});
    QVERIFY(std::is_sorted(edges.begin(), edges.end()));
    QCOMPARE(edges.front(), 299.5);
    QCOMPARE(edges.back(), 599.5);
  }
}

void SeriesTest::dotsOfASwarmDoNotCoverEachOther() {
  std::vector<double> heights = randomValues(24, 6);
  for (double& height : heights) height *= 5;
  const std::vector<double> shifts = curves::swarm(heights, 7, 200);
  for (std::size_t a = 0; a < heights.size(); ++a) {
    for (std::size_t b = 0; b < a; ++b) {
      QVERIFY(std::hypot(heights[a] - heights[b], shifts[a] - shifts[b]) >= 7 - 1e-9);
    }
  }
  for (const double shift : curves::swarm(heights, 7, 10)) QVERIFY(std::abs(shift) <= 10);
}

}  // namespace foxscope::gui::test

FOXSCOPE_GUILESS_SUBJECT(curve_series, foxscope::gui::test::SeriesTest)
#include "backend/base/index.h"
#include "curve_series_test.moc"
