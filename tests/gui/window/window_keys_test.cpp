// Moving about by keys alone, and what programs for those who cannot see are told.
#include <algorithm>
#include <cmath>
#include <functional>

#include <QAccessible>
#include <QApplication>
#include <QDockWidget>
#include <QLabel>
#include <QMenu>
#include <QMenuBar>
#include <QStackedWidget>
#include <QTabBar>
#include <QTabWidget>
#include <QTableView>
#include <QToolButton>

#include "app/gui/curves/curves_view.h"
#include "app/gui/curves/position_plot.h"
#include "app/gui/document/head_steps.h"
#include "app/gui/document/number_text.h"
#include "app/gui/effects/effects_view.h"
#include "app/gui/effects/sweep_grid.h"
#include "app/gui/evaluations/evaluations_view.h"
#include "app/gui/evaluations/value_grid.h"
#include "app/gui/heads/heads_view.h"
#include "app/gui/maps/map_plot.h"
#include "app/gui/maps/maps_view.h"
#include "app/gui/maps/pane/map_pane.h"
#include "app/gui/text/text_editor.h"
#include "app/gui/text/text_page.h"
#include "app/gui/text/text_view.h"
#include "app/gui/views/focus_ring.h"
#include "app/gui/window/docks.h"
#include "app/gui/window/help/glossary.h"
#include "app/gui/window/help/start_page.h"
#include "tests/gui/subject.h"
#include "tests/gui/window/window_shown.h"

namespace foxscope::gui::test {
namespace {

QWidget* focused() { return QApplication::focusWidget(); }

/// By the widget that has the keyboard.
void pressFocused(QKeyCombination keys) { QTest::keyClick(focused(), keys.key(), keys.keyboardModifiers()); }

QAccessibleTableInterface* tableOf(QWidget& widget) {
  QAccessibleInterface* known = QAccessible::queryAccessibleInterface(&widget);
  return known == nullptr ? nullptr : known->tableInterface();
}

}  // namespace

class WindowKeysTest : public QObject {
  Q_OBJECT

 private slots:
  void initTestCase() { useOwnSettings(); }
  void f6GoesFromPartToPart();
  void theRingIsOutsideOfWhatHasTheKeyboard();
  void headsAreSteppedInTheOrderOfTheirNumber();
  void panesAndTabsHaveKeys();
  void theKeyMovesFromAnywhere();
  void eightMenusHaveALetterEach();
  void equalLimitsSayWhyTheyCannotBe();
  void helpIsOfTheTabInFront();
  void evaluationsAloneTakeTheCentre();
  void curvesBesideEvaluationsSayWhatFillsThem();
  void headsAreReadOut();
  void theRowAtThePinIsReadOut();
  void gridsOfNumbersAreReadOut();
};

void WindowKeysTest::f6GoesFromPartToPart() {
  Window test;
  QVERIFY(test.run(64));
  test.window.headsView().grid().setFocus();
  const Docks& docks = test.window.docks();
  QList<QWidget*> parts{docks.heads().widget(), &test.window.maps(), docks.text().widget()};
  for (const QDockWidget* dock : {&docks.curves(), &docks.comparison()}) {
    if (!dock->widget()->visibleRegion().isEmpty()) parts += dock->widget();
  }
  QCOMPARE(parts.size(), 4);
  for (qsizetype n = 1; n <= parts.size(); ++n) {
    pressFocused(Qt::Key_F6);
    QVERIFY2(parts[n % parts.size()]->isAncestorOf(focused()), focused()->metaObject()->className());
  }
  // It comes back to what had the keyboard, and to the map that is active.
  QVERIFY(focused() == &test.window.headsView().grid());
  test.window.maps().setActivePane(1);
  pressFocused(Qt::Key_F6);
  QVERIFY(focused() == &test.window.maps().pane(1).plot());
  for (qsizetype n = 0; n < parts.size(); ++n) {
    pressFocused(Qt::SHIFT | Qt::Key_F6);
    QVERIFY(parts[(parts.size() - n) % parts.size()]->isAncestorOf(focused()));
  }
  // A part that is closed is left out.
  test.window.docks().text().hide();
  test.window.maps().pane(1).plot().setFocus();
  pressFocused(Qt::Key_F6);
  QVERIFY(parts[3]->isAncestorOf(focused()));
}

void WindowKeysTest::theRingIsOutsideOfWhatHasTheKeyboard() {
  const FocusRing ring;
  Window test;
  QVERIFY(test.run(64));
  QTest::mouseClick(&test.window.maps().pane(0).plot(), Qt::LeftButton, {}, {20, 20});
  QVERIFY(ring.outline() == nullptr);
  auto around = [&](QWidget& widget) {
    QTRY_VERIFY(ring.outline() != nullptr && ring.outline()->isVisible());
    const QRect seen = widget.visibleRegion().boundingRect().translated(widget.mapTo(&test.window, QPoint()));
    const QRect whole = seen.adjusted(-FocusRing::kWidth, -FocusRing::kWidth, FocusRing::kWidth, FocusRing::kWidth);
    QTRY_COMPARE(ring.outline()->geometry(), whole.intersected(test.window.rect()));
  };
  pressFocused(Qt::Key_F6);
  around(*focused());
  pressFocused(Qt::Key_F6);
  around(*focused());
  // It follows what it lies around.
  test.window.resize(1300, 850);
  around(*focused());
  // A button that has the keyboard does not look switched on: its own pixels are the same.
  QToolButton* equal = nullptr;
  for (auto* each : test.window.maps().findChildren<QToolButton*>()) {
    if (each->text() == "Fit") equal = each;
  }
  QVERIFY(equal != nullptr);
  equal->setFocus(Qt::TabFocusReason);
  around(*equal);
  QTest::mouseClick(&test.window.maps().pane(0).plot(), Qt::LeftButton, {}, {20, 20});
  QVERIFY(ring.outline() == nullptr);
}

void WindowKeysTest::headsAreSteppedInTheOrderOfTheirNumber() {
  Window test;
  QVERIFY(test.run(64));
  RunList& runs = test.document().runs();
  const RunId fox = runs[0].id;
  test.window.headsView().setColouring({HeadColouring::Kind::quantity, HeadQuantity::rateDecayTime, kNoRun});
  QVERIFY(test.settle());
  std::vector<std::pair<double, HeadChoice>> order;
  const TraceInfo& info = runs[0].trace->info();
  for (int layer = 0; layer < info.layers; ++layer) {
    for (int head = 0; head < info.heads; ++head) {
      const HeadChoice each{fox, layer, head};
      order.emplace_back(test.window.heads().value(each, HeadQuantity::rateDecayTime), each);
    }
  }
  std::ranges::sort(order, std::greater{}, [](const auto& each) { return each.first; });
  runs.selection().setHead(order.front().second);
  test.window.maps().pane(0).plot().setFocus();
  for (std::size_t n = 1; n < order.size(); ++n) {
    pressFocused(Qt::Key_BracketRight);
    QCOMPARE(runs.selection().head(), order[n].second);
  }
  pressFocused(Qt::Key_BracketRight);  // at the end
  QCOMPARE(runs.selection().head(), order.back().second);
  pressFocused(Qt::Key_BracketLeft);
  QCOMPARE(runs.selection().head(), order[order.size() - 2].second);
  runs.selection().setHead({fox, 2, 3});
  pressFocused(Qt::Key_Greater);
  QCOMPARE(runs.selection().head(), (HeadChoice{fox, 3, 3}));
  pressFocused(Qt::Key_Less);
  pressFocused(Qt::Key_Less);
  pressFocused(Qt::Key_Less);
  pressFocused(Qt::Key_Less);
  QCOMPARE(runs.selection().head(), (HeadChoice{fox, 0, 3}));
  // What is not known comes last.
  const auto unknown = [](const HeadChoice& head) { return head.head == 0 ? std::nan("") : head.layer; };
  QVERIFY(!headInOrder(runs, {fox, info.layers - 1, 1}, -1, unknown));
  const auto last = headInOrder(runs, {fox, info.layers - 2, 0}, 1, unknown);
  QVERIFY(last == (HeadChoice{fox, info.layers - 1, 0}));
}

void WindowKeysTest::panesAndTabsHaveKeys() {
  Window test;
  QVERIFY(test.run(64));
  MapsView& maps = test.window.maps();
  test.window.headsView().grid().setFocus();
  pressFocused(Qt::CTRL | Qt::Key_2);
  QCOMPARE(maps.activePane(), 1);
  QVERIFY(focused() == &maps.pane(1).plot());
  pressFocused(Qt::CTRL | Qt::Key_3);  // there are two
  QCOMPARE(maps.activePane(), 1);
  QCOMPARE(maps.paneCount(), 2);
  pressFocused(Qt::CTRL | Qt::Key_1);
  QCOMPARE(maps.activePane(), 0);
  CurvesView& curves = test.window.curves();
  curves.setTab(CurvesView::Tab::loss);
  pressFocused(Qt::CTRL | Qt::Key_Tab);
  QCOMPARE(curves.tab(), CurvesView::Tab::context);
  pressFocused(Qt::CTRL | Qt::SHIFT | Qt::Key_Tab);
  pressFocused(Qt::CTRL | Qt::SHIFT | Qt::Key_Tab);
  QCOMPARE(curves.tab(), CurvesView::Tab::saliency);
  pressFocused(Qt::CTRL | Qt::Key_Tab);
  QCOMPARE(curves.tab(), CurvesView::Tab::loss);
}

void WindowKeysTest::theKeyMovesFromAnywhere() {
  Window test;
  QVERIFY(test.run(64));
  Selection& selection = test.document().runs().selection();
  test.window.headsView().setTab(HeadsView::Tab::table);
  auto* page = test.window.text().findChild<TextPage*>();
  const QList<QWidget*> places{&test.window.headsView().table(), page, &test.window.maps().pane(0).plot()};
  for (QWidget* place : places) {
    selection.setPin({40, 20});
    const View view = selection.view();
    place->setFocus();
    pressFocused(Qt::SHIFT | Qt::Key_Right);
    QCOMPARE(selection.pin(), (Cursor{40, 21}));
    pressFocused(Qt::SHIFT | Qt::Key_Left);
    pressFocused(Qt::SHIFT | Qt::Key_Left);
    QCOMPARE(selection.pin(), (Cursor{40, 19}));
    QVERIFY(selection.view() == view);
  }
  // Not before the text, nor behind its query.
  selection.setPin({1, 0});
  pressFocused(Qt::SHIFT | Qt::Key_Left);
  QCOMPARE(selection.pin(), (Cursor{1, 0}));
  pressFocused(Qt::SHIFT | Qt::Key_Right);
  pressFocused(Qt::SHIFT | Qt::Key_Right);
  QCOMPARE(selection.pin(), (Cursor{1, 1}));
  // Without a key it begins at the query.
  selection.setPin({30, {}});
  pressFocused(Qt::SHIFT | Qt::Key_Left);
  QCOMPARE(selection.pin(), (Cursor{30, 30}));
  // Where one types it chooses letters.
  for (QAction* action : test.window.commands()) {
    if (action->text() == "Edit text or show run") action->trigger();
  }
  auto* editor = test.window.text().findChild<TextEditor*>();
  editor->setFocus();
  editor->moveCursor(QTextCursor::Start);
  pressFocused(Qt::SHIFT | Qt::Key_Right);
  QCOMPARE(editor->textCursor().selectedText().size(), 1);
  QCOMPARE(selection.pin(), (Cursor{30, 30}));
}

void WindowKeysTest::eightMenusHaveALetterEach() {
  Window test;
  QStringList letters;
  for (const QAction* action : test.window.menuBar()->actions()) {
    const qsizetype mark = action->text().indexOf('&');
    QVERIFY2(mark >= 0, qPrintable(action->text()));
    letters += action->text().mid(mark + 1, 1).toUpper();
  }
  QCOMPARE(letters.size(), 8);
  QCOMPARE(QSet<QString>(letters.begin(), letters.end()).size(), 8);
  // All commands are in them, those of menus inside of menus too.
  QStringList commands;
  for (const QAction* action : test.window.commands()) commands += action->text().remove('&');
  for (const char* words : {"Show loss along the text", "Export Evaluation…", "Play or Pause", "Next Part",
                            "Next head in order", "Go to map 4"}) {
    QVERIFY2(commands.contains(words), words);
  }
}

void WindowKeysTest::equalLimitsSayWhyTheyCannotBe() {
  Window test;
  QVERIFY(test.run(64));
  QAction* equal = nullptr;
  for (QAction* action : test.window.commands()) {
    if (action->text() == "Equal colour limits") equal = action;
  }
  QVERIFY(equal != nullptr);
  QVERIFY(!equal->isEnabled());  // F beside A
  QVERIFY2(equal->toolTip().startsWith("No two maps show the same quantity"), qPrintable(equal->toolTip()));
  PaneState state = test.window.maps().paneState(1);
  state.setQuantity(Quantity::forget);
  test.window.maps().setPaneState(1, state);
  QVERIFY(equal->isEnabled());
  QVERIFY(equal->toolTip().startsWith("Panes of one quantity get the same limits"));
  test.window.maps().setPaneCount(1);
  QVERIFY(!equal->isEnabled());
}

void WindowKeysTest::helpIsOfTheTabInFront() {
  Window test;
  QVERIFY(test.run(64));
  using Tab = CurvesView::Tab;
  CurvesView& curves = test.window.curves();
  for (const auto& [tab, term] :
       {std::pair{Tab::saliency, "saliency"}, {Tab::gate, "forget-gate"}, {Tab::loss, "loss"}}) {
    curves.setTab(tab);
    QCOMPARE(termOf(curves.findChild<QTabBar*>()), QString(term));
    QCOMPARE(termOf(&test.window.docks().curves()), QString(term));
    const QWidget* inside = nullptr;
    for (const auto* plot : curves.findChildren<curves::PositionPlot*>()) inside = plot->isVisible() ? plot : inside;
    if (inside != nullptr) QCOMPARE(termOf(inside), QString(term));
  }
  QCOMPARE(termOf(&test.window.maps().pane(0).plot()), "forget");
  QCOMPARE(termOf(&test.window.maps().pane(1).plot()), "attention");
}

void WindowKeysTest::evaluationsAloneTakeTheCentre() {
  Window test;
  test.document().open({source("resources/figures/needle.h5"), source("resources/figures/loss.h5")});
  QTRY_COMPARE_WITH_TIMEOUT(test.document().evaluations().size(), 2U, kPatience);
  QVERIFY(test.settle());
  EvaluationsView& view = test.window.evaluations();
  const auto* start = test.window.findChild<StartPage*>();
  QVERIFY(view.isVisible() && !start->isVisible());
  QVERIFY(test.window.centralWidget()->isAncestorOf(&view));
  QVERIFY(!test.window.docks().evaluations().isVisible());
  QVERIFY(view.height() > test.window.height() * 3 / 4);
  // Its tabs have the keys of tabs.
  auto* tabs = view.findChild<QTabWidget*>();
  const int first = tabs->currentIndex();
  tabs->currentWidget()->setFocus();
  view.findChild<QTabBar*>()->setFocus();
  QTest::keyClick(focused(), Qt::Key_Tab, Qt::ControlModifier);
  QVERIFY(tabs->currentIndex() != first && tabs->isTabVisible(tabs->currentIndex()));
  // A run has the centre, and they stand below.
  QVERIFY(test.run(64));
  QVERIFY(test.window.docks().evaluations().isVisible());
  QDockWidget& dock = test.window.docks().evaluations();
  QVERIFY(dock.isAncestorOf(&view));
  QVERIFY(test.window.maps().isVisible());
  // They keep half of the window, or what somebody gives them.
  QVERIFY2(dock.height() > test.window.height() * 2 / 5, qPrintable(QString::number(dock.height())));
  const int wanted = test.window.height() / 3;
  test.window.resizeDocks({&dock}, {wanted}, Qt::Vertical);
  QTRY_VERIFY(std::abs(dock.height() - wanted) < 40);
  const int given = dock.height();
  RunList& runs = test.document().runs();
  while (!runs.empty()) runs.removeRun(runs.front().id);
  QVERIFY(test.settle());
  QVERIFY(!dock.isVisible() && view.isVisible());
  QVERIFY(test.run(64));
  QTRY_VERIFY2(std::abs(dock.height() - given) < 40, qPrintable(QString::number(dock.height())));
  test.document().clear();
  QVERIFY(test.settle());
  QVERIFY(start->isVisible());
  QVERIFY(!view.isVisible());
}

void WindowKeysTest::curvesBesideEvaluationsSayWhatFillsThem() {
  Window test;
  test.document().open({source("resources/figures/needle.h5")});
  QTRY_COMPARE_WITH_TIMEOUT(test.document().evaluations().size(), 1U, kPatience);
  QVERIFY(test.settle());
  // With nothing else the dock is out of sight until somebody asks for it.
  QDockWidget& dock = test.window.docks().curves();
  QVERIFY(!dock.isVisible());
  CurvesView& curves = test.window.curves();
  const auto everyTabSays = [&](const QString& words) {
    Docks::bringForward(dock);
    for (int tab = 0; tab < 8; ++tab) {
      curves.setTab(static_cast<CurvesView::Tab>(tab));
      if (!test.settle()) return false;
      const auto labels = curves.findChildren<QLabel*>();
      const bool says = std::ranges::any_of(
          labels, [&](const QLabel* label) { return label->isVisible() && label->text().contains(words); });
      if (!says) qWarning("tab %d does not say %s", tab, qPrintable(words));
      if (!says) return false;
    }
    return true;
  };
  QVERIFY(everyTabSays("No model yet: open a checkpoint folder"));
  test.document().open({foxModel()});
  QVERIFY(test.settle());
  QVERIFY(dock.isVisible());
  QVERIFY(everyTabSays("No text yet: open one"));
  test.document().modelRuns().setText({{}, "A text."});
  QVERIFY(test.settle());
  QVERIFY(everyTabSays("No run yet: press F5"));
}

void WindowKeysTest::headsAreReadOut() {
  Window test;
  QVERIFY(test.run(64));
  RunList& runs = test.document().runs();
  HeadGrid& grid = test.window.headsView().grid();
  QAccessibleTableInterface* table = tableOf(grid);
  QVERIFY(table != nullptr);
  const TraceInfo& info = runs[0].trace->info();
  QCOMPARE(table->rowCount(), 2 * info.layers);
  QCOMPARE(table->columnCount(), info.heads);
  QAccessibleInterface* whole = QAccessible::queryAccessibleInterface(&grid);
  QCOMPARE(whole->role(), QAccessible::Table);
  QCOMPARE(whole->text(QAccessible::Name), "Heads");
  const double time = test.window.heads().value({runs[0].id, 7, 2}, HeadQuantity::rateDecayTime);
  QAccessibleInterface* cell = table->cellAt(7, 2);
  QVERIFY(cell != nullptr && cell->isValid());
  QCOMPARE(
      cell->text(QAccessible::Name),
      QStringLiteral("fox-pro-12m, layer 7, head 2, decay time %1").arg(valueText(HeadQuantity::rateDecayTime, time)));
  QCOMPARE(cell->role(), QAccessible::Cell);
  QCOMPARE(cell->tableCellInterface()->rowIndex(), 7);
  QCOMPARE(cell->tableCellInterface()->columnIndex(), 2);
  QVERIFY(cell->parent() == whole && cell->tableCellInterface()->table() == whole);
  QVERIFY(table->cellAt(7, 2) == cell);
  QCOMPARE(whole->indexOfChild(cell), 7 * info.heads + 2);
  QCOMPARE(table->rowDescription(info.layers + 1), "transformer-pro-12m, layer 1");
  QCOMPARE(table->columnDescription(3), "head 3");
  QVERIFY(table->cellAt(2 * info.layers, 0) == nullptr && table->cellAt(0, -1) == nullptr);
  // Its place on the screen is that of the cell.
  const QRect place = grid.cell({runs[0].id, 7, 2});
  QCOMPARE(cell->rect(), QRect(grid.mapToGlobal(place.topLeft()), place.size()));
  QVERIFY(whole->childAt(cell->rect().center().x(), cell->rect().center().y()) == cell);
  // It is chosen by whoever cannot click.
  QVERIFY(!cell->state().selected);
  cell->actionInterface()->doAction(QAccessibleActionInterface::pressAction());
  QCOMPARE(runs.selection().head(), (HeadChoice{runs[0].id, 7, 2}));
  QVERIFY(cell->state().selected);
  QVERIFY(table->selectedCells() == QList<QAccessibleInterface*>{cell});
  grid.setFocus();
  QVERIFY(whole->focusChild() == cell);
  // With one run its name says nothing; labels and what is not known have their words.
  runs.removeRun(runs[1].id);
  QCOMPARE(table->rowCount(), info.layers);
  QVERIFY(table->cellAt(7, 2)->text(QAccessible::Name).startsWith("layer 7, head 2, decay time "));
  test.window.headsView().setColouring({HeadColouring::Kind::label, HeadQuantity::rateDecayTime, kNoRun});
  QVERIFY(!table->cellAt(7, 2)->text(QAccessible::Name).contains("decay time"));
  test.window.headsView().setColouring({HeadColouring::Kind::quantity, HeadQuantity::pinnedForget, kNoRun});
  QCOMPARE(table->cellAt(0, 1)->text(QAccessible::Name), "layer 0, head 1, F(i, j) of the pin not known");
}

void WindowKeysTest::theRowAtThePinIsReadOut() {
  Window test;
  QVERIFY(test.run(64));
  RunList& runs = test.document().runs();
  runs.selection().setHead({runs[0].id, 2, 1});
  QVERIFY(test.settle());
  MapPlot& plot = test.window.maps().pane(1).plot();
  QAccessibleTableInterface* table = tableOf(plot);
  QVERIFY(table != nullptr);
  QCOMPARE(table->rowCount(), 0);  // nothing is pinned
  runs.selection().setPin({40, 12});
  QTRY_COMPARE(table->columnCount(), 41);
  QCOMPARE(table->rowCount(), 1);
  QCOMPARE(QAccessible::queryAccessibleInterface(&plot)->text(QAccessible::Name), "Map 2");
  const Trace& trace = *runs[0].trace;
  const PairReading exact = pair_reading({runs[0].trace, 2, 1}, 40, 12);
  QCOMPARE(table->cellAt(0, 12)->text(QAccessible::Name), QStringLiteral("key 12 “%1”, attention A %2")
                                                              .arg(readText(*trace.tokens(), 12, Whitespace::visible),
                                                                   numberText(static_cast<float>(exact.attention))));
  QVERIFY(table->cellAt(0, 12)->state().selected);
  QCOMPARE(table->rowDescription(0), "query 40");
  table->cellAt(0, 30)->actionInterface()->doAction(QAccessibleActionInterface::pressAction());
  QCOMPARE(runs.selection().pin(), (Cursor{40, 30}));
  // Another query is another row.
  runs.selection().setPin({10, 3});
  QTRY_COMPARE(table->columnCount(), 11);
  QVERIFY(!table->cellAt(0, 3)->text(QAccessible::Name).isEmpty());
}

void WindowKeysTest::gridsOfNumbersAreReadOut() {
  SweepGrid grid;
  grid.resize(400, 300);
  grid.show();
  HeadSweep sweep;
  sweep.layers = 2;
  sweep.heads = 3;
  sweep.headsOfLayer = {3, 2};
  sweep.effects.resize(6);
  LossChange change;
  change.mean.value = 0.0123;
  change.mean.error = 0.0011;
  sweep.effects[1] = change;
  grid.setSweep(sweep, std::pair(0, 1));
  QAccessibleTableInterface* table = tableOf(grid);
  QVERIFY(table != nullptr);
  QCOMPARE(table->rowCount(), 2);
  QCOMPARE(table->columnCount(), 3);
  QCOMPARE(table->cellAt(0, 1)->text(QAccessible::Name), "layer 0, head 1, +0.0123 ± 0.0011 nats/token");
  QCOMPARE(table->cellAt(1, 1)->text(QAccessible::Name), "layer 1, head 1, not known yet");
  QCOMPARE(table->cellAt(1, 2)->text(QAccessible::Name), QString());  // this layer has two
  QVERIFY(table->cellAt(0, 1)->state().selected);
  std::optional<std::pair<int, int>> chosen;
  connect(&grid, &SweepGrid::headChosen, this, [&](int layer, int head) { chosen = std::pair(layer, head); });
  table->cellAt(1, 0)->actionInterface()->doAction(QAccessibleActionInterface::pressAction());
  QVERIFY(chosen == std::pair(1, 0));

  evaluations::ValueGrid values;
  evaluations::GridContent content;
  content.title = "gain";
  content.rows = QStringList{"0", "50"};
  content.columns = QStringList{"128", "256"};
  content.values = {1, 2, 3, 4};
  content.reading = [](int row, int column) { return QStringLiteral("cell %1 %2").arg(row).arg(column); };
  values.setContent(content);
  table = tableOf(values);
  QVERIFY(table != nullptr);
  QCOMPARE(table->rowCount(), 2);
  QCOMPARE(table->rowDescription(1), "50");
  QCOMPARE(table->columnDescription(1), "256");
  QCOMPARE(table->cellAt(1, 0)->text(QAccessible::Name), "cell 1 0");
}

}  // namespace foxscope::gui::test

FOXSCOPE_GUI_SUBJECT(window_keys, foxscope::gui::test::WindowKeysTest)
#include "window_keys_test.moc"
