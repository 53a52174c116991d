// A row, a column and a diagonal of a head's map: what is drawn are the entries of the definition.
#include "app/gui/curves/tabs/profile_tab.h"

#include <cmath>

#include <QComboBox>
#include <QMimeData>
#include <QTest>

#include "app/gui/document/number_text.h"
#include "tests/gui/curves/scene.h"
#include "tests/gui/subject.h"

namespace foxscope::gui::test {

class ProfileTabTest : public QObject {
  Q_OBJECT

 private slots:
  void rowIsOfThePinnedElseTheHoveredQuery();
  void rowAgainstDistance();
  void rowWithoutQueriesAndKeys();
  void columnIsOfThePinnedElseTheHoveredKey();
  void columnAgainstDistance();
  void diagonalIsOfThePinnedElseTheHoveredPair();
  void aDiagonalOutsideTheWindowIsEmpty();
  void aLineOfALinearMixerWaitsForItsRows();
  void aLineAsksForWhatItNeeds();
};

void ProfileTabTest::rowIsOfThePinnedElseTheHoveredQuery() {
  Scene scene({named("a", 100)});
  QVERIFY(scene.show(Tab::profile));
  const CurveTab& tab = scene.tab<curves::ProfileTab>();
  QVERIFY(tab.message().startsWith("Pin a query to see its row"));
  Selection& selection = scene.document.runs().selection();
  selection.setHead({scene.document.runs()[0].id, 1, 2});
  selection.setHover({40, std::nullopt});
  QVERIFY(scene.settle());
  QCOMPARE(tab.message(), "");
  QVERIFY(tab.data().count('\n') == 42);
  // The mouse in the row's own plot keeps the row.
  PositionPlot& plot = scene.plot<curves::ProfileTab>();
  moveMouse(plot, at(plot, 30));
  const Cursor hovered{40, 30};
  QTRY_COMPARE(selection.hover(), hovered);
  selection.setPin({60, 10});
  selection.setHover({20, std::nullopt});
  QVERIFY(scene.settle());
  QVERIFY(tab.data().count('\n') == 62);
  selection.setHover({});
  const HeadOf head = *scene.document.runs().headOf(selection.head());
  MapRequest request;
  request.head = head;
  request.rows = {60, 61};
  request.columns = {0, 61};
  request.pixel_rows = 1;
  request.pixel_columns = 61;
  const double attention = static_cast<double>(compute_map(request, {})->value[10]);
  const curves::ReadOut& reading = scene.tab<curves::ProfileTab>().readOut();
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

void ProfileTabTest::rowAgainstDistance() {
  Scene scene({named("a", 100)});
  scene.document.runs().selection().setPin({60, std::nullopt});
  QVERIFY(scene.show(Tab::profile));
  choice(scene.view, "Distance").trigger();
  QVERIFY(scene.settle());
  PositionPlot& plot = scene.plot<curves::ProfileTab>();
  QCOMPARE(plot.horizontalLimits().lower, -0.5);
  QCOMPARE(plot.horizontalLimits().upper, 60.5);
  QVERIFY(plot.pixelOf(60) < plot.pixelOf(59));
  QTest::mouseClick(&plot, Qt::LeftButton, Qt::ShiftModifier, at(plot, 45));
  QCOMPARE(scene.document.runs().selection().pin().key, std::optional<std::int64_t>(45));
  choice(scene.view, "Log x").trigger();
  choice(scene.view, "Log y").trigger();
  QVERIFY(scene.settle());
  QCOMPARE(plot.horizontalLimits().lower, 0.5);
  QVERIFY(plot.verticalLimits(0, Side::left).lower > 0);
}

void ProfileTabTest::rowWithoutQueriesAndKeys() {
  SyntheticRun run = named("a", 50);
  run.keep = {Keep::loss, Keep::gates};
  Scene scene({run});
  scene.document.runs().selection().setPin({30, std::nullopt});
  QVERIFY(scene.show(Tab::profile));
  const curves::ProfileTab& tab = scene.tab<curves::ProfileTab>();
  QCOMPARE(tab.note(), "No attention: queries, keys or row normalisers of a were not kept (--keep rows,qk).");
  QCOMPARE(scene.plot<curves::ProfileTab>().content().lines.size(), std::size_t{1});
  choice(scene.view, "log F").trigger();
  QVERIFY(scene.settle());
  QCOMPARE(scene.plot<curves::ProfileTab>().content().lines.size(), std::size_t{2});
  QVERIFY(tab.data().startsWith("key,reads,F,log F (nats)\n"));
}

namespace {

/// F(i, j) and A(i, j) of the definition, in float64 from the trace's own numbers.
double forgetEntry(const HeadOf& head, std::int64_t i, std::int64_t j) {
  const auto c = head.trace->cumulative_log_gate(head.layer, head.head);
  return std::exp(c[index_of(i)] - c[index_of(j)]);
}

double attentionEntry(const HeadOf& head, std::int64_t i, std::int64_t j) {
  using Part = QueryKeyStore::Part;
  const TraceInfo& info = head.trace->info();
  std::vector<float> scratch;
  std::vector<float> otherScratch;
  const QueryKeyStore& store = head.trace->require_query_key();
  const auto q = store.rows(Part::query, head.layer, head.head, i, i + 1, scratch);
  const auto k =
      store.rows(Part::key, head.layer, shared_head(info.heads, info.key_heads, head.head), j, j + 1, otherScratch);
  double logit = 0;
  for (std::size_t n = 0; n < q.size(); ++n) logit += static_cast<double>(q[n]) * static_cast<double>(k[n]);
  logit *= static_cast<double>(info.softmax_scale);
  const auto lse = head.trace->log_normalizer(head.layer, head.head);
  return forgetEntry(head, i, j) * std::exp(logit - static_cast<double>(lse[index_of(i)]));
}

bool isEntry(double value, double expected) { return std::abs(value - expected) <= 1e-5 * std::abs(expected); }

void chooseLine(Scene& scene, const QString& name) {
  for (auto* box : scene.view.findChildren<QComboBox*>()) {
    if (box->accessibleName() == "Line of the map") box->setCurrentText(name);
  }
}

/// Lines of a table, each by its fields; tokens of these tests hold no comma.
std::vector<QStringList> fieldsOf(const QString& table, QChar separator) {
  std::vector<QStringList> lines;
  for (const QString& line : table.split('\n', Qt::SkipEmptyParts)) lines.push_back(line.split(separator));
  return lines;
}

}  // namespace

void ProfileTabTest::columnIsOfThePinnedElseTheHoveredKey() {
  Scene scene({named("a", 100)});
  QVERIFY(scene.show(Tab::profile));
  const CurveTab& tab = scene.tab<curves::ProfileTab>();
  chooseLine(scene, "Column");
  QVERIFY(tab.message().startsWith("Pin a key to see its column"));
  Selection& selection = scene.document.runs().selection();
  selection.setHead({scene.document.runs()[0].id, 1, 2});
  selection.setHover({40, 30});
  QVERIFY(scene.settle());
  QCOMPARE(tab.data().count('\n'), 1 + 70);
  // The mouse in the column's own plot keeps the column, and goes no further than its key.
  PositionPlot& plot = scene.plot<curves::ProfileTab>();
  QCOMPARE(plot.content().xLabel, "query position, tokens");
  moveMouse(plot, at(plot, 50));
  const Cursor hovered{50, 30};
  QTRY_COMPARE(selection.hover(), hovered);
  moveMouse(plot, at(plot, 10));
  const Cursor first{30, 30};
  QTRY_COMPARE(selection.hover(), first);
  selection.setPin({60, 10});
  selection.setHover({20, std::nullopt});
  QVERIFY(scene.settle());
  selection.setHover({});
  const HeadOf head = *scene.document.runs().headOf(selection.head());
  const curves::ReadOut& reading = scene.tab<curves::ProfileTab>().readOut();
  QCOMPARE(reading.entries().size(), std::size_t{3});
  QCOMPARE(reading.entries()[0].name, "A");
  const double attention = attentionEntry(head, 60, 10);
  QCOMPARE(reading.entries()[0].value, numberText(attention));
  QVERIFY(reading.place().contains("layer 1, head 2: key 10 reads"));
  QVERIFY(reading.place().contains(", query 60 reads"));
  QVERIFY(reading.place().endsWith("distance 50"));
  // Eight queries are named, the strongest first.
  QCOMPARE(plot.content().marks.size(), std::size_t{8});
  const auto query = static_cast<std::int64_t>(plot.content().marks[0].point.position);
  QCOMPARE(plot.content().marks[0].label, readText(*head.trace->tokens(), query, Whitespace::visible));
  QVERIFY(plot.content().marks[0].point.value >= plot.content().marks[7].point.value);
  // The numbers that leave the window are the entries.
  const auto lines = fieldsOf(tab.data(), ',');
  QCOMPARE(tab.data().section('\n', 0, 0), "query,reads,A,A without gate,F,log F (nats)");
  QCOMPARE(lines.size(), std::size_t{1 + 90});
  for (std::int64_t i = 10; i < 100; ++i) {
    const QStringList& fields = lines[index_of(1 + i - 10)];
    QCOMPARE(fields.front().toLongLong(), i);
    QVERIFY(isEntry(fields[fields.size() - 4].toDouble(), attentionEntry(head, i, 10)));
    QVERIFY(isEntry(fields[fields.size() - 2].toDouble(), forgetEntry(head, i, 10)));
  }
  const std::unique_ptr<QMimeData> copied(scene.view.copied());
  QVERIFY(copied->text().startsWith("query\treads\tA\tA without gate\tF\tlog F (nats)\n10\t"));
  QCOMPARE(copied->text().count('\n'), 1 + 90);
  const auto figure = scene.view.figureOfCurrentTab();
  QCOMPARE(figure->title, "a, layer 1, head 2, key 10");
  QCOMPARE(figure->runs.size(), std::size_t{1});
  // A click moves along the column, with Shift to another one.
  QTest::mouseClick(&plot, Qt::LeftButton, Qt::NoModifier, at(plot, 80));
  const Cursor along{80, 10};
  QCOMPARE(selection.pin(), along);
  QTest::mouseClick(&plot, Qt::LeftButton, Qt::NoModifier, at(plot, 5));
  const Cursor clamped{10, 10};
  QCOMPARE(selection.pin(), clamped);
  QTest::mouseClick(&plot, Qt::LeftButton, Qt::ShiftModifier, at(plot, 7));
  QVERIFY(scene.settle());
  QVERIFY(scene.tab<curves::ProfileTab>().readOut().place().contains("key 7 reads"));
}

void ProfileTabTest::columnAgainstDistance() {
  Scene scene({named("a", 100)});
  scene.document.runs().selection().setPin({60, 40});
  QVERIFY(scene.show(Tab::profile));
  chooseLine(scene, "Column");
  choice(scene.view, "Distance").trigger();
  QVERIFY(scene.settle());
  PositionPlot& plot = scene.plot<curves::ProfileTab>();
  QCOMPARE(plot.content().xLabel, "distance from the key, tokens");
  QCOMPARE(plot.horizontalLimits().lower, -0.5);
  QCOMPARE(plot.horizontalLimits().upper, 59.5);
  QVERIFY(plot.pixelOf(60) > plot.pixelOf(59));
  QTest::mouseClick(&plot, Qt::LeftButton, Qt::NoModifier, at(plot, 45));
  QCOMPARE(scene.document.runs().selection().pin().query, std::optional<std::int64_t>(45));
  QTest::keyClick(&plot, Qt::Key_Right);
  QCOMPARE(scene.document.runs().selection().pin().query, std::optional<std::int64_t>(46));
  choice(scene.view, "Log x").trigger();
  choice(scene.view, "Log y").trigger();
  QVERIFY(scene.settle());
  QCOMPARE(plot.content().xLabel, "1 + distance from the key, tokens");
  QCOMPARE(plot.horizontalLimits().lower, 0.5);
  QVERIFY(plot.verticalLimits(0, Side::left).lower > 0);
  // The range of a column is that of the queries.
  scene.document.runs().selection().setView({{50, 70}, {0, 100}});
  QCOMPARE(plot.horizontalLimits().lower, 10.5);
  QCOMPARE(plot.horizontalLimits().upper, 30.5);
}

void ProfileTabTest::diagonalIsOfThePinnedElseTheHoveredPair() {
  Scene scene({named("a", 100)});
  QVERIFY(scene.show(Tab::profile));
  const CurveTab& tab = scene.tab<curves::ProfileTab>();
  chooseLine(scene, "Diagonal");
  QVERIFY(tab.message().startsWith("Pin a pair to see its diagonal"));
  QVERIFY(!choice(scene.view, "Distance").isEnabled());
  Selection& selection = scene.document.runs().selection();
  selection.setHead({scene.document.runs()[0].id, 0, 1});
  selection.setPin({60, std::nullopt});
  selection.setHover({40, 30});
  QVERIFY(scene.settle());
  QCOMPARE(tab.data().count('\n'), 1 + 90);
  // The mouse in the diagonal's own plot stays on the diagonal.
  PositionPlot& plot = scene.plot<curves::ProfileTab>();
  QCOMPARE(plot.content().xLabel, "query position, tokens");
  moveMouse(plot, at(plot, 50));
  const Cursor hovered{50, 40};
  QTRY_COMPARE(selection.hover(), hovered);
  selection.setPin({60, 35});
  selection.setHover({});
  QVERIFY(scene.settle());
  const HeadOf head = *scene.document.runs().headOf(selection.head());
  const curves::ReadOut& reading =
      tab.isVisible() ? scene.tab<curves::ProfileTab>().readOut() : scene.tab<curves::LossTab>().readOut();
  QVERIFY(reading.place().startsWith("a, layer 0, head 1: distance 25, query 60 reads"));
  QVERIFY(reading.place().contains(", key 35 reads"));
  const auto lines = fieldsOf(tab.data(), ',');
  QVERIFY(tab.data().startsWith("query,reads,key,key reads,A,A without gate,F,log F (nats)\n25,"));
  QCOMPARE(lines.size(), std::size_t{1 + 75});
  for (std::int64_t i = 25; i < 100; ++i) {
    const QStringList& fields = lines[index_of(1 + i - 25)];
    QCOMPARE(fields.front().toLongLong(), i);
    QVERIFY(fields.contains(QString::number(i - 25)));
    QVERIFY(isEntry(fields[fields.size() - 4].toDouble(), attentionEntry(head, i, i - 25)));
    QVERIFY(isEntry(fields[fields.size() - 2].toDouble(), forgetEntry(head, i, i - 25)));
  }
  QCOMPARE(scene.view.figureOfCurrentTab()->title, "a, layer 0, head 1, distance 25");
  // Clicks and arrows move the pair along the diagonal.
  QTest::mouseClick(&plot, Qt::LeftButton, Qt::NoModifier, at(plot, 80));
  const Cursor clicked{80, 55};
  QCOMPARE(selection.pin(), clicked);
  QTest::keyClick(&plot, Qt::Key_Left);
  const Cursor stepped{79, 54};
  QCOMPARE(selection.pin(), stepped);
  selection.setHover({});
  QVERIFY(reading.place().contains("distance 25, query 79 reads"));
  choice(scene.view, "Log x").trigger();
  QVERIFY(scene.settle());
  QCOMPARE(plot.content().xLabel, "1 + query position, tokens");
  chooseLine(scene, "Row");
  QVERIFY(scene.settle());
  QVERIFY(choice(scene.view, "Distance").isEnabled());
  QVERIFY(reading.place().contains("query 79 reads"));
}

void ProfileTabTest::aDiagonalOutsideTheWindowIsEmpty() {
  SyntheticRun run = named("a", 60);
  run.window_size = 20;
  Scene scene({run});
  scene.document.runs().selection().setPin({50, 30});
  QVERIFY(scene.show(Tab::profile));
  scene.view.showProfile(MapLine::Along::diagonal);
  QVERIFY(scene.settle());
  const CurveTab& tab = scene.tab<curves::ProfileTab>();
  QCOMPARE(tab.note(), "Distance 20 lies outside the window of 20 tokens.");
  QVERIFY(scene.plot<curves::ProfileTab>().content().marks.empty());
  scene.document.runs().selection().setPin({49, 30});
  QVERIFY(scene.settle());
  QCOMPARE(tab.note(), "");
  QVERIFY(!scene.plot<curves::ProfileTab>().content().marks.empty());
}

void ProfileTabTest::aLineOfALinearMixerWaitsForItsRows() {
  Scene scene({linearRun()});
  scene.document.runs().selection().setPin({50, 30});
  QVERIFY(scene.show(Tab::profile));
  const HeadOf head = *scene.document.runs().headOf(scene.document.runs().selection().head());
  const CurveTab& tab = scene.tab<curves::ProfileTab>();
  const PositionPlot& plot = scene.plot<curves::ProfileTab>();
  for (const auto along : {MapLine::Along::column, MapLine::Along::diagonal}) {
    scene.view.showProfile(along);
    QVERIFY(scene.settle());
    QVERIFY2(!tab.note().contains("being computed"), qPrintable(tab.note()));
    const MapLine line = MapLine::through(along, 50, 30);
    const auto expected = line_entries({head, {}, Quantity::attention, FirstKey::counted, line, {50, 51}}, {});
    const auto& lines = plot.content().lines;
    const auto drawn =
        std::find_if(lines.begin(), lines.end(), [](const curves::Line& one) { return one.name == "A"; });
    QVERIFY(drawn != lines.end());
    QVERIFY(isEntry(drawn->series->value[50], static_cast<double>(expected->front())));
    QVERIFY(tab.data().contains(",A,F,"));
  }
}

void ProfileTabTest::aLineAsksForWhatItNeeds() {
  Scene scene({});
  const std::vector<std::shared_ptr<const Trace>> runs{cutRun("long", {1, 1, 1, 1, 1, 1, 1, 1}),
                                                       cutRun("short", {1, 1, 1, 1})};
  const QString path = scene.folder.path("lengths.h5");
  write_run_file(path.toStdString(), runs, {"test", ""}, Overwrite::force, {});
  scene.document.open({path});
  QVERIFY(waitUntilIdle(scene.document));
  Selection& selection = scene.document.runs().selection();
  const curves::ProfileTab& tab = scene.tab<curves::ProfileTab>();
  const auto messageOf = [&](MapLine::Along along) {
    scene.view.showProfile(along);
    return scene.settle() && tab.data().isEmpty() ? tab.message() : QString();
  };
  selection.setPin({5, std::nullopt});
  QVERIFY(messageOf(MapLine::Along::column).startsWith("Pin a key to see its column"));
  QVERIFY(messageOf(MapLine::Along::diagonal).startsWith("Pin a pair to see its diagonal"));
  // What a shorter run has not read has no line in it.
  selection.setHead({scene.document.runs()[1].id, 0, 0});
  selection.setPin({7, 6});
  const QString words = "short was run over 4 tokens and has not read as far as %1: pin another, or run it again.";
  QCOMPARE(messageOf(MapLine::Along::column), words.arg("key 6"));
  QCOMPARE(messageOf(MapLine::Along::diagonal), words.arg("query 7"));
  QCOMPARE(messageOf(MapLine::Along::row), words.arg("query 7"));
  // A key that it has read has a column, to the end of the run.
  selection.setPin({7, 1});
  scene.view.showProfile(MapLine::Along::column);
  QVERIFY(scene.settle());
  QCOMPARE(tab.data(), "query,reads,F,log F (nats)\n1,a,1,0\n2,b,1,0\n3,c,1,0\n");
}

}  // namespace foxscope::gui::test

FOXSCOPE_GUI_SUBJECT(profile_tab, foxscope::gui::test::ProfileTabTest)
#include "backend/base/index.h"
#include "profile_tab_test.moc"
