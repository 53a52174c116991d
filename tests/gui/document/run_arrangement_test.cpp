#include "app/gui/document/runs/run_arrangement.h"

#include <algorithm>
#include <set>

#include <QSignalSpy>
#include <QTest>

#include "app/figure/curves/curve_palette.h"
#include "app/gui/document/runs/run_list.h"
#include "tests/file/synthetic_trace.h"
#include "tests/gui/subject.h"

namespace foxscope::gui::test {

class RunArrangementTest : public QObject {
  Q_OBJECT

 private slots:
  void madeRunsStandInTheOrderOfTheirModels();
  void whatAModelMadeOnAnotherTextGoes();
  void equalTextsHaveOneNumber();
  void coloursDifferWhileThereAreSome();
  void namesOfModelsDiffer();
  void aListNeedsNoDocument();
};

namespace {

/// A run of a model NAME, made here from /models/NAME or, with a file, read from that.
Run makeRun(RunId id, const char* name, std::int64_t length = 37, const QString& file = {}) {
  foxscope::test::SyntheticRun content;
  content.name = name;
  content.length = length;
  Run run{id, QString::fromLatin1(name), foxscope::test::make_trace(content)};
  run.file = file;
  if (file.isEmpty()) run.model = QStringLiteral("/models/") + QLatin1String(name);
  return run;
}

ModelInput modelOf(const char* name) {
  return {QString::fromLatin1(name), QStringLiteral("/models/") + QLatin1String(name)};
}

QStringList namesOf(const std::vector<Run>& runs) {
  QStringList names;
  for (const Run& run : runs) names += run.plainName();
  return names;
}

}  // namespace

void RunArrangementTest::madeRunsStandInTheOrderOfTheirModels() {
  const std::vector<ModelInput> models{modelOf("a"), modelOf("b"), modelOf("c")};
  std::vector<Run> made{makeRun(1, "a"), makeRun(2, "b"), makeRun(3, "c")};
  const auto byId = [](const Run& a, const Run& b) { return a.id < b.id; };
  do {
    std::vector<Run> runs{makeRun(9, "file", 37, QStringLiteral("/runs/file.h5"))};
    for (const Run& run : made) placeMade(runs, models, run);
    QCOMPARE(namesOf(runs), (QStringList{"file", "a", "b", "c"}));
    // Made once more, a run has the place of the one before.
    placeMade(runs, models, makeRun(7, "b"));
    QCOMPARE(namesOf(runs), (QStringList{"file", "a", "b", "c"}));
    QCOMPARE(runs[2].id, 7);
  } while (std::next_permutation(made.begin(), made.end(), byId));
}

void RunArrangementTest::whatAModelMadeOnAnotherTextGoes() {
  std::vector<Run> runs{makeRun(1, "file", 37, QStringLiteral("/runs/file.h5")), makeRun(2, "a"), makeRun(3, "b")};
  placeMade(runs, {modelOf("a"), modelOf("b")}, makeRun(4, "b", 50));
  QCOMPARE(namesOf(runs), (QStringList{"file", "b"}));
  QCOMPARE(runs[1].id, 4);
}

void RunArrangementTest::equalTextsHaveOneNumber() {
  int last = 0;
  std::vector<Run> runs{makeRun(1, "a"), makeRun(2, "b", 50), makeRun(3, "c")};
  numberTexts(runs, {}, last);
  QCOMPARE(runs[0].text, runs[2].text);
  QVERIFY(runs[0].text != runs[1].text && runs[0].text > 0 && runs[1].text > 0);
  QCOMPARE(last, 2);
  // A number is kept for as long as a run has it, and never given twice.
  std::vector<Run> less{runs[1]};
  numberTexts(less, runs, last);
  QCOMPARE(less[0].text, runs[1].text);
  std::vector<Run> more{less[0], runs[0], makeRun(4, "d", 60)};
  numberTexts(more, less, last);
  QCOMPARE(more[0].text, less[0].text);
  QCOMPARE((std::set<int>{more[0].text, more[1].text, more[2].text}.size()), 3U);
  QVERIFY(more[1].text > 2 && more[2].text > 2);
}

void RunArrangementTest::coloursDifferWhileThereAreSome() {
  std::vector<ModelInput> models;
  std::set<int> colours;
  for (int number = 0; number < figure::kCurveColours; ++number) {
    ModelInput model = modelOf("model");
    model.look.colour = freeColour({}, models);
    colours.insert(model.look.colour);
    models.push_back(model);
  }
  QCOMPARE(colours.size(), static_cast<std::size_t>(figure::kCurveColours));
  // The first one free is taken again.
  models.erase(models.begin() + 2);
  QCOMPARE(freeColour({}, models), 2);
  // A changed copy has its model's colour, and takes no other.
  models.push_back(models[0]);
  models.back().look = lookOfChanged(models, models[0], {QStringLiteral("0:0:cut")});
  QCOMPARE(models.back().look.colour, models[0].look.colour);
  QCOMPARE(freeColour({}, models), 2);
}

void RunArrangementTest::namesOfModelsDiffer() {
  std::vector<ModelInput> models;
  for (const char* name : {"fox", "fox-2", "fox-3"}) {
    models.push_back(modelOf("fox"));
    models.back().name = freeModelName({models.begin(), models.end() - 1}, QStringLiteral("fox"));
    QCOMPARE(models.back().name, QString::fromLatin1(name));
  }
}

void RunArrangementTest::aListNeedsNoDocument() {
  RunList list;
  QSignalSpy changed(&list, &RunList::runsChanged);
  list.addOfFile(
      {makeRun(1, "a", 37, QStringLiteral("/runs/a.h5")), makeRun(2, "b", 50, QStringLiteral("/runs/b.h5"))});
  QCOMPARE(changed.size(), 1);
  QCOMPARE(list.selection().head().run, 1);
  QCOMPARE(list.length(), 37);
  list.selection().setHead({2, 0, 0});
  QCOMPARE(list.length(), 50);
  list.removeRun(2);
  QCOMPARE(list.size(), 1U);
  QCOMPARE(list.length(), 37);
  list.undoStack().undo();
  QCOMPARE(list.size(), 2U);
  QCOMPARE(list[1].name, "b");
}

}  // namespace foxscope::gui::test

FOXSCOPE_GUILESS_SUBJECT(run_arrangement, foxscope::gui::test::RunArrangementTest)
#include "run_arrangement_test.moc"
