#include "app/gui/document/places.h"

#include <QTest>

#include "tests/gui/subject.h"

namespace foxscope::gui::test {

class PlacesTest : public QObject {
  Q_OBJECT

 private slots:
  void aPositionReadsTheTokenBeforeTheOneItPredicts();
  void blanksAreMadeVisible();
  void idsWithoutATextAreNumbers();
  void equalTokensAreTheSamePlaces();
  void otherTokensGoByTheirBytes();
  void withoutATextPositionsAreThemselves();
  void whatWasNotReadHasNoPlace();
};

namespace {

// "ab c" cut into the given pieces.
std::shared_ptr<const TokenTable> cut(const std::vector<std::string>& pieces) {
  auto table = std::make_shared<TokenTable>();
  std::int64_t byte = 0;
  std::int32_t before = 0;
  for (const std::string& piece : pieces) {
    const auto id = static_cast<std::int32_t>(100 + std::hash<std::string>()(piece) % 1000);
    table->id.push_back(id);
    table->input_id.push_back(before);
    table->byte_start.push_back(byte);
    byte += static_cast<std::int64_t>(piece.size());
    table->byte_end.push_back(byte);
    table->string.push_back(piece);
    before = id;
  }
  return table;
}

}  // namespace

void PlacesTest::aPositionReadsTheTokenBeforeTheOneItPredicts() {
  const auto tokens = cut({"The", " fox", " ran"});
  QCOMPARE(readText(*tokens, 0, Whitespace::asIs), QStringLiteral("⟨BOS⟩"));
  QCOMPARE(predictedText(*tokens, 0, Whitespace::asIs), QStringLiteral("The"));
  QCOMPARE(readText(*tokens, 1, Whitespace::asIs), QStringLiteral("The"));
  QCOMPARE(readText(*tokens, 2, Whitespace::asIs), QStringLiteral(" fox"));
  QCOMPARE(predictedText(*tokens, 2, Whitespace::asIs), QStringLiteral(" ran"));
}

void PlacesTest::blanksAreMadeVisible() {
  const auto tokens = cut({" fox\n", "\tx", "\x01"});
  QCOMPARE(predictedText(*tokens, 0, Whitespace::visible), QStringLiteral("␣fox⏎"));
  QCOMPARE(predictedText(*tokens, 1, Whitespace::visible), QStringLiteral("⇥x"));
  QCOMPARE(predictedText(*tokens, 2, Whitespace::visible), QStringLiteral("\\x01"));
}

void PlacesTest::idsWithoutATextAreNumbers() {
  TokenTable tokens;
  tokens.id = {7, 8};
  tokens.input_id = {5, 6};  // labels of their own: position 1 does not read what position 0 predicts
  QCOMPARE(predictedText(tokens, 1, Whitespace::visible), QStringLiteral("⟨8⟩"));
  QCOMPARE(readText(tokens, 1, Whitespace::visible), QStringLiteral("⟨6⟩"));
}

void PlacesTest::equalTokensAreTheSamePlaces() {
  const PlaceMap map(cut({"The", " fox", " ran"}), cut({"The", " fox", " ran"}));
  QVERIFY(map.identical());
  for (std::int64_t position = 0; position < 3; ++position) QCOMPARE(map(position), position);
}

void PlacesTest::otherTokensGoByTheirBytes() {
  const auto coarse = cut({"The fox", " ran", " off"});
  const auto fine = cut({"Th", "e", " f", "ox", " ran", " o", "ff"});
  const PlaceMap down(coarse, fine);
  QVERIFY(!down.identical());
  QVERIFY(down.byText());
  QCOMPARE(down(0), 0);
  QCOMPARE(down(1), 1);  // reads "The fox", which begins as "Th" does
  QCOMPARE(down(2), 5);  // reads " ran"
  const PlaceMap up(fine, coarse);
  const std::vector<std::int64_t> expected{0, 1, 1, 1, 1, 2};
  for (std::int64_t position = 0; position < 6; ++position) {
    QCOMPARE(up(position), expected[index_of(position)]);
  }
  // It reads " o" of " off", which the coarse run predicts last and reads nowhere.
  QVERIFY(!up(6));
  QCOMPARE(up.covered(), 6);
  QCOMPARE(up.part({3, 7}), (Range{1, 3}));
  QCOMPARE(down.part({1, 3}), (Range{1, 6}));
}

// One run's tokens are the first of the other's: limits of 4 and 2 tokens.
void PlacesTest::whatWasNotReadHasNoPlace() {
  const auto longer = cut({"The", " fox", " ran", " off"});
  const auto shorter = cut({"The", " fox"});
  const PlaceMap down(longer, shorter);
  QVERIFY(down.identical());
  QCOMPARE(down.covered(), 2);
  QCOMPARE(down(1), 1);
  QVERIFY(!down(2));
  QVERIFY(!down(3));
  QCOMPARE(down.part({1, 4}), (Range{1, 2}));
  QCOMPARE(down.part({2, 4}), (Range{0, 0}));
  const PlaceMap up(shorter, longer);
  QVERIFY(up.identical());
  QCOMPARE(up.covered(), 2);
  QCOMPARE(up(1), 1);
  // Other tokens, and an end before the text's.
  const PlaceMap fine(longer, cut({"Th", "e", " fo", "x"}));
  QVERIFY(!fine.identical());
  QCOMPARE(fine(2), 3);  // " fox" begins as " fo" does
  QVERIFY(!fine(3));
  QCOMPARE(fine.part({2, 4}), (Range{3, 4}));
}

void PlacesTest::withoutATextPositionsAreThemselves() {
  auto longer = std::make_shared<TokenTable>();
  longer->id = longer->input_id = {1, 2, 3, 4};
  auto shorter = std::make_shared<TokenTable>();
  shorter->id = shorter->input_id = {7, 2};
  const PlaceMap map(longer, shorter);
  QVERIFY(!map.byText());
  QCOMPARE(map(1), 1);
  QVERIFY(!map(3));
}

}  // namespace foxscope::gui::test

FOXSCOPE_GUILESS_SUBJECT(places, foxscope::gui::test::PlacesTest)
#include "backend/base/index.h"
#include "places_test.moc"
