#include "app/gui/document/number_text.h"

#include <limits>

#include <QTest>

#include "tests/gui/subject.h"

namespace foxscope::gui::test {

class NumberTextTest : public QObject {
  Q_OBJECT

 private slots:
  void powersOfTenAreWrittenByHand();
  void numbersHaveFewDigits();
};

void NumberTextTest::powersOfTenAreWrittenByHand() {
  const std::pair<const char*, const char*> numbers[] = {{"1e-06", "10⁻⁶"},         {"-1e-06", "−10⁻⁶"},
                                                         {"3.02e-05", "3.02·10⁻⁵"}, {"-3.2e+09", "−3.2·10⁹"},
                                                         {"1.1e-10", "1.1·10⁻¹⁰"},  {"0.001", "0.001"},
                                                         {"-12.5", "−12.5"},        {"", ""},
                                                         {"11e3", "11·10³"},        {"2e-05 … 1e+06", "2·10⁻⁵ … 10⁶"}};
  for (const auto& [written, wanted] : numbers) QCOMPARE(withPowers(written), QString(wanted));
}

void NumberTextTest::numbersHaveFewDigits() {
  QCOMPARE(numberText(0.0123456), "0.01235");
  QCOMPARE(numberText(12345.6), "12346");
  QCOMPARE(numberText(-3.2e-9), "−3.2·10⁻⁹");
  QCOMPARE(numberText(1e-6), "10⁻⁶");
  QCOMPARE(numberText(1.5e7), "1.5·10⁷");
  QCOMPARE(numberText(0), "0");
  QCOMPARE(numberText(std::numeric_limits<double>::quiet_NaN()), "–");
  QCOMPARE(numberText(std::numeric_limits<double>::infinity()), "∞");
  QCOMPARE(numberText(-std::numeric_limits<double>::infinity()), "−∞");
  QCOMPARE(numberOf(3.02e-5, 3), "3.02·10⁻⁵");
}

}  // namespace foxscope::gui::test

FOXSCOPE_GUILESS_SUBJECT(number_text, foxscope::gui::test::NumberTextTest)
#include "number_text_test.moc"
