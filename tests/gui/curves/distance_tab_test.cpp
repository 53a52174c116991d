// Attention and logits against distance: what is drawn is what the statistics of heads say.
#include "app/gui/curves/tabs/distance_tab.h"

#include <QRegularExpression>
#include <QTest>

#include "app/gui/curves/distance_plot.h"
#include "app/gui/document/number_text.h"
#include "backend/eval/heads/head_measures.h"
#include "tests/gui/curves/scene.h"
#include "tests/gui/subject.h"

namespace foxscope::gui::test {

using curves::DistancePlot;
using curves::DistanceTab;

class DistanceTabTest : public QObject {
  Q_OBJECT

 private slots:
  void showsTheChosenHeadWithAndWithoutItsGate();
  void showsContentAndDecay();
  void hoveringAndArrowsTellValues();
  void meansOverALayerAndAModel();
  void comparesRuns();
  void showsLinearMixers();
  void saysWhyThereIsNothing();
  void exportsWhatItShows();
  void stateComesBack();
};

namespace {

enum { kAttention, kLogits };

DistancePlot& plotOf(Scene& scene, int which) {
  const QString name = which == kAttention ? "Attention against distance" : "Content and decay against distance";
  for (DistancePlot* plot : scene.view.findChildren<DistancePlot*>()) {
    if (plot->accessibleName() == name) return *plot;
  }
  qFatal("no such plot");
}
DistanceTab& tabOf(Scene& scene, int which) {
  for (DistanceTab* tab : scene.view.findChildren<DistanceTab*>()) {
    if (tab->isAncestorOf(&plotOf(scene, which))) return *tab;
  }
  qFatal("no such tab");
}

HeadMeasures measured(const Scene& scene, const HeadChoice& head) {
  return *measure_head(*scene.document.runs().headOf(head), {.statistics = {}, .with_split = true, .classes = {}}, {});
}

constexpr std::int64_t kTokens = 80;

/// The bins of 80 tokens that are drawn: not the last, 64-79, which is a third of an octave wide.
std::vector<DistanceBin> drawnBins() {
  std::vector<DistanceBin> bins = distance_bins(kTokens);
  bins.pop_back();
  return bins;
}

/// What is drawn of a profile of 80 tokens: mass by the octave of 1 + distance, logits as they are.
std::vector<double> profile(const HeadMeasures& measures, const std::string& name) {
  for (const HeadProfile& one : measures.profiles) {
    if (one.name != name) continue;
    std::vector<double> values = one.bins;
    values.pop_back();
    if (!name.starts_with("mass")) return values;
    for (std::size_t bin = 0; bin < values.size(); ++bin) {
      const DistanceBin of = drawnBins()[bin];
      values[bin] /= std::log2(static_cast<double>(1 + of.to) / static_cast<double>(1 + of.from));
    }
    return values;
  }
  return {};
}

SyntheticRun ungated(std::string name, std::int64_t length) {
  SyntheticRun run = named(std::move(name), length);
  run.gated = false;
  return run;
}

}  // namespace

void DistanceTabTest::showsTheChosenHeadWithAndWithoutItsGate() {
  Scene scene({named("a", 80)});
  const RunId run = scene.document.runs()[0].id;
  scene.document.runs().selection().setHead({run, 1, 2});
  QVERIFY(scene.show(Tab::distance));
  const DistancePlot& plot = plotOf(scene, kAttention);
  const HeadMeasures expected = measured(scene, {run, 1, 2});
  const auto compare = [&](const std::string& suffix) {
    QCOMPARE(plot.lines().size(), std::size_t{3});
    QCOMPARE(plot.lines()[0].name, "A");
    QCOMPARE(plot.lines()[0].value, profile(expected, "mass" + suffix));
    QCOMPARE(plot.lines()[1].value, profile(expected, "mass_without_gate" + suffix));
    QCOMPARE(plot.lines()[2].value, profile(expected, "mass_without_content" + suffix));
    QVERIFY(plot.lines()[0].bins == drawnBins());
  };
  compare("_without_first");
  choice(scene.view, "Key 0").trigger();
  QVERIFY(scene.settle());
  compare("");
  scene.document.runs().selection().setHead({run, 0, 0});
  QVERIFY(scene.settle());
  QCOMPARE(plot.lines()[0].value, profile(measured(scene, {run, 0, 0}), "mass"));
}

void DistanceTabTest::showsContentAndDecay() {
  Scene scene({named("a", 80)});
  const RunId run = scene.document.runs()[0].id;
  scene.document.runs().selection().setHead({run, 1, 3});
  QVERIFY(scene.show(Tab::content));
  const DistancePlot& plot = plotOf(scene, kLogits);
  const HeadMeasures expected = measured(scene, {run, 1, 3});
  QCOMPARE(plot.lines().size(), std::size_t{2});
  for (const int line : {0, 1}) {
    const auto& drawn = plot.lines()[index_of(line)];
    const std::vector<double> values = profile(expected, line == 0 ? "logit_content" : "logit_decay");
    QCOMPARE(drawn.name, QString(line == 0 ? "content" : "decay"));
    for (std::size_t bin = 0; bin < values.size(); ++bin) {
      QVERIFY(drawn.value[bin] == values[bin] || (std::isnan(drawn.value[bin]) && std::isnan(values[bin])));
    }
  }
  const Locality& locality = expected.split->locality_without_first;
  const QString told = tabOf(scene, kLogits).readOut().place();
  const QString expectedText = QStringLiteral("nearer by %1 octaves, %2 by content and %3 by decay")
                                   .arg(locality.total(), 0, 'f', 2)
                                   .arg(locality.by_content(), 0, 'f', 2)
                                   .arg(locality.by_decay(), 0, 'f', 2);
  QVERIFY2(told.contains(expectedText), qPrintable(told));
}

void DistanceTabTest::hoveringAndArrowsTellValues() {
  Scene scene({named("a", 80)});
  QVERIFY(scene.show(Tab::distance));
  DistancePlot& plot = plotOf(scene, kAttention);
  const curves::ReadOut& reading = tabOf(scene, kAttention).readOut();
  QCOMPARE(reading.entries()[0].value, QString());
  moveMouse(plot, {static_cast<int>(plot.pixelOf(3)), plot.height() / 2});
  QVERIFY(plot.hovered() == std::size_t{3});
  QVERIFY(reading.place().contains("distance 4–7 tokens"));
  QCOMPARE(reading.entries()[0].value, numberText(plot.lines()[0].value[3]));
  plot.setFocus();
  QTest::keyClick(&plot, Qt::Key_Left);
  QVERIFY(reading.place().contains("distance 2–3 tokens"));
  QTest::keyClick(&plot, Qt::Key_Right);
  QTest::keyClick(&plot, Qt::Key_Right);
  QVERIFY(reading.place().contains("distance 8–15 tokens"));
  for (int step = 0; step < 20; ++step) QTest::keyClick(&plot, Qt::Key_Right);
  QVERIFY(reading.place().contains("distance 32–63 tokens"));
  for (int step = 0; step < 20; ++step) QTest::keyClick(&plot, Qt::Key_Left);
  QVERIFY(reading.place().contains("distance 0 tokens"));
}

void DistanceTabTest::meansOverALayerAndAModel() {
  Scene scene({named("a", 80)});
  const RunId run = scene.document.runs()[0].id;
  scene.document.runs().selection().setHead({run, 1, 0});
  QVERIFY(scene.show(Tab::distance));
  const DistancePlot& plot = plotOf(scene, kAttention);
  const auto expectMean = [&](int firstLayer, const QString& name) {
    std::vector<double> mean(drawnBins().size());
    for (int layer = firstLayer; layer < 2; ++layer) {
      for (int head = 0; head < 4; ++head) {
        const auto own = profile(measured(scene, {run, layer, head}), "mass_without_first");
        for (std::size_t bin = 0; bin < mean.size(); ++bin) mean[bin] += own[bin] / (4 * (2 - firstLayer));
      }
    }
    for (std::size_t bin = 0; bin < mean.size(); ++bin) {
      QVERIFY(std::abs(plot.lines()[0].value[bin] - mean[bin]) < 1e-12);
    }
    QVERIFY(tabOf(scene, kAttention).readOut().place().startsWith(name));
    QCOMPARE(tabOf(scene, kAttention).note(), QString());
  };
  choice(scene.view, "Layer").trigger();
  QVERIFY(scene.settle());
  expectMean(1, "a, layer 1");
  choice(scene.view, "Model").trigger();
  QVERIFY(scene.settle());
  expectMean(0, "a, mean of all heads");
}

void DistanceTabTest::comparesRuns() {
  Scene scene({named("a", 80), ungated("b", 80)});
  const RunId a = scene.document.runs()[0].id;
  scene.document.runs().selection().setHead({a, 1, 0});
  QVERIFY(scene.show(Tab::distance));
  const DistancePlot& plot = plotOf(scene, kAttention);
  QCOMPARE(plot.lines().size(), std::size_t{3});
  choice(scene.view, "All runs").trigger();
  QVERIFY(scene.settle());
  // Of the other run the head that reaches as far.
  const HeadMeasures own = measured(scene, {a, 1, 0});
  double least = INFINITY;
  QString nearest;
  for (int layer = 0; layer < 2; ++layer) {
    for (int head = 0; head < 4; ++head) {
      const double octaves =
          octaves_apart(*own.sketch, *measured(scene, {scene.document.runs()[1].id, layer, head}).sketch);
      if (octaves >= least) continue;
      least = octaves;
      nearest = QStringLiteral("b, layer %1, head %2: A").arg(layer).arg(head);
    }
  }
  QCOMPARE(plot.lines().size(), std::size_t{4});
  QCOMPARE(plot.lines()[3].name, nearest);
  QVERIFY(plot.lines()[3].colour != plot.lines()[0].colour);
  choice(scene.view, "Model").trigger();
  QVERIFY(scene.settle());
  QCOMPARE(plot.lines()[3].name, "b, mean of all heads: A");
  // Without a gate there is one line.
  scene.document.runs().selection().setHead({scene.document.runs()[1].id, 0, 0});
  QVERIFY(scene.settle());
  QCOMPARE(plot.lines()[0].name, "b, mean of all heads: A");
  QCOMPARE(plot.lines().size(), std::size_t{2});
}

void DistanceTabTest::showsLinearMixers() {
  Scene scene({linearRun()});
  const RunId run = scene.document.runs()[0].id;
  scene.document.runs().selection().setHead({run, 1, 2});
  QVERIFY(scene.show(Tab::distance));
  const DistancePlot& plot = plotOf(scene, kAttention);
  QVERIFY2(plot.isVisible(), qPrintable(tabOf(scene, kAttention).message()));
  QCOMPARE(plot.lines().size(), std::size_t{1});
  QCOMPARE(plot.lines()[0].name, "A");
  QCOMPARE(plot.lines()[0].value, profile(measured(scene, {run, 1, 2}), "mass_without_first"));
  QVERIFY(scene.show(Tab::content));
  QCOMPARE(
      tabOf(scene, kLogits).message(),
      "Content and decay are added in the logits of softmax attention, and mamba has no softmax. Distance and Decay "
      "show how far it remembers.");
  // A hybrid names the layer that has none.
  SyntheticRun hybrid = linearRun();
  hybrid.keep.insert(Keep::rows);
  hybrid.mixers[1].mixer = Mixer::attention;
  Scene both({hybrid});
  both.document.runs().selection().setHead({both.document.runs()[0].id, 0, 2});
  QVERIFY(both.show(Tab::content));
  QVERIFY2(tabOf(both, kLogits).message().contains("and layer 0 of mamba has no softmax"),
           qPrintable(tabOf(both, kLogits).message()));
  both.document.runs().selection().setHead({both.document.runs()[0].id, 1, 2});
  QVERIFY(both.show(Tab::content));
  QVERIFY2(plotOf(both, kLogits).isVisible(), qPrintable(tabOf(both, kLogits).message()));
  // Without a gate nothing is told of one.
  Scene ungated({hybridRun()});
  ungated.document.runs().selection().setHead({ungated.document.runs()[0].id, 1, 2});
  QVERIFY(ungated.show(Tab::distance));
  const QString told = tabOf(ungated, kAttention).readOut().place();
  QVERIFY2(told.contains(QRegularExpression("^hybrid, layer 1, head 2: nearer by -?[\\d.]+ octaves, without a gate$")),
           qPrintable(told));
}

void DistanceTabTest::saysWhyThereIsNothing() {
  Scene none({});
  none.view.setTab(Tab::distance);
  QVERIFY(tabOf(none, kAttention).message().startsWith("No model yet"));
  QCOMPARE(tabOf(none, kAttention).data(), QString());
  SyntheticRun gates = named("gates", 40);
  gates.keep = {Keep::loss, Keep::gates};
  Scene scene({gates});
  QVERIFY(scene.show(Tab::distance));
  QCOMPARE(tabOf(scene, kAttention).message(),
           "No attention: queries, keys or row normalisers of gates were not kept (--keep rows,qk).");
  QVERIFY(!scene.view.figureOfCurrentTab());
  SyntheticRun nothing = named("nothing", 40);
  nothing.keep = {Keep::loss};
  Scene bare({nothing});
  QVERIFY(bare.show(Tab::content));
  QVERIFY2(tabOf(bare, kLogits).message().contains("gates"), qPrintable(tabOf(bare, kLogits).message()));
}

void DistanceTabTest::exportsWhatItShows() {
  Scene scene({named("a", 80)});
  const RunId run = scene.document.runs()[0].id;
  scene.document.runs().selection().setHead({run, 0, 1});
  QVERIFY(scene.show(Tab::content));
  const QStringList lines = scene.view.dataOfCurrentTab().split('\n', Qt::SkipEmptyParts);
  QCOMPARE(lines[0],
           "distance from (tokens),distance to,\"a, layer 0, head 1: content (nats)\",\"a, layer 0, head 1: decay "
           "(nats)\"");
  QCOMPARE(lines.size(), static_cast<qsizetype>(drawnBins().size()) + 1);
  QVERIFY(lines[4].startsWith("4,7,"));
  const HeadMeasures expected = measured(scene, {run, 0, 1});
  QVERIFY(std::abs(lines[4].split(',')[3].toDouble() - profile(expected, "logit_decay")[3]) < 1e-6);
  const auto figure = scene.view.figureOfCurrentTab();
  QVERIFY(figure);
  QCOMPARE(figure->curves.size(), std::size_t{2});
  QCOMPARE(figure->title, "a, layer 0, head 1");
  QVERIFY(figure->xScale == figure::AxisScale::logarithmic);
  QCOMPARE(figure->curves[1].y[3], profile(expected, "logit_decay")[3]);
  QCOMPARE(figure->runs.size(), std::size_t{1});
}

void DistanceTabTest::stateComesBack() {
  Scene scene({named("a", 80)});
  QVERIFY(scene.show(Tab::distance));
  choice(scene.view, "Layer").trigger();
  choice(scene.view, "Key 0").trigger();
  QVERIFY(scene.settle());
  const QJsonObject state = scene.view.saveState();
  Scene other({named("a", 80)});
  other.view.restoreState(state);
  QVERIFY(other.settle());
  QVERIFY(other.view.tab() == Tab::distance);
  QCOMPARE(other.view.saveState(), state);
  QVERIFY(choice(other.view, "Layer").isChecked());
  QVERIFY(choice(other.view, "Key 0").isChecked());
}

}  // namespace foxscope::gui::test

FOXSCOPE_GUI_SUBJECT(distance_tab, foxscope::gui::test::DistanceTabTest)
#include "backend/base/index.h"
#include "distance_tab_test.moc"
