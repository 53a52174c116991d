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

void MapsMotionTest::stateComesBackFromJson() {
  PaneState state;
  state.own = NamedHead{"fox", 3, 2};
  state.other = NamedHead{"transformer", 1, 0};
  state.quantity = Quantity::attention_without_gate;
  state.reduction = Reduction::mean;
  state.sides = Sides::splitHorizontally;
  state.split = 0.25;
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
