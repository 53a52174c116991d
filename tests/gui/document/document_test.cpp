#include "app/gui/document/document.h"

#include <algorithm>
#include <cmath>
#include <semaphore>
#include <thread>

#include <QDir>
#include <QFile>
#include <QSignalSpy>
#include <QTest>

#include "backend/base/atomic_file.h"
#include "backend/base/system_memory.h"
#include "backend/file/run_file.h"
#include "tests/file/synthetic_trace.h"
#include "tests/gui/support.h"

namespace foxscope::gui::test {

using foxscope::test::make_trace;
using foxscope::test::SyntheticRun;

class DocumentTest : public QObject {
  Q_OBJECT

 private slots:
  void pathsAreToldApartByContent();
  void runsBothModelsOnAText();
  void aSecondRunOnTheSameTextReplacesTheFirst();
  void anotherTextReplacesAllRuns();
  void cancellingKeepsWhatIsThere();
  void aCancelledSecondModelStaysAsLongAsItWas();
  void aFileBeingWrittenKeepsNoPictureWaiting();
  void aCancelledExportLeavesNoFile();
  void aSessionWhoseTextFailsRunsNothingLater();
  void muchMemoryIsAskedFor();
  void aRunFileIsTheSameAsTheLiveRun();
  void aRunWithoutQueriesAndKeysSaysSo();
  void aSessionComesBack();
  void aSessionAsksForWhatIsMissing();
  void aSessionOfUnsavedRunsMakesThemAgain();
  void badPathsAreOneLineAndChangeNothing_data();
  void badPathsAreOneLineAndChangeNothing();
  void aFailedRunKeepsTheRunsBefore();
  void aRunThatWouldNotFitIsRefusedWithTheFigure();
  void withoutModelOrTextNothingRuns();
  void modelsOfOneNameAreToldApart();
  void closingWhileARunIsMade();
  void aFirstRunShowsAHeadWithMemory();
  void aDerivedRunIsTheModelWithAChange();
  void aDerivedRunComesBackWithItsSession();
  void whatCannotBeDerivedSaysWhy();
  void runFilesStandSideBySide();
  void aRunOnAnotherTextHasItsOwnPlace();
  void whatAModelMakesStandsBesideWhatAFileHolds();
  void aSessionBringsBackRunsOfSeveralFiles();
  void aRunFileHoldsOneText();
  void whatIsRemovedComesBack();
  void aReplacedTextComesBack();
  void whatWouldBeLostIsNamed();
};

namespace {

QStringList textsOf(const QSignalSpy& messages) {
  QStringList texts;
  for (const auto& arguments : messages) texts += arguments.at(0).value<Message>().text;
  return texts;
}

QString writeRun(const Folder& folder, const QString& name, const SyntheticRun& run) {
  const std::shared_ptr<const Trace> traces[] = {make_trace(run)};
  write_run_file(folder.path(name).toStdString(), traces, {"foxscope", ""}, Overwrite::force, {});
  return folder.path(name);
}

}  // namespace

void DocumentTest::pathsAreToldApartByContent() {
  const Folder folder;
  Document document;
  // Endings that mislead.
  const QString text = folder.write("text.h5", "The fox ran.");
  const QString run = writeRun(folder, "run.txt", {});
  document.open({foxModel(), text});
  QVERIFY(waitUntilIdle(document));
  QCOMPARE(document.models().size(), 1U);
  QCOMPARE(document.models()[0].name, "fox-pro-12m");
  QCOMPARE(document.text().content, "The fox ran.");
  QVERIFY(document.runs().empty());
  document.open({run});
  QVERIFY(waitUntilIdle(document));
  QCOMPARE(document.runs().size(), 1U);
  QCOMPARE(document.runs()[0].name, "fox");
  QCOMPARE(document.length(), 37);
}

void DocumentTest::runsBothModelsOnAText() {
  Document document;
  QSignalSpy statuses(&document, &Document::runStatusChanged);
  QVERIFY(runDemo(document, 200));
  QCOMPARE(document.runs()[0].name, "fox-pro-12m");
  QCOMPARE(document.runs()[1].name, "transformer-pro-12m");
  QCOMPARE(document.length(), 200);
  QVERIFY(document.runs()[0].trace->info().gated);
  QVERIFY(!document.runs()[1].trace->info().gated);
  QVERIFY(statuses.size() > 2);
  QCOMPARE(document.selection().head().run, document.runs()[0].id);
  QVERIFY(document.selection().view() == (View{{0, 200}, {0, 200}}));
  QVERIFY(document.headOf(document.selection().head()).has_value());
  QVERIFY(!document.headOf({document.runs()[0].id, 99, 0}));
  QVERIFY(!document.headOf({12345, 0, 0}));
}

void DocumentTest::aSecondRunOnTheSameTextReplacesTheFirst() {
  Document document;
  QVERIFY(runDemo(document, 64));
  const HeadChoice head{document.runs()[0].id, 3, 2};
  document.selection().setHead(head);
  document.selection().setPin({40, 20});
  document.startRun();
  QVERIFY(waitUntilIdle(document));
  QCOMPARE(document.runs().size(), 2U);
  QCOMPARE(document.runs()[0].name, "fox-pro-12m");
  // The selection stays with what has the same name and the same tokens.
  const HeadChoice now = document.selection().head();
  QVERIFY(now.run != head.run && now.layer == 3 && now.head == 2);
  QCOMPARE(document.run(now.run)->name, "fox-pro-12m");
  QVERIFY(document.selection().pin() == (Cursor{40, 20}));
}

void DocumentTest::anotherTextReplacesAllRuns() {
  Document document;
  QVERIFY(runDemo(document, 64));
  document.selection().setPin({40, 20});
  document.setText({{}, "Quite another text, which no run has seen before."});
  QCOMPARE(document.runs().size(), 2U);
  document.startRun();
  QVERIFY(waitUntilIdle(document));
  QCOMPARE(document.runs().size(), 2U);
  QVERIFY(document.length() < 40);
  QVERIFY(document.selection().pin() == Cursor());
  QVERIFY(document.selection().view() == (View{{0, document.length()}, {0, document.length()}}));
}

void DocumentTest::cancellingKeepsWhatIsThere() {
  Document document;
  QVERIFY(runDemo(document, 64));
  const RunId before = document.runs()[0].id;
  RunSettings settings = document.settings();
  settings.limit = 0;
  document.setSettings(settings);
  document.startRun();
  QVERIFY(document.runStatus().running);
  document.cancelRun();
  QVERIFY(!document.runStatus().running);
  QVERIFY(waitUntilIdle(document));
  QCOMPARE(document.runs()[0].id, before);
  QVERIFY(document.canRun());
}

void DocumentTest::aCancelledSecondModelStaysAsLongAsItWas() {
  Document document;
  QVERIFY(runDemo(document, 64));
  RunSettings settings = document.settings();
  settings.limit = 200;
  document.setSettings(settings);
  document.startRun();
  QVERIFY(QTest::qWaitFor([&] { return document.length() == 200; }, 60'000));
  document.cancelRun();
  QCOMPARE(document.runs().size(), 2U);
  const Run& second = document.runs()[1];
  QCOMPARE(second.trace->info().length, 64);
  QCOMPARE(document.positionIn(second.id, 63), std::optional<std::int64_t>(63));
  QVERIFY(!document.positionIn(second.id, 64));
  QVERIFY(!document.positionIn(second.id, 199));
  QCOMPARE(document.placesOf(second.id).fromReference->covered(), 64);
}

void DocumentTest::aFileBeingWrittenKeepsNoPictureWaiting() {
  const Folder folder;
  Document document;
  QSignalSpy messages(&document, &Document::messageRaised);
  std::binary_semaphore release(0);
  const QString path = folder.path("slow.bin");
  document.writeFile(path, [&](const Job& job) {
    job.tell({3, 4, "rows", "computing the map"});
    while (!release.try_acquire() && !job.stopped()) std::this_thread::yield();
    AtomicFile file(path.toStdString(), false);
    file.commit();
    return std::optional(true);
  });
  QTRY_VERIFY(document.exports().size() == 1 && document.exports()[0].fraction == 0.75);
  QCOMPARE(document.exports()[0].stage, "computing the map");
  QVERIFY(document.exports()[0].secondsLeft >= 0);
  // Pictures, and runs, are made meanwhile.
  for (JobRunner* runner : {&document.jobs(), &document.quickJobs()}) {
    bool drawn = false;
    JobRunner::Request<bool> picture;
    picture.work = [](const Job&) { return std::optional(true); };
    picture.done = [&](bool) { drawn = true; };
    runner->submit(&document, 7, std::move(picture));
    QTRY_VERIFY(drawn);
  }
  document.setText({{}, "A text of a few words."});
  document.open({foxModel()});
  QTRY_VERIFY(document.canRun());
  document.startRun();
  QVERIFY(QTest::qWaitFor([&] { return document.runs().size() == 1; }, 60'000));
  QCOMPARE(document.exports().size(), 1U);
  release.release();
  QVERIFY(waitUntilIdle(document));
  QVERIFY(document.exports().empty());
  QVERIFY(QFile::exists(path));
  QCOMPARE(textsOf(messages), QStringList{"Saved " + path});
}

void DocumentTest::aCancelledExportLeavesNoFile() {
  const Folder folder;
  Document document;
  QVERIFY(runDemo(document, 64));
  QSignalSpy messages(&document, &Document::messageRaised);
  std::binary_semaphore started(0);
  const QString running = folder.path("running.h5");
  document.writeFile(running, [&, traces = std::vector{document.runs()[0].trace}](const Job& job) {
    started.release();
    while (!job.stopped()) std::this_thread::yield();
    const bool whole = write_run_file(running.toStdString(), traces, {"foxscope", ""}, Overwrite::force, job);
    return whole ? std::optional(true) : std::nullopt;
  });
  const QString waiting = folder.path("waiting.h5");
  document.saveRunFile(waiting);
  QCOMPARE(document.exports().size(), 2U);
  document.cancelExport(waiting);
  QCOMPARE(document.exports().size(), 1U);
  started.acquire();
  document.cancelExport(running);
  QVERIFY(waitUntilIdle(document));
  QVERIFY(document.exports().empty());
  QVERIFY(QDir(folder.path(".")).isEmpty());
  QCOMPARE(textsOf(messages),
           (QStringList{"Cancelled: " + waiting + " was not written", "Cancelled: " + running + " was not written"}));
  QVERIFY(document.runs()[0].file.isEmpty());
}

void DocumentTest::aSessionWhoseTextFailsRunsNothingLater() {
  const Folder folder;
  folder.write("text.txt", QByteArray("abc\xff\xfe"));
  const QString session =
      folder.write("session.json", QStringLiteral(R"({"foxscope_session": 1, "text": {"file": "./text.txt"},
                                         "models": [{"name": "fox", "path": "%1"}]})")
                                       .arg(foxModel())
                                       .toUtf8());
  Document document;
  QSignalSpy messages(&document, &Document::messageRaised);
  document.open({session});
  QVERIFY(waitUntilIdle(document));
  QCOMPARE(messages.size(), 1);
  QVERIFY2(textsOf(messages)[0].contains("UTF-8"), qPrintable(textsOf(messages)[0]));
  document.setText({{}, "Nobody asked for a run."});
  QVERIFY(!document.runStatus().running);
  document.addModel(transformerModel());
  QVERIFY(!document.runStatus().running);
  QVERIFY(waitUntilIdle(document));
  QVERIFY(document.runs().empty());
}

void DocumentTest::muchMemoryIsAskedFor() {
  Document document;
  document.open({foxModel()});
  QVERIFY(waitUntilIdle(document));
  // A token of this model takes 16 KiB of queries and keys and a quarter as much beside them.
  const double most = std::min(4e9, 0.8 * static_cast<double>(available_memory()));
  const auto tokens = static_cast<std::int64_t>(1.3 * most / 20'000);
  std::string text;
  for (std::int64_t line = 0; line < tokens / 6 + 1; ++line) text += "x y z w v\n";
  document.setText({{}, text});
  QSignalSpy asked(&document, &Document::memoryAsked);
  QSignalSpy messages(&document, &Document::messageRaised);
  document.startRun();
  QVERIFY(QTest::qWaitFor([&] { return !document.runStatus().running && !document.busy(); }, 120'000));
  QVERIFY(messages.isEmpty());
  QCOMPARE(asked.size(), 1);
  const auto question = asked[0][0].value<MemoryQuestion>();
  QVERIFY(question.tokens >= tokens && question.tokens < tokens + 12);
  QVERIFY(question.needed > 16'384.0 * static_cast<double>(tokens));
  QVERIFY(question.needed < 24'000.0 * static_cast<double>(tokens) + 1e9);
  QVERIFY(question.free > 0);
  QVERIFY(question.fewer > 0 && question.fewer < question.tokens);
  QVERIFY(document.runs().empty());
  // Nothing was answered: F5 asks again. Fewer tokens run.
  document.startRun();
  QTRY_COMPARE_WITH_TIMEOUT(asked.size(), 2, 120'000);
  document.runFewer(64);
  QCOMPARE(document.settings().limit, 64);
  QVERIFY(QTest::qWaitFor([&] { return document.runs().size() == 1 && !document.runStatus().running; }, 60'000));
  QCOMPARE(document.length(), 64);
  // An answer counts once, and a short run is not asked about.
  document.runAnyway();
  QVERIFY(!document.runStatus().running);
  document.startRun();
  QVERIFY(QTest::qWaitFor([&] { return !document.runStatus().running; }, 60'000));
  QCOMPARE(asked.size(), 2);
}

void DocumentTest::aRunFileIsTheSameAsTheLiveRun() {
  const Folder folder;
  Document live;
  QVERIFY(runDemo(live, 100));
  QSignalSpy messages(&live, &Document::messageRaised);
  live.saveRunFile(folder.path("run.h5"));
  QVERIFY(waitUntilIdle(live));
  QCOMPARE(textsOf(messages), QStringList{"Saved " + folder.path("run.h5")});

  Document reopened;
  reopened.open({folder.path("run.h5")});
  QVERIFY(waitUntilIdle(reopened));
  QCOMPARE(reopened.runs().size(), live.runs().size());
  QVERIFY(reopened.models().empty());
  QCOMPARE(reopened.text().content, live.text().content);
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

void DocumentTest::aRunWithoutQueriesAndKeysSaysSo() {
  Document document;
  RunSettings settings;
  settings.limit = 32;
  settings.keepQueryKey = false;
  document.setSettings(settings);
  document.open({foxModel(), sampleText()});
  QVERIFY(waitUntilIdle(document));
  document.startRun();
  QVERIFY(waitUntilIdle(document));
  QVERIFY(document.runs()[0].trace->query_key() == nullptr);
  QVERIFY(!document.runs()[0].trace->has_attention(0));
}

void DocumentTest::aSessionComesBack() {
  const Folder folder;
  QJsonObject views{{"maps", QJsonObject{{"panes", 4}}}};
  {
    Document document;
    QVERIFY(runDemo(document, 100));
    document.saveRunFile(folder.path("run.h5"));
    QVERIFY(waitUntilIdle(document));
    document.selection().setHead({document.runs()[1].id, 4, 3});
    document.selection().setPin({90, 10});
    document.selection().setView({{50, 100}, {0, 80}});
    document.saveSession(folder.path("session.json"), views);
    QVERIFY(waitUntilIdle(document));
  }
  Document document;
  QSignalSpy opened(&document, &Document::sessionOpened);
  QSignalSpy missing(&document, &Document::fileMissing);
  document.open({folder.path("session.json")});
  QVERIFY(waitUntilIdle(document));
  QCOMPARE(opened.size(), 1);
  QCOMPARE(opened[0][0].toJsonObject(), views);
  QVERIFY(missing.isEmpty());
  QCOMPARE(document.models().size(), 2U);
  QCOMPARE(document.runs().size(), 2U);
  const HeadChoice head = document.selection().head();
  QCOMPARE(document.run(head.run)->name, "transformer-pro-12m");
  QVERIFY(head.layer == 4 && head.head == 3);
  QVERIFY(document.selection().pin() == (Cursor{90, 10}));
  QVERIFY(document.selection().view() == (View{{50, 100}, {0, 80}}));
  QCOMPARE(document.sessionFile(), folder.path("session.json"));
}

void DocumentTest::aSessionAsksForWhatIsMissing() {
  const Folder folder;
  const QString path = folder.write("session.json", R"({"foxscope_session": 1,
    "models": [{"name": "gone", "path": "/nowhere/model"}, {"name": "hub", "path": "owner/name"}],
    "text": {"file": "./gone.txt"}, "run_files": ["./gone.h5"]})");
  Document document;
  QSignalSpy missing(&document, &Document::fileMissing);
  document.open({path});
  QVERIFY(waitUntilIdle(document));
  QCOMPARE(missing.size(), 3);
  QCOMPARE(missing[0][1].toString(), "/nowhere/model");
  QCOMPARE(missing[1][1].toString(), folder.path("gone.txt"));
  QCOMPARE(missing[2][1].toString(), folder.path("gone.h5"));
  QCOMPARE(document.models().size(), 1U);
}

void DocumentTest::aSessionOfUnsavedRunsMakesThemAgain() {
  const Folder folder;
  {
    Document document;
    QVERIFY(runDemo(document, 64));
    document.selection().setPin({33, 22});
    document.saveSession(folder.path("session.json"), {});
    QVERIFY(waitUntilIdle(document));
  }
  Document document;
  document.open({folder.path("session.json")});
  QTRY_COMPARE_WITH_TIMEOUT(document.runs().size(), 2U, 60'000);
  QCOMPARE(document.length(), 64);
  QVERIFY(document.selection().pin() == (Cursor{33, 22}));
}

void DocumentTest::badPathsAreOneLineAndChangeNothing_data() {
  QTest::addColumn<QByteArray>("content");
  QTest::addColumn<QString>("words");
  QTest::newRow("not UTF-8") << QByteArray("abc\xff\xfe") << "UTF-8";
  QTest::newRow("NUL") << QByteArray("abc\0def", 7) << "NUL";
  QTest::newRow("empty") << QByteArray() << "the file is empty";
  QTest::newRow("damaged run file") << QByteArray("\x89HDF\r\n\x1a\nnothing more") << "run.txt";
}

void DocumentTest::badPathsAreOneLineAndChangeNothing() {
  QFETCH(const QByteArray, content);
  QFETCH(const QString, words);
  const Folder folder;
  Document document;
  QVERIFY(runDemo(document, 32));
  const RunId before = document.runs()[0].id;
  const TextInput text = document.text();
  QSignalSpy messages(&document, &Document::messageRaised);
  const QString bad = folder.write("run.txt", content);
  document.open({bad, folder.path("nowhere.txt"), folder.path("")});
  QVERIFY(waitUntilIdle(document));
  const QStringList texts = textsOf(messages);
  QCOMPARE(texts.size(), 3);
  QVERIFY2(texts[0].contains(words) && texts[0].contains("run.txt"), qPrintable(texts[0]));
  QVERIFY2(texts[1].contains("there is no such file or folder"), qPrintable(texts[1]));
  QVERIFY2(texts[2].contains("config.json"), qPrintable(texts[2]));
  for (const QString& line : texts) QVERIFY(!line.contains('\n'));
  QCOMPARE(document.runs()[0].id, before);
  QVERIFY(document.text() == text);
}

void DocumentTest::aFailedRunKeepsTheRunsBefore() {
  const Folder folder;
  Document document;
  QVERIFY(runDemo(document, 32));
  const std::size_t models = document.models().size();
  RunSettings settings = document.settings();
  settings.device = "cuda:77";
  document.setSettings(settings);
  QSignalSpy messages(&document, &Document::messageRaised);
  document.startRun();
  QVERIFY(waitUntilIdle(document));
  QCOMPARE(messages.size(), 1);
  QCOMPARE(messages[0][0].value<Message>().kind, Message::Kind::error);
  QVERIFY2(textsOf(messages)[0].contains("cuda"), qPrintable(textsOf(messages)[0]));
  QCOMPARE(document.runs().size(), 2U);
  QCOMPARE(document.models().size(), models);
  QVERIFY(!document.runStatus().running && document.canRun());
}

void DocumentTest::aRunThatWouldNotFitIsRefusedWithTheFigure() {
  Document document;
  document.open({foxModel()});
  QVERIFY(waitUntilIdle(document));
  // Each line is six tokens, and each token takes more than a kibibyte, whatever the run keeps.
  const std::int64_t lines = available_memory() / 1024 / 6;
  std::string text;
  for (std::int64_t line = 0; line < lines; ++line) text += "x y z w v\n";
  document.setText({{}, std::move(text)});
  QSignalSpy messages(&document, &Document::messageRaised);
  document.startRun();
  QVERIFY(QTest::qWaitFor([&] { return !document.runStatus().running; }, 120'000));
  QCOMPARE(messages.size(), 1);
  const QString line = textsOf(messages)[0];
  QVERIFY2(line.contains("GiB") && line.contains("tokens"), qPrintable(line));
}

void DocumentTest::withoutModelOrTextNothingRuns() {
  Document document;
  QSignalSpy messages(&document, &Document::messageRaised);
  document.startRun();
  QVERIFY(textsOf(messages).last().startsWith("No model yet"));
  document.open({foxModel()});
  QVERIFY(waitUntilIdle(document));
  document.startRun();
  QVERIFY(textsOf(messages).last().startsWith("No text yet"));
  QVERIFY(!document.runStatus().running);
  document.saveRunFile("/nowhere/run.h5");
  QVERIFY(textsOf(messages).last().startsWith("There is no run to save yet"));
}

void DocumentTest::modelsOfOneNameAreToldApart() {
  const Folder folder;
  Document document;
  document.addModel(foxModel());
  document.addModel(foxModel());
  QCOMPARE(document.models().size(), 1U);
  document.addModel("/elsewhere/fox-pro-12m");
  document.addModel("owner/a name & more");
  QCOMPARE(document.models()[1].name, "fox-pro-12m-2");
  QCOMPARE(document.models()[2].name, "a-name---more");
  document.removeModel(0);
  QCOMPARE(document.models().size(), 2U);
}

void DocumentTest::closingWhileARunIsMade() {
  auto document = std::make_unique<Document>();
  document->open({foxModel(), sampleText()});
  QVERIFY(waitUntilIdle(*document));
  document->startRun();
  document.reset();
  QCoreApplication::processEvents();
}

// By the definition of the decay time, from the gates themselves.
void DocumentTest::aFirstRunShowsAHeadWithMemory() {
  Document document;
  QVERIFY(runDemo(document, 200));
  const auto decayTime = [&](int layer, int head) {
    const auto c = document.runs()[0].trace->cumulative_log_gate(layer, head);
    return -static_cast<double>(c.size()) / c.back();
  };
  const HeadChoice chosen = document.selection().head();
  QVERIFY(decayTime(chosen.layer, chosen.head) <= 50);
  const TraceInfo& info = document.runs()[0].trace->info();
  for (int layer = 0; layer < info.layers; ++layer) {
    for (int head = 0; head < info.heads; ++head) {
      QVERIFY(decayTime(layer, head) > 50 || decayTime(layer, head) <= decayTime(chosen.layer, chosen.head));
    }
  }
}

void DocumentTest::aDerivedRunIsTheModelWithAChange() {
  Document document;
  QVERIFY(runDemo(document, 64));
  const Run base = document.runs()[0];
  // The text in the panel is another one by now: the derived run still reads what its base read.
  document.setText({{}, "Quite another text."});
  document.startDerivedRun(base.id, {QStringLiteral("3:1:one"), QStringLiteral("5:*:constant=0.5")});
  QVERIFY(waitUntilIdle(document));
  QCOMPARE(document.runs().size(), 3U);
  const Run& derived = document.runs()[2];
  QCOMPARE(derived.name, "fox-pro-12m, L3 H1, gate 1; L5, all heads, gate 0.5");
  QCOMPARE(derived.plainName(), "fox-pro-12m.3-1-one.5-all-constant0.5");  // as files and commands name it
  QCOMPARE(document.shownName(document.models().back()), derived.name);
  QCOMPARE(document.baseOf(derived)->id, base.id);
  QVERIFY(document.baseOf(base) == nullptr);
  QCOMPARE(document.models().back().interventions.size(), 2);
  QVERIFY(derived.trace->tokens()->id == base.trace->tokens()->id);
  for (std::int64_t i = 0; i < 64; ++i) {
    const auto at = static_cast<std::size_t>(i);
    QCOMPARE(derived.trace->cumulative_log_gate(3, 1)[at], 0.0);
    QVERIFY(std::abs(derived.trace->cumulative_log_gate(5, 2)[at] - std::log(0.5) * static_cast<double>(i + 1)) < 1e-9);
    QCOMPARE(derived.trace->cumulative_log_gate(0, 0)[at], base.trace->cumulative_log_gate(0, 0)[at]);
  }
  const auto& before = base.trace->per_token_loss();
  const auto& after = derived.trace->per_token_loss();
  QVERIFY(!std::equal(before.begin(), before.end(), after.begin()));
  // A change of a changed model keeps both.
  document.startDerivedRun(derived.id, {QStringLiteral("0:0:cut")});
  QVERIFY(waitUntilIdle(document));
  QCOMPARE(document.models().back().interventions.size(), 3);
  QVERIFY(document.runs()[3].trace->info().intervention.find("cut") != std::string::npos);
  QCOMPARE(document.runs()[3].name, "fox-pro-12m, L3 H1, gate 1; L5, all heads, gate 0.5; L0 H0, cut");
  QCOMPARE(document.baseOf(document.runs()[3])->id, document.runs()[2].id);
}

void DocumentTest::aDerivedRunComesBackWithItsSession() {
  const Folder folder;
  Document document;
  QVERIFY(runDemo(document, 32));
  document.startDerivedRun(document.runs()[0].id, {QStringLiteral("*:*:one")});
  QVERIFY(waitUntilIdle(document));
  document.saveSession(folder.path("session.json"), {});
  QVERIFY(waitUntilIdle(document));
  Document again;
  again.open({folder.path("session.json")});
  QVERIFY(waitUntilIdle(again));
  QCOMPARE(again.runs().size(), 3U);
  const auto before = document.runs()[2].trace->per_token_loss();
  const auto after = again.runs()[2].trace->per_token_loss();
  QCOMPARE(again.runs()[2].name, "fox-pro-12m, all heads, gate 1");
  QVERIFY(std::equal(before.begin(), before.end(), after.begin(), after.end()));
}

void DocumentTest::whatCannotBeDerivedSaysWhy() {
  const Folder folder;
  Document document;
  QSignalSpy messages(&document, &Document::messageRaised);
  document.open({writeRun(folder, "run.h5", {})});
  QVERIFY(waitUntilIdle(document));
  const std::size_t before = document.runs().size();
  document.startDerivedRun(document.runs()[0].id, {QStringLiteral("0:0:one")});
  QVERIFY(textsOf(messages).last().contains("comes from a file"));
  QVERIFY(waitUntilIdle(document));
  QCOMPARE(document.runs().size(), before);
  Document live;
  QSignalSpy refusals(&live, &Document::messageRaised);
  QVERIFY(runDemo(live, 32));
  live.startDerivedRun(live.runs()[0].id, {QStringLiteral("77:0:one")});
  QVERIFY(waitUntilIdle(live));
  QVERIFY(textsOf(refusals).last().contains("there is no layer 77"));
  QCOMPARE(live.runs().size(), 2U);
}

void DocumentTest::runFilesStandSideBySide() {
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
  QCOMPARE(document.runsOnText().size(), 2U);
  QVERIFY(messages.isEmpty());
  // Opened once more, and under another path of the same file, it is not there twice.
  document.selection().setHead({document.runs()[0].id, 1, 3});
  document.open({folder.path("./b.h5")});
  QVERIFY(waitUntilIdle(document));
  QCOMPARE(document.runs().size(), 2U);
  QVERIFY2(textsOf(messages).last().contains("b.h5 is open already"), qPrintable(textsOf(messages).last()));
  QCOMPARE(document.selection().head().run, document.runs()[1].id);
  // Names of panes and sessions still find their run when the other one is gone.
  const RunId first = document.runs()[0].id;
  QCOMPARE(document.runNamed("fox")->id, first);
  document.removeRun(document.runs()[1].id);
  QCOMPARE(document.runs()[0].name, "fox");
  QCOMPARE(document.runNamed("fox · a")->id, first);
  QVERIFY(document.runNamed("fox · b") == nullptr);
}

void DocumentTest::aRunOnAnotherTextHasItsOwnPlace() {
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
  QCOMPARE(document.length(), 37);
  QVERIFY(document.isOnText(a.id) && !document.isOnText(b.id));
  document.selection().setPin({30, 10});
  document.selection().setView({{10, 35}, {0, 20}});
  QSignalSpy changed(&document, &Document::referenceChanged);
  document.selection().setHead({b.id, 0, 0});
  QCOMPARE(changed.size(), 1);
  QCOMPARE(document.reference()->id, b.id);
  QCOMPARE(document.length(), 50);
  QVERIFY(document.selection().pin() == Cursor());
  QVERIFY(document.selection().view() == (View{{0, 50}, {0, 50}}));
  QVERIFY(document.placeIn(a.text).pin == (Cursor{30, 10}));
  document.selection().setPin({49, 2});
  document.selection().setHead({a.id, 1, 1});
  QVERIFY(document.selection().pin() == (Cursor{30, 10}));
  QVERIFY(document.selection().view() == (View{{10, 35}, {0, 20}}));
  QVERIFY(document.placeIn(b.text).pin == (Cursor{49, 2}));
  // When the text that is shown goes, another one is.
  document.removeRun(a.id);
  QCOMPARE(document.length(), 50);
  QVERIFY(document.selection().pin() == (Cursor{49, 2}));
}

void DocumentTest::whatAModelMakesStandsBesideWhatAFileHolds() {
  const Folder folder;
  {
    Document live;
    QVERIFY(runDemo(live, 64));
    live.saveRunFile(folder.path("before.h5"));
    QVERIFY(waitUntilIdle(live));
  }
  Document document;
  RunSettings settings;
  settings.limit = 64;
  document.setSettings(settings);
  document.open({folder.path("before.h5")});
  QVERIFY(waitUntilIdle(document));
  document.open({foxModel()});
  QVERIFY(waitUntilIdle(document));
  for (int again = 0; again < 2; ++again) {
    document.startRun();
    QVERIFY(waitUntilIdle(document));
    QCOMPARE(document.runs().size(), 3U);
    QCOMPARE(document.runs()[0].name, "fox-pro-12m · before");
    QCOMPARE(document.runs()[1].name, "transformer-pro-12m");
    QCOMPARE(document.runs()[2].name, "fox-pro-12m");
  }
  // Another text sends away what models made, not what files hold.
  document.setText({{}, "Quite another text, which no run has seen before."});
  document.startRun();
  QVERIFY(waitUntilIdle(document));
  QCOMPARE(document.runs().size(), 3U);
  QVERIFY(document.length() < 40);
}

void DocumentTest::aSessionBringsBackRunsOfSeveralFiles() {
  const Folder folder;
  SyntheticRun second;
  second.seed = 2;
  SyntheticRun third;
  third.name = "third";
  const std::shared_ptr<const Trace> traces[] = {make_trace(second), make_trace(third)};
  write_run_file(folder.path("b.h5").toStdString(), traces, {"foxscope", ""}, Overwrite::force, {});
  {
    Document document;
    document.open({writeRun(folder, "a.h5", {}), folder.path("b.h5")});
    QVERIFY(waitUntilIdle(document));
    QCOMPARE(document.runs().size(), 3U);
    document.removeRun(document.runNamed("third")->id);
    document.selection().setHead({document.runNamed("fox · b")->id, 1, 2});
    document.saveSession(folder.path("session.json"), {});
    QVERIFY(waitUntilIdle(document));
  }
  Document document;
  document.open({folder.path("session.json")});
  QVERIFY(waitUntilIdle(document));
  QCOMPARE(document.runs().size(), 2U);
  QCOMPARE(document.runs()[0].name, "fox · a");
  QCOMPARE(document.runs()[1].name, "fox · b");
  QVERIFY(document.selection().head() == (HeadChoice{document.runs()[1].id, 1, 2}));
}

void DocumentTest::aRunFileHoldsOneText() {
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
  document.saveRunFile(folder.path("all.h5"));
  QVERIFY(waitUntilIdle(document));
  QCOMPARE(textsOf(messages).size(), 2);
  QVERIFY2(textsOf(messages)[0].startsWith("all.h5 is without fox · c: "), qPrintable(textsOf(messages)[0]));
  const RunFile written = RunFile::open(folder.path("all.h5").toStdString());
  QCOMPARE(written.traces.size(), 1U);
  QVERIFY(written.traces[0]->tokens()->id == document.runs()[0].trace->tokens()->id);
}

void DocumentTest::whatIsRemovedComesBack() {
  Document document;
  QVERIFY(runDemo(document, 32));
  const std::vector<ModelInput> models = document.models();
  const RunId fox = document.runs()[0].id;
  const RunId transformer = document.runs()[1].id;
  document.selection().setHead({fox, 2, 1});
  document.removeModel(0);
  QCOMPARE(document.models().size(), 1U);
  QCOMPARE(document.runs().size(), 1U);
  QCOMPARE(document.undoStack().undoText(), "remove fox-pro-12m");
  document.undoStack().undo();
  QVERIFY(document.models() == models);
  QCOMPARE(document.runs().size(), 2U);
  QVERIFY(document.runs()[0].id == fox && document.runs()[1].id == transformer);
  QVERIFY(document.runs()[0].trace->query_key() != nullptr);
  document.undoStack().redo();
  QCOMPARE(document.runs()[0].id, transformer);
  document.undoStack().undo();
  document.removeRun(transformer);
  QCOMPARE(document.runs().size(), 1U);
  QCOMPARE(document.models().size(), 2U);
  document.undoStack().undo();
  QCOMPARE(document.runs()[1].id, transformer);
  // All closed: nothing is kept in memory for coming back.
  document.removeRun(transformer);
  document.clear();
  QVERIFY(!document.undoStack().canUndo());
}

void DocumentTest::aReplacedTextComesBack() {
  Document document;
  document.setText({{}, "The first."});
  QVERIFY(!document.undoStack().canUndo());
  document.setText({"/second.txt", "The second."});
  document.editText("The second, changed.");
  document.undoStack().undo();
  QCOMPARE(document.text().content, "The first.");
  // What was typed meanwhile is not lost either.
  document.undoStack().redo();
  QCOMPARE(document.text().content, "The second, changed.");
  document.setText({});
  document.undoStack().undo();
  QCOMPARE(document.text().content, "The second, changed.");
}

void DocumentTest::whatWouldBeLostIsNamed() {
  const Folder folder;
  Document document;
  QVERIFY(document.unsaved().empty());
  document.open({sampleText()});
  QVERIFY(waitUntilIdle(document));
  QVERIFY(document.unsaved().empty());
  document.editText("Typed.");
  QVERIFY(document.unsaved().text);
  document.saveText(folder.path("typed.txt"));
  QVERIFY(waitUntilIdle(document));
  QVERIFY(document.unsaved().empty());
  QCOMPARE(document.text().file, folder.path("typed.txt"));
  QVERIFY(runDemo(document, 32));
  QCOMPARE(document.unsaved().runs, (QStringList{"fox-pro-12m", "transformer-pro-12m"}));
  QVERIFY(!document.unsaved().text);
  document.saveUnsavedRuns(folder.path("run.h5"));
  QVERIFY(waitUntilIdle(document));
  QVERIFY(document.unsaved().empty());
  // Its text stands in the run file.
  document.editText(document.text().content);
  QVERIFY(document.unsaved().empty());
  document.editText("Changed.");
  document.saveSession(folder.path("session.json"), {});
  QVERIFY(waitUntilIdle(document));
  QVERIFY(document.unsaved().empty());
  // What opening a session makes, opening it again makes again.
  Document demo;
  demo.open({source("resources/demo.json")});
  QTRY_COMPARE_WITH_TIMEOUT(demo.runs().size(), 2U, 120'000);
  QVERIFY(waitUntilIdle(demo));
  QVERIFY(demo.unsaved().empty());
  demo.startDerivedRun(demo.runs()[0].id, {QStringLiteral("0:0:one")});
  QVERIFY(waitUntilIdle(demo));
  QCOMPARE(demo.unsaved().runs, QStringList{"fox-pro-12m, L0 H0, gate 1"});
}

}  // namespace foxscope::gui::test

QTEST_GUILESS_MAIN(foxscope::gui::test::DocumentTest)
#include "document_test.moc"
