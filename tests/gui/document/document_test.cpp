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
  void aModelWithoutATokenizerSaysWhatItReads();
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
  QCOMPARE(document.runs().models().size(), 1U);
  QCOMPARE(document.runs().models()[0].name, "fox-pro-12m");
  QCOMPARE(document.modelRuns().text().content, "The fox ran.");
  QVERIFY(document.runs().empty());
  document.open({run});
  QVERIFY(waitUntilIdle(document));
  QCOMPARE(document.runs().size(), 1U);
  QCOMPARE(document.runs()[0].name, "fox");
  QCOMPARE(document.runs().length(), 37);
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
  const TextInput text = document.modelRuns().text();
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
  QVERIFY(document.modelRuns().text() == text);
}

void DocumentTest::withoutModelOrTextNothingRuns() {
  Document document;
  QSignalSpy messages(&document, &Document::messageRaised);
  // Whatever asks for a run is told the first thing that is missing for one.
  const auto told = [&](const QString& words) {
    for (const auto& ask : std::vector<std::function<void()>>{
             [&] { document.modelRuns().startRun(); }, [&] { document.files().saveRunFile("/nowhere/run.h5"); },
             [&] { document.modelRuns().startSaliency(kNoRun, std::nullopt); },
             [&] { document.modelRuns().startDerivedRun(kNoRun, {"0:0:one"}); }}) {
      messages.clear();
      if (document.modelRuns().canRun()) break;
      ask();
      if (textsOf(messages) != QStringList{words}) return false;
    }
    return document.modelRuns().noRunText() == words && !document.modelRuns().runStatus().running;
  };
  QVERIFY(told("No model yet: open a checkpoint folder (Ctrl+O), or a run file (Ctrl+Alt+O)"));
  document.open({foxModel()});
  QVERIFY(waitUntilIdle(document));
  QVERIFY(told("No text yet: open one (Ctrl+Shift+O), or type or paste it"));
  document.modelRuns().editText("Two words.");
  QVERIFY(told("No run yet: press F5"));
  document.files().saveRunFile("/nowhere/run.h5");
  QCOMPARE(textsOf(messages), QStringList{"No run yet: press F5"});
}

void DocumentTest::aModelWithoutATokenizerSaysWhatItReads() {
  Document document;
  QSignalSpy messages(&document, &Document::messageRaised);
  document.open({source("tests/data/published/olmoe")});
  QVERIFY(waitUntilIdle(document));
  QCOMPARE(document.runs().models().size(), 1U);
  QVERIFY(
      textsOf(messages).join('\n').contains("holds no tokenizer, so it reads no text: open a .json file of token ids "
                                            "for it, as `foxscope run --ids` reads it"));
}

void DocumentTest::modelsOfOneNameAreToldApart() {
  const Folder folder;
  Document document;
  document.runs().addModel(foxModel());
  document.runs().addModel(foxModel());
  QCOMPARE(document.runs().models().size(), 1U);
  document.runs().addModel("/elsewhere/fox-pro-12m");
  document.runs().addModel("owner/a name & more");
  QCOMPARE(document.runs().models()[1].name, "fox-pro-12m-2");
  QCOMPARE(document.runs().models()[2].name, "a-name---more");
  document.runs().removeModel(0);
  QCOMPARE(document.runs().models().size(), 2U);
}

void DocumentTest::whatIsRemovedComesBack() {
  Document document;
  QVERIFY(runDemo(document, 32));
  const std::vector<ModelInput> models = document.runs().models();
  const RunId fox = document.runs()[0].id;
  const RunId transformer = document.runs()[1].id;
  document.runs().selection().setHead({fox, 2, 1});
  document.runs().removeModel(0);
  QCOMPARE(document.runs().models().size(), 1U);
  QCOMPARE(document.runs().size(), 1U);
  QCOMPARE(document.runs().undoStack().undoText(), "remove fox-pro-12m");
  document.runs().undoStack().undo();
  QVERIFY(document.runs().models() == models);
  QCOMPARE(document.runs().size(), 2U);
  QVERIFY(document.runs()[0].id == fox && document.runs()[1].id == transformer);
  QVERIFY(document.runs()[0].trace->query_key() != nullptr);
  document.runs().undoStack().redo();
  QCOMPARE(document.runs()[0].id, transformer);
  document.runs().undoStack().undo();
  document.runs().removeRun(transformer);
  QCOMPARE(document.runs().size(), 1U);
  QCOMPARE(document.runs().models().size(), 2U);
  document.runs().undoStack().undo();
  QCOMPARE(document.runs()[1].id, transformer);
  // All closed: nothing is kept in memory for coming back.
  document.runs().removeRun(transformer);
  document.clear();
  QVERIFY(!document.runs().undoStack().canUndo());
}

void DocumentTest::aReplacedTextComesBack() {
  Document document;
  document.modelRuns().setText({{}, "The first."});
  QVERIFY(!document.runs().undoStack().canUndo());
  document.modelRuns().setText({"/second.txt", "The second."});
  document.modelRuns().editText("The second, changed.");
  document.runs().undoStack().undo();
  QCOMPARE(document.modelRuns().text().content, "The second.");
  document.runs().undoStack().undo();
  QCOMPARE(document.modelRuns().text().content, "The first.");
  // What was typed meanwhile is not lost either.
  document.runs().undoStack().redo();
  document.runs().undoStack().redo();
  QCOMPARE(document.modelRuns().text().content, "The second, changed.");
  document.modelRuns().setText({});
  document.runs().undoStack().undo();
  QCOMPARE(document.modelRuns().text().content, "The second, changed.");
}

void DocumentTest::whatWouldBeLostIsNamed() {
  const Folder folder;
  Document document;
  QVERIFY(document.sessions().unsaved().empty());
  document.open({sampleText()});
  QVERIFY(waitUntilIdle(document));
  QVERIFY(document.sessions().unsaved().empty());
  document.modelRuns().editText("Typed.");
  QVERIFY(document.sessions().unsaved().text);
  document.files().saveText(folder.path("typed.txt"));
  QVERIFY(waitUntilIdle(document));
  QVERIFY(document.sessions().unsaved().empty());
  QCOMPARE(document.modelRuns().text().file, folder.path("typed.txt"));
  QVERIFY(runDemo(document, 32));
  QCOMPARE(document.sessions().unsaved().runs, (QStringList{"fox-pro-12m", "transformer-pro-12m"}));
  QVERIFY(!document.sessions().unsaved().text);
  document.files().saveUnsavedRuns(folder.path("run.h5"));
  QVERIFY(waitUntilIdle(document));
  QVERIFY(document.sessions().unsaved().empty());
  // Its text stands in the run file.
  document.modelRuns().editText(document.modelRuns().text().content);
  QVERIFY(document.sessions().unsaved().empty());
  document.modelRuns().editText("Changed.");
  document.sessions().save(folder.path("session.json"), {});
  QVERIFY(waitUntilIdle(document));
  QVERIFY(document.sessions().unsaved().empty());
  // What opening a session makes, opening it again makes again.
  Document demo;
  demo.open({source("resources/demo.json")});
  QTRY_COMPARE_WITH_TIMEOUT(demo.runs().size(), 2U, 120'000);
  QVERIFY(waitUntilIdle(demo));
  QVERIFY(demo.sessions().unsaved().empty());
  demo.modelRuns().startDerivedRun(demo.runs()[0].id, {QStringLiteral("0:0:one")});
  QVERIFY(waitUntilIdle(demo));
  QCOMPARE(demo.sessions().unsaved().runs, QStringList{"fox-pro-12m, L0 H0, gate 1"});
  demo.sessions().save(folder.path("demo.json"), {});
  QVERIFY(waitUntilIdle(demo));
  QVERIFY(demo.sessions().unsaved().empty());
  // Of a run with saliency that alone would be lost.
  demo.modelRuns().startSaliency(demo.runs()[0].id, std::nullopt);
  QVERIFY(waitUntilIdle(demo));
  QCOMPARE(demo.sessions().unsaved().parts.size(), 1);
  const QString part = demo.sessions().unsaved().parts[0];
  QVERIFY2(part.startsWith("the saliency of fox-pro-12m, ") && part.endsWith(" s to compute"), qPrintable(part));
  demo.sessions().save(folder.path("demo.json"), {});
  QVERIFY(waitUntilIdle(demo));
  QCOMPARE(demo.sessions().unsaved().parts, QStringList{part});
  demo.files().saveUnsavedRuns(folder.path("saliency.h5"));
  QVERIFY(waitUntilIdle(demo));
  QVERIFY(demo.sessions().unsaved().empty());
  // But not what it would make otherwise.
  demo.modelRuns().startDerivedRun(demo.runs()[0].id, {QStringLiteral("0:1:one")});
  QVERIFY(waitUntilIdle(demo));
  RunSettings shorter = demo.modelRuns().settings();
  shorter.limit = 16;
  demo.modelRuns().setSettings(shorter);
  demo.sessions().save(folder.path("demo.json"), {});
  QVERIFY(waitUntilIdle(demo));
  QCOMPARE(demo.sessions().unsaved().runs, QStringList{"fox-pro-12m, L0 H1, gate 1"});
}

}  // namespace foxscope::gui::test

FOXSCOPE_GUILESS_SUBJECT(document, foxscope::gui::test::DocumentTest)
#include "document_test.moc"
