// Sessions, saved and opened.
#include <algorithm>

#include <QFile>
#include <QFileInfo>
#include <QSignalSpy>
#include <QTest>

#include "backend/file/run_file.h"
#include "tests/gui/document/document_support.h"
#include "tests/gui/subject.h"

namespace foxscope::gui::test {

using foxscope::test::make_trace;
using foxscope::test::SyntheticRun;

class DocumentSessionsTest : public QObject {
  Q_OBJECT

 private slots:
  void aSessionWhoseTextFailsRunsNothingLater();
  void aSessionComesBack();
  void aSessionAsksForWhatIsMissing();
  void aSessionOfManyFilesIsNoText();
  void aSessionOfUnsavedRunsMakesThemAgain();
  void aDerivedRunComesBackWithItsSession();
  void aSessionBringsBackRunsOfSeveralFiles();
  void aSessionCarriesItsRuns();
  void aSessionWithRunsStaysOne();
  void aSessionThatIsBeingOpenedIsNotSaved();
  void aRunThatCannotBeReadIsMadeAgain();
};

namespace {

/// Two runs that models made, in a session with runs.
void makeWithRuns(Document& document, const QString& path) {
  document.modelRuns().setText({{}, "A story."});
  for (const char* name : {"fox", "other"}) {
    SyntheticRun wanted;
    wanted.name = name;
    document.runs().addModel(QStringLiteral("/models/%1").arg(name), name);
    document.runs().addMade({kNoRun, name, make_trace(wanted), QStringLiteral("/models/%1").arg(name)});
  }
  document.runs().selection().setHead({document.runs()[0].id, 1, 2});
  document.runs().selection().setPin({30, 12});
  document.sessions().saveWithRuns(document.files(), path, {});
}

}  // namespace

void DocumentSessionsTest::aSessionWhoseTextFailsRunsNothingLater() {
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
  document.modelRuns().setText({{}, "Nobody asked for a run."});
  QVERIFY(!document.modelRuns().runStatus().running);
  document.runs().addModel(transformerModel());
  QVERIFY(!document.modelRuns().runStatus().running);
  QVERIFY(waitUntilIdle(document));
  QVERIFY(document.runs().empty());
}

void DocumentSessionsTest::aSessionComesBack() {
  const Folder folder;
  QJsonObject views{{"maps", QJsonObject{{"panes", 4}}}};
  {
    Document document;
    QVERIFY(runDemo(document, 100));
    document.files().saveRunFile(folder.path("run.h5"));
    QVERIFY(waitUntilIdle(document));
    document.runs().selection().setHead({document.runs()[1].id, 4, 3});
    document.runs().selection().setPin({90, 10});
    document.runs().selection().setView({{50, 100}, {0, 80}});
    document.sessions().save(folder.path("session.json"), views);
    QVERIFY(waitUntilIdle(document));
  }
  Document document;
  QSignalSpy opened(&document.sessions(), &SessionStore::sessionOpened);
  QSignalSpy missing(&document.sessions(), &SessionStore::fileMissing);
  document.open({folder.path("session.json")});
  QVERIFY(waitUntilIdle(document));
  QCOMPARE(opened.size(), 1);
  QCOMPARE(opened[0][0].toJsonObject(), views);
  QVERIFY(missing.isEmpty());
  QCOMPARE(document.runs().models().size(), 2U);
  QCOMPARE(document.runs().size(), 2U);
  const HeadChoice head = document.runs().selection().head();
  QCOMPARE(document.runs().run(head.run)->name, "transformer-pro-12m");
  QVERIFY(head.layer == 4 && head.head == 3);
  QVERIFY(document.runs().selection().pin() == (Cursor{90, 10}));
  QVERIFY(document.runs().selection().view() == (View{{50, 100}, {0, 80}}));
  QCOMPARE(document.sessions().file(), folder.path("session.json"));
}

void DocumentSessionsTest::aSessionAsksForWhatIsMissing() {
  const Folder folder;
  const QString path = folder.write("session.json", R"({"foxscope_session": 1,
    "models": [{"name": "gone", "path": "/nowhere/model"}, {"name": "hub", "path": "owner/name"}],
    "text": {"file": "./gone.txt"}, "run_files": ["./gone.h5"]})");
  Document document;
  QSignalSpy missing(&document.sessions(), &SessionStore::fileMissing);
  document.open({path});
  QVERIFY(waitUntilIdle(document));
  QCOMPARE(missing.size(), 3);
  QCOMPARE(missing[0][1].toString(), "/nowhere/model");
  QCOMPARE(missing[1][1].toString(), folder.path("gone.txt"));
  QCOMPARE(missing[2][1].toString(), folder.path("gone.h5"));
  QCOMPARE(document.runs().models().size(), 1U);
}

// Names of files come before the key that tells a session.
void DocumentSessionsTest::aSessionOfManyFilesIsNoText() {
  const Folder folder;
  QByteArray content = R"({"evaluations": ["./gone.h5")";
  constexpr int kFiles = 400;
  for (int n = 1; n < kFiles; ++n) content += ", \"./an-evaluation-that-is-gone.h5\"";
  content += R"(], "foxscope_session": 1})";
  Document document;
  QSignalSpy missing(&document.sessions(), &SessionStore::fileMissing);
  document.open({folder.write("session.json", content)});
  QVERIFY(waitUntilIdle(document));
  QCOMPARE(missing.size(), kFiles);
}

void DocumentSessionsTest::aSessionOfUnsavedRunsMakesThemAgain() {
  const Folder folder;
  {
    Document document;
    QVERIFY(runDemo(document, 64));
    document.runs().selection().setPin({33, 22});
    document.sessions().save(folder.path("session.json"), {});
    QVERIFY(waitUntilIdle(document));
  }
  Document document;
  document.open({folder.path("session.json")});
  QTRY_COMPARE_WITH_TIMEOUT(document.runs().size(), 2U, 60'000);
  QCOMPARE(document.runs().length(), 64);
  QVERIFY(document.runs().selection().pin() == (Cursor{33, 22}));
}

void DocumentSessionsTest::aDerivedRunComesBackWithItsSession() {
  const Folder folder;
  Document document;
  QVERIFY(runDemo(document, 32));
  document.modelRuns().startDerivedRun(document.runs()[0].id, {QStringLiteral("*:*:one")});
  QVERIFY(waitUntilIdle(document));
  document.sessions().save(folder.path("session.json"), {});
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

void DocumentSessionsTest::aSessionCarriesItsRuns() {
  const Folder folder;
  const QString path = folder.path("with.json");
  {
    Document document;
    document.modelRuns().setText({{}, "A story."});
    for (const char* name : {"fox", "other"}) {
      SyntheticRun wanted;
      wanted.name = name;
      document.runs().addModel(QStringLiteral("/models/%1").arg(name), name);
      document.runs().addMade({kNoRun, name, make_trace(wanted), QStringLiteral("/models/%1").arg(name)});
    }
    // A file that something else keeps of a run is not the session's.
    document.runs().setKept(document.runs()[0].id, folder.path("elsewhere.h5"));
    QVERIFY(!document.sessions().carriesRuns());
    document.sessions().saveWithRuns(document.files(), path, {});
    QVERIFY(waitUntilIdle(document));
    QVERIFY(document.sessions().carriesRuns());
    QVERIFY(document.sessions().unsaved().empty());
    QVERIFY(QFileInfo::exists(folder.path("with.runs/fox.h5")) && QFileInfo::exists(folder.path("with.runs/other.h5")));
  }
  Document document;
  QSignalSpy messages(&document, &Document::messageRaised);
  QSignalSpy status(&document.modelRuns(), &ModelRuns::runStatusChanged);
  document.open({path});
  QVERIFY(waitUntilIdle(document));
  QCOMPARE(document.runs().size(), 2U);
  QCOMPARE(document.runs()[0].model, "/models/fox");
  QVERIFY(document.runs()[0].file.isEmpty());
  QVERIFY(document.runs()[1].trace->query_key() != nullptr);
  QVERIFY(status.isEmpty());
  QVERIFY(document.sessions().carriesRuns());
  QVERIFY(document.sessions().unsaved().empty());
  QCOMPARE(document.sessions().file(), path);
  // Saved elsewhere without them it does not speak of this folder.
  document.sessions().save(folder.path("without.json"), {});
  QVERIFY(waitUntilIdle(document));
  QFile plain(folder.path("without.json"));
  QVERIFY(plain.open(QIODevice::ReadOnly));
  QVERIFY(!plain.readAll().contains("with.runs"));
  QVERIFY(!document.sessions().carriesRuns());
  // A folder that cannot be made is named.
  messages.clear();
  document.sessions().saveWithRuns(document.files(), folder.write("file", "no folder") + "/session.json", {});
  QVERIFY(waitUntilIdle(document));
  QCOMPARE(messages.size(), 1);
  QVERIFY2(textsOf(messages)[0].contains("session.runs: cannot be made: check the folder"),
           qPrintable(textsOf(messages)[0]));
}

// It is one with runs until it is saved without, whatever is run meanwhile.
void DocumentSessionsTest::aSessionWithRunsStaysOne() {
  const Folder folder;
  const QString path = folder.path("with.json");
  Document document;
  makeWithRuns(document, path);
  QVERIFY(waitUntilIdle(document));
  folder.write("with.runs/mine.h5", "a file of the user's");
  // Another text: the other model's run goes.
  SyntheticRun longer;
  longer.length = 50;
  document.runs().addMade({kNoRun, "fox", make_trace(longer), "/models/fox"});
  QCOMPARE(document.runs().size(), 1U);
  QVERIFY(document.sessions().carriesRuns());
  QVERIFY(QFileInfo::exists(folder.path("with.runs/other.h5")));
  document.sessions().saveWithRuns(document.files(), path, {});
  QVERIFY(waitUntilIdle(document));
  QVERIFY(!QFileInfo::exists(folder.path("with.runs/other.h5")));
  QVERIFY(QFileInfo::exists(folder.path("with.runs/fox.h5")) && QFileInfo::exists(folder.path("with.runs/mine.h5")));
  {
    Document again;
    again.open({path});
    QVERIFY(waitUntilIdle(again));
    QCOMPARE(again.runs().size(), 1U);
    QCOMPARE(again.runs().length(), 50);
    // So it is without any run.
    again.runs().removeRun(again.runs()[0].id);
    QVERIFY(again.sessions().carriesRuns());
    again.sessions().saveWithRuns(again.files(), path, {});
    QVERIFY(waitUntilIdle(again));
  }
  QVERIFY(!QFileInfo::exists(folder.path("with.runs/fox.h5")));
  Document empty;
  empty.open({path});
  QVERIFY(waitUntilIdle(empty));
  QVERIFY(empty.sessions().carriesRuns());
  // Saved without runs it keeps those alone that nothing makes again.
  document.sessions().saveWithRuns(document.files(), path, {});
  QVERIFY(waitUntilIdle(document));
  document.sessions().save(path, {});
  QVERIFY(waitUntilIdle(document));
  QVERIFY(!document.sessions().carriesRuns());
  QVERIFY(QFileInfo::exists(folder.path("with.runs/fox.h5")));
  document.modelRuns().setText({{}, make_trace(longer)->text()->content});
  document.sessions().save(path, {});
  QVERIFY(waitUntilIdle(document));
  QVERIFY(!QFileInfo::exists(folder.path("with.runs/fox.h5")));
  QVERIFY(document.runs()[0].kept.isEmpty());
}

// Its runs are not there yet: their files would go.
void DocumentSessionsTest::aSessionThatIsBeingOpenedIsNotSaved() {
  const Folder folder;
  const QString path = folder.path("with.json");
  {
    Document document;
    makeWithRuns(document, path);
    QVERIFY(waitUntilIdle(document));
  }
  Document document;
  QSignalSpy messages(&document, &Document::messageRaised);
  connect(&document.sessions(), &SessionStore::sessionOpened, this, [&] {
    document.sessions().saveWithRuns(document.files(), path, {});
    document.sessions().save(path, {});
  });
  document.open({path});
  QVERIFY(waitUntilIdle(document));
  const QString refused = "The session is still being opened: save when its runs are there";
  QCOMPARE(textsOf(messages), (QStringList{refused, refused}));
  QCOMPARE(document.runs().size(), 2U);
  QVERIFY(!document.sessions().isOpening());
  QVERIFY(QFileInfo::exists(folder.path("with.runs/fox.h5")) && QFileInfo::exists(folder.path("with.runs/other.h5")));
}

// Its pins are shown, and its head is chosen when F5 has made it.
void DocumentSessionsTest::aRunThatCannotBeReadIsMadeAgain() {
  const Folder folder;
  const QString path = folder.path("with.json");
  const QString kept = folder.path("with.runs/fox.h5");
  {
    Document document;
    makeWithRuns(document, path);
    QVERIFY(waitUntilIdle(document));
  }
  QVERIFY(QFile::resize(kept, QFileInfo(kept).size() / 2));
  Document document;
  QSignalSpy messages(&document, &Document::messageRaised);
  document.open({path});
  QVERIFY(waitUntilIdle(document));
  QCOMPARE(textsOf(messages),
           QStringList{kept + ": is damaged, but the session keeps its run of fox there: press F5 to "
                              "make the run again"});
  QCOMPARE(document.runs().size(), 1U);
  QVERIFY(document.runs().selection().pin() == (Cursor{30, 12}));
  // Saved meanwhile the session still speaks of it; what the user chooses is kept instead.
  QCOMPARE(document.runs().selectionToKeep().run, "fox");
  QCOMPARE(document.runs().selectionToKeep().head, 2);
  document.runs().selection().setPin({20, 10});
  QCOMPARE(document.runs().selectionToKeep().run, "other");
  document.runs().addMade({kNoRun, "fox", make_trace({}), "/models/fox"});
  const Selection& selection = document.runs().selection();
  QCOMPARE(document.runs().run(selection.head().run)->name, "fox");
  QVERIFY(selection.head().layer == 1 && selection.head().head == 2);
  QVERIFY(selection.pin() == (Cursor{20, 10}));
  // A kept file that is no run file is no text either.
  folder.write("with.runs/fox.h5", QByteArray(5000, '\xd5'));
  Document noise;
  QSignalSpy ofNoise(&noise, &Document::messageRaised);
  noise.open({path});
  QVERIFY(waitUntilIdle(noise));
  QCOMPARE(textsOf(ofNoise),
           QStringList{kept + ": is no run file, but the session keeps its run of fox there: press F5 "
                              "to make the run again"});
  QVERIFY(noise.modelRuns().text().content == "A story.");
  // Whoever saves now may still want to mend it.
  noise.sessions().saveWithRuns(noise.files(), path, {});
  QVERIFY(waitUntilIdle(noise));
  QVERIFY(QFileInfo::exists(kept));
}

void DocumentSessionsTest::aSessionBringsBackRunsOfSeveralFiles() {
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
    document.runs().removeRun(document.runs().runNamed("third")->id);
    document.runs().selection().setHead({document.runs().runNamed("fox · b")->id, 1, 2});
    document.sessions().save(folder.path("session.json"), {});
    QVERIFY(waitUntilIdle(document));
  }
  Document document;
  document.open({folder.path("session.json")});
  QVERIFY(waitUntilIdle(document));
  QCOMPARE(document.runs().size(), 2U);
  QCOMPARE(document.runs()[0].name, "fox · a");
  QCOMPARE(document.runs()[1].name, "fox · b");
  QVERIFY(document.runs().selection().head() == (HeadChoice{document.runs()[1].id, 1, 2}));
}

}  // namespace foxscope::gui::test

FOXSCOPE_GUILESS_SUBJECT(document_sessions, foxscope::gui::test::DocumentSessionsTest)
#include "document_sessions_test.moc"
