#include <algorithm>
#include <cmath>

#include <QTest>

#include "app/gui/maps/pane/pane_state.h"
#include "app/gui/maps/view_motion.h"
#include "tests/gui/subject.h"

namespace foxscope::gui::test {

class MapsMotionTest : public QObject {
  Q_OBJECT

 private slots:
  void zoomKeepsWhatIsAtTheAnchor();
  void zoomEndsAtOneTokenAndAtTheText();
  void everyZoomChangesSomething();
  void zoomsOneAxisAlone();
  void panStopsAtTheText();
  void squaredViewsHoldTheOldOne();
  void viewsByDistanceZoomQueriesAndDistances();
  void viewsByDistancePanAsFarAsTheTextGoes();
  void stateComesBackFromJson();
  void badStateIsLeftOut();
  void anotherQuantityForgetsLimits();
};

void MapsMotionTest::zoomKeepsWhatIsAtTheAnchor() {
  const View view{{1000, 3000}, {500, 2500}};
  for (const double place : {0.0, 0.25, 0.5, 1.0}) {
    const View closer = zoomed(view, 0.5, {place, place}, ZoomAxes::both, 8192);
    QCOMPARE(closer.rows.size(), 1000);
    QCOMPARE(closer.columns.size(), 1000);
    QCOMPARE(closer.rows.begin + static_cast<std::int64_t>(place * 1000),
             1000 + static_cast<std::int64_t>(place * 2000));
    QCOMPARE(closer.columns.begin + static_cast<std::int64_t>(place * 1000),
             500 + static_cast<std::int64_t>(place * 2000));
    QCOMPARE(zoomed(closer, 2, {place, place}, ZoomAxes::both, 8192), view);
  }
}

void MapsMotionTest::zoomEndsAtOneTokenAndAtTheText() {
  View view = wholeView(100);
  for (int step = 0; step < 60; ++step) view = zoomed(view, 0.8, {0.9, 0.1}, ZoomAxes::both, 100);
  QCOMPARE(view.rows.size(), 1);
  QCOMPARE(view.columns.size(), 1);
  for (int step = 0; step < 60; ++step) view = zoomed(view, 1.25, {0.9, 0.1}, ZoomAxes::both, 100);
  QCOMPARE(view, wholeView(100));
  QCOMPARE(zoomed(wholeView(1), 2, {}, ZoomAxes::both, 1), wholeView(1));
  QCOMPARE(zoomed(wholeView(1), 0.5, {}, ZoomAxes::both, 1), wholeView(1));
}

void MapsMotionTest::everyZoomChangesSomething() {
  const View view{{40, 43}, {40, 43}};
  QCOMPARE(zoomed(view, 0.95, {}, ZoomAxes::both, 100).rows.size(), 2);
  QCOMPARE(zoomed(view, 1.05, {}, ZoomAxes::both, 100).rows.size(), 4);
}

void MapsMotionTest::zoomsOneAxisAlone() {
  const View view{{10, 50}, {20, 60}};
  const View rows = zoomed(view, 0.5, {}, ZoomAxes::rows, 100);
  QCOMPARE(rows.rows, (Range{20, 40}));
  QCOMPARE(rows.columns, view.columns);
  QCOMPARE(zoomed(view, 0.5, {}, ZoomAxes::columns, 100).rows, view.rows);
}

void MapsMotionTest::panStopsAtTheText() {
  const View view{{10, 50}, {0, 40}};
  QCOMPARE(panned(view, 5, 7, 100), (View{{15, 55}, {7, 47}}));
  QCOMPARE(panned(view, -500, -1, 100), (View{{0, 40}, {0, 40}}));
  QCOMPARE(panned(view, 500, 500, 100), (View{{60, 100}, {60, 100}}));
}

void MapsMotionTest::squaredViewsHoldTheOldOne() {
  const View view{{10, 20}, {0, 60}};
  const View square = squared(view, 100);
  QCOMPARE(square.rows.size(), 60);
  QCOMPARE(square.columns, view.columns);
  QVERIFY(square.rows.begin <= 10 && square.rows.end >= 20);
}

void MapsMotionTest::viewsByDistanceZoomQueriesAndDistances() {
  const View all = wholeView(1000);
  QCOMPARE(shownDistances(all, 1000), (Range{1, 1001}));
  const View queries = zoomedByDistance(all, 0.1, {0.5, 0.5}, ZoomAxes::columns, 1000);
  QCOMPARE(queries.rows, (Range{450, 550}));
  QCOMPARE(queries.columns, (Range{0, 550}));
  QCOMPARE(queries.distances, Range{});
  // A decade that keeps distance 316 where it was; keys that lie so far before the queries.
  const View far = zoomedByDistance(queries, 1.0 / 3, {1.0 / 6, 0}, ZoomAxes::rows, 1000);
  QCOMPARE(far.rows, queries.rows);
  QVERIFY(std::abs(far.distances.begin - 46) <= 1 && std::abs(far.distances.end - 464) <= 2);
  QCOMPARE(far.columns.begin, std::max<std::int64_t>(0, 450 - (far.distances.end - 2)));
  QCOMPARE(far.columns.end, 550 - (far.distances.begin - 1));
  View back = far;
  for (int step = 0; step < 20; ++step) back = zoomedByDistance(back, 1.5, {0.5, 0.5}, ZoomAxes::both, 1000);
  QCOMPARE(back, all);
  // Ranges never end empty, whatever the factor.
  View near = all;
  for (int step = 0; step < 200; ++step) near = zoomedByDistance(near, 0.8, {0.9, 0.2}, ZoomAxes::both, 1000);
  QCOMPARE(near.rows.size(), 1);
  QVERIFY(near.distances.size() >= 1 && near.columns.size() >= 1);
  // Other movements keep the distances.
  QCOMPARE(panned(far, 3, 3, 1000).distances, far.distances);
  QCOMPARE(zoomed(far, 0.5, {}, ZoomAxes::both, 1000).distances, far.distances);
  // Those of another text are let go.
  QCOMPARE(clamped({{0, 10}, {0, 10}, {5, 900}}, 100).distances, Range{});
}

void MapsMotionTest::viewsByDistancePanAsFarAsTheTextGoes() {
  const View view = viewByDistance({400, 500}, {10, 100}, 1000);
  const View moved = pannedByDistance(view, 50, 0.5, 1000);
  QCOMPARE(moved.rows, (Range{450, 550}));
  QVERIFY(std::abs(moved.distances.begin - 32) <= 1 && std::abs(moved.distances.end - 316) <= 1);
  const View nearest = pannedByDistance(view, -900, -8, 1000);
  QCOMPARE(nearest.rows, (Range{0, 100}));
  QCOMPARE(nearest.distances, (Range{1, 10}));
  QCOMPARE(pannedByDistance(view, 0, 8, 1000).distances.end, 1001);
  // All distances have nowhere to go.
  QCOMPARE(pannedByDistance(wholeView(1000), 0, 0.3, 1000), wholeView(1000));
}

void MapsMotionTest::stateComesBackFromJson() {
  PaneState state;
  state.own = NamedHead{"fox", 3, 2};
  state.other = NamedHead{"transformer", 1, 0};
  state.quantity = Quantity::attention_without_gate;
  state.reduction = Reduction::mean;
  state.sides = Sides::splitHorizontally;
  state.split = 0.25;
  state.axes = MapAxes::distance;
  state.colours = {figure::ColourMapName::cividis, figure::ColourScale::logarithmic, 1e-4, 0.5, 1e-3};
  QCOMPARE(PaneState::fromJson(state.toJson()), state);
  QCOMPARE(PaneState::fromJson(PaneState().toJson()), PaneState());
}

void MapsMotionTest::badStateIsLeftOut() {
  const QJsonObject json{{"quantity", "beauty"},
                         {"reduction", 7},
                         {"sides", "inside"},
                         {"split", 12},
                         {"head", QJsonObject{{"run", "fox"}, {"layer", -4}}},
                         {"colours", QJsonObject{{"map", "diverging"}, {"lower", "much"}}}};
  PaneState expected;
  expected.split = 1;
  QCOMPARE(PaneState::fromJson(json), expected);
}

void MapsMotionTest::anotherQuantityForgetsLimits() {
  PaneState state;
  state.colours = {figure::ColourMapName::grey, figure::ColourScale::logarithmic, 0.1, 0.5, 0.2};
  state.setQuantity(Quantity::attention);
  QCOMPARE(state.colours.map, figure::ColourMapName::grey);
  QVERIFY(!state.colours.lower && !state.colours.upper && !state.colours.scale && !state.colours.blankBelow);
  QCOMPARE(state.effectiveScale(), figure::ColourScale::logarithmic);
  QCOMPARE(state.effectiveReduction(), Reduction::max);
  // A map that is for one sign only does not suit a difference.
  state.setSides(Sides::difference);
  QVERIFY(!state.colours.map);
  QCOMPARE(state.effectiveScale(), figure::ColourScale::linear);
  QCOMPARE(state.effectiveReduction(), Reduction::absmax);
}

}  // namespace foxscope::gui::test

FOXSCOPE_GUILESS_SUBJECT(maps_motion, foxscope::gui::test::MapsMotionTest)
#include "maps_motion_test.moc"
