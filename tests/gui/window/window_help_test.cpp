// What explains the window: the first page's questions, the tour, the glossary, small pictures of files.
#include <cmath>

#include <QCommandLinkButton>
#include <QHeaderView>
#include <QLabel>
#include <QListWidget>
#include <QPushButton>
#include <QSet>
#include <QTableView>
#include <QTest>

#include "app/gui/curves/curves_view.h"
#include "app/gui/heads/head_grid.h"
#include "app/gui/heads/heads_view.h"
#include "app/gui/maps/maps_view.h"
#include "app/gui/window/figures/thumbnails.h"
#include "app/gui/window/help/glossary.h"
#include "app/gui/window/help/start_page.h"
#include "app/gui/window/help/tour.h"
#include "tests/gui/subject.h"
#include "tests/gui/window/window_shown.h"

namespace foxscope::gui::test {

class WindowHelpTest : public QObject {
  Q_OBJECT

 private slots:
  void initTestCase();
  void everyQuestionOfTheFirstPageOpensItsAnswer_data();
  void everyQuestionOfTheFirstPageOpensItsAnswer();
  void theFirstPageHasAPictureOfTheResult();
  void theTourGoesThroughSixParts();
  void theTourOpensTheDemoWhereThereIsNothing();
  void everyTermOfTheWindowIsInTheGlossary();
  void theGlossaryOpensAtWhatIsUnderTheMouse();
  void filesOpenedLatelyHavePictures();
  void messagesLeaveTheMapsTheirPlace();
};

void WindowHelpTest::initTestCase() { useOwnSettings(); }

namespace {

QCommandLinkButton* question(MainWindow& window, const QString& words) {
  for (auto* button : window.findChildren<QCommandLinkButton*>()) {
    if (button->text() == words) return button;
  }
  return nullptr;
}

QAction* command(const MainWindow& window, const QString& words) {
  for (QAction* action : window.commands()) {
    if (action->text() == words) return action;
  }
  return nullptr;
}

}  // namespace

void WindowHelpTest::everyQuestionOfTheFirstPageOpensItsAnswer_data() {
  QTest::addColumn<QString>("words");
  QTest::addColumn<QString>("curves");
  QTest::addColumn<int>("colours");
  QTest::newRow("forgets") << "What does this head forget?"
                           << "gate" << static_cast<int>(HeadQuantity::rateDecayTime);
  QTest::newRow("wins") << "Where does FoX win?"
                        << "loss" << static_cast<int>(HeadQuantity::rateDecayTime);
  QTest::newRow("remembers") << "Which heads remember the title?"
                             << "row" << static_cast<int>(HeadQuantity::pinnedForget);
}

void WindowHelpTest::everyQuestionOfTheFirstPageOpensItsAnswer() {
  QFETCH(QString, words);
  QFETCH(QString, curves);
  QFETCH(int, colours);
  Window test;
  auto* button = question(test.window, words);
  QVERIFY(button != nullptr && button->isVisible());
  QTest::mouseClick(button, Qt::LeftButton);
  QTRY_COMPARE_WITH_TIMEOUT(test.document().runs().size(), 2U, kPatience);
  QVERIFY(test.settle());
  QVERIFY2(test.window.messages().isEmpty(), qPrintable(test.window.messages().join('\n')));
  QCOMPARE(test.window.curves().saveState()["tab"].toString(), curves);
  QCOMPARE(static_cast<int>(test.window.headsView().colouring().quantity), colours);
  const Selection& selection = test.document().runs().selection();
  QVERIFY(selection.pin().query && selection.pin().key);
  // The chosen head is one that answers: it remembers the title, where others have forgotten it.
  if (colours != static_cast<int>(HeadQuantity::pinnedForget)) return;
  const auto head = test.document().runs().headOf(selection.head());
  const auto gates = head->trace->cumulative_log_gate(head->layer, head->head);
  QVERIFY(std::exp(gates[2047] - gates[4]) > 0.05);
}

void WindowHelpTest::theFirstPageHasAPictureOfTheResult() {
  Window test;
  const auto* start = test.window.findChild<StartPage*>();
  bool found = false;
  for (const auto* label : start->findChildren<QLabel*>()) {
    if (!label->accessibleName().startsWith("Forget matrix")) continue;
    found = !label->pixmap(Qt::ReturnByValue).isNull() && label->isVisible();
    QVERIFY(label->width() <= start->width());
  }
  QVERIFY(found);
}

void WindowHelpTest::theTourGoesThroughSixParts() {
  Window test;
  QVERIFY(test.run(64));
  QAction* start = command(test.window, "&Tour");
  QVERIFY(start != nullptr);
  start->trigger();
  auto* tour = test.window.findChild<Tour*>();
  QVERIFY(tour != nullptr);
  QCOMPARE(tour->steps(), 6);
  const QRect room = test.window.rect();
  for (int step = 0; step < 6; ++step) {
    QCOMPARE(tour->step(), step);
    QVERIFY(room.contains(tour->findChild<QFrame*>()->geometry()));
    // The card has room for all lines of its text.
    for (const auto* label : tour->findChildren<QLabel*>()) {
      if (label->wordWrap()) QVERIFY(label->height() >= label->heightForWidth(label->width()));
    }
    if (step == 2) {
      QTest::keyClick(tour, Qt::Key_Left);
      QCOMPARE(tour->step(), 1);
      QTest::keyClick(tour, Qt::Key_Right);
    }
    if (step < 5) QTest::keyClick(tour, Qt::Key_Right);
  }
  QPointer<Tour> gone = tour;
  QTest::keyClick(tour, Qt::Key_Return);
  QTRY_VERIFY(!gone);
  start->trigger();
  gone = test.window.findChild<Tour*>();
  QTest::keyClick(gone, Qt::Key_Escape);
  QTRY_VERIFY(!gone);
}

void WindowHelpTest::theTourOpensTheDemoWhereThereIsNothing() {
  Window test;
  command(test.window, "&Tour")->trigger();
  QVERIFY(test.window.findChild<Tour*>() == nullptr);
  QTRY_VERIFY_WITH_TIMEOUT(test.window.findChild<Tour*>() != nullptr, kPatience);
  QVERIFY(!test.document().runs().empty());
}

void WindowHelpTest::everyTermOfTheWindowIsInTheGlossary() {
  Window test;
  QVERIFY(test.run(64));
  const QStringList terms = Glossary().terms();
  QCOMPARE(QSet<QString>(terms.begin(), terms.end()).size(), terms.size());
  QVERIFY(terms.size() > 10);
  QStringList asked;
  for (const auto* widget : test.window.findChildren<QWidget*>()) {
    if (!widget->whatsThis().isEmpty()) asked += widget->whatsThis();
    const auto* table = qobject_cast<const QTableView*>(widget);
    for (int column = 0; table != nullptr && column < table->model()->columnCount(); ++column) {
      asked += table->model()->headerData(column, Qt::Horizontal, Qt::WhatsThisRole).toString();
    }
  }
  asked.removeAll(QString());
  QVERIFY(asked.size() > 4);
  for (const QString& term : asked) QVERIFY2(terms.contains(term), qPrintable(term));
}

void WindowHelpTest::theGlossaryOpensAtWhatIsUnderTheMouse() {
  Window test;
  QVERIFY(test.run(64));
  auto& grid = test.window.headsView().grid();
  QCOMPARE(termAt(grid.mapToGlobal(grid.rect().center())), QStringLiteral("decay-time"));
  QCOMPARE(termAt(test.window.mapToGlobal(QPoint(-50, -50))), QString());
  QCursor::setPos(grid.mapToGlobal(grid.rect().center()));
  press(test.window, QKeySequence("F1"));
  auto* glossary = test.window.findChild<Glossary*>();
  QVERIFY(glossary != nullptr && glossary->isVisible());
  glossary->show(QStringLiteral("attention"));
  QCOMPARE(glossary->term(), QStringLiteral("attention"));
  glossary->show(QStringLiteral("no-such-term"));
  QCOMPARE(glossary->term(), QStringLiteral("attention"));
}

void WindowHelpTest::filesOpenedLatelyHavePictures() {
  const Folder folder;
  const QString path = folder.path("run.h5");
  {
    Window test;
    QVERIFY(test.run(64));
    test.document().files().saveRunFile(path);
    QVERIFY(test.settle());
  }
  QVERIFY(thumbnailOf(path).isNull());
  {
    Window test;
    test.window.setRemembering(MainWindow::Remembering::on);
    test.document().open({path});
    QTRY_COMPARE_WITH_TIMEOUT(test.document().runs().size(), 2U, kPatience);
    QVERIFY(test.settle());
    test.window.close();
  }
  QCOMPARE(thumbnailOf(path).deviceIndependentSize().toSize(), kThumbnail);
  Window test;
  const auto* start = test.window.findChild<StartPage*>();
  int pictures = 0;
  for (const auto* label : start->findChildren<QLabel*>()) {
    if (label->size() == kThumbnail && !label->pixmap(Qt::ReturnByValue).isNull()) ++pictures;
  }
  QCOMPARE(pictures, 1);
  forgetThumbnails({path});
  QVERIFY(thumbnailOf(path).isNull());
}

void WindowHelpTest::messagesLeaveTheMapsTheirPlace() {
  Window test;
  QVERIFY(test.run(64));
  const QRect before = test.window.maps().geometry();
  test.document().open({test.folder.path("nowhere")});
  QVERIFY(test.settle());
  QVERIFY(test.said("nowhere"));
  QCOMPARE(test.window.maps().geometry(), before);
}

}  // namespace foxscope::gui::test

FOXSCOPE_GUI_SUBJECT(window_help, foxscope::gui::test::WindowHelpTest)
#include "window_help_test.moc"
