#include "app/gui/curves/curves_view.h"

#include <array>
#include <cmath>

#include <QAction>
#include <QApplication>
#include <QComboBox>
#include <QSpinBox>
#include <QTabBar>
#include <QTableView>
#include <QTest>
#include <QToolBar>
#include <QWheelEvent>

#include "app/gui/curves/context_tab.h"
#include "app/gui/curves/decay_plot.h"
#include "app/gui/curves/decay_tab.h"
#include "app/gui/curves/gate_tab.h"
#include "app/gui/curves/loss_tab.h"
#include "app/gui/curves/plot_style.h"
#include "app/gui/curves/position_plot.h"
#include "app/gui/curves/read_out.h"
#include "app/gui/curves/row_tab.h"
#include "app/gui/views/theme.h"
#include "backend/file/run_file.h"
#include "backend/map/head_statistics.h"
#include "tests/file/synthetic_trace.h"
#include "tests/gui/support.h"

namespace foxscope::gui::test {
namespace {

using curves::CurveTab;
using curves::numberText;
using curves::PositionPlot;
using curves::Side;
using foxscope::test::make_trace;
using foxscope::test::SyntheticRun;
using Tab = CurvesView::Tab;

constexpr int kPatienceMs = 60'000;

SyntheticRun named(std::string name, std::int64_t length) {
  SyntheticRun run;
  run.name = std::move(name);
  run.length = length;
  return run;
}

/// A document with runs, and the view on it.
class Scene {
 public:
  explicit Scene(const std::vector<SyntheticRun>& runs) {
    if (!runs.empty()) open(runs);
    view.resize(900, 400);
    view.show();
  }

  void open(const std::vector<SyntheticRun>& runs) {
    std::vector<std::shared_ptr<const Trace>> traces;
    for (const SyntheticRun& run : runs) traces.push_back(make_trace(run));
    const QString path = folder.path(QStringLiteral("run%1.h5").arg(++files));
    write_run_file(path.toStdString(), traces, {"test", ""}, Overwrite::force, {});
    document.open({path});
    waitUntilIdle(document);
  }

  bool settle() {
    return QTest::qWaitFor([&] { return view.isSettled() && !document.busy(); }, kPatienceMs);
  }
  bool show(Tab tab) {
    view.setTab(tab);
    return settle();
  }

  template <typename TabType>
  TabType& tab() {
    return *view.findChild<TabType*>();
  }
  template <typename TabType>
  PositionPlot& plot() {
    return *view.findChild<TabType*>()->template findChild<PositionPlot*>();
  }

  Folder folder;
  Document document;
  CurvesView view{document};
  int files = 0;
};

QPoint at(const PositionPlot& plot, double position) {
  return {static_cast<int>(std::lround(plot.pixelOf(position))), plot.height() / 3};
}

// From elsewhere: a pointer that is there already does not move.
void moveMouse(QWidget& widget, const QPoint& place) {
  QTest::mouseMove(&widget, {2, 2});
  QTest::mouseMove(&widget, place);
}

void wheel(QWidget& widget, const QPoint& place, int notches, Qt::KeyboardModifiers modifiers = Qt::NoModifier) {
  QWheelEvent event(place, widget.mapToGlobal(place), {}, {0, 120 * notches}, Qt::NoButton, modifiers,
                    Qt::NoScrollPhase, false);
  QApplication::sendEvent(&widget, &event);
}

QAction& choice(QWidget& view, const QString& text) {
  for (QAction* action : view.findChildren<QAction*>()) {
    if (action->text() == text && action->isVisible()) {
      // Choices of equal name belong to different tabs.
      auto* controls = qobject_cast<QToolBar*>(action->parent());
      if (controls != nullptr && controls->isVisible()) return *action;
    }
  }
  qFatal("no such choice");
}

}  // namespace

class CurvesViewTest : public QObject {
  Q_OBJECT

 private slots:
  void saysWhatToDoWithoutARun();
  void readsLossesOfPredictedTokens();
  void readsPerplexityOfTheFirstTokens();
  void hoverAndClicksSetTheSelection();
  void cursorComesFromOtherViews();
  void wheelZoomsAtThePointer();
  void dragPans();
  void doubleClickFitsAndPinsNothing();
  void keysZoomPanAndPin();
  void followsTheCommonRange();
  void verticalAxisFollowsWhatIsVisible();
  void smoothingWindowCanBeChanged();
  void rowIsOfThePinnedElseTheHoveredQuery();
  void rowAgainstDistance();
  void rowWithoutQueriesAndKeys();
  void gateListsItsStrongestEvents();
  void eventsLeadToTheirPlace();
  void modelWithoutGates();
  void decayChoosesHeads();
  void lossesThatWereNotKept();
  void gatesThatWereNotKept();
  void runsComeAndGo();
  void oneToken();
  void longText();
  void idsWithoutText();
  void stateRoundTrip();
  void exportsNumbersAndFigures();
  void commandsShowTabs();
  void coloursFollowThePalette();
};

void CurvesViewTest::saysWhatToDoWithoutARun() {
  Scene scene({});
  for (const Tab tab : {Tab::loss, Tab::context, Tab::row, Tab::gate, Tab::decay}) {
    QVERIFY(scene.show(tab));
    QVERIFY(scene.view.dataOfCurrentTab().isEmpty());
    QVERIFY(!scene.view.figureOfCurrentTab());
  }
  for (const CurveTab* tab : scene.view.findChildren<CurveTab*>()) {
    QVERIFY2(tab->message().startsWith("No run yet. Open a checkpoint folder (Ctrl+O)"), qPrintable(tab->message()));
  }
}

void CurvesViewTest::readsLossesOfPredictedTokens() {
  Scene scene({named("a", 80), named("b", 80)});
  QVERIFY(scene.settle());
  PositionPlot& plot = scene.plot<curves::LossTab>();
  const Trace& a = *scene.document.runs()[0].trace;
  const Trace& b = *scene.document.runs()[1].trace;
  const TokenTable& tokens = *a.tokens();
  for (const std::int64_t position : {0, 1, 40, 79}) {
    moveMouse(plot, at(plot, static_cast<double>(position)));
    QTRY_COMPARE(scene.document.selection().hover().query, std::optional(position));
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
    QVERIFY(reading.entries()[0].value.startsWith(numberText(lossA) + " nats ("));
    QVERIFY(reading.entries()[1].value.startsWith(numberText(lossB) + " nats ("));
    QCOMPARE(reading.entries()[2].name, "a − b");
    QVERIFY(reading.entries()[2].value.startsWith(numberText(lossA - lossB) + " nats ("));
  }
}

void CurvesViewTest::readsPerplexityOfTheFirstTokens() {
  Scene scene({named("a", 60)});
  QVERIFY(scene.show(Tab::context));
  scene.document.selection().setHover({9, std::nullopt});
  const Trace& trace = *scene.document.runs()[0].trace;
  double sum = 0;
  for (std::size_t p = 0; p < 10; ++p) sum += static_cast<double>(trace.per_token_loss()[p]);
  const curves::ReadOut& reading = scene.tab<curves::ContextTab>().readOut();
  QCOMPARE(reading.entries()[0].value, numberText(std::exp(sum / 10)));
  QVERIFY(reading.place().startsWith("first 10 tokens, to “" + predictedText(*trace.tokens(), 9, Whitespace::visible)));
  choice(scene.view, "As loss").trigger();
  QCOMPARE(reading.entries()[0].value, numberText(sum / 10) + " nats");
}

void CurvesViewTest::hoverAndClicksSetTheSelection() {
  Scene scene({named("a", 80)});
  QVERIFY(scene.settle());
  PositionPlot& plot = scene.plot<curves::LossTab>();
  Selection& selection = scene.document.selection();
  QTest::mouseClick(&plot, Qt::LeftButton, Qt::NoModifier, at(plot, 50));
  QCOMPARE(selection.pin().query, std::optional<std::int64_t>(50));
  QTest::mouseClick(&plot, Qt::LeftButton, Qt::ShiftModifier, at(plot, 20));
  const Cursor both{50, 20};
  QCOMPARE(selection.pin(), both);
  moveMouse(plot, at(plot, 33));
  QTRY_COMPARE(selection.hover().query, std::optional<std::int64_t>(33));
  QEvent leave(QEvent::Leave);
  QApplication::sendEvent(&plot, &leave);
  QVERIFY(selection.hover() == Cursor());
}

void CurvesViewTest::cursorComesFromOtherViews() {
  Scene scene({named("a", 80)});
  QVERIFY(scene.settle());
  const QImage before = scene.plot<curves::LossTab>().grab().toImage();
  scene.document.selection().setPin({50, 20});
  const QImage pinned = scene.plot<curves::LossTab>().grab().toImage();
  PositionPlot& plot = scene.plot<curves::LossTab>();
  const QColor query = pinnedQueryColour(plot.palette());
  const QColor key = pinnedKeyColour(plot.palette());
  const auto near = [](const QColor& a, const QColor& b) {
    return std::abs(a.red() - b.red()) + std::abs(a.green() - b.green()) + std::abs(a.blue() - b.blue()) < 150;
  };
  const auto coloured = [&](const QImage& image, double position, const QColor& colour) {
    const int x = static_cast<int>(plot.pixelOf(position));
    int rows = 0;
    for (int y = 0; y < image.height(); ++y) {
      bool found = false;
      for (int dx = -1; dx <= 1; ++dx) found = found || near(image.pixelColor(x + dx, y), colour);
      rows += found ? 1 : 0;
    }
    return rows > image.height() / 2;
  };
  QVERIFY(!coloured(before, 50, query));
  QVERIFY(coloured(pinned, 50, query));
  QVERIFY(coloured(pinned, 20, key));
}

void CurvesViewTest::wheelZoomsAtThePointer() {
  Scene scene({named("a", 1000)});
  QVERIFY(scene.settle());
  PositionPlot& plot = scene.plot<curves::LossTab>();
  Selection& selection = scene.document.selection();
  const QPoint pointer = at(plot, 700);
  wheel(plot, pointer, 1);
  QCOMPARE(selection.view().rows.size(), 800);
  QVERIFY(std::abs(plot.pixelOf(700) - pointer.x()) < 2);
  const Range columns{0, 1000};
  QCOMPARE(selection.view().columns, columns);
  wheel(plot, pointer, 1, Qt::ControlModifier);
  const std::int64_t fine = selection.view().rows.size();
  QVERIFY(fine > 750 && fine < 800);
  wheel(plot, pointer, 1, Qt::ShiftModifier);
  QVERIFY(selection.view().rows.size() <= fine / 2 + 1);
  // One turn of the wheel is one entry of the history.
  QTest::keyClick(&plot, Qt::Key_Backspace);
  QCOMPARE(selection.view().rows, columns);
  QVERIFY(!selection.canGoBack());
}

void CurvesViewTest::dragPans() {
  Scene scene({named("a", 1000)});
  QVERIFY(scene.settle());
  PositionPlot& plot = scene.plot<curves::LossTab>();
  Selection& selection = scene.document.selection();
  selection.setView({{400, 600}, {0, 1000}});
  selection.endMovement();
  const QPoint from = at(plot, 550);
  const QPoint to = at(plot, 450);
  QTest::mousePress(&plot, Qt::LeftButton, Qt::NoModifier, from);
  QTest::mouseMove(&plot, (from + to) / 2);
  QTest::mouseMove(&plot, to);
  QTest::mouseRelease(&plot, Qt::LeftButton, Qt::NoModifier, to);
  QCOMPARE(selection.view().rows.size(), 200);
  QVERIFY(std::abs(selection.view().rows.begin - 500) <= 1);
  QVERIFY(!selection.pin().query);
  QTest::keyClick(&plot, Qt::Key_Backspace);
  const Range before{400, 600};
  QCOMPARE(selection.view().rows, before);
}

void CurvesViewTest::doubleClickFitsAndPinsNothing() {
  Scene scene({named("a", 1000)});
  QVERIFY(scene.settle());
  PositionPlot& plot = scene.plot<curves::LossTab>();
  Selection& selection = scene.document.selection();
  selection.setPin({123, 7});
  selection.setView({{400, 600}, {10, 50}});
  QTest::mouseClick(&plot, Qt::LeftButton, Qt::NoModifier, at(plot, 500));
  QTest::mouseDClick(&plot, Qt::LeftButton, Qt::NoModifier, at(plot, 500));
  QTest::mouseRelease(&plot, Qt::LeftButton, Qt::NoModifier, at(plot, 500));
  const View all{{0, 1000}, {0, 1000}};
  QCOMPARE(selection.view(), all);
  const Cursor pin{123, 7};
  QCOMPARE(selection.pin(), pin);
}

void CurvesViewTest::keysZoomPanAndPin() {
  Scene scene({named("a", 1000)});
  QVERIFY(scene.settle());
  PositionPlot& plot = scene.plot<curves::LossTab>();
  Selection& selection = scene.document.selection();
  QTest::keyClick(&plot, Qt::Key_Plus);
  QCOMPARE(selection.view().rows.size(), 800);
  QTest::keyClick(&plot, Qt::Key_PageDown);
  QCOMPARE(selection.view().rows.end, 1000);
  QTest::keyClick(&plot, Qt::Key_Minus);
  QCOMPARE(selection.view().rows.size(), 900);
  QTest::keyClick(&plot, Qt::Key_0, Qt::ControlModifier);
  QCOMPARE(selection.view().rows.size(), 1000);
  selection.setPin({10, 4});
  QTest::keyClick(&plot, Qt::Key_Right);
  QTest::keyClick(&plot, Qt::Key_Left, Qt::ShiftModifier);
  const Cursor moved{11, 3};
  QCOMPARE(selection.pin(), moved);
}

void CurvesViewTest::followsTheCommonRange() {
  Scene scene({named("a", 1000)});
  Selection& selection = scene.document.selection();
  selection.setPin({900, std::nullopt});
  for (const Tab tab : {Tab::loss, Tab::context, Tab::row, Tab::gate}) QVERIFY(scene.show(tab));
  selection.setView({{100, 300}, {400, 500}});
  QCOMPARE(scene.plot<curves::LossTab>().horizontalLimits().lower, 99.5);
  QCOMPARE(scene.plot<curves::LossTab>().horizontalLimits().upper, 299.5);
  QCOMPARE(scene.plot<curves::ContextTab>().horizontalLimits().lower, 100.5);
  QCOMPARE(scene.plot<curves::GateTab>().horizontalLimits().upper, 299.5);
  QCOMPARE(scene.plot<curves::RowTab>().horizontalLimits().lower, 399.5);
  QCOMPARE(scene.plot<curves::RowTab>().horizontalLimits().upper, 499.5);
  QVERIFY(scene.show(Tab::row));
  PositionPlot& row = scene.plot<curves::RowTab>();
  wheel(row, at(row, 450), 1);
  QCOMPARE(selection.view().columns.size(), 80);
  const Range rows{100, 300};
  QCOMPARE(selection.view().rows, rows);
}

void CurvesViewTest::verticalAxisFollowsWhatIsVisible() {
  Scene scene({named("a", 1000)});
  QVERIFY(scene.settle());
  PositionPlot& plot = scene.plot<curves::LossTab>();
  scene.document.selection().setView({{300, 320}, {0, 1000}});
  QVERIFY(scene.settle());
  double least = 1e9;
  double largest = -1e9;
  for (std::size_t p = 300; p < 320; ++p) {
    const double loss = static_cast<double>(scene.document.runs()[0].trace->per_token_loss()[p]);
    least = std::min(least, loss);
    largest = std::max(largest, loss);
  }
  const figure::AxisLimits limits = plot.verticalLimits(0, Side::left);
  const double margin = 0.07 * (largest - least);
  QVERIFY(limits.lower < least && limits.lower > least - margin);
  QVERIFY(limits.upper > largest && limits.upper < largest + margin);
}

void CurvesViewTest::smoothingWindowCanBeChanged() {
  Scene scene({named("a", 300)});
  QVERIFY(scene.settle());
  auto* window = scene.view.findChild<QSpinBox*>();
  QCOMPARE(window->value(), 101);
  QCOMPARE(scene.plot<curves::LossTab>().content().lines.size(), std::size_t{2});
  window->setValue(3);
  QVERIFY(scene.settle());
  scene.document.selection().setHover({150, std::nullopt});
  const auto loss = scene.document.runs()[0].trace->per_token_loss();
  const double mean =
      (static_cast<double>(loss[149]) + static_cast<double>(loss[150]) + static_cast<double>(loss[151])) / 3;
  const QString value = scene.tab<curves::LossTab>().readOut().entries()[0].value;
  QVERIFY2(value.endsWith('(' + numberText(mean) + ')'), qPrintable(value));
  scene.view.findChild<QComboBox*>()->setCurrentText("Means only");
  QVERIFY(scene.settle());
  QCOMPARE(scene.plot<curves::LossTab>().content().lines.size(), std::size_t{1});
}

void CurvesViewTest::rowIsOfThePinnedElseTheHoveredQuery() {
  Scene scene({named("a", 100)});
  QVERIFY(scene.show(Tab::row));
  const CurveTab& tab = scene.tab<curves::RowTab>();
  QVERIFY(tab.message().startsWith("Pin a query to see its row"));
  Selection& selection = scene.document.selection();
  selection.setHead({scene.document.runs()[0].id, 1, 2});
  selection.setHover({40, std::nullopt});
  QVERIFY(scene.settle());
  QCOMPARE(tab.message(), "");
  QVERIFY(tab.data().count('\n') == 42);
  // The mouse in the row's own plot keeps the row.
  PositionPlot& plot = scene.plot<curves::RowTab>();
  moveMouse(plot, at(plot, 30));
  const Cursor hovered{40, 30};
  QTRY_COMPARE(selection.hover(), hovered);
  selection.setPin({60, 10});
  selection.setHover({20, std::nullopt});
  QVERIFY(scene.settle());
  QVERIFY(tab.data().count('\n') == 62);
  selection.setHover({});
  const HeadOf head = *scene.document.headOf(selection.head());
  MapRequest request;
  request.head = head;
  request.rows = {60, 61};
  request.columns = {0, 61};
  request.pixel_rows = 1;
  request.pixel_columns = 61;
  const double attention = static_cast<double>(compute_map(request, {})->value[10]);
  const curves::ReadOut& reading = scene.tab<curves::RowTab>().readOut();
  QCOMPARE(reading.entries()[0].name, "A");
  QCOMPARE(reading.entries()[0].value, numberText(attention));
  QVERIFY(reading.place().contains("layer 1, head 2: query 60 reads"));
  QVERIFY(reading.place().endsWith("distance 50"));
  // Eight keys are named, the strongest first.
  QCOMPARE(plot.content().marks.size(), std::size_t{8});
  QVERIFY(plot.content().marks[0].point.value >= plot.content().marks[7].point.value);
  const auto key = static_cast<std::int64_t>(plot.content().marks[0].point.position);
  QCOMPARE(plot.content().marks[0].label, readText(*head.trace->tokens(), key, Whitespace::visible));
}

void CurvesViewTest::rowAgainstDistance() {
  Scene scene({named("a", 100)});
  scene.document.selection().setPin({60, std::nullopt});
  QVERIFY(scene.show(Tab::row));
  choice(scene.view, "Distance").trigger();
  QVERIFY(scene.settle());
  PositionPlot& plot = scene.plot<curves::RowTab>();
  QCOMPARE(plot.horizontalLimits().lower, -0.5);
  QCOMPARE(plot.horizontalLimits().upper, 60.5);
  QVERIFY(plot.pixelOf(60) < plot.pixelOf(59));
  QTest::mouseClick(&plot, Qt::LeftButton, Qt::ShiftModifier, at(plot, 45));
  QCOMPARE(scene.document.selection().pin().key, std::optional<std::int64_t>(45));
  choice(scene.view, "Log x").trigger();
  choice(scene.view, "Log y").trigger();
  QVERIFY(scene.settle());
  QCOMPARE(plot.horizontalLimits().lower, 0.5);
  QVERIFY(plot.verticalLimits(0, Side::left).lower > 0);
}

void CurvesViewTest::rowWithoutQueriesAndKeys() {
  SyntheticRun run = named("a", 50);
  run.keep = {Keep::loss, Keep::gates};
  Scene scene({run});
  scene.document.selection().setPin({30, std::nullopt});
  QVERIFY(scene.show(Tab::row));
  const curves::RowTab& tab = scene.tab<curves::RowTab>();
  QCOMPARE(tab.note(), "No attention: queries, keys or row normalisers of a were not kept (--keep rows,qk).");
  QCOMPARE(scene.plot<curves::RowTab>().content().lines.size(), std::size_t{1});
  choice(scene.view, "log F").trigger();
  QVERIFY(scene.settle());
  QCOMPARE(scene.plot<curves::RowTab>().content().lines.size(), std::size_t{2});
  QVERIFY(tab.data().startsWith("key,reads,F,log F (nats)\n"));
}

void CurvesViewTest::gateListsItsStrongestEvents() {
  Scene scene({named("a", 400)});
  Selection& selection = scene.document.selection();
  selection.setHead({scene.document.runs()[0].id, 1, 3});
  QVERIFY(scene.show(Tab::gate));
  const HeadOf head = *scene.document.headOf(selection.head());
  const auto statistics = head_statistics(head, {.with_attention = false, .events = 20}, {});
  const QAbstractItemModel& list = *scene.view.findChild<QTableView*>()->model();
  QCOMPARE(list.rowCount(), 20);
  for (int row = 0; row < 20; ++row) {
    const ForgettingEvent& event = statistics->strongest_events[static_cast<std::size_t>(row)];
    QCOMPARE(list.index(row, 0).data().toString(),
             readText(*head.trace->tokens(), event.position, Whitespace::visible));
    QCOMPARE(list.index(row, 1).data().toString(), QString::number(event.position));
    QCOMPARE(list.index(row, 2).data().toString(), numberText(event.forget_gate));
  }
  selection.setHover({123, std::nullopt});
  const auto c = head.trace->cumulative_log_gate(1, 3);
  QCOMPARE(scene.tab<curves::GateTab>().readOut().entries()[0].value, "f = " + numberText(std::exp(c[123] - c[122])));
}

void CurvesViewTest::eventsLeadToTheirPlace() {
  Scene scene({named("a", 400)});
  QVERIFY(scene.show(Tab::gate));
  Selection& selection = scene.document.selection();
  auto* list = scene.view.findChild<QTableView*>();
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

void CurvesViewTest::modelWithoutGates() {
  SyntheticRun plain = named("plain", 60);
  plain.gated = false;
  Scene scene({plain});
  scene.document.selection().setPin({30, std::nullopt});
  QVERIFY(scene.show(Tab::gate));
  QCOMPARE(scene.tab<curves::GateTab>().message(),
           "plain has no forget gate: f is 1 everywhere and nothing is forgotten.");
  QVERIFY(scene.show(Tab::decay));
  QCOMPARE(scene.tab<curves::DecayTab>().message(), "No forget gate, so nothing decays: plain.");
  QVERIFY(scene.show(Tab::row));
  QCOMPARE(scene.tab<curves::RowTab>().note(), "plain has no forget gate: F is 1 everywhere.");
}

void CurvesViewTest::decayChoosesHeads() {
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
  QCOMPARE(scene.document.selection().head(), wanted);
  QTest::keyClick(plot, Qt::Key_Left);
  const HeadChoice before{run, 0, 2};
  QCOMPARE(scene.document.selection().head(), before);
  const auto time = [&](const HeadChoice& head) {
    return head_statistics(*scene.document.headOf(head), {.with_attention = false, .events = 0}, {})->rate_decay_time;
  };
  for (int step = 0; step < 4; ++step) QTest::keyClick(plot, Qt::Key_Down);
  const double shortest = time(scene.document.selection().head());
  for (int step = 0; step < 4; ++step) QTest::keyClick(plot, Qt::Key_Up);
  const double longest = time(scene.document.selection().head());
  for (int head = 0; head < 4; ++head) {
    QVERIFY(time({run, 0, head}) >= shortest);
    QVERIFY(time({run, 0, head}) <= longest);
  }
  QCOMPARE(scene.view.dataOfCurrentTab().count('\n'), 1 + 8);
  QVERIFY(scene.view.dataOfCurrentTab().startsWith("run,layer,head,decay time (tokens)\na,0,0,"));
}

void CurvesViewTest::lossesThatWereNotKept() {
  SyntheticRun without = named("b", 60);
  without.keep = {Keep::gates};
  Scene scene({named("a", 60), without});
  QVERIFY(scene.settle());
  QCOMPARE(scene.tab<curves::LossTab>().note(), "Losses of b were not kept (--keep loss).");
  scene.document.removeRun(scene.document.runs()[0].id);
  QVERIFY(scene.settle());
  QCOMPARE(scene.tab<curves::LossTab>().message(), "Losses of b were not kept (--keep loss).");
  QVERIFY(scene.show(Tab::context));
  QCOMPARE(scene.tab<curves::ContextTab>().message(), "Losses of b were not kept (--keep loss).");
}

void CurvesViewTest::gatesThatWereNotKept() {
  SyntheticRun run = named("a", 60);
  run.keep = {Keep::loss};
  Scene scene({run});
  scene.document.selection().setPin({30, std::nullopt});
  for (const Tab tab : {Tab::row, Tab::gate, Tab::decay}) {
    QVERIFY(scene.show(tab));
    QVERIFY(scene.view.dataOfCurrentTab().isEmpty());
  }
  for (const QString& message : {scene.tab<curves::RowTab>().message(), scene.tab<curves::GateTab>().message(),
                                 scene.tab<curves::DecayTab>().message()}) {
    QVERIFY2(message.contains("--keep"), qPrintable(message));
  }
}

void CurvesViewTest::runsComeAndGo() {
  Scene scene({});
  QVERIFY(scene.settle());
  scene.open({named("a", 60)});
  QVERIFY(scene.settle());
  QCOMPARE(scene.plot<curves::LossTab>().content().lines.size(), std::size_t{2});
  scene.open({named("a", 90), named("b", 90)});
  QVERIFY(scene.settle());
  QCOMPARE(scene.plot<curves::LossTab>().content().lines.size(), std::size_t{6});
  QCOMPARE(scene.plot<curves::LossTab>().horizontalLimits().upper, 89.5);
  scene.document.clear();
  QVERIFY(scene.settle());
  QVERIFY(scene.tab<curves::LossTab>().message().startsWith("No run yet"));
  QTest::keyClick(&scene.plot<curves::LossTab>(), Qt::Key_Plus);
}

void CurvesViewTest::oneToken() {
  Scene scene({named("a", 1), named("b", 1)});
  scene.document.selection().setPin({0, 0});
  const std::array<PositionPlot*, 4> plots{&scene.plot<curves::LossTab>(), &scene.plot<curves::ContextTab>(),
                                           &scene.plot<curves::RowTab>(), &scene.plot<curves::GateTab>()};
  for (const Tab tab : {Tab::loss, Tab::context, Tab::row, Tab::gate}) {
    QVERIFY(scene.show(tab));
    PositionPlot* plot = plots[static_cast<std::size_t>(tab)];
    QVERIFY(plot->positionAt(plot->width() / 2.0) == 0);
    wheel(*plot, {plot->width() / 2, 20}, 3);
    wheel(*plot, {plot->width() / 2, 20}, -3);
    const Range one{0, 1};
    QCOMPARE(scene.document.selection().view().rows, one);
    choice(scene.view, "Log x").trigger();
    QVERIFY(scene.settle());
    QVERIFY(!scene.view.grab().isNull());
  }
  QVERIFY(scene.show(Tab::decay));
}

void CurvesViewTest::longText() {
  std::vector<SyntheticRun> runs;
  for (const char* name : {"a", "b"}) {
    runs.push_back(named(name, 65'536));
    runs.back().keep = {Keep::loss, Keep::gates};
    runs.back().layers = 1;
  }
  Scene scene(runs);
  QVERIFY(scene.settle());
  PositionPlot& plot = scene.plot<curves::LossTab>();
  // Decimated to at most two values a pixel; extremes of all that there are remain.
  QVERIFY(plot.points(0).size() < 4000);
  const auto loss = scene.document.runs()[0].trace->per_token_loss();
  const double largest = static_cast<double>(*std::max_element(loss.begin(), loss.end()));
  double drawn = 0;
  for (const curves::Point& point : plot.points(0)) drawn = std::max(drawn, point.value);
  QCOMPARE(drawn, largest);
  scene.document.selection().setView({{65'000, 65'020}, {0, 65'536}});
  QVERIFY(scene.settle());
  scene.document.selection().setHover({65'010, std::nullopt});
  const QString value = scene.tab<curves::LossTab>().readOut().entries()[0].value;
  QVERIFY(value.startsWith(numberText(static_cast<double>(loss[65'010]))));
  scene.document.selection().setPin({65'000, std::nullopt});
  for (const Tab tab : {Tab::context, Tab::row, Tab::gate, Tab::decay}) QVERIFY(scene.show(tab));
}

void CurvesViewTest::idsWithoutText() {
  SyntheticRun run = named("a", 40);
  run.with_text = false;
  Scene scene({run});
  QVERIFY(scene.settle());
  scene.document.selection().setHover({5, std::nullopt});
  const TokenTable& tokens = *scene.document.runs()[0].trace->tokens();
  QVERIFY(scene.tab<curves::LossTab>().readOut().place().startsWith(
      "5 reads “" + readText(tokens, 5, Whitespace::visible) + "”, predicts"));
}

void CurvesViewTest::stateRoundTrip() {
  Scene scene({named("a", 60)});
  scene.view.findChild<QSpinBox*>()->setValue(51);
  scene.view.findChild<QComboBox*>()->setCurrentText("Tokens always");
  QVERIFY(scene.show(Tab::row));
  choice(scene.view, "Distance").trigger();
  choice(scene.view, "A ungated").trigger();
  const QJsonObject state = scene.view.saveState();
  Scene other({});
  QVERIFY(other.view.saveState() != state);
  other.view.restoreState(state);
  QCOMPARE(other.view.saveState(), state);
  QCOMPARE(other.view.tab(), Tab::row);
  QCOMPARE(other.view.findChild<QSpinBox*>()->value(), 51);
  // What does not fit is left as it is.
  other.view.restoreState({{"tab", "nonsense"}, {"loss", 7}, {"row", QJsonObject{{"logX", "yes"}}}});
  QCOMPARE(other.view.saveState(), state);
}

void CurvesViewTest::exportsNumbersAndFigures() {
  Scene scene({named("a", 60), named("b", 60)});
  scene.document.selection().setPin({30, std::nullopt});
  scene.document.selection().setView({{10, 40}, {0, 20}});
  QVERIFY(scene.settle());
  const QStringList lines = scene.view.dataOfCurrentTab().split('\n');
  QCOMPARE(lines.size(), 62);
  QCOMPARE(lines[0],
           "position,reads,predicts,loss of a (nats),\"loss of a, mean of 101 (nats)\",loss of b (nats),"
           "\"loss of b, mean of 101 (nats)\",loss of a minus b (nats),\"loss of a minus b, mean of 101 (nats)\"");
  auto figure = scene.view.figureOfCurrentTab();
  QVERIFY(figure.has_value());
  QCOMPARE(figure->curves.size(), std::size_t{2});
  QCOMPARE(figure->curves[0].x.size(), std::size_t{60});
  QVERIFY(figure->curves[0].rawY.empty());
  scene.view.findChild<QComboBox*>()->setCurrentText("Tokens always");
  QVERIFY(scene.settle());
  QCOMPARE(scene.view.figureOfCurrentTab()->curves[0].rawY.size(), std::size_t{60});
  QCOMPARE(figure->xLimits->lower, 9.5);
  QCOMPARE(figure->runs.size(), std::size_t{2});
  QCOMPARE(figure->yLabel, "loss, nats");
  for (const Tab tab : {Tab::context, Tab::row, Tab::gate}) {
    QVERIFY(scene.show(tab));
    figure = scene.view.figureOfCurrentTab();
    QVERIFY(figure.has_value() && !figure->curves.empty());
    for (const figure::Curve& curve : figure->curves) QCOMPARE(curve.x.size(), curve.y.size());
    QVERIFY(scene.view.dataOfCurrentTab().count('\n') > 30);
  }
  QVERIFY(scene.show(Tab::decay));
  QVERIFY(!scene.view.figureOfCurrentTab());
}

void CurvesViewTest::commandsShowTabs() {
  Scene scene({});
  const QList<QAction*> commands = scene.view.commands();
  QCOMPARE(commands.size(), 5);
  for (int tab = 4; tab >= 0; --tab) {
    commands[tab]->trigger();
    QCOMPARE(static_cast<int>(scene.view.tab()), tab);
    QVERIFY(!commands[tab]->text().isEmpty() && !commands[tab]->toolTip().isEmpty());
  }
}

void CurvesViewTest::coloursFollowThePalette() {
  Scene scene({named("a", 60)});
  scene.view.setPalette(darkPalette());
  QVERIFY(scene.settle());
  const PositionPlot& plot = scene.plot<curves::LossTab>();
  QCOMPARE(plot.content().lines.back().colour, runColour(0, darkPalette()));
  scene.view.setPalette(lightPalette());
  QVERIFY(scene.settle());
  QCOMPARE(plot.content().lines.back().colour, runColour(0, lightPalette()));
}

}  // namespace foxscope::gui::test

QTEST_MAIN(foxscope::gui::test::CurvesViewTest)
#include "curves_view_test.moc"
