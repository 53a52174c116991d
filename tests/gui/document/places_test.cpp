#include "app/gui/document/places.h"

#include <QTest>

namespace foxscope::gui::test {

class PlacesTest : public QObject {
  Q_OBJECT

 private slots:
  void aPositionReadsTheTokenBeforeTheOneItPredicts();
  void blanksAreMadeVisible();
  void idsWithoutATextAreNumbers();
  void equalTokensAreTheSamePlaces();
  void otherTokensGoByTheirBytes();
  void withoutATextPositionsAreClamped();
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
  const std::vector<std::int64_t> expected{0, 1, 1, 1, 1, 2, 2};
  for (std::int64_t position = 0; position < 7; ++position) {
    QCOMPARE(up(position), expected[static_cast<std::size_t>(position)]);
  }
}

void PlacesTest::withoutATextPositionsAreClamped() {
  auto longer = std::make_shared<TokenTable>();
  longer->id = longer->input_id = {1, 2, 3, 4};
  auto shorter = std::make_shared<TokenTable>();
  shorter->id = shorter->input_id = {1, 2};
  const PlaceMap map(longer, shorter);
  QVERIFY(!map.byText());
  QCOMPARE(map(1), 1);
  QCOMPARE(map(3), 1);
}

}  // namespace foxscope::gui::test

QTEST_GUILESS_MAIN(foxscope::gui::test::PlacesTest)
#include "places_test.moc"
