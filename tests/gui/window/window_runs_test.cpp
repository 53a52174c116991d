// Runs in the window: their list, their cards, and changed copies of them.
#include <memory>

#include <QApplication>
#include <QClipboard>
#include <QComboBox>
#include <QDockWidget>
#include <QLineEdit>
#include <QMenu>
#include <QMimeData>
#include <QTest>
#include <QTextBrowser>
#include <QTextFrame>
#include <QToolButton>

#include "app/figure/curves/curve_palette.h"
#include "app/gui/curves/curves_view.h"
#include "app/gui/effects/effects_view.h"
#include "app/gui/text/text_editor.h"
#include "app/gui/text/text_view.h"
#include "app/gui/window/intervention_dialog.h"
#include "app/gui/window/model_card.h"
#include "app/gui/window/run_bar.h"
#include "app/gui/window/run_list_view.h"
#include "app/gui/window/sweep_dialog.h"
#include "tests/gui/subject.h"
#include "tests/gui/window/window_shown.h"

namespace foxscope::gui::test {

class WindowRunsTest : public QObject {
  Q_OBJECT

 private slots:
  void initTestCase();
  void aCardGoesWithItsObstacle();
  void aHeadIsChangedAndRunAgain();
  void everyHeadIsChangedInTurn();
  void theListOfRunsIsWorkedByMouseAndKeys();
  void rowsAreDraggedToAnotherPlace();
  void whatIsRemovedFromTheListComesBack();
  void aCardTellsWhatIsKnownOfARun();
};

namespace {

/// The list of runs, opened by its key.
RunListView* openList(Window& test) {
  press(test.window, QKeySequence("Ctrl+R"));
  auto* list = test.window.findChild<RunListView*>();
  return list->isVisible() && QTest::qWaitFor([&] { return list->hasFocus(); }) ? list : nullptr;
}

void clickColumn(RunListView& list, int row, RunListModel::Column column) {
  const QModelIndex index = list.list().index(row, column);
  QTest::mouseClick(list.viewport(), Qt::LeftButton, {}, list.visualRect(index).center());
  QCoreApplication::processEvents();
}

}  // namespace

void WindowRunsTest::initTestCase() { useOwnSettings(); }

void WindowRunsTest::aCardGoesWithItsObstacle() {
  Window test;
  Document& document = test.document();
  document.files().saveRunFile(test.folder.path("none.h5"));
  QVERIFY(test.said("No model yet"));
  document.open({foxModel()});
  QVERIFY(test.settle());
  QVERIFY2(!test.said("No model yet"), qPrintable(test.window.messages().join('\n')));
  document.files().saveRunFile(test.folder.path("none.h5"));
  QVERIFY(test.said("No text yet"));
  document.modelRuns().setText({{}, "Nobody saw the fox."});
  QVERIFY(test.settle());
  QVERIFY(!test.said("No text yet"));
  document.files().saveRunFile(test.folder.path("none.h5"));
  QVERIFY(test.said("No run yet"));
  document.modelRuns().startRun();
  QVERIFY(test.settle());
  QVERIFY(!document.runs().empty() && !test.said("No run yet"));
}

void WindowRunsTest::aHeadIsChangedAndRunAgain() {
  Window test;
  QVERIFY(test.run(64));
  const RunId base = test.document().runs()[0].id;
  test.document().runs().selection().setHead({base, 2, 3});
  test.document().runs().selection().setPin({50, 20});
  InterventionDialog dialog(test.document().runs(), test.document().modelRuns(),
                            test.document().runs().selection().head(), &test.window);
  dialog.show();
  QCOMPARE(dialog.intervention(), "2:3:one");
  const auto boxes = dialog.findChildren<QComboBox*>();
  QCOMPARE(boxes.size(), 2);
  const auto chosen = [&](int place, int kind) {
    boxes[0]->setCurrentIndex(place);
    boxes[1]->setCurrentIndex(kind);
    return dialog.intervention();
  };
  QCOMPARE(chosen(1, 1), "2:*:mean");
  QCOMPARE(chosen(2, 2), "*:*:constant=0.99");
  QCOMPARE(chosen(0, 3), "2:3:scale=2");
  QCOMPARE(chosen(0, 4), "2:3:zero@20");
  QCOMPARE(chosen(0, 5), "2:3:cut");
  QTest::keyClick(&dialog, Qt::Key_Return);
  QVERIFY(!dialog.isVisible());
  QTRY_COMPARE_WITH_TIMEOUT(test.document().runs().size(), 3U, kPatience);
  QVERIFY(test.settle());
  QCOMPARE(test.document().runs()[2].name, "fox-pro-12m, L2 H3, cut");
  // Its effect is on top, although the head is still the unchanged run's.
  QVERIFY(test.document().runs().selection().head() == (HeadChoice{base, 2, 3}));
  const ChangeCard& card = test.window.effects().card();
  QVERIFY2(card.sentence().contains("fox-pro-12m, L2 H3, cut:"), qPrintable(card.sentence()));
  QTRY_VERIFY(!card.visibleRegion().isEmpty());
  // The change in loss is a curve like any other.
  QVERIFY(test.window.curves().dataOfCurrentTab().contains("loss of fox-pro-12m minus fox-pro-12m, L2 H3, cut"));
}

void WindowRunsTest::everyHeadIsChangedInTurn() {
  Window test;
  QVERIFY(test.run(64));
  auto* dock = test.window.findChild<QDockWidget*>("effects");
  QVERIFY(!dock->isVisible());
  SweepDialog dialog(test.document().runs(), test.window.sweeps(), &test.window);
  dialog.show();
  QCOMPARE(dialog.run().count(), 2);
  const ListRow fox = test.document().runs().listRows()[0];
  test.document().runs().setLook(fox, RunLook{{}, 0, 0, true});
  QCOMPARE(SweepDialog(test.document().runs(), test.window.sweeps(), &test.window).run().count(), 1);
  test.document().runs().setLook(fox, RunLook{{}, 0, 0, false});
  QCOMPARE(dialog.change().kind_text(), "one");
  dialog.kind().setCurrentIndex(3);
  QCOMPARE(dialog.change().kind_text(), "constant=0.99");
  dialog.kind().setCurrentIndex(4);
  QCOMPARE(dialog.change().kind_text(), "scale=2");
  dialog.kind().setCurrentIndex(1);
  dialog.run().setCurrentIndex(1);
  QTest::keyClick(&dialog, Qt::Key_Return);
  QVERIFY(!dialog.isVisible());
  QVERIFY(dock->isVisible());
  QVERIFY(test.window.sweeps().running());
  QVERIFY(QTest::qWaitFor([&] { return !test.window.sweeps().running(); }, kPatience));
  QCOMPARE(test.window.sweeps().shown()->name, "transformer-pro-12m, cut");
  QCOMPARE(test.window.sweeps().shown()->known(), 32);
  SweepGrid& grid = test.window.effects().grid();
  QTest::mouseClick(&grid, Qt::LeftButton, {}, grid.cell(2, 1).center());
  QVERIFY(test.document().runs().selection().head() == (HeadChoice{test.document().runs()[1].id, 2, 1}));
}

void WindowRunsTest::theListOfRunsIsWorkedByMouseAndKeys() {
  Window test;
  QVERIFY(test.run(64));
  Document& document = test.document();
  RunListView* list = openList(test);
  QVERIFY(list != nullptr);
  // It takes no more than its rows need, the text keeps the rest.
  QVERIFY2(list->height() < test.window.height() / 4, qPrintable(QString::number(list->height())));
  const RunId fox = document.runs()[0].id;
  const RunId transformer = document.runs()[1].id;
  clickColumn(*list, 1, RunListModel::kName);
  QCOMPARE(document.runs().selection().head().run, transformer);
  QTest::keyClick(list, Qt::Key_Up);
  QTest::keyClick(list, Qt::Key_Return);
  QCOMPARE(document.runs().selection().head().run, fox);
  // The names, of the run that is shown and of another one, which is not shown by that.
  for (const auto& [key, name] : {std::pair{Qt::Key_Up, "Forgetful"}, std::pair{Qt::Key_Down, "Mindful"}}) {
    QTest::keyClick(list, key);
    QTest::keyClick(list, Qt::Key_F2);
    auto* editor = list->findChild<QLineEdit*>();
    QVERIFY(editor != nullptr);
    editor->setText(name);
    QTest::keyClick(editor, Qt::Key_Return);
    QTRY_COMPARE(document.runs()[key == Qt::Key_Up ? 0 : 1].name, name);
    QTRY_VERIFY(list->findChild<QLineEdit*>() == nullptr);
  }
  QCOMPARE(document.runs().selection().head().run, fox);
  QVERIFY(test.window.windowTitle().startsWith("Forgetful, Mindful"));
  // The colour, also by its key, which is a command of the window's elsewhere.
  list->setFocus();
  QTest::keyClick(list, Qt::Key_C);
  auto* menu = list->findChild<QMenu*>();
  QVERIFY(menu != nullptr && menu->isVisible());
  menu->close();
  QTRY_VERIFY(list->findChild<QMenu*>() == nullptr);
  clickColumn(*list, 0, RunListModel::kMark);
  QTRY_VERIFY(list->findChild<QMenu*>() != nullptr);
  menu = list->findChild<QMenu*>();
  QVERIFY(menu != nullptr && menu->isVisible());
  QCOMPARE(menu->actions().size(), 6);
  menu->actions()[3]->trigger();
  menu->close();
  QCOMPARE(document.runs()[0].look.colour, 3);
  QVERIFY(test.settle());
  const auto figure = test.window.curves().figureOfCurrentTab();
  QVERIFY(figure && figure->curves[0].ownColour == figure::curveColour(3));
  // The eye: curves and heads leave it out, and another run is shown.
  clickColumn(*list, 0, RunListModel::kShown);
  QVERIFY(document.runs()[0].look.hidden);
  QCOMPARE(document.runs().selection().head().run, transformer);
  QVERIFY(test.settle());
  QCOMPARE(test.window.curves().figureOfCurrentTab()->curves.size(), 1U);
  list->setCurrentIndex(list->list().index(0, RunListModel::kName));
  QTest::keyClick(list, Qt::Key_Space);
  QVERIFY(!document.runs()[0].look.hidden);
  // The place.
  QTest::keyClick(list, Qt::Key_Down, Qt::AltModifier);
  QCOMPARE(document.runs()[1].id, fox);
  QCOMPARE(list->currentIndex().row(), 1);
  QTest::keyClick(list, Qt::Key_Up, Qt::AltModifier);
  QCOMPARE(document.runs()[0].id, fox);
  QCOMPARE(document.runs().models()[0].name, "fox-pro-12m");
  // Without a window manager nobody makes it active again when the menu has gone.
  test.window.activateWindow();
  QVERIFY(QTest::qWaitForWindowActive(&test.window));
  press(test.window, QKeySequence("Ctrl+R"));
  QTRY_VERIFY(!list->isVisible());
}

void WindowRunsTest::rowsAreDraggedToAnotherPlace() {
  Window test;
  QVERIFY(test.run(64));
  RunListView* list = openList(test);
  QVERIFY(list != nullptr);
  const RunId fox = test.document().runs()[0].id;
  const std::unique_ptr<QMimeData> dragged(list->list().mimeData({list->list().index(0, RunListModel::kName)}));
  QVERIFY(list->list().dropMimeData(dragged.get(), Qt::MoveAction, 2, 0, {}));
  QTRY_COMPARE(test.document().runs()[1].id, fox);
  QVERIFY(list->list().dropMimeData(dragged.get(), Qt::MoveAction, -1, -1, list->list().index(1, 0)));
  QTRY_COMPARE(test.document().runs()[0].id, fox);
}

void WindowRunsTest::aCardTellsWhatIsKnownOfARun() {
  Window test;
  QVERIFY(test.run(64));
  RunListView* list = openList(test);
  QVERIFY(list != nullptr);
  clickColumn(*list, 0, RunListModel::kAbout);
  auto* card = test.window.findChild<ModelCard*>();
  QVERIFY(card != nullptr && card->isVisible());
  QTRY_VERIFY_WITH_TIMEOUT(card->text().contains("FoX (Pro)"), kPatience);
  const QString text = card->text();
  for (const QString& known : {QStringLiteral("perplexity"), QStringLiteral("SHA-256"), QStringLiteral("parameters"),
                               QStringLiteral("tokenizer.json"), QStringLiteral("float32 on cpu"),
                               QStringLiteral("config.json"), QStringLiteral("forward pass")}) {
    QVERIFY2(text.contains(known), qPrintable(known + " is not in " + text));
  }
  auto* browser = card->findChild<QTextBrowser*>();
  // Values of all parts stand below one another.
  QCOMPARE(browser->document()->rootFrame()->childFrames().size(), 1);
  browser->setFocus();
  QTRY_VERIFY(browser->hasFocus());
  browser->selectAll();
  QTest::keyClick(browser, Qt::Key_C, Qt::ControlModifier);
  QTRY_VERIFY(QApplication::clipboard()->text().contains("perplexity"));
}

void WindowRunsTest::whatIsRemovedFromTheListComesBack() {
  Window test;
  QVERIFY(test.run(64));
  auto* bar = test.window.findChild<RunBar*>();
  const auto chips = [&] { return bar->findChildren<QToolButton*>("chip"); };
  QCOMPARE(chips().size(), 2);
  const std::vector<ModelInput> models = test.document().runs().models();
  const RunId transformer = test.document().runs()[1].id;
  QTest::mouseClick(chips()[1], Qt::LeftButton);
  QCoreApplication::processEvents();
  QVERIFY(test.document().runs().models() == models);
  QCOMPARE(test.document().runs().selection().head().run, transformer);
  RunListView* list = openList(test);
  QVERIFY(list != nullptr);
  clickColumn(*list, 1, RunListModel::kRemove);
  QTRY_COMPARE(test.document().runs().models().size(), 1U);
  QCOMPARE(test.document().runs().size(), 1U);
  QCOMPARE(chips().size(), 1);
  press(test.window, QKeySequence("Ctrl+Z"));
  QVERIFY(test.document().runs().models() == models);
  QCOMPARE(test.document().runs().size(), 2U);
  QCOMPARE(test.document().runs()[1].id, transformer);
  press(test.window, QKeySequence("Ctrl+Shift+Z"));
  QCOMPARE(test.document().runs().size(), 1U);
  // A text that was replaced comes back too, even where the keyboard is in the editor.
  const std::string before = test.document().modelRuns().text().content;
  test.document().modelRuns().setText({{}, "Another text."});
  for (QAction* action : test.window.commands()) {
    if (action->text() == "Edit text or show run") action->trigger();
  }
  auto* editor = test.window.text().findChild<TextEditor*>();
  editor->setFocus();
  QTest::keyClick(editor, Qt::Key_Z, Qt::ControlModifier);
  QCOMPARE(test.document().modelRuns().text().content, before);
}

}  // namespace foxscope::gui::test

FOXSCOPE_GUI_SUBJECT(window_runs, foxscope::gui::test::WindowRunsTest)
#include "window_runs_test.moc"
