// Colours of heads, their legend, and what they are told apart from.
#include <array>
#include <cmath>

#include <QTest>

#include "app/figure/colour_map.h"
#include "app/figure/curves/curve_palette.h"
#include "app/gui/heads/head_legend.h"
#include "app/gui/heads/heads_view.h"
#include "app/gui/views/theme.h"
#include "tests/gui/subject.h"

namespace foxscope::gui::test {

class HeadColoursTest : public QObject {
  Q_OBJECT

 private slots:
  void theScaleIsLogarithmicWhereNumbersSpread();
  void aShareIsLinearFromNoneToAll();
  void legendsWritePowersOfTen();
  void aLongLegendWraps();
  void differencesDoNotGlareOnDarkGround();
  void pinsAndRunsNeverShareAColour_data();
  void pinsAndRunsNeverShareAColour();
};

namespace {

/// CIE 1976 L*a*b* of an sRGB colour, under D65.
std::array<double, 3> labOf(const QColor& colour) {
  const auto linear = [](int byte) {
    const double part = byte / 255.0;
    return part <= 0.04045 ? part / 12.92 : std::pow((part + 0.055) / 1.055, 2.4);
  };
  const double red = linear(colour.red());
  const double green = linear(colour.green());
  const double blue = linear(colour.blue());
  const auto root = [](double value) { return value > 0.008856 ? std::cbrt(value) : 7.787 * value + 16.0 / 116; };
  const double x = root((0.4124564 * red + 0.3575761 * green + 0.1804375 * blue) / 0.95047);
  const double y = root(0.2126729 * red + 0.7151522 * green + 0.0721750 * blue);
  const double z = root((0.0193339 * red + 0.1191920 * green + 0.9503041 * blue) / 1.08883);
  return {116 * y - 16, 500 * (x - y), 200 * (y - z)};
}

double apart(const QColor& a, const QColor& b) {
  const auto one = labOf(a);
  const auto other = labOf(b);
  return std::hypot(one[0] - other[0], one[1] - other[1], one[2] - other[2]);
}

}  // namespace

void HeadColoursTest::theScaleIsLogarithmicWhereNumbersSpread() {
  const HeadColouring decay{HeadColouring::Kind::quantity, HeadQuantity::rateDecayTime, kNoRun};
  const HeadColours colours(decay, {1, 10, 100, INFINITY, NAN});
  QVERIFY(colours.logarithmic());
  const figure::Rgb middle = figure::colourAt(figure::viridis(), 0.5);
  QCOMPARE(colours.colour(10), QColor(middle.red, middle.green, middle.blue));
  QCOMPARE(colours.colour(INFINITY), colours.colour(100));
  QCOMPARE(colours.colour(NAN).alpha(), 0);
  const HeadColours distances({HeadColouring::Kind::quantity, HeadQuantity::distance50, kNoRun}, {0, 2, 200});
  QCOMPARE(distances.colour(0), distances.colour(2));
  QCOMPARE(distances.ticks().front().text, "10");
  QStringList labels;
  for (const auto& tick : colours.ticks()) labels += tick.text;
  QCOMPARE(labels, (QStringList{"1", "10", "100"}));
  const HeadColours difference({HeadColouring::Kind::difference, HeadQuantity::entropy, 0}, {-1, 3});
  QCOMPARE(difference.lower(), -3);
  QCOMPARE(difference.upper(), 3);
  QCOMPARE(difference.colour(0), QColor(Qt::white));
  QVERIFY(HeadColours(decay, {NAN}).empty());
  QVERIFY(!HeadColours(decay, {5, 5}).empty());
}

void HeadColoursTest::aShareIsLinearFromNoneToAll() {
  const HeadColours colours({HeadColouring::Kind::quantity, HeadQuantity::pinnedForget, kNoRun}, {1e-6, 0.001, 0.22});
  QVERIFY(!colours.logarithmic());
  QCOMPARE(colours.lower(), 0);
  QCOMPARE(colours.upper(), 1);
  for (const double value : {0.0, 0.001, 0.22, 0.5, 1.0}) {
    const figure::Rgb expected = figure::colourAt(figure::viridis(), value);
    QCOMPARE(colours.colour(value), QColor(expected.red, expected.green, expected.blue));
  }
  QStringList labels;
  for (const auto& tick : colours.ticks()) labels += tick.text;
  labels.sort();
  QCOMPARE(labels, (QStringList{"0", "0.5", "1"}));
}

void HeadColoursTest::legendsWritePowersOfTen() {
  const HeadColours colours({HeadColouring::Kind::quantity, HeadQuantity::pinnedAttention, kNoRun}, {1e-8, 1});
  QStringList labels;
  for (const auto& tick : colours.ticks()) labels += tick.text;
  QCOMPARE(labels, (QStringList{"10⁻⁶", "10⁻⁵", "0.0001", "0.001", "0.01", "0.1", "1"}));
  const HeadColours times({HeadColouring::Kind::quantity, HeadQuantity::rateDecayTime, kNoRun}, {2.5e-5, 2.6e-5});
  for (const auto& tick : times.ticks()) QVERIFY2(!tick.text.contains('e'), qPrintable(tick.text));
}

void HeadColoursTest::aLongLegendWraps() {
  HeadLegend legend;
  const HeadColours colours({HeadColouring::Kind::quantity, HeadQuantity::rateDecayTime, kNoRun}, {1, 100});
  legend.resize(160, 60);
  legend.show(colours, "decay time");
  const int one = legend.sizeHint().height();
  const QString title =
      "distance of 50 % of A (tokens), a-model-of-a-long-name − nearest of another-model-of-a-long-name";
  legend.show(colours, title);
  const QRect needed = legend.fontMetrics().boundingRect(QRect(0, 0, 160, 10'000), Qt::TextWordWrap, title);
  QVERIFY(needed.height() > 2 * legend.fontMetrics().height());
  QVERIFY(legend.sizeHint().height() - one >= needed.height() - legend.fontMetrics().height());
  legend.hideScale(title + title);
  QVERIFY(legend.sizeHint().height() > needed.height());
}

void HeadColoursTest::differencesDoNotGlareOnDarkGround() {
  const HeadColouring difference{HeadColouring::Kind::difference, HeadQuantity::entropy, 0};
  const std::vector<double> values{-1, 3};
  const HeadColours dark(difference, values, divergingColours(darkPalette()));
  QVERIFY(dark.colour(0).lightnessF() < 0.25F);
  QVERIFY(dark.colour(-3).lightnessF() > 0.6F && dark.colour(3).lightnessF() > 0.6F);
  QVERIFY(dark.colour(-3).blue() > dark.colour(-3).red() && dark.colour(3).red() > dark.colour(3).blue());
  QCOMPARE(HeadColours(difference, values, divergingColours(lightPalette())).colour(0), QColor(Qt::white));
}

void HeadColoursTest::pinsAndRunsNeverShareAColour_data() {
  QTest::addColumn<QPalette>("palette");
  QTest::newRow("light") << lightPalette();
  QTest::newRow("dark") << darkPalette();
}

void HeadColoursTest::pinsAndRunsNeverShareAColour() {
  QFETCH(QPalette, palette);
  constexpr double kLeast = 20;  // CIE76
  const QColor query = pinnedQueryColour(palette);
  const QColor key = pinnedKeyColour(palette);
  QVERIFY(apart(query, key) >= kLeast);
  for (int run = 0; run < figure::kCurveColours; ++run) {
    for (const QColor& pin : {query, key}) {
      const double difference = apart(pin, runColour(run, palette));
      QVERIFY2(difference >= kLeast, qPrintable(QString("%1 of run %2: %3").arg(pin.name()).arg(run).arg(difference)));
    }
  }
}

}  // namespace foxscope::gui::test

FOXSCOPE_GUI_SUBJECT(head_colours, foxscope::gui::test::HeadColoursTest)
#include "head_colours_test.moc"
