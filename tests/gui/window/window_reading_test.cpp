// Comparing and reading in the whole window, by mouse and keys: what the tests of single views know of their parts.
#include <algorithm>
#include <cmath>

#include <QAction>
#include <QApplication>
#include <QClipboard>
#include <QComboBox>
#include <QDockWidget>
#include <QMenu>
#include <QTabBar>
#include <QTabWidget>
#include <QTableView>
#include <QTest>
#include <QToolButton>

#include "app/gui/curves/curves_view.h"
#include "app/gui/curves/tabs/profile_tab.h"
#include "app/gui/evaluations/evaluations_view.h"
#include "app/gui/evaluations/value_grid.h"
#include "app/gui/heads/heads_view.h"
#include "app/gui/maps/map_plot.h"
#include "app/gui/maps/maps_view.h"
#include "app/gui/maps/pane/map_pane.h"
#include "app/gui/maps/pane/pane_header.h"
#include "app/gui/maps/pane/pane_menu.h"
#include "app/gui/text/text_page.h"
#include "app/gui/text/text_view.h"
#include "app/gui/words/words_view.h"
#include "tests/gui/subject.h"
#include "tests/gui/window/window_shown.h"

namespace foxscope::gui::test {
namespace {

struct Reading : Window {
  MapPane& pane(int index) { return window.maps().pane(index); }
  MapPlot& plot(int index) { return pane(index).plot(); }
  /// The middle of an entry's cell.
  QPoint cell(std::int64_t row, std::int64_t column, int index) {
    const PlotGeometry& geometry = plot(index).geometryOfView();
    return geometry.cell(row, column).center().toPoint();
  }
  void key(Qt::Key key, Qt::KeyboardModifiers modifiers = {}) {
    plot(1).setFocus();
    QTest::keyClick(&plot(1), key, modifiers);
  }
  QToolButton* button(const QString& words) {
    for (auto* each : window.maps().findChildren<QToolButton*>()) {
      if (each->text() == words && each->isVisible()) return each;
    }
    return nullptr;
  }
  template <typename Menu>
  QAction* entry(const Menu& menu, const QString& words) {
    for (QAction* action : menu.actions()) {
      if (action->text().startsWith(words)) return action;
    }
    return nullptr;
  }
};

}  // namespace

class WindowReadingTest : public QObject {
  Q_OBJECT

 private slots:
  void initTestCase() { useOwnSettings(); }
  void theEntryUnderTheMouseIsReadInEveryPane();
  void rowsAreCopiedFromTheMenuOfAMap();
  void linesOfAMapBecomeCurvesFromItsMenu();
  void pinsAreLockedUndoneAndZoomedTo();
  void aClickOnATitleChoosesThePaneAlone();
  void limitsAreEqualWithOneButton();
  void keyZeroIsLeftOutWithOneKey();
  void theFastestAndTheSlowestHeadStandBesideEachOtherWithOneKey();
  void picturesOfHeadsAreSortedAndChosen();
  void curvesHaveATabForEveryQuestion();
  void wordsStandBesideTheText();
  void evaluationsOpenAndTellTheirCells();
  void menusSayWhatIsChosen();
};

void WindowReadingTest::theEntryUnderTheMouseIsReadInEveryPane() {
  Reading test;
  QVERIFY(test.run(64));
  const QPoint place = test.cell(50, 20, 1);
  QTest::mouseMove(&test.plot(1), place + QPoint(2, 0));
  QTest::mouseMove(&test.plot(1), place);
  QTRY_VERIFY(test.document().runs().selection().hover().query == 50);
  QVERIFY(test.settle());
  const Run& fox = test.document().runs()[0];
  const HeadChoice head = test.document().runs().selection().head();
  const PairReading expected = pair_reading({fox.trace, head.layer, head.head}, 50, 20);
  const auto near = [](const PaneReading& reading, double value) {
    return std::abs(reading.value.toDouble() - value) <= 0.01 * std::abs(value) || reading.value.contains('e');
  };
  for (const auto& [pane, value] : {std::pair{0, expected.forget}, {1, expected.attention}}) {
    const PaneReading& reading = test.pane(pane).reading();
    QVERIFY2(near(reading, value), qPrintable(reading.whole));
    QVERIFY(reading.query.startsWith("i 50 ") && reading.key.startsWith("j 20 "));
    QCOMPARE(reading.distance, "i−j 30");
  }
}

void WindowReadingTest::rowsAreCopiedFromTheMenuOfAMap() {
  Reading test;
  QVERIFY(test.run(64));
  QTest::mouseClick(&test.plot(1), Qt::RightButton, {}, test.cell(50, 20, 1));
  auto* menu = test.pane(1).findChild<PaneMenu*>();
  QVERIFY(menu != nullptr);
  QTRY_VERIFY(menu->isVisible());
  QApplication::clipboard()->setText("before");
  test.entry(*menu, "Copy row")->trigger();
  menu->close();
  QTRY_VERIFY(QApplication::clipboard()->text().startsWith("i\ttoken_i\tj\t"));
  QCOMPARE(QApplication::clipboard()->text().count('\n'), 1 + 51);
}

void WindowReadingTest::linesOfAMapBecomeCurvesFromItsMenu() {
  Reading test;
  QVERIFY(test.run(64));
  auto* dock = test.window.findChild<QDockWidget*>("curves");
  dock->hide();
  const auto* tab = dock->findChild<curves::ProfileTab*>();
  struct Line {
    const char* words;
    MapLine::Along along;
    int pairs;
  };
  for (const auto& [words, along, pairs] :
       {Line{"Column", MapLine::Along::column, 64 - 20},
        Line{"Diagonal (distance 30)", MapLine::Along::diagonal, 64 - 30}, Line{"Row", MapLine::Along::row, 50 + 1}}) {
    QTest::mouseClick(&test.plot(1), Qt::RightButton, {}, test.cell(50, 20, 1));
    auto* menu = test.pane(1).findChild<PaneMenu*>();
    QVERIFY(menu != nullptr);
    QTRY_VERIFY(menu->isVisible());
    test.entry(*menu, words)->trigger();
    menu->close();
    QCoreApplication::sendPostedEvents(nullptr, QEvent::DeferredDelete);
    QVERIFY(test.settle());
    QVERIFY(dock->isVisible());
    QCOMPARE(test.window.curves().tab(), CurvesView::Tab::profile);
    QCOMPARE(tab->along(), along);
    QCOMPARE(test.document().runs().selection().pin(), (Cursor{50, 20}));
    QVERIFY2(tab->message().isEmpty(), qPrintable(tab->message()));
    QCOMPARE(tab->data().count('\n'), 1 + pairs);
  }
}

void WindowReadingTest::pinsAreLockedUndoneAndZoomedTo() {
  Reading test;
  QVERIFY(test.run(64));
  Selection& selection = test.document().runs().selection();
  QTest::mouseClick(&test.plot(1), Qt::LeftButton, {}, test.cell(50, 20, 1));
  QTRY_COMPARE(selection.pin().query, 50);
  test.key(Qt::Key_M);
  QCOMPARE(selection.locks().size(), 1U);
  QTest::mouseClick(&test.plot(1), Qt::LeftButton, {}, test.cell(40, 10, 1));
  QTRY_COMPARE(selection.pin().query, 40);
  QCOMPARE(selection.locks().size(), 1U);
  test.key(Qt::Key_P);
  QVERIFY(selection.view().rows.size() < 30);
  test.key(Qt::Key_Backspace);
  QCOMPARE(selection.view().rows.size(), 64);
  press(test.window, QKeySequence("Ctrl+Z"));
  QTRY_VERIFY(selection.pin().query != 40 || selection.locks().empty());
}

void WindowReadingTest::aClickOnATitleChoosesThePaneAlone() {
  Reading test;
  QVERIFY(test.run(64));
  test.document().runs().selection().setPin({50, 20});
  QVERIFY(test.settle());
  test.window.maps().setActivePane(0);
  auto* header = test.pane(1).findChild<PaneHeader*>();
  QTest::mouseClick(&header->readout(), Qt::LeftButton);
  QCOMPARE(test.window.maps().activePane(), 1);
  QVERIFY(test.document().runs().selection().pin() == (Cursor{50, 20}));
}

void WindowReadingTest::limitsAreEqualWithOneButton() {
  Reading test;
  QVERIFY(test.run(64));
  PaneState state = test.window.maps().paneState(1);
  state.own = NamedHead{test.document().runs()[1].name, 0, 1};
  state.setQuantity(Quantity::attention);
  test.window.maps().setPaneState(1, state);
  state.own = NamedHead{test.document().runs()[0].name, 3, 0};
  test.window.maps().setPaneState(0, state);
  QVERIFY(test.settle());
  QToolButton* equal = test.button("Equal limits");
  QVERIFY(equal != nullptr);
  QTest::mouseClick(equal, Qt::LeftButton);
  QVERIFY(test.settle());
  QVERIFY(equal->isChecked());
  QCOMPARE(test.pane(0).picture()->colours.lower, test.pane(1).picture()->colours.lower);
  QCOMPARE(test.pane(0).picture()->colours.upper, test.pane(1).picture()->colours.upper);
}

void WindowReadingTest::keyZeroIsLeftOutWithOneKey() {
  Reading test;
  QVERIFY(test.run(64));
  QVERIFY(!std::isnan(test.pane(1).picture()->value(0, 50, 0)));
  test.key(Qt::Key_0);
  QVERIFY(test.settle());
  QVERIFY(std::isnan(test.pane(1).picture()->value(0, 50, 0)));
  QVERIFY(test.pane(1).titleText().endsWith("without key 0"));
  test.key(Qt::Key_0);
  QVERIFY(test.settle());
  QVERIFY(!std::isnan(test.pane(1).picture()->value(0, 50, 0)));
}

void WindowReadingTest::theFastestAndTheSlowestHeadStandBesideEachOtherWithOneKey() {
  Reading test;
  QVERIFY(test.run(64));
  MapsView& maps = test.window.maps();
  const QJsonObject before = maps.saveState();
  test.key(Qt::Key_S);
  QVERIFY(test.settle());
  QCOMPARE(maps.paneCount(), 4);
  const Run& fox = test.document().runs()[0];
  // T = -L / c_L, the last of the cumulative log gates.
  const auto rate = [&](const NamedHead& head) {
    return -fox.trace->cumulative_log_gate(head.layer, head.head).back();
  };
  const NamedHead fastest = *maps.paneState(0).own;
  const NamedHead slowest = *maps.paneState(2).own;
  for (int layer = 0; layer < 8; ++layer) {
    for (int head = 0; head < 4; ++head) {
      QVERIFY(rate({fox.name, layer, head}) <= rate(fastest) && rate({fox.name, layer, head}) >= rate(slowest));
    }
  }
  QVERIFY(maps.paneState(1).own == fastest && maps.paneState(3).own == slowest);
  QCOMPARE(maps.paneState(0).quantity, Quantity::forget);
  QCOMPARE(maps.paneState(3).quantity, Quantity::attention);
  // Once more: the maps that were there, which follow the chosen head.
  test.key(Qt::Key_S);
  QVERIFY(test.settle());
  QCOMPARE(maps.saveState().value("panes"), before.value("panes"));
  QCOMPARE(maps.paneCount(), 2);
  // A Transformer forgets nothing.
  test.document().runs().selection().setHead({test.document().runs()[1].id, 0, 0});
  test.key(Qt::Key_S);
  QVERIFY(test.said("has no forget gate"));
}

void WindowReadingTest::picturesOfHeadsAreSortedAndChosen() {
  Reading test;
  QVERIFY(test.run(64));
  HeadsView& heads = test.window.headsView();
  heads.setTab(HeadsView::Tab::pictures);
  for (auto* box : heads.findChildren<QComboBox*>()) {
    if (box->accessibleName() == "Order of the pictures") box->setCurrentIndex(1);
  }
  HeadGallery& gallery = heads.gallery();
  // The order is that of numbers that are still being computed.
  QVERIFY(test.settle());
  QVERIFY(gallery.heads().size() > 1);
  const HeadChoice second = gallery.heads()[1];
  QTest::mouseClick(&gallery, Qt::LeftButton, {}, gallery.cell(gallery.heads()[0]).center());
  QVERIFY(test.document().runs().selection().head() == gallery.heads()[0]);
  QTest::keyClick(&gallery, Qt::Key_Right);
  QVERIFY(test.document().runs().selection().head() == second);
  // A label leaves some of them.
  const std::size_t all = gallery.heads().size();
  heads.setLabel(HeadLabel::local);
  QVERIFY(gallery.heads().size() <= all);
}

void WindowReadingTest::curvesHaveATabForEveryQuestion() {
  Reading test;
  QVERIFY(test.run(64));
  auto* dock = test.window.findChild<QDockWidget*>("curves");
  auto* tabs = dock->findChild<QTabBar*>();
  QStringList names;
  for (int tab = 0; tab < tabs->count(); ++tab) {
    QTest::mouseClick(tabs, Qt::LeftButton, {}, tabs->tabRect(tab).center());
    QCOMPARE(tabs->currentIndex(), tab);
    names += tabs->tabText(tab);
    QVERIFY(test.settle());
  }
  QCOMPARE(names, (QStringList{"Loss", "P(l)", "Profile", "Gate", "Decay", "Distance", "Content", "Saliency"}));
  // A click on a token of the highest loss goes there.
  tabs->setCurrentIndex(0);
  QVERIFY(test.settle());
  QTableView* list = nullptr;
  for (auto* table : dock->findChildren<QTableView*>()) {
    if (table->isVisible()) list = table;
  }
  QVERIFY(list != nullptr);
  QTRY_VERIFY(list->model()->rowCount() > 3);
  const QModelIndex third = list->model()->index(2, 1);
  QTest::mouseClick(list->viewport(), Qt::LeftButton, {}, list->visualRect(third).center());
  QTRY_COMPARE(test.document().runs().selection().pin().query, third.data().toInt());
  // Losses have two decimals, which stand below one another.
  for (int row = 0; row < list->model()->rowCount(); ++row) {
    const QString loss = list->model()->index(row, 2).data().toString();
    QCOMPARE(loss.size() - loss.indexOf('.'), 3);
  }
}

void WindowReadingTest::wordsStandBesideTheText() {
  Window test;
  QVERIFY(test.run(256));
  auto* dock = test.window.findChild<QDockWidget*>("words");
  QVERIFY(!dock->isVisible());
  press(test.window, QKeySequence("Ctrl+W"));
  QVERIFY(test.settle());
  QTableView& table = test.window.words().table();
  QTRY_VERIFY(table.isVisible() && table.hasFocus());
  QVERIFY(table.model()->rowCount() > 100);
  // A row is what text and maps have pinned, and what is pinned there is the row.
  const QModelIndex row = table.model()->index(3, WordRows::kWord);
  QTest::mouseClick(table.viewport(), Qt::LeftButton, {}, table.visualRect(row).center());
  const Cursor pin = test.document().runs().selection().pin();
  QVERIFY(pin.query);
  QTest::keyClick(&table, Qt::Key_Down);
  QVERIFY(test.document().runs().selection().pin().query > pin.query);
  auto* page = test.window.text().findChild<TextPage*>();
  QTest::mouseClick(page->viewport(), Qt::LeftButton, {}, page->cellRect(*pin.query).center().toPoint());
  QCOMPARE(test.document().runs().selection().pin().query, pin.query);
  QCOMPARE(table.currentIndex().row(), 3);
  press(test.window, QKeySequence("Ctrl+W"));
  QTRY_VERIFY(!dock->isVisible());
}

void WindowReadingTest::evaluationsOpenAndTellTheirCells() {
  Reading test;
  test.document().open({source("resources/figures/needle.h5"), source("resources/figures/loss.h5")});
  auto* dock = test.window.findChild<QDockWidget*>("evaluations");
  QTRY_VERIFY_WITH_TIMEOUT(dock->isVisible() && test.document().evaluations().size() == 2U, kPatience);
  auto* tabs = dock->findChild<QTabWidget*>();
  tabs->setCurrentIndex(1);
  QVERIFY(test.settle());
  auto* view = dock->findChild<EvaluationsView*>();
  const auto grids = dock->findChildren<evaluations::ValueGrid*>();
  QVERIFY(!grids.empty() && grids[0]->isVisible());
  QTest::mouseMove(grids[0], grids[0]->cell(0, 1).center().toPoint() + QPoint(1, 1));
  QTest::mouseMove(grids[0], grids[0]->cell(0, 0).center().toPoint());
  QTRY_VERIFY2(view->reading().contains("gain"), qPrintable(view->reading()));
  // Its models are not open: it says what is missing.
  QTest::mouseDClick(grids[0], Qt::LeftButton, {}, grids[0]->cell(0, 0).center().toPoint());
  QTRY_VERIFY2(view->reading().startsWith("To open this cell, first open"), qPrintable(view->reading()));
}

// Of several one is marked, and it is the one that is shown.
void WindowReadingTest::menusSayWhatIsChosen() {
  Reading test;
  QVERIFY(test.run(64));
  const auto checked = [&] {
    QStringList texts;
    for (const QAction* action : test.window.commands()) {
      if (action->isChecked()) texts += action->text();
    }
    return texts;
  };
  test.key(Qt::Key_B);
  test.window.headsView().setColouring({HeadColouring::Kind::quantity, HeadQuantity::entropy, kNoRun});
  QVERIFY(test.settle());
  const QStringList texts = checked();
  QVERIFY(texts.contains("Compare: B only"));
  QVERIFY(!texts.contains("Compare: A only"));
  QVERIFY(texts.contains("Colour heads by entropy"));
  QCOMPARE(texts.filter("Colour heads by").size(), 1);
  QVERIFY(texts.contains("Heads of any label"));
}

}  // namespace foxscope::gui::test

FOXSCOPE_GUI_SUBJECT(window_reading, foxscope::gui::test::WindowReadingTest)
#include "window_reading_test.moc"
