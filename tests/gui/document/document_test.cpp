#include "app/gui/document/document.h"

#include <algorithm>
#include <cmath>

#include <QFile>
#include <QSignalSpy>
#include <QTest>

#include "backend/file/run_file.h"
#include "backend/model/run_memory.h"
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
  QCOMPARE(derived.name, "fox-pro-12m.3-1-one.5-all-constant0.5");
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
  QCOMPARE(again.runs()[2].name, "fox-pro-12m.all-all-one");
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

}  // namespace foxscope::gui::test

QTEST_GUILESS_MAIN(foxscope::gui::test::DocumentTest)
#include "document_test.moc"
