#include <algorithm>
#include <functional>

#include <QClipboard>
#include <QComboBox>
#include <QMenu>
#include <QMimeData>
#include <QSignalSpy>
#include <QSpinBox>
#include <QTableView>
#include <QTest>
#include <QToolButton>

#include "app/gui/document/number_text.h"
#include "app/gui/views/theme.h"
#include "backend/base/sha256.h"
#include "backend/map/statistics/head_statistics.h"
#include "backend/trace/recorder.h"
#include "tests/gui/curves/scene.h"
#include "tests/gui/subject.h"

namespace foxscope::gui::test {

namespace {

/// A run on "abcdefgh", cut into tokens of these lengths; loss p is p, and its only head never forgets.
std::shared_ptr<const Trace> cutRun(const std::string& name, const std::vector<std::int64_t>& lengths,
                                    double logGate = 0) {
  const std::string content = "abcdefgh";
  TokenTable tokens;
  std::int64_t byte = 0;
  for (const std::int64_t length : lengths) {
    tokens.input_id.push_back(tokens.id.empty() ? 0 : tokens.id.back());
    tokens.id.push_back(static_cast<std::int32_t>(10 * byte + length));
    tokens.byte_start.push_back(byte);
    tokens.string.push_back(content.substr(static_cast<std::size_t>(byte), static_cast<std::size_t>(length)));
    byte += length;
    tokens.byte_end.push_back(byte);
  }
  TraceInfo info;
  info.name = name;
  info.layers = info.heads = info.key_heads = info.head_dim = 1;
  info.length = static_cast<std::int64_t>(lengths.size());
  Recorder recorder(info, {Keep::loss, Keep::gates}, nullptr);
  double sum = 0;
  for (double& c : recorder.cumulative_log_gate(0)) c = sum += logGate;
  float next = 0;
  for (float& loss : recorder.per_token_loss()) loss = next++;
  return recorder.finish(std::make_shared<const Text>(Text{content, sha256(content)}),
                         std::make_shared<const TokenTable>(std::move(tokens)));
}

}  // namespace

class CurveTabsTest : public QObject {
  Q_OBJECT

 private slots:
  void readsLossesOfPredictedTokens();
  void readsPerplexityOfTheFirstTokens();
  void smoothingWindowCanBeChanged();
  void theMeanFollowsTheRange();
  void lossListsItsWorstTokens();
  void aClickOnTheLegendHidesACurve();
  void aLowTabKeepsItsPlot();
  void namesStayWhereOneLineIsShort();
  void aDifferenceHasTheColoursOfBothRuns();
  void curvesAreCopiedWithTheirNumbers();
  void curvesHaveAMenu();
  void gateListsItsStrongestEvents();
  void eventsLeadToTheirPlace();
  void saliencyStandsBesideTheGate();
  void saliencyIsComputedByAButton();
  void aGateThatMattersLeadsToItsHead();
  void modelWithoutGates();
  void decayChoosesHeads();
  void lossesThatWereNotKept();
  void gatesThatWereNotKept();
  void tokensThatDifferAreComparedByPlace();
};

void CurveTabsTest::readsLossesOfPredictedTokens() {
  Scene scene({named("a", 80), named("b", 80)});
  QVERIFY(scene.settle());
  PositionPlot& plot = scene.plot<curves::LossTab>();
  const Trace& a = *scene.document.runs()[0].trace;
  const Trace& b = *scene.document.runs()[1].trace;
  const TokenTable& tokens = *a.tokens();
  for (const std::int64_t position : {0, 1, 40, 79}) {
    moveMouse(plot, at(plot, static_cast<double>(position)));
    QTRY_COMPARE(scene.document.runs().selection().hover().query, std::optional(position));
    const curves::ReadOut& reading = scene.tab<curves::LossTab>().readOut();
    const auto index = static_cast<std::size_t>(position);
    QCOMPARE(reading.place(), QStringLiteral("%1 reads “%2”, predicts “%3”")
                                  .arg(position)
                                  .arg(readText(tokens, position, Whitespace::visible),
                                       QString(predictedText(tokens, position, Whitespace::visible))));
    if (position > 0) QCOMPARE(tokens.input_id[index], tokens.id[index - 1]);
    const double lossA = static_cast<double>(a.per_token_loss()[index]);
    const double lossB = static_cast<double>(b.per_token_loss()[index]);
    QCOMPARE(reading.entries().size(), std::size_t{3});
    QCOMPARE(reading.entries()[0].name, "a");
    QVERIFY(reading.entries()[0].value.startsWith(numberText(lossA) + " nats (mean of "));
    QVERIFY(reading.entries()[1].value.startsWith(numberText(lossB) + " nats (mean of "));
    QCOMPARE(reading.entries()[2].name, "a − b");
    QVERIFY(reading.entries()[2].value.startsWith(numberText(lossA - lossB) + " nats (mean of "));
  }
}

void CurveTabsTest::readsPerplexityOfTheFirstTokens() {
  Scene scene({named("a", 60)});
  QVERIFY(scene.show(Tab::context));
  scene.document.runs().selection().setHover({9, std::nullopt});
  const Trace& trace = *scene.document.runs()[0].trace;
  double sum = 0;
  for (std::size_t p = 0; p < 10; ++p) sum += static_cast<double>(trace.per_token_loss()[p]);
  const curves::ReadOut& reading = scene.tab<curves::ContextTab>().readOut();
  QCOMPARE(reading.entries()[0].value, numberText(std::exp(sum / 10)));
  QVERIFY(reading.place().startsWith("first 10 tokens, to “" + predictedText(*trace.tokens(), 9, Whitespace::visible)));
  choice(scene.view, "As loss").trigger();
  QCOMPARE(reading.entries()[0].value, numberText(sum / 10) + " nats");
}

void CurveTabsTest::smoothingWindowCanBeChanged() {
  Scene scene({named("a", 300)});
  QVERIFY(scene.settle());
  auto* window = scene.view.findChild<QSpinBox*>();
  QCOMPARE(window->text(), "Mean by range");
  QCOMPARE(scene.plot<curves::LossTab>().content().lines.size(), std::size_t{2});
  window->setValue(3);
  QVERIFY(scene.settle());
  scene.document.runs().selection().setHover({150, std::nullopt});
  const auto loss = scene.document.runs()[0].trace->per_token_loss();
  const double mean =
      (static_cast<double>(loss[149]) + static_cast<double>(loss[150]) + static_cast<double>(loss[151])) / 3;
  const QString value = scene.tab<curves::LossTab>().readOut().entries()[0].value;
  QVERIFY2(value.endsWith("(mean of 3: " + numberText(mean) + ')'), qPrintable(value));
  scene.view.findChild<QComboBox*>()->setCurrentText("Means only");
  QVERIFY(scene.settle());
  QCOMPARE(scene.plot<curves::LossTab>().content().lines.size(), std::size_t{1});
}

void CurveTabsTest::theMeanFollowsTheRange() {
  Scene scene({named("a", 3000)});
  QVERIFY(scene.settle());
  const auto width = [&] {
    return scene.tab<curves::LossTab>().readOut().place().section(" over ", 1).section(" tokens", 0, 0).toInt();
  };
  QCOMPARE(width(), 51);
  scene.document.runs().selection().setView({{100, 1000}, {0, 3000}});
  QVERIFY(scene.settle());
  QCOMPARE(width(), 21);
  // Moving along the text does not change it, nor does anything where a width was chosen.
  scene.document.runs().selection().setView({{200, 1100}, {0, 3000}});
  QVERIFY(scene.settle());
  QCOMPARE(width(), 21);
  scene.view.findChild<QSpinBox*>()->setValue(7);
  QVERIFY(scene.settle());
  QCOMPARE(width(), 7);
}

void CurveTabsTest::lossListsItsWorstTokens() {
  Scene scene({named("a", 300), named("b", 300)});
  QVERIFY(scene.settle());
  auto* list = scene.tab<curves::LossTab>().findChild<QTableView*>();
  for (const Run& run : scene.document.runs()) {
    scene.document.runs().selection().setHead({run.id, 0, 0});
    QVERIFY(scene.settle());
    const auto loss = run.trace->per_token_loss();
    std::vector<float> sorted(loss.begin(), loss.end());
    std::sort(sorted.begin(), sorted.end(), std::greater<>());
    QCOMPARE(list->model()->rowCount(), 20);
    for (int row = 0; row < 20; ++row) {
      const std::int64_t position = list->model()->index(row, 1).data().toLongLong();
      QCOMPARE(loss[index_of(position)], sorted[index_of(row)]);
      QCOMPARE(list->model()->index(row, 0).data().toString(),
               predictedText(*run.trace->tokens(), position, Whitespace::visible));
      QCOMPARE(list->model()->index(row, 2).data().toString(),
               QString::number(static_cast<double>(sorted[index_of(row)]), 'f', 2));
    }
    QVERIFY(list->toolTip().endsWith(run.name + " most"));
  }
  const QModelIndex third = list->model()->index(2, 0);
  QTest::mouseClick(list->viewport(), Qt::LeftButton, Qt::NoModifier, list->visualRect(third).center());
  QCOMPARE(scene.document.runs().selection().pin().query, std::optional(third.siblingAtColumn(1).data().toLongLong()));
}

void CurveTabsTest::aClickOnTheLegendHidesACurve() {
  Scene scene({named("a", 80), named("b", 80)});
  QVERIFY(scene.settle());
  curves::ReadOut& legend = scene.tab<curves::LossTab>().readOut();
  const auto drawn = [&](const QString& name) {
    const auto& lines = scene.plot<curves::LossTab>().content().lines;
    return std::count_if(lines.begin(), lines.end(), [&](const curves::Line& line) { return line.entry == name; });
  };
  const auto click = [&](std::size_t entry) {
    QTest::mouseClick(&legend, Qt::LeftButton, Qt::NoModifier, legend.entryRect(entry).center());
    return scene.settle();
  };
  QCOMPARE(drawn("a"), 2);  // the mean, and single tokens behind it
  const QImage before = legend.grab().toImage();
  QVERIFY(click(0));
  QVERIFY(legend.isHidden("a"));
  QVERIFY(legend.grab().toImage() != before);
  QCOMPARE(drawn("a"), 0);
  QCOMPARE(drawn("b"), 2);
  QCOMPARE(scene.view.figureOfCurrentTab()->curves.size(), std::size_t{1});
  QVERIFY(click(0));
  QCOMPARE(drawn("a"), 2);
  // What has no line left leaves its room.
  QCOMPARE(scene.plot<curves::LossTab>().strips(), 2);
  QVERIFY(click(2));
  QCOMPARE(scene.plot<curves::LossTab>().strips(), 1);
  QVERIFY(click(2));
  QVERIFY(scene.show(Tab::decay));
  curves::ReadOut& runs = scene.tab<curves::DecayTab>().readOut();
  QTest::mouseClick(&runs, Qt::LeftButton, Qt::NoModifier, runs.entryRect(1).center());
  const HeadChoice hidden{scene.document.runs()[1].id, 0, 0};
  auto* dots = scene.view.findChild<curves::DecayPlot*>();
  QVERIFY(!dots->dotOf(hidden));
  QCOMPARE(runs.entries().size(), std::size_t{2});
  QTest::mouseClick(&runs, Qt::LeftButton, Qt::NoModifier, runs.entryRect(1).center());
  QTRY_VERIFY(dots->dotOf(hidden).has_value());
}

void CurveTabsTest::aLowTabKeepsItsPlot() {
  Scene scene({named("a-model-of-a-rather-long-name", 80), named("another-one-of-a-name-as-long", 80)});
  QVERIFY(scene.settle());
  curves::ReadOut& legend = scene.tab<curves::LossTab>().readOut();
  const int line = legend.fontMetrics().height();
  scene.view.resize(420, 24 * line);
  QVERIFY(scene.settle());
  QVERIFY(legend.height() > 3 * line);
  scene.view.resize(420, 12 * line);
  QVERIFY(scene.settle());
  QVERIFY(legend.height() < 3 * line);
  QVERIFY(scene.plot<curves::LossTab>().height() > 5 * line);
  // The difference has no strip there, which the first line says; each other entry is still there to be clicked,
  // beside the one before it.
  QCOMPARE(scene.plot<curves::LossTab>().strips(), 1);
  QVERIFY(legend.roomText().contains(legend.entries()[2].name) && legend.roomText().contains("no room"));
  QCOMPARE(legend.entries().size(), std::size_t{3});
  QVERIFY(legend.entryRect(2).isEmpty());
  QVERIFY(legend.entryRect(1).left() > legend.width() * 2 / 5);
  for (std::size_t entry = 0; entry < 2; ++entry) {
    QVERIFY(legend.rect().contains(legend.entryRect(entry)));
    if (entry > 0) QVERIFY(!legend.entryRect(entry).intersects(legend.entryRect(entry - 1)));
  }
  // Alone it has the strip, and is told of.
  for (const std::size_t entry : {0, 1}) {
    QTest::mouseClick(&legend, Qt::LeftButton, Qt::NoModifier, legend.entryRect(entry).center());
    QVERIFY(scene.settle());
  }
  QVERIFY(!legend.entryRect(2).isEmpty());
  scene.view.resize(420, 24 * line);
  QVERIFY(scene.settle());
  for (const std::size_t entry : {0, 1}) {
    QTest::mouseClick(&legend, Qt::LeftButton, Qt::NoModifier, legend.entryRect(entry).center());
    QVERIFY(scene.settle());
  }
  QCOMPARE(scene.plot<curves::LossTab>().strips(), 2);
  QVERIFY(!legend.entryRect(2).isEmpty());
  QVERIFY(legend.roomText().isEmpty());
}

// In one line that is too short a value goes without its remark, so that the names are read.
void CurveTabsTest::namesStayWhereOneLineIsShort() {
  curves::ReadOut legend(nullptr);
  const QString value = QStringLiteral("2.235 nats (mean of 51: 3.136)");
  legend.setEntries(
      {{"fox-pro-12m", Qt::blue, Qt::SolidLine, value}, {"transformer-pro-12m", Qt::red, Qt::SolidLine, value}});
  legend.setOneLine(true);
  const int whole = legend.fontMetrics().horizontalAdvance("transformer-pro-12m " + value);
  legend.resize(3 * whole, 40);
  QCOMPARE(legend.shownValue(1), value);
  legend.resize(2 * whole - 2 * legend.fontMetrics().height(), 40);
  QCOMPARE(legend.shownValue(1), QStringLiteral("2.235 nats"));
  QVERIFY(legend.toolTip().contains(value));
  legend.setOneLine(false);
  QCOMPARE(legend.shownValue(1), value);
}

// A curve that two runs make together has the colours of both.
void CurveTabsTest::aDifferenceHasTheColoursOfBothRuns() {
  Scene scene({named("a", 80), named("b", 80)});
  scene.view.resize(900, 600);
  QVERIFY(scene.settle());
  const PositionPlot& plot = scene.plot<curves::LossTab>();
  const QPalette palette = plot.palette();
  const auto& lines = plot.content().lines;
  const auto line = std::find_if(lines.begin(), lines.end(), [](const auto& one) { return one.second.isValid(); });
  QVERIFY(line != lines.end());
  QCOMPARE(line->strip, 1);
  QCOMPARE(line->colour, runColour(0, palette));
  QCOMPARE(line->second, runColour(1, palette));
  const curves::ReadOut::Entry& entry = scene.tab<curves::LossTab>().readOut().entries()[2];
  QVERIFY(entry.colour == line->colour && entry.second == line->second);
  // Both are drawn, in the lower strip.
  const QImage picture = scene.plot<curves::LossTab>().grab().toImage();
  // Thin lines are mixed with the ground.
  const auto nearly = [](const QColor& shown, const QColor& wanted) {
    const int off[] = {shown.red() - wanted.red(), shown.green() - wanted.green(), shown.blue() - wanted.blue()};
    return std::abs(off[0]) + std::abs(off[1]) + std::abs(off[2]) < 120;
  };
  int first = 0;
  int second = 0;
  for (int y = picture.height() * 2 / 3; y < picture.height(); ++y) {
    for (int x = 0; x < picture.width(); ++x) {
      first += nearly(picture.pixelColor(x, y), line->colour) ? 1 : 0;
      second += nearly(picture.pixelColor(x, y), line->second) ? 1 : 0;
    }
  }
  QVERIFY(first > 20 && second > 20);
}

void CurveTabsTest::curvesAreCopiedWithTheirNumbers() {
  Scene scene({named("a", 80)});
  QVERIFY(scene.settle());
  const std::unique_ptr<QMimeData> copy(scene.view.copied());
  QVERIFY(copy->hasImage());
  const QStringList lines = copy->text().split('\n');
  QCOMPARE(lines.size(), 82);
  QCOMPARE(lines[0], "position\treads\tpredicts\tloss of a (nats)\tloss of a, mean of 5 (nats)");
  QCOMPARE(lines[41].count('\t'), 4);
  QCOMPARE(lines[41].section('\t', 3, 3).toFloat(), scene.document.runs()[0].trace->per_token_loss()[40]);
  QCOMPARE(QString::fromUtf8(copy->data("text/tab-separated-values")), copy->text());
  Scene empty({});
  QVERIFY(empty.view.copied() == nullptr);
}

void CurveTabsTest::curvesHaveAMenu() {
  Scene scene({named("a", 80)});
  QVERIFY(scene.settle());
  PositionPlot& plot = scene.plot<curves::LossTab>();
  const auto choose = [&](const QString& words) {
    QTest::mouseClick(&plot, Qt::RightButton, Qt::NoModifier, plot.rect().center());
    auto* menu = qobject_cast<QMenu*>(QApplication::activePopupWidget());
    if (menu == nullptr) return false;
    const QList<QAction*> actions = menu->actions();
    const auto action =
        std::find_if(actions.begin(), actions.end(), [&](QAction* one) { return one->text() == words; });
    if (action != actions.end()) (*action)->trigger();
    menu->close();
    return action != actions.end();
  };
  QApplication::clipboard()->clear();
  QVERIFY(choose("Copy Data"));
  QVERIFY(QApplication::clipboard()->text().startsWith("position\treads"));
  QVERIFY(QApplication::clipboard()->image().isNull());
  QVERIFY(choose("Copy Picture"));
  QVERIFY(!QApplication::clipboard()->image().isNull());
  QVERIFY(choose("Copy Picture and Data"));
  QVERIFY(!QApplication::clipboard()->image().isNull());
  QVERIFY(QApplication::clipboard()->text().startsWith("position\treads"));
  QVERIFY(choose("Log x"));
  QVERIFY(choice(scene.view, "Log x").isChecked());
  QVERIFY(choose("Show a"));
  QVERIFY(scene.tab<curves::LossTab>().readOut().isHidden("a"));
  scene.document.runs().selection().setView({{10, 20}, {10, 20}});
  QVERIFY(choose("Show All of the Text"));
  QCOMPARE(scene.document.runs().selection().view().rows, (Range{0, 80}));
  QSignalSpy wanted(&scene.view, &CurvesView::exportWanted);
  QVERIFY(choose("Export…"));
  QCOMPARE(wanted.size(), 1);
}

void CurveTabsTest::gateListsItsStrongestEvents() {
  Scene scene({named("a", 400)});
  Selection& selection = scene.document.runs().selection();
  selection.setHead({scene.document.runs()[0].id, 1, 3});
  QVERIFY(scene.show(Tab::gate));
  const HeadOf head = *scene.document.runs().headOf(selection.head());
  const auto statistics = head_statistics(head, {.with_attention = false, .events = 20}, {});
  const QAbstractItemModel& list = *scene.tab<curves::GateTab>().findChild<QTableView*>()->model();
  QCOMPARE(list.rowCount(), 20);
  for (int row = 0; row < 20; ++row) {
    const ForgettingEvent& event = statistics->strongest_events[index_of(row)];
    QCOMPARE(list.index(row, 0).data().toString(),
             readText(*head.trace->tokens(), event.position, Whitespace::visible));
    QCOMPARE(list.index(row, 1).data().toString(), QString::number(event.position));
    QCOMPARE(list.index(row, 2).data().toString(), QString::number(event.forget_gate, 'f', 5));
  }
  selection.setHover({123, std::nullopt});
  const auto c = head.trace->cumulative_log_gate(1, 3);
  QCOMPARE(scene.tab<curves::GateTab>().readOut().entries()[0].value, "f = " + numberText(std::exp(c[123] - c[122])));
}

void CurveTabsTest::saliencyIsComputedByAButton() {
  Scene scene({});
  QVERIFY(runDemo(scene.document, 48));
  scene.document.runs().selection().setHead({scene.document.runs()[0].id, 1, 2});
  QVERIFY(scene.show(Tab::saliency));
  auto& tab = scene.tab<curves::SaliencyTab>();
  QCOMPARE(tab.message(), "fox-pro-12m has no saliency yet: computing it takes one more run.");
  QVERIFY(tab.remedy().isVisible() && tab.remedy().isEnabled());
  QCOMPARE(tab.remedy().text(), "Compute Saliency");
  QTest::mouseClick(&tab.remedy(), Qt::LeftButton);
  QVERIFY(scene.document.modelRuns().runStatus().running);
  QVERIFY(!tab.remedy().isEnabled());
  QCOMPARE(tab.remedy().text(), "A run is in progress …");
  QVERIFY(waitUntilIdle(scene.document) && scene.settle());
  QVERIFY(scene.document.runs()[0].trace->has(TraceArray::log_forget_gradient));
  QCOMPARE(tab.note(), "Raising a gate by 1 % changes the mean loss of fox-pro-12m by this, to first order.");
  QVERIFY(!tab.remedy().isVisible());
  // The other run has none.
  scene.document.runs().selection().setHead({scene.document.runs()[1].id, 0, 0});
  QVERIFY(scene.settle());
  QVERIFY(tab.remedy().isVisible() && tab.remedy().isEnabled());
}

void CurveTabsTest::saliencyStandsBesideTheGate() {
  Scene scene({named("fox", 37)});
  QVERIFY(scene.show(Tab::saliency));
  QCOMPARE(
      scene.tab<curves::SaliencyTab>().message(),
      "fox comes from a file, and its saliency needs its model: open the checkpoint folder (Ctrl+O), the text, and "
      "press F5 first.");
  QVERIFY(!scene.tab<curves::SaliencyTab>().remedy().isVisible());
  QVERIFY(scene.tab<curves::SaliencyTab>().data().isEmpty());
  SyntheticRun run = named("owed", 37);
  run.keep.insert(Keep::saliency);
  scene.open({run});
  const RunId owed = scene.document.runs()[1].id;
  scene.document.runs().selection().setHead({owed, 1, 2});
  QVERIFY(scene.settle());
  QCOMPARE(scene.tab<curves::SaliencyTab>().note(),
           "Raising a gate by 1 % changes the mean loss of owed by this, to first order.");
  const auto gradient = scene.document.runs()[1].trace->log_forget_gradient(1, 2);
  const QStringList lines = scene.tab<curves::SaliencyTab>().data().split('\n');
  QVERIFY(lines[0].contains("change of the mean loss (Raising a gate by 1 %, owed layer 1 head 2), nats"));
  for (int position = 0; position < 37; ++position) {
    const double told = lines[position + 1].section(',', -1).toDouble();
    QVERIFY(std::abs(told - 0.01 * static_cast<double>(gradient[index_of(position)])) < 1e-9);
  }
  scene.document.runs().selection().setPin({12, std::nullopt});
  const auto c = scene.document.runs()[1].trace->cumulative_log_gate(1, 2);
  QString value = scene.tab<curves::SaliencyTab>().readOut().entries()[0].value;
  QVERIFY(value.startsWith("f = " + numberText(std::exp(c[12] - c[11])) + ", "));
  QVERIFY(value.endsWith(numberText(0.01 * static_cast<double>(gradient[12])) + " nats"));
  choice(scene.view, "Keys").trigger();
  QVERIFY(scene.settle());
  QCOMPARE(scene.tab<curves::SaliencyTab>().note(),
           "0.01 more in all logits of a key changes the mean loss of owed by this, to first order.");
  value = scene.tab<curves::SaliencyTab>().readOut().entries()[0].value;
  QVERIFY(value.endsWith(numberText(0.01 * static_cast<double>(gradient[13] - gradient[12])) + " nats"));
  QCOMPARE(scene.tab<curves::SaliencyTab>().saveState()["keys"].toBool(), true);
}

void CurveTabsTest::aGateThatMattersLeadsToItsHead() {
  SyntheticRun run = named("fox", 37);
  run.keep.insert(Keep::saliency);
  run.gated = false;
  Scene scene({run});
  QVERIFY(scene.show(Tab::saliency));
  QVERIFY(scene.tab<curves::SaliencyTab>().note().endsWith("It has no gates: this is what one would change."));
  const Trace& trace = *scene.document.runs()[0].trace;
  HeadChoice largest;
  std::int64_t position = 0;
  float size = 0;
  for (int layer = 0; layer < 2; ++layer) {
    for (int head = 0; head < 4; ++head) {
      const auto gradient = trace.log_forget_gradient(layer, head);
      for (std::size_t t = 0; t < gradient.size(); ++t) {
        if (std::abs(gradient[t]) <= size) continue;
        size = std::abs(gradient[t]);
        largest = {scene.document.runs()[0].id, layer, head};
        position = static_cast<std::int64_t>(t);
      }
    }
  }
  auto* list = scene.tab<curves::SaliencyTab>().findChild<QTableView*>();
  QCOMPARE(list->model()->index(0, 1).data().toLongLong(), position);
  QVERIFY(list->model()->index(0, 0).data().toString().startsWith(
      QStringLiteral("%1:%2 ").arg(largest.layer).arg(largest.head)));
  // Decimals stand below one another; of the smallest two digits count.
  const QAbstractItemModel& events = *list->model();
  const auto textOf = [&events](int row) { return events.index(row, 2).data().toString(); };
  for (int row = 0; row < events.rowCount(); ++row) {
    QCOMPARE(textOf(row).section('.', 1).size(), textOf(0).section('.', 1).size());
    QVERIFY(!textOf(row).contains('-'));
    const double value = events.index(row, 2).data(Qt::UserRole).toDouble();
    const double shown = QString(textOf(row)).replace(QChar(0x2212), '-').toDouble();
    QVERIFY2(std::abs(shown - value) <= 0.05 * std::abs(value), qPrintable(textOf(row)));
  }
  QTest::mouseClick(list->viewport(), Qt::LeftButton, {}, list->visualRect(list->model()->index(0, 1)).center());
  QVERIFY(scene.document.runs().selection().head() == largest);
  QCOMPARE(scene.document.runs().selection().pin().query, std::optional(position));
}

void CurveTabsTest::eventsLeadToTheirPlace() {
  Scene scene({named("a", 400)});
  QVERIFY(scene.show(Tab::gate));
  Selection& selection = scene.document.runs().selection();
  auto* list = scene.tab<curves::GateTab>().findChild<QTableView*>();
  const std::int64_t first = list->model()->index(0, 1).data().toString().toLongLong();
  const std::int64_t elsewhere = first > 200 ? 0 : 300;
  selection.setView({{elsewhere, elsewhere + 40}, {0, 400}});
  QTest::mouseClick(list->viewport(), Qt::LeftButton, Qt::NoModifier,
                    list->visualRect(list->model()->index(0, 0)).center());
  QCOMPARE(selection.pin().query, std::optional(first));
  QCOMPARE(selection.view().rows.size(), 40);
  QVERIFY(selection.view().rows.begin <= first && first < selection.view().rows.end);
  const View seen = selection.view();
  QTest::mouseClick(list->viewport(), Qt::LeftButton, Qt::NoModifier,
                    list->visualRect(list->model()->index(0, 0)).center());
  QCOMPARE(selection.view(), seen);
}

void CurveTabsTest::modelWithoutGates() {
  SyntheticRun plain = named("plain", 60);
  plain.gated = false;
  Scene scene({plain});
  scene.document.runs().selection().setPin({30, std::nullopt});
  QVERIFY(scene.show(Tab::gate));
  QCOMPARE(scene.tab<curves::GateTab>().message(),
           "plain has no forget gate: f is 1 everywhere and nothing is forgotten.");
  QVERIFY(scene.show(Tab::decay));
  QCOMPARE(scene.tab<curves::DecayTab>().message(), "No forget gate, so nothing decays: plain.");
  QVERIFY(scene.show(Tab::profile));
  QCOMPARE(scene.tab<curves::ProfileTab>().note(), "plain has no forget gate: F is 1 everywhere.");
  SyntheticRun windowed = named("windowed", 60);
  windowed.gated = false;
  windowed.window_size = 9;
  Scene narrow({windowed});
  narrow.document.runs().selection().setPin({30, std::nullopt});
  QVERIFY(narrow.show(Tab::gate));
  QCOMPARE(narrow.tab<curves::GateTab>().message(),
           "windowed has no forget gate: f is 1 everywhere and nothing is forgotten. The window ends what is seen, "
           "behind 9 tokens.");
  QVERIFY(narrow.show(Tab::profile));
  QCOMPARE(narrow.tab<curves::ProfileTab>().note(),
           "windowed has no forget gate: F is 1 everywhere inside the window of 9 tokens.");
  // A hybrid names the layers that have none.
  Scene hybrid({hybridRun()});
  const RunId run = hybrid.document.runs()[0].id;
  hybrid.document.runs().selection().setHead({run, 0, 1});
  QVERIFY(hybrid.show(Tab::decay));
  QCOMPARE(hybrid.tab<curves::DecayTab>().note(), "No forget gate in layer 1 of hybrid.");
  QVERIFY(hybrid.tab<curves::DecayTab>().readOut().place().startsWith("hybrid, layer 0, head 1: decay time "));
  hybrid.document.runs().selection().setHead({run, 1, 2});
  QTRY_COMPARE(hybrid.tab<curves::DecayTab>().readOut().place(), "layer 1 of hybrid has no forget gate");
  hybrid.document.runs().selection().setHead({run, 0, 1});
  QVERIFY(hybrid.show(Tab::gate));
  QCOMPARE(hybrid.tab<curves::GateTab>().note(), "Each channel decays by itself: f is the geometric mean of them.");
}

void CurveTabsTest::decayChoosesHeads() {
  SyntheticRun plain = named("plain", 60);
  plain.gated = false;
  Scene scene({named("a", 60), plain});
  QVERIFY(scene.show(Tab::decay));
  QCOMPARE(scene.tab<curves::DecayTab>().note(), "No forget gate, so nothing decays: plain.");
  auto* plot = scene.view.findChild<curves::DecayPlot*>();
  const RunId run = scene.document.runs()[0].id;
  const HeadChoice wanted{run, 1, 2};
  QTRY_VERIFY(plot->dotOf(wanted).has_value());
  moveMouse(*plot, plot->dotOf(wanted)->toPoint());
  QTRY_VERIFY(plot->hovered() && plot->hovered()->head == wanted);
  QVERIFY(scene.tab<curves::DecayTab>().readOut().place().startsWith("a, layer 1, head 2: decay time "));
  QTest::mouseClick(plot, Qt::LeftButton, Qt::NoModifier, plot->dotOf(wanted)->toPoint());
  QCOMPARE(scene.document.runs().selection().head(), wanted);
  QTest::keyClick(plot, Qt::Key_Left);
  const HeadChoice before{run, 0, 2};
  QCOMPARE(scene.document.runs().selection().head(), before);
  const auto time = [&](const HeadChoice& head) {
    return head_statistics(*scene.document.runs().headOf(head), {.with_attention = false, .events = 0}, {})
        ->rate_decay_time;
  };
  for (int step = 0; step < 4; ++step) QTest::keyClick(plot, Qt::Key_Down);
  const double shortest = time(scene.document.runs().selection().head());
  for (int step = 0; step < 4; ++step) QTest::keyClick(plot, Qt::Key_Up);
  const double longest = time(scene.document.runs().selection().head());
  for (int head = 0; head < 4; ++head) {
    QVERIFY(time({run, 0, head}) >= shortest);
    QVERIFY(time({run, 0, head}) <= longest);
  }
  QCOMPARE(scene.view.dataOfCurrentTab().count('\n'), 1 + 8);
  QVERIFY(scene.view.dataOfCurrentTab().startsWith("run,layer,head,decay time (tokens)\na,0,0,"));
}

void CurveTabsTest::lossesThatWereNotKept() {
  SyntheticRun without = named("b", 60);
  without.keep = {Keep::gates};
  Scene scene({named("a", 60), without});
  QVERIFY(scene.settle());
  QCOMPARE(scene.tab<curves::LossTab>().note(), "Losses of b were not kept: run again with --keep loss.");
  scene.document.runs().removeRun(scene.document.runs()[0].id);
  QVERIFY(scene.settle());
  QCOMPARE(scene.tab<curves::LossTab>().message(), "Losses of b were not kept: run again with --keep loss.");
  QVERIFY(scene.show(Tab::context));
  QCOMPARE(scene.tab<curves::ContextTab>().message(), "Losses of b were not kept: run again with --keep loss.");
}

void CurveTabsTest::gatesThatWereNotKept() {
  SyntheticRun run = named("a", 60);
  run.keep = {Keep::loss};
  Scene scene({run});
  scene.document.runs().selection().setPin({30, std::nullopt});
  for (const Tab tab : {Tab::profile, Tab::gate, Tab::decay}) {
    QVERIFY(scene.show(tab));
    QVERIFY(scene.view.dataOfCurrentTab().isEmpty());
  }
  for (const QString& message : {scene.tab<curves::ProfileTab>().message(), scene.tab<curves::GateTab>().message(),
                                 scene.tab<curves::DecayTab>().message()}) {
    QVERIFY2(message.contains("--keep"), qPrintable(message));
  }
}

void CurveTabsTest::tokensThatDifferAreComparedByPlace() {
  Scene scene({});
  const std::vector<std::shared_ptr<const Trace>> runs{cutRun("coarse", {2, 4, 2}),
                                                       cutRun("fine", {1, 1, 1, 3, 2}, -0.5)};
  const QString path = scene.folder.path("cut.h5");
  write_run_file(path.toStdString(), runs, {"test", ""}, Overwrite::force, {});
  scene.document.open({path});
  QVERIFY(waitUntilIdle(scene.document));
  QVERIFY(scene.settle());
  QVERIFY(scene.tab<curves::LossTab>().note().startsWith("Tokens differ: positions count the tokens of coarse"));
  // Position 1 of the coarse run predicts "cdef"; the fine one predicts "c", where that begins, at its position 2.
  scene.document.runs().selection().setHover({1, std::nullopt});
  const auto& entries = scene.tab<curves::LossTab>().readOut().entries();
  QVERIFY(entries[0].value.startsWith("1 nats"));
  QVERIFY(entries[1].value.startsWith("2 nats"));
  QVERIFY(entries[2].value.startsWith(QStringLiteral("%1 nats").arg(numberText(-1))));
  QVERIFY(scene.show(Tab::context));
  QVERIFY(scene.tab<curves::ContextTab>().note().startsWith("Tokens differ: l counts the tokens of coarse"));
  scene.document.runs().selection().setHead({scene.document.runs()[1].id, 0, 0});
  scene.document.runs().selection().setPin({2, std::nullopt});
  QVERIFY(scene.show(Tab::profile));
  QVERIFY(scene.tab<curves::ProfileTab>().note().endsWith(
      "Tokens differ: keys of fine are drawn at the positions of coarse that begin at the same place in the text."));
  scene.document.runs().selection().setPin({2, 1});
  scene.view.showProfile(MapLine::Along::column);
  QVERIFY(scene.settle());
  QVERIFY(scene.tab<curves::ProfileTab>().note().endsWith(
      "Tokens differ: queries of fine are drawn at the positions of coarse that begin at the same place in the text."));
  // Key 1 of the coarse run is what the fine one reads up to its position 2: from there on.
  QVERIFY(scene.tab<curves::ProfileTab>().data().startsWith("query,reads,F,log F (nats)\n"));
  scene.view.showProfile(MapLine::Along::diagonal);
  QVERIFY(scene.settle());
  QVERIFY2(scene.tab<curves::ProfileTab>().note().contains("tokens of fine apart"),
           qPrintable(scene.tab<curves::ProfileTab>().note()));
  QVERIFY(scene.show(Tab::gate));
  QVERIFY2(scene.tab<curves::GateTab>().note().contains("Tokens differ: tokens of fine are drawn at the positions"),
           qPrintable(scene.tab<curves::GateTab>().note()));
  QVERIFY(scene.show(Tab::decay));
  QVERIFY2(scene.tab<curves::DecayTab>().note().contains("No forget gate, so nothing decays: coarse."),
           qPrintable(scene.tab<curves::DecayTab>().note()));
}

}  // namespace foxscope::gui::test

FOXSCOPE_GUI_SUBJECT(curve_tabs, foxscope::gui::test::CurveTabsTest)
#include "backend/base/index.h"
#include "curve_tabs_test.moc"
