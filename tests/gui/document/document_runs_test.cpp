// Runs that models make, and those of a model with a change.
#include <algorithm>
#include <cmath>

#include <QSignalSpy>
#include <QTest>

#include "backend/base/log.h"
#include "backend/base/system_memory.h"
#include "tests/gui/document/document_support.h"
#include "tests/gui/subject.h"

namespace foxscope::gui::test {

class DocumentRunsTest : public QObject {
  Q_OBJECT

 private slots:
  void runsBothModelsOnAText();
  void aSecondRunOnTheSameTextReplacesTheFirst();
  void anotherTextReplacesAllRuns();
  void cancellingKeepsWhatIsThere();
  void aCancelledSecondModelStaysAsLongAsItWas();
  void muchMemoryIsAskedFor();
  void aFailedRunKeepsTheRunsBefore();
  void aRunThatWouldNotFitIsRefusedWithTheFigure();
  void closingWhileARunIsMade();
  void aFirstRunShowsAHeadWithMemory();
  void aDerivedRunIsTheModelWithAChange();
  void whatCannotBeDerivedSaysWhy();
  void aRunWithSaliencyTakesTheOthersPlace();
  void whereNoSaliencyCanBeComputedSaysWhy();
};

void DocumentRunsTest::runsBothModelsOnAText() {
  Document document;
  QSignalSpy statuses(&document.modelRuns(), &ModelRuns::runStatusChanged);
  QVERIFY(runDemo(document, 200));
  QCOMPARE(document.runs()[0].name, "fox-pro-12m");
  QCOMPARE(document.runs()[1].name, "transformer-pro-12m");
  QCOMPARE(document.runs().length(), 200);
  QVERIFY(forgets(document.runs()[0].trace->info()));
  QVERIFY(!forgets(document.runs()[1].trace->info()));
  QVERIFY(statuses.size() > 2);
  QCOMPARE(document.runs().selection().head().run, document.runs()[0].id);
  QVERIFY(document.runs().selection().view() == (View{{0, 200}, {0, 200}}));
  QVERIFY(document.runs().headOf(document.runs().selection().head()).has_value());
  QVERIFY(!document.runs().headOf({document.runs()[0].id, 99, 0}));
  QVERIFY(!document.runs().headOf({12345, 0, 0}));
}

void DocumentRunsTest::aSecondRunOnTheSameTextReplacesTheFirst() {
  Document document;
  QVERIFY(runDemo(document, 64));
  const HeadChoice head{document.runs()[0].id, 3, 2};
  document.runs().selection().setHead(head);
  document.runs().selection().setPin({40, 20});
  document.modelRuns().startRun();
  QVERIFY(waitUntilIdle(document));
  QCOMPARE(document.runs().size(), 2U);
  QCOMPARE(document.runs()[0].name, "fox-pro-12m");
  // The selection stays with what has the same name and the same tokens.
  const HeadChoice now = document.runs().selection().head();
  QVERIFY(now.run != head.run && now.layer == 3 && now.head == 2);
  QCOMPARE(document.runs().run(now.run)->name, "fox-pro-12m");
  QVERIFY(document.runs().selection().pin() == (Cursor{40, 20}));
}

void DocumentRunsTest::anotherTextReplacesAllRuns() {
  Document document;
  QVERIFY(runDemo(document, 64));
  document.runs().selection().setPin({40, 20});
  document.modelRuns().setText({{}, "Quite another text, which no run has seen before."});
  QCOMPARE(document.runs().size(), 2U);
  document.modelRuns().startRun();
  QVERIFY(waitUntilIdle(document));
  QCOMPARE(document.runs().size(), 2U);
  QVERIFY(document.runs().length() < 40);
  QVERIFY(document.runs().selection().pin() == Cursor());
  QVERIFY(document.runs().selection().view() == (View{{0, document.runs().length()}, {0, document.runs().length()}}));
}

void DocumentRunsTest::cancellingKeepsWhatIsThere() {
  Document document;
  QVERIFY(runDemo(document, 64));
  const RunId before = document.runs()[0].id;
  RunSettings settings = document.modelRuns().settings();
  settings.limit = 0;
  document.modelRuns().setSettings(settings);
  document.modelRuns().startRun();
  QVERIFY(document.modelRuns().runStatus().running);
  document.modelRuns().cancelRun();
  QVERIFY(!document.modelRuns().runStatus().running);
  QVERIFY(waitUntilIdle(document));
  QCOMPARE(document.runs()[0].id, before);
  QVERIFY(document.modelRuns().canRun());
}

void DocumentRunsTest::aCancelledSecondModelStaysAsLongAsItWas() {
  Document document;
  QVERIFY(runDemo(document, 64));
  RunSettings settings = document.modelRuns().settings();
  settings.limit = 200;
  document.modelRuns().setSettings(settings);
  document.modelRuns().startRun();
  QVERIFY(QTest::qWaitFor([&] { return document.runs().length() == 200; }, 60'000));
  document.modelRuns().cancelRun();
  QCOMPARE(document.runs().size(), 2U);
  const Run& second = document.runs()[1];
  QCOMPARE(second.trace->info().length, 64);
  QCOMPARE(document.runs().positionIn(second.id, 63), std::optional<std::int64_t>(63));
  QVERIFY(!document.runs().positionIn(second.id, 64));
  QVERIFY(!document.runs().positionIn(second.id, 199));
  QCOMPARE(document.runs().placesOf(second.id).fromReference->covered(), 64);
}

void DocumentRunsTest::muchMemoryIsAskedFor() {
  Document document;
  document.open({foxModel()});
  QVERIFY(waitUntilIdle(document));
  // A token of this model takes 16 KiB of queries and keys and a quarter as much beside them.
  const double most = std::min(4e9, 0.8 * static_cast<double>(available_memory()));
  const auto tokens = static_cast<std::int64_t>(1.3 * most / 20'000);
  std::string text;
  for (std::int64_t line = 0; line < tokens / 6 + 1; ++line) text += "x y z w v\n";
  document.modelRuns().setText({{}, text});
  QSignalSpy asked(&document.modelRuns(), &ModelRuns::memoryAsked);
  QSignalSpy messages(&document, &Document::messageRaised);
  document.modelRuns().startRun();
  QVERIFY(QTest::qWaitFor([&] { return !document.modelRuns().runStatus().running && !document.busy(); }, 120'000));
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
  document.modelRuns().startRun();
  QTRY_COMPARE_WITH_TIMEOUT(asked.size(), 2, 120'000);
  document.modelRuns().runFewer(64);
  QCOMPARE(document.modelRuns().settings().limit, 64);
  QVERIFY(QTest::qWaitFor([&] { return document.runs().size() == 1 && !document.modelRuns().runStatus().running; },
                          60'000));
  QCOMPARE(document.runs().length(), 64);
  // An answer counts once, and a short run is not asked about.
  document.modelRuns().runAnyway();
  QVERIFY(!document.modelRuns().runStatus().running);
  document.modelRuns().startRun();
  QVERIFY(QTest::qWaitFor([&] { return !document.modelRuns().runStatus().running; }, 60'000));
  QCOMPARE(asked.size(), 2);
}

void DocumentRunsTest::aFailedRunKeepsTheRunsBefore() {
  const Folder folder;
  Document document;
  QVERIFY(runDemo(document, 32));
  const std::size_t models = document.runs().models().size();
  RunSettings settings = document.modelRuns().settings();
  settings.device = {DeviceChoice::Kind::cuda, 77};  // which is not there
  document.modelRuns().setSettings(settings);
  QSignalSpy messages(&document, &Document::messageRaised);
  document.modelRuns().startRun();
  QVERIFY(waitUntilIdle(document));
  QCOMPARE(messages.size(), 1);
  QCOMPARE(messages[0][0].value<Message>().kind, Message::Kind::error);
  QVERIFY2(textsOf(messages)[0].contains("cuda:77"), qPrintable(textsOf(messages)[0]));
  QCOMPARE(document.runs().size(), 2U);
  QCOMPARE(document.runs().models().size(), models);
  QVERIFY(!document.modelRuns().runStatus().running && document.modelRuns().canRun());
}

void DocumentRunsTest::aRunThatWouldNotFitIsRefusedWithTheFigure() {
  Document document;
  document.open({foxModel()});
  QVERIFY(waitUntilIdle(document));
  // Each line is six tokens, and each token takes more than a kibibyte, whatever the run keeps.
  const std::int64_t lines = available_memory() / 1024 / 6;
  std::string text;
  for (std::int64_t line = 0; line < lines; ++line) text += "x y z w v\n";
  document.modelRuns().setText({{}, std::move(text)});
  QSignalSpy messages(&document, &Document::messageRaised);
  int cuts = 0;
  {
    const LogReader reader([&](std::string_view line) { cuts += line.find(" bytes are ") != line.npos ? 1 : 0; });
    document.modelRuns().startRun();
    QVERIFY(QTest::qWaitFor([&] { return !document.modelRuns().runStatus().running; }, 120'000));
  }
  QCOMPARE(cuts, 1);  // for the estimate of memory and for the run
  QCOMPARE(messages.size(), 1);
  const QString line = textsOf(messages)[0];
  QVERIFY2(line.contains("GiB") && line.contains("tokens"), qPrintable(line));
}

void DocumentRunsTest::closingWhileARunIsMade() {
  auto document = std::make_unique<Document>();
  document->open({foxModel(), sampleText()});
  QVERIFY(waitUntilIdle(*document));
  document->modelRuns().startRun();
  document.reset();
  QCoreApplication::processEvents();
}

// By the definition of the decay time, from the gates themselves.
void DocumentRunsTest::aFirstRunShowsAHeadWithMemory() {
  Document document;
  QVERIFY(runDemo(document, 200));
  const auto decayTime = [&](int layer, int head) {
    const auto c = document.runs()[0].trace->cumulative_log_gate(layer, head);
    return -static_cast<double>(c.size() - 1) / (c.back() - c.front());
  };
  const HeadChoice chosen = document.runs().selection().head();
  QVERIFY(decayTime(chosen.layer, chosen.head) <= 50);
  const TraceInfo& info = document.runs()[0].trace->info();
  for (int layer = 0; layer < info.layers; ++layer) {
    for (int head = 0; head < info.heads; ++head) {
      QVERIFY(decayTime(layer, head) > 50 || decayTime(layer, head) <= decayTime(chosen.layer, chosen.head));
    }
  }
}

void DocumentRunsTest::aDerivedRunIsTheModelWithAChange() {
  Document document;
  QVERIFY(runDemo(document, 64));
  const Run base = document.runs()[0];
  // The text in the panel is another one by now: the derived run still reads what its base read.
  document.modelRuns().setText({{}, "Quite another text."});
  document.modelRuns().startDerivedRun(base.id, {QStringLiteral("3:1:one"), QStringLiteral("5:*:constant=0.5")});
  QVERIFY(waitUntilIdle(document));
  QCOMPARE(document.runs().size(), 3U);
  const Run& derived = document.runs()[2];
  QCOMPARE(derived.name, "fox-pro-12m, L3 H1, gate 1; L5, all heads, gate 0.5");
  QCOMPARE(derived.plainName(), "fox-pro-12m.3-1-one.5-all-constant0.5");  // as files and commands name it
  QCOMPARE(shownName(document.runs().models().back()), derived.name);
  QCOMPARE(document.runs().baseOf(derived)->id, base.id);
  QVERIFY(document.runs().baseOf(base) == nullptr);
  QCOMPARE(document.runs().models().back().interventions.size(), 2);
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
  document.modelRuns().startDerivedRun(derived.id, {QStringLiteral("0:0:cut")});
  QVERIFY(waitUntilIdle(document));
  QCOMPARE(document.runs().models().back().interventions.size(), 3);
  QVERIFY(document.runs()[3].trace->info().intervention.find("cut") != std::string::npos);
  QCOMPARE(document.runs()[3].name, "fox-pro-12m, L3 H1, gate 1; L5, all heads, gate 0.5; L0 H0, cut");
  QCOMPARE(document.runs().baseOf(document.runs()[3])->id, document.runs()[2].id);
}

void DocumentRunsTest::aRunWithSaliencyTakesTheOthersPlace() {
  Document document;
  QVERIFY(runDemo(document, 64));
  document.runs().selection().setHead({document.runs()[0].id, 3, 2});
  document.modelRuns().startSaliency(document.runs()[0].id, Range{40, 41});
  QVERIFY(waitUntilIdle(document));
  QCOMPARE(document.runs().size(), 2U);
  const HeadChoice head = document.runs().selection().head();
  QVERIFY(head == (HeadChoice{document.runs()[0].id, 3, 2}));
  const Trace& trace = *document.runs()[0].trace;
  QCOMPARE(trace.info().saliency_target, "mean of loss[40:41]");
  const auto gradient = trace.log_forget_gradient(3, 2);
  // A loss sees no later gate.
  QVERIFY(std::any_of(gradient.begin(), gradient.begin() + 41, [](float value) { return value != 0; }));
  QVERIFY(std::all_of(gradient.begin() + 41, gradient.end(), [](float value) { return value == 0; }));
  QVERIFY(trace.has_attention(0));
  QVERIFY(!document.runs()[1].trace->has(TraceArray::log_forget_gradient));
  // A Transformer has no gates, and yet what one would change.
  document.modelRuns().startSaliency(document.runs()[1].id, std::nullopt);
  QVERIFY(waitUntilIdle(document));
  QCOMPARE(document.runs()[1].trace->info().saliency_target, "mean of loss[0:64]");
  QVERIFY(document.runs()[0].trace->has(TraceArray::log_forget_gradient));
  // F5 runs as before.
  document.modelRuns().startRun();
  QVERIFY(waitUntilIdle(document));
  for (const Run& run : document.runs()) QVERIFY(!run.trace->has(TraceArray::log_forget_gradient));
}

void DocumentRunsTest::whereNoSaliencyCanBeComputedSaysWhy() {
  const Folder folder;
  Document document;
  QSignalSpy messages(&document, &Document::messageRaised);
  document.open({writeRun(folder, "run.h5", {})});
  QVERIFY(waitUntilIdle(document));
  document.modelRuns().startSaliency(document.runs()[0].id, std::nullopt);
  QCOMPARE(
      textsOf(messages).last(),
      "fox comes from a file, and its saliency needs its model: open the checkpoint folder (Ctrl+O), the text, and "
      "press F5 first");
  Document live;
  QSignalSpy refusals(&live, &Document::messageRaised);
  QVERIFY(runDemo(live, 32));
  for (const Range& target : {Range{30, 33}, Range{-1, 2}, Range{5, 5}}) {
    live.modelRuns().startSaliency(live.runs()[0].id, target);
    QCOMPARE(textsOf(refusals).last(), "fox-pro-12m did not read these positions");
  }
  live.modelRuns().startSaliency(live.runs()[0].id, std::nullopt);
  live.modelRuns().startSaliency(live.runs()[0].id, std::nullopt);
  QCOMPARE(textsOf(refusals).last(), "A run is in progress: wait for it, or cancel it");
  live.modelRuns().cancelRun();
  QVERIFY(waitUntilIdle(live));
  QVERIFY(!live.runs()[0].trace->has(TraceArray::log_forget_gradient));
  QCOMPARE(live.modelRuns().saliencyObstacle(live.runs()[0].id), QString());
  Document mixer;
  mixer.open({source("resources/models/gated-deltanet-1m"), sampleText()});
  QVERIFY(waitUntilIdle(mixer));
  RunSettings settings = mixer.modelRuns().settings();
  settings.limit = 32;
  mixer.modelRuns().setSettings(settings);
  mixer.modelRuns().startRun();
  QVERIFY(waitUntilIdle(mixer));
  // A decay of whole heads is a gate; a mixer that decays by channel has none.
  QCOMPARE(mixer.modelRuns().saliencyObstacle(mixer.runs()[0].id), QString());
  Document mixed;
  foxscope::test::SyntheticRun run;
  run.mixers = foxscope::test::all_mixers();
  mixed.open({writeRun(folder, "mixed.h5", run)});
  QVERIFY(waitUntilIdle(mixed));
  const QString obstacle = mixed.modelRuns().saliencyObstacle(mixed.runs()[0].id);
  QVERIFY2(obstacle.endsWith("saliency needs a model in which every layer is attention, or decays as a whole head"),
           qPrintable(obstacle));
}

void DocumentRunsTest::whatCannotBeDerivedSaysWhy() {
  const Folder folder;
  Document document;
  QSignalSpy messages(&document, &Document::messageRaised);
  document.open({writeRun(folder, "run.h5", {})});
  QVERIFY(waitUntilIdle(document));
  const std::size_t before = document.runs().size();
  document.modelRuns().startDerivedRun(document.runs()[0].id, {QStringLiteral("0:0:one")});
  QVERIFY(textsOf(messages).last().contains("comes from a file"));
  QVERIFY(waitUntilIdle(document));
  QCOMPARE(document.runs().size(), before);
  Document live;
  QSignalSpy refusals(&live, &Document::messageRaised);
  QVERIFY(runDemo(live, 32));
  live.modelRuns().startDerivedRun(live.runs()[0].id, {QStringLiteral("77:0:one")});
  QVERIFY(waitUntilIdle(live));
  QVERIFY(textsOf(refusals).last().contains("there is no layer 77"));
  QCOMPARE(live.runs().size(), 2U);
}

}  // namespace foxscope::gui::test

FOXSCOPE_GUILESS_SUBJECT(document_runs, foxscope::gui::test::DocumentRunsTest)
#include "document_runs_test.moc"
