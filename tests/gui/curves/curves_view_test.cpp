#include "app/gui/curves/curves_view.h"

#include <algorithm>

#include <QComboBox>
#include <QHeaderView>
#include <QImage>
#include <QRubberBand>
#include <QSpinBox>
#include <QTabBar>
#include <QTest>
#include <QToolBar>
#include <qcustomplot.h>

#include "app/gui/curves/read_out.h"
#include "app/gui/curves/token_list.h"
#include "app/gui/document/number_text.h"
#include "app/gui/views/theme.h"
#include "tests/gui/curves/scene.h"
#include "tests/gui/subject.h"

namespace foxscope::gui::test {

class CurvesViewTest : public QObject {
  Q_OBJECT

 private slots:
  void saysWhatToDoWithoutARun();
  void hoverAndClicksSetTheSelection();
  void cursorComesFromOtherViews();
  void wheelZoomsAtThePointer();
  void dragPans();
  void aBandZooms();
  void doubleClickFitsAndPinsNothing();
  void keysZoomPanAndPin();
  void followsTheCommonRange();
  void verticalAxisFollowsWhatIsVisible();
  void runsComeAndGo();
  void oneToken();
  void longText();
  void idsWithoutText();
  void stateRoundTrip();
  void sessionsOfRowsAloneOpen();
  void exportsNumbersAndFigures();
  void aNameGivesWayOnlyToAValueWithoutRoom();
  void differencesHaveSignsAndThreeTicks();
  void tokensHaveTheRoomOfTheirList();
  void commandsShowTabs();
  void choicesAreAllSeen();
  void coloursFollowThePalette();
};

void CurvesViewTest::saysWhatToDoWithoutARun() {
  Scene scene({});
  for (const Tab tab :
       {Tab::loss, Tab::context, Tab::profile, Tab::gate, Tab::decay, Tab::distance, Tab::content, Tab::saliency}) {
    QVERIFY(scene.show(tab));
    QVERIFY(scene.view.dataOfCurrentTab().isEmpty());
    QVERIFY(!scene.view.figureOfCurrentTab());
  }
  const auto tabs = scene.view.findChildren<CurveTab*>();
  for (const CurveTab* tab : tabs) {
    QCOMPARE(tab->message(), "No model yet: open a checkpoint folder (Ctrl+O), or a run file (Ctrl+Alt+O).");
  }
  // It follows what comes to be there.
  QVERIFY(scene.show(Tab::profile));
  scene.document.runs().addModel("/somewhere/fox");
  const CurveTab* profile = scene.view.findChild<curves::ProfileTab*>();
  QCOMPARE(profile->message(), "No text yet: open one (Ctrl+Shift+O), or type or paste it.");
  scene.document.modelRuns().editText("A text.");
  QCOMPARE(profile->message(), "No run yet: press F5.");
}

void CurvesViewTest::hoverAndClicksSetTheSelection() {
  Scene scene({named("a", 80)});
  QVERIFY(scene.settle());
  PositionPlot& plot = scene.plot<curves::LossTab>();
  Selection& selection = scene.document.runs().selection();
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
  scene.document.runs().selection().setPin({50, 20});
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
  Selection& selection = scene.document.runs().selection();
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
  Selection& selection = scene.document.runs().selection();
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

void CurvesViewTest::aBandZooms() {
  Scene scene({named("a", 1000)});
  QVERIFY(scene.settle());
  PositionPlot& plot = scene.plot<curves::LossTab>();
  Selection& selection = scene.document.runs().selection();
  const auto drag = [&](int from, int to) {
    QTest::mousePress(&plot, Qt::RightButton, Qt::NoModifier, at(plot, from));
    QTest::mouseMove(&plot, at(plot, (from + to) / 2));
    QTest::mouseMove(&plot, at(plot, to));
  };
  const auto* const band = plot.findChild<QRubberBand*>();
  QVERIFY(band == nullptr);
  drag(700, 300);
  QVERIFY(plot.findChild<QRubberBand*>()->isVisible());
  QTest::mouseRelease(&plot, Qt::RightButton, Qt::NoModifier, at(plot, 300));
  QVERIFY(!plot.findChild<QRubberBand*>()->isVisible());
  QVERIFY(std::abs(selection.view().rows.begin - 300) <= 1);
  QVERIFY(std::abs(selection.view().rows.end - 701) <= 1);
  QVERIFY(!selection.pin().query);
  // A slip of the hand, and a band that was let go of, change nothing.
  const Range zoomed = selection.view().rows;
  QTest::mouseClick(&plot, Qt::RightButton, Qt::NoModifier, at(plot, 500));
  QCOMPARE(selection.view().rows, zoomed);
  drag(400, 500);
  QTest::keyClick(&plot, Qt::Key_Escape);
  QVERIFY(!plot.findChild<QRubberBand*>()->isVisible());
  QTest::mouseRelease(&plot, Qt::RightButton, Qt::NoModifier, at(plot, 500));
  QCOMPARE(selection.view().rows, zoomed);
  QTest::keyClick(&plot, Qt::Key_Backspace);
  const Range all{0, 1000};
  QCOMPARE(selection.view().rows, all);
}

void CurvesViewTest::doubleClickFitsAndPinsNothing() {
  Scene scene({named("a", 1000)});
  QVERIFY(scene.settle());
  PositionPlot& plot = scene.plot<curves::LossTab>();
  Selection& selection = scene.document.runs().selection();
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
  Selection& selection = scene.document.runs().selection();
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
  Selection& selection = scene.document.runs().selection();
  selection.setPin({900, std::nullopt});
  for (const Tab tab : {Tab::loss, Tab::context, Tab::profile, Tab::gate}) QVERIFY(scene.show(tab));
  selection.setView({{100, 300}, {400, 500}});
  QCOMPARE(scene.plot<curves::LossTab>().horizontalLimits().lower, 99.5);
  QCOMPARE(scene.plot<curves::LossTab>().horizontalLimits().upper, 299.5);
  QCOMPARE(scene.plot<curves::ContextTab>().horizontalLimits().lower, 100.5);
  QCOMPARE(scene.plot<curves::GateTab>().horizontalLimits().upper, 299.5);
  QCOMPARE(scene.plot<curves::ProfileTab>().horizontalLimits().lower, 399.5);
  QCOMPARE(scene.plot<curves::ProfileTab>().horizontalLimits().upper, 499.5);
  QVERIFY(scene.show(Tab::profile));
  PositionPlot& row = scene.plot<curves::ProfileTab>();
  wheel(row, at(row, 450), 1);
  QCOMPARE(selection.view().columns.size(), 80);
  const Range rows{100, 300};
  QCOMPARE(selection.view().rows, rows);
}

void CurvesViewTest::verticalAxisFollowsWhatIsVisible() {
  Scene scene({named("a", 1000)});
  QVERIFY(scene.settle());
  PositionPlot& plot = scene.plot<curves::LossTab>();
  scene.document.runs().selection().setView({{300, 320}, {0, 1000}});
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

void CurvesViewTest::runsComeAndGo() {
  Scene scene({});
  QVERIFY(scene.settle());
  scene.open({named("a", 60)});
  QVERIFY(scene.settle());
  QCOMPARE(scene.plot<curves::LossTab>().content().lines.size(), std::size_t{2});
  // Runs on another text have a strip of their own, without a difference.
  scene.open({named("a", 90), named("b", 90)});
  QVERIFY(scene.settle());
  const PositionPlot& plot = scene.plot<curves::LossTab>();
  QCOMPARE(plot.content().lines.size(), std::size_t{6});
  QCOMPARE(plot.content().strips.size(), std::size_t{2});
  QCOMPARE(plot.horizontalLimits().upper, 59.5);
  QVERIFY2(scene.tab<curves::LossTab>().note().contains("a · run2, b read another text"),
           qPrintable(scene.tab<curves::LossTab>().note()));
  // The text of the run that is chosen is shown: two runs and their difference, and below them the other one.
  scene.document.runs().selection().setHead({scene.document.runs()[2].id, 0, 0});
  QVERIFY(scene.settle());
  QCOMPARE(plot.content().lines.size(), std::size_t{8});
  QCOMPARE(plot.content().strips.size(), std::size_t{3});
  QCOMPARE(plot.horizontalLimits().upper, 89.5);
  scene.document.clear();
  QVERIFY(scene.settle());
  QVERIFY(scene.tab<curves::LossTab>().message().startsWith("No model yet"));
  QTest::keyClick(&scene.plot<curves::LossTab>(), Qt::Key_Plus);
}

void CurvesViewTest::oneToken() {
  Scene scene({named("a", 1), named("b", 1)});
  scene.document.runs().selection().setPin({0, 0});
  const std::array<PositionPlot*, 4> plots{&scene.plot<curves::LossTab>(), &scene.plot<curves::ContextTab>(),
                                           &scene.plot<curves::ProfileTab>(), &scene.plot<curves::GateTab>()};
  for (const Tab tab : {Tab::loss, Tab::context, Tab::profile, Tab::gate}) {
    QVERIFY(scene.show(tab));
    PositionPlot* plot = plots[index_of(tab)];
    QVERIFY(plot->positionAt(plot->width() / 2.0) == 0);
    wheel(*plot, {plot->width() / 2, 20}, 3);
    wheel(*plot, {plot->width() / 2, 20}, -3);
    const Range one{0, 1};
    QCOMPARE(scene.document.runs().selection().view().rows, one);
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
  scene.document.runs().selection().setView({{65'000, 65'020}, {0, 65'536}});
  QVERIFY(scene.settle());
  scene.document.runs().selection().setHover({65'010, std::nullopt});
  const QString value = scene.tab<curves::LossTab>().readOut().entries()[0].value;
  QVERIFY(value.startsWith(numberText(static_cast<double>(loss[65'010]))));
  scene.document.runs().selection().setPin({65'000, std::nullopt});
  for (const Tab tab : {Tab::context, Tab::profile, Tab::gate, Tab::decay}) QVERIFY(scene.show(tab));
}

void CurvesViewTest::idsWithoutText() {
  SyntheticRun run = named("a", 40);
  run.with_text = false;
  Scene scene({run});
  QVERIFY(scene.settle());
  scene.document.runs().selection().setHover({5, std::nullopt});
  const TokenTable& tokens = *scene.document.runs()[0].trace->tokens();
  QVERIFY(scene.tab<curves::LossTab>().readOut().place().startsWith(
      "5 reads “" + readText(tokens, 5, Whitespace::visible) + "”, predicts"));
}

void CurvesViewTest::stateRoundTrip() {
  Scene scene({named("a", 60)});
  scene.view.findChild<QSpinBox*>()->setValue(51);
  scene.view.findChild<QComboBox*>()->setCurrentText("Tokens always");
  QVERIFY(scene.show(Tab::profile));
  choice(scene.view, "Distance").trigger();
  choice(scene.view, "A ungated").trigger();
  scene.view.showProfile(MapLine::Along::column);
  const QJsonObject state = scene.view.saveState();
  QCOMPARE(state["tab"].toString(), "row");
  QCOMPARE(state["row"].toObject()["line"].toString(), "column");
  Scene other({});
  QVERIFY(other.view.saveState() != state);
  other.view.restoreState(state);
  QCOMPARE(other.view.saveState(), state);
  QCOMPARE(other.view.tab(), Tab::profile);
  QCOMPARE(other.view.findChild<QSpinBox*>()->value(), 51);
  // What does not fit is left as it is.
  other.view.restoreState(
      {{"tab", "nonsense"}, {"loss", 7}, {"row", QJsonObject{{"logX", "yes"}, {"line", "circle"}}}});
  QCOMPARE(other.view.saveState(), state);
  other.view.restoreState({{"row", QJsonObject{{"line", "diagonal"}}}});
  QCOMPARE(other.tab<curves::ProfileTab>().along(), MapLine::Along::diagonal);
}

void CurvesViewTest::sessionsOfRowsAloneOpen() {
  Scene scene({named("a", 60)});
  scene.document.runs().selection().setPin({30, 10});
  // As it was saved when the tab drew rows alone.
  const QJsonObject row{
      {"distance", true}, {"logX", false},    {"logY", true}, {"attention", true}, {"attentionWithoutGate", false},
      {"forget", true},   {"logForget", true}};
  scene.view.restoreState({{"tab", "row"}, {"row", row}});
  QVERIFY(scene.settle());
  QCOMPARE(scene.view.tab(), Tab::profile);
  const curves::ProfileTab& tab = scene.tab<curves::ProfileTab>();
  QCOMPARE(tab.along(), MapLine::Along::row);
  QVERIFY(tab.data().startsWith("key,reads,A,A without gate,F,log F (nats)\n0,"));
  QCOMPARE(tab.data().count('\n'), 1 + 31);
  QCOMPARE(scene.plot<curves::ProfileTab>().content().lines.size(), std::size_t{3});
  QJsonObject saved = tab.saveState();
  QCOMPARE(saved.take("line").toString(), "row");
  QCOMPARE(saved, row);
}

namespace {

/// Of curves, where NaN is a gap.
bool same(const std::vector<double>& a, const std::vector<double>& b) {
  return std::ranges::equal(a, b, [](double x, double y) { return x == y || (std::isnan(x) && std::isnan(y)); });
}

/// Every line of a plot is in the figure: its values, its name, the scales and limits of its axes.
template <typename TabType>
void compareWithPlot(Scene& scene) {
  const PositionPlot& plot = scene.plot<TabType>();
  const auto figure = scene.view.figureOfCurrentTab();
  QVERIFY(figure.has_value());
  std::vector<figure::CurvePlot> parts{*figure};
  parts.insert(parts.end(), figure->below.begin(), figure->below.end());
  std::size_t part = 0;
  std::size_t named = 0;
  for (int strip = 0; strip < plot.strips(); ++strip) {
    for (const Side side : {Side::left, Side::right}) {
      std::vector<const curves::Line*> lines;
      for (std::size_t n = 0; n < plot.content().lines.size(); ++n) {
        const curves::Line& line = plot.content().lines[n];
        if (line.strip == strip && line.side == side && plot.isDrawn(n) && !line.name.isEmpty()) lines.push_back(&line);
      }
      if (lines.empty()) continue;
      QVERIFY(part < parts.size());
      const figure::CurvePlot& drawn = parts[part++];
      QCOMPARE(drawn.yScale, plot.content().strips[index_of(strip)].scale);
      QCOMPARE(drawn.xScale, plot.axis().scale);
      QCOMPARE(drawn.yLimits->lower, plot.verticalLimits(strip, side).lower);
      QCOMPARE(drawn.yLimits->upper, plot.verticalLimits(strip, side).upper);
      QCOMPARE(drawn.xLimits->lower, plot.horizontalLimits().lower);
      QCOMPARE(drawn.xLimits->upper, plot.horizontalLimits().upper);
      for (std::size_t n = 0; n < lines.size(); ++n, ++named) {
        QCOMPARE(drawn.curves[n].name, lines[n]->name.toStdString());
        QVERIFY(same(drawn.curves[n].y, lines[n]->series->value));
        const QColor colour = lines[n]->colour;
        QCOMPARE(static_cast<int>(drawn.curves[n].ownColour->red), colour.red());
        QCOMPARE(static_cast<int>(drawn.curves[n].ownColour->blue), colour.blue());
      }
    }
  }
  QCOMPARE(part, parts.size());
  QVERIFY(named > 0);
  QVERIFY(!figure::drawCurves(*figure, {}).empty());
}

void figuresAreAsShown(Scene& scene) {
  scene.view.setPalette(lightPalette());
  scene.view.resize(900, 600);
  QVERIFY(scene.settle());
  compareWithPlot<curves::LossTab>(scene);
  const auto figure = scene.view.figureOfCurrentTab();
  QCOMPARE(figure->below.size(), std::size_t{1});
  QCOMPARE(figure->below[0].curves[0].name, "a − b");
  QCOMPARE(figure->curves[0].rawY.size(), std::size_t{60});
  const double a = static_cast<double>(scene.document.runs()[0].trace->per_token_loss()[20]);
  const double b = static_cast<double>(scene.document.runs()[1].trace->per_token_loss()[20]);
  QCOMPARE(figure->below[0].curves[0].rawY[20], a - b);
  QVERIFY(scene.show(Tab::context));
  compareWithPlot<curves::ContextTab>(scene);
  QVERIFY(scene.show(Tab::gate));
  choice(scene.view, "Log x").trigger();
  QVERIFY(scene.settle());
  compareWithPlot<curves::GateTab>(scene);
  QVERIFY(scene.show(Tab::profile));
  for (const char* words : {"log F", "Log y", "Distance"}) choice(scene.view, words).trigger();
  QVERIFY(scene.settle());
  compareWithPlot<curves::ProfileTab>(scene);
  for (const auto along : {MapLine::Along::column, MapLine::Along::diagonal}) {
    scene.view.showProfile(along);
    QVERIFY(scene.settle());
    compareWithPlot<curves::ProfileTab>(scene);
  }
  scene.view.showProfile(MapLine::Along::row);
}

}  // namespace

void CurvesViewTest::exportsNumbersAndFigures() {
  Scene scene({named("a", 60), named("b", 60)});
  scene.document.runs().selection().setPin({30, 5});
  scene.document.runs().selection().setView({{10, 40}, {0, 20}});
  QVERIFY(scene.settle());
  const QStringList lines = scene.view.dataOfCurrentTab().split('\n');
  QCOMPARE(lines.size(), 62);
  QCOMPARE(lines[0],
           "position,reads,predicts,loss of a (nats),\"loss of a, mean of 5 (nats)\",loss of b (nats),"
           "\"loss of b, mean of 5 (nats)\",loss of a minus b (nats),\"loss of a minus b, mean of 5 (nats)\"");
  auto figure = scene.view.figureOfCurrentTab();
  QVERIFY(figure.has_value());
  QCOMPARE(figure->curves.size(), std::size_t{2});
  QCOMPARE(figure->curves[0].x.size(), std::size_t{60});
  // Single tokens have room here, so that they are shown.
  QCOMPARE(figure->curves[0].rawY.size(), std::size_t{60});
  scene.view.findChild<QComboBox*>()->setCurrentText("Means only");
  QVERIFY(scene.settle());
  QVERIFY(scene.view.figureOfCurrentTab()->curves[0].rawY.empty());
  scene.view.findChild<QComboBox*>()->setCurrentText("Tokens always");
  QVERIFY(scene.settle());
  QCOMPARE(scene.view.figureOfCurrentTab()->curves[0].rawY.size(), std::size_t{60});
  QCOMPARE(figure->xLimits->lower, 9.5);
  QCOMPARE(figure->runs.size(), std::size_t{2});
  QCOMPARE(figure->yLabel, "loss, nats");
  figuresAreAsShown(scene);
  for (const Tab tab : {Tab::context, Tab::profile, Tab::gate}) {
    QVERIFY(scene.show(tab));
    figure = scene.view.figureOfCurrentTab();
    QVERIFY(figure.has_value() && !figure->curves.empty());
    for (const figure::Curve& curve : figure->curves) QCOMPARE(curve.x.size(), curve.y.size());
    QVERIFY(scene.view.dataOfCurrentTab().count('\n') > 30);
  }
  QVERIFY(scene.show(Tab::decay));
  QVERIFY(!scene.view.figureOfCurrentTab());
}

void CurvesViewTest::aNameGivesWayOnlyToAValueWithoutRoom() {
  curves::ReadOut reading(nullptr);
  reading.resize(900, 60);
  reading.setEntries(
      {{"fox-pro-12m, layer 3, head 0", Qt::blue, Qt::SolidLine, "f = 0.9963, +6.571e−06 nats and more"}});
  const QImage whole = reading.grab().toImage();
  reading.setOneLine(true);
  QCOMPARE(reading.grab().toImage(), whole);
  reading.resize(300, 60);
  const QImage cut = reading.grab().toImage();
  QVERIFY(cut != whole.copy(cut.rect()));
}

void CurvesViewTest::differencesHaveSignsAndThreeTicks() {
  Scene scene({named("a", 60), named("b", 60)});
  scene.view.findChild<QComboBox*>()->setCurrentText("Means only");
  for (const int height : {400, 500, 700}) {
    scene.view.resize(900, height);
    QVERIFY(scene.settle());
    const PositionPlot& plot = scene.plot<curves::LossTab>();
    QCOMPARE(plot.strips(), 2);
    auto* axes = plot.findChild<QCustomPlot*>();
    axes->replot(QCustomPlot::rpImmediateRefresh);
    const QCPAxis* axis = axes->axisRect(1)->axis(QCPAxis::atLeft);
    const QVector<QString> labels = axis->tickVectorLabels();
    const QVector<double> ticks = axis->tickVector();
    QVERIFY2(labels.size() >= 3, qPrintable(QString::number(height)));
    QVERIFY(ticks.contains(0.0));
    for (qsizetype n = 0; n < ticks.size(); ++n) {
      QCOMPARE(labels[n].startsWith('+'), ticks[n] > 0);
      QCOMPARE(labels[n].startsWith(QChar(0x2212)), ticks[n] < 0);
    }
  }
}

void CurvesViewTest::tokensHaveTheRoomOfTheirList() {
  Document document;
  curves::TokenList list(document.runs(), {"predicted", "owed by the gate over this range, nats", {}}, nullptr);
  list.resize(240, 200);
  list.show();
  list.setTokens({{12, "␣thoroughbred", 0.25}, {1999, "a", 3.5}});
  QCoreApplication::processEvents();
  const QHeaderView& header = *list.horizontalHeader();
  const int token = header.sectionSize(curves::TokenListModel::token);
  QVERIFY2(token >= list.fontMetrics().horizontalAdvance("␣thoroughbred"), qPrintable(QString::number(token)));
  QVERIFY(header.sectionSize(curves::TokenListModel::value) >= list.fontMetrics().horizontalAdvance("0.25"));
  // Where there is room, titles have it.
  list.resize(900, 200);
  QCoreApplication::processEvents();
  QVERIFY(header.sectionSize(curves::TokenListModel::value) >=
          list.fontMetrics().horizontalAdvance("owed by the gate over this range, nats"));
}

void CurvesViewTest::commandsShowTabs() {
  Scene scene({});
  const QList<QAction*> commands = scene.view.commands();
  const std::vector<Tab> tabs{Tab::loss, Tab::context, Tab::profile,  Tab::profile, Tab::profile,
                              Tab::gate, Tab::decay,   Tab::distance, Tab::content, Tab::saliency};
  QCOMPARE(static_cast<std::size_t>(commands.size()), tabs.size());
  for (qsizetype n = commands.size() - 1; n >= 0; --n) {
    commands[n]->trigger();
    QCOMPARE(scene.view.tab(), tabs[index_of(n)]);
    QVERIFY(!commands[n]->text().isEmpty() && !commands[n]->toolTip().isEmpty());
  }
  for (const auto& [words, along] : {std::pair{"Show the pinned query's row", MapLine::Along::row},
                                     std::pair{"Show the pinned key's column", MapLine::Along::column},
                                     std::pair{"Show the pinned pair's diagonal", MapLine::Along::diagonal}}) {
    const auto command = std::find_if(commands.begin(), commands.end(),
                                      [text = QString(words)](const QAction* one) { return one->text() == text; });
    QVERIFY(command != commands.end());
    (*command)->trigger();
    QCOMPARE(scene.tab<curves::ProfileTab>().along(), along);
  }
}

// Beside the tabs, or below them where there is no room.
void CurvesViewTest::choicesAreAllSeen() {
  Scene scene({named("a", 80)});
  QVERIFY(scene.settle());
  for (const int width : {480, 1200}) {
    scene.view.resize(width, 400);
    for (const Tab tab : {Tab::loss, Tab::context, Tab::profile, Tab::gate, Tab::distance, Tab::content}) {
      QVERIFY(scene.show(tab));
      QCoreApplication::processEvents();
      const auto tabs = scene.view.findChildren<CurveTab*>();
      const auto* shown =
          *std::find_if(tabs.begin(), tabs.end(), [](const CurveTab* each) { return each->isVisible(); });
      QToolBar& choices = *shown->controls();
      const bool beside = choices.mapTo(&scene.view, QPoint()).x() > scene.view.findChild<QTabBar*>()->width();
      QVERIFY(beside || width == 480);
      if (tab == Tab::loss) QCOMPARE(beside, width == 1200);
      for (QAction* choice : choices.actions()) {
        QWidget* widget = choices.widgetForAction(choice);
        QVERIFY2(widget->isVisible() && choices.rect().contains(widget->geometry()), qPrintable(choice->text()));
      }
    }
    QVERIFY(scene.show(Tab::decay));
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

FOXSCOPE_GUI_SUBJECT(curves_view, foxscope::gui::test::CurvesViewTest)
#include "backend/base/index.h"
#include "curves_view_test.moc"
