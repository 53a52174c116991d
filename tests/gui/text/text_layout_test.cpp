#include "app/gui/text/text_layout.h"

#include <cmath>

#include <QFontMetricsF>
#include <QTest>

#include "app/gui/text/text_search.h"
#include "backend/trace/token_strings.h"
#include "tests/gui/subject.h"
#include "tests/gui/text/text_run.h"

namespace foxscope::gui::test {
namespace {

constexpr double kRounding = 0.02;

TextLayout laidOut(const TextRun& run, double width) { return {shapeOf(*makeTextRun(run)), width}; }

}  // namespace

class TextLayoutTest : public QObject {
  Q_OBJECT

 private slots:
  void everyPlaceBelongsToOneCell_data();
  void everyPlaceBelongsToOneCell();
  void paragraphsReadFromRightToLeft();
  void linesKeepToTheWidth();
  void lineEndsEndLines_data();
  void lineEndsEndLines();
  void aWordWiderThanTheLineIsBroken();
  void tokensShareACharacterBySlices();
  void anAccentOfItsOwnTokenSharesItsLetter();
  void escapedTokensShareACharacterEvenly();
  void aCellBrokenOverLinesHasARectangleOnEach();
  void aRunCutOffShowsTheWholeOfItsLastCharacter();
  void tokensWithoutTextAreSeparated();
  void anUnknownTokenIsNotShown();
  void searchFindsPlaces();
  void searchLeavesOutWhatIsNoText();
  void positionsFromInput_data();
  void positionsFromInput();
};

void TextLayoutTest::everyPlaceBelongsToOneCell_data() {
  QTest::addColumn<QByteArray>("text");
  QTest::addColumn<int>("bytes");
  QTest::newRow("prose by words of five bytes") << QByteArray::fromStdString(prose(300)) << 5;
  QTest::newRow("one token") << QByteArray("fox") << 3;
  QTest::newRow("CRLF cut between its halves") << QByteArray("one\r\ntwo\r\n\r\nthree") << 1;
  QTest::newRow("tabs") << QByteArray("\tif\t(fox)\t\treturn\n\t\tforget;") << 2;
  QTest::newRow("many blanks") << QByteArray("a" + QByteArray(400, ' ') + "b") << 3;
  QTest::newRow("characters in pieces") << QByteArray("été — 🦊🦊 naïve") << 1;
  QTest::newRow("a family of joined emoji") << QByteArray("x👩‍👩‍👧‍👦y") << 3;
  QTest::newRow("Chinese") << QByteArray("狐狸记得它读过的东西，然后慢慢忘记。狐狸记得它读过的东西。") << 3;
  QTest::newRow("Arabic") << QByteArray("الثعلب يتذكر ما قرأه ثم ينسى") << 2;
  QTest::newRow("Arabic by letters, with a number and a name") << QByteArray("قرأ Foxscope 42 صفحة، ثم نسي.") << 1;
  QTest::newRow("Hebrew with points") << QByteArray("שׁוּעָל זוֹכֵר (ולא) שוכח") << 2;
  QTest::newRow("Hebrew in English") << QByteArray("the word שועל קטן means little fox") << 3;
  QTest::newRow("controls and a byte order mark") << QByteArray(
                                                         "\xef\xbb\xbf"
                                                         "a\x01\x02"
                                                         "b\x7f"
                                                         "c\f\vd")
                                                  << 1;
  QTest::newRow("line ends alone") << QByteArray("\n\n\n") << 1;
  QTest::newRow("a very long word") << QByteArray(3000, 'w') << 7;
}

void TextLayoutTest::everyPlaceBelongsToOneCell() {
  QFETCH(QByteArray, text);
  QFETCH(int, bytes);
  TextRun run;
  run.text = text.toStdString();
  run.tokens = cutEvery(run.text, bytes);
  const auto shape = shapeOf(*makeTextRun(run));
  const TextCells& cells = *shape->cells;
  QCOMPARE(cells.cell.size(), run.tokens.size() + 1);
  QCOMPARE(cells.shown.substr(static_cast<std::size_t>(cells.textBegin)), run.text);
  // Cell k is token k - 1, and nothing lies between two of them.
  for (std::size_t token = 0; token < run.tokens.size(); ++token) {
    QCOMPARE(cells.cell[token + 1].begin, static_cast<double>(cells.textBegin + run.tokens[token].first));
    QCOMPARE(cells.cell[token + 1].end, static_cast<double>(cells.textBegin + run.tokens[token].second));
  }
  for (const double width : {30.0, 200.0, 2000.0}) {
    const TextLayout layout(shape, width);
    std::int32_t cluster = 0;
    std::vector<double> covered(cells.cell.size());
    for (std::int64_t line = 0; line < layout.lineCount(); ++line) {
      std::vector<TextLayout::Piece> pieces = layout.pieces(line);
      for (const TextLayout::Piece& piece : pieces) {
        QCOMPARE(piece.begin, cluster);
        QVERIFY(piece.end > piece.begin);
        cluster = piece.end;
      }
      // However they stand, nothing lies between two of them, and nothing over another.
      std::sort(pieces.begin(), pieces.end(), [](const auto& a, const auto& b) { return a.left < b.left; });
      const bool left = layout.shape().atom[index_of(pieces[0].atom)].paragraph == Qt::RightToLeft;
      if (!left) QCOMPARE(pieces.front().left, 0.0);
      for (std::size_t n = 1; n < pieces.size(); ++n) {
        QVERIFY(std::abs(pieces[n].left - pieces[n - 1].right) < kRounding);
      }
      for (const TextLayout::Span& span : layout.spans(line)) {
        QVERIFY(span.left >= pieces.front().left - kRounding && span.right <= pieces.back().right + kRounding);
        covered[index_of(span.cell)] += span.right - span.left;
        if (span.right - span.left < kRounding) continue;
        const QPointF middle((span.left + span.right) / 2, (static_cast<double>(line) + 0.5) * layout.lineHeight());
        QCOMPARE(layout.cellAt(middle), std::optional(span.cell));
      }
    }
    QCOMPARE(cluster, static_cast<std::int32_t>(shape->cluster.size()) - 1);
    for (std::size_t cell = 0; cell < covered.size(); ++cell) {
      QVERIFY2(covered[cell] > 0, qPrintable(QString("cell %1 cannot be seen").arg(cell)));
    }
  }
}

// Places of the words of a line, from left to right.
void TextLayoutTest::paragraphsReadFromRightToLeft() {
  const auto read = [](const char* text, double width) {
    TextRun run;
    run.text = text;
    run.tokens = cutEvery(run.text, 2);
    const TextLayout layout = laidOut(run, width);
    std::vector<std::pair<double, QString>> words;
    const TextShape& shape = layout.shape();
    for (const TextLayout::Piece& piece : layout.pieces(layout.lineCount() - 1)) {
      const auto character = [&](std::int32_t cluster) { return shape.cluster[index_of(cluster)].character; };
      const QString word = shape.text.mid(character(piece.begin), character(piece.end) - character(piece.begin));
      if (!word.trimmed().isEmpty()) words.emplace_back(piece.left, word);
    }
    std::sort(words.begin(), words.end());
    QStringList shown;
    for (const auto& word : words) shown += word.second;
    return shown;
  };
  constexpr double kWide = 5000;
  // A paragraph of its own, behind one that runs to the right.
  QCOMPARE(read("fox\nשועל זוכר fox one 42 שוכח", kWide), (QStringList{"שוכח", "fox", "one", "42", "זוכר", "שועל"}));
  QCOMPARE(read("שועל\nthe words שועל קטן mean", kWide), (QStringList{"the", "words", "קטן", "שועל", "mean"}));
  // It begins at the right edge, and its full stop stands at its left.
  TextRun run;
  run.text = "קרא ושכח.";
  run.tokens = cutEvery(run.text, 2);
  const TextLayout layout = laidOut(run, 600);
  const auto pieces = layout.pieces(0);
  QVERIFY(std::abs(pieces.front().right - 600) < kRounding);
  const std::int64_t last = static_cast<std::int64_t>(layout.cells().cell.size()) - 1;
  const double end = layout.mainRect(last).left();
  for (std::int64_t cell = 1; cell < last; ++cell) QVERIFY(layout.mainRect(cell).left() >= end - kRounding);
  // Tokens follow one another to the left.
  QVERIFY(layout.mainRect(1).center().x() > layout.mainRect(2).center().x());
}

void TextLayoutTest::linesKeepToTheWidth() {
  TextRun run;
  run.text = prose(2000);
  run.tokens = cutEvery(run.text, 4);
  const double width = 300;
  const TextLayout layout = laidOut(run, width);
  for (std::int64_t line = 0; line < layout.lineCount(); ++line) {
    const auto pieces = layout.pieces(line);
    for (const TextLayout::Piece& piece : pieces) {
      const Atom& atom = layout.shape().atom[index_of(piece.atom)];
      if (atom.kind == Atom::Kind::word) QVERIFY(piece.right <= width + kRounding);
      QCOMPARE(piece.begin, atom.cluster);  // no word is broken
    }
    if (line + 1 == layout.lineCount()) continue;
    // The first word of the next line would not have fitted.
    const Atom& last = layout.shape().atom[index_of(pieces.back().atom)];
    const auto next = layout.pieces(line + 1).front();
    if (last.kind != Atom::Kind::lineEnd) QVERIFY(pieces.back().right + next.right - next.left > width);
  }
}

void TextLayoutTest::lineEndsEndLines_data() {
  QTest::addColumn<QByteArray>("text");
  QTest::addColumn<int>("lines");
  QTest::newRow("none") << QByteArray("a b") << 1;
  QTest::newRow("LF") << QByteArray("a\nb\n\nc") << 4;
  QTest::newRow("CRLF is one") << QByteArray("a\r\nb\r\n\r\nc") << 4;
  QTest::newRow("at the end") << QByteArray("a\n") << 1;
  QTest::newRow("paragraph separator") << QByteArray(
                                              "a\xe2\x80\xa9"
                                              "b")
                                       << 2;
}

void TextLayoutTest::lineEndsEndLines() {
  QFETCH(QByteArray, text);
  QFETCH(int, lines);
  TextRun run;
  run.text = text.toStdString();
  run.tokens = cutEvery(run.text, 1);
  QCOMPARE(laidOut(run, 1000).lineCount(), lines);
}

void TextLayoutTest::aWordWiderThanTheLineIsBroken() {
  TextRun run;
  run.text = "so " + std::string(900, 'm') + " it goes";
  run.tokens = cutEvery(run.text, 10);
  const double width = 200;
  const TextLayout layout = laidOut(run, width);
  QVERIFY(layout.lineCount() > 10);
  for (std::int64_t line = 0; line + 1 < layout.lineCount(); ++line)
    QVERIFY(layout.pieces(line).back().right <= width + layout.lineHeight());
}

void TextLayoutTest::tokensShareACharacterBySlices() {
  TextRun run;
  run.text = "a🦊b";
  run.tokens = cutEvery(run.text, 1);  // a, four pieces of the fox, b
  const TextLayout layout = laidOut(run, 500);
  const QRectF first = layout.cellRects(2).front();
  const QRectF whole = layout.rects({layout.cells().cell[2].begin, layout.cells().cell[5].end}).front();
  QVERIFY(first.width() > 0);
  for (int piece = 0; piece < 4; ++piece) {
    const auto rects = layout.cellRects(2 + piece);
    QCOMPARE(rects.size(), std::size_t{1});
    QVERIFY(std::abs(rects.front().width() - whole.width() / 4) < kRounding);
    QVERIFY(std::abs(rects.front().left() - (whole.left() + piece * whole.width() / 4)) < kRounding);
  }
}

void TextLayoutTest::anAccentOfItsOwnTokenSharesItsLetter() {
  TextRun run;
  run.text =
      "e\xcc\x81"
      "t";  // e, a combining accent, t
  run.tokens = {{0, 1}, {1, 3}, {3, 4}};
  const TextLayout layout = laidOut(run, 500);
  const double letter = layout.cellRects(1).front().width();
  const double accent = layout.cellRects(2).front().width();
  QVERIFY(letter > 0);
  QVERIFY(std::abs(accent - 2 * letter) < kRounding);
}

void TextLayoutTest::escapedTokensShareACharacterEvenly() {
  // "\n" escaped is a backslash and an n: both tokens stand for the one byte; "é" escaped is in three tokens.
  TextRun run;
  run.text = "a\n\xc3\xa9z";
  run.tokens = {{0, 2}, {1, 2}, {2, 4}, {2, 4}, {2, 4}, {4, 5}};
  const TextCells cells = cellsOf(*makeTextRun(run));
  const auto offset = static_cast<double>(cells.textBegin);
  const std::vector<double> edges{0, 1.5, 2, 2 + 2.0 / 3, 2 + 4.0 / 3, 4, 5};
  for (std::size_t token = 0; token + 1 < edges.size(); ++token) {
    QVERIFY(std::abs(cells.cell[token + 1].begin - offset - edges[token]) < 1e-9);
    QVERIFY(std::abs(cells.cell[token + 1].end - offset - edges[token + 1]) < 1e-9);
  }
}

void TextLayoutTest::aCellBrokenOverLinesHasARectangleOnEach() {
  TextRun run;
  run.text = "a\n\nb";
  run.tokens = {{0, 1}, {1, 3}, {3, 4}};
  const TextLayout layout = laidOut(run, 500);
  const auto rects = layout.cellRects(2);
  QCOMPARE(rects.size(), std::size_t{2});
  QCOMPARE(rects[1].top() - rects[0].top(), layout.lineHeight());
  QCOMPARE(rects[1].left(), 0.0);
}

void TextLayoutTest::aRunCutOffShowsTheWholeOfItsLastCharacter() {
  TextRun run;
  run.text = "a🦊 and more";
  run.tokens = {{0, 1}, {1, 3}};
  const TextCells cells = cellsOf(*makeTextRun(run));
  QCOMPARE(cells.shown.substr(static_cast<std::size_t>(cells.textBegin)), std::string("a🦊"));
  QCOMPARE(cells.unread, 9);
  QCOMPARE(cells.cell.back().end, static_cast<double>(cells.shown.size()));
}

void TextLayoutTest::tokensWithoutTextAreSeparated() {
  TextRun run;
  run.text = "The fox\nran";
  run.tokens = {{0, 3}, {3, 7}, {7, 8}, {8, 11}};
  run.withText = false;
  const TextCells cells = cellsOf(*makeTextRun(run));
  QVERIFY(!cells.hasText);
  QCOMPARE(cells.shown, std::string("⟨BOS⟩ The ␣fox ⏎ ran "));
  QCOMPARE(cells.at(cells.cell[2].begin), std::optional<std::int64_t>(2));
  QCOMPARE(cells.at(cells.cell[2].end), std::optional<std::int64_t>());  // the blank between is no cell
}

// The token behind a recorded run is not known: none stands for it.
void TextLayoutTest::anUnknownTokenIsNotShown() {
  TextRun run;
  run.text = "The fox\nran";
  run.tokens = {{0, 3}, {3, 7}, {7, 8}, {8, 11}};
  run.withText = false;
  run.byIds = true;
  const auto trace = makeTextRun(run);
  const TextCells cells = cellsOf(*trace);
  QCOMPARE(cells.length(), 4);
  std::string shown = "⟨BOS⟩ ";
  for (int token = 0; token < 3; ++token) shown += "⟨" + std::to_string(trace->tokens()->id[index_of(token)]) + "⟩ ";
  QCOMPARE(cells.shown, shown + " ");
  QCOMPARE(cells.cell[4].begin, cells.cell[4].end);
  QCOMPARE(predicted_string(*trace->tokens(), 3), std::string());
  QVERIFY(shapeOf(*trace));
}

void TextLayoutTest::searchFindsPlaces() {
  TextRun run;
  run.text = "Été fox. été FOX";
  run.tokens = cutEvery(run.text, 3);
  const auto shape = shapeOf(*makeTextRun(run));
  const auto begin = static_cast<double>(shape->cells->textBegin);
  const auto any = findInText(*shape, "été", Qt::CaseInsensitive, {});
  QCOMPARE(*any, (std::vector<Stretch>{{begin, begin + 5}, {begin + 11, begin + 16}}));
  QCOMPARE(*findInText(*shape, "FOX", Qt::CaseSensitive, {}), (std::vector<Stretch>{{begin + 17, begin + 20}}));
  QVERIFY(findInText(*shape, "cat", Qt::CaseInsensitive, {})->empty());
  QVERIFY(findInText(*shape, "", Qt::CaseInsensitive, {})->empty());
}

void TextLayoutTest::searchLeavesOutWhatIsNoText() {
  TextRun run;
  run.text = "BOS is a word here";
  run.tokens = cutIntoWords(run.text);
  const auto shape = shapeOf(*makeTextRun(run));
  QCOMPARE(findInText(*shape, "BOS", Qt::CaseInsensitive, {})->size(), std::size_t{1});
}

void TextLayoutTest::positionsFromInput_data() {
  QTest::addColumn<QString>("input");
  QTest::addColumn<int>("position");
  QTest::newRow("number") << "120" << 120;
  QTest::newRow("with blanks") << " 7 " << 7;
  QTest::newRow("first") << "0" << 0;
  QTest::newRow("last") << "1000" << 1000;
  QTest::newRow("after the last") << "1001" << -1;
  QTest::newRow("further on") << "+500" << 700;
  QTest::newRow("further on with blanks") << " +1 " << 201;
  QTest::newRow("back") << "-200" << 0;
  QTest::newRow("back with a true minus") << QStringLiteral("\u221220") << 180;
  QTest::newRow("before the first") << "-201" << -1;
  QTest::newRow("too far on") << "+801" << -1;
  QTest::newRow("farther than any number") << "+9223372036854775807" << -1;
  QTest::newRow("percentage") << "35%" << 350;
  QTest::newRow("percentage with blank and fraction") << "12.5 %" << 125;
  QTest::newRow("all") << "100%" << 1000;
  QTest::newRow("more than all") << "101%" << -1;
  QTest::newRow("not a number percentage") << "nan%" << -1;
  QTest::newRow("words") << "half" << -1;
  QTest::newRow("nothing") << "" << -1;
}

void TextLayoutTest::positionsFromInput() {
  QFETCH(QString, input);
  QFETCH(int, position);
  QCOMPARE(positionFromInput(input, 1001, 200).value_or(-1), position);
}

}  // namespace foxscope::gui::test

FOXSCOPE_GUI_SUBJECT(text_layout, foxscope::gui::test::TextLayoutTest)
#include "backend/base/index.h"
#include "text_layout_test.moc"
