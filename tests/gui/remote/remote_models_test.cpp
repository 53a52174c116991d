#include <cmath>

#include <QFile>
#include <QTest>

#include "app/gui/document/remote/remote_place.h"
#include "app/gui/document/runs/evaluated_model.h"
#include "app/gui/training/training_view.h"
#include "app/gui/window/run_bar.h"
#include "backend/base/error.h"
#include "backend/file/run_file.h"
#include "backend/model/session/engine.h"
#include "backend/model/weights/checkpoint.h"
#include "tests/gui/remote/machine.h"
#include "tests/gui/subject.h"
#include "tests/gui/training/written_training.h"

namespace foxscope::gui::test {

class RemoteModelsTest : public QObject {
  Q_OBJECT

 private slots:
  void initTestCase() { useOwnSettings(); }
  void aModelRunsThereAsItDoesHere();
  void aRunThereIsCancelled();
  void aChangeRunsThere();
  void aRunStaysThereUntilItIsSaved();
  void aRunIsSavedThere();
  void whatRanIsNotRunTwice();
  void whatAMachineRefusesIsSaid();
  void aTrainingIsAFilmWhileItGoesOn();
  void aTrainingThatIsNoneIsSaidInALine();
  void tokenIdsRun();
  void anEvaluatedModelIsFoundByItsWeights();
};

namespace {

constexpr const char* kText = "The fox ran over the hill, and nobody saw the fox.";

struct ModelsShown {
  Machine machine;
  RemoteWindow window;

  ModelsShown() { QFile::link(foxModel(), machine.folder.path("fox")); }
  Document& document() { return window.document(); }
  RunList& runs() { return window.document().runs(); }
  bool openModel(const QString& device = "cpu") {
    document().open({machine.url("fox")}, device);
    return QTest::qWaitFor([&] { return runs().models().size() == 1; }, kPatience);
  }
  void start() {
    document().modelRuns().setText({{}, kText});
    document().modelRuns().startRun();
  }
  bool run() {
    start();
    return QTest::qWaitFor([&] { return !document().modelRuns().runStatus().running; }, kPatience) && window.settle() &&
           !runs().empty();
  }
};

double largestDifference(std::span<const float> a, std::span<const float> b) {
  if (a.size() != b.size()) return INFINITY;
  double largest = 0;
  for (std::size_t n = 0; n < a.size(); ++n) largest = std::max(largest, std::abs(double{a[n]} - double{b[n]}));
  return largest;
}

}  // namespace

void RemoteModelsTest::aModelRunsThereAsItDoesHere() {
  ModelsShown shown;
  QVERIFY(shown.openModel());
  QVERIFY2(shown.run(), qPrintable(shown.window.window.messages().join('\n')));
  const Run there = shown.runs()[0];
  QCOMPARE(there.host, "box");
  QCOMPARE(there.model, shown.machine.url("fox"));
  QVERIFY(there.forwardSeconds > 0);
  // The same model here stands beside it, to be compared.
  shown.document().open({foxModel()});
  QVERIFY(waitUntilIdle(shown.document()));
  RunSettings settings = shown.document().modelRuns().settings();
  settings.device = DeviceChoice::parse("cpu");
  shown.document().modelRuns().setSettings(settings);
  QVERIFY(shown.run());
  QCOMPARE(shown.runs().size(), 2U);
  QCOMPARE(shown.runs().runsOnText().size(), 2U);
  QVERIFY(shown.runs()[1].host.isEmpty());
  QVERIFY(largestDifference(shown.runs()[0].trace->per_token_loss(), shown.runs()[1].trace->per_token_loss()) < 1e-5);
  const auto c = [&](std::size_t run) { return shown.runs()[run].trace->cumulative_log_gate(3, 1); };
  QCOMPARE(c(0).size(), c(1).size());
  for (std::size_t n = 0; n < c(0).size(); ++n) QVERIFY(std::abs(c(0)[n] - c(1)[n]) < 1e-4);
}

void RemoteModelsTest::aRunThereIsCancelled() {
  ModelsShown shown;
  QVERIFY(shown.openModel());
  shown.machine.freeze();
  shown.start();
  QVERIFY(shown.document().modelRuns().runStatus().running);
  shown.document().modelRuns().cancelRun();
  QVERIFY(!shown.document().modelRuns().runStatus().running);
  shown.machine.thaw();
  QVERIFY(waitUntilIdle(shown.document()));
  QVERIFY(shown.runs().empty());
}

void RemoteModelsTest::aChangeRunsThere() {
  ModelsShown shown;
  QVERIFY(shown.openModel());
  QVERIFY(shown.run());
  shown.document().modelRuns().startDerivedRun(shown.runs()[0].id, {"1:2:one"});
  QVERIFY(QTest::qWaitFor([&] { return shown.runs().size() == 2; }, kPatience));
  QCOMPARE(shown.runs()[1].host, "box");
  QVERIFY(QString::fromStdString(shown.runs()[1].trace->info().intervention).contains("one"));
  const auto c = shown.runs()[1].trace->cumulative_log_gate(1, 2);
  QVERIFY(std::ranges::all_of(c, [](double value) { return value == 0; }));
}

void RemoteModelsTest::aRunStaysThereUntilItIsSaved() {
  ModelsShown shown;
  QVERIFY(shown.openModel());
  QVERIFY(shown.run());
  const QString there = shown.runs()[0].file;
  const QString cache = qEnvironmentVariable("XDG_CACHE_HOME") + "/foxscope/runs/";
  QVERIFY2(there.startsWith("ssh://box" + cache + "fox-"), qPrintable(there));
  QVERIFY(shown.document().sessions().unsaved().runs.isEmpty());
  const QString here = shown.machine.folder.path("saved.h5");
  shown.document().files().saveRunFile(here);
  QVERIFY(QTest::qWaitFor([&] { return shown.window.said("Saved " + here); }, kPatience));
  const RunFile saved = RunFile::open(here.toStdString(), RunCheck::whole);
  QVERIFY(largestDifference(saved.traces[0]->per_token_loss(), shown.runs()[0].trace->per_token_loss()) == 0);
  QCOMPARE(shown.runs()[0].file, here);
  QCOMPARE(shown.runs()[0].host, "box");
}

void RemoteModelsTest::aRunIsSavedThere() {
  ModelsShown shown;
  QVERIFY(shown.openModel());
  QVERIFY(shown.run());
  const QString made = pathThere(shown.runs()[0].file);
  const QString saved = "ssh://box" + shown.machine.folder.path("there.h5");
  shown.document().files().saveRunFile(saved);
  QVERIFY(QTest::qWaitFor([&] { return shown.window.said("Saved " + saved); }, kPatience));
  QCOMPARE(shown.runs()[0].file, saved);
  QFile one(made);
  QFile two(shown.machine.folder.path("there.h5"));
  QVERIFY(one.open(QIODevice::ReadOnly) && two.open(QIODevice::ReadOnly));
  QVERIFY(one.readAll() == two.readAll());
  // What is there is not written over.
  shown.document().files().saveRunFile(saved);
  QVERIFY(QTest::qWaitFor([&] { return shown.window.said("exists"); }, kPatience));
}

void RemoteModelsTest::whatRanIsNotRunTwice() {
  ModelsShown shown;
  QVERIFY(shown.openModel());
  shown.machine.freeze();
  shown.start();
  QVERIFY(QTest::qWaitFor([&] { return shown.document().modelRuns().busy(); }, kPatience));
  shown.machine.cut();
  QVERIFY(QTest::qWaitFor([&] { return !shown.document().modelRuns().runStatus().running; }, kPatience));
  // Where the run goes was asked again over a new connection, or the run itself ended with the old one.
  QVERIFY(waitUntilIdle(shown.document()));
  QVERIFY(shown.runs().size() == 1 || shown.window.said("what was going on there has ended with it: start it again"));
}

void RemoteModelsTest::whatAMachineRefusesIsSaid() {
  ModelsShown shown;
  QVERIFY(shown.openModel("cuda:99"));
  shown.start();
  QVERIFY(QTest::qWaitFor([&] { return shown.window.said("box: "); }, kPatience));
  QVERIFY2(shown.window.said("cuda"), qPrintable(shown.window.window.messages().join('\n')));
  QVERIFY(shown.runs().empty());
}

void RemoteModelsTest::aTrainingIsAFilmWhileItGoesOn() {
  ModelsShown shown;
  const WrittenTraining training;
  training.make();
  QVERIFY(shown.window.open(Machine::urlOf(training.path())));
  QVERIFY(QTest::qWaitFor([&] { return shown.window.window.trainings().open().size() == 1; }, kPatience));
  const auto& open = shown.window.window.trainings().open();
  QCOMPARE(open[0].record->steps.size(), 30U);
  QCOMPARE(open[0].record->measures.size(), 3U);
  QCOMPARE(open[0].record->checkpoints.size(), 3U);
  QCOMPARE(shown.runs().models()[0].path, Machine::urlOf(training.checkpoint(30)));
  QVERIFY(shown.window.window.training().bar().isVisible());
  QVERIFY(shown.run());
  const auto loss = [&] { return double{shown.runs()[0].trace->per_token_loss().back()}; };
  const double last = loss();
  // Another step runs there too, and takes the place of the one before.
  shown.window.window.trainings().choose(1);
  QVERIFY(QTest::qWaitFor([&] { return shown.runs()[0].model == Machine::urlOf(training.checkpoint(20)); }, kPatience));
  QCOMPARE(shown.runs()[0].host, "box");
  QVERIFY(std::abs(loss() - last) > 0.01);
  // Going back takes no time.
  QVERIFY(shown.window.window.trainings().known(2));
  // It grows there, and here.
  training.log(31, 40);
  training.save(40);
  QVERIFY(QTest::qWaitFor([&] { return open[0].record->checkpoints.size() == 4; }, kPatience));
  QCOMPARE(open[0].record->steps.size(), 40U);
  QCOMPARE(open[0].record->steps.back().loss, 5.0);
  QCOMPARE(shown.window.window.training().bar().slider().maximum(), 3);
  // The connection ends: the slider stays, and goes on when it is there again.
  shown.machine.setReachable(false);
  shown.machine.cut();
  QVERIFY(shown.window.shows("Connection lost, what is shown stays."));
  QCOMPARE(open[0].record->checkpoints.size(), 4U);
  training.log(41, 50);
  training.save(50);
  shown.machine.setReachable(true);
  shown.window.pressButton();
  QVERIFY(QTest::qWaitFor([&] { return open[0].record->checkpoints.size() == 5; }, kPatience));
  // A log that begins anew comes from its first line.
  QFile::remove(training.path() + "/log.jsonl");
  training.log(1, 7);
  QVERIFY(QTest::qWaitFor([&] { return open[0].record->steps.size() == 7; }, kPatience));
}

void RemoteModelsTest::aTrainingThatIsNoneIsSaidInALine() {
  ModelsShown shown;
  QDir().mkpath(shown.machine.folder.path("odd"));
  shown.document().open({shown.machine.url("odd")});
  QVERIFY(QTest::qWaitFor(
      [&] {
        return shown.window.said(
            "odd: this folder holds no model and no training: name one that has config.json, or "
            "recipe.json");
      },
      kPatience));
  const WrittenTraining early;
  early.log(1, 3);
  shown.document().open({Machine::urlOf(early.path())});
  QVERIFY(QTest::qWaitFor([&] { return shown.window.said("the training has no checkpoint yet"); }, kPatience));
  const WrittenTraining empty;
  shown.document().open({Machine::urlOf(empty.path())});
  QVERIFY(QTest::qWaitFor(
      [&] {
        return shown.window.said(Machine::urlOf(empty.path()) + ": has no step yet: wait for the training's first");
      },
      kPatience));
}

void RemoteModelsTest::tokenIdsRun() {
  ModelsShown shown;
  QVERIFY(shown.openModel());
  const QString ids = shown.machine.folder.write("ids.json", "[5, 6, 7, 8, 9, 10, 11]");
  shown.document().open({ids});
  QVERIFY(waitUntilIdle(shown.document()));
  QVERIFY(shown.document().modelRuns().text().ids);
  shown.document().modelRuns().startRun();
  QVERIFY(QTest::qWaitFor([&] { return shown.runs().size() == 1; }, kPatience));
  QCOMPARE(shown.runs()[0].trace->tokens()->id, (std::vector<std::int32_t>{5, 6, 7, 8, 9, 10, 11}));
  QVERIFY(!shown.document().modelRuns().isTextNew());
  // The same ids here give the same run.
  shown.document().open({foxModel()});
  QVERIFY(waitUntilIdle(shown.document()));
  shown.document().modelRuns().startRun();
  QVERIFY(QTest::qWaitFor([&] { return shown.runs().size() == 2; }, kPatience));
  QVERIFY(largestDifference(shown.runs()[0].trace->per_token_loss(), shown.runs()[1].trace->per_token_loss()) < 1e-5);
  shown.document().open({shown.machine.folder.write("wrong.json", "[5, \"six\"]")});
  QVERIFY(QTest::qWaitFor([&] { return shown.window.said("wrong.json: "); }, kPatience));
}

// An atlas or a needle test may call the model otherwise than here.
void RemoteModelsTest::anEvaluatedModelIsFoundByItsWeights() {
  const Machine machine;
  QFile::link(foxModel(), machine.folder.path("fox"));
  QFile::link(transformerModel(), machine.folder.path("other"));
  const Engine engine;
  TraceInfo evaluated;
  evaluated.name = "step-2000";
  evaluated.weights_sha256 = *Checkpoint::open(foxModel().toStdString()).weights_sha256({});
  const std::vector<ModelInput> others{{"step-2000", machine.url("other")},
                                       {"gone", machine.folder.path("nowhere")},
                                       {"gone-there", machine.url("nowhere")}};
  std::vector<ModelInput> models = others;
  models.push_back({"fox", machine.url("fox")});
  QCOMPARE(folderOf(evaluated, models, engine, {}, "this passage"), machine.url("fox").toStdString());
  models.push_back({"here", foxModel()});
  QCOMPARE(folderOf(evaluated, models, engine, {}, "this passage"), foxModel().toStdString());
  try {
    folderOf(evaluated, others, engine, {}, "this passage");
    QFAIL("no model has these weights");
  } catch (const Error& error) {
    const QString line = error.what();
    QVERIFY2(line.startsWith("To open this passage, first open the checkpoint folder of step-2000 (Ctrl+O): no open "
                             "model has its weights (") &&
                 line.contains("nowhere") && !line.contains('\n'),
             qPrintable(line));
  }
  // A file that does not say which weights means the model of its name.
  evaluated.weights_sha256.clear();
  QCOMPARE(folderOf(evaluated, models, engine, {}, "this passage"), machine.url("other").toStdString());
}

}  // namespace foxscope::gui::test

FOXSCOPE_GUI_SUBJECT(remote_models, foxscope::gui::test::RemoteModelsTest)
#include "remote_models_test.moc"
