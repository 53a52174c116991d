#include <cmath>

#include <QAction>
#include <QJsonArray>
#include <QJsonObject>
#include <QTest>

#include "backend/map/distance_axis.h"
#include "tests/gui/maps/support.h"
#include "tests/gui/subject.h"

namespace foxscope::gui::test {
namespace {

/// A run whose heads forget as fast as these, tokens.
std::shared_ptr<const Trace> runWithDecayTimes(const std::vector<double>& times, std::int64_t length) {
  const auto base = traceOf(length);
  TraceInfo info = base->info();
  info.name = "times";
  Recorder recorder(info, {Keep::gates}, nullptr);
  for (int layer = 0; layer < info.layers; ++layer) {
    const std::span<double> c = recorder.cumulative_log_gate(layer);
    for (std::size_t n = 0; n < c.size(); ++n) {
      const auto head = n / static_cast<std::size_t>(length);
      c[n] = -static_cast<double>(n % static_cast<std::size_t>(length)) / times[head % times.size()];
    }
  }
  return recorder.finish(base->text(), base->tokens());
}

QAction* commandNamed(MapsView& view, const QString& text) {
  for (QAction* action : view.commands()) {
    if (action->text() == text) return action;
  }
  return nullptr;
}

}  // namespace

class MapsDistanceTest : public QObject {
  Q_OBJECT

 private slots:
  void theKeyTogglesAllPanes();
  void headsThatForgetFastAreByDistance();
  void aChoiceByHandStays();
  void pixelsAreThoseOfTheirDistances();
  void theMapFillsItsPane();
  void axesAreLabelledByDistance();
  void thePointerIsOnQueryAndKey();
  void theWheelZoomsQueriesAndBesideThemDistances();
  void dragsPanAndZoom();
  void linesHaveAllKeysOfTheirQueries();
};

void MapsDistanceTest::theKeyTogglesAllPanes() {
  OpenMaps maps({traceOf(300)});
  QVERIFY(maps.settle());
  QAction* toggle = commandNamed(maps.view, "Axes: key or distance");
  QVERIFY(toggle != nullptr);
  QCOMPARE(toggle->shortcut(), QKeySequence(Qt::Key_X));
  toggle->trigger();
  QVERIFY(maps.settle());
  QCOMPARE(maps.pane(0).axes(), MapAxes::distance);
  QCOMPARE(maps.pane(0).picture()->request.content.axes, MapAxes::distance);
  QVERIFY(maps.plot(0).geometryOfView().byDistance());
  QCOMPARE(maps.pane(1).axes(), MapAxes::distance);
  toggle->trigger();
  QVERIFY(maps.settle());
  QCOMPARE(maps.pane(0).axes(), MapAxes::key);
  QVERIFY(!maps.plot(0).geometryOfView().byDistance());
}

void MapsDistanceTest::headsThatForgetFastAreByDistance() {
  OpenMaps maps({runWithDecayTimes({0.5, 200}, 400)}, std::nullopt);
  QVERIFY(maps.settle());
  QCOMPARE(maps.pane(0).axes(), MapAxes::distance);
  QCOMPARE(maps.plot(0).caption(), QString("decay time 0.5 tokens"));
  maps.document.runs().selection().setHead({maps.document.runs().front().id, 0, 1});
  QVERIFY(maps.settle());
  QCOMPARE(maps.pane(0).axes(), MapAxes::key);
  QVERIFY(maps.plot(0).caption().isEmpty());
  // What the gate does not make small has the axes of keys.
  maps.document.runs().selection().setHead({maps.document.runs().front().id, 0, 0});
  maps.setQuantity(Quantity::log_forget);
  QVERIFY(maps.settle());
  QCOMPARE(maps.pane(0).axes(), MapAxes::key);
}

void MapsDistanceTest::aChoiceByHandStays() {
  OpenMaps maps({runWithDecayTimes({0.5, 200}, 400)}, std::nullopt);
  QVERIFY(maps.settle());
  commandNamed(maps.view, "Axes: key or distance")->trigger();
  QVERIFY(maps.settle());
  QCOMPARE(maps.pane(0).axes(), MapAxes::key);
  QVERIFY(maps.plot(0).caption().isEmpty());
  const QJsonObject saved = maps.view.saveState();
  commandNamed(maps.view, "Axes: key or distance")->trigger();
  QVERIFY(maps.settle());
  maps.view.restoreState(saved);
  QVERIFY(maps.settle());
  QCOMPARE(maps.pane(0).axes(), MapAxes::key);
  // A session that knows of no axes leaves them to the heads.
  QJsonArray panes = saved["panes"].toArray();
  QJsonObject first = panes[0].toObject();
  first.remove("axes");
  panes[0] = first;
  QJsonObject old = saved;
  old["panes"] = panes;
  maps.view.restoreState(old);
  QVERIFY(maps.settle());
  QCOMPARE(maps.pane(0).axes(), MapAxes::distance);
}

void MapsDistanceTest::pixelsAreThoseOfTheirDistances() {
  OpenMaps maps({traceOf(300)}, MapAxes::distance);
  for (const Quantity quantity : {Quantity::forget, Quantity::attention}) {
    maps.setQuantity(quantity);
    QVERIFY(maps.settle());
    const PicturePointer picture = maps.pane().picture();
    QVERIFY(picture->exact);
    const QImage plot = maps.grabPlot();
    for (const auto& [query, distance] : {std::pair{250, 1}, {250, 2}, {120, 7}, {299, 40}, {299, 250}}) {
      const std::int64_t key = query - distance + 1;
      const float value = picture->value(0, query, key);
      QVERIFY(!std::isnan(value));
      // The pixel holds the entry, as the largest of all that it stands for.
      const auto entry = entryAt(picture->request.content, 0, query, key);
      QVERIFY(entry && *entryValue(*entry, {}) <= value);
      const QPoint at = maps.cell(query, key);
      const figure::Rgb colour = picture->colours.colour(value);
      QVERIFY2(sameColour(plot.pixel(at), qRgb(colour.red, colour.green, colour.blue)),
               qPrintable(QString("%1 %2").arg(query).arg(distance)));
    }
    // Before the text there is nothing.
    QVERIFY(std::isnan(picture->value(0, 20, 20 - 200)));
    QVERIFY(sameColour(plot.pixel(maps.cell(20, -180)), maps.plot().groundColour().rgb()));
  }
}

void MapsDistanceTest::theMapFillsItsPane() {
  OpenMaps maps({traceOf(300)}, MapAxes::distance);
  QVERIFY(maps.settle());
  for (int index = 0; index < 2; ++index) {
    const QRect map = maps.plot(index).geometryOfView().rect;
    QVERIFY(map.width() > 2 * map.height());
    QVERIFY(map.width() > maps.view.width() * 3 / 4);
  }
  // One above the other, with their queries at the same places.
  QVERIFY(maps.pane(1).y() >= maps.pane(0).y() + maps.pane(0).height());
  QCOMPARE(maps.plot(0).geometryOfView().rect.left(), maps.plot(1).geometryOfView().rect.left());
}

void MapsDistanceTest::axesAreLabelledByDistance() {
  OpenMaps maps({traceOf(1200)}, MapAxes::distance);
  maps.view.setPaneCount(1);
  QVERIFY(maps.settle());
  QCOMPARE(maps.plot().tickLabels(Qt::Vertical), (QVector<QString>{"1", "10", "100", "1000"}));
  QVERIFY(maps.plot().tickLabels(Qt::Horizontal).contains("1000"));
  QVERIFY(maps.pane().detailText().contains("bin of distances"));
}

void MapsDistanceTest::thePointerIsOnQueryAndKey() {
  OpenMaps maps({traceOf(300)}, MapAxes::distance);
  QVERIFY(maps.settle());
  for (const Cursor& pair : {Cursor{250, 250}, {250, 247}, {30, 25}}) {
    maps.moveTo(maps.cell(*pair.query, *pair.key));
    const Cursor hover = maps.document.runs().selection().hover();
    // A pixel may stand for a few queries.
    QVERIFY(std::abs(*hover.query - *pair.query) <= 1);
    QCOMPARE(*hover.query - *hover.key, *pair.query - *pair.key);
  }
  QVERIFY(maps.settle());
  QVERIFY(maps.pane().readoutText().contains("distance i − j 5"));
  // Before the text there is a query, and no key.
  const QRect rect = maps.plot().geometryOfView().rect;
  maps.moveTo({rect.left() + 10, rect.top() + 3});
  QVERIFY(maps.document.runs().selection().hover().query.has_value());
  QVERIFY(!maps.document.runs().selection().hover().key.has_value());
  QTest::mouseClick(&maps.plot(), Qt::LeftButton, Qt::ShiftModifier, {rect.left() + 10, rect.top() + 3});
  QVERIFY(!maps.document.runs().selection().pin().key.has_value());
  QTest::mouseClick(&maps.plot(), Qt::LeftButton, {}, maps.cell(250, 240));
  QVERIFY(std::abs(*maps.document.runs().selection().pin().query - 250) <= 1);
  QCOMPARE(*maps.document.runs().selection().pin().query - *maps.document.runs().selection().pin().key, 10);
}

void MapsDistanceTest::theWheelZoomsQueriesAndBesideThemDistances() {
  OpenMaps maps({traceOf(400)}, MapAxes::distance);
  QVERIFY(maps.settle());
  const QRect rect = maps.plot().geometryOfView().rect;
  maps.wheel(rect.center(), 4);
  QVERIFY(maps.settle());
  QCOMPARE(maps.range().rows.size(), std::llround(400 / std::pow(1.25, 4)));
  QCOMPARE(maps.range().distances, Range{});
  const View queries = maps.range();
  maps.wheel({rect.left() / 2, rect.bottom() - 2}, 3);
  QVERIFY(maps.settle());
  QCOMPARE(maps.range().rows, queries.rows);
  QCOMPARE(maps.range().distances.begin, 1);
  QVERIFY(maps.range().distances.end < 60);
  QCOMPARE(maps.pane(0).picture()->request.view.distances, maps.range().distances);
  QCOMPARE(maps.pane(1).picture()->request.view.rows, maps.range().rows);
  maps.document.runs().selection().goBack();
  QVERIFY(maps.settle());
  QCOMPARE(maps.range().distances, Range{});
}

void MapsDistanceTest::dragsPanAndZoom() {
  OpenMaps maps({traceOf(400)}, MapAxes::distance);
  QVERIFY(maps.settle());
  const PlotGeometry before = maps.plot().geometryOfView();
  const QRect rect = before.rect;
  const QPoint from(rect.left() + rect.width() / 4, rect.top() + rect.height() / 4);
  const QPoint to(rect.left() + rect.width() / 2, rect.top() + rect.height() / 2);
  maps.drag(from, to, Qt::RightButton);
  QVERIFY(maps.settle());
  QCOMPARE(maps.range().rows, (Range{before.rowAt(from), before.rowAt(to) + 1}));
  QCOMPARE(maps.range().distances, (Range{before.distanceAt(to.y()), before.distanceAt(from.y()) + 1}));
  const View zoomed = maps.range();
  maps.drag(to, to + QPoint(-rect.width() / 4, rect.height() / 4));
  QVERIFY(maps.settle());
  QVERIFY(maps.range().rows.begin > zoomed.rows.begin);
  QVERIFY(maps.range().distances.begin > zoomed.distances.begin);
  QCOMPARE(maps.range().rows.size(), zoomed.rows.size());
  maps.view.fit();
  QCOMPARE(maps.range(), (View{{0, 400}, {0, 400}}));
}

void MapsDistanceTest::linesHaveAllKeysOfTheirQueries() {
  OpenMaps maps({traceOf(200)}, MapAxes::distance);
  maps.document.runs().selection().setView({{150, 160}, {150, 160}});
  QVERIFY(maps.settle());
  maps.pane().copyEntries(MapLine::Along::row, {155, 155});
  QVERIFY(maps.settle());
  QVERIFY(maps.pane().noteText().contains("156"));
}

}  // namespace foxscope::gui::test

FOXSCOPE_GUI_SUBJECT(maps_distance, foxscope::gui::test::MapsDistanceTest)
#include "maps_distance_test.moc"
