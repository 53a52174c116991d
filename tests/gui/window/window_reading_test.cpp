// Comparing and reading in the whole window, by mouse and keys: what the tests of single views know of their parts.
#include <algorithm>
#include <cmath>

#include <QAction>
#include <QApplication>
#include <QClipboard>
#include <QComboBox>
#include <QContextMenuEvent>
#include <QDockWidget>
#include <QMenu>
#include <QTabBar>
#include <QTabWidget>
#include <QTableView>
#include <QTest>
#include <QToolButton>
#include <QUndoStack>

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
#include "backend/map/statistics/head_saliency.h"
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
  void aWordAsksTheHeads();
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
  // The upper maps follow the chosen head, which is the fastest: title, table and status bar speak of one head.
  QVERIFY(!maps.paneState(0).own && !maps.paneState(1).own);
  QCOMPARE(maps.activePane(), 0);
  const HeadChoice chosen = test.document().runs().selection().head();
  const NamedHead fastest{fox.name, chosen.layer, chosen.head};
  const NamedHead slowest = *maps.paneState(2).own;
  QVERIFY(test.pane(0).titleText().contains(QString("L%1 H%2").arg(chosen.layer).arg(chosen.head)));
  for (int layer = 0; layer < 8; ++layer) {
    for (int head = 0; head < 4; ++head) {
      QVERIFY(rate({fox.name, layer, head}) <= rate(fastest) && rate({fox.name, layer, head}) >= rate(slowest));
    }
  }
  QVERIFY(maps.paneState(3).own == slowest);
  QCOMPARE(maps.paneState(0).quantity, Quantity::forget);
  QCOMPARE(maps.paneState(3).quantity, Quantity::attention);
  // A head that is chosen now is shown, beside the slowest.
  QTest::mouseClick(&test.window.headsView().grid(), Qt::LeftButton, {},
                    test.window.headsView().grid().cell({fox.id, 4, 1}).center());
  QVERIFY(test.settle());
  QVERIFY(test.pane(0).titleText().contains("L4 H1") && test.pane(1).titleText().contains("L4 H1"));
  // Once more: the maps that were there, which follow the chosen head.
  test.key(Qt::Key_S);
  QVERIFY(test.settle());
  QCOMPARE(maps.saveState().value("panes"), before.value("panes"));
  QCOMPARE(maps.paneCount(), 2);
  // As any change it is undone and done again.
  UndoHistory& undo = test.document().runs().undoStack();
  test.key(Qt::Key_S);
  QCOMPARE(maps.paneCount(), 4);
  undo.undo();
  QCOMPARE(maps.saveState().value("panes"), before.value("panes"));
  undo.redo();
  QCOMPARE(maps.paneCount(), 4);
  undo.undo();
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

void WindowReadingTest::aWordAsksTheHeads() {
  Reading test;
  QVERIFY(test.run(600));
  auto* page = test.window.text().findChild<TextPage*>();
  const auto ask = [&](std::int64_t cell, const QString& question) {
    page->showCell(cell);
    const QPoint point = page->cellRect(cell).center().toPoint();
    QContextMenuEvent event(QContextMenuEvent::Mouse, point, page->viewport()->mapToGlobal(point));
    QApplication::sendEvent(page->viewport(), &event);
    auto* menu = qobject_cast<QMenu*>(QApplication::activePopupWidget());
    QAction* found = menu == nullptr ? nullptr : test.entry(*menu, question);
    if (found != nullptr) found->trigger();
    if (menu != nullptr) menu->close();
    return found != nullptr;
  };
  Selection& selection = test.document().runs().selection();
  HeadsView& heads = test.window.headsView();
  QVERIFY(ask(40, "Which heads remember this word 500 tokens later?"));
  QVERIFY(test.settle());
  QCOMPARE(selection.pin(), (Cursor{540, 40}));
  QCOMPARE(heads.colouring().kind, HeadColouring::Kind::quantity);
  QCOMPARE(heads.colouring().quantity, HeadQuantity::pinnedForget);
  // The table lists the heads that still hold it first.
  const QAbstractItemModel& list = *heads.table().model();
  const int column = 2 + static_cast<int>(HeadQuantity::pinnedForget);
  const Trace& fox = *test.document().runs()[0].trace;
  const HeadChoice first = list.index(0, 0).data(HeadTable::HeadRole).value<HeadChoice>();
  const auto c = fox.cumulative_log_gate(first.layer, first.head);
  QCOMPARE(list.index(0, column).data(HeadTable::ValueRole).toDouble(), std::exp(c[540] - c[40]));
  for (int row = 1; row < list.rowCount(); ++row) {
    QVERIFY(list.index(row, column).data(HeadTable::ValueRole).toDouble() <=
            list.index(row - 1, column).data(HeadTable::ValueRole).toDouble());
  }
  QVERIFY(ask(41, "Where does it come back?"));
  QVERIFY(test.settle());
  QCOMPARE(selection.pin().key, std::optional<std::int64_t>(41));
  QCOMPARE(test.window.curves().tab(), CurvesView::Tab::profile);
  // The head that the prediction hangs on most is chosen by its saliency.
  QVERIFY(ask(100, "What does predicting it hang on?"));
  QVERIFY(QTest::qWaitFor([&] { return !test.document().modelRuns().runStatus().running; }, kPatience));
  QVERIFY(test.settle());
  const HeadChoice chosen = selection.head();
  const Run* run = test.document().runs().run(chosen.run);
  QVERIFY(run != nullptr);
  QCOMPARE(run->trace->info().saliency_target, std::string("mean of loss[99:100]"));
  QCOMPARE(heads.colouring().quantity, HeadQuantity::saliencyAbsolute);
  const double most = head_saliency({run->trace, chosen.layer, chosen.head}, 0)->absolute;
  for (int layer = 0; layer < run->trace->info().layers; ++layer) {
    for (int head = 0; head < run->trace->info().heads; ++head) {
      QVERIFY(head_saliency({run->trace, layer, head}, 0)->absolute <= most);
    }
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
  QTRY_VERIFY_WITH_TIMEOUT(test.window.evaluations().isVisible() && test.document().evaluations().size() == 2U,
                           kPatience);
  auto* tabs = test.window.evaluations().findChild<QTabWidget*>();
  tabs->setCurrentIndex(1);
  QVERIFY(test.settle());
  EvaluationsView& view = test.window.evaluations();
  const auto grids = view.findChildren<evaluations::ValueGrid*>();
  QVERIFY(!grids.empty() && grids[0]->isVisible());
  QTest::mouseMove(grids[0], grids[0]->cell(0, 1).center().toPoint() + QPoint(1, 1));
  QTest::mouseMove(grids[0], grids[0]->cell(0, 0).center().toPoint());
  QTRY_VERIFY2(view.reading().contains("gain"), qPrintable(view.reading()));
  // Its models are not open: it says what is missing.
  QTest::mouseDClick(grids[0], Qt::LeftButton, {}, grids[0]->cell(0, 0).center().toPoint());
  QTRY_VERIFY2(view.reading().startsWith("To open this cell, first open"), qPrintable(view.reading()));
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
