#include <array>
#include <cmath>

#include <QApplication>
#include <QLabel>
#include <QLineEdit>
#include <QScrollBar>
#include <QSignalSpy>
#include <QTest>
#include <QToolButton>
#include <QWheelEvent>

#include "app/gui/text/find_bar.h"
#include "app/gui/text/go_bar.h"
#include "app/gui/text/text_overview.h"
#include "app/gui/views/theme.h"
#include "tests/gui/subject.h"
#include "tests/gui/text/text_shown.h"

namespace foxscope::gui::test {

class TextViewMovingTest : public QObject {
  Q_OBJECT

 private slots:
  void keysMoveThePin();
  void enterPinsTheHovered();
  void theTextFollowsTheMaps();
  void theMapsDoNotFollowTheText();
  void aPinFromElsewhereIsScrolledTo();
  void findCountsAndGoesRound();
  void whatWasFoundStaysWhereTheTextIsLaidAnew();
  void findTellsCaseApart();
  void goToPosition();
  void escapeClosesTheBars();
  void theOverviewScrolls();
  void theOverviewOfALongTextIsItsMean();
  void aLongTextIsLaidOutScrolledAndHovered();
  void resizingKeepsThePlace();
};

void TextViewMovingTest::keysMoveThePin() {
  Shown shown({words(2000)});
  QVERIFY(shown.came());
  const auto query = [&] { return shown.selection().pin().query.value_or(-1); };
  const TextLayout& layout = *shown.page->textLayout();
  shown.click(30);
  shown.press(Qt::Key_Right);
  QCOMPARE(query(), 31);
  shown.press(Qt::Key_Left);
  shown.press(Qt::Key_Left);
  QCOMPARE(query(), 29);
  const std::int64_t line = layout.lineOfCell(29);
  shown.press(Qt::Key_Down);
  QCOMPARE(layout.lineOfCell(query()), line + 1);
  shown.press(Qt::Key_Up);
  QCOMPARE(query(), 29);
  shown.press(Qt::Key_Home);
  QCOMPARE(layout.lineOfCell(query()), line);
  QCOMPARE(layout.lineOfCell(query() - 1), line - 1);
  shown.press(Qt::Key_End);
  QCOMPARE(layout.lineOfCell(query()), line);
  QCOMPARE(layout.lineOfCell(query() + 1), line + 1);
  shown.press(Qt::Key_PageDown);
  QVERIFY(layout.lineOfCell(query()) >= line + 5);
  shown.press(Qt::Key_PageUp);
  QCOMPARE(layout.lineOfCell(query()), line);
  shown.press(Qt::Key_End, Qt::ControlModifier);
  QCOMPARE(query(), 1999);
  QVERIFY(shown.page->viewport()->rect().contains(shown.pointOf(1999)));
  shown.press(Qt::Key_Right);
  QCOMPARE(query(), 1999);
  shown.press(Qt::Key_Home, Qt::ControlModifier);
  QCOMPARE(query(), 0);
  shown.press(Qt::Key_Left);
  QCOMPARE(query(), 0);
  QCOMPARE(shown.page->verticalScrollBar()->value(), 0);
}

void TextViewMovingTest::enterPinsTheHovered() {
  Shown shown({words(120)});
  QVERIFY(shown.came());
  shown.hover(33);
  shown.press(Qt::Key_Return);
  QCOMPARE(shown.selection().pin().query, std::optional<std::int64_t>(33));
}

void TextViewMovingTest::theTextFollowsTheMaps() {
  Shown shown({words(3000)});
  QVERIFY(shown.came());
  shown.selection().setView({{2500, 2600}, {0, 100}});
  const Range lines = shown.page->visibleLines();
  QVERIFY(shown.page->viewport()->rect().contains(shown.pointOf(2500)));
  // The margin is marked beside the range, and nowhere else.
  const QImage picture = shown.page->viewport()->grab().toImage();
  const TextLayout& layout = *shown.page->textLayout();
  const QColor mark = pinnedQueryColour(shown.page->palette());
  for (std::int64_t line = lines.begin; line < lines.end; ++line) {
    const auto y = static_cast<int>(shown.page->cellRect(layout.spans(line)[1].cell).center().y());
    if (y < 0 || y >= picture.height()) continue;
    const bool within = line >= layout.lineOfCell(2500) && line <= layout.lineOfCell(2599);
    QCOMPARE(picture.pixelColor(3, y) == mark, within);
  }
  // A range that is partly seen does not move the text.
  const int before = shown.page->verticalScrollBar()->value();
  shown.selection().setView({{2480, 2520}, {0, 100}});
  QCOMPARE(shown.page->verticalScrollBar()->value(), before);
}

void TextViewMovingTest::theMapsDoNotFollowTheText() {
  Shown shown({words(3000)});
  QVERIFY(shown.came());
  QSignalSpy views(&shown.selection(), &Selection::viewChanged);
  QWheelEvent wheel({50, 50}, shown.page->viewport()->mapToGlobal(QPointF(50, 50)), {}, {0, -600}, Qt::NoButton,
                    Qt::NoModifier, Qt::NoScrollPhase, false);
  QApplication::sendEvent(shown.page->viewport(), &wheel);
  QVERIFY(shown.page->verticalScrollBar()->value() > 0);
  shown.page->verticalScrollBar()->setValue(2000);
  QCOMPARE(views.count(), 0);
}

void TextViewMovingTest::aPinFromElsewhereIsScrolledTo() {
  Shown shown({words(3000)});
  QVERIFY(shown.came());
  shown.selection().setPin({2000, 10});
  QVERIFY(shown.page->viewport()->rect().contains(shown.pointOf(2000)));
  shown.selection().setPin({2000, 20});
  QVERIFY(shown.page->viewport()->rect().contains(shown.pointOf(20)));
}

void TextViewMovingTest::findCountsAndGoesRound() {
  TextRun run = words(2000);
  run.text = "needle " + run.text + " Needle and a needle";
  run.tokens = cutIntoWords(run.text);
  Shown shown({run});
  QVERIFY(shown.came());
  QTest::keyClick(shown.page, Qt::Key_F, Qt::ControlModifier);
  auto* bar = shown.view.findChild<FindBar*>();
  QVERIFY(bar->isVisible());
  auto* input = bar->findChild<QLineEdit*>();
  auto* count = bar->findChild<QLabel*>("findCount");
  QTest::keyClicks(input, "needle");
  QVERIFY(shown.settle());
  QCOMPARE(count->text(), "1 of 3");
  QCOMPARE(shown.page->hits().place.size(), std::size_t{3});
  QTest::keyClick(shown.page, Qt::Key_F3);
  QCOMPARE(count->text(), "2 of 3");
  QVERIFY(shown.page->viewport()->rect().contains(shown.pointOf(2001)));
  QTest::keyClick(input, Qt::Key_Return);
  QCOMPARE(count->text(), "3 of 3");
  QTest::keyClick(input, Qt::Key_Return);
  QCOMPARE(count->text(), "1 of 3");
  QCOMPARE(shown.page->verticalScrollBar()->value(), 0);
  QTest::keyClick(shown.page, Qt::Key_F3, Qt::ShiftModifier);
  QCOMPARE(count->text(), "3 of 3");
  QTest::keyClicks(input, "less");
  QVERIFY(shown.settle());
  QCOMPARE(count->text(), "not found");
}

void TextViewMovingTest::whatWasFoundStaysWhereTheTextIsLaidAnew() {
  TextRun run = words(2000);
  run.text = "needle " + run.text + " Needle and a needle";
  run.tokens = cutIntoWords(run.text);
  Shown shown({run, second(run)});
  QVERIFY(shown.came());
  QTest::keyClick(shown.page, Qt::Key_F, Qt::ControlModifier);
  auto* bar = shown.view.findChild<FindBar*>();
  QTest::keyClicks(bar->findChild<QLineEdit*>(), "needle");
  QVERIFY(shown.settle());
  QTest::keyClick(shown.page, Qt::Key_F3);
  auto* count = bar->findChild<QLabel*>("findCount");
  QCOMPARE(count->text(), "2 of 3");
  shown.selection().setPin({700, std::nullopt});
  shown.document.runs().removeRun(shown.document.runs()[0].id);
  QVERIFY(shown.settle());
  QCOMPARE(count->text(), "2 of 3");
  QVERIFY(shown.selection().pin() == (Cursor{700, std::nullopt}));
  QVERIFY(shown.page->viewport()->rect().contains(shown.pointOf(700)));
}

void TextViewMovingTest::findTellsCaseApart() {
  TextRun run;
  run.text = "Fox and fox and FOX";
  run.tokens = cutIntoWords(run.text);
  Shown shown({run});
  QVERIFY(shown.came());
  shown.command("Find in the text")->trigger();
  auto* bar = shown.view.findChild<FindBar*>();
  QTest::keyClicks(bar->findChild<QLineEdit*>(), "fox");
  for (auto* button : bar->findChildren<QToolButton*>()) {
    if (button->text() == "Aa") QTest::mouseClick(button, Qt::LeftButton);
  }
  QVERIFY(shown.settle());
  QCOMPARE(bar->findChild<QLabel*>("findCount")->text(), "1 of 1");
}

void TextViewMovingTest::goToPosition() {
  Shown shown({words(3000)});
  QVERIFY(shown.came());
  const auto go = [&](const QString& input) {
    QTest::keyClick(shown.page, Qt::Key_G, Qt::ControlModifier);
    auto* bar = shown.view.findChild<GoBar*>();
    auto* line = bar->findChild<QLineEdit*>();
    line->clear();
    QTest::keyClicks(line, input);
    QTest::keyClick(line, Qt::Key_Return);
    return bar;
  };
  QVERIFY(!go("1234")->isVisible());
  QCOMPARE(shown.selection().pin().query, std::optional<std::int64_t>(1234));
  QVERIFY(shown.page->viewport()->rect().contains(shown.pointOf(1234)));
  go("50 %");
  QCOMPARE(shown.selection().pin().query, std::optional<std::int64_t>(1500));
  go("+500");
  QCOMPARE(shown.selection().pin().query, std::optional<std::int64_t>(2000));
  go("-500");
  GoBar* bar = go("3000");
  QVERIFY(bar->isVisible());
  QCOMPARE(bar->findChild<QLabel*>("goHint")->text(), "type 0 to 2999, 0 % to 100 %, or +1 to +1499");
  // So many tokens behind the pinned key, or else the query.
  shown.selection().setPin({700, 150});
  QVERIFY(!go("+500")->isVisible());
  QCOMPARE(shown.selection().pin(), (Cursor{650, 150}));
  shown.selection().setPin({1500, {}});
  QCOMPARE(shown.selection().pin().query, std::optional<std::int64_t>(1500));
}

void TextViewMovingTest::escapeClosesTheBars() {
  Shown shown({words(120)});
  QVERIFY(shown.came());
  shown.command("Find in the text")->trigger();
  auto* find = shown.view.findChild<FindBar*>();
  auto* input = find->findChild<QLineEdit*>();
  QTest::keyClicks(input, "fox");
  QVERIFY(shown.settle());
  QVERIFY(!shown.page->hits().place.empty());
  QTest::keyClick(input, Qt::Key_Escape);
  QVERIFY(!find->isVisible());
  QVERIFY(shown.page->hits().place.empty());
  shown.command("Go to position")->trigger();
  auto* go = shown.view.findChild<GoBar*>();
  QVERIFY(go->isVisible());
  QTest::keyClick(go->findChild<QLineEdit*>(), Qt::Key_Escape);
  QVERIFY(!go->isVisible());
}

void TextViewMovingTest::theOverviewScrolls() {
  Shown shown({words(5000)});
  QVERIFY(shown.came());
  auto* overview = shown.view.findChild<TextOverview*>();
  const auto y = static_cast<int>(overview->yOfCell(4000));
  QTest::mouseClick(overview, Qt::LeftButton, {}, {overview->width() / 2, y});
  const TextLayout& layout = *shown.page->textLayout();
  const std::int64_t seen = (shown.page->visibleLines().begin + shown.page->visibleLines().end) / 2;
  // A pixel of the strip stands for so many lines.
  const auto lines = layout.lineCount() / overview->height() + 2;
  QVERIFY(std::abs(seen - layout.lineOfCell(4000)) <= lines);
  // A pin is drawn where its word is.
  shown.selection().setPin({4500, {}});
  const QImage picture = overview->grab().toImage();
  QCOMPARE(picture.pixelColor(overview->width() / 2, static_cast<int>(overview->yOfCell(4500)) + 1),
           pinnedQueryColour(overview->palette()));
}

// Where a row of the strip stands for many tokens, nearly every row has a strong one: the mean tells rows apart.
void TextViewMovingTest::theOverviewOfALongTextIsItsMean() {
  Shown shown({words(20'000)});
  QVERIFY(shown.came());
  QVERIFY(shown.page->tint() != nullptr);
  auto* overview = shown.view.findChild<TextOverview*>();
  shown.selection().setPin({});
  const TextLayout& layout = *shown.page->textLayout();
  const QImage picture = overview->grab().toImage();
  const double ratio = picture.devicePixelRatio();
  const int rows = static_cast<int>(std::lround(overview->height() * ratio));
  // The strip's last line begins where its last cell is.
  const auto lines = static_cast<double>(layout.lineCount());
  const double ofLine = overview->yOfCell(layout.cells().length()) / (lines - 1);
  const double linesOfRow = overview->height() / (ofLine * rows);
  QVERIFY(linesOfRow > 1);
  int compared = 0;
  for (int row = rows / 3; row < rows / 2; ++row) {
    const auto first = static_cast<std::int64_t>(std::floor(row * linesOfRow));
    const auto last = static_cast<std::int64_t>(std::floor((row + 1) * linesOfRow));
    std::array<double, 3> sums{};
    double count = 0;
    for (std::int64_t cell = layout.firstCell(first); cell < layout.firstCell(last); ++cell, ++count) {
      const QColor tint = shown.page->tintColour(cell);
      const QColor colour = tint.isValid() ? tint : overview->palette().color(QPalette::Base);
      sums[0] += colour.red();
      sums[1] += colour.green();
      sums[2] += colour.blue();
    }
    if (count <= 8) continue;
    const QColor drawn = picture.pixelColor(picture.width() / 2, row);
    // The line that a boundary falls on may belong to either row.
    QVERIFY(std::abs(drawn.red() - sums[0] / count) < 12 && std::abs(drawn.green() - sums[1] / count) < 12 &&
            std::abs(drawn.blue() - sums[2] / count) < 12);
    ++compared;
  }
  QVERIFY(compared > 10);
}

void TextViewMovingTest::aLongTextIsLaidOutScrolledAndHovered() {
  constexpr std::int64_t kTokens = 65'536;
  Shown shown({words(kTokens)});
  QVERIFY(shown.came());
  const TextLayout& layout = *shown.page->textLayout();
  QCOMPARE(layout.cells().length(), kTokens);
  QScrollBar* bar = shown.page->verticalScrollBar();
  for (int step = 0; step <= 20; ++step) {
    bar->setValue(bar->maximum() / 20 * step);
    const QPoint centre = shown.page->viewport()->rect().center();
    QTest::mouseMove(shown.page->viewport(), centre);
    const auto under = shown.page->cellAt(QPointF(centre));
    if (under && *under < kTokens) QCOMPARE(shown.selection().hover().query, under);
    QVERIFY(!shown.page->viewport()->grab().isNull());
  }
  bar->setValue(bar->maximum());
  QVERIFY(shown.page->viewport()->rect().contains(shown.pointOf(kTokens)));
  shown.click(kTokens - 1);
  QVERIFY(shown.choose(TintKind::forgetRow));
  QCOMPARE(shown.valueAt(kTokens - 1), 1.0F);
  const auto c = shown.trace().cumulative_log_gate(0, 0);
  QCOMPARE(shown.valueAt(kTokens - 9), static_cast<float>(std::exp(c[kTokens - 1] - c[kTokens - 9])));
}

void TextViewMovingTest::resizingKeepsThePlace() {
  Shown shown({words(5000)});
  QVERIFY(shown.came());
  shown.page->verticalScrollBar()->setValue(3000);
  const std::int64_t first = shown.page->textLayout()->firstCell(shown.page->visibleLines().begin);
  shown.view.resize(400, 420);
  QVERIFY(shown.page->textLayout()->lineOfCell(first) >= shown.page->visibleLines().begin);
  QVERIFY(shown.page->textLayout()->lineOfCell(first) <= shown.page->visibleLines().begin + 1);
}

}  // namespace foxscope::gui::test

FOXSCOPE_GUI_SUBJECT(text_view_moving, foxscope::gui::test::TextViewMovingTest)
#include "text_view_moving_test.moc"
