#include <algorithm>
#include <cmath>

#include <QSignalSpy>
#include <QTest>

#include "app/figure/colour_scale.h"
#include "app/gui/maps/colour_bar.h"
#include "app/gui/maps/map_picture.h"
#include "app/gui/views/theme.h"
#include "kernels/executor.h"
#include "tests/gui/maps/support.h"
#include "tests/gui/subject.h"

namespace foxscope::gui::test {
namespace {

using foxscope::test::make_trace;
using foxscope::test::SyntheticRun;

}  // namespace

class MapsViewTest : public QObject {
  Q_OBJECT

 private slots:
  void saysWhatToDoWithoutRuns();
  void aViewWithoutEntriesSaysSo();
  void showsForgetAndAttentionOfTheChosenHead();
  void pixelsAreComputedValues_data();
  void pixelsAreComputedValues();
  void cellsAreComputedValues();
  void axesNameTheTokensThatPositionsRead();
  void otherPicturesAreNeverShownAfterTheyWereReplaced();
  void firstACoarsePictureThenTheExactOne();
  void coloursDoNotComputeAgain();
  void barSetsLimits();
  void onlyExactPicturesAreCounted();
  void logarithmicPicturesLeaveNothingOut();
  void largeLogarithmicPicturesLeaveOutWhatNoColourShows();
  void badLimitsAreTold();
  void quantitiesWithoutQueriesAndKeys();
  void failedPictureIsTold();
  void oneToken();
  void idsWithoutText();
  void tokensAreNamedInSmallLetters();
  void linearMixersSayWhatTheirEntriesAre();
  void mixingBecomesAttentionOfAHeadThatHasIt();
  void theBarOfSignedEntriesIsTwiceAsLongAsItsLimits();
  void windowOfAttention();
  void longText();
  void darkAndLight();
};

void MapsViewTest::saysWhatToDoWithoutRuns() {
  OpenMaps maps({});
  QVERIFY(maps.view.isSettled());
  QVERIFY(!maps.view.requestOfActivePane());
  QVERIFY(!maps.view.figureOfActivePane());
  QVERIFY(!maps.pane().isVisible());
  maps.view.fit();
  QCOMPARE(maps.range(), View());
}

void MapsViewTest::aViewWithoutEntriesSaysSo() {
  OpenMaps maps({traceOf(120)});
  maps.document.runs().selection().setView({{0, 20}, {60, 80}});
  QVERIFY(maps.settle());
  QVERIFY2(maps.plot(0).notice().contains("Backspace"), qPrintable(maps.plot(0).notice()));
  QVERIFY(maps.plot(1).notice().contains("below the diagonal"));
  maps.view.fit();
  QVERIFY(maps.settle());
  QVERIFY(maps.plot(0).notice().isEmpty() && maps.plot(1).notice().isEmpty());
}

void MapsViewTest::showsForgetAndAttentionOfTheChosenHead() {
  OpenMaps maps({traceOf(120)});
  QVERIFY(maps.settle());
  QCOMPARE(maps.view.paneCount(), 2);
  QVERIFY(maps.pane(0).isVisible() && maps.pane(1).isVisible() && !maps.pane(2).isVisible());
  QCOMPARE(maps.pane(0).titleText(), "fox L0 H0 · forget F");
  QCOMPARE(maps.pane(1).titleText(), "fox L0 H0 · attention A");
  QCOMPARE(maps.pane(0).detailText(), "one entry a pixel · exact");
  maps.document.runs().selection().setHead({maps.document.runs()[0].id, 1, 3});
  QVERIFY(maps.settle());
  QCOMPARE(maps.pane(0).titleText(), "fox L1 H3 · forget F");
  QCOMPARE(maps.pane(1).picture()->computed.head.head, 3);
}

void MapsViewTest::pixelsAreComputedValues_data() {
  QTest::addColumn<int>("pane");
  QTest::newRow("forget") << 0;
  QTest::newRow("attention") << 1;
}

void MapsViewTest::pixelsAreComputedValues() {
  QFETCH(const int, pane);
  const auto trace = traceOf(700);
  OpenMaps maps({trace});
  QVERIFY(maps.settle());
  const QImage grabbed = maps.grabPlot(pane);
  const QRect rect = maps.plot(pane).geometryOfView().rect;
  QVERIFY(rect.height() < 700);
  // Asked for anew, by what stands on the screen: each pixel of the screen is one of the map.
  MapRequest request{{trace, 0, 0},
                     pane == 0 ? Quantity::forget : Quantity::attention,
                     Reduction::max,
                     {0, 700},
                     {0, 700},
                     rect.height(),
                     rect.width(),
                     {},
                     0};
  const Image values = compute_map(request, {}).value();
  figure::MapFigure figure;
  figure.request = request;
  figure.image = values;
  figure.scale = figure::defaultScale(request);
  const figure::ScaledColours colours = figure::chooseColours(figure);
  // The frame covers the outermost pixels.
  for (int row = 1; row + 1 < rect.height(); ++row) {
    for (int column = 1; column + 1 < rect.width(); ++column) {
      const float value = values.value[index_of(row * rect.width() + column)];
      const figure::Rgb colour = colours.colour(value);
      const QRgb expected =
          std::isnan(value) ? maps.plot().groundColour().rgb() : qRgb(colour.red, colour.green, colour.blue);
      QVERIFY2(sameColour(grabbed.pixel(rect.left() + column, rect.top() + row), expected),
               qPrintable(QString("row %1, column %2").arg(row).arg(column)));
    }
  }
}

void MapsViewTest::cellsAreComputedValues() {
  const auto trace = traceOf(200);
  OpenMaps maps({trace});
  maps.document.runs().selection().setView({{120, 160}, {110, 150}});
  QVERIFY(maps.settle());
  const QImage grabbed = maps.grabPlot();
  const std::span<const double> c = trace->cumulative_log_gate(0, 0);
  for (std::int64_t row = 120; row < 160; ++row) {
    for (std::int64_t column = 110; column < 150; ++column) {
      const QRgb shown = grabbed.pixel(maps.cell(row, column));
      if (column > row) {
        QCOMPARE(shown, maps.plot().groundColour().rgb());
        continue;
      }
      const double forget = std::exp(c[index_of(row)] - c[index_of(column)]);
      const figure::Rgb colour = figure::colourAt(figure::viridis(), forget);
      QVERIFY(sameColour(shown, qRgb(colour.red, colour.green, colour.blue)));
    }
  }
}

void MapsViewTest::axesNameTheTokensThatPositionsRead() {
  const auto trace = traceOf(200);
  OpenMaps maps({trace});
  maps.document.runs().selection().setView({{40, 52}, {30, 42}});
  QVERIFY(maps.settle());
  maps.plot().replot(QCustomPlot::rpImmediateRefresh);
  const TokenTable& tokens = *trace->tokens();
  const QVector<QString> rows = maps.plot().tickLabels(Qt::Vertical);
  const QVector<QString> columns = maps.plot().tickLabels(Qt::Horizontal);
  QCOMPARE(rows.size(), 12);
  QCOMPARE(columns.size(), 12);
  for (int n = 0; n < 12; ++n) {
    QCOMPARE(rows[n], readText(tokens, 40 + n, Whitespace::visible));
    QCOMPARE(columns[n], readText(tokens, 30 + n, Whitespace::visible));
    // Position p reads token p - 1 of the text.
    QCOMPARE(rows[n].startsWith(QChar(0x2423)), tokens.string[index_of(39 + n)].starts_with(' '));
  }
  maps.view.fit();
  QVERIFY(maps.settle());
  maps.plot().replot(QCustomPlot::rpImmediateRefresh);
  for (const QString& label : maps.plot().tickLabels(Qt::Vertical)) {
    bool number = false;
    QVERIFY(label.toInt(&number) % 5 == 0);
    QVERIFY(number);
  }
}

void MapsViewTest::otherPicturesAreNeverShownAfterTheyWereReplaced() {
  OpenMaps maps({traceOf(600)});
  maps.view.setPaneCount(1);
  QVERIFY(maps.settle());
  QVector<Quantity> shown;
  for (const Quantity quantity : {Quantity::logits, Quantity::attention_without_gate, Quantity::gate_effect}) {
    maps.setQuantity(quantity);
    // The request goes out, and is replaced before its answer is taken.
    QCoreApplication::sendPostedEvents(&maps.pane(), QEvent::MetaCall);
    maps.setQuantity(Quantity::attention);
    const auto record = connect(&maps.view, &MapsView::exactPictureShown, this, [&] {
      shown += maps.pane().picture()->request.content.quantity;
      QVERIFY(maps.pane().titleText().endsWith("attention A"));
    });
    QVERIFY(maps.settle());
    disconnect(record);
    QCOMPARE(maps.pane().picture()->request.content.quantity, Quantity::attention);
  }
  for (const Quantity quantity : shown) QCOMPARE(quantity, Quantity::attention);
}

void MapsViewTest::firstACoarsePictureThenTheExactOne() {
  SyntheticRun run;
  run.length = 1500;
  run.heads = 1;
  run.key_heads = 1;
  run.layers = 1;
  OpenMaps maps({make_trace(run)});
  maps.view.setPaneCount(1);
  QVERIFY(maps.settle());
  QSignalSpy first(&maps.view, &MapsView::firstPictureShown);
  QSignalSpy exact(&maps.view, &MapsView::exactPictureShown);
  QStringList details;
  connect(&maps.view, &MapsView::firstPictureShown, this, [&] { details += maps.pane().detailText(); });
  connect(&maps.view, &MapsView::exactPictureShown, this, [&] { details += maps.pane().detailText(); });
  maps.setQuantity(Quantity::attention);
  QVERIFY(!maps.view.isSettled());
  QTRY_COMPARE_WITH_TIMEOUT(exact.count(), 1, 60'000);
  QCOMPARE(first.count(), 1);
  QVERIFY2(details[0].endsWith("coarse"), qPrintable(details[0]));
  QVERIFY2(details[1].endsWith("exact"), qPrintable(details[1]));
  QVERIFY2(details[1].startsWith("max of "), qPrintable(details[1]));
  // Where the last exact picture tells that the next is a moment's work, no coarse one comes before it.
  constexpr double kMomentMs = 30;
  constexpr double kShare = 1300.0 * 1300 / (1500.0 * 1500);
  const double taken = maps.pane().picture()->milliseconds;
  QVERIFY(taken > 0);
  maps.document.runs().selection().setView({{200, 1500}, {0, 1300}});
  QTRY_COMPARE_WITH_TIMEOUT(first.count(), 2, 60'000);
  QCOMPARE(details[2].endsWith("coarse"), taken * kShare > kMomentMs);
  QTRY_COMPARE_WITH_TIMEOUT(exact.count(), 2, 60'000);
  details.remove(2, 2);
  // F has no need of a coarse one.
  maps.setQuantity(Quantity::forget);
  QTRY_COMPARE_WITH_TIMEOUT(exact.count(), 3, 60'000);
  QVERIFY(details[2].endsWith("exact"));
}

void MapsViewTest::coloursDoNotComputeAgain() {
  OpenMaps maps({traceOf(300)});
  QVERIFY(maps.settle());
  const PicturePointer before = maps.pane().picture();
  QSignalSpy exact(&maps.view, &MapsView::exactPictureShown);
  PaneState state = maps.view.paneState(0);
  state.colours = {figure::ColourMapName::cividis, figure::ColourScale::logarithmic, 1e-3, 0.9, 0.01};
  maps.view.setPaneState(0, state);
  QVERIFY(maps.settle());
  const PicturePointer after = maps.pane().picture();
  QCOMPARE(after->values.front(), before->values.front());
  QVERIFY(after->images.front() != before->images.front());
  QCOMPARE(after->colours.upper, 0.9);
  QCOMPARE(exact.count(), 0);
  // Auto contrast likewise.
  maps.view.setActivePane(1);
  maps.plot(1).setFocus();
  const PicturePointer attention = maps.pane(1).picture();
  QTest::keyClick(&maps.plot(1), Qt::Key_C);
  QVERIFY(maps.settle());
  QCOMPARE(maps.pane(1).picture()->values.front(), attention->values.front());
  QCOMPARE(maps.view.paneState(1).colours.upper, attention->summary->percentile99_9);
  QCOMPARE(exact.count(), 0);
}

void MapsViewTest::barSetsLimits() {
  OpenMaps maps({traceOf(300)});
  QVERIFY(maps.settle());
  ColourBar& bar = maps.pane().bar();
  const auto at = [&](double value) { return QPoint(bar.width() / 3, static_cast<int>(bar.placeOf(value))); };
  QTest::mousePress(&bar, Qt::LeftButton, {}, at(1));
  QTest::mouseMove(&bar, at(0.5));
  QTest::mouseRelease(&bar, Qt::LeftButton, {}, at(0.5));
  QVERIFY(maps.settle());
  QVERIFY(std::abs(*maps.view.paneState(0).colours.upper - 0.5) < 0.01);
  QCOMPARE(*maps.view.paneState(0).colours.lower, 0.0);
  QVERIFY(std::abs(maps.pane().picture()->colours.upper - 0.5) < 0.01);
  QTest::mouseDClick(&bar, Qt::LeftButton, {}, at(0.2));
  QVERIFY(maps.settle());
  QVERIFY(!maps.view.paneState(0).colours.upper);
  QCOMPARE(maps.pane().picture()->colours.upper, 1.0);
}

// Lines of a coarse picture stand for others: the bar counts none of them, and all of the exact one.
void MapsViewTest::onlyExactPicturesAreCounted() {
  SyntheticRun run;
  run.length = 5000;
  run.layers = run.heads = run.key_heads = 1;
  PictureRequest request;
  request.content = {{{{make_trace(run), 0, 0}, nullptr}}, {}, Quantity::attention, Reduction::max};
  request.view = {{0, run.length}, {0, run.length}};
  request.pixels = {250, 250};
  std::vector<PicturePointer> shown;
  const PictureStages stages{[&](const PicturePointer& picture) { shown.push_back(picture); }, {}};
  kernels::ThreadPool pool(1);
  shown.push_back(makeExactPicture(request, {{}, {}, &pool}, stages).value());
  shown.push_back(makeCoarsePicture(request, nullptr, {{}, {}, &pool}).value());
  ColourBar bar;
  bar.resize(bar.barWidth(), 300);
  bar.setExtent(10, 290);
  const auto drawn = [&](const MapPicture& picture) {
    bar.setPicture(std::make_shared<MapPicture>(picture));
    return bar.grab().toImage();
  };
  int exact = 0;
  for (const PicturePointer& picture : shown) {
    MapPicture uncounted = *picture;
    auto summary = std::make_shared<ValueSummary>(*picture->summary);
    for (Histogram* histogram : {&summary->linear, &summary->logarithmic}) {
      std::ranges::fill(histogram->counts, 0);
    }
    uncounted.summary = summary;
    QCOMPARE(drawn(*picture) != drawn(uncounted), picture->exact);
    exact += picture->exact ? 1 : 0;
  }
  QCOMPARE(exact, 1);
  QVERIFY(shown.size() > 2);
}

void MapsViewTest::logarithmicPicturesLeaveNothingOut() {
  OpenMaps maps({traceOf(300)});
  QVERIFY(maps.settle());
  QCOMPARE(maps.pane(1).picture()->computed.skip_tolerance, 0.0);
  maps.view.setActivePane(1);
  maps.plot(1).setFocus();
  QTest::keyClick(&maps.plot(1), Qt::Key_L);
  QVERIFY(maps.settle());
  QCOMPARE(maps.pane(1).picture()->colours.scale, figure::ColourScale::linear);
  // What is exact enough for decades is so for a linear scale.
  QCOMPARE(maps.pane(1).picture()->computed.skip_tolerance, 0.0);
  maps.document.runs().selection().setView({{10, 290}, {10, 290}});
  QVERIFY(maps.settle());
  QCOMPARE(maps.pane(1).picture()->computed.skip_tolerance, 0x1p-24);
  QTest::keyClick(&maps.plot(1), Qt::Key_L);
  QVERIFY(maps.settle());
  QCOMPARE(maps.pane(1).picture()->computed.skip_tolerance, 0.0);
}

void MapsViewTest::largeLogarithmicPicturesLeaveOutWhatNoColourShows() {
  SyntheticRun run;
  run.length = 1500;
  run.heads = run.key_heads = run.layers = 1;
  OpenMaps maps({make_trace(run)});
  maps.view.setPaneCount(1);
  PaneState state = maps.view.paneState(0);
  state.setQuantity(Quantity::attention);
  maps.view.setPaneState(0, state);
  QVERIFY(maps.settle());
  const PicturePointer before = maps.pane().picture();
  QVERIFY(before->computed.skip_tolerance <= 0x1p-25);
  QVERIFY(before->computed.skip_tolerance <= before->colours.lower);
  // Limits below it show what was left out: it is computed then.
  state.colours.lower = 1e-12;
  state.colours.upper = 1;
  maps.view.setPaneState(0, state);
  QVERIFY(maps.settle());
  QVERIFY(maps.pane().picture()->exact);
  QVERIFY(maps.pane().picture()->computed.skip_tolerance <= 1e-12);
  state.colours.blankBelow = 0;
  maps.view.setPaneState(0, state);
  QVERIFY(maps.settle());
  QCOMPARE(maps.pane().picture()->computed.skip_tolerance, 0.0);
}

void MapsViewTest::badLimitsAreTold() {
  OpenMaps maps({traceOf(100)});
  QVERIFY(maps.settle());
  const PicturePointer before = maps.pane().picture();
  PaneState state = maps.view.paneState(0);
  state.colours.lower = 0.8;
  state.colours.upper = 0.2;
  maps.view.setPaneState(0, state);
  QVERIFY(maps.settle());
  QVERIFY2(maps.pane().messageText().contains("the lower must be below the upper"),
           qPrintable(maps.pane().messageText()));
  QCOMPARE(maps.pane().picture(), before);
  state.colours = {};
  maps.view.setPaneState(0, state);
  QVERIFY(maps.settle());
  QCOMPARE(maps.pane().messageText(), QString());
}

void MapsViewTest::quantitiesWithoutQueriesAndKeys() {
  SyntheticRun run;
  run.keep = {Keep::loss, Keep::gates};
  run.length = 80;
  OpenMaps maps({make_trace(run)});
  QVERIFY(maps.settle());
  QVERIFY(maps.pane(0).picture());
  QVERIFY(!maps.pane(1).picture());
  QCOMPARE(maps.pane(1).messageText(),
           "fox kept no queries and keys, so there is no attention to show: show F or log F, or run it again with "
           "attention maps");
  maps.view.setActivePane(1);
  QVERIFY(!maps.view.requestOfActivePane());
  maps.setQuantity(Quantity::log_forget, 1);
  QVERIFY(maps.settle());
  QVERIFY(maps.pane(1).picture());
  QCOMPARE(maps.pane(1).messageText(), QString());
}

void MapsViewTest::failedPictureIsTold() {
  SyntheticRun run;
  run.keep = {Keep::gates, Keep::query_key};
  run.length = 80;
  run.mixers = foxscope::test::sink_mixers();  // whose normalisers cannot be computed without what the file lacks
  OpenMaps maps({make_trace(run)});
  QVERIFY(maps.settle());
  // Shown first: logits need no normalisers.
  maps.setQuantity(Quantity::logits, 1);
  QVERIFY(maps.settle());
  QCOMPARE(maps.pane(1).messageText(), QString());
  const PicturePointer before = maps.pane(1).picture();
  QVERIFY(before);
  maps.setQuantity(Quantity::attention, 1);
  QVERIFY(maps.settle());
  QVERIFY2(maps.pane(1).messageText().contains("rows"), qPrintable(maps.pane(1).messageText()));
  QCOMPARE(maps.pane(1).picture(), before);
  QVERIFY(maps.pane(1).titleText().endsWith("logits S"));
}

void MapsViewTest::oneToken() {
  OpenMaps maps({traceOf(1)});
  QVERIFY(maps.settle());
  QCOMPARE(maps.pane().picture()->values.front()->value, std::vector<float>{1});
  maps.wheel(maps.plot().geometryOfView().rect.center(), 2);
  maps.wheel(maps.plot().geometryOfView().rect.center(), -2);
  QVERIFY(maps.settle());
  QCOMPARE(maps.range(), (View{{0, 1}, {0, 1}}));
}

void MapsViewTest::idsWithoutText() {
  SyntheticRun run;
  run.with_text = false;
  run.length = 40;
  OpenMaps maps({make_trace(run)});
  maps.document.runs().selection().setView({{10, 20}, {10, 20}});
  QVERIFY(maps.settle());
  maps.plot().replot(QCustomPlot::rpImmediateRefresh);
  const QVector<QString> labels = maps.plot().tickLabels(Qt::Vertical);
  QCOMPARE(labels.size(), 10);
  QCOMPARE(labels[3], readText(*maps.document.runs()[0].trace->tokens(), 13, Whitespace::visible));
}

// A sentence of 46 tokens has their names, not numbers, in letters that do not overlap.
void MapsViewTest::tokensAreNamedInSmallLetters() {
  OpenMaps maps({traceOf(46)});
  maps.view.setPaneCount(1);
  maps.view.resize(900, 560);
  QVERIFY(maps.settle());
  maps.plot().replot(QCustomPlot::rpImmediateRefresh);
  const TokenTable& tokens = *maps.document.runs()[0].trace->tokens();
  const double cell = maps.plot().geometryOfView().cellHeight();
  QVERIFY2(cell >= 8 && cell < QFontMetricsF(maps.view.font()).height(), qPrintable(QString::number(cell)));
  for (const auto along : {Qt::Vertical, Qt::Horizontal}) {
    const QVector<QString> labels = maps.plot().tickLabels(along);
    QCOMPARE(labels.size(), 46);
    QCOMPARE(labels[20], readText(tokens, 20, Whitespace::visible));
  }
  const QFont names = maps.plot().yAxis->tickLabelFont();
  QVERIFY(names.pixelSize() >= 8 && QFontMetricsF(names).ascent() <= cell);
  // Where cells are lower than letters can be read, they have numbers.
  maps.view.resize(500, 330);
  QVERIFY(maps.settle());
  maps.plot().replot(QCustomPlot::rpImmediateRefresh);
  QVERIFY(maps.plot().geometryOfView().cellHeight() < 8);
  QVERIFY(maps.plot().tickLabels(Qt::Vertical).size() < 46);
}

namespace {

/// A run of a FoX, one of two layers of Mamba-2, and one of linear attention that decays by channel.
std::vector<std::shared_ptr<const Trace>> softmaxAndLinear() {
  SyntheticRun fox;
  fox.name = "fox";
  fox.length = 80;
  SyntheticRun run = fox;
  run.name = "mamba";
  LayerMixer mixer;
  mixer.mixer = Mixer::mamba2;
  mixer.decay = Decay::head;
  mixer.heads = 4;
  mixer.query_heads = mixer.key_heads = mixer.value_heads = 4;
  mixer.head_dim = mixer.value_dim = 8;
  run.mixers = {mixer, mixer};
  run.keep = {Keep::loss, Keep::gates, Keep::query_key, Keep::values};
  SyntheticRun channels = run;
  channels.name = "mamba-by-channel";
  mixer.mixer = Mixer::gated_linear_attention;
  mixer.decay = Decay::channel;
  channels.mixers = {mixer, mixer};
  return {make_trace(fox), make_trace(run), make_trace(channels)};
}

}  // namespace

void MapsViewTest::linearMixersSayWhatTheirEntriesAre() {
  OpenMaps maps(softmaxAndLinear());
  maps.setQuantity(Quantity::forget);
  QVERIFY(maps.settle());
  QCOMPARE(maps.pane().meaningText(), QString());  // of attention
  maps.document.runs().selection().setHead({maps.document.runs()[1].id, 0, 1});
  QVERIFY(maps.settle());
  QCOMPARE(maps.pane().meaningText(), "F: the decay of M; M: y = M v, signed");
  QCOMPARE(maps.pane().whatsThis(), "forget");
  maps.setQuantity(Quantity::mixing);
  QVERIFY(maps.settle());
  QCOMPARE(maps.pane().meaningText(), "M: y = M v, signed; F: its decay");
  QCOMPARE(maps.pane().whatsThis(), "mixing");
  maps.setQuantity(Quantity::attention);
  QVERIFY(maps.settle());
  QVERIFY(maps.pane().meaningText().startsWith("A: |M| of a row, divided by its sum"));
  // A head of several decays has one number F.
  maps.document.runs().selection().setHead({maps.document.runs()[2].id, 0, 1});
  maps.setQuantity(Quantity::forget);
  QVERIFY(maps.settle());
  QCOMPARE(maps.pane().meaningText(), "F: the decay of M, mean of its channels; M: y = M v, signed");
}

void MapsViewTest::mixingBecomesAttentionOfAHeadThatHasIt() {
  OpenMaps maps(softmaxAndLinear());
  const RunId fox = maps.document.runs()[0].id;
  const RunId mamba = maps.document.runs()[1].id;
  Selection& selection = maps.document.runs().selection();
  selection.setHead({mamba, 0, 1});
  maps.setQuantity(Quantity::mixing);
  maps.setQuantity(Quantity::forget, 1);
  QVERIFY(maps.settle());
  selection.setHead({fox, 0, 1});
  QVERIFY(maps.settle());
  QCOMPARE(maps.view.paneState(0).quantity, Quantity::attention);
  QCOMPARE(maps.view.paneState(1).quantity, Quantity::forget);
  QVERIFY(!maps.view.paneState(0).hasSigns());
  QVERIFY(!maps.pane().picture()->colours.hasSigns);
  // And back.
  selection.setHead({mamba, 1, 0});
  QCOMPARE(maps.view.paneState(0).quantity, Quantity::mixing);
  // A that somebody chose stays A.
  selection.setHead({fox, 0, 1});
  PaneState state = maps.view.paneState(0);
  for (const Quantity chosen : {Quantity::logits, Quantity::attention}) {
    state.setQuantity(chosen);
    maps.view.setPaneState(0, state);
  }
  selection.setHead({mamba, 1, 0});
  QCOMPARE(maps.view.paneState(0).quantity, Quantity::attention);
  // M of a pane's own head is asked for: it stays, as a comparison does.
  state.setQuantity(Quantity::mixing);
  state.own = NamedHead{"fox", 0, 0};
  maps.view.setPaneState(0, state);
  selection.setHead({fox, 1, 1});
  QCOMPARE(maps.view.paneState(0).quantity, Quantity::mixing);
}

void MapsViewTest::theBarOfSignedEntriesIsTwiceAsLongAsItsLimits() {
  OpenMaps maps(softmaxAndLinear());
  maps.document.runs().selection().setHead({maps.document.runs()[1].id, 0, 1});
  maps.setQuantity(Quantity::mixing);
  QVERIFY(maps.settle());
  PaneState state = maps.view.paneState(0);
  const ValueSummary& summary = *maps.pane().picture()->summary;
  const double largest = std::max(std::abs(summary.lowest), std::abs(summary.highest));
  state.colours.upper = largest / 10;
  maps.view.setPaneState(0, state);
  QVERIFY(maps.settle());
  const ColourBar& bar = maps.pane().bar();
  const double limit = largest / 10;
  QCOMPARE(maps.pane().picture()->colours.upper, limit);
  // The ends of the bar, and what lies beyond them.
  const double top = bar.placeOf(1e9);
  const double bottom = bar.placeOf(-1e9);
  QVERIFY(bar.valueAt(top) <= 2 * limit * (1 + 1e-9));
  QVERIFY(bar.valueAt(bottom) >= -2 * limit * (1 + 1e-9));
  // The colours have half of it or more.
  QVERIFY((bar.placeOf(-limit) - bar.placeOf(limit)) >= 0.5 * (bottom - top) - 1);
  // Limits that reach all values leave the bar as long as they are.
  state.colours.upper = 2 * largest;
  maps.view.setPaneState(0, state);
  QVERIFY(maps.settle());
  QVERIFY(std::abs(bar.valueAt(bar.placeOf(1e9)) - 2 * largest) < 1e-6 * largest);
}

void MapsViewTest::windowOfAttention() {
  SyntheticRun run;
  run.window_size = 8;
  run.length = 40;
  OpenMaps maps({make_trace(run)});
  QVERIFY(maps.settle());
  QVERIFY(std::isnan(maps.pane(1).picture()->value(0, 30, 22)));
  QVERIFY(maps.pane(1).picture()->value(0, 30, 23) > 0);
}

void MapsViewTest::longText() {
  SyntheticRun run;
  run.length = 65'536;
  run.layers = 1;
  run.heads = 1;
  run.key_heads = 1;
  run.keep = {Keep::gates};
  const auto trace = make_trace(run);
  OpenMaps maps({trace});
  maps.view.setPaneCount(1);
  QVERIFY(maps.settle());
  QSignalSpy shown(&maps.view, &MapsView::exactPictureShown);
  for (int step = 1; step <= 20; ++step) {
    const std::int64_t begin = step * 1000;
    maps.document.runs().selection().setView({{begin, begin + 40'000}, {begin, begin + 40'000}});
    QTRY_COMPARE_WITH_TIMEOUT(shown.count(), step, 60'000);
  }
  const MapRequest request = maps.view.requestOfActivePane().value();
  QCOMPARE(request.rows, (Range{20'000, 60'000}));
  const Image expected = compute_map(request, {}).value();
  const Image& values = *maps.pane().picture()->values.front();
  QVERIFY(std::equal(expected.value.begin(), expected.value.end(), values.value.begin(),
                     [](float a, float b) { return a == b || (std::isnan(a) && std::isnan(b)); }));
  QCOMPARE(expected.rows, maps.plot().devicePixels().rows);
}

void MapsViewTest::darkAndLight() {
  OpenMaps maps({traceOf(100)});
  QVERIFY(maps.settle());
  const PicturePointer light = maps.pane().picture();
  maps.view.setPalette(darkPalette());
  QVERIFY(maps.settle());
  QCOMPARE(maps.pane().picture()->values.front(), light->values.front());
  const QImage grabbed = maps.grabPlot();
  QCOMPARE(grabbed.pixel(maps.cell(20, 80)), maps.plot().groundColour().rgb());
  QVERIFY(qGray(grabbed.pixel(maps.cell(20, 80))) < 100);
}

}  // namespace foxscope::gui::test

FOXSCOPE_GUI_SUBJECT(maps_view, foxscope::gui::test::MapsViewTest)
#include "backend/base/index.h"
#include "maps_view_test.moc"
