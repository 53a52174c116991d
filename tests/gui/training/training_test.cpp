#include <initializer_list>

#include <QApplication>
#include <QDir>
#include <QFile>
#include <QFileDialog>
#include <QLineEdit>
#include <QSignalSpy>
#include <QTest>
#include <QTimer>
#include <qcustomplot.h>

#include "app/gui/document/head_table.h"
#include "app/gui/heads/heads_view.h"
#include "app/gui/maps/maps_view.h"
#include "app/gui/maps/pane/map_pane.h"
#include "app/gui/text/text_page.h"
#include "app/gui/text/text_view.h"
#include "app/gui/training/training_view.h"
#include "app/gui/views/time_text.h"
#include "backend/train/folder_lock.h"
#include "tests/gui/subject.h"
#include "tests/gui/training/written_training.h"

namespace foxscope::gui::test {

class TrainingTest : public QObject {
  Q_OBJECT

 private slots:
  void aTrainingIsOneModelAtManySteps();
  void theSliderMovesTheRun();
  void ofFastSteppingTheLastAloneRuns();
  void keysAndButtonsStep();
  void curvesHaveAMarkAndAreClicked();
  void aTrainingThatGoesOnIsReadAgain();
  void aCheckpointThatIsGoneGivesItsPlaceToTheNewest();
  void aCheckpointThatCannotRunIsToldAndLeft();
  void whatIsNoTrainingIsToldInALine();
  void aTrainingGoesAndComesWithItsModel();
  void aSessionKeepsTheStep();
  void aSessionWhoseStepIsGoneShowsTheNewest();
  void twoTrainingsHaveAChoice();
  void theFigureIsExported();
  void aChangedCopyIsOfItsStep();
  void howFarATrainingIsIsSaid();
  void theFilmPlays();
  void theFilmEndsAtAStepThatCannotRun();
  void theNewestIsFollowed();
  void coloursKeepTheirLimitsOverTheSteps();
  void aStepStaysUntilTheNextIsThere();
  void theFilmWaitsForWhatShowsAStep();
  void aFilmsNameGetsItsSuffix();
  void wordsStandBelowWhereThereIsNoRoomBeside();
  void whatIsMissingForAFilmIsSaid();
  void timesHaveTheDigitsOfAnEstimate();
};

namespace {

constexpr int kPatience = 120'000;

struct Shown {
  Document document;
  Trainings trainings{document.runs(), document.modelRuns()};
  TrainingView view{document.runs(), document.files(), trainings};
  QSignalSpy messages{&document, &Document::messageRaised};

  Shown() { QObject::connect(&document, &Document::pathOpened, &trainings, &Trainings::readAgain); }

  bool open(const QString& path) {
    view.resize(1000, 400);
    view.show();
    document.open({path});
    return waitUntilIdle(document);
  }
  bool run() {
    document.modelRuns().setText({{}, "The fox ran over the hill, and nobody saw the fox."});
    document.modelRuns().startRun();
    return settle() && !document.runs().empty();
  }
  bool settle() {
    return QTest::qWaitFor(
        [this] { return !document.busy() && !document.modelRuns().runStatus().running && view.isSettled(); },
        kPatience);
  }
  QSlider& slider() { return view.bar().slider(); }
  [[nodiscard]] const Run& only() const { return document.runs()[0]; }
  [[nodiscard]] double loss() const { return only().trace->per_token_loss().back(); }
  [[nodiscard]] bool said(const QString& words) const {
    return std::any_of(messages.begin(), messages.end(), [&](const QList<QVariant>& arguments) {
      return arguments.front().value<Message>().text.contains(words);
    });
  }
};

}  // namespace

void TrainingTest::aTrainingIsOneModelAtManySteps() {
  const WrittenTraining out;
  out.make();
  Shown shown;
  QVERIFY(!shown.view.bar().isVisible());
  QVERIFY(shown.open(out.path()));
  QCOMPARE(shown.document.runs().models().size(), 1U);
  QCOMPARE(shown.document.runs().models()[0].name, "out");
  QCOMPARE(shown.document.runs().models()[0].path, out.checkpoint(30));
  QVERIFY(shown.view.bar().isVisible());
  QCOMPARE(shown.slider().maximum(), 2);
  QCOMPARE(shown.slider().value(), 2);
  QCOMPARE(shown.view.bar().words(), "step 30 · 30 trained · 245,760 tokens · loss 6.000 · held-out 6.500 ± 0.020");
  QCOMPARE(shown.slider().accessibleName(), "Checkpoint");
  QCOMPARE(shown.slider().accessibleDescription(), shown.view.bar().words());
  // Before anything ran, another step is what will run.
  shown.slider().setValue(0);
  QCOMPARE(shown.document.runs().models()[0].path, out.checkpoint(10));
  QVERIFY(shown.view.bar().words().startsWith("step 10 · 30 trained · 81,920 tokens · loss 8.000"));
  QVERIFY(shown.document.runs().empty());
  // Opened once more it is the same one.
  QVERIFY(shown.open(out.path()));
  QCOMPARE(shown.document.runs().models().size(), 1U);
  QCOMPARE(shown.slider().value(), 0);
}

void TrainingTest::theSliderMovesTheRun() {
  const WrittenTraining out;
  out.make();
  Shown shown;
  QVERIFY(shown.open(out.path()));
  QVERIFY(shown.run());
  const auto newest = shown.only().trace;
  shown.document.runs().selection().setHead({shown.only().id, 3, 1});
  shown.document.runs().selection().setPin({5, 2});
  shown.slider().setValue(1);
  QVERIFY(shown.trainings.computing());
  QVERIFY(shown.view.bar().words().endsWith(" · starting …"));
  QVERIFY(shown.settle());
  QVERIFY(!shown.view.bar().words().contains("…"));
  QCOMPARE(shown.document.runs().size(), 1U);
  QCOMPARE(shown.only().model, out.checkpoint(20));
  const double middle = shown.loss();
  shown.slider().setValue(0);
  QVERIFY(shown.settle());
  QVERIFY(shown.loss() != middle);
  // What was chosen in the one is chosen in the other.
  QCOMPARE(shown.document.runs().selection().head(), (HeadChoice{shown.only().id, 3, 1}));
  QCOMPARE(shown.document.runs().selection().pin().query, 5);
  QCOMPARE(shown.document.runs().listRows().size(), 1U);
  // What was there before is there at once.
  shown.slider().setValue(2);
  QVERIFY(!shown.trainings.computing());
  QCOMPARE(shown.only().trace, newest);
}

void TrainingTest::ofFastSteppingTheLastAloneRuns() {
  const WrittenTraining out;
  out.make();
  Shown shown;
  QVERIFY(shown.open(out.path()));
  QVERIFY(shown.run());
  QSignalSpy runs(&shown.document.runs(), &RunList::runsChanged);
  for (const int place : {1, 0, 1, 0}) shown.slider().setValue(place);
  QVERIFY(shown.settle());
  QCOMPARE(runs.size(), 1);
  QCOMPARE(shown.only().model, out.checkpoint(10));
  // Back where one is: nothing runs any more.
  shown.slider().setValue(1);
  shown.slider().setValue(0);
  QVERIFY(!shown.trainings.computing());
  QVERIFY(shown.settle());
  QCOMPARE(runs.size(), 1);
}

void TrainingTest::keysAndButtonsStep() {
  const WrittenTraining out;
  out.make();
  Shown shown;
  QVERIFY(shown.open(out.path()));
  QTest::keyClick(&shown.slider(), Qt::Key_Left);
  QCOMPARE(shown.slider().value(), 1);
  const auto commands = shown.view.commands();
  QCOMPARE(commands.size(), 8);
  commands[0]->trigger();
  QCOMPARE(shown.slider().value(), 0);
  commands[0]->trigger();
  QCOMPARE(shown.slider().value(), 0);
  commands[1]->trigger();
  QCOMPARE(shown.slider().value(), 1);
  commands[2]->trigger();
  QCOMPARE(shown.slider().value(), 2);
  const auto button = [&](const QString& name) -> QToolButton* {
    for (auto* each : shown.view.bar().findChildren<QToolButton*>()) {
      if (each->accessibleName() == name) return each;
    }
    return nullptr;
  };
  QVERIFY(!button("Next checkpoint")->isEnabled());
  button("Previous checkpoint")->click();
  QCOMPARE(shown.slider().value(), 1);
  button("Next checkpoint")->click();
  QCOMPARE(shown.slider().value(), 2);
}

void TrainingTest::curvesHaveAMarkAndAreClicked() {
  const WrittenTraining out;
  out.make();
  Shown shown;
  QVERIFY(shown.open(out.path()));
  QVERIFY(shown.run());
  TrainingPlot& losses = shown.view.losses();
  QCOMPARE(losses.plot().curves.at(0).x.size(), 30U);
  QCOMPARE(losses.mark(), 245.76);
  QCOMPARE(shown.view.decayTimes().plot().curves.size(), 32U);
  QVERIFY(shown.view.decayTimes().plot().yScale == figure::AxisScale::logarithmic);
  // The legend leaves the axes their room.
  const QCustomPlot& axes = losses.axes();
  const int between = axes.axisRect()->top() - axes.legend->outerRect().bottom();
  QVERIFY2(between >= 0 && between <= 8, qPrintable(QString::number(between)));
  // A click chooses the nearest checkpoint.
  const QPoint place(static_cast<int>(axes.xAxis->coordToPixel(150)), axes.axisRect()->center().y());
  QTest::mouseClick(&losses.axes(), Qt::LeftButton, {}, place);
  QCOMPARE(shown.slider().value(), 1);
  QVERIFY(shown.settle());
  QCOMPARE(losses.mark(), 163.84);
  // Under the mouse is the step, and the chosen head's decay time.
  shown.document.runs().selection().setHead({shown.only().id, 2, 1});
  QTest::mouseMove(&losses.axes(), place);
  QVERIFY2(shown.view.reading().contains("layer 2, head 1 at step 20: decay time 20 tokens"),
           qPrintable(shown.view.reading()));
}

void TrainingTest::aTrainingThatGoesOnIsReadAgain() {
  const WrittenTraining out;
  out.make();
  Shown shown;
  QVERIFY(shown.open(out.path()));
  shown.slider().setValue(1);
  out.log(31, 40);
  out.save(40);
  QTRY_COMPARE(shown.slider().maximum(), 3);
  QCOMPARE(shown.slider().value(), 1);
  QTRY_COMPARE(shown.view.losses().plot().curves.at(0).x.size(), 40U);
  QVERIFY(shown.view.bar().words().startsWith("step 20 · 40 trained"));
  // What is damaged later is told, and what was read stays.
  out.append("log.jsonl", {{"step", 0}, {"tokens", 0}});
  QTRY_VERIFY(shown.said("line 41 is not a step of a training"));
  QCOMPARE(shown.view.losses().plot().curves.at(0).x.size(), 40U);
}

void TrainingTest::aCheckpointThatIsGoneGivesItsPlaceToTheNewest() {
  const WrittenTraining out;
  out.make();
  Shown shown;
  QVERIFY(shown.open(out.path()));
  QVERIFY(shown.run());
  out.log(31, 40);
  out.save(40);
  QVERIFY(QDir(out.checkpoint(30)).removeRecursively());
  QVERIFY(QTest::qWaitFor([&] { return shown.only().model == out.checkpoint(40); }, kPatience));
  QCOMPARE(shown.slider().value(), 2);
}

void TrainingTest::aCheckpointThatCannotRunIsToldAndLeft() {
  const WrittenTraining out;
  out.make();
  Shown shown;
  QVERIFY(shown.open(out.path()));
  QVERIFY(shown.run());
  QVERIFY(QFile::remove(out.checkpoint(20) + "/model.safetensors.index.json"));
  shown.slider().setValue(1);
  QVERIFY(shown.settle());
  QVERIFY(shown.said("step-000020"));
  QCOMPARE(shown.slider().value(), 2);
  QCOMPARE(shown.only().model, out.checkpoint(30));
}

void TrainingTest::whatIsNoTrainingIsToldInALine() {
  const WrittenTraining none(QStringLiteral("none"));
  const WrittenTraining unsaved(QStringLiteral("unsaved"));
  unsaved.log(1, 10);
  const WrittenTraining damaged(QStringLiteral("damaged"));
  damaged.make();
  QVERIFY(QFile::remove(damaged.path() + "/log.jsonl"));
  damaged.folder.write("damaged/log.jsonl", "words\n");
  const WrittenTraining zero(QStringLiteral("zero"));
  zero.make();
  QVERIFY(QFile::remove(zero.path() + "/log.jsonl"));
  zero.append("log.jsonl", {{"step", 0}, {"tokens", 0}, {"loss", 9.0}, {"grad_norm", 1.0}, {"lr", 0.001}});
  const WrittenTraining broken(QStringLiteral("broken"));
  broken.make();
  QVERIFY(QFile::remove(broken.checkpoint(30) + "/config.json"));
  Shown shown;
  for (const auto& [path, words] : {std::pair{none.path(), "has no step yet: wait for the training's first"},
                                    {unsaved.path(), "the training has no checkpoint yet"},
                                    {damaged.path(), "line 1 is not a step of a training"},
                                    {zero.path(), "zero/log.jsonl: line 1 is not a step of a training"},
                                    {broken.path(), "config.json"}}) {
    QVERIFY(shown.open(path));
    QVERIFY2(shown.said(words), words);
  }
  QVERIFY(shown.document.runs().models().empty());
  QVERIFY(shown.trainings.open().empty());
}

void TrainingTest::aTrainingGoesAndComesWithItsModel() {
  const WrittenTraining out;
  out.make();
  Shown shown;
  QVERIFY(shown.open(out.path()));
  shown.document.runs().removeModel(0);
  QVERIFY(shown.trainings.open().empty());
  QVERIFY(!shown.view.bar().isVisible());
  shown.document.runs().undoStack().undo();
  QVERIFY(shown.settle());
  QCOMPARE(shown.trainings.open().size(), 1U);
  QVERIFY(shown.view.bar().isVisible());
}

void TrainingTest::aSessionKeepsTheStep() {
  const WrittenTraining out;
  out.make();
  const QString session = out.folder.path("film.json");
  {
    Shown shown;
    QVERIFY(shown.open(out.path()));
    shown.slider().setValue(1);
    shown.document.sessions().save(session, {});
    QVERIFY(shown.settle());
  }
  Shown shown;
  QVERIFY(shown.open(session));
  QVERIFY(shown.settle());
  QCOMPARE(shown.document.runs().models().at(0).path, out.checkpoint(20));
  QCOMPARE(shown.trainings.open().size(), 1U);
  QCOMPARE(shown.slider().value(), 1);
}

void TrainingTest::aSessionWhoseStepIsGoneShowsTheNewest() {
  const WrittenTraining out;
  out.make();
  {
    Shown shown;
    QVERIFY(shown.open(out.path()));
    shown.slider().setValue(0);
    QVERIFY(shown.run());
    QCOMPARE(shown.only().model, out.checkpoint(10));
    shown.document.sessions().save(out.folder.path("film.json"), {});
    QVERIFY(shown.settle());
  }
  QVERIFY(QDir(out.checkpoint(10)).removeRecursively());
  Shown again;
  QSignalSpy missing(&again.document.sessions(), &SessionStore::fileMissing);
  QVERIFY(again.open(out.folder.path("film.json")));
  QVERIFY(again.settle());
  QCOMPARE(missing.size(), 0);
  QCOMPARE(again.document.runs().models().at(0).path, out.checkpoint(30));
  QCOMPARE(again.document.runs().size(), 1U);
  QCOMPARE(again.only().model, out.checkpoint(30));
  QVERIFY(again.said("out: checkpoint step-000010 is gone: the training's newest, step-000030, is shown instead"));
}

void TrainingTest::twoTrainingsHaveAChoice() {
  const WrittenTraining first(QStringLiteral("first"));
  const WrittenTraining second(QStringLiteral("second"));
  first.make();
  second.log(1, 20);
  second.save(20);
  Shown shown;
  QVERIFY(shown.open(first.path()));
  QVERIFY(!shown.view.bar().choice().isVisible());
  QVERIFY(shown.open(second.path()));
  QVERIFY(shown.view.bar().choice().isVisible());
  QCOMPARE(shown.view.bar().choice().currentText(), "second");
  QVERIFY(!shown.slider().isEnabled());
  QVERIFY(shown.run());
  QCOMPARE(shown.document.runs().size(), 2U);
  // The chosen head says which is shown.
  shown.document.runs().selection().setHead({shown.document.runs()[0].id, 1, 1});
  QCOMPARE(shown.view.bar().choice().currentText(), "first");
  shown.slider().setValue(0);
  QVERIFY(shown.settle());
  QCOMPARE(shown.document.runs().size(), 2U);
  QCOMPARE(shown.document.runs()[0].model, first.checkpoint(10));
  QCOMPARE(shown.document.runs()[1].model, second.checkpoint(20));
}

void TrainingTest::theFigureIsExported() {
  const WrittenTraining out;
  out.make();
  Shown shown;
  QVERIFY(shown.open(out.path()));
  RunLook look = shown.document.runs().lookOf(shown.document.runs().listRows()[0]);
  look.label = QStringLiteral("FoX");
  shown.document.runs().setLook(shown.document.runs().listRows()[0], look);
  QVERIFY(shown.settle());
  QCOMPARE(shown.view.losses().plot().curves.at(0).name, "FoX");
  for (const auto& [name, start] : {std::pair{"f.pdf", "%PDF"}, {"f.svg", "<?xml"}, {"f.png", "\x89PNG"}}) {
    shown.view.exportTo(out.folder.path(name));
    QVERIFY(shown.settle());
    QFile file(out.folder.path(name));
    QVERIFY(file.open(QIODevice::ReadOnly) && file.read(8).startsWith(start));
  }
  // What is hidden is left out.
  look.hidden = true;
  shown.document.runs().setLook(shown.document.runs().listRows()[0], look);
  QVERIFY(shown.settle());
  QVERIFY(shown.view.losses().plot().curves.empty());
}

void TrainingTest::aChangedCopyIsOfItsStep() {
  const WrittenTraining out;
  out.make();
  Shown shown;
  QVERIFY(shown.open(out.path()));
  QVERIFY(shown.run());
  shown.document.modelRuns().startDerivedRun(shown.only().id, {QStringLiteral("1:1:one")});
  QVERIFY(shown.settle());
  QCOMPARE(shown.document.runs().size(), 2U);
  QVERIFY(shown.document.runs().baseOf(shown.document.runs()[1]) == &shown.document.runs()[0]);
  shown.slider().setValue(1);
  QVERIFY(shown.settle());
  QCOMPARE(shown.document.runs().size(), 2U);
  QVERIFY(shown.document.runs().baseOf(shown.document.runs()[1]) == nullptr);
  shown.slider().setValue(2);
  QVERIFY(shown.settle());
  QVERIFY(shown.document.runs().baseOf(shown.document.runs()[1]) == &shown.document.runs()[0]);
}

void TrainingTest::howFarATrainingIsIsSaid() {
  const WrittenTraining out;
  out.log(1, 29);
  out.append(
      "log.jsonl",
      {{"step", 30}, {"tokens", 8192 * 30}, {"loss", 6.0}, {"grad_norm", 1.0}, {"lr", 0.001}, {"seconds", 100.0}});
  for (const int step : {10, 20, 30}) out.save(step);
  QVERIFY(QFile::remove(out.path() + "/recipe.json"));
  out.folder.write(out.name + "/recipe.json", R"({"max_tokens": 491520, "batch_tokens": 8192})");
  Shown shown;
  QVERIFY(shown.open(out.path()));
  shown.slider().setValue(1);
  // Nobody trains there: how long it takes is not known.
  QVERIFY2(shown.view.bar().words().startsWith("step 20 · 30 of 60 trained · 163,840 tokens"),
           qPrintable(shown.view.bar().words()));
  {
    const FolderLock lock(out.path().toStdString());
    // Thirty steps of 100 / 20 seconds.
    QVERIFY(shown.open(out.path()));
    QTRY_VERIFY2(shown.view.bar().words().startsWith("step 20 · 30 of 60 trained, 2 min 30 s left · 163,840 tokens"),
                 qPrintable(shown.view.bar().words()));
  }
  // The process has gone.
  QTRY_VERIFY(shown.view.bar().words().startsWith("step 20 · 30 of 60 trained · "));
  out.log(31, 60);
  QTRY_VERIFY(shown.view.bar().words().startsWith("step 20 of 60 · "));
}

void TrainingTest::theFilmPlays() {
  const WrittenTraining out;
  out.make();
  Shown shown;
  QVERIFY(shown.open(out.path()));
  FilmPlayer& player = shown.view.player();
  QToolButton& play = shown.view.bar().playButton();
  QVERIFY(shown.run());
  QStringList seen;
  connect(&shown.document.runs(), &RunList::runsChanged, &shown.view, [&] { seen += shown.only().model; });
  QCOMPARE(play.accessibleName(), "Play");
  play.click();  // at the last one: from the first
  QVERIFY(player.playing());
  QCOMPARE(play.accessibleName(), "Pause");
  QVERIFY(!player.following());
  QVERIFY(QTest::qWaitFor([&] { return !player.playing(); }, kPatience));
  QCOMPARE(seen, (QStringList{out.checkpoint(10), out.checkpoint(20), out.checkpoint(30)}));
  QVERIFY(player.following());
  QCOMPARE(play.accessibleName(), "Play");
  // What was run ahead is there at once.
  shown.slider().setValue(1);
  QVERIFY(!shown.trainings.computing());
  QCOMPARE(shown.only().model, out.checkpoint(20));
  // From where one is; a second press holds it.
  shown.slider().setValue(0);
  player.setPlaying(true);
  QVERIFY(QTest::qWaitFor([&] { return shown.only().model == out.checkpoint(20); }, kPatience));
  shown.view.commands()[4]->trigger();
  QVERIFY(!player.playing());
  QCOMPARE(shown.only().model, out.checkpoint(20));
  // Without a training there is nothing to play.
  player.setPlaying(true);
  shown.document.runs().removeModel(0);
  QVERIFY(!player.playing());
  player.setPlaying(true);
  QVERIFY(!player.playing());
}

void TrainingTest::theFilmEndsAtAStepThatCannotRun() {
  const WrittenTraining out;
  out.make();
  Shown shown;
  QVERIFY(shown.open(out.path()));
  QVERIFY(shown.run());
  shown.slider().setValue(0);
  QVERIFY(shown.settle());
  QVERIFY(QFile::remove(out.checkpoint(20) + "/model.safetensors.index.json"));
  shown.view.player().setPlaying(true);
  QVERIFY(QTest::qWaitFor([&] { return shown.said("step-000020"); }, kPatience));
  QVERIFY(!shown.view.player().playing());
  QVERIFY(shown.settle());
  QCOMPARE(shown.only().model, out.checkpoint(10));
}

void TrainingTest::theNewestIsFollowed() {
  const WrittenTraining out;
  out.make();
  Shown shown;
  QVERIFY(shown.open(out.path()));
  QToolButton& follow = shown.view.bar().followButton();
  QVERIFY(follow.isChecked());
  QVERIFY(shown.run());
  out.log(31, 40);
  out.save(40);
  QVERIFY(QTest::qWaitFor([&] { return shown.only().model == out.checkpoint(40); }, kPatience));
  QVERIFY(follow.isChecked());
  // Whoever says no stays.
  follow.click();
  QVERIFY(!follow.isChecked());
  out.log(41, 50);
  out.save(50);
  QTRY_COMPARE(shown.slider().maximum(), 4);
  QCOMPARE(shown.slider().value(), 3);
  QVERIFY(!follow.isChecked());
  // Going to the end asks for it, leaving it does not.
  shown.view.commands()[2]->trigger();
  QVERIFY(follow.isChecked());
  shown.slider().setValue(0);
  QVERIFY(!follow.isChecked());
  follow.click();
  QCOMPARE(shown.slider().value(), 4);
  QVERIFY(shown.view.commands()[5]->isChecked());
  QVERIFY(shown.settle());
}

void TrainingTest::coloursKeepTheirLimitsOverTheSteps() {
  // Two models that differ in every number.
  const WrittenTraining out;
  out.log(1, 20);
  out.save(20);
  QDir().mkpath(out.checkpoint(10));
  for (const QFileInfo& file : QDir(transformerModel()).entryInfoList(QDir::Files)) {
    QVERIFY(QFile::link(file.filePath(), out.checkpoint(10) + '/' + file.fileName()));
  }
  Shown shown;
  QVERIFY(shown.open(out.path()));
  HeadTable table(shown.document.runs());
  HeadsView heads(shown.document.runs(), shown.document.modelRuns(), table);
  MapsView maps(shown.document.runs());
  heads.resize(300, 600);
  heads.show();
  maps.resize(700, 500);
  maps.show();
  QVERIFY(shown.run());
  HeadColouring byEntropy;
  byEntropy.quantity = HeadQuantity::entropy;
  heads.setColouring(byEntropy);
  QJsonObject byHand = heads.saveState();
  byHand["chosen"] = true;
  heads.restoreState(byHand);
  const auto settle = [&] {
    return QTest::qWaitFor(
        [&] {
          return !shown.document.busy() && shown.view.isSettled() && maps.isSettled() && table.known() == table.total();
        },
        kPatience);
  };
  const auto limits = [&] {
    const figure::ScaledColours& map = maps.pane(0).picture()->colours;
    return std::vector{heads.grid().colours().lower(), heads.grid().colours().upper(), map.lower, map.upper};
  };
  PaneState logits;
  logits.setQuantity(Quantity::logits);
  maps.setPaneState(0, logits);
  QVERIFY(settle());
  QCOMPARE(heads.grid().limitsNote(), QString());
  const std::vector<double> last = limits();
  shown.slider().setValue(0);
  QTRY_COMPARE_WITH_TIMEOUT(heads.grid().limitsNote(), " · limits over 2 steps", kPatience);
  QVERIFY(settle());
  const std::vector<double> both = limits();
  for (const std::size_t lower : {0U, 2U}) {
    QVERIFY(both[lower] <= last[lower]);
    QVERIFY(both[lower + 1] >= last[lower + 1]);
  }
  QVERIFY(both != last);
  // Back at the first one, they are those of both.
  shown.slider().setValue(1);
  QVERIFY(settle());
  QTRY_COMPARE(limits(), both);
  QTRY_VERIFY2(maps.pane(0).detailText().endsWith("limits over 2 steps"), qPrintable(maps.pane(0).detailText()));
  // Another range has limits of its own.
  shown.document.runs().selection().setView({{4, 12}, {2, 10}});
  QTRY_VERIFY(!maps.pane(0).detailText().contains("limits over"));
}

void TrainingTest::aStepStaysUntilTheNextIsThere() {
  const WrittenTraining out;
  out.make();
  Shown shown;
  QVERIFY(shown.open(out.path()));
  HeadTable table(shown.document.runs());
  HeadsView heads(shown.document.runs(), shown.document.modelRuns(), table);
  MapsView maps(shown.document.runs());
  TextView text(shown.document.runs(), shown.document.modelRuns());
  for (QWidget* view : std::initializer_list<QWidget*>{&heads, &maps, &text}) {
    view->resize(500, 500);
    view->show();
  }
  QVERIFY(shown.run());
  HeadColouring byEntropy;
  byEntropy.quantity = HeadQuantity::entropy;
  heads.setColouring(byEntropy);
  QJsonObject byHand = heads.saveState();
  byHand["chosen"] = true;
  heads.restoreState(byHand);
  text.restoreState({{"tint", "gate"}});
  const auto settle = [&] {
    return QTest::qWaitFor(
        [&] { return !shown.document.busy() && shown.view.isSettled() && maps.isSettled() && text.isSettled(); },
        kPatience);
  };
  QVERIFY(settle());
  shown.slider().setValue(1);
  QVERIFY(settle());
  auto* page = text.findChild<TextPage*>();
  const MapPane& pane = maps.pane(0);
  const PicturePointer map = pane.picture();
  const QString title = pane.titleText();
  const QImage grid = heads.grid().grab().toImage();
  const QImage words = page->viewport()->grab().toImage();
  QVERIFY(map && page->tint() != nullptr);
  // Nothing of it is known yet but its run.
  shown.slider().setValue(2);
  QCOMPARE(shown.only().model, out.checkpoint(30));
  QVERIFY(pane.picture() == map);
  QCOMPARE(pane.titleText(), title);
  QVERIFY(!pane.request());
  QVERIFY(!heads.showsStep());
  QCOMPARE(heads.grid().grab().toImage(), grid);
  QCOMPARE(page->viewport()->grab().toImage(), words);
  QVERIFY(settle());
  QVERIFY(pane.picture() && pane.picture() != map);
  QVERIFY(pane.request());
  QVERIFY(heads.showsStep());
  QCOMPARE(pane.picture()->request.content.sides[0].head.trace, shown.only().trace);
  // Nothing stays of a run that is not of this training.
  shown.document.runs().removeRow(shown.document.runs().listRows()[0]);
  QVERIFY(!pane.picture());
}

void TrainingTest::theFilmWaitsForWhatShowsAStep() {
  const WrittenTraining out;
  out.make();
  Shown shown;
  QVERIFY(shown.open(out.path()));
  QVERIFY(shown.run());
  shown.slider().setValue(0);
  QVERIFY(shown.settle());
  int asked = 0;
  constexpr int kNotReady = 3;
  shown.view.player().setReady([&] {
    ++asked;
    return asked > kNotReady;
  });
  int before = -1;
  connect(&shown.document.runs(), &RunList::runsChanged, &shown.view, [&] {
    if (before < 0) before = asked;
  });
  shown.view.player().setPlaying(true);
  QVERIFY(QTest::qWaitFor([&] { return !shown.view.player().playing(); }, kPatience));
  QVERIFY(before > kNotReady);
  QCOMPARE(shown.only().model, out.checkpoint(30));
}

void TrainingTest::aFilmsNameGetsItsSuffix() {
  const WrittenTraining out;
  out.make();
  Shown shown;
  QVERIFY(shown.open(out.path()));
  QSignalSpy wanted(&shown.view, &TrainingView::filmWanted);
  QTimer choose;
  connect(&choose, &QTimer::timeout, &shown.view, [&] {
    auto* dialog = qobject_cast<QFileDialog*>(QApplication::activeModalWidget());
    if (dialog == nullptr) return;
    dialog->findChild<QLineEdit*>("fileNameEdit")->setText(out.folder.path("steps"));
    QMetaObject::invokeMethod(dialog, "accept");
  });
  choose.start(20);
  shown.view.commands()[6]->trigger();
  QCOMPARE(wanted.size(), 1);
  QCOMPARE(wanted[0][0].toString(), out.folder.path("steps.webp"));
  if (!shown.view.commands()[7]->isEnabled()) return;  // without ffmpeg
  shown.view.commands()[7]->trigger();
  QCOMPARE(wanted.size(), 2);
  QCOMPARE(wanted[1][0].toString(), out.folder.path("steps.mp4"));
}

void TrainingTest::wordsStandBelowWhereThereIsNoRoomBeside() {
  const WrittenTraining out;
  out.make();
  Shown shown;
  QVERIFY(shown.open(out.path()));
  TrainingBar& bar = shown.view.bar();
  const auto* words = bar.findChild<ElidedLabel*>();
  shown.view.resize(800, 400);
  QTRY_VERIFY(words->y() >= bar.slider().geometry().bottom());
  QVERIFY(words->fontMetrics().horizontalAdvance(words->text()) <= words->width());
  shown.view.resize(1800, 400);
  QTRY_VERIFY(words->y() < bar.slider().geometry().bottom());
  QVERIFY(words->fontMetrics().horizontalAdvance(words->text()) <= words->width());
}

void TrainingTest::whatIsMissingForAFilmIsSaid() {
  const WrittenTraining out;
  out.make();
  const QByteArray path = qgetenv("PATH");
  qputenv("PATH", "/nonexistent");
  Shown shown;
  qputenv("PATH", path);
  QVERIFY(shown.open(out.path()));
  QAction* mp4 = shown.view.commands()[7];
  QVERIFY(!mp4->isEnabled());
  QCOMPARE(mp4->toolTip(), "MP4 needs the program ffmpeg, which is not installed: install it, or export WebP");
  QVERIFY(shown.view.commands()[6]->isEnabled());
}

void TrainingTest::timesHaveTheDigitsOfAnEstimate() {
  const std::pair<double, const char*> times[] = {
      {-1, "0.0 s"},   {4.24, "4.2 s"},    {9.94, "9.9 s"},    {9.96, "10 s"},      {59.4, "59 s"},
      {59.6, "1 min"}, {125, "2 min 5 s"}, {120, "2 min"},     {599, "9 min 59 s"}, {2039, "34 min"},
      {3599, "1 h"},   {3600, "1 h"},      {7500, "2 h 5 min"}};
  for (const auto& [seconds, words] : times) QCOMPARE(timeText(seconds), QString(words));
  QCOMPARE(timeLeftText(2039), "34 min left");
}

}  // namespace foxscope::gui::test

FOXSCOPE_GUI_SUBJECT(training, foxscope::gui::test::TrainingTest)
#include "training_test.moc"
