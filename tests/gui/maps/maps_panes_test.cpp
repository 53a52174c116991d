#include <algorithm>
#include <array>
#include <cmath>

#include <QAction>
#include <QTest>
#include <QToolButton>

#include "app/figure/colour_map.h"
#include "app/gui/maps/colour_bar.h"
#include "app/gui/maps/pane/pane_header.h"
#include "app/gui/maps/plot_items.h"
#include "backend/file/run_file.h"
#include "tests/gui/maps/support.h"
#include "tests/gui/subject.h"

namespace foxscope::gui::test {
namespace {

using foxscope::test::make_trace;
using foxscope::test::SyntheticRun;

std::shared_ptr<const Trace> traceNamed(const std::string& name, std::int64_t length = 300) {
  SyntheticRun run;
  run.name = name;
  run.length = length;
  return make_trace(run);
}

/// A pane's map on the screen of the view.
QRect mapIn(OpenMaps& maps, int pane) {
  const QRect map = maps.plot(pane).geometryOfView().rect;
  return {maps.plot(pane).mapTo(&maps.view, map.topLeft()), map.size()};
}

double distance(const QColor& a, const QColor& b) {
  return std::hypot(a.red() - b.red(), a.green() - b.green(), a.blue() - b.blue());
}

}  // namespace

class MapsPanesTest : public QObject {
  Q_OBJECT

 private slots:
  void twoPanesStandWhereSquaresAreLargest();
  void squaresAreAlikeAndFillTheirPanes();
  void fourPanesOfALowViewStandInARow();
  void fourPanesShareTheirAxes();
  void panesOfOtherPositionsHaveTheirOwnAxes();
  void theBarStandsAtTheMapsSide();
  void labelsTakeTheRoomThatTheyNeed();
  void aClickOnAHeaderActivatesItsPaneAlone();
  void theQuantityIsChosenInTheHeader();
  void theActivePaneIsFramed();
  void limitsAreMadeEqualAndFreed();
  void pinsAreSeenOnEveryColourMap();
  void fitsASmallWindow();
  void aChosenHeadIsShownWhereAllPanesKeepOne();
  void aKeptHeadIsLetGoByItsPill();
};

void MapsPanesTest::twoPanesStandWhereSquaresAreLargest() {
  OpenMaps maps({traceNamed("fox")});
  maps.view.resize(1000, 520);
  QVERIFY(maps.settle());
  QCOMPARE(mapIn(maps, 0).top(), mapIn(maps, 1).top());
  QVERIFY(mapIn(maps, 0).right() < mapIn(maps, 1).left());
  maps.view.resize(420, 800);
  QVERIFY(maps.settle());
  QVERIFY(mapIn(maps, 0).bottom() < mapIn(maps, 1).top());
  QVERIFY(mapIn(maps, 0).width() > 250);
  maps.view.resize(1000, 520);
  QVERIFY(maps.settle());
  QCOMPARE(mapIn(maps, 0).top(), mapIn(maps, 1).top());
}

void MapsPanesTest::squaresAreAlikeAndFillTheirPanes() {
  OpenMaps maps({traceNamed("fox")});
  for (const int count : {1, 2, 4}) {
    maps.view.setPaneCount(count);
    for (const QSize size : {QSize(1060, 560), QSize(900, 900), QSize(600, 500)}) {
      maps.view.resize(size);
      QVERIFY(maps.settle());
      const int side = mapIn(maps, 0).width();
      bool tight = false;
      for (int pane = 0; pane < count; ++pane) {
        const QRect map = mapIn(maps, pane);
        QCOMPARE(map.width(), map.height());
        QVERIFY2(std::abs(map.width() - side) <= 2, qPrintable(QString("%1, %2").arg(map.width()).arg(side)));
        // In one direction nothing but header, labels and colours is beside the map.
        const QSize room = maps.pane(pane).roomAroundMap(maps.plot(pane).labelledAxes());
        const QSize rest = maps.pane(pane).size() - room - map.size();
        tight = tight || std::min(rest.width(), rest.height()) <= 3;
      }
      QVERIFY(tight);
    }
  }
}

// Above a high dock of curves there is more room beside one another than below.
void MapsPanesTest::fourPanesOfALowViewStandInARow() {
  OpenMaps maps({traceNamed("fox")});
  maps.view.setPaneCount(4);
  maps.view.resize(1200, 320);
  QVERIFY(maps.settle());
  for (int pane = 1; pane < 4; ++pane) QCOMPARE(mapIn(maps, pane).top(), mapIn(maps, 0).top());
  QVERIFY2(mapIn(maps, 0).width() > 320 / 2, qPrintable(QString::number(mapIn(maps, 0).width())));
  // The labels of the first speak for the rows of all, each has its columns'.
  for (int pane = 0; pane < 4; ++pane) {
    maps.plot(pane).replot(QCustomPlot::rpImmediateRefresh);
    QCOMPARE(!maps.plot(pane).tickLabels(Qt::Vertical).isEmpty(), pane == 0);
    QVERIFY(!maps.plot(pane).tickLabels(Qt::Horizontal).isEmpty());
  }
  maps.view.resize(420, 1400);
  QVERIFY(maps.settle());
  for (int pane = 1; pane < 4; ++pane) QCOMPARE(mapIn(maps, pane).left(), mapIn(maps, 0).left());
}

void MapsPanesTest::fourPanesShareTheirAxes() {
  OpenMaps maps({traceNamed("fox")});
  maps.view.resize(900, 800);
  maps.view.setPaneCount(4);
  QVERIFY(maps.settle());
  for (int pane = 0; pane < 4; ++pane) {
    maps.plot(pane).replot(QCustomPlot::rpImmediateRefresh);
    QCOMPARE(!maps.plot(pane).tickLabels(Qt::Vertical).isEmpty(), pane % 2 == 0);
    QCOMPARE(!maps.plot(pane).tickLabels(Qt::Horizontal).isEmpty(), pane / 2 == 1);
  }
  // Rows and columns of the four lie in line, so that the labels speak for all of them.
  QCOMPARE(mapIn(maps, 0).top(), mapIn(maps, 1).top());
  QCOMPARE(mapIn(maps, 0).left(), mapIn(maps, 2).left());
  QCOMPARE(mapIn(maps, 1).left(), mapIn(maps, 3).left());
  maps.view.setPaneCount(1);
  QVERIFY(maps.settle());
  maps.plot().replot(QCustomPlot::rpImmediateRefresh);
  QVERIFY(!maps.plot().tickLabels(Qt::Vertical).isEmpty() && !maps.plot().tickLabels(Qt::Horizontal).isEmpty());
}

void MapsPanesTest::panesOfOtherPositionsHaveTheirOwnAxes() {
  const auto fox = traceNamed("fox");
  OpenMaps maps({fox, withPairedTokens(*fox, "pairs")});
  maps.view.resize(900, 800);
  maps.view.setPaneCount(4);
  PaneState state = maps.view.paneState(3);
  state.own = NamedHead{"pairs", 0, 0};
  state.setQuantity(Quantity::forget);
  maps.view.setPaneState(3, state);
  QVERIFY(maps.settle());
  for (int pane = 0; pane < 4; ++pane) {
    maps.plot(pane).replot(QCustomPlot::rpImmediateRefresh);
    QVERIFY(!maps.plot(pane).tickLabels(Qt::Vertical).isEmpty());
    QVERIFY(!maps.plot(pane).tickLabels(Qt::Horizontal).isEmpty());
  }
}

void MapsPanesTest::theBarStandsAtTheMapsSide() {
  OpenMaps maps({traceNamed("fox")});
  maps.view.setPaneCount(1);
  for (const QSize size : {QSize(1200, 500), QSize(500, 900)}) {
    maps.view.resize(size);
    QVERIFY(maps.settle());
    const ColourBar& bar = maps.pane().bar();
    const QRect map = mapIn(maps, 0);
    QCOMPARE(bar.mapTo(&maps.view, QPoint(0, 0)).x(), map.left() + map.width());
  }
}

void MapsPanesTest::labelsTakeTheRoomThatTheyNeed() {
  OpenMaps maps({traceNamed("fox")});
  maps.view.setPaneCount(1);
  QVERIFY(maps.settle());
  // Numbers of three figures, ticks and nothing else.
  const QFontMetrics metrics(maps.plot().xAxis->tickLabelFont());
  const int numbers = maps.plot().geometryOfView().rect.left();
  QVERIFY(numbers >= metrics.horizontalAdvance("300"));
  QVERIFY(numbers <= metrics.horizontalAdvance("300") + 12);
  // Tokens are longer.
  maps.document.runs().selection().setView({{40, 52}, {30, 42}});
  QVERIFY(maps.settle());
  QVERIFY(maps.plot().geometryOfView().rect.left() > numbers);
  maps.view.fit();
  QVERIFY(maps.settle());
  QCOMPARE(maps.plot().geometryOfView().rect.left(), numbers);
}

void MapsPanesTest::aClickOnAHeaderActivatesItsPaneAlone() {
  OpenMaps maps({traceNamed("fox")});
  maps.document.runs().selection().setPin({120, 40});
  QVERIFY(maps.settle());
  QCOMPARE(maps.view.activePane(), 0);
  auto* header = maps.pane(1).findChild<PaneHeader*>();
  QTest::mouseClick(header, Qt::LeftButton, {}, QPoint(header->width() - 10, header->height() / 2));
  QCOMPARE(maps.view.activePane(), 1);
  QCOMPARE(maps.document.runs().selection().pin(), (Cursor{120, 40}));
  QCOMPARE(header->height(), header->sizeHint().height());
}

void MapsPanesTest::theQuantityIsChosenInTheHeader() {
  OpenMaps maps({traceNamed("fox")});
  QVERIFY(maps.settle());
  const auto choose = [&](const QString& text) {
    for (QAction* action : maps.pane().findChildren<QAction*>()) {
      if (action->text() == text) return action->trigger();
    }
    QFAIL(qPrintable(text));
  };
  choose("their mean");
  QVERIFY(maps.settle());
  QCOMPARE(maps.view.paneState(0).reduction, Reduction::mean);
  QVERIFY(!maps.view.paneState(1).reduction);
  choose("the largest of its entries (max)");
  QVERIFY(!maps.view.paneState(0).reduction);
  choose("logits S");
  QVERIFY(maps.settle());
  QCOMPARE(maps.view.paneState(0).quantity, Quantity::logits);
  QCOMPARE(maps.pane().titleText(), "fox L0 H0 · logits S");
}

void MapsPanesTest::theActivePaneIsFramed() {
  OpenMaps maps({traceNamed("fox")});
  maps.view.setActivePane(1);
  QVERIFY(maps.settle());
  const QColor accent = maps.view.palette().color(QPalette::Highlight);
  for (int pane = 0; pane < 2; ++pane) {
    const QImage grabbed = maps.pane(pane).grab().toImage();
    const int right = grabbed.width() - 1;
    const int bottom = grabbed.height() - 1;
    for (const QPoint& at :
         {QPoint(right / 2, 0), QPoint(right / 2, bottom), QPoint(0, bottom / 2), QPoint(right, bottom / 2)}) {
      QCOMPARE(sameColour(grabbed.pixel(at), accent.rgb()), pane == 1);
    }
  }
  // One alone needs no sign.
  maps.view.setPaneCount(1);
  QVERIFY(maps.settle());
  QVERIFY(!sameColour(maps.pane().grab().toImage().pixel(0, maps.pane().height() / 2), accent.rgb()));
}

void MapsPanesTest::limitsAreMadeEqualAndFreed() {
  OpenMaps maps({traceNamed("fox")});
  maps.view.setPaneCount(4);
  for (int pane = 0; pane < 3; ++pane) {
    PaneState state = maps.view.paneState(pane);
    state.setQuantity(Quantity::log_forget);
    state.own = NamedHead{"fox", 0, pane};
    maps.view.setPaneState(pane, state);
  }
  QVERIFY(maps.settle());
  std::array<double, 3> lowest{};
  for (int pane = 0; pane < 3; ++pane) lowest[index_of(pane)] = maps.pane(pane).picture()->colours.lower;
  QVERIFY(lowest[0] != lowest[1]);
  const PaneState other = maps.view.paneState(3);
  QAction* equal = nullptr;
  for (QAction* action : maps.view.commands()) {
    if (action->text() == "Equal colour limits") equal = action;
  }
  QVERIFY(equal != nullptr && !equal->isChecked());
  maps.plot().setFocus();
  QTest::keyClick(&maps.plot(), Qt::Key_E);
  QVERIFY(maps.settle());
  QVERIFY(equal->isChecked());
  for (int pane = 0; pane < 3; ++pane) {
    QCOMPARE(maps.pane(pane).picture()->colours.lower, *std::min_element(lowest.begin(), lowest.end()));
  }
  QCOMPARE(maps.view.paneState(3), other);
  // Limits of one pane that are changed by hand are not equal any more.
  PaneState changed = maps.view.paneState(1);
  changed.colours.lower = *changed.colours.lower / 2;
  maps.view.setPaneState(1, changed);
  QVERIFY(!equal->isChecked());
  QTest::keyClick(&maps.plot(), Qt::Key_E);
  QVERIFY(equal->isChecked());
  QTest::keyClick(&maps.plot(), Qt::Key_E);
  QVERIFY(maps.settle());
  QVERIFY(!equal->isChecked());
  for (int pane = 0; pane < 3; ++pane) {
    QCOMPARE(maps.pane(pane).picture()->colours.lower, lowest[index_of(pane)]);
  }
  // Nothing to compare: nothing happens.
  maps.view.setPaneCount(1);
  const PaneState alone = maps.view.paneState(0);
  equal->trigger();
  QCOMPARE(maps.view.paneState(0), alone);
  QVERIFY(!equal->isChecked());
}

void MapsPanesTest::pinsAreSeenOnEveryColourMap() {
  // Of the line and its casing one differs much from any colour below.
  for (const QRgb pin : {kPinnedQueryOnMap, kPinnedKeyOnMap}) {
    QVERIFY(distance(QColor(pin), Qt::white) > 150);
    for (const auto name :
         {figure::ColourMapName::viridis, figure::ColourMapName::cividis, figure::ColourMapName::magma,
          figure::ColourMapName::grey, figure::ColourMapName::diverging}) {
      for (int step = 0; step <= 100; ++step) {
        const figure::Rgb colour = figure::colourAt(figure::colourMapOf(name), step / 100.0);
        const QColor ground(colour.red, colour.green, colour.blue);
        QVERIFY(std::max(distance(QColor(pin), ground), distance(Qt::white, ground)) > 120);
      }
    }
  }
  QVERIFY(distance(QColor(kPinnedQueryOnMap), QColor(kPinnedKeyOnMap)) > 150);
  // And so they are drawn.
  OpenMaps maps({traceNamed("fox")});
  maps.view.setPaneCount(1);
  QVERIFY(maps.settle());
  maps.document.runs().selection().setPin({200, 100});
  QVERIFY(maps.settle());
  const QImage drawn = maps.plot().grab().toImage();
  const auto colours = [&](const QPoint& from, const QPoint& step) {
    QList<QRgb> found;
    for (int n = -3; n <= 3; ++n) found += drawn.pixel(from + n * step);
    return found;
  };
  const QList<QRgb> row = colours(maps.cell(200, 50), {0, 1});
  const QList<QRgb> column = colours(maps.cell(250, 100), {1, 0});
  QVERIFY(row.contains(kPinnedQueryOnMap) && row.contains(qRgb(255, 255, 255)));
  QVERIFY(column.contains(kPinnedKeyOnMap) && column.contains(qRgb(255, 255, 255)));
}

void MapsPanesTest::fitsASmallWindow() {
  OpenMaps maps({traceNamed("a-model-with-a-rather-long-name")});
  maps.view.setPaneCount(4);
  // What a window of 1024 x 700 leaves for them between its docks is more.
  maps.view.resize(560, 400);
  QVERIFY(maps.settle());
  QCOMPARE(maps.view.size(), QSize(560, 400));
  for (int pane = 0; pane < 4; ++pane) {
    QVERIFY(mapIn(maps, pane).width() > 80);
    // Nothing of a header lies over something else.
    auto* header = maps.pane(pane).findChild<PaneHeader*>();
    int end = 0;
    for (const auto* button : header->findChildren<QToolButton*>(Qt::FindDirectChildrenOnly)) {
      if (button->isHidden()) continue;  // comparing goes by keys too
      QVERIFY2(button->x() >= end, qPrintable(QString("%1 at %2, not from %3, least %4 of %5, header %6")
                                                  .arg(button->text())
                                                  .arg(button->x())
                                                  .arg(end)
                                                  .arg(button->minimumSizeHint().width())
                                                  .arg(button->sizeHint().width())
                                                  .arg(header->width())));
      end = button->x() + button->width();
    }
    QVERIFY2(header->readout().x() + header->readout().width() <= header->width(), "the value is cut off");
    QVERIFY(header->readout().width() >= header->readout().sizeHint().width());
    QVERIFY2(end <= header->width(), qPrintable(QString("%1 of %2").arg(end).arg(header->width())));
  }
}

void MapsPanesTest::aChosenHeadIsShownWhereAllPanesKeepOne() {
  OpenMaps maps({traceNamed("fox")});
  Selection& selection = maps.document.runs().selection();
  const RunId fox = maps.document.runs()[0].id;
  selection.setHead({fox, 0, 0});
  const auto keep = [&](int pane, int head) {
    PaneState state = maps.view.paneState(pane);
    state.own = NamedHead{"fox", 1, head};
    maps.view.setPaneState(pane, state);
  };
  keep(0, 1);
  maps.view.setActivePane(0);
  QVERIFY(maps.settle());
  // The other pane follows, so that the kept one stays.
  selection.setHead({fox, 0, 3});
  QVERIFY(maps.settle());
  QVERIFY(maps.view.paneState(0).own == (NamedHead{"fox", 1, 1}));
  QVERIFY(maps.pane(1).titleText().contains("L0 H3"));
  // All are kept: the active one takes the head that is chosen, in one pane and in two.
  keep(1, 2);
  selection.setHead({fox, 1, 3});
  QVERIFY(maps.settle());
  QVERIFY(!maps.view.paneState(0).own && maps.pane(0).titleText().contains("L1 H3"));
  QVERIFY(maps.view.paneState(1).own == (NamedHead{"fox", 1, 2}));
  maps.view.setPaneCount(1);
  keep(0, 0);
  selection.setHead({fox, 0, 2});
  QVERIFY(maps.settle());
  QVERIFY(!maps.view.paneState(0).own && maps.pane(0).titleText().contains("L0 H2"));
  // A head that its pane shows already needs no other place.
  keep(0, 1);
  selection.setHead({fox, 1, 1});
  QVERIFY(maps.view.paneState(0).own.has_value());
}

void MapsPanesTest::aKeptHeadIsLetGoByItsPill() {
  OpenMaps maps({traceNamed("fox")});
  QVERIFY(maps.settle());
  const auto pill = [&](int pane) { return maps.pane(pane).findChild<QToolButton*>("kept"); };
  QVERIFY(!pill(0)->isVisible());
  PaneState state = maps.view.paneState(0);
  state.own = NamedHead{"fox", 1, 1};
  maps.view.setPaneState(0, state);
  for (const int width : {1000, 420}) {
    maps.view.resize(width, 520);
    QVERIFY(maps.settle());
    QVERIFY(pill(0)->isVisible() && !pill(1)->isVisible());
    QVERIFY(pill(0)->text().contains(QStringLiteral("×")));
    QVERIFY(pill(0)->parentWidget()->rect().contains(pill(0)->geometry()));
  }
  // In the accent's colour, unlike everything else of the header.
  const QImage picture = pill(0)->grab().toImage();
  const QColor accent = maps.view.palette().color(QPalette::Highlight);
  int accented = 0;
  for (int x = 0; x < picture.width(); ++x) accented += picture.pixelColor(x, picture.height() / 3) == accent ? 1 : 0;
  QVERIFY(2 * accented > picture.width() / 2);
  QTest::mouseClick(pill(0), Qt::LeftButton);
  QVERIFY(!maps.view.paneState(0).own);
  QTRY_VERIFY(!pill(0)->isVisible());
}

}  // namespace foxscope::gui::test

FOXSCOPE_GUI_SUBJECT(maps_panes, foxscope::gui::test::MapsPanesTest)
#include "backend/base/index.h"
#include "maps_panes_test.moc"
