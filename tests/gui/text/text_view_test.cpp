#include "app/gui/text/text_view.h"

#include <cmath>

#include <QAbstractButton>
#include <QApplication>
#include <QClipboard>
#include <QComboBox>
#include <QContextMenuEvent>
#include <QHelpEvent>
#include <QLabel>
#include <QLineEdit>
#include <QMenu>
#include <QScrollBar>
#include <QSignalSpy>
#include <QTest>
#include <QToolButton>
#include <QToolTip>
#include <QWheelEvent>

#include "app/gui/text/find_bar.h"
#include "app/gui/text/go_bar.h"
#include "app/gui/text/text_overview.h"
#include "app/gui/text/text_page.h"
#include "app/gui/text/text_tool_row.h"
#include "app/gui/text/tint_bar.h"
#include "app/gui/views/theme.h"
#include "backend/map/map.h"
#include "tests/gui/text/text_run.h"

namespace foxscope::gui::test {
namespace {

constexpr int kPatienceMs = 20'000;

/// A document with runs and the view on them.
class Shown {
 public:
  explicit Shown(const std::vector<TextRun>& runs) {
    view.resize(640, 420);
    view.show();
    std::vector<std::shared_ptr<const Trace>> traces;
    for (const TextRun& run : runs) traces.push_back(makeTextRun(run));
    m_came = openRuns(document, m_folder, traces) && settle();
    page = view.findChild<TextPage*>();
    tools = view.findChild<TextToolRow*>();
  }

  [[nodiscard]] bool came() const { return m_came; }
  [[nodiscard]] bool settle() {
    return QTest::qWaitFor([&] { return view.isSettled() && !document.busy(); }, kPatienceMs);
  }
  [[nodiscard]] Selection& selection() { return document.selection(); }
  [[nodiscard]] const Trace& trace() const { return *document.reference()->trace; }
  [[nodiscard]] float valueAt(std::int64_t cell) const { return page->tint()->value[static_cast<std::size_t>(cell)]; }
  [[nodiscard]] QPoint pointOf(std::int64_t cell) const { return page->cellRect(cell).center().toPoint(); }
  void hover(std::int64_t cell) const { QTest::mouseMove(page->viewport(), pointOf(cell)); }
  void click(std::int64_t cell, Qt::KeyboardModifiers modifiers = Qt::NoModifier) const {
    QTest::mouseClick(page->viewport(), Qt::LeftButton, modifiers, pointOf(cell));
  }
  void press(Qt::Key key, Qt::KeyboardModifiers modifiers = Qt::NoModifier) const {
    QTest::keyClick(page, key, modifiers);
  }
  /// Chooses by the combo box, as a user does.
  [[nodiscard]] bool choose(TintKind kind) {
    auto* combo = tools->findChild<QComboBox*>();
    for (QComboBox* each : tools->findChildren<QComboBox*>()) {
      if (each->accessibleName() == "Tint") combo = each;
    }
    const int index = combo->findData(toString(kind));
    combo->setCurrentIndex(index);
    emit combo->activated(index);
    return settle();
  }
  [[nodiscard]] QAction* command(const QString& text) const {
    for (QAction* action : view.commands()) {
      if (action->text() == text) return action;
    }
    return nullptr;
  }

  Document document;
  TextView view{document};
  TextPage* page = nullptr;
  TextToolRow* tools = nullptr;

 private:
  Folder m_folder;
  bool m_came = false;
};

TextRun words(int count) {
  TextRun run;
  run.text = prose(count);
  run.tokens = cutIntoWords(run.text);
  return run;
}

TextRun second(TextRun run) {
  run.name = "second";
  run.seed = 2;
  return run;
}

float entry(const Trace& trace, Quantity quantity, std::int64_t query, std::int64_t key) {
  MapRequest request;
  request.head.trace = std::shared_ptr<const Trace>(std::shared_ptr<const Trace>(), &trace);
  request.quantity = quantity;
  request.rows = {query, query + 1};
  request.columns = {key, key + 1};
  request.pixel_rows = request.pixel_columns = 1;
  return compute_map(request, {})->value.front();
}

}  // namespace

class TextViewTest : public QObject {
  Q_OBJECT

 private slots:
  void theWordUnderTheMouseHasTheLossOfThePositionThatPredictsIt();
  void theWordUnderTheMouseHasTheRowEntryOfThePositionThatReadsIt();
  void hoverPreviewsAndLeavingEndsIt();
  void clickPinsTheQueryAndShiftClickTheKey();
  void theLastTokenIsReadByNoPosition();
  void aRowFollowsThePinOrThePointer();
  void differencesTakeTwoRuns();
  void runsAreChosenByName();
  void otherTokensAreMappedAndItIsSaid();
  void aModelWithoutGatesSaysSo();
  void aRunWithoutQueriesAndKeysSaysSo();
  void theScaleIsShownWithItsEndsAndUnit();
  void theTintIsPainted();
  void keysMoveThePin();
  void enterPinsTheHovered();
  void theTextFollowsTheMaps();
  void theMapsDoNotFollowTheText();
  void aPinFromElsewhereIsScrolledTo();
  void findCountsAndGoesRound();
  void findTellsCaseApart();
  void goToPosition();
  void escapeClosesTheBars();
  void theReadOutTellsWhatIsReadAndWhatIsPredicted();
  void theMenuPinsAndCopies();
  void theOverviewScrolls();
  void tokensWithoutText();
  void oneToken();
  void stateComesBackBeforeItsRuns();
  void aStrangeStateChangesNothing();
  void runsGoAndTheEditorComesBack();
  void aLongTextIsLaidOutScrolledAndHovered();
  void resizingKeepsThePlace();
  void coloursFollowThePalette();
  void commandsHaveTextsAndTips();
};

void TextViewTest::theWordUnderTheMouseHasTheLossOfThePositionThatPredictsIt() {
  Shown shown({words(120)});
  QVERIFY(shown.came());
  QVERIFY(shown.choose(TintKind::loss));
  const TokenTable& tokens = *shown.trace().tokens();
  for (const std::int64_t cell : {1, 2, 60, 119}) {
    const auto under = shown.page->cellAt(QPointF(shown.pointOf(cell)));
    QCOMPARE(under, std::optional(cell));
    // The word that is drawn there is the one that position cell - 1 predicts.
    const Stretch& place = shown.page->textLayout()->cells().cell[static_cast<std::size_t>(*under)];
    const std::string& text = shown.page->textLayout()->cells().shown;
    QCOMPARE(text.substr(static_cast<std::size_t>(place.begin), static_cast<std::size_t>(place.end - place.begin)),
             tokens.string[static_cast<std::size_t>(cell - 1)]);
    QCOMPARE(shown.valueAt(*under), shown.trace().per_token_loss()[static_cast<std::size_t>(cell - 1)]);
  }
  QVERIFY(!shown.page->tintColour(0).isValid());
}

void TextViewTest::theWordUnderTheMouseHasTheRowEntryOfThePositionThatReadsIt() {
  Shown shown({words(120)});
  QVERIFY(shown.came());
  shown.click(90);
  QCOMPARE(shown.selection().pin().query, std::optional<std::int64_t>(90));
  for (const auto& [kind, quantity] :
       {std::pair{TintKind::attentionRow, Quantity::attention}, std::pair{TintKind::forgetRow, Quantity::forget}}) {
    QVERIFY(shown.choose(kind));
    for (const std::int64_t cell : {0, 1, 40, 89, 90}) {
      shown.hover(cell);
      const auto key = shown.selection().hover().query;  // the position that reads the word under the mouse
      QCOMPARE(key, std::optional(cell));
      QVERIFY(std::abs(shown.valueAt(cell) - entry(shown.trace(), quantity, 90, *key)) < 2e-6F * shown.valueAt(cell));
    }
    QVERIFY(std::isnan(shown.valueAt(91)));
  }
}

void TextViewTest::hoverPreviewsAndLeavingEndsIt() {
  Shown shown({words(120)});
  QVERIFY(shown.came());
  QSignalSpy hovers(&shown.selection(), &Selection::hoverChanged);
  shown.hover(30);
  QCOMPARE(shown.selection().hover().query, std::optional<std::int64_t>(30));
  QVERIFY(!shown.selection().hover().key);
  shown.hover(31);
  QCOMPARE(hovers.count(), 2);
  QEvent leave(QEvent::Leave);
  QApplication::sendEvent(shown.page->viewport(), &leave);
  QVERIFY(!shown.selection().hover().query);
  QVERIFY(!shown.selection().pin().query);
}

void TextViewTest::clickPinsTheQueryAndShiftClickTheKey() {
  Shown shown({words(120)});
  QVERIFY(shown.came());
  shown.click(50);
  shown.click(20, Qt::ShiftModifier);
  QCOMPARE(shown.selection().pin(), (Cursor{50, 20}));
  shown.click(10);  // the key would be after the query
  QCOMPARE(shown.selection().pin(), (Cursor{10, std::nullopt}));
}

void TextViewTest::theLastTokenIsReadByNoPosition() {
  Shown shown({words(120)});
  QVERIFY(shown.came());
  shown.click(120);
  QVERIFY(!shown.selection().pin().query);
  shown.hover(120);
  QVERIFY(!shown.selection().hover().query);
  QVERIFY(!std::isnan(shown.valueAt(120)));  // but it is predicted
}

void TextViewTest::aRowFollowsThePinOrThePointer() {
  Shown shown({words(120)});
  QVERIFY(shown.came());
  QVERIFY(shown.choose(TintKind::forgetRow));
  QVERIFY(shown.page->tint() == nullptr);
  QCOMPARE(shown.tools->caption(), "click a word to pin it as query");
  shown.hover(40);  // nothing is pinned: the pointer shows its own
  QVERIFY(shown.settle());
  QCOMPARE(shown.page->tint()->lastReadCell, 40);
  shown.click(50);
  shown.hover(60);
  QVERIFY(shown.settle());
  QCOMPARE(shown.page->tint()->lastReadCell, 50);
  QVERIFY(shown.tools->caption().contains("query 50 “"));
  QVERIFY(shown.tools->caption().contains("(pinned)"));
  for (auto* button : shown.tools->findChildren<QAbstractButton*>()) {
    if (button->accessibleName() == "Follow pointer") QTest::mouseClick(button, Qt::LeftButton);
  }
  shown.hover(61);
  QVERIFY(shown.settle());
  QCOMPARE(shown.page->tint()->lastReadCell, 61);
  QVERIFY(shown.tools->caption().contains("(under the pointer)"));
  // Another head, another row.
  const float before = shown.valueAt(30);
  shown.selection().setHead({shown.document.reference()->id, 0, 1});
  QVERIFY(shown.settle());
  QVERIFY(shown.valueAt(30) != before);
}

void TextViewTest::differencesTakeTwoRuns() {
  const TextRun run = words(120);
  Shown shown({run, second(run)});
  QVERIFY(shown.came());
  QVERIFY(shown.choose(TintKind::lossDifference));
  const auto& runs = shown.document.runs();
  QCOMPARE(shown.valueAt(7), runs[0].trace->per_token_loss()[6] - runs[1].trace->per_token_loss()[6]);
  QCOMPARE(shown.tools->caption(), "loss of fox minus second, at the word predicted");
}

void TextViewTest::runsAreChosenByName() {
  const TextRun run = words(120);
  Shown shown({run, second(run)});
  QVERIFY(shown.came());
  for (auto* combo : shown.tools->findChildren<QComboBox*>()) {
    if (combo->accessibleName() != "Run") continue;
    QVERIFY(combo->isVisible());
    combo->setCurrentIndex(1);
    emit combo->textActivated(combo->currentText());
  }
  QVERIFY(shown.settle());
  QCOMPARE(shown.valueAt(7), shown.document.runs()[1].trace->per_token_loss()[6]);
  QVERIFY(shown.tools->caption().startsWith("loss of second"));
}

void TextViewTest::otherTokensAreMappedAndItIsSaid() {
  const TextRun run = words(120);
  TextRun other = second(run);
  other.tokens = cutEvery(other.text, 3);
  Shown shown({run, other});
  QVERIFY(shown.came());
  QVERIFY(!shown.tools->caption().contains("place"));
  shown.view.restoreState({{"tint", "loss"}, {"run", "second"}});
  QVERIFY(shown.settle());
  QVERIFY(shown.tools->caption().endsWith("other tokens, found by their place in the text"));
  const std::int64_t byte = run.tokens[50].first;
  QCOMPARE(shown.valueAt(51), shown.document.runs()[1].trace->per_token_loss()[static_cast<std::size_t>(byte / 3)]);
}

void TextViewTest::aModelWithoutGatesSaysSo() {
  TextRun run = words(120);
  run.gated = false;
  Shown shown({run});
  QVERIFY(shown.came());
  QVERIFY(shown.choose(TintKind::gate));
  QCOMPARE(shown.tools->caption(), "fox has no forget gate: f = 1, F = 1 everywhere");
  QCOMPARE(shown.valueAt(60), 0.0F);
}

void TextViewTest::aRunWithoutQueriesAndKeysSaysSo() {
  TextRun run = words(120);
  run.keep = {Keep::loss, Keep::gates, Keep::rows};
  Shown shown({run});
  QVERIFY(shown.came());
  shown.click(50);
  QVERIFY(shown.choose(TintKind::attentionRow));
  QVERIFY(shown.page->tint() == nullptr);
  QVERIFY2(shown.tools->caption().contains("did not keep"), qPrintable(shown.tools->caption()));
  QVERIFY(shown.choose(TintKind::forgetRow));
  QCOMPARE(shown.valueAt(50), 1.0F);
}

void TextViewTest::theScaleIsShownWithItsEndsAndUnit() {
  Shown shown({words(500)});
  QVERIFY(shown.came());
  const auto* bar = shown.tools->findChild<TintBar*>();
  QVERIFY(bar->isVisible());
  QCOMPARE(bar->lowerText(), "0");
  QVERIFY(bar->upperText().startsWith("≥ ") && bar->upperText().endsWith(" nats"));
  QVERIFY(shown.choose(TintKind::gate));
  QVERIFY(bar->lowerText().endsWith("0.0001"));
  QCOMPARE(bar->upperText(), "1");
  for (auto* button : shown.tools->findChildren<QAbstractButton*>()) {
    if (button->accessibleName() == "Log") QTest::mouseClick(button, Qt::LeftButton);
  }
  QVERIFY(shown.settle());
  QCOMPARE(bar->lowerText(), "0");
  QVERIFY(shown.choose(TintKind::none));
  QVERIFY(!bar->isVisible());
}

void TextViewTest::theTintIsPainted() {
  Shown shown({words(120)});
  QVERIFY(shown.came());
  const QImage picture = shown.page->viewport()->grab().toImage();
  for (const std::int64_t cell : {1, 20, 55, 90}) {
    // At the upper edge of the cell no letter reaches.
    const QRectF rect = shown.page->cellRect(cell);
    const QPoint point(static_cast<int>(rect.center().x()), static_cast<int>(rect.top()) + 2);
    QCOMPARE(picture.pixelColor(point), shown.page->tintColour(cell));
  }
}

void TextViewTest::keysMoveThePin() {
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

void TextViewTest::enterPinsTheHovered() {
  Shown shown({words(120)});
  QVERIFY(shown.came());
  shown.hover(33);
  shown.press(Qt::Key_Return);
  QCOMPARE(shown.selection().pin().query, std::optional<std::int64_t>(33));
}

void TextViewTest::theTextFollowsTheMaps() {
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

void TextViewTest::theMapsDoNotFollowTheText() {
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

void TextViewTest::aPinFromElsewhereIsScrolledTo() {
  Shown shown({words(3000)});
  QVERIFY(shown.came());
  shown.selection().setPin({2000, 10});
  QVERIFY(shown.page->viewport()->rect().contains(shown.pointOf(2000)));
  shown.selection().setPin({2000, 20});
  QVERIFY(shown.page->viewport()->rect().contains(shown.pointOf(20)));
}

void TextViewTest::findCountsAndGoesRound() {
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

void TextViewTest::findTellsCaseApart() {
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

void TextViewTest::goToPosition() {
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
  GoBar* bar = go("3000");
  QVERIFY(bar->isVisible());
  QCOMPARE(bar->findChild<QLabel*>("goHint")->text(), "type 0 to 2999, or 0 % to 100 %");
  QCOMPARE(shown.selection().pin().query, std::optional<std::int64_t>(1500));
}

void TextViewTest::escapeClosesTheBars() {
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

void TextViewTest::theReadOutTellsWhatIsReadAndWhatIsPredicted() {
  const TextRun run = words(120);
  Shown shown({run, second(run)});
  QVERIFY(shown.came());
  shown.selection().setPin({90, {}});
  const auto tipAt = [&](std::int64_t cell) {
    const QPoint point = shown.pointOf(cell);
    QHelpEvent help(QEvent::ToolTip, point, shown.page->viewport()->mapToGlobal(point));
    QApplication::sendEvent(shown.page->viewport(), &help);
    if (!shown.settle()) return QString();
    QTextDocument plain;
    plain.setHtml(QToolTip::text());
    return plain.toPlainText().simplified();
  };
  const auto number = [](double value) { return QString::number(value, 'g', 4); };
  const auto loss = [&](std::size_t index, std::size_t position) {
    return number(static_cast<double>(shown.document.runs()[index].trace->per_token_loss()[position]));
  };
  const std::vector<std::string>& word = shown.trace().tokens()->string;
  const auto quoted = [&](std::size_t token) {
    return QString("“%1”").arg(QString::fromStdString(word[token]).replace(' ', "␣").replace('\n', "⏎"));
  };
  const QString tip = tipAt(40);
  // Position 39 predicts the word and reads the one before; position 40 reads it and predicts the next.
  const QString before = QString("39 %1 %2 %3 %4").arg(quoted(38), quoted(39), loss(0, 39), loss(1, 39));
  const QString here = QString("40 %1 %2 %3 %4").arg(quoted(39), quoted(40), loss(0, 40), loss(1, 40));
  QVERIFY2(tip.contains(before), qPrintable(tip + "\n" + before));
  QVERIFY2(tip.contains(here), qPrintable(tip + "\n" + here));
  const auto c = shown.trace().cumulative_log_gate(0, 0);
  QVERIFY2(tip.contains("gate f = " + number(std::exp(c[40] - c[39]))), qPrintable(tip));
  QVERIFY2(tip.contains("F(90, 40) = " + number(std::exp(c[90] - c[40]))), qPrintable(tip));
  QVERIFY2(tip.contains("A(90, 40) = "), qPrintable(tip));
  QVERIFY(tipAt(0).contains("Stands before the text"));
  QVERIFY(tipAt(120).contains("read by no position"));
  // After the pinned query the pinned key is what there is to look back to.
  shown.selection().setPin({90, 30});
  QVERIFY(tipAt(100).contains("to the pinned key: F(100, 30) = "));
}

void TextViewTest::theMenuPinsAndCopies() {
  Shown shown({words(120)});
  QVERIFY(shown.came());
  const auto choose = [&](std::int64_t cell, const QString& text) {
    const QPoint point = shown.pointOf(cell);
    QContextMenuEvent event(QContextMenuEvent::Mouse, point, shown.page->viewport()->mapToGlobal(point));
    QApplication::sendEvent(shown.page->viewport(), &event);
    auto* menu = qobject_cast<QMenu*>(QApplication::activePopupWidget());
    if (menu == nullptr) return false;
    bool enabled = false;
    for (QAction* action : menu->actions()) {
      if (action->text() != text) continue;
      enabled = action->isEnabled();
      if (enabled) action->trigger();
    }
    menu->close();
    return enabled;
  };
  QVERIFY(choose(70, "Pin as query"));
  QVERIFY(choose(30, "Pin as key"));
  QCOMPARE(shown.selection().pin(), (Cursor{70, 30}));
  QVERIFY(choose(30, "Copy token"));
  QCOMPARE(QApplication::clipboard()->text().toStdString(), shown.trace().tokens()->string[29]);
  QVERIFY(choose(30, "Copy position"));
  QCOMPARE(QApplication::clipboard()->text(), "30");
  QVERIFY(!choose(120, "Pin as query"));
  QVERIFY(choose(120, "Copy token"));
  QCOMPARE(QApplication::clipboard()->text().toStdString(), shown.trace().tokens()->string[119]);
}

void TextViewTest::theOverviewScrolls() {
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

void TextViewTest::tokensWithoutText() {
  TextRun run = words(120);
  run.withText = false;
  Shown shown({run});
  QVERIFY(shown.came());
  QVERIFY(!shown.page->textLayout()->cells().hasText);
  shown.click(50);
  QCOMPARE(shown.selection().pin().query, std::optional<std::int64_t>(50));
  QCOMPARE(shown.valueAt(50), shown.trace().per_token_loss()[49]);
}

void TextViewTest::oneToken() {
  TextRun run;
  run.text = "fox";
  run.tokens = {{0, 3}};
  Shown shown({run});
  QVERIFY(shown.came());
  QCOMPARE(shown.page->textLayout()->lineCount(), 1);
  shown.press(Qt::Key_End, Qt::ControlModifier);
  QCOMPARE(shown.selection().pin().query, std::optional<std::int64_t>(0));
  for (const TintKind kind : kTintKinds) QVERIFY(shown.choose(kind));
}

void TextViewTest::stateComesBackBeforeItsRuns() {
  QJsonObject state;
  {
    const TextRun run = words(60);
    Shown shown({run, second(run)});
    shown.view.restoreState({{"tint", "loss"}, {"run", "second"}, {"follow_pointer", true}, {"logarithmic", {"loss"}}});
    state = shown.view.saveState();
  }
  Document document;
  TextView view(document);
  view.restoreState(state);
  const Folder folder;
  TextRun run = words(60);
  QVERIFY(openRuns(document, folder, {makeTextRun(run), makeTextRun(second(run))}));
  QVERIFY(QTest::qWaitFor([&] { return view.isSettled() && !document.busy(); }, kPatienceMs));
  QCOMPARE(view.findChild<TextPage*>()->tint()->value[9], document.runs()[1].trace->per_token_loss()[8]);
  QCOMPARE(view.saveState(), state);
  QVERIFY(state["follow_pointer"].toBool());
}

void TextViewTest::aStrangeStateChangesNothing() {
  Shown shown({words(60)});
  const QJsonObject before = shown.view.saveState();
  shown.view.restoreState({{"tint", "smell"}, {"run", 7}, {"follow_pointer", "yes"}, {"logarithmic", 3}});
  QCOMPARE(shown.view.saveState(), before);
}

void TextViewTest::runsGoAndTheEditorComesBack() {
  Shown shown({words(120)});
  QVERIFY(shown.came());
  QVERIFY(shown.command("Find in the text")->isEnabled());
  shown.click(50);
  shown.document.clear();
  QVERIFY(shown.settle());
  QVERIFY(!shown.page->isVisible());
  QVERIFY(!shown.command("Find in the text")->isEnabled());
  QVERIFY(shown.page->textLayout() == nullptr);
}

void TextViewTest::aLongTextIsLaidOutScrolledAndHovered() {
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

void TextViewTest::resizingKeepsThePlace() {
  Shown shown({words(5000)});
  QVERIFY(shown.came());
  shown.page->verticalScrollBar()->setValue(3000);
  const std::int64_t first = shown.page->textLayout()->firstCell(shown.page->visibleLines().begin);
  shown.view.resize(400, 420);
  QVERIFY(shown.page->textLayout()->lineOfCell(first) >= shown.page->visibleLines().begin);
  QVERIFY(shown.page->textLayout()->lineOfCell(first) <= shown.page->visibleLines().begin + 1);
}

void TextViewTest::coloursFollowThePalette() {
  Shown shown({words(120)});
  QVERIFY(shown.came());
  QApplication::setPalette(lightPalette());
  const QColor light = shown.page->tintColour(30);
  QApplication::setPalette(darkPalette());
  QCoreApplication::processEvents();
  const QColor dark = shown.page->tintColour(30);
  QVERIFY(light != dark);
  const QImage picture = shown.page->viewport()->grab().toImage();
  QCOMPARE(picture.pixelColor(0, 0), darkPalette().color(QPalette::Base));
  QApplication::setPalette(lightPalette());
}

void TextViewTest::commandsHaveTextsAndTips() {
  Document document;
  TextView view(document);
  for (const QAction* action : view.commands()) {
    QVERIFY(!action->text().isEmpty());
    QVERIFY(!action->toolTip().isEmpty());
  }
  for (const auto* button : view.findChildren<QToolButton*>()) {
    const bool isQtsOwn = qobject_cast<QLineEdit*>(button->parentWidget()) != nullptr;
    if (!isQtsOwn) QVERIFY2(!button->toolTip().isEmpty(), qPrintable(button->text()));
  }
}

}  // namespace foxscope::gui::test

QTEST_MAIN(foxscope::gui::test::TextViewTest)
#include "text_view_test.moc"
