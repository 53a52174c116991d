// Undo of what is changed in the window, and what it keeps of its work.
#include <algorithm>
#include <functional>
#include <random>
#include <utility>

#include <QComboBox>
#include <QCommandLinkButton>
#include <QHeaderView>
#include <QJsonDocument>
#include <QLabel>
#include <QPushButton>
#include <QSignalSpy>
#include <QToolButton>

#include "app/gui/heads/heads_view.h"
#include "app/gui/maps/maps_view.h"
#include "app/gui/text/text_tool_row.h"
#include "app/gui/text/text_view.h"
#include "app/gui/window/docks.h"
#include "app/gui/window/figures/thumbnails.h"
#include "app/gui/window/help/start_page.h"
#include "app/gui/window/message_bar.h"
#include "app/gui/window/new_text_card.h"
#include "app/gui/window/run_bar.h"
#include "app/gui/window/run_list_view.h"
#include "tests/gui/subject.h"
#include "tests/gui/window/window_shown.h"

namespace foxscope::gui::test {

class WindowUndoTest : public QObject {
  Q_OBJECT

 private slots:
  void initTestCase() { useOwnSettings(); }
  void keysAndClicksAreSteps();
  void aRandomWalkGoesBackAndForth();
  void aNewTextSaysWhatItTakes();
  void aMissingTextIsOfferedSamples();
  void theListTellsNumbersAndSorts();
  void aKilledWindowIsContinued();
  void theOfferSaysWhatIsNotKept();
  void messagesStandAtTheFoot();
  void onlyWhatIsShownFirstHasAPicture();
  void theTintFollowsTheChosenRun();
};

namespace {

/// What a session would keep of the window, but for zooms, sizes, and what is in front.
QJsonObject snapshot(Window& test) {
  QJsonObject views;
  const std::pair<const char*, ViewPart*> parts[] = {
      {"heads", &test.window.headsView()}, {"maps", &test.window.maps()}, {"text", &test.window.text()}};
  for (const auto& [key, part] : parts) {
    QJsonObject state = part->saveState();
    state.remove("active");
    state.remove("tab");
    views[key] = state;
  }
  QJsonObject session = test.document().sessions().session(views).toJson("/nowhere");
  QJsonObject selection = session["selection"].toObject();
  selection.remove("rows");
  selection.remove("columns");
  session["selection"] = selection;
  return session;
}

/// A key, and what follows from it.
void type(Window& test, const char* keys) {
  press(test.window, QKeySequence(QString::fromLatin1(keys)));
  QCoreApplication::processEvents();
}

UndoHistory& history(Window& test) { return test.document().runs().undoStack(); }

}  // namespace

void WindowUndoTest::keysAndClicksAreSteps() {
  Window test;
  QVERIFY(test.run(64));
  history(test).clear();
  MapsView& maps = test.window.maps();
  type(test, "4");
  QCOMPARE(history(test).undoText(), "Four maps");
  type(test, "B");
  QCOMPARE(history(test).undoText(), "Compare: B only");
  type(test, "Q");
  QCOMPARE(history(test).undoText(), "Next quantity");
  QCOMPARE(history(test).count(), 3);
  // A zoom has its own way back.
  type(test, "+");
  QCOMPARE(history(test).count(), 3);
  for (int step = 0; step < 3; ++step) type(test, "Ctrl+Z");
  QCOMPARE(maps.paneCount(), 2);
  QVERIFY(maps.paneState(0).sides == Sides::left);
  // Heads that are chosen one after the other are one step.
  const HeadChoice before = test.document().runs().selection().head();
  for (const auto& [layer, head] : {std::pair{0, 1}, {2, 3}, {5, 0}}) {
    history(test).beginInput();
    test.document().runs().selection().setHead({before.run, layer, head});
    history(test).endInput();
  }
  QCOMPARE(history(test).undoText(), "choose a head");
  type(test, "Ctrl+Z");
  QVERIFY(test.document().runs().selection().head() == before);
  // The fastest and the slowest head are an arrangement like others.
  QVERIFY(test.settle());
  const QJsonObject arranged = maps.saveState();
  type(test, "S");
  QVERIFY(maps.saveState() != arranged);
  QCOMPARE(history(test).undoText(), "Fastest and Slowest Head");
  type(test, "Ctrl+Z");
  QCOMPARE(maps.saveState()["panes"], arranged["panes"]);
  QCOMPARE(maps.paneCount(), 2);
}

// Sixty random changes by keys and by what views offer, each compared on the way back and on the way forth.
void WindowUndoTest::aRandomWalkGoesBackAndForth() {
  Window test;
  QVERIFY(test.run(64));
  Document& document = test.document();
  RunList& runs = document.runs();
  history(test).clear();
  std::mt19937 random(11);
  const auto any = [&](int below) { return static_cast<int>(random() % static_cast<unsigned>(below)); };
  const auto input = [&](const std::function<void()>& change) {
    history(test).beginInput();
    change();
    history(test).endInput();
  };
  const std::vector<const char*> keys{"1", "2", "4", "A", "B", "V", "H", "D", "K", "Q", "S"};
  std::vector<QJsonObject> states{snapshot(test)};
  while (states.size() <= 60) {
    const int count = history(test).count();
    const std::vector<ListRow> rows = runs.listRows();
    const ListRow row = rows[static_cast<std::size_t>(any(static_cast<int>(rows.size())))];
    RunLook look = runs.lookOf(row);
    switch (any(9)) {
      case 0:
        input([&] { runs.selection().setPin({40 + any(20), any(40)}); });
        break;
      case 1:
        look.label = QStringLiteral("name %1").arg(any(100));
        input([&] { runs.setLook(row, look); });
        break;
      case 2:
        look.hidden = !look.hidden;
        input([&] { runs.setLook(row, look); });
        break;
      case 3:
        input([&] { runs.moveRow(0, 1); });
        break;
      case 4:
        input([&] { runs.lockPair({{50 + any(10)}, {any(50)}}); });
        break;
      case 5:
        if (rows.size() > 1) input([&] { runs.removeRow(row); });
        break;
      case 6:
        input([&] { document.modelRuns().setText({{}, QStringLiteral("text %1").arg(any(1000)).toStdString()}); });
        break;
      default:
        type(test, keys[static_cast<std::size_t>(any(static_cast<int>(keys.size())))]);
        break;
    }
    if (history(test).count() > count) {
      states.push_back(snapshot(test));
    } else {
      // Heads that are chosen one after the other are one step.
      states.back() = snapshot(test);
    }
  }
  QCOMPARE(history(test).count(), 60);
  for (std::size_t step = states.size() - 1; step > 0; --step) {
    const QString words = history(test).undoText();
    type(test, "Ctrl+Z");
    QVERIFY2(snapshot(test) == states[step - 1],
             qPrintable(QStringLiteral("%1, step %2\n%3\n%4")
                            .arg(words)
                            .arg(step)
                            .arg(QString::fromUtf8(QJsonDocument(snapshot(test)).toJson(QJsonDocument::Compact)),
                                 QString::fromUtf8(QJsonDocument(states[step - 1]).toJson(QJsonDocument::Compact)))));
  }
  for (std::size_t step = 1; step < states.size(); ++step) {
    type(test, "Ctrl+Shift+Z");
    QVERIFY2(snapshot(test) == states[step], qPrintable(history(test).undoText()));
  }
}

void WindowUndoTest::aNewTextSaysWhatItTakes() {
  Window test;
  QVERIFY(test.run(64));
  auto* card = test.window.findChild<NewTextCard*>();
  QVERIFY(!card->isVisible());
  const QString path = test.folder.write("new.txt", QByteArray("A fox ran over the hill. ").repeated(400));
  test.document().open({path});
  QVERIFY(QTest::qWaitFor([&] { return card->isVisible(); }, kPatience));
  // A text of one's own is read whole, and is shown at once.
  QCOMPARE(test.document().modelRuns().settings().limit, 0);
  QVERIFY2(card->text().startsWith("new.txt, 10 kB, about "), qPrintable(card->text()));
  QVERIFY2(card->text().contains(" tokens; fox-pro-12m about "), qPrintable(card->text()));
  auto* bar = test.window.findChild<RunBar*>();
  const auto says = [bar](const QString& words) {
    const auto labels = bar->findChildren<QLabel*>();
    return std::ranges::any_of(labels, [&](const QLabel* label) { return label->toolTip().contains(words); });
  };
  QVERIFY(says("on black-beauty-1-3.txt; next: new.txt"));
  QVERIFY(test.window.text().findChild<QLabel*>("textNotice")->text().contains("not run yet"));
  // Going back brings the text and how much of it was read.
  type(test, "Ctrl+Z");
  QVERIFY(!card->isVisible());
  QCOMPARE(test.document().modelRuns().settings().limit, 64);
  type(test, "Ctrl+Shift+Z");
  QVERIFY(card->isVisible());
  for (auto* button : card->findChildren<QPushButton*>()) {
    if (button->text().startsWith("Run")) button->click();
  }
  QVERIFY(!card->isVisible());
  QTRY_COMPARE_WITH_TIMEOUT(test.document().modelRuns().runStatus().running, false, kPatience);
  QVERIFY(test.settle());
  QVERIFY(!card->isVisible());
  QVERIFY(says("new.txt"));
  // What is typed says so beside itself.
  test.document().modelRuns().editText("Typed.");
  QVERIFY(!card->isVisible());
}

void WindowUndoTest::aMissingTextIsOfferedSamples() {
  Window test;
  test.document().runs().addModel(foxModel());
  const auto buttons = test.window.text().findChild<QWidget*>("samples")->findChildren<QToolButton*>();
  QVERIFY(buttons.size() >= 4);
  QVERIFY(buttons[0]->isVisible());
  buttons[0]->click();
  QVERIFY(QTest::qWaitFor([&] { return !test.document().modelRuns().text().empty(); }, kPatience));
  QVERIFY(test.document().modelRuns().text().file.startsWith(source("resources/texts/")));
  QVERIFY(!buttons[0]->isVisible());
}

void WindowUndoTest::theListTellsNumbersAndSorts() {
  Window test;
  QVERIFY(test.run(300));
  type(test, "Ctrl+R");
  auto* list = test.window.findChild<RunListView*>();
  const auto text = [&](int row, RunListModel::Column column) {
    return list->list().index(row, column).data().toString();
  };
  QTRY_VERIFY(!text(1, RunListModel::kLoss).isEmpty());
  const RunList& runs = test.document().runs();
  for (int row = 0; row < 2; ++row) {
    const auto losses = runs[static_cast<std::size_t>(row)].trace->per_token_loss();
    double sum = 0;
    for (const float loss : losses) sum += loss;
    const QString mean = QString::number(sum / static_cast<double>(losses.size()), 'f', 3);
    QVERIFY2(text(row, RunListModel::kLoss).startsWith(mean + " ± 0."), qPrintable(text(row, RunListModel::kLoss)));
    QCOMPARE(text(row, RunListModel::kTokens), "300");
    QVERIFY(text(row, RunListModel::kParameters).endsWith("M"));
    QVERIFY(text(row, RunListModel::kSeconds).toDouble() >= 0);
  }
  // The best is bold, and comes first when the list is sorted by it; that is a step.
  const auto isBold = [&](int row) {
    return list->list().index(row, RunListModel::kLoss).data(Qt::FontRole).value<QFont>().bold();
  };
  const QString first = text(0, RunListModel::kLoss);
  const QString second = text(1, RunListModel::kLoss);
  const bool firstIsBest = first < second;  // as many digits
  QCOMPARE(isBold(firstIsBest ? 0 : 1), true);
  QCOMPARE(isBold(firstIsBest ? 1 : 0), false);
  const QString before = runs[0].name;
  emit list->header()->sectionClicked(RunListModel::kLoss);
  emit list->header()->sectionClicked(RunListModel::kLoss);
  QVERIFY(text(0, RunListModel::kLoss) > text(1, RunListModel::kLoss));
  QVERIFY(history(test).undoText() == "sort the runs by loss");
  while (history(test).undoText() == "sort the runs by loss") history(test).undo();
  QCOMPARE(runs[0].name, before);
  // Chips say the same.
  const auto* chip = test.window.findChild<RunBar*>()->findChild<QToolButton*>("chip");
  QVERIFY2(chip->toolTip().contains("mean loss " + text(0, RunListModel::kLoss)), qPrintable(chip->toolTip()));
  QVERIFY(chip->toolTip().contains("300 tokens"));
  QVERIFY(chip->toolTip().contains("parameters"));
}

void WindowUndoTest::aKilledWindowIsContinued() {
  const QString own = qEnvironmentVariable("XDG_STATE_HOME");
  const Folder state;
  qputenv("XDG_STATE_HOME", state.path("state").toUtf8());
  {
    Window test;
    test.window.setRemembering(MainWindow::Remembering::on);
    QVERIFY(test.run(64));
    test.document().runs().selection().setPin({50, 20});
    test.window.maps().setPaneCount(4);
    test.window.autosave().write();
    QTRY_VERIFY_WITH_TIMEOUT(!test.document().runs()[1].kept.isEmpty(), kPatience);
    // It ends without being closed.
  }
  MainWindow next(source("resources/demo.json"));
  QSignalSpy status(&next.document().modelRuns(), &ModelRuns::runStatusChanged);
  next.resize(1400, 900);
  next.show();
  auto* start = next.findChild<StartPage*>();
  QTRY_VERIFY_WITH_TIMEOUT(start->findChild<QCommandLinkButton*>("continue") != nullptr, kPatience);
  auto* button = start->findChild<QCommandLinkButton*>("continue");
  QVERIFY2(button->text().startsWith("Continue: 2 runs on black-beauty-1-3.txt, "), qPrintable(button->text()));
  QVERIFY(!button->icon().isNull());
  button->click();
  QTRY_COMPARE_WITH_TIMEOUT(next.document().runs().size(), 2U, kPatience);
  QTRY_VERIFY_WITH_TIMEOUT(next.isSettled(), kPatience);
  QVERIFY(status.isEmpty());
  QCOMPARE(next.maps().paneCount(), 4);
  QVERIFY(next.document().runs().selection().pin() == (Cursor{50, 20}));
  QTRY_VERIFY_WITH_TIMEOUT(start->findChild<QCommandLinkButton*>("continue") == nullptr, kPatience);
  next.setRemembering(MainWindow::Remembering::off);
  next.close();
  qputenv("XDG_STATE_HOME", own.toUtf8());
}

void WindowUndoTest::theOfferSaysWhatIsNotKept() {
  StartPage page;
  const auto offer = [&](const LeftWork& work) {
    page.setLeft({work});
    return page.findChild<QCommandLinkButton*>("continue")->description();
  };
  LeftWork work;
  QCOMPARE(offer(work), "Kept when the window ended without being closed. Nothing is computed again.");
  work.left = QStringList{"fox", "other"};
  work.waiting = QStringList{"third"};
  work.lost = QStringList{"fourth"};
  QCOMPARE(offer(work),
           "Not kept, F5 computes it again: fox, other. Not run yet, F5 runs it: third. Not kept and lost, as its text "
           "or its model is another now: fourth. Nothing else is computed again.");
}

void WindowUndoTest::messagesStandAtTheFoot() {
  Window test;
  QVERIFY(test.run(64));
  test.document().open({test.folder.path("nowhere")});
  QVERIFY(test.settle());
  const auto* bar = test.window.findChild<MessageBar*>();
  QTRY_VERIFY(bar->isVisible());
  const QRect place(bar->mapTo(&test.window, QPoint()), bar->size());
  const QRect maps(test.window.maps().mapTo(&test.window, QPoint()), test.window.maps().size());
  QVERIFY(!place.intersects(maps));
  QVERIFY(test.window.height() - place.bottom() < 20);
}

void WindowUndoTest::onlyWhatIsShownFirstHasAPicture() {
  const Folder folder;
  const QString first = folder.path("first.h5");
  const QString second = folder.path("second.h5");
  {
    Window test;
    QVERIFY(test.run(64));
    test.document().files().saveRunFile(first);
    QVERIFY(test.settle());
    QVERIFY(QFile::copy(first, second));
  }
  Window test;
  test.window.setRemembering(MainWindow::Remembering::on);
  test.document().open({first, second});
  QTRY_COMPARE_WITH_TIMEOUT(test.document().runs().size(), 4U, kPatience);
  QVERIFY(test.settle());
  test.window.close();
  QVERIFY(!thumbnailOf(first).isNull());
  QVERIFY(thumbnailOf(second).isNull());
  forgetThumbnails({first});
}

void WindowUndoTest::theTintFollowsTheChosenRun() {
  Window test;
  QVERIFY(test.run(64));
  const auto* tools = test.window.text().findChild<TextToolRow*>();
  for (const Run& run : std::as_const(test.document()).runs()) {
    test.document().runs().selection().setHead({run.id, 0, 0});
    QVERIFY2(tools->caption().startsWith("loss of " + run.name), qPrintable(tools->caption()));
  }
}

}  // namespace foxscope::gui::test

FOXSCOPE_GUI_SUBJECT(window_undo, foxscope::gui::test::WindowUndoTest)
#include "window_undo_test.moc"
