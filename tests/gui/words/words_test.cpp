// The table of words: its numbers, by mouse and keys what is chosen, sorted, looked for, copied and written.
#include <cmath>

#include <QApplication>
#include <QClipboard>
#include <QFile>
#include <QHeaderView>
#include <QMimeData>
#include <QSignalSpy>
#include <QTest>

#include "app/gui/words/words_view.h"
#include "tests/gui/subject.h"
#include "tests/gui/text/text_run.h"

namespace foxscope::gui::test {

class WordsTest : public QObject {
  Q_OBJECT

 private slots:
  void numbersAreThoseOfTheCommandLine();
  void clicksAndArrowsPinTheWord();
  void thePinnedWordIsSeen();
  void aColumnIsSortedByAClick();
  void typedLettersLeaveOutOtherWords();
  void theWordRuleIsChosen();
  void anotherHeadHasAnotherGate();
  void rowsAreCopied();
  void allWordsAreWritten();
  void theStateComesBack();
  void typingInTheListNarrowsIt();
  void withoutWordsItSaysSo();
};

namespace {

constexpr const char* kText = "The fox ran. The hill (the green hill) was far, and the fox  was quick.\n";

struct Words {
  Folder folder;
  Document document;
  WordsView view{document.runs(), document.modelRuns(), document.files()};

  explicit Words(const TextRun& run) {
    view.resize(700, 400);
    view.show();
    opened = openRuns(document, folder, {makeTextRun(run)}) && settle();
  }
  Words() : Words(run()) {}
  static TextRun run() {
    TextRun run;
    run.text = kText;
    run.tokens = cutEvery(run.text, 3);
    return run;
  }
  bool settle() {
    return QTest::qWaitFor([this] { return view.isSettled() && !document.busy(); }, 60'000);
  }
  [[nodiscard]] const QAbstractItemModel& model() { return *view.table().model(); }
  [[nodiscard]] QString word(int row) { return model().index(row, WordRows::kWord).data().toString(); }
  [[nodiscard]] double number(int row, int column) {
    return model().index(row, column).data(WordTable::ValueRole).toDouble();
  }
  [[nodiscard]] Surprisals expected(WordRule rule = WordRule::white_space, int head = 0) {
    return surprisals_of({document.runs()[0].trace, 0, head}, "text", rule, {});
  }
  void click(int row, Qt::KeyboardModifiers modifiers = {}) {
    QTableView& table = view.table();
    const QRect cell = table.visualRect(model().index(row, WordRows::kSurprisal));
    QTest::mouseClick(table.viewport(), Qt::LeftButton, modifiers, cell.center());
  }
  void clickTitle(int column) {
    QHeaderView& header = *view.table().horizontalHeader();
    const int x = header.sectionViewportPosition(column) + header.sectionSize(column) / 2;
    QTest::mouseClick(header.viewport(), Qt::LeftButton, {}, {x, header.height() / 2});
  }
  /// What the pinned query reads.
  [[nodiscard]] std::string pinned() const {
    const std::optional<std::int64_t> query = document.runs().selection().pin().query;
    if (!query || *query == 0) return {};
    return document.runs()[0].trace->tokens()->string[static_cast<std::size_t>(*query) - 1];
  }
  bool opened = false;
};

}  // namespace

void WordsTest::numbersAreThoseOfTheCommandLine() {
  Words words;
  QVERIFY(words.opened);
  const Surprisals expected = words.expected();
  QCOMPARE(words.model().rowCount(), 15);
  QCOMPARE(static_cast<int>(expected.words.size()), 15);
  for (int row = 0; row < 15; ++row) {
    const SurprisalWord& word = expected.words[index_of(row)];
    const WordNumbers numbers = numbers_of(expected, word);
    QCOMPARE(words.word(row).toStdString(), word.string);
    QCOMPARE(words.number(row, WordRows::kSurprisal), numbers.surprisal);
    QCOMPARE(words.number(row, WordRows::kTokens), static_cast<double>(word.end - word.first));
    QCOMPARE(words.number(row, WordRows::kSentence), row < 3 ? 0.0 : 1.0);
    QCOMPARE(words.number(row, WordRows::kByte),
             static_cast<double>(QByteArray(kText).indexOf(word.string.c_str(), static_cast<int>(word.byte_start))));
    // The last token is read by no position.
    const bool last = row == 14;
    QCOMPARE(std::isnan(words.number(row, WordRows::kGate)), last);
    if (!last) QCOMPARE(words.number(row, WordRows::kGate), numbers.gate[0]);
  }
  QCOMPARE(words.model().index(14, WordRows::kGate).data().toString(), QStringLiteral("–"));
  // Without logits nothing is known of what else could have come.
  QVERIFY(words.view.table().isColumnHidden(WordRows::kEntropy));
  QVERIFY(words.view.table().isColumnHidden(WordRows::kRank));
}

void WordsTest::clicksAndArrowsPinTheWord() {
  Words words;
  QVERIFY(words.opened);
  words.click(4);
  QCOMPARE(words.word(4), QStringLiteral("hill"));
  // "The", " fo", "x r", "an.", " Th", "e h", "ill": the sixth counts with "The".
  QCOMPARE(words.pinned(), "ill");
  QCOMPARE(words.document.runs().selection().pin().query, std::optional<std::int64_t>(7));
  QTest::keyClick(&words.view.table(), Qt::Key_Up);
  QCOMPARE(words.pinned(), " Th");
  QCOMPARE(words.view.table().currentIndex().row(), 3);
  // The token of a last word that no position reads: the position before it.
  words.click(14);
  QCOMPARE(words.view.table().currentIndex().row(), 14);
  QVERIFY(words.document.runs().selection().pin().query);
}

void WordsTest::thePinnedWordIsSeen() {
  Words words;
  QVERIFY(words.opened);
  words.view.resize(700, 150);
  words.document.runs().selection().pinQuery(20);
  const int row = words.view.table().currentIndex().row();
  const Surprisals expected = words.expected();
  QCOMPARE(row, static_cast<int>(expected.word[19]));
  QVERIFY(words.view.table().selectionModel()->isRowSelected(row));
  QVERIFY(words.view.table().viewport()->rect().intersects(words.view.table().visualRect(words.model().index(row, 0))));
  QCOMPARE(words.document.runs().selection().pin().query, std::optional<std::int64_t>(20));
  // BOS is no word.
  words.document.runs().selection().pinQuery(0);
  QVERIFY(!words.view.table().selectionModel()->hasSelection());
}

void WordsTest::aColumnIsSortedByAClick() {
  Words words;
  QVERIFY(words.opened);
  words.clickTitle(WordRows::kSurprisal);
  words.clickTitle(WordRows::kSurprisal);
  for (int row = 1; row < 15; ++row) {
    QVERIFY(words.number(row - 1, WordRows::kSurprisal) >= words.number(row, WordRows::kSurprisal));
  }
  // What is not known stands at the end in both orders.
  for (int click = 0; click < 2; ++click) {
    words.clickTitle(WordRows::kGate);
    QVERIFY(std::isnan(words.number(14, WordRows::kGate)));
  }
  words.clickTitle(WordRows::kWord);
  if (words.word(0) != QStringLiteral("(the")) words.clickTitle(WordRows::kWord);
  QCOMPARE(words.word(1), QStringLiteral("and"));
  // The pinned word is still the chosen one.
  words.document.runs().selection().pinQuery(7);
  QCOMPARE(words.word(words.view.table().currentIndex().row()), QStringLiteral("hill"));
}

void WordsTest::typedLettersLeaveOutOtherWords() {
  Words words;
  QVERIFY(words.opened);
  QTest::keyClicks(&words.view.filter(), "THE");
  QCOMPARE(words.model().rowCount(), 4);
  QCOMPARE(words.word(2), QStringLiteral("(the"));
  words.document.runs().selection().pinQuery(7);
  QVERIFY(!words.view.table().currentIndex().isValid());
  words.click(0);
  QCOMPARE(words.pinned(), "The");
  words.view.filter().clear();
  QCOMPARE(words.model().rowCount(), 15);
  QCOMPARE(words.word(words.view.table().currentIndex().row()), QStringLiteral("The"));
}

void WordsTest::theWordRuleIsChosen() {
  Words words;
  QVERIFY(words.opened);
  words.view.rule().setFocus();
  QTest::keyClick(&words.view.rule(), Qt::Key_Down);
  QVERIFY(words.settle());
  const Surprisals expected = words.expected(WordRule::unicode);
  QCOMPARE(words.model().rowCount(), static_cast<int>(expected.words.size()));
  QCOMPARE(words.word(3), QStringLiteral("."));
  // A word that the token of the word before holds has no number of its own, and is gone to all the same.
  words.click(3);
  QCOMPARE(words.pinned(), "an.");
  QCOMPARE(words.view.table().currentIndex().row(), 3);
}

void WordsTest::anotherHeadHasAnotherGate() {
  Words words;
  QVERIFY(words.opened);
  words.click(5);
  const auto title = [&] { return words.model().headerData(WordRows::kGate, Qt::Horizontal).toString(); };
  QCOMPARE(title(), QStringLiteral("gate\nL0 H0"));
  words.document.runs().selection().setHead({words.document.runs()[0].id, 0, 1});
  QVERIFY(words.settle());
  QCOMPARE(title(), QStringLiteral("gate\nL0 H1"));
  const Surprisals expected = words.expected(WordRule::white_space, 1);
  QCOMPARE(words.number(2, WordRows::kGate), numbers_of(expected, expected.words[2]).gate[0]);
  QCOMPARE(words.view.table().currentIndex().row(), 5);
}

void WordsTest::rowsAreCopied() {
  Words words;
  QVERIFY(words.opened);
  words.click(1);
  words.click(2, Qt::ShiftModifier);
  const std::unique_ptr<QMimeData> copy(words.view.copied());
  const QStringList lines = copy->text().split('\n');
  QCOMPARE(lines.size(), 4);
  QCOMPARE(lines[0], QStringLiteral("word\tsurprisal (nats)\tgate L0 H0\ttokens\tsentence\tbyte"));
  QCOMPARE(lines[1].section('\t', 0, 0), QStringLiteral("fox"));
  QCOMPARE(lines[2].section('\t', 3), QStringLiteral("1\t0\t8"));
  QVERIFY(copy->hasFormat("text/tab-separated-values"));
}

void WordsTest::allWordsAreWritten() {
  Words words;
  QVERIFY(words.opened);
  QTest::keyClicks(&words.view.filter(), "fox");
  const QString path = words.folder.path("words.csv");
  words.view.exportTo(path);
  QTRY_VERIFY_WITH_TIMEOUT(QFile::exists(path), 60'000);
  QFile file(path);
  QVERIFY(file.open(QIODevice::ReadOnly));
  QCOMPARE(file.readAll().toStdString(), words.expected().csv_of_words());
}

void WordsTest::theStateComesBack() {
  Words words;
  QVERIFY(words.opened);
  words.view.rule().setCurrentIndex(1);
  QTest::keyClicks(&words.view.filter(), "hill");
  words.clickTitle(WordRows::kSurprisal);
  const QJsonObject state = words.view.saveState();
  Words other;
  QVERIFY(other.opened);
  other.view.restoreState(state);
  QVERIFY(other.settle());
  QCOMPARE(other.view.saveState(), state);
  QCOMPARE(other.model().rowCount(), 2);
  // What is nonsense is left as it is.
  other.view.restoreState({{"word_rule", "letters"}, {"sorted_by", 99}, {"only", "hill"}});
  QCOMPARE(other.view.saveState(), state);
}

// Letters are the window's commands elsewhere.
void WordsTest::typingInTheListNarrowsIt() {
  Words words;
  QVERIFY(words.opened);
  QTableView& table = words.view.table();
  QAction command(&words.view);
  command.setShortcut(QKeySequence("H"));
  words.view.addAction(&command);
  QSignalSpy commanded(&command, &QAction::triggered);
  words.view.activateWindow();
  QVERIFY(QTest::qWaitForWindowActive(&words.view));
  table.setFocus();
  QTest::keyClicks(&table, "h");
  QCOMPARE(QApplication::focusWidget(), &words.view.filter());
  QTest::keyClicks(&words.view.filter(), "il");
  QCOMPARE(words.view.filter().text(), "hil");
  QCOMPARE(words.model().rowCount(), 2);
  QCOMPARE(words.word(0), "hill");
  QCOMPARE(commanded.size(), 0);
  QTest::keyClick(&words.view.filter(), Qt::Key_Return);
  QCOMPARE(QApplication::focusWidget(), &table);
  QCOMPARE(table.currentIndex().row(), 0);
  QCOMPARE(words.pinned(), "ill");
  // Another word begins anew; Escape shows all of them.
  QTest::keyClicks(&table, "o");
  QCOMPARE(words.view.filter().text(), "o");
  QTest::keyClick(&words.view.filter(), Qt::Key_Escape);
  QCOMPARE(words.model().rowCount(), 15);
  QCOMPARE(QApplication::focusWidget(), &table);
}

void WordsTest::withoutWordsItSaysSo() {
  Document document;
  WordsView view(document.runs(), document.modelRuns(), document.files());
  view.show();
  QVERIFY(view.message().startsWith("No model yet"));
  document.runs().addModel("/somewhere/fox");
  QVERIFY(view.message().startsWith("No text yet"));
  QCOMPARE(view.table().model()->rowCount(), 0);
  TextRun ids = Words::run();
  ids.withText = false;
  Words without(ids);
  QVERIFY(without.opened);
  QCOMPARE(without.view.message(), QStringLiteral("fox: the run read token ids and has no words: run it on a text"));
  TextRun kept = Words::run();
  kept.keep = {Keep::gates};
  Words silent(kept);
  QVERIFY(silent.opened);
  QCOMPARE(silent.view.message(), QStringLiteral("fox: the run did not keep losses: run again with 'loss' in --keep"));
  TextRun ungated = Words::run();
  ungated.gated = false;
  Words plain(ungated);
  QVERIFY(plain.opened);
  QVERIFY(plain.view.table().isColumnHidden(WordRows::kGate));
}

}  // namespace foxscope::gui::test

FOXSCOPE_GUI_SUBJECT(words, foxscope::gui::test::WordsTest)
#include "backend/base/index.h"
#include "words_test.moc"
