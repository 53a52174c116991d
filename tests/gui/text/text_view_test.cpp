#include <cmath>

#include <QApplication>
#include <QClipboard>
#include <QContextMenuEvent>
#include <QHelpEvent>
#include <QLineEdit>
#include <QMenu>
#include <QSignalSpy>
#include <QTest>
#include <QToolButton>
#include <QToolTip>

#include "app/gui/text/text_page.h"
#include "tests/gui/subject.h"
#include "tests/gui/text/text_shown.h"

namespace foxscope::gui::test {

class TextViewTest : public QObject {
  Q_OBJECT

 private slots:
  void theWordUnderTheMouseHasTheLossOfThePositionThatPredictsIt();
  void theWordUnderTheMouseHasTheRowEntryOfThePositionThatReadsIt();
  void hoverPreviewsAndLeavingEndsIt();
  void clickPinsTheQueryAndShiftClickTheKey();
  void theLastTokenIsReadByNoPosition();
  void theReadOutTellsWhatIsReadAndWhatIsPredicted();
  void theMenuPinsAndCopies();
  void aWordIsAskedAfterFarBehindIt();
  void tokensWithoutText();
  void oneToken();
  void stateComesBackBeforeItsRuns();
  void aStrangeStateChangesNothing();
  void runsGoAndTheEditorComesBack();
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
    const Stretch& place = shown.page->textLayout()->cells().cell[index_of(*under)];
    const std::string& text = shown.page->textLayout()->cells().shown;
    QCOMPARE(text.substr(static_cast<std::size_t>(place.begin), static_cast<std::size_t>(place.end - place.begin)),
             tokens.string[index_of(cell - 1)]);
    QCOMPARE(shown.valueAt(*under), shown.trace().per_token_loss()[index_of(cell - 1)]);
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
  QVERIFY(tipAt(0).contains("The token before the text"));
  QVERIFY(tipAt(120).contains("no position reads it"));
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
  shown.selection().setView({{10, 13}, {0, 120}});
  QVERIFY(choose(30, "Copy text shown"));
  QString three;
  for (int position = 10; position < 13; ++position) {
    three += readText(*shown.trace().tokens(), position, Whitespace::asIs);
  }
  QCOMPARE(QApplication::clipboard()->text(), three);
  QVERIFY(choose(30, "Copy position"));
  QCOMPARE(QApplication::clipboard()->text(), "30");
  // Questions about a word.
  QSignalSpy order(&shown.view, &TextView::headOrderAsked);
  QSignalSpy column(&shown.view, &TextView::columnAsked);
  QVERIFY(!choose(30, "Which heads remember this word 500 tokens later?"));
  QVERIFY(choose(30, "Which heads remember this word at the text's end?"));
  QCOMPARE(shown.selection().pin(), (Cursor{119, 30}));
  QCOMPARE(order.size(), 1);
  QCOMPARE(order[0][0].value<HeadQuantity>(), HeadQuantity::pinnedForget);
  QVERIFY(!choose(119, "Which heads remember this word at the text's end?"));
  QVERIFY(choose(40, "Where does it come back?"));
  QCOMPARE(shown.selection().pin(), (Cursor{119, 40}));
  QCOMPARE(column.size(), 1);
  QVERIFY(!choose(0, "What does predicting it hang on?"));
  QVERIFY(!choose(30, "Tint text: Loss"));  // in a menu of its own
  QVERIFY(!choose(120, "Pin as query"));
  QVERIFY(choose(120, "Copy token"));
  QCOMPARE(QApplication::clipboard()->text().toStdString(), shown.trace().tokens()->string[119]);
}

void TextViewTest::aWordIsAskedAfterFarBehindIt() {
  Shown shown({words(800)});
  QVERIFY(shown.came());
  const QPoint point = shown.pointOf(3);
  QContextMenuEvent event(QContextMenuEvent::Mouse, point, shown.page->viewport()->mapToGlobal(point));
  QApplication::sendEvent(shown.page->viewport(), &event);
  auto* menu = qobject_cast<QMenu*>(QApplication::activePopupWidget());
  QVERIFY(menu != nullptr);
  QStringList entries;
  for (QAction* action : menu->actions()) {
    entries += action->text();
    if (action->text() == "Which heads remember this word 500 tokens later?") action->trigger();
  }
  QVERIFY2(entries.contains("Tint the text by"), qPrintable(entries.join(", ")));
  menu->close();
  QCOMPARE(shown.selection().pin(), (Cursor{503, 3}));
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
  for (const TintKind kind : kTintKinds) {
    if (kind != TintKind::expert) QVERIFY(shown.choose(kind));  // of runs that kept experts
  }
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
  TextView view(document.runs(), document.modelRuns());
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

void TextViewTest::commandsHaveTextsAndTips() {
  Document document;
  TextView view(document.runs(), document.modelRuns());
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

FOXSCOPE_GUI_SUBJECT(text_view, foxscope::gui::test::TextViewTest)
#include "backend/base/index.h"
#include "text_view_test.moc"
