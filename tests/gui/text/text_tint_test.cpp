#include "app/gui/text/text_tint.h"

#include <cmath>

#include <QTest>

#include "app/gui/text/tint_ramp.h"
#include "app/gui/views/theme.h"
#include "backend/base/error.h"
#include "backend/map/map.h"
#include "tests/gui/subject.h"
#include "tests/gui/text/text_run.h"

namespace foxscope::gui::test {
namespace {

TintRequest requestOf(const std::shared_ptr<const Trace>& trace, TintKind kind) {
  TintRequest request;
  request.kind = kind;
  request.reference = trace;
  request.run = trace;
  return request;
}

double luminance(const QColor& colour) {
  const auto linear = [](double c) { return c <= 0.04045 ? c / 12.92 : std::pow((c + 0.055) / 1.055, 2.4); };
  return 0.2126 * linear(colour.redF()) + 0.7152 * linear(colour.greenF()) + 0.0722 * linear(colour.blueF());
}

}  // namespace

class TextTintTest : public QObject {
  Q_OBJECT

 private slots:
  void aLossBelongsToTheWordThatIsPredicted();
  void aGateBelongsToTheWordThatIsRead();
  void saliencyIsWhatOnePercentChanges();
  void aRowIsThatOfTheMap_data();
  void aRowIsThatOfTheMap();
  void aDifferenceIsThatOfTheLosses();
  void otherTokensAreFoundByTheirPlace();
  void aShorterRunTintsNoFurther();
  void aRowOfOtherTokensIsOfThePositionThatReadsTheWord();
  void whatWasNotKeptIsSaid();
  void scales();
  void extremesAreSaidToBeClipped();
  void aStoppedJobGivesNothing();
  void textReadsOnEveryTint_data();
  void textReadsOnEveryTint();
};

void TextTintTest::aLossBelongsToTheWordThatIsPredicted() {
  const auto trace = makeTextRun(words(200));
  const auto tint = computeTint(requestOf(trace, TintKind::loss), {});
  QVERIFY(std::isnan(tint->value[0]));  // nothing predicts BOS
  for (std::size_t position = 0; position < 200; ++position)
    QCOMPARE(tint->value[position + 1], trace->per_token_loss()[position]);
}

void TextTintTest::aGateBelongsToTheWordThatIsRead() {
  const auto trace = makeTextRun(words(200));
  TintRequest request = requestOf(trace, TintKind::gate);
  request.head = 1;
  const auto tint = computeTint(request, {});
  const auto c = trace->cumulative_log_gate(0, 1);
  QCOMPARE(tint->value[0], static_cast<float>(1 - std::exp(c[0])));
  for (std::size_t position = 1; position < 200; ++position)
    QVERIFY(std::abs(static_cast<double>(tint->value[position]) - (1 - std::exp(c[position] - c[position - 1]))) <
            1e-6);
  QVERIFY(std::isnan(tint->value[200]));  // no position reads the last token
}

void TextTintTest::saliencyIsWhatOnePercentChanges() {
  TextRun run = words(200);
  run.keep.insert(Keep::saliency);
  const auto trace = makeTextRun(run);
  TintRequest request = requestOf(trace, TintKind::saliency);
  request.head = 1;
  const auto gates = computeTint(request, {});
  request.kind = TintKind::keyLogit;
  const auto keys = computeTint(request, {});
  const auto gradient = trace->log_forget_gradient(0, 1);
  for (std::size_t position = 0; position < 200; ++position) {
    const float next = position + 1 < 200 ? gradient[position + 1] : 0;
    QVERIFY(std::abs(gates->value[position] - 0.01F * gradient[position]) < 1e-9F);
    QVERIFY(std::abs(keys->value[position] - 0.01F * (next - gradient[position])) < 1e-9F);
  }
  for (const auto& tint : {gates, keys}) {
    QVERIFY(std::isnan(tint->value[200]));
    QVERIFY(tint->scale.diverging && tint->scale.clipsAbove);
    QCOMPARE(tint->scale.lower, -tint->scale.upper);
    QCOMPARE(tint->scale.position(0), 0.5);
  }
  QVERIFY_EXCEPTION_THROWN(computeTint(requestOf(makeTextRun(words(20)), TintKind::saliency), {}), Error);
}

void TextTintTest::aRowIsThatOfTheMap_data() {
  QTest::addColumn<TintKind>("kind");
  QTest::addColumn<Quantity>("quantity");
  QTest::newRow("F") << TintKind::forgetRow << Quantity::forget;
  QTest::newRow("A") << TintKind::attentionRow << Quantity::attention;
  QTest::newRow("A without gate") << TintKind::ungatedRow << Quantity::attention_without_gate;
}

void TextTintTest::aRowIsThatOfTheMap() {
  QFETCH(TintKind, kind);
  QFETCH(Quantity, quantity);
  const auto trace = makeTextRun(words(200));
  // The whole map, of which the tint is to be one row.
  MapRequest map;
  map.head = {trace, 0, 1};
  map.quantity = quantity;
  map.rows = map.columns = {0, 200};
  map.pixel_rows = map.pixel_columns = 200;
  const auto image = compute_map(map, {});
  for (const std::int64_t query : {0, 1, 77, 199}) {
    TintRequest request = requestOf(trace, kind);
    request.head = 1;
    request.query = query;
    const auto tint = computeTint(request, {});
    QCOMPARE(tint->lastReadCell, query);
    for (std::int64_t key = 0; key <= query; ++key) {
      const float expected = image->value[index_of(query * 200 + key)];
      QVERIFY(std::abs(tint->value[index_of(key)] - expected) <= 2e-6F * expected);
    }
    for (std::size_t cell = static_cast<std::size_t>(query) + 1; cell <= 200; ++cell)
      QVERIFY(std::isnan(tint->value[cell]));
  }
}

void TextTintTest::aDifferenceIsThatOfTheLosses() {
  TextRun other = words(100);
  other.name = "other";
  other.seed = 2;
  TintRequest request = requestOf(makeTextRun(words(100)), TintKind::lossDifference);
  request.minus = makeTextRun(other);
  const auto tint = computeTint(request, {});
  QVERIFY(tint->scale.diverging);
  QCOMPARE(tint->scale.lower, -tint->scale.upper);
  for (std::size_t position = 0; position < 100; ++position)
    QCOMPARE(tint->value[position + 1],
             request.run->per_token_loss()[position] - request.minus->per_token_loss()[position]);
}

void TextTintTest::otherTokensAreFoundByTheirPlace() {
  TextRun coarse;
  coarse.text = "abcdefgh";
  coarse.tokens = {{0, 4}, {4, 6}, {6, 8}};
  TextRun fine = coarse;
  fine.name = "fine";
  fine.tokens = {{0, 1}, {1, 5}, {5, 6}, {6, 8}};
  const auto reference = makeTextRun(coarse);
  TintRequest request = requestOf(reference, TintKind::loss);
  request.run = makeTextRun(fine);
  QVERIFY(!TokenPlaces(*reference, *request.run).identical());
  const auto tint = computeTint(request, {});
  const auto loss = request.run->per_token_loss();
  // Bytes 0, 4 and 6 are in the fine tokens 0, 1 and 3.
  QCOMPARE(tint->value[1], loss[0]);
  QCOMPARE(tint->value[2], loss[1]);
  QCOMPARE(tint->value[3], loss[3]);
}

void TextTintTest::aShorterRunTintsNoFurther() {
  TextRun shorter = words(100);
  shorter.tokens.resize(40);
  TintRequest request = requestOf(makeTextRun(words(100)), TintKind::loss);
  request.run = makeTextRun(shorter);
  const auto tint = computeTint(request, {});
  QCOMPARE(tint->value[40], request.run->per_token_loss()[39]);
  for (std::size_t cell = 41; cell <= 100; ++cell) QVERIFY(std::isnan(tint->value[cell]));
  request.kind = TintKind::forgetRow;
  request.query = 60;
  QVERIFY_EXCEPTION_THROWN(computeTint(request, {}), Error);
}

void TextTintTest::aRowOfOtherTokensIsOfThePositionThatReadsTheWord() {
  TextRun coarse;
  coarse.text = "abcdefgh";
  coarse.tokens = {{0, 4}, {4, 6}, {6, 8}};
  TextRun fine = coarse;
  fine.tokens = {{0, 1}, {1, 5}, {5, 6}, {6, 8}};
  TintRequest request = requestOf(makeTextRun(coarse), TintKind::forgetRow);
  request.run = makeTextRun(fine);
  request.query = 2;  // reads bytes 4 to 6; the fine token of byte 4 is the second, read by position 2
  const auto tint = computeTint(request, {});
  const auto c = request.run->cumulative_log_gate(0, 0);
  QCOMPARE(tint->value[0], static_cast<float>(std::exp(c[2] - c[0])));
  QCOMPARE(tint->value[1], static_cast<float>(std::exp(c[2] - c[1])));
  QCOMPARE(tint->value[2], 1.0F);
  QVERIFY(std::isnan(tint->value[3]));
}

void TextTintTest::whatWasNotKeptIsSaid() {
  TextRun run = words(50);
  run.keep = {Keep::loss, Keep::gates};
  TintRequest request = requestOf(makeTextRun(run), TintKind::attentionRow);
  request.query = 20;
  QVERIFY_EXCEPTION_THROWN(computeTint(request, {}), Error);
  request.kind = TintKind::forgetRow;
  QVERIFY(computeTint(request, {}));
  run.keep = {Keep::gates};
  try {
    computeTint(requestOf(makeTextRun(run), TintKind::loss), {});
    QFAIL("a run without losses has no tint by loss");
  } catch (const Error& error) {
    QCOMPARE(std::string(error.what()), std::string("model 'fox': losses were not kept: run again with --keep loss"));
  }
}

void TextTintTest::scales() {
  TintScale linear;
  linear.lower = 0;
  linear.upper = 4;
  QCOMPARE(linear.position(1), 0.25);
  QCOMPARE(linear.position(9), 1.0);
  QCOMPARE(linear.position(-1), 0.0);
  QVERIFY(std::isnan(linear.position(std::nan(""))));
  TintScale logarithmic{1e-4, 1, TintScaling::logarithmic, false, false, false};
  QVERIFY(std::abs(logarithmic.position(1e-2) - 0.5) < 1e-12);
  QCOMPARE(logarithmic.position(0), 0.0);
}

void TextTintTest::extremesAreSaidToBeClipped() {
  const auto trace = makeTextRun(words(1000));
  const auto tint = computeTint(requestOf(trace, TintKind::loss), {});
  std::vector<float> sorted(trace->per_token_loss().begin(), trace->per_token_loss().end());
  std::sort(sorted.begin(), sorted.end());
  QVERIFY(tint->scale.clipsAbove);
  QVERIFY(!tint->scale.clipsBelow);
  const auto within = std::upper_bound(sorted.begin(), sorted.end(), static_cast<float>(tint->scale.upper));
  QCOMPARE(within - sorted.begin(), 990);
}

void TextTintTest::aStoppedJobGivesNothing() {
  std::stop_source stop;
  stop.request_stop();
  Job job;
  job.stop = stop.get_token();
  TintRequest request = requestOf(makeTextRun(words(200)), TintKind::attentionRow);
  request.query = 150;
  QVERIFY(!computeTint(request, job));
}

void TextTintTest::textReadsOnEveryTint_data() {
  QTest::addColumn<QPalette>("palette");
  QTest::newRow("light") << lightPalette();
  QTest::newRow("dark") << darkPalette();
}

void TextTintTest::textReadsOnEveryTint() {
  QFETCH(QPalette, palette);
  constexpr double kReadable = 4.5;  // WCAG 2.1, 1.4.3
  const double text = luminance(palette.color(QPalette::Text));
  for (const auto course : {TintRamp::Course::sequential, TintRamp::Course::diverging}) {
    const TintRamp ramp(palette, course);
    for (int step = 0; step <= 100; ++step) {
      const double ground = luminance(ramp.at(step / 100.0));
      const double contrast = (std::max(text, ground) + 0.05) / (std::min(text, ground) + 0.05);
      QVERIFY2(contrast >= kReadable, qPrintable(QString("%1 at %2").arg(contrast).arg(step)));
    }
  }
  // Nothing is the ground itself: the lowest value, and no difference.
  QCOMPARE(TintRamp(palette, TintRamp::Course::sequential).at(0).rgb(), palette.color(QPalette::Base).rgb());
}

}  // namespace foxscope::gui::test

FOXSCOPE_GUILESS_SUBJECT(text_tint, foxscope::gui::test::TextTintTest)
#include "backend/base/index.h"
#include "text_tint_test.moc"
