#include <array>
#include <cmath>

#include <QAction>
#include <QTest>

#include "app/gui/document/number_text.h"
#include "tests/gui/maps/support.h"
#include "tests/gui/subject.h"

namespace foxscope::gui::test {
namespace {

/// Where the wheel is turned, relative to the plot's map: 0 to 1.
QPoint pointAt(const MapPlot& plot, double x, double y) {
  const QRect rect = plot.geometryOfView().rect;
  return {rect.left() + static_cast<int>(x * rect.width()), rect.top() + static_cast<int>(y * rect.height())};
}

}  // namespace

class MapsGesturesTest : public QObject {
  Q_OBJECT

 private slots:
  void wheelZoomsAtThePointer();
  void wheelStepsAreFineAndFast();
  void wheelBesideTheMapZoomsOneAxis();
  void dragPans();
  void rightDragZoomsToARectangle();
  void toolZoomsUntilEscape();
  void doubleClickFitsAndKeepsThePin();
  void keysMoveTheView();
  void backspaceGoesBack();
  void hoverShowsTheEntry();
  void theReadoutIsExactWhateverAPixelHolds();
  void theReadoutFollowsTheWheel();
  void clickPinsBothAndShiftTheKey();
};

void MapsGesturesTest::wheelZoomsAtThePointer() {
  OpenMaps maps({traceOf(400)});
  QVERIFY(maps.settle());
  const QPoint at = pointAt(maps.plot(), 0.25, 0.75);
  const std::int64_t row = maps.plot().geometryOfView().rowAt(at);
  const std::int64_t column = maps.plot().geometryOfView().columnAt(at);
  maps.wheel(at, 4);
  QVERIFY(maps.settle());
  QCOMPARE(maps.range().rows.size(), std::llround(400 / std::pow(1.25, 4)));
  QCOMPARE(maps.range().columns.size(), maps.range().rows.size());
  QVERIFY(std::abs(maps.plot().geometryOfView().rowAt(at) - row) <= 1);
  QVERIFY(std::abs(maps.plot().geometryOfView().columnAt(at) - column) <= 1);
  // Both panes show the same part.
  QCOMPARE(maps.plot(1).geometryOfView().view, maps.range());
  QCOMPARE(maps.pane(1).picture()->request.view, maps.range());
  maps.wheel(at, -20);
  QVERIFY(maps.settle());
  QCOMPARE(maps.range(), (View{{0, 400}, {0, 400}}));
}

void MapsGesturesTest::wheelStepsAreFineAndFast() {
  OpenMaps maps({traceOf(400)});
  QVERIFY(maps.settle());
  const QPoint middle = pointAt(maps.plot(), 0.5, 0.5);
  maps.wheel(middle, 1, Qt::ControlModifier);
  QCOMPARE(maps.range().rows.size(), std::llround(400 / 1.05));
  maps.view.fit();
  QVERIFY(maps.settle());
  maps.wheel(middle, 1, Qt::ShiftModifier);
  QCOMPARE(maps.range().rows.size(), 200);
}

void MapsGesturesTest::wheelBesideTheMapZoomsOneAxis() {
  OpenMaps maps({traceOf(400)});
  for (QAction* action : maps.view.commands()) {
    if (action->text() == "Square tokens") action->trigger();
  }
  QVERIFY(maps.settle());
  const QRect rect = maps.plot().geometryOfView().rect;
  maps.wheel({rect.left() / 2, rect.center().y()}, 2);
  QVERIFY(maps.range().rows.size() < 400);
  QCOMPARE(maps.range().columns, (Range{0, 400}));
  QVERIFY(maps.settle());
  maps.wheel({rect.center().x(), rect.bottom() + 8}, 1);
  QVERIFY(maps.range().columns.size() < 400);
}

void MapsGesturesTest::dragPans() {
  OpenMaps maps({traceOf(400)});
  maps.document.runs().selection().setView({{100, 200}, {100, 200}});
  maps.document.runs().selection().endMovement();
  QVERIFY(maps.settle());
  const QRect rect = maps.plot().geometryOfView().rect;
  const QPoint from = rect.center();
  maps.drag(from, from + QPoint(-rect.width() / 4, rect.height() / 10));
  QVERIFY(maps.settle());
  QVERIFY(std::abs(maps.range().columns.begin - 125) <= 1);
  QVERIFY(std::abs(maps.range().rows.begin - 90) <= 1);
  QCOMPARE(maps.range().rows.size(), 100);
  QVERIFY(!maps.document.runs().selection().pin().query);
  // A drag is one step of the history.
  maps.document.runs().selection().goBack();
  QCOMPARE(maps.range(), (View{{100, 200}, {100, 200}}));
  maps.settle();
  maps.drag(from, from + QPoint(rect.width() * 3, rect.height() * 3));
  QCOMPARE(maps.range(), (View{{0, 100}, {0, 100}}));
}

void MapsGesturesTest::rightDragZoomsToARectangle() {
  OpenMaps maps({traceOf(100)});
  QVERIFY(maps.settle());
  maps.drag(maps.cell(50, 25), maps.cell(70, 37), Qt::RightButton);
  QVERIFY(maps.settle());
  // Square: the longer side decides, and the whole rectangle is inside.
  QCOMPARE(maps.range().rows, (Range{50, 71}));
  QCOMPARE(maps.range().columns.size(), 21);
  QVERIFY(maps.range().columns.begin <= 25 && maps.range().columns.end >= 38);
}

void MapsGesturesTest::toolZoomsUntilEscape() {
  OpenMaps maps({traceOf(100)});
  QVERIFY(maps.settle());
  maps.plot().setFocus();
  QTest::keyClick(&maps.plot(), Qt::Key_Z);
  maps.drag(maps.cell(30, 15), maps.cell(69, 49));
  QCOMPARE(maps.range().rows, (Range{30, 70}));
  QVERIFY(maps.settle());
  QTest::keyClick(&maps.plot(), Qt::Key_Escape);
  const View before = maps.range();
  maps.drag(maps.cell(45, 20), maps.cell(55, 30));
  QCOMPARE(maps.range().rows.size(), before.rows.size());
  QVERIFY(maps.range() != before);
}

void MapsGesturesTest::doubleClickFitsAndKeepsThePin() {
  OpenMaps maps({traceOf(400)});
  maps.document.runs().selection().setPin({120, 110});
  maps.document.runs().selection().setView({{100, 200}, {100, 200}});
  QVERIFY(maps.settle());
  const QPoint at = maps.cell(180, 150);
  QTest::mouseClick(&maps.plot(), Qt::LeftButton, {}, at);
  QTest::mouseDClick(&maps.plot(), Qt::LeftButton, {}, at);
  QCOMPARE(maps.range(), (View{{0, 400}, {0, 400}}));
  QCOMPARE(maps.document.runs().selection().pin(), (Cursor{120, 110}));
}

void MapsGesturesTest::keysMoveTheView() {
  OpenMaps maps({traceOf(400)});
  maps.document.runs().selection().setView({{100, 200}, {100, 200}});
  QVERIFY(maps.settle());
  QWidget* plot = &maps.plot();
  plot->setFocus();
  QTest::keyClick(plot, Qt::Key_Right);
  QTest::keyClick(plot, Qt::Key_Down);
  QCOMPARE(maps.range(), (View{{110, 210}, {110, 210}}));
  QTest::keyClick(plot, Qt::Key_Left, Qt::ControlModifier);
  QTest::keyClick(plot, Qt::Key_Up);
  QCOMPARE(maps.range(), (View{{100, 200}, {20, 120}}));
  QTest::keyClick(plot, Qt::Key_Plus);
  QCOMPARE(maps.range(), (View{{125, 175}, {45, 95}}));
  QTest::keyClick(plot, Qt::Key_Minus);
  QCOMPARE(maps.range(), (View{{100, 200}, {20, 120}}));
  QTest::keyClick(plot, Qt::Key_0, Qt::ControlModifier);
  QCOMPARE(maps.range(), (View{{0, 400}, {0, 400}}));
  QTest::keyClick(plot, Qt::Key_Q);
  QCOMPARE(maps.view.paneState(0).quantity, Quantity::log_forget);
  QTest::keyClick(plot, Qt::Key_4);
  QVERIFY(maps.settle());
  QCOMPARE(maps.view.paneCount(), 4);
  QVERIFY(maps.pane(3).picture());
  QTest::keyClick(plot, Qt::Key_Tab);
  QVERIFY(maps.plot(1).hasFocus());
  QCOMPARE(maps.view.activePane(), 1);
  QTest::keyClick(&maps.plot(1), Qt::Key_1);
  QCOMPARE(maps.view.paneCount(), 1);
  QCOMPARE(maps.view.activePane(), 0);
}

void MapsGesturesTest::backspaceGoesBack() {
  OpenMaps maps({traceOf(400)});
  QVERIFY(maps.settle());
  maps.plot().setFocus();
  QTest::keyClick(&maps.plot(), Qt::Key_Plus);
  QTest::keyClick(&maps.plot(), Qt::Key_Plus);
  QCOMPARE(maps.range().rows.size(), 100);
  QTest::keyClick(&maps.plot(), Qt::Key_Backspace);
  QCOMPARE(maps.range().rows.size(), 200);
  QTest::keyClick(&maps.plot(), Qt::Key_Backspace);
  QCOMPARE(maps.range(), (View{{0, 400}, {0, 400}}));
}

void MapsGesturesTest::hoverShowsTheEntry() {
  const auto trace = traceOf(60);
  OpenMaps maps({trace});
  QVERIFY(maps.settle());
  maps.moveTo(maps.cell(40, 21));
  QCOMPARE(maps.document.runs().selection().hover(), (Cursor{40, 21}));
  QVERIFY(maps.settle());
  const std::span<const double> c = trace->cumulative_log_gate(0, 0);
  const QString readout = maps.pane().readoutText();
  QVERIFY2(readout.startsWith(QString("F = %1 · ").arg(numberOf(std::exp(c[40] - c[21]), 3))), qPrintable(readout));
  QVERIFY(readout.contains(QString("i 40 “%1”").arg(readText(*trace->tokens(), 40, Whitespace::visible))));
  QVERIFY(readout.contains(QString("j 21 “%1”").arg(readText(*trace->tokens(), 21, Whitespace::visible))));
  // In the header the same in short.
  QCOMPARE(maps.pane().reading().value, numberOf(std::exp(c[40] - c[21]), 3));
  QCOMPARE(maps.pane().reading().query, "i 40 " + readText(*trace->tokens(), 40, Whitespace::visible));
  QCOMPARE(maps.pane().reading().key, "j 21 " + readText(*trace->tokens(), 21, Whitespace::visible));
  QCOMPARE(maps.pane().reading().distance, "i−j 19");
  QVERIFY(readout.contains("distance i − j 19"));
  // The other pane reads its own quantity at the same place.
  QVERIFY(maps.pane(1).readoutText().startsWith("A = "));
  maps.moveTo(maps.cell(21, 40));
  QVERIFY2(maps.pane().readoutText().contains("no entry"), qPrintable(maps.pane().readoutText()));
  QEvent leave(QEvent::Leave);
  QCoreApplication::sendEvent(&maps.plot(), &leave);
  QCOMPARE(maps.document.runs().selection().hover(), Cursor());
}

// Pixels are the largest of several entries, and other ones for each size of the pane.
void MapsGesturesTest::theReadoutIsExactWhateverAPixelHolds() {
  const auto trace = traceOf(2500);
  OpenMaps maps({trace});
  maps.view.setPaneCount(4);
  maps.document.runs().selection().setPin({2000, 1500});
  const std::array<std::pair<Quantity, const char*>, 4> shown{{{Quantity::forget, "F"},
                                                               {Quantity::attention, "A"},
                                                               {Quantity::attention_without_gate, "A without gate"},
                                                               {Quantity::gate_effect, "gate effect"}}};
  for (const QSize size : {QSize(900, 700), QSize(640, 500)}) {
    maps.view.resize(size);
    QVERIFY(maps.settle());
    for (int pane = 0; pane < 4; ++pane) {
      const auto& [quantity, name] = shown[index_of(pane)];
      MapRequest request;
      request.head = {maps.document.runs()[0].trace, 0, 0};
      request.quantity = quantity;
      request.rows = {2000, 2001};
      request.columns = {1500, 1501};
      request.pixel_rows = 1;
      request.pixel_columns = 1;
      const auto exact = static_cast<double>(compute_map(request, {})->value.front());
      const QString readout = maps.pane(pane).readoutText();
      QVERIFY2(readout.startsWith(QString("%1 = %2 · ").arg(QString(name), numberOf(exact, 3))), qPrintable(readout));
      const auto pixel = static_cast<double>(maps.pane(pane).picture()->value(0, 2000, 1500));
      QVERIFY(pixel != exact);
      QVERIFY2(readout.endsWith(QString(": %1").arg(numberOf(pixel, 3))), qPrintable(readout));
      QVERIFY2(readout.contains(" · its pixel, "), qPrintable(readout));
    }
  }
}

void MapsGesturesTest::theReadoutFollowsTheWheel() {
  OpenMaps maps({traceOf(400)});
  maps.view.setPaneCount(1);
  QVERIFY(maps.settle());
  const QPoint at = maps.cell(300, 100);
  maps.moveTo(at);
  QVERIFY(maps.settle());
  const Cursor before = maps.document.runs().selection().hover();
  maps.wheel(at, 12);
  QVERIFY(maps.settle());
  const PlotGeometry& geometry = maps.plot().geometryOfView();
  const Cursor under{geometry.rowAt(at), geometry.columnAt(at)};
  QCOMPARE(maps.document.runs().selection().hover(), under);
  QVERIFY(maps.range().rows.size() < 100);
  const QString readout = maps.pane().readoutText();
  QVERIFY2(readout.contains(QString("i %1 ").arg(*under.query)), qPrintable(readout));
  // Away from the anchor the entry under a pointer is another after each step.
  maps.wheel(maps.cell(geometry.view.rows.begin, geometry.view.columns.begin), -4);
  QVERIFY(maps.settle());
  const QPoint corner = maps.plot().geometryOfView().rect.topLeft() + QPoint(1, 1);
  maps.moveTo(corner);
  maps.document.runs().selection().setView({{200, 260}, {0, 60}});
  QVERIFY(maps.settle());
  QCOMPARE(maps.document.runs().selection().hover(), (Cursor{200, 0}));
  QVERIFY(before.query.has_value());
}

void MapsGesturesTest::clickPinsBothAndShiftTheKey() {
  OpenMaps maps({traceOf(60)});
  QVERIFY(maps.settle());
  QTest::mouseClick(&maps.plot(), Qt::LeftButton, {}, maps.cell(40, 21));
  QCOMPARE(maps.document.runs().selection().pin(), (Cursor{40, 21}));
  QTest::mouseClick(&maps.plot(1), Qt::LeftButton, Qt::ShiftModifier, maps.cell(55, 10, 1));
  QCOMPARE(maps.document.runs().selection().pin(), (Cursor{40, 10}));
  QCOMPARE(maps.view.activePane(), 1);
  // Above the diagonal there is no pair: the query alone.
  QTest::mouseClick(&maps.plot(), Qt::LeftButton, {}, maps.cell(5, 50));
  QCOMPARE(maps.document.runs().selection().pin(), (Cursor{5, std::nullopt}));
}

}  // namespace foxscope::gui::test

FOXSCOPE_GUI_SUBJECT(maps_gestures, foxscope::gui::test::MapsGesturesTest)
#include "backend/base/index.h"
#include "maps_gestures_test.moc"
