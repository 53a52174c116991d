// Run files and exports, written and opened.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <semaphore>
#include <thread>

#include <QDir>
#include <QFile>
#include <QSignalSpy>
#include <QTest>

#include "backend/base/atomic_file.h"
#include "backend/file/run_file.h"
#include "backend/map/map.h"
#include "tests/gui/document/document_support.h"
#include "tests/gui/subject.h"

namespace foxscope::gui::test {

using foxscope::test::SyntheticRun;

class DocumentFilesTest : public QObject {
  Q_OBJECT

 private slots:
  void aFileBeingWrittenKeepsNoPictureWaiting();
  void aCancelledExportLeavesNoFile();
  void aRunFileIsTheSameAsTheLiveRun();
  void aRunWithoutQueriesAndKeysSaysSo();
  void runFilesStandSideBySide();
  void aRunOnAnotherTextHasItsOwnPlace();
  void whatAModelMakesStandsBesideWhatAFileHolds();
  void aRunFileHoldsOneText();
  void aFileThatContradictsItselfIsRefusedOrMarked();
  void rowNormalisersThatAFileLacksAreComputedAndSaved();
  void openingThatTakesLongShowsItsProgressAndIsCancelled();
};

void DocumentFilesTest::aFileBeingWrittenKeepsNoPictureWaiting() {
  const Folder folder;
  Document document;
  QSignalSpy messages(&document, &Document::messageRaised);
  std::binary_semaphore release(0);
  const QString path = folder.path("slow.bin");
  document.files().writeFile(path, [&](const Job& job) {
    job.tell({3, 4, "rows", "computing the map"});
    while (!release.try_acquire() && !job.stopped()) std::this_thread::yield();
    AtomicFile file(path.toStdString(), false);
    file.commit();
    return std::optional(true);
  });
  QTRY_VERIFY(document.files().exports().size() == 1 && document.files().exports()[0].fraction == 0.75);
  QCOMPARE(document.files().exports()[0].stage, "computing the map");
  QVERIFY(document.files().exports()[0].secondsLeft >= 0);
  // Pictures, and runs, are made meanwhile.
  for (JobRunner* runner : {&document.runs().jobs(), &document.runs().quickJobs()}) {
    bool drawn = false;
    JobRunner::Request<bool> picture;
    picture.work = [](const Job&) { return std::optional(true); };
    picture.done = [&](bool) { drawn = true; };
    runner->submit(&document, 7, std::move(picture));
    QTRY_VERIFY(drawn);
  }
  document.modelRuns().setText({{}, "A text of a few words."});
  document.open({foxModel()});
  QTRY_VERIFY(document.modelRuns().canRun());
  document.modelRuns().startRun();
  QVERIFY(QTest::qWaitFor([&] { return document.runs().size() == 1; }, 60'000));
  QCOMPARE(document.files().exports().size(), 1U);
  release.release();
  QVERIFY(waitUntilIdle(document));
  QVERIFY(document.files().exports().empty());
  QVERIFY(QFile::exists(path));
  QCOMPARE(textsOf(messages), QStringList{"Saved " + path});
}

void DocumentFilesTest::aCancelledExportLeavesNoFile() {
  const Folder folder;
  Document document;
  QVERIFY(runDemo(document, 64));
  QSignalSpy messages(&document, &Document::messageRaised);
  std::binary_semaphore started(0);
  const QString running = folder.path("running.h5");
  document.files().writeFile(running, [&, traces = std::vector{document.runs()[0].trace}](const Job& job) {
    started.release();
    while (!job.stopped()) std::this_thread::yield();
    const bool whole = write_run_file(running.toStdString(), traces, {"foxscope", ""}, Overwrite::force, job);
    return whole ? std::optional(true) : std::nullopt;
  });
  const QString waiting = folder.path("waiting.h5");
  document.files().saveRunFile(waiting);
  QCOMPARE(document.files().exports().size(), 2U);
  document.files().cancelExport(waiting);
  QCOMPARE(document.files().exports().size(), 1U);
  started.acquire();
  document.files().cancelExport(running);
  QVERIFY(waitUntilIdle(document));
  QVERIFY(document.files().exports().empty());
  QVERIFY(QDir(folder.path(".")).isEmpty());
  QCOMPARE(textsOf(messages),
           (QStringList{"Cancelled: " + waiting + " was not written", "Cancelled: " + running + " was not written"}));
  QVERIFY(document.runs()[0].file.isEmpty());
}

void DocumentFilesTest::aRunFileIsTheSameAsTheLiveRun() {
  const Folder folder;
  Document live;
  QVERIFY(runDemo(live, 100));
  QSignalSpy messages(&live, &Document::messageRaised);
  live.files().saveRunFile(folder.path("run.h5"));
  QVERIFY(waitUntilIdle(live));
  QCOMPARE(textsOf(messages), QStringList{"Saved " + folder.path("run.h5")});

  Document reopened;
  reopened.open({folder.path("run.h5")});
  QVERIFY(waitUntilIdle(reopened));
  QCOMPARE(reopened.runs().size(), live.runs().size());
  QVERIFY(reopened.runs().models().empty());
  // A file holds of a text what was read.
  QVERIFY(!reopened.modelRuns().text().content.empty() &&
          live.modelRuns().text().content.starts_with(reopened.modelRuns().text().content));
  for (std::size_t index = 0; index < live.runs().size(); ++index) {
    const Trace& a = *live.runs()[index].trace;
    const Trace& b = *reopened.runs()[index].trace;
    QVERIFY(*a.tokens() == *b.tokens());
    QVERIFY(std::equal(a.per_token_loss().begin(), a.per_token_loss().end(), b.per_token_loss().begin()));
    const MapRequest request{
        {live.runs()[index].trace, 2, 1}, Quantity::attention, Reduction::max, {0, 100}, {0, 100}, 50, 50, {}, 0};
    MapRequest same = request;
    same.head.trace = reopened.runs()[index].trace;
    const auto image = compute_map(request, {});
    const auto again = compute_map(same, {});
    for (std::size_t pixel = 0; pixel < image->value.size(); ++pixel) {
      const float x = image->value[pixel];
      QVERIFY(std::isnan(x) ? std::isnan(again->value[pixel]) : x == again->value[pixel]);
    }
  }
}

void DocumentFilesTest::aRunWithoutQueriesAndKeysSaysSo() {
  Document document;
  RunSettings settings;
  settings.limit = 32;
  settings.keepQueryKey = false;
  document.modelRuns().setSettings(settings);
  document.open({foxModel(), sampleText()});
  QVERIFY(waitUntilIdle(document));
  document.modelRuns().startRun();
  QVERIFY(waitUntilIdle(document));
  QVERIFY(document.runs()[0].trace->query_key() == nullptr);
  QVERIFY(!document.runs()[0].trace->has_attention(0));
}

void DocumentFilesTest::runFilesStandSideBySide() {
  const Folder folder;
  SyntheticRun second;
  second.seed = 2;
  const QString a = writeRun(folder, "a.h5", {});
  const QString b = writeRun(folder, "b.h5", second);
  Document document;
  QSignalSpy messages(&document, &Document::messageRaised);
  document.open({a, b});
  QVERIFY(waitUntilIdle(document));
  QCOMPARE(document.runs().size(), 2U);
  QCOMPARE(document.runs()[0].name, "fox · a");
  QCOMPARE(document.runs()[1].name, "fox · b");
  QCOMPARE(document.runs().runsOnText().size(), 2U);
  QVERIFY(messages.isEmpty());
  // Opened once more, and under another path of the same file, it is not there twice.
  document.runs().selection().setHead({document.runs()[0].id, 1, 3});
  document.open({folder.path("./b.h5")});
  QVERIFY(waitUntilIdle(document));
  QCOMPARE(document.runs().size(), 2U);
  QVERIFY2(textsOf(messages).last().contains("b.h5 is open already"), qPrintable(textsOf(messages).last()));
  QCOMPARE(document.runs().selection().head().run, document.runs()[1].id);
  // Names of panes and sessions still find their run when the other one is gone.
  const RunId first = document.runs()[0].id;
  QCOMPARE(document.runs().runNamed("fox")->id, first);
  document.runs().removeRun(document.runs()[1].id);
  QCOMPARE(document.runs()[0].name, "fox");
  QCOMPARE(document.runs().runNamed("fox · a")->id, first);
  QVERIFY(document.runs().runNamed("fox · b") == nullptr);
}

void DocumentFilesTest::aRunOnAnotherTextHasItsOwnPlace() {
  const Folder folder;
  SyntheticRun longer;
  longer.length = 50;
  longer.name = "other";
  Document document;
  document.open({writeRun(folder, "a.h5", {}), writeRun(folder, "b.h5", longer)});
  QVERIFY(waitUntilIdle(document));
  const Run a = document.runs()[0];
  const Run b = document.runs()[1];
  QVERIFY(a.text != b.text);
  QCOMPARE(document.runs().length(), 37);
  QVERIFY(document.runs().isOnText(a.id) && !document.runs().isOnText(b.id));
  document.runs().selection().setPin({30, 10});
  document.runs().selection().setView({{10, 35}, {0, 20}});
  QSignalSpy changed(&document.runs(), &RunList::referenceChanged);
  document.runs().selection().setHead({b.id, 0, 0});
  QCOMPARE(changed.size(), 1);
  QCOMPARE(document.runs().reference()->id, b.id);
  QCOMPARE(document.runs().length(), 50);
  QVERIFY(document.runs().selection().pin() == Cursor());
  QVERIFY(document.runs().selection().view() == (View{{0, 50}, {0, 50}}));
  QVERIFY(document.runs().placeIn(a.text).pin == (Cursor{30, 10}));
  document.runs().selection().setPin({49, 2});
  document.runs().selection().setHead({a.id, 1, 1});
  QVERIFY(document.runs().selection().pin() == (Cursor{30, 10}));
  QVERIFY(document.runs().selection().view() == (View{{10, 35}, {0, 20}}));
  QVERIFY(document.runs().placeIn(b.text).pin == (Cursor{49, 2}));
  // When the text that is shown goes, another one is.
  document.runs().removeRun(a.id);
  QCOMPARE(document.runs().length(), 50);
  QVERIFY(document.runs().selection().pin() == (Cursor{49, 2}));
}

void DocumentFilesTest::whatAModelMakesStandsBesideWhatAFileHolds() {
  const Folder folder;
  {
    Document live;
    QVERIFY(runDemo(live, 64));
    live.files().saveRunFile(folder.path("before.h5"));
    QVERIFY(waitUntilIdle(live));
  }
  Document document;
  RunSettings settings;
  settings.limit = 64;
  document.modelRuns().setSettings(settings);
  document.open({folder.path("before.h5")});
  QVERIFY(waitUntilIdle(document));
  document.open({foxModel()});
  QVERIFY(waitUntilIdle(document));
  for (int again = 0; again < 2; ++again) {
    document.modelRuns().startRun();
    QVERIFY(waitUntilIdle(document));
    QCOMPARE(document.runs().size(), 3U);
    QCOMPARE(document.runs()[0].name, "fox-pro-12m · before");
    QCOMPARE(document.runs()[1].name, "transformer-pro-12m");
    QCOMPARE(document.runs()[2].name, "fox-pro-12m");
  }
  // Another text sends away what models made, not what files hold.
  document.modelRuns().setText({{}, "Quite another text, which no run has seen before."});
  document.modelRuns().startRun();
  QVERIFY(waitUntilIdle(document));
  QCOMPARE(document.runs().size(), 3U);
  QVERIFY(document.runs().length() < 40);
}

void DocumentFilesTest::aRunFileHoldsOneText() {
  const Folder folder;
  SyntheticRun longer;
  longer.length = 50;
  longer.name = "other";
  SyntheticRun twin;
  twin.seed = 2;
  Document document;
  document.open({writeRun(folder, "a.h5", {}), writeRun(folder, "b.h5", longer), writeRun(folder, "c.h5", twin)});
  QVERIFY(waitUntilIdle(document));
  QSignalSpy messages(&document, &Document::messageRaised);
  document.files().saveRunFile(folder.path("all.h5"));
  QVERIFY(waitUntilIdle(document));
  QCOMPARE(textsOf(messages).size(), 2);
  QVERIFY2(textsOf(messages)[0].startsWith("all.h5 does not contain fox · c: "), qPrintable(textsOf(messages)[0]));
  const RunFile written = RunFile::open(folder.path("all.h5").toStdString());
  QCOMPARE(written.traces.size(), 1U);
  QVERIFY(written.traces[0]->tokens()->id == document.runs()[0].trace->tokens()->id);
}

void DocumentFilesTest::rowNormalisersThatAFileLacksAreComputedAndSaved() {
  const Folder folder;
  SyntheticRun rowless;
  rowless.keep = {Keep::gates, Keep::query_key};
  Document document;
  document.open({writeRun(folder, "rowless.h5", rowless)});
  QVERIFY(waitUntilIdle(document));
  QVERIFY(document.openings().empty());
  QCOMPARE(document.runs().size(), 1U);
  QVERIFY(document.runs()[0].trace->has_attention(1));
  document.files().saveRunFile(folder.path("whole.h5"));
  QVERIFY(waitUntilIdle(document));
  QVERIFY(RunFile::open(folder.path("whole.h5").toStdString()).trace({})->has_attention(1));
  QVERIFY(!RunFile::open(folder.path("rowless.h5").toStdString()).trace({})->has_attention(1));
}

void DocumentFilesTest::openingThatTakesLongShowsItsProgressAndIsCancelled() {
  const Folder folder;
  SyntheticRun rowless;
  rowless.keep = {Keep::gates, Keep::query_key};
  rowless.length = 20'000;
  rowless.heads = 8;
  const QString path = writeRun(folder, "long.h5", rowless);
  Document document;
  QSignalSpy messages(&document, &Document::messageRaised);
  QString stage;
  connect(&document, &Document::openingsChanged, this, [&] {
    if (!stage.isEmpty() || document.openings().empty()) return;
    stage = document.openings().front().stage;
    document.cancelOpening(path);
  });
  document.open({path});
  QVERIFY(waitUntilIdle(document));
  QCOMPARE(stage, "computing row normalisers");
  QVERIFY(document.runs().empty());
  QVERIFY(document.openings().empty());
  QCOMPARE(textsOf(messages), QStringList{"Cancelled: " + path + " was not opened"});
}

void DocumentFilesTest::aFileThatContradictsItselfIsRefusedOrMarked() {
  const Folder folder;
  const auto source = foxscope::test::make_trace({});
  Recorder recorder(source->info(), {Keep::loss, Keep::gates}, nullptr);
  for (int layer = 0; layer < source->info().layers; ++layer) {
    const std::span<double> c = recorder.cumulative_log_gate(layer);
    std::iota(c.begin(), c.end(), -1000.0);
  }
  const std::shared_ptr<const Trace> traces[] = {recorder.finish(source->text(), source->tokens())};
  const QString path = folder.path("rising.h5");
  write_run_file(path.toStdString(), traces, {"foxscope", ""}, Overwrite::force, {});

  Document document;
  QSignalSpy messages(&document, &Document::messageRaised);
  document.open({path});
  QVERIFY(waitUntilIdle(document));
  QVERIFY(document.runs().empty());
  QCOMPARE(messages.size(), 1);
  QVERIFY(textsOf(messages)[0].contains(
      "layers/00/cumulative_log_gate: rises by 1 above an earlier sum at position 1 of head 0"));

  document.leaveUnchecked();
  document.open({path});
  QVERIFY(waitUntilIdle(document));
  QCOMPARE(document.runs().size(), 1U);
  QCOMPARE(document.runs()[0].name, "unchecked fox");
}

}  // namespace foxscope::gui::test

FOXSCOPE_GUILESS_SUBJECT(document_files, foxscope::gui::test::DocumentFilesTest)
#include "document_files_test.moc"
