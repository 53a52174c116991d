// What explains the window: the first page's questions, the tour, the glossary, small pictures of files.
#include <algorithm>
#include <cmath>

#include <QCommandLinkButton>
#include <QHeaderView>
#include <QLabel>
#include <QListWidget>
#include <QPushButton>
#include <QRegularExpression>
#include <QSet>
#include <QTableView>
#include <QTest>

#include "app/gui/curves/curves_view.h"
#include "app/gui/heads/head_grid.h"
#include "app/gui/heads/heads_view.h"
#include "app/gui/maps/maps_view.h"
#include "app/gui/text/text_view.h"
#include "app/gui/views/estimate_text.h"
#include "app/gui/window/figures/thumbnails.h"
#include "app/gui/window/help/answer_bar.h"
#include "app/gui/window/help/glossary.h"
#include "app/gui/window/help/start_page.h"
#include "app/gui/window/help/tour.h"
#include "backend/eval/loss/loss_comparison.h"
#include "backend/eval/loss/loss_file.h"
#include "tests/gui/subject.h"
#include "tests/gui/window/window_shown.h"

namespace foxscope::gui::test {

class WindowHelpTest : public QObject {
  Q_OBJECT

 private slots:
  void initTestCase();
  void everyQuestionOfTheFirstPageOpensItsAnswer_data();
  void everyQuestionOfTheFirstPageOpensItsAnswer();
  void theFirstPageHasAPictureForEachQuestion();
  void theFirstPageIsWorkedByTheKeyboard();
  void aQuestionIsAnsweredInNumbersAndLeavesNothingToTheNext();
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

void WindowHelpTest::theFirstPageHasAPictureForEachQuestion() {
  Window test;
  QRect before;
  for (const auto& [words, name] :
       {std::pair{"What does this head forget?", "question-forgets"}, std::pair{"Where does FoX win?", "question-wins"},
        std::pair{"Which heads remember the title?", "question-remembers"}}) {
    auto* card = question(test.window, words);
    QVERIFY(card != nullptr && card->isVisible());
    QVERIFY(card->parentWidget()->rect().contains(card->geometry()));
    QVERIFY(card->geometry().left() > before.right());
    before = card->geometry();
    for (const char* theme : {"light", "dark"}) {
      const QPixmap picture(QStringLiteral(":/help/%1-%2.png").arg(name, theme));
      QVERIFY2(picture.width() >= 2 * 280, name);
    }
    // More than one colour where the picture is.
    const QImage shown = card->grab(QRect(0, 0, card->width(), card->width() / 2)).toImage();
    QSet<QRgb> colours;
    for (int x = 0; x < shown.width(); ++x) colours.insert(shown.pixel(x, shown.height() / 2));
    QVERIFY2(colours.size() > 5, name);
  }
}

void WindowHelpTest::theFirstPageIsWorkedByTheKeyboard() {
  Window test;
  const auto* demo = qobject_cast<const QPushButton*>(test.window.focusWidget());
  QVERIFY(demo != nullptr);
  QCOMPARE(demo->text(), "Demo");
  for (const char* words : {"What does this head forget?", "Where does FoX win?", "Which heads remember the title?"}) {
    auto* card = question(test.window, words);
    const QImage plain = card->grab().toImage();
    QTest::keyClick(test.window.focusWidget(), Qt::Key_Tab);
    QCOMPARE(test.window.focusWidget(), card);
    const QImage focused = card->grab().toImage();
    // A frame of the accent's colour, all around.
    const QColor accent = test.window.palette().color(QPalette::Highlight);
    QVERIFY(focused != plain);
    for (const QPoint& place : {QPoint(card->width() / 2, 0), QPoint(card->width() / 2, card->height() - 1),
                                QPoint(0, card->height() / 2), QPoint(card->width() - 1, card->height() / 2)}) {
      QCOMPARE(focused.pixelColor(place), accent);
    }
  }
  QTest::keyClick(test.window.focusWidget(), Qt::Key_Return);
  QTRY_VERIFY(test.document().sessions().file().endsWith("demo-remembers.json"));
  test.document().modelRuns().cancelRun();
}

namespace {

/// F of every head of the first run, between two positions, the largest first.
std::vector<std::pair<double, HeadChoice>> heldBy(const Run& run, std::size_t query, std::size_t key) {
  std::vector<std::pair<double, HeadChoice>> held;
  for (int layer = 0; layer < run.trace->info().layers; ++layer) {
    for (int head = 0; head < run.trace->info().heads; ++head) {
      const auto c = run.trace->cumulative_log_gate(layer, head);
      held.emplace_back(std::exp(c[query] - c[key]), HeadChoice{run.id, layer, head});
    }
  }
  std::sort(held.begin(), held.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  return held;
}

}  // namespace

// The answer to one question, then that to another in its place: nothing of the first is left.
void WindowHelpTest::aQuestionIsAnsweredInNumbersAndLeavesNothingToTheNext() {
  Window test;
  const auto* answer = test.window.findChild<AnswerBar*>();
  QVERIFY(!answer->isVisible());
  const auto open = [&](const char* name) {
    test.document().open({source(QStringLiteral("resources/demo-%1.json").arg(name))});
    return QTest::qWaitFor([&] { return test.document().sessions().file().contains(name); }, kPatience) &&
           QTest::qWaitFor([&] { return test.document().runs().size() == 2; }, kPatience) && test.settle();
  };
  QVERIFY(open("remembers"));
  const Run& fox = test.document().runs()[0];
  const auto held = heldBy(fox, 2047, 4);
  QVERIFY(answer->isVisible());
  QString named = QStringLiteral("After 2,043 tokens, ");
  const auto headText = [](const HeadChoice& head) { return QString("L%1 H%2").arg(head.layer).arg(head.head); };
  QVERIFY(held[1].first >= 0.01 && held[2].first < 0.01);
  named += headText(held[0].second) + " and " + headText(held[1].second) +
           " of fox-pro-12m still hold F = " + QString::number(held[0].first, 'g', 2) + " and " +
           QString::number(held[1].first, 'g', 2) + " of the title; every other head less than ";
  QVERIFY2(answer->text().startsWith(named), qPrintable(answer->text()));
  const double bound = answer->text().mid(named.size()).chopped(1).toDouble();
  QVERIFY(bound > held[2].first && bound <= 10 * held[2].first);
  QCOMPARE(test.window.headsView().colouring().quantity, HeadQuantity::pinnedForget);

  QVERIFY(open("wins"));
  const Run& first = test.document().runs()[0];
  const Run& second = test.document().runs()[1];
  const LossComparison whole = compare_losses(first.trace->per_token_loss(), second.trace->per_token_loss(), {0, 2048});
  QVERIFY2(answer->text().contains(estimateText(whole.difference.mean)), qPrintable(answer->text()));
  // What the shipped losses of longer windows say: their mean over the second half, by hand.
  const LossEvaluation losses = LossEvaluation::open(source("resources/figures/loss.h5").toStdString());
  double sum = 0;
  for (std::int64_t window = 0; window < 24; ++window) {
    for (std::size_t position = 4096; position < 8192; ++position) {
      sum += static_cast<double>(losses.models[0].losses.row(window)[position]) -
             static_cast<double>(losses.models[1].losses.row(window)[position]);
    }
  }
  const QRegularExpression said(QStringLiteral("FoX − Transformer.*−([0-9.]+) ± [0-9.]+ in positions 4,096 to 8,191"));
  const QRegularExpressionMatch found = said.match(answer->text());
  QVERIFY2(found.hasMatch(), qPrintable(answer->text()));
  QVERIFY(std::abs(found.captured(1).toDouble() + sum / (24 * 4096)) < 0.001);
  QCOMPARE(test.window.headsView().colouring().quantity, HeadQuantity::rateDecayTime);
  QCOMPARE(test.window.text().saveState()["tint"].toString(), "loss_difference");

  QVERIFY(open("forgets"));
  QVERIFY2(answer->text().startsWith("L3 H0 of fox-pro-12m keeps 1/e"), qPrintable(answer->text()));
  const auto c = test.document().runs()[0].trace->cumulative_log_gate(3, 0);
  const double decay = -static_cast<double>(c.size() - 1) / (c.back() - c.front());
  QVERIFY2(answer->text().contains(QString::number(decay, 'g', 3) + " tokens"), qPrintable(answer->text()));
  QVERIFY(test.document().evaluations().empty());
  // It stays when another head is chosen, and goes by its button.
  const QString text = answer->text();
  test.document().runs().selection().setHead({test.document().runs()[0].id, 1, 1});
  QVERIFY(test.settle());
  QCOMPARE(answer->text(), text);
  QTest::mouseClick(&answer->close(), Qt::LeftButton);
  QVERIFY(!answer->isVisible());
}

void WindowHelpTest::theTourGoesThroughSixParts() {
  Window test(source("resources/demo.json"), {1366, 724});
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
    // Every line of the text is seen.
    for (const auto* label : tour->findChildren<QLabel*>()) {
      const QRect needed = label->fontMetrics().boundingRect(QRect(0, 0, label->width(), 10'000),
                                                             label->wordWrap() ? Qt::TextWordWrap : 0, label->text());
      QVERIFY2(label->height() >= needed.height() && label->width() >= needed.width(), qPrintable(label->text()));
      QVERIFY(label->parentWidget()->rect().contains(label->geometry()));
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
