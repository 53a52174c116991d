#include <cmath>
#include <limits>

#include <QTest>

#include "app/gui/curves/curve_export.h"
#include "app/gui/curves/curve_runs.h"
#include "app/gui/curves/decay_spectrum.h"
#include "app/gui/curves/line_profile.h"
#include "app/gui/curves/tabs/curve_tab.h"
#include "backend/map/statistics/head_statistics.h"
#include "tests/file/synthetic_trace.h"
#include "tests/gui/subject.h"

namespace foxscope::gui::test {
namespace {

using curves::CurveRun;
using curves::Series;
using foxscope::test::make_trace;
using foxscope::test::SyntheticRun;

SyntheticRun shape(unsigned seed, std::int64_t length) {
  SyntheticRun run;
  run.seed = seed;
  run.length = length;
  return run;
}

CurveRun curveRun(int index, std::shared_ptr<const Trace> trace) {
  return {index + 1, index, QStringLiteral("run%1").arg(index), std::move(trace)};
}

using Along = MapLine::Along;

/// All entries of a head's map, made at once.
Image wholeMap(const HeadOf& head, Quantity quantity) {
  MapRequest request;
  request.head = head;
  request.quantity = quantity;
  request.rows = request.columns = {0, head.trace->info().length};
  request.pixel_rows = request.pixel_columns = head.trace->info().length;
  return *compute_map(request, {});
}

/// Values of a profile are the map's entries on its line, and nothing elsewhere.
bool equal(const std::vector<double>& values, const Image& map, const MapLine& line, double tolerance) {
  const Range there = line.positions(map.rows);
  if (static_cast<std::int64_t>(values.size()) != there.end) return false;
  for (std::int64_t position = 0; position < there.end; ++position) {
    const double value = values[index_of(position)];
    const std::int64_t index = line.query(position) * map.columns + line.key(position);
    const double expected = position < there.begin ? std::numeric_limits<double>::quiet_NaN()
                                                   : static_cast<double>(map.value[index_of(index)]);
    if (std::isnan(value) != std::isnan(expected)) return false;
    if (!std::isnan(expected) && std::abs(value - expected) > tolerance) return false;
  }
  return true;
}

double sumOf(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += std::isnan(value) ? 0 : value;
  return sum;
}

/// A text cut into tokens of these lengths.
TokenTable cut(const std::vector<std::int64_t>& lengths) {
  TokenTable tokens;
  std::int64_t byte = 0;
  for (const std::int64_t length : lengths) {
    tokens.id.push_back(static_cast<std::int32_t>(100 * byte + length));
    tokens.input_id.push_back(tokens.id.size() == 1 ? 0 : tokens.id[tokens.id.size() - 2]);
    tokens.byte_start.push_back(byte);
    byte += length;
    tokens.byte_end.push_back(byte);
  }
  return tokens;
}

}  // namespace

class CurveDataTest : public QObject {
  Q_OBJECT

 private slots:
  void linesAreThoseOfMaps_data();
  void linesAreThoseOfMaps();
  void linesOfEveryMixerAreThoseOfMaps();
  void linesWithoutQueriesAndKeysHaveNoAttention();
  void strongestKeysComeFirst();
  void lossesAreThoseOfTheTrace();
  void aDifferenceEndsWithTheShorterRun();
  void aChangedCopyIsComparedWithWhatItCopies();
  void runsOnOtherTextsAreNotCompared();
  void perplexityIsThatOfAPlainLoop();
  void tokensThatDifferStandWhereTheyBegin();
  void differencesCompareTheSamePlace();
  void lossesThatWereNotKeptAreMissing();
  void gatesAreThoseOfTheTrace();
  void decayTimesAreThoseOfTheStatistics();
  void headsThatDecayByChannelHaveASpectrum();
  void csvNamesUnitsAndQuotes();
};

void CurveDataTest::linesAreThoseOfMaps_data() {
  QTest::addColumn<int>("window");
  QTest::addColumn<bool>("gated");
  QTest::newRow("gated") << 0 << true;
  QTest::newRow("window") << 9 << true;
  QTest::newRow("without gate") << 0 << false;
}

void CurveDataTest::linesAreThoseOfMaps() {
  QFETCH(int, window);
  QFETCH(bool, gated);
  SyntheticRun run = shape(1, 60);
  run.window_size = window;
  run.gated = gated;
  const HeadOf other{make_trace(run), 1, 3};
  const Image forget = wholeMap(other, Quantity::forget);
  const Image logForget = wholeMap(other, Quantity::log_forget);
  const Image attention = wholeMap(other, Quantity::attention);
  const Image withoutGate = wholeMap(other, Quantity::attention_without_gate);
  for (const Along along : {Along::row, Along::column, Along::diagonal}) {
    // Of a trace that knows no normalisers without the gate yet.
    const HeadOf head{make_trace(run), 1, 3};
    for (const std::int64_t at : {0, 1, 8, 9, 59}) {
      const MapLine line{along, at};
      auto profile = curves::lineProfile(head, line, {});
      QVERIFY(profile.has_value());
      QCOMPARE(profile->line, line);
      QVERIFY(equal(profile->forget, forget, line, 0));
      QVERIFY(equal(profile->logForget, logForget, line, 0));
      QVERIFY(equal(profile->attention, attention, line, 1e-7));
      const bool waits = along != Along::row && gated && at == 0;
      QCOMPARE(profile->missing.empty(), !waits);
      if (waits) {
        QVERIFY(profile->attentionWithoutGate.empty());
        QCOMPARE(profile->missing, std::vector{Quantity::attention_without_gate});
        profile->attentionWithoutGate = *curves::lineValues(head, line, Quantity::attention_without_gate, {});
      }
      // A row's softmax is made another way: the map goes by the normaliser of the whole head.
      QVERIFY(equal(profile->attentionWithoutGate, withoutGate, line, 1e-6));
      if (along != Along::row) continue;
      QVERIFY(std::abs(sumOf(profile->attention) - 1) < 1e-5);
      QVERIFY(std::abs(sumOf(profile->attentionWithoutGate) - 1) < 1e-12);
    }
  }
}

void CurveDataTest::linesOfEveryMixerAreThoseOfMaps() {
  SyntheticRun run = shape(1, 70);
  run.mixers = foxscope::test::all_mixers();
  run.keep = {Keep::loss, Keep::gates, Keep::rows, Keep::query_key, Keep::values};
  const auto trace = make_trace(run);
  for (int layer = 0; layer < static_cast<int>(run.mixers.size()); ++layer) {
    const HeadOf head{trace, layer, 0};
    const bool decays = why_not(trace->info(), layer, Quantity::forget).empty();
    for (const Along along : {Along::row, Along::column, Along::diagonal}) {
      const MapLine line{along, 20};
      const auto profile = curves::lineProfile(head, line, {});
      const auto attention =
          profile->attention.empty() ? *curves::lineValues(head, line, Quantity::attention, {}) : profile->attention;
      QVERIFY(equal(attention, wholeMap(head, Quantity::attention), line, 2e-6));
      if (decays) {
        QVERIFY(equal(profile->forget, wholeMap(head, Quantity::forget), line, 1e-6));
      } else {
        const Range there = line.positions(70);
        QCOMPARE(profile->forget.size(), static_cast<std::size_t>(there.end));
        QCOMPARE(sumOf(profile->forget), static_cast<double>(there.size()));
        QCOMPARE(sumOf(profile->logForget), 0.0);
      }
      const bool softmax = trace->info().mixer(layer).mixer == Mixer::attention;
      if (!softmax) QVERIFY(profile->attentionWithoutGate.empty());
    }
  }
}

void CurveDataTest::linesWithoutQueriesAndKeysHaveNoAttention() {
  SyntheticRun run = shape(1, 30);
  run.keep = {Keep::loss, Keep::gates, Keep::rows};
  const HeadOf head{make_trace(run), 0, 0};
  for (const Along along : {Along::row, Along::column, Along::diagonal}) {
    const auto profile = curves::lineProfile(head, {along, 20}, {});
    QVERIFY(profile->attention.empty());
    QVERIFY(profile->attentionWithoutGate.empty());
    QVERIFY(profile->missing.empty());
    QCOMPARE(profile->forget.size(), along == Along::row ? std::size_t{21} : std::size_t{30});
  }
  QCOMPARE(curves::lineProfile(head, {Along::row, 20}, {})->forget.back(), 1.0);
}

void CurveDataTest::strongestKeysComeFirst() {
  const double none = std::numeric_limits<double>::quiet_NaN();
  const std::vector<std::int64_t> expected{4, 1, 3};
  QCOMPARE(curves::strongest({none, 0.3, 0.0, 0.1, 0.6}, 8), expected);
  QCOMPARE(curves::strongest({none, 0.3, 0.0, 0.1, 0.6}, 2).size(), std::size_t{2});
  QVERIFY(curves::strongest({}, 3).empty());
}

void CurveDataTest::lossesAreThoseOfTheTrace() {
  const auto a = make_trace(shape(1, 200));
  SyntheticRun other = shape(2, 200);
  other.name = "other";
  const auto b = make_trace(other);
  const std::vector<CurveRun> runs{curveRun(0, a), curveRun(1, b)};
  const curves::LossCurves losses = curves::lossCurves(runs, 11);
  QCOMPARE(losses.differences.size(), std::size_t{1});
  const bool sameTokens = a->tokens()->id == b->tokens()->id;
  QCOMPARE(losses.tokensDiffer, !sameTokens);
  for (std::size_t p = 0; p < 200; ++p) {
    QCOMPARE(losses.runs[0].raw->value[p], static_cast<double>(a->per_token_loss()[p]));
    QCOMPARE(losses.runs[1].raw->value[p], static_cast<double>(b->per_token_loss()[p]));
    QCOMPARE(losses.differences[0].raw->value[p],
             static_cast<double>(a->per_token_loss()[p]) - static_cast<double>(b->per_token_loss()[p]));
  }
}

void CurveDataTest::aDifferenceEndsWithTheShorterRun() {
  SyntheticRun shorter = shape(2, 80);
  shorter.with_text = false;
  SyntheticRun longer = shape(1, 200);
  longer.with_text = false;
  const std::vector<CurveRun> runs{curveRun(0, make_trace(longer)), curveRun(1, make_trace(shorter))};
  const curves::LossCurves losses = curves::lossCurves(runs, 21);
  QCOMPARE(losses.differences[0].raw->size(), std::size_t{80});
  QCOMPARE(losses.differences[0].mean->size(), std::size_t{80});
  QVERIFY(!std::isnan(losses.differences[0].mean->value[79]));
}

void CurveDataTest::aChangedCopyIsComparedWithWhatItCopies() {
  std::vector<CurveRun> runs;
  for (int number = 0; number < 3; ++number) runs.push_back(curveRun(number, make_trace(shape(number + 1, 60))));
  runs[1].name = "second";
  runs[2].name = "second.changed";
  runs[2].base = "second";
  const curves::LossCurves losses = curves::lossCurves(runs, 11);
  QCOMPARE(losses.differences.size(), std::size_t{2});
  QCOMPARE(losses.differences[0].minus.name, "second");
  // The sign is that of every difference: what is shown before less what is shown after it.
  QCOMPARE(losses.differences[1].run.name, "second");
  QCOMPARE(losses.differences[1].minus.name, "second.changed");
  QCOMPARE(losses.differences[1].of.index, 2);
  for (std::size_t p = 0; p < 60; ++p) {
    QCOMPARE(losses.differences[1].raw->value[p], static_cast<double>(runs[1].trace->per_token_loss()[p]) -
                                                      static_cast<double>(runs[2].trace->per_token_loss()[p]));
  }
}

void CurveDataTest::runsOnOtherTextsAreNotCompared() {
  std::vector<CurveRun> runs{curveRun(0, make_trace(shape(1, 60))), curveRun(1, make_trace(shape(2, 90)))};
  runs[1].text = 1;
  const curves::LossCurves losses = curves::lossCurves(runs, 11);
  QVERIFY(losses.differences.empty());
  QVERIFY(!losses.tokensDiffer);
  // Along its own tokens.
  QVERIFY(losses.runs[1].raw->position.empty());
  QCOMPARE(losses.runs[1].raw->size(), std::size_t{90});
  QVERIFY(curves::contextCurves(runs)[1].mean->position.empty());
  QVERIFY(curves::otherTextsNote(runs).contains("read another text"));
  runs[1].text = 0;
  QVERIFY(curves::otherTextsNote(runs).isEmpty());
}

void CurveDataTest::perplexityIsThatOfAPlainLoop() {
  const auto trace = make_trace(shape(3, 150));
  const std::vector<CurveRun> runs{curveRun(0, trace)};
  const auto context = curves::contextCurves(runs);
  for (std::size_t l = 1; l <= 150; ++l) {
    double sum = 0;
    for (std::size_t p = 0; p < l; ++p) sum += static_cast<double>(trace->per_token_loss()[p]);
    const double expected = std::exp(sum / static_cast<double>(l));
    QVERIFY(std::abs(context[0].perplexity->value[l - 1] - expected) < 1e-9 * expected);
  }
}

void CurveDataTest::tokensThatDifferStandWhereTheyBegin() {
  const TokenTable reference = cut({2, 4, 1, 3});
  QVERIFY(curves::placesPredicted(reference, reference).empty());
  // Bytes 0, 2, 3, 5, 7.
  const TokenTable finer = cut({2, 1, 2, 2, 3});
  const std::vector<double> expected{0, 1, 1.25, 1.75, 3};
  QCOMPARE(curves::placesPredicted(finer, reference), expected);
  // What position p reads is what p - 1 predicts.
  const std::vector<double> read{0, 1, 2, 2.25, 2.75};
  QCOMPARE(curves::placesRead(finer, reference), read);
  TokenTable withoutText = finer;
  withoutText.byte_start.clear();
  withoutText.byte_end.clear();
  const std::vector<double> byIndex{0, 1, 2, 3, 4};
  QCOMPARE(curves::placesPredicted(withoutText, reference), byIndex);
}

void CurveDataTest::differencesCompareTheSamePlace() {
  const TokenTable reference = cut({2, 4, 1, 3});
  const Series finer{{10, 20, 30, 40, 50}, curves::placesPredicted(cut({2, 1, 2, 2, 3}), reference)};
  // The token of the finer run that holds the first byte of each token of the reference.
  const std::vector<double> expected{10, 20, 40, 50};
  for (std::size_t p = 0; p < 4; ++p) QCOMPARE(finer.value[*finer.indexAt(static_cast<double>(p))], expected[p]);
}

void CurveDataTest::lossesThatWereNotKeptAreMissing() {
  SyntheticRun run = shape(1, 30);
  run.keep = {Keep::gates};
  const std::vector<CurveRun> runs{curveRun(0, make_trace(shape(1, 30))), curveRun(1, make_trace(run))};
  const curves::LossCurves losses = curves::lossCurves(runs, 101);
  QVERIFY(losses.runs[0].raw != nullptr);
  QVERIFY(losses.runs[1].raw == nullptr);
  QVERIFY(losses.differences.empty());
  QVERIFY(curves::contextCurves(runs)[1].perplexity == nullptr);
}

void CurveDataTest::gatesAreThoseOfTheTrace() {
  const auto trace = make_trace(shape(4, 300));
  const HeadOf head{trace, 1, 2};
  const Series gate = curves::gateSeries(head, *trace->tokens());
  const auto c = trace->cumulative_log_gate(1, 2);
  QCOMPARE(gate.value[0], std::exp(c[0]));
  for (std::size_t t = 1; t < 300; ++t) QCOMPARE(gate.value[t], std::exp(c[t] - c[t - 1]));
  const auto statistics = head_statistics(head, {.with_attention = false, .events = 5}, {});
  QCOMPARE(statistics->strongest_events.size(), std::size_t{5});
  for (const ForgettingEvent& event : statistics->strongest_events) {
    QCOMPARE(gate.value[index_of(event.position)], event.forget_gate);
  }
}

void CurveDataTest::decayTimesAreThoseOfTheStatistics() {
  SyntheticRun ungated = shape(5, 100);
  ungated.gated = false;
  const auto trace = make_trace(shape(5, 100));
  const std::vector<CurveRun> runs{curveRun(0, trace), curveRun(1, make_trace(ungated))};
  const auto spectra = curves::decaySpectra(runs, {});
  QCOMPARE(spectra->size(), std::size_t{2});
  QCOMPARE((*spectra)[0].heads.size(), std::size_t{2 * 4});
  for (const curves::HeadDecay& decay : (*spectra)[0].heads) {
    const auto statistics =
        head_statistics({trace, decay.head.layer, decay.head.head}, {.with_attention = false, .events = 0}, {});
    QVERIFY(std::abs(decay.time - statistics->rate_decay_time) <= 1e-12 * decay.time);
    QCOMPARE(decay.head.run, 1);
  }
  QVERIFY((*spectra)[1].heads.empty());
}

void CurveDataTest::headsThatDecayByChannelHaveASpectrum() {
  foxscope::test::SyntheticRun shape;
  shape.mixers = foxscope::test::all_mixers();
  const auto trace = make_trace(shape);
  const std::vector<CurveRun> runs{curveRun(0, trace)};
  const auto spectra = curves::decaySpectra(runs, {});
  bool any = false;
  for (const curves::HeadDecay& decay : spectra->front().heads) {
    const LayerMixer mixer = trace->info().mixer(decay.head.layer);
    const bool channels = mixer.decays_by_channel();
    any = any || channels;
    QCOMPARE(decay.channels.size(), static_cast<std::size_t>(channels ? mixer.head_dim : 0));
    QVERIFY(std::ranges::is_sorted(decay.channels));
    if (!channels) continue;
    // The head's own time is that of the geometric mean of the channels' decays.
    double mean = 0;
    for (const double time : decay.channels) mean -= 1 / time / static_cast<double>(decay.channels.size());
    QVERIFY(std::abs(decay.time + 1 / mean) <= 1e-9 * decay.time);
  }
  QVERIFY(any);
}

void CurveDataTest::csvNamesUnitsAndQuotes() {
  QCOMPARE(curves::csvField("a"), "a");
  QCOMPARE(curves::csvField("a,b"), "\"a,b\"");
  QCOMPARE(curves::csvField("say \"a\""), "\"say \"\"a\"\"\"");
  curves::CurveTable table;
  table.positionName = "position";
  table.positions = 3;
  table.texts.emplace_back("reads", std::vector<QString>{"x", ",", "z"});
  table.columns.push_back(
      {"loss (nats)", std::make_shared<const Series>(Series{{0.1, std::numeric_limits<double>::quiet_NaN()}, {}})});
  QCOMPARE(curves::csvOf(table), "position,reads,loss (nats)\n0,x,0.1\n1,\",\",\n2,z,\n");
}

}  // namespace foxscope::gui::test

FOXSCOPE_GUILESS_SUBJECT(curve_data, foxscope::gui::test::CurveDataTest)
#include "backend/base/index.h"
#include "curve_data_test.moc"
