// What is open: paths, models and the text; what of it is undone, and what would be lost.
#include <QSignalSpy>
#include <QTest>

#include "backend/file/run_file.h"
#include "tests/gui/document/document_support.h"
#include "tests/gui/subject.h"

namespace foxscope::gui::test {

class DocumentTest : public QObject {
  Q_OBJECT

 private slots:
  void pathsAreToldApartByContent();
  void badPathsAreOneLineAndChangeNothing_data();
  void badPathsAreOneLineAndChangeNothing();
  void withoutModelOrTextNothingRuns();
  void modelsOfOneNameAreToldApart();
  void whatIsRemovedComesBack();
  void aReplacedTextComesBack();
  void whatWouldBeLostIsNamed();
};

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

void DocumentTest::withoutModelOrTextNothingRuns() {
  Document document;
  QSignalSpy messages(&document, &Document::messageRaised);
  // Whatever asks for a run is told the first thing that is missing for one.
  const auto told = [&](const QString& words) {
    for (const auto& ask : std::vector<std::function<void()>>{[&] { document.startRun(); },
                                                              [&] { document.saveRunFile("/nowhere/run.h5"); },
                                                              [&] { document.startSaliency(kNoRun, std::nullopt); },
                                                              [&] { document.startDerivedRun(kNoRun, {"0:0:one"}); }}) {
      messages.clear();
      if (document.canRun()) break;
      ask();
      if (textsOf(messages) != QStringList{words}) return false;
    }
    return document.noRunText() == words && !document.runStatus().running;
  };
  QVERIFY(told("No model yet: open a checkpoint folder (Ctrl+O), or a run file (Ctrl+Alt+O)"));
  document.open({foxModel()});
  QVERIFY(waitUntilIdle(document));
  QVERIFY(told("No text yet: open one (Ctrl+Shift+O), or type or paste it"));
  document.editText("Two words.");
  QVERIFY(told("No run yet: press F5"));
  document.saveRunFile("/nowhere/run.h5");
  QCOMPARE(textsOf(messages), QStringList{"No run yet: press F5"});
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
  demo.saveSession(folder.path("demo.json"), {});
  QVERIFY(waitUntilIdle(demo));
  QVERIFY(demo.unsaved().empty());
  // But not what it would make otherwise.
  demo.startDerivedRun(demo.runs()[0].id, {QStringLiteral("0:1:one")});
  QVERIFY(waitUntilIdle(demo));
  RunSettings shorter = demo.settings();
  shorter.limit = 16;
  demo.setSettings(shorter);
  demo.saveSession(folder.path("demo.json"), {});
  QVERIFY(waitUntilIdle(demo));
  QCOMPARE(demo.unsaved().runs, QStringList{"fox-pro-12m, L0 H1, gate 1"});
}

}  // namespace foxscope::gui::test

FOXSCOPE_GUILESS_SUBJECT(document, foxscope::gui::test::DocumentTest)
#include "document_test.moc"
