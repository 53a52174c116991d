// Sessions, saved and opened.
#include <algorithm>

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
  void aSessionOfUnsavedRunsMakesThemAgain();
  void aDerivedRunComesBackWithItsSession();
  void aSessionBringsBackRunsOfSeveralFiles();
  void aSessionCarriesItsRuns();
};

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
