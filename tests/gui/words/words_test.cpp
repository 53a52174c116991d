// The table of words: its numbers, by mouse and keys what is chosen, sorted, looked for, copied and written.
#include <cmath>

#include <QApplication>
#include <QClipboard>
#include <QFile>
#include <QHeaderView>
#include <QMimeData>
#include <QSignalSpy>
#include <QTest>

#include "app/figure/token_text.h"
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
  void anotherRunsSurprisalsStandBeside();
  void whatWasExpectedIsListed();
  void theExpertOfEachWordIsListed();
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

  explicit Words(const TextRun& run) : Words(std::vector{run}) {}
  explicit Words(const std::vector<TextRun>& runs) {
    view.resize(700, 400);
    view.show();
    std::vector<std::shared_ptr<const Trace>> traces;
    for (const TextRun& run : runs) traces.push_back(makeTextRun(run));
    opened = openRuns(document, folder, traces) && settle();
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
    if (!last) QCOMPARE(words.number(row, WordRows::kGate), -1000 * std::log(numbers.gate[0]));
  }
  QCOMPARE(words.model().index(14, WordRows::kGate).data().toString(), QStringLiteral("–"));
  // Without logits nothing is known of what else could have come.
  QVERIFY(words.view.table().isColumnHidden(WordRows::kEntropy));
  QVERIFY(words.view.table().isColumnHidden(WordRows::kRank));
  QVERIFY(words.view.table().isColumnHidden(WordRows::kExpected));
  QVERIFY(words.view.table().isColumnHidden(WordRows::kDifference));
  // What stands before a word is five words of it, where there is room.
  const auto before = [&](int row) { return words.model().index(row, WordRows::kBefore).data().toString(); };
  QCOMPARE(before(0), QString());
  QCOMPARE(before(7), QStringLiteral("ran. The hill (the green"));
  QVERIFY(!words.view.table().isColumnHidden(WordRows::kBefore));
  words.view.resize(360, 400);
  QVERIFY(words.view.table().isColumnHidden(WordRows::kBefore));
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
  QCOMPARE(title(), QStringLiteral("−log f L0 H0\n(10⁻³ nats)"));
  words.document.runs().selection().setHead({words.document.runs()[0].id, 0, 1});
  QVERIFY(words.settle());
  QCOMPARE(title(), QStringLiteral("−log f L0 H1\n(10⁻³ nats)"));
  const Surprisals expected = words.expected(WordRule::white_space, 1);
  QCOMPARE(words.number(2, WordRows::kGate), -1000 * std::log(numbers_of(expected, expected.words[2]).gate[0]));
  QCOMPARE(words.view.table().currentIndex().row(), 5);
}

void WordsTest::anotherRunsSurprisalsStandBeside() {
  TextRun base = Words::run();
  base.name = "transformer-of-a-long-name";
  base.seed = 2;
  base.tokens = cutEvery(base.text, 4);  // words are the same whatever the tokens are
  Words words(std::vector{Words::run(), base});
  QVERIFY(words.opened);
  const RunList& runs = words.document.runs();
  const auto of = [&](std::size_t run, int word) {
    const Surprisals table = surprisals_of({runs[run].trace, 0, 0}, "text", WordRule::white_space, {});
    return numbers_of(table, table.words[index_of(word)]).surprisal;
  };
  const int other = WordRows::kColumns;
  QCOMPARE(words.model().columnCount(), other + 1);
  for (int row = 0; row < 15; ++row) {
    QCOMPARE(words.number(row, WordRows::kSurprisal), of(0, row));
    QCOMPARE(words.number(row, other), of(1, row));
    QCOMPARE(words.number(row, WordRows::kDifference), of(0, row) - of(1, row));
  }
  const auto title = [&](int column, int role) {
    return words.model().headerData(column, Qt::Horizontal, role).toString();
  };
  QCOMPARE(title(WordRows::kSurprisal, Qt::DisplayRole), QStringLiteral("fox\n(nats)"));
  QCOMPARE(title(other, Qt::DisplayRole), QStringLiteral("transformer-…\n(nats)"));
  QCOMPARE(title(other, Qt::AccessibleTextRole), QStringLiteral("transformer-of-a-long-name\n(nats)"));
  QVERIFY(title(WordRows::kDifference, Qt::ToolTipRole)
              .startsWith("Surprisal of fox minus that of transformer-of-a-long-name: below 0 fox predicts"));
  // It stands beside the first, and the difference behind both.
  const QHeaderView& header = *words.view.table().horizontalHeader();
  QCOMPARE(header.visualIndex(other), header.visualIndex(WordRows::kSurprisal) + 1);
  QCOMPARE(header.visualIndex(WordRows::kDifference), header.visualIndex(other) + 1);
  words.view.table().sortByColumn(WordRows::kDifference, Qt::AscendingOrder);
  for (int row = 1; row < 15; ++row) {
    QVERIFY(words.number(row - 1, WordRows::kDifference) <= words.number(row, WordRows::kDifference));
  }
  QVERIFY(words.model().index(0, WordRows::kDifference).data().toString().startsWith(QChar(0x2212)));
  // The head of the other run: the difference stays that of the list's order.
  words.document.runs().selection().setHead({runs[1].id, 0, 0});
  QVERIFY(words.settle());
  words.view.table().sortByColumn(WordRows::kByte, Qt::AscendingOrder);
  QCOMPARE(words.number(3, WordRows::kSurprisal), of(1, 3));
  QCOMPARE(words.number(3, WordRows::kDifference), of(0, 3) - of(1, 3));
  // A hidden run leaves.
  const ListRow row = words.document.runs().listRows().front();
  RunLook look = words.document.runs().lookOf(row);
  look.hidden = true;
  words.document.runs().setLook(row, look);
  QVERIFY(words.settle());
  QCOMPARE(words.model().columnCount(), other);
  QVERIFY(words.view.table().isColumnHidden(WordRows::kDifference));
}

void WordsTest::whatWasExpectedIsListed() {
  Document document;
  WordsView view(document.runs(), document.modelRuns(), document.files());
  view.resize(1200, 400);
  view.show();
  QVERIFY(runDemo(document, 200));
  const auto settled = [&] { return view.isSettled() && !document.busy(); };
  QVERIFY(QTest::qWaitFor(settled, 60'000));
  const Trace& trace = *document.runs()[0].trace;
  ModelRequest request;
  request.model = foxModel().toStdString();
  request.device = DeviceChoice::parse("cpu");
  const OutputHead head(Engine().open(request), DType::float32);
  const auto distributions = distributions_of(trace, &head, {});
  QVERIFY(distributions && !distributions->likeliest.empty());
  const Surprisals table =
      surprisals_of({document.runs()[0].trace, 0, 0}, "text", WordRule::white_space, *distributions);
  const QAbstractItemModel& model = *view.table().model();
  QCOMPARE(model.rowCount(), static_cast<int>(table.words.size()));
  for (const auto column : {WordRows::kExpected, WordRows::kShare, WordRows::kRank, WordRows::kEntropy}) {
    QVERIFY(!view.table().isColumnHidden(column));
  }
  for (int row = 0; row < model.rowCount(); ++row) {
    const SurprisalWord& word = table.words[index_of(row)];
    if (word.first == word.end) continue;
    const ScoredToken& likeliest = distributions->likeliest[index_of(word.first)];
    QCOMPARE(model.index(row, WordRows::kExpected).data().toString(),
             figure::tokenText(head.token_string(likeliest.id), figure::Whitespace::visible));
    QCOMPARE(model.index(row, WordRows::kShare).data(WordTable::ValueRole).toDouble(),
             std::exp(static_cast<double>(likeliest.log_probability)));
    const WordNumbers numbers = numbers_of(table, word);
    if (word.cut) continue;
    QCOMPARE(model.index(row, WordRows::kRank).data(WordTable::ValueRole).toDouble(),
             static_cast<double>(numbers.rank));
    QCOMPARE(model.index(row, WordRows::kEntropy).data(WordTable::ValueRole).toDouble(), numbers.entropy);
  }
}

void WordsTest::theExpertOfEachWordIsListed() {
  TextRun run = Words::run();
  run.experts = 5;
  run.keep.insert(Keep::experts);
  Words words(run);
  QVERIFY(words.opened);
  QVERIFY(!words.view.table().isColumnHidden(WordRows::kExpert));
  QCOMPARE(words.model().headerData(WordRows::kExpert, Qt::Horizontal).toString(), QStringLiteral("expert\nof L0"));
  const auto heaviest = heaviest_experts(*words.document.runs()[0].trace, 0);
  const Surprisals expected = words.expected();
  for (int row = 0; row < 14; ++row) {
    // The position behind the one that predicts a token reads it.
    const ReadExpert& expert = heaviest[index_of(expected.words[index_of(row)].first + 1)];
    QCOMPARE(words.number(row, WordRows::kExpert), static_cast<double>(expert.expert));
    QCOMPARE(words.model().index(row, WordRows::kExpert).data().toString(),
             QStringLiteral("%1 (%2)").arg(expert.expert).arg(QString::number(expert.weight, 'g', 2)));
  }
  Words without;
  QVERIFY(without.opened);
  QVERIFY(without.view.table().isColumnHidden(WordRows::kExpert));
}

void WordsTest::rowsAreCopied() {
  Words words;
  QVERIFY(words.opened);
  words.click(1);
  words.click(2, Qt::ShiftModifier);
  const std::unique_ptr<QMimeData> copy(words.view.copied());
  const QStringList lines = copy->text().split('\n');
  QCOMPARE(lines.size(), 4);
  QCOMPARE(lines[0],
           QStringLiteral("before\tword\tsurprisal (nats)\t−log f L0 H0 (10⁻³ nats)\ttokens\tsentence\tbyte"));
  QCOMPARE(lines[1].section('\t', 0, 1), QStringLiteral("The\tfox"));
  QCOMPARE(lines[2].section('\t', 4), QStringLiteral("1\t0\t8"));
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
  // Sessions of before named columns by their number then.
  other.view.restoreState({{"sorted_by", 7}, {"only", "hill"}});
  QCOMPARE(other.view.saveState()["sorted_by"].toString(), QStringLiteral("byte"));
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
  QCOMPARE(silent.view.message(), QStringLiteral("fox: the run did not keep losses: run again with --keep loss"));
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
