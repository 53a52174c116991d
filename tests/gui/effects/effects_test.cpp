#include <algorithm>
#include <cmath>

#include <QDir>
#include <QFile>
#include <QJsonArray>
#include <QSignalSpy>
#include <QTest>

#include "app/gui/document/opened_path.h"
#include "app/gui/effects/effects_view.h"
#include "app/gui/views/estimate_text.h"
#include "backend/file/run_file.h"
#include "tests/gui/subject.h"
#include "tests/gui/support.h"

namespace foxscope::gui::test {

class EffectsTest : public QObject {
  Q_OBJECT

 private slots:
  void aChangedRunIsAnswered();
  void theNewestChangeIsAnswered();
  void whatIsHiddenIsNotAnswered();
  void aClickOnATokenGoesThere();
  void aSweepChangesEachHeadInTurn();
  void aClickOnACellChoosesTheHead();
  void aSweepStopsAndGoesOn();
  void aSweepOutlivesItsWindow();
  void aSweepThatIsClosedDoesNotComeBack();
  void aSweepIsExportedAndOpened();
  void aSweepSaysOfWhichTextItIs();
  void aSweepHasTheHeadsOfEachLayer();
  void aHeadOfASweepIsOneOfMany();
  void whatCannotBeSweptSaysWhy();
  void withoutChangesItSaysWhatToDo();
  void changedRunsFromFilesAreAnswered();
};

namespace {

constexpr int kPatience = 120'000;
constexpr std::int64_t kTokens = 80;

Intervention change(const char* kind) { return Intervention::parse_change(kind); }

struct Effects {
  Document document;
  Sweeps sweeps{document.runs(), document.modelRuns()};
  EffectsView view{document.runs(), document.files(), sweeps};
  QSignalSpy messages{&document, &Document::messageRaised};

  Effects() { QObject::connect(&document, &Document::sweepOpened, &sweeps, &Sweeps::open); }

  bool run() {
    view.resize(900, 420);
    view.show();
    return runDemo(document, kTokens);
  }
  [[nodiscard]] RunId fox() const { return document.runs()[0].id; }
  bool sweep(const char* kind) {
    sweeps.start(fox(), change(kind));
    return QTest::qWaitFor([this] { return !sweeps.running(); }, kPatience);
  }
  bool derive(const QString& intervention) { return derive(fox(), intervention); }
  bool derive(RunId base, const QString& intervention) {
    const std::size_t before = document.runs().size();
    document.modelRuns().startDerivedRun(base, {intervention});
    return QTest::qWaitFor([&] { return document.runs().size() > before && !document.modelRuns().runStatus().running; },
                           kPatience);
  }
  void hide(int row, bool hidden) {
    const ListRow place = document.runs().listRows()[index_of(row)];
    RunLook look = document.runs().lookOf(place);
    look.hidden = hidden;
    document.runs().setLook(place, look);
  }
  bool said(const QString& words) const {
    return std::any_of(messages.begin(), messages.end(), [&](const QList<QVariant>& arguments) {
      return arguments.front().value<Message>().text.contains(words);
    });
  }
  bool waitForCard(const QString& words) {
    return QTest::qWaitFor([&] { return view.card().sentence().contains(words); }, kPatience);
  }
};

}  // namespace

void EffectsTest::aChangedRunIsAnswered() {
  Effects effects;
  QVERIFY(effects.run());
  QSignalSpy answered(&effects.view, &EffectsView::answered);
  QVERIFY(effects.derive("3:1:cut"));
  QCOMPARE(answered.size(), 1);
  const Run& changed = effects.document.runs()[2];
  QCOMPARE(changed.name, "fox-pro-12m, L3 H1, cut");
  QVERIFY(effects.document.runs().selection().head().run == effects.fox());
  QVERIFY(effects.waitForCard("fox-pro-12m, L3 H1, cut:"));
  const LossChange expected =
      loss_change(changed.trace->per_token_loss(), effects.document.runs()[0].trace->per_token_loss());
  const QString sentence = effects.view.card().sentence();
  QVERIFY2(sentence.contains(estimateText(expected.mean) + " nats/token"), qPrintable(sentence));
  QVERIFY2(sentence.contains("over 80 tokens of black-beauty-1-3.txt"), qPrintable(sentence));
  QVERIFY2(sentence.contains("; no errors: the text gives 2 blocks of 40 tokens, and an error takes 8"),
           qPrintable(sentence));
  QVERIFY2(sentence.contains(QString::number(expected.perplexity_factor(), 'f', 4)), qPrintable(sentence));
  const QTableWidget& tokens = effects.view.card().tokens();
  QCOMPARE(tokens.rowCount(), 10);
  for (int row = 0; row < 10; ++row) {
    const TokenChange& hurt = expected.hurt[index_of(row)];
    QCOMPARE(tokens.item(row, ChangeCard::kHurtChange)->text(), "+" + QString::number(hurt.change, 'f', 3));
    QCOMPARE(tokens.item(row, ChangeCard::kHurtPosition)->text(), QString::number(hurt.position));
    QCOMPARE(tokens.item(row, ChangeCard::kHurtToken)->text(),
             predictedText(*changed.trace->tokens(), hurt.position, Whitespace::visible));
  }
  // It stays, whichever head is looked at then.
  for (const Run& run : effects.document.runs()) {
    effects.document.runs().selection().setHead({run.id, 2, 2});
    QCOMPARE(effects.view.card().sentence(), sentence);
  }
  // Made once more it is answered where it stands, and nothing comes in front of what is looked at.
  const RunId before = changed.id;
  effects.document.modelRuns().startRun();
  QVERIFY(waitUntilIdle(effects.document));
  QCOMPARE(effects.document.runs().size(), 3U);
  QVERIFY(effects.document.runs()[2].id != before);
  QCOMPARE(answered.size(), 1);
  QVERIFY(effects.waitForCard(sentence));
  // On another text too, but not where it was taken out and is wanted again.
  effects.document.modelRuns().editText("Another text, of a few words that both models read.");
  effects.document.modelRuns().startRun();
  QVERIFY(waitUntilIdle(effects.document));
  QCOMPARE(effects.document.runs().size(), 3U);
  QCOMPARE(answered.size(), 1);
  QVERIFY(effects.waitForCard("tokens of typed text"));
  effects.document.runs().removeRun(effects.document.runs()[2].id);
  QVERIFY(effects.derive("3:1:cut"));
  QCOMPARE(answered.size(), 2);
}

void EffectsTest::theNewestChangeIsAnswered() {
  Effects effects;
  QVERIFY(effects.run());
  QVERIFY(effects.sweep("one"));
  SweepGrid& grid = effects.view.grid();
  QTest::mouseClick(&grid, Qt::LeftButton, {}, grid.cell(5, 2).center());
  QVERIFY(effects.waitForCard("<b>L5 H2, gate 1:"));
  QVERIFY(effects.derive("3:1:cut"));
  QVERIFY(effects.waitForCard("fox-pro-12m, L3 H1, cut:"));
  QVERIFY(effects.derive("4:0:one"));
  QVERIFY(effects.waitForCard("fox-pro-12m, L4 H0, gate 1:"));
  // Also where the run that was changed is itself a changed one.
  effects.document.runs().selection().setHead({effects.document.runs()[2].id, 0, 0});
  QVERIFY(effects.waitForCard("fox-pro-12m, L3 H1, cut:"));
  QVERIFY(effects.derive(effects.document.runs()[2].id, "0:0:cut"));
  QVERIFY(effects.waitForCard("fox-pro-12m, L3 H1, cut; L0 H0, cut:"));
  effects.document.runs().removeRun(effects.document.runs()[4].id);
  // A head of the sweep that is chosen after them comes before them, also the one that is chosen already.
  QTest::mouseClick(&grid, Qt::LeftButton, {}, grid.cell(5, 2).center());
  QVERIFY(effects.waitForCard("<b>L5 H2, gate 1:"));
  // An older change is answered where one of its heads is chosen.
  effects.document.runs().selection().setHead({effects.document.runs()[2].id, 0, 0});
  QVERIFY(effects.waitForCard("fox-pro-12m, L3 H1, cut:"));
  effects.document.runs().selection().setHead({effects.document.runs()[1].id, 0, 0});
  QVERIFY(effects.waitForCard("fox-pro-12m, L4 H0, gate 1:"));
  effects.document.runs().removeRun(effects.document.runs()[3].id);
  QVERIFY(effects.waitForCard("fox-pro-12m, L3 H1, cut:"));
}

void EffectsTest::whatIsHiddenIsNotAnswered() {
  Effects effects;
  QVERIFY(effects.run());
  QVERIFY(effects.sweep("cut"));
  effects.sweeps.start(effects.document.runs()[1].id, change("cut"));
  QVERIFY(QTest::qWaitFor([&] { return !effects.sweeps.running(); }, kPatience));
  QVERIFY(effects.derive("3:1:cut"));
  QVERIFY(effects.waitForCard("fox-pro-12m, L3 H1, cut:"));
  QComboBox& choice = effects.view.choice();
  QCOMPARE(choice.count(), 2);
  QCOMPARE(choice.currentText(), "transformer-pro-12m, cut");
  effects.hide(1, true);
  QCOMPARE(choice.count(), 1);
  QCOMPARE(choice.currentText(), "fox-pro-12m, cut");
  QVERIFY(effects.waitForCard("fox-pro-12m, L3 H1, cut:"));
  // Without the run that it was changed from there is nothing to compare with.
  effects.hide(0, true);
  QVERIFY(!effects.view.grid().isVisible() && !choice.isVisible());
  QVERIFY(effects.waitForCard("The changed runs are hidden"));
  effects.sweeps.close();
  effects.sweeps.resume();
  effects.hide(0, false);
  QCOMPARE(choice.currentText(), "fox-pro-12m, cut");
  QVERIFY(effects.waitForCard("fox-pro-12m, L3 H1, cut:"));
  effects.hide(2, true);
  QVERIFY(!effects.view.card().sentence().contains("fox-pro-12m, L3 H1"));
  effects.hide(2, false);
  effects.hide(1, false);
  QCOMPARE(choice.count(), 2);
  QCOMPARE(choice.currentText(), "transformer-pro-12m, cut");
  // A hidden run that is made again stays unanswered.
  effects.hide(2, true);
  QSignalSpy answered(&effects.view, &EffectsView::answered);
  effects.document.modelRuns().startRun();
  QVERIFY(waitUntilIdle(effects.document));
  QCOMPARE(effects.document.runs().size(), 3U);
  QCOMPARE(answered.size(), 0);
}

void EffectsTest::aClickOnATokenGoesThere() {
  Effects effects;
  QVERIFY(effects.run());
  QVERIFY(effects.derive("3:1:cut"));
  QVERIFY(effects.waitForCard("L3 H1, cut:"));
  Selection& selection = effects.document.runs().selection();
  QTableWidget& tokens = effects.view.card().tokens();
  const std::int64_t position = tokens.item(4, ChangeCard::kHelpedToken)->data(Qt::UserRole).toLongLong();
  const std::int64_t far = position < 40 ? 60 : 0;
  selection.setView({{far, far + 10}, {0, kTokens}});
  QTest::mouseClick(tokens.viewport(), Qt::LeftButton, {},
                    tokens.visualItemRect(tokens.item(4, ChangeCard::kHelpedToken)).center());
  QCOMPARE(selection.pin().query, std::optional(position));
  QVERIFY(selection.view().rows.begin <= position && position < selection.view().rows.end);
  QCOMPARE(selection.view().rows.size(), 10);
  tokens.setCurrentCell(0, ChangeCard::kHurtToken);
  QTest::keyClick(&tokens, Qt::Key_Return);
  QCOMPARE(*selection.pin().query, tokens.item(0, ChangeCard::kHurtToken)->data(Qt::UserRole).toLongLong());
}

void EffectsTest::aSweepChangesEachHeadInTurn() {
  Effects effects;
  QVERIFY(effects.run());
  QSignalSpy added(&effects.sweeps, &Sweeps::added);
  QVERIFY(effects.sweep("cut"));
  QCOMPARE(added.size(), 1);
  const HeadSweep& sweep = *effects.sweeps.shown();
  QCOMPARE(sweep.name, "fox-pro-12m, cut");
  QVERIFY(sweep.state == HeadSweep::State::whole);
  QCOMPARE(sweep.known(), 32);
  QCOMPARE(effects.view.choice().currentText(), "fox-pro-12m, cut");
  QVERIFY(!effects.view.stopOrResume().isVisible());
  // A head's change is that of a run with this one head changed.
  QVERIFY(effects.derive("2:3:cut"));
  const LossChange single = loss_change(effects.document.runs()[2].trace->per_token_loss(),
                                        effects.document.runs()[0].trace->per_token_loss());
  QCOMPARE(effects.sweeps.shown()->effect(2, 3)->mean.value, single.mean.value);
  QCOMPARE(effects.sweeps.shown()->effect(2, 3)->mean.error, single.mean.error);
  QCOMPARE(effects.view.grid().description(2, 3), "L2 H3, cut: " + estimateText(single.mean) + " nats/token");
}

void EffectsTest::aClickOnACellChoosesTheHead() {
  Effects effects;
  QVERIFY(effects.run());
  QVERIFY(effects.sweep("one"));
  SweepGrid& grid = effects.view.grid();
  QTest::mouseClick(&grid, Qt::LeftButton, {}, grid.cell(5, 2).center());
  QVERIFY(effects.document.runs().selection().head() == (HeadChoice{effects.fox(), 5, 2}));
  QVERIFY(effects.view.card().sentence().contains("L5 H2, gate 1:"));
  QVERIFY(effects.view.card().sentence().contains("over 80 tokens of black-beauty-1-3.txt"));
  QCOMPARE(effects.view.card().tokens().rowCount(), 10);
  QTest::keyClick(&grid, Qt::Key_Left);
  QTest::keyClick(&grid, Qt::Key_Up);
  QVERIFY(effects.document.runs().selection().head() == (HeadChoice{effects.fox(), 4, 1}));
  QVERIFY(effects.view.card().sentence().contains("L4 H1, gate 1:"));
  QTest::mouseClick(&grid, Qt::LeftButton, {}, QPoint(1, 1));  // beside the cells
  QVERIFY(effects.document.runs().selection().head() == (HeadChoice{effects.fox(), 4, 1}));
  // Colours: the cell of the largest change is at an end of the scale.
  const HeadSweep& sweep = *effects.sweeps.shown();
  double largest = 0;
  for (const auto& effect : sweep.effects) largest = std::max(largest, std::abs(effect->mean.value));
  QVERIFY(grid.limit() > 0 && grid.limit() <= largest);
}

void EffectsTest::aSweepStopsAndGoesOn() {
  Effects effects;
  QVERIFY(effects.run());
  effects.sweeps.start(effects.fox(), change("one"));
  // Stopped before the first head is known, it has not begun.
  QTest::mouseClick(&effects.view.stopOrResume(), Qt::LeftButton);
  QCOMPARE(effects.sweeps.shown()->known(), 0);
  QCOMPARE(effects.view.stopOrResume().text(), "Begin");
  QTest::mouseClick(&effects.view.stopOrResume(), Qt::LeftButton);
  QVERIFY(QTest::qWaitFor([&] { return effects.sweeps.shown()->known() >= 2; }, kPatience));
  QVERIFY(effects.sweeps.running());
  QCOMPARE(effects.view.stopOrResume().text(), "Cancel");
  effects.sweeps.start(effects.fox(), change("cut"));
  QVERIFY(effects.said("A sweep is in progress"));
  // While its heads are hidden too: what runs must be there to be stopped.
  effects.hide(0, true);
  QVERIFY(effects.view.stopOrResume().isVisible());
  QTest::mouseClick(&effects.view.stopOrResume(), Qt::LeftButton);
  QVERIFY(!effects.sweeps.running());
  QVERIFY(!effects.view.stopOrResume().isVisible());
  effects.hide(0, false);
  const int known = effects.sweeps.shown()->known();
  QVERIFY(known < 32);
  QVERIFY(effects.sweeps.shown()->whole == nullptr);
  QCOMPARE(effects.view.stopOrResume().text(), "Go On");
  QTest::mouseClick(&effects.view.stopOrResume(), Qt::LeftButton);
  QVERIFY(effects.sweeps.running());
  QVERIFY(effects.sweeps.shown()->known() >= known);
  QVERIFY(QTest::qWaitFor([&] { return !effects.sweeps.running(); }, kPatience));
  const auto resumed = effects.sweeps.shown()->whole;
  QVERIFY(resumed != nullptr);
  effects.sweeps.close();
  QVERIFY(effects.sweeps.shown() == nullptr);
  QVERIFY(effects.sweep("one"));
  QVERIFY(effects.sweeps.shown()->whole->changed_loss == resumed->changed_loss);
  // The same once more is the one that is there.
  effects.sweeps.start(effects.fox(), change("one"));
  QVERIFY(!effects.sweeps.running());
  QCOMPARE(effects.sweeps.visible().size(), 1U);
}

// Closed in the middle of a sweep, the window that comes after it goes on from there, by its session or by itself.
void EffectsTest::aSweepOutlivesItsWindow() {
  const Folder folder;
  QJsonObject session;
  int known = 0;
  {
    Effects before;
    before.sweeps.setFolder(folder.path("sweeps"));
    QVERIFY(before.run());
    before.sweeps.start(before.fox(), change("cut"));
    QVERIFY(QTest::qWaitFor([&] { return before.sweeps.shown()->known() >= 3; }, kPatience));
    known = before.sweeps.shown()->known();
    session = before.view.saveState();
  }
  QVERIFY(known < 32);
  QCOMPARE(session["sweeps"].toArray().size(), 1);
  std::shared_ptr<const SweepEvaluation> whole;
  {
    Effects after;
    after.sweeps.setFolder(folder.path("sweeps"));
    // The session is there before its runs are.
    after.view.restoreState(session);
    QVERIFY(after.run());
    QVERIFY(QTest::qWaitFor([&] { return after.sweeps.shown() != nullptr && !after.sweeps.running(); }, kPatience));
    // Read again when its runs change, it is still one.
    after.view.restoreState(session);
    QVERIFY(QTest::qWaitFor([&] { return !after.sweeps.running(); }, kPatience));
    QCOMPARE(after.sweeps.visible().size(), 1U);
    QVERIFY(after.sweeps.shown()->known() >= known);
    QCOMPARE(after.sweeps.shown()->state, HeadSweep::State::stopped);
    QCOMPARE(after.view.stopOrResume().text(), "Go On");
    QTest::mouseClick(&after.view.stopOrResume(), Qt::LeftButton);
    QVERIFY(QTest::qWaitFor([&] { return !after.sweeps.running(); }, kPatience));
    whole = after.sweeps.shown()->whole;
    QVERIFY(whole != nullptr);
  }
  // Without a session the same sweep finds what is known, and has nothing left to do.
  Effects again;
  again.sweeps.setFolder(folder.path("sweeps"));
  QVERIFY(again.run());
  QVERIFY(again.sweep("cut"));
  QVERIFY(again.sweeps.shown()->whole->changed_loss == whole->changed_loss);
  QCOMPARE(again.sweeps.shown()->known(), 32);
}

void EffectsTest::aSweepThatIsClosedDoesNotComeBack() {
  const Folder folder;
  Effects effects;
  effects.sweeps.setFolder(folder.path("sweeps"));
  QVERIFY(effects.run());
  effects.sweeps.start(effects.fox(), change("cut"));
  QVERIFY(QTest::qWaitFor([&] { return effects.sweeps.shown()->known() >= 1; }, kPatience));
  const auto files = [&] { return QDir(folder.path("sweeps")).entryList({"*.partial"}, QDir::Files); };
  QCOMPARE(files().size(), 1);
  effects.sweeps.close();
  QVERIFY(effects.sweeps.shown() == nullptr);
  QTRY_COMPARE_WITH_TIMEOUT(files().size(), 0, kPatience);
  QCOMPARE(effects.view.saveState()["sweeps"].toArray().size(), 0);
}

void EffectsTest::aSweepIsExportedAndOpened() {
  const Folder folder;
  Effects effects;
  QVERIFY(effects.run());
  QVERIFY(effects.sweep("cut"));
  for (const char* name : {"sweep.csv", "sweep.pdf", "sweep.svg", "sweep.h5"}) effects.view.write(folder.path(name));
  QVERIFY(QTest::qWaitFor([&] { return effects.document.files().exports().empty() && !effects.document.busy(); },
                          kPatience));
  const auto whole = effects.sweeps.shown()->whole;
  QFile csv(folder.path("sweep.csv"));
  QVERIFY(csv.open(QIODevice::ReadOnly));
  QCOMPARE(csv.readAll().toStdString(), whole->csv());
  QFile pdf(folder.path("sweep.pdf"));
  QVERIFY(pdf.open(QIODevice::ReadOnly));
  QVERIFY(pdf.readAll().startsWith("%PDF"));

  Effects other;
  other.view.resize(900, 420);
  other.view.show();
  QSignalSpy added(&other.sweeps, &Sweeps::added);
  other.document.open({folder.path("sweep.h5")});
  QVERIFY(waitUntilIdle(other.document));
  QCOMPARE(added.size(), 1);
  QCOMPARE(other.sweeps.shown()->name, "fox-pro-12m, cut");
  QCOMPARE(other.sweeps.shown()->run, kNoRun);
  QVERIFY(other.sweeps.shown()->whole->changed_loss == whole->changed_loss);
  // Without its run a head of it is chosen here alone.
  QTest::mouseClick(&other.view.grid(), Qt::LeftButton, {}, other.view.grid().cell(1, 1).center());
  QVERIFY(other.view.card().sentence().contains("L1 H1, cut:"));
  QVERIFY(!other.view.card().tokens().item(0, ChangeCard::kHurtToken)->text().isEmpty());
  // With the run that it is of, everywhere.
  QVERIFY(other.run());
  QCOMPARE(other.sweeps.shown()->run, other.fox());
  QTest::mouseClick(&other.view.grid(), Qt::LeftButton, {}, other.view.grid().cell(6, 3).center());
  QVERIFY(other.document.runs().selection().head() == (HeadChoice{other.fox(), 6, 3}));
}

// Of heads whose errors are known the card says which are beyond chance, and that some are by chance.
void EffectsTest::aHeadOfASweepIsOneOfMany() {
  auto sweep = std::make_shared<SweepEvaluation>();
  constexpr std::int64_t kLong = 512;
  sweep->info.name = "fox";
  sweep->info.layers = 1;
  sweep->info.heads = 3;
  sweep->info.length = kLong;
  sweep->change = change("cut");
  sweep->source = "long.txt";
  sweep->token_id.assign(kLong, 1);
  sweep->unchanged_loss.assign(kLong, 3);
  for (const float by : {0.5F, 0.0F, 0.0F}) {
    std::vector<float> losses;
    for (std::int64_t p = 0; p < kLong; ++p) losses.push_back(3 + by + std::sin(static_cast<float>((p + 1) * (p + 3))));
    sweep->changed_loss.push_back(losses);
  }
  sweep->changed_loss[2] = sweep->unchanged_loss;  // a change of exactly nothing
  Effects effects;
  effects.view.resize(900, 420);
  effects.view.show();
  emit effects.document.sweepOpened({sweep, sweep->changes(1)});
  const auto chosen = [&](int head) {
    QTest::mouseClick(&effects.view.grid(), Qt::LeftButton, {}, effects.view.grid().cell(0, head).center());
    return effects.view.card().sentence();
  };
  QVERIFY2(chosen(0).contains("; 0 is outside its 95 % interval, over 16 blocks of 32 tokens"), qPrintable(chosen(0)));
  QVERIFY2(chosen(2).contains("; 0 is in its 95 % interval"), qPrintable(chosen(2)));
  // The third does not count.
  QVERIFY2(chosen(1).contains("of heads that matter nothing one in twenty is, here 0.1"), qPrintable(chosen(1)));
}

// Of the text that its run has read, also where another one is about to be read; so does its figure.
void EffectsTest::aSweepSaysOfWhichTextItIs() {
  const Folder folder;
  Effects effects;
  QVERIFY(effects.run());
  effects.document.modelRuns().setText({{}, "Other words, which no model has read."});
  QVERIFY(effects.sweep("cut"));
  QCOMPARE(effects.view.caption(), "on black-beauty-1-3.txt (80 tokens)");
  QCOMPARE(effects.sweeps.shown()->whole->source, std::string("black-beauty-1-3.txt"));
  // A run that is made anew from one keeps the name of its text.
  QVERIFY(effects.derive("3:1:cut"));
  effects.sweeps.start(effects.document.runs().back().id, change("cut"));
  QVERIFY(QTest::qWaitFor([&] { return !effects.sweeps.running(); }, kPatience));
  QCOMPARE(effects.view.caption(), "on black-beauty-1-3.txt (80 tokens)");
  // The same change on two texts: the list tells them apart.
  const auto swept = effects.sweeps.visible().front()->whole;
  Effects both;
  both.view.resize(900, 420);
  both.view.show();
  emit both.document.sweepOpened({swept, swept->changes(1)});
  auto other = std::make_shared<SweepEvaluation>(*swept);
  other->source = "other.txt";
  emit both.document.sweepOpened({other, other->changes(1)});
  QCOMPARE(both.view.caption(), "on other.txt (80 tokens)");
  QCOMPARE(both.view.choice().itemText(0), "fox-pro-12m, cut, on black-beauty-1-3.txt (80 tokens)");
  QCOMPARE(both.view.choice().itemText(1), "fox-pro-12m, cut, on other.txt (80 tokens)");
}

void EffectsTest::aSweepHasTheHeadsOfEachLayer() {
  const Folder folder;
  SweepEvaluation made;
  made.info.name = "hybrid";
  made.info.set_mixers(
      {{Mixer::mamba2, Decay::head, 2, 1, 1, 2, 4, 4}, {Mixer::attention, Decay::head, 4, 4, 2, 2, 4, 4}});
  made.info.length = 64;
  made.change = change("cut");
  made.token_id.assign(64, 1);
  made.unchanged_loss.assign(64, 1.0F);
  made.changed_loss.resize(8);
  for (const int place : {0, 1, 4, 5, 6, 7}) {
    made.changed_loss[index_of(place)].assign(64, 2.0F + static_cast<float>(place));
  }
  QVERIFY(made.whole());
  write_sweep_file(folder.path("sweep.h5").toStdString(), made, {"foxscope", ""}, Overwrite::force);
  Effects effects;
  effects.view.resize(900, 420);
  effects.view.show();
  effects.document.open({folder.path("sweep.h5")});
  QVERIFY(QTest::qWaitFor([&] { return effects.sweeps.shown() != nullptr; }, kPatience));
  const HeadSweep& sweep = *effects.sweeps.shown();
  QCOMPARE(sweep.total(), 6);
  QCOMPARE(sweep.known(), 6);
  QVERIFY(sweep.effect(0, 2) == nullptr);
  QCOMPARE(sweep.effect(0, 1)->mean.value, 2.0);
  QCOMPARE(sweep.effect(1, 3)->mean.value, 8.0);
  // What a layer does not have cannot be chosen.
  SweepGrid& grid = effects.view.grid();
  QSignalSpy chosen(&grid, &SweepGrid::headChosen);
  QTest::mouseClick(&grid, Qt::LeftButton, {}, grid.cell(0, 3).center());
  QCOMPARE(chosen.size(), 0);
  QTest::mouseClick(&grid, Qt::LeftButton, {}, grid.cell(1, 3).center());
  QCOMPARE(chosen.size(), 1);
}

void EffectsTest::whatCannotBeSweptSaysWhy() {
  const Folder folder;
  Effects effects;
  QVERIFY(effects.run());
  // Without a gate there is nothing to set to 1.
  effects.sweeps.start(effects.document.runs()[1].id, change("one"));
  QVERIFY(QTest::qWaitFor([&] { return !effects.sweeps.running(); }, kPatience));
  QVERIFY(effects.said("--change one: transformer-pro-12m has no gate"));
  QVERIFY(effects.sweeps.visible().empty());
  effects.document.files().saveRunFile(folder.path("run.h5"));
  QVERIFY(QTest::qWaitFor([&] { return effects.document.files().exports().empty() && !effects.document.busy(); },
                          kPatience));
  Effects other;
  other.document.open({folder.path("run.h5")});
  QVERIFY(waitUntilIdle(other.document));
  other.sweeps.start(other.document.runs()[0].id, change("cut"));
  QVERIFY(other.said("comes from a file, and changing its heads needs its model"));
  QVERIFY(other.sweeps.shown() == nullptr);
}

void EffectsTest::withoutChangesItSaysWhatToDo() {
  Effects effects;
  effects.view.show();
  QVERIFY(effects.view.card().sentence().contains("Sweep over All Heads"));
  QVERIFY(!effects.view.grid().isVisible());
}

void EffectsTest::changedRunsFromFilesAreAnswered() {
  Effects made;
  QVERIFY(made.run());
  QVERIFY(made.derive("3:1:cut"));
  const Folder folder;
  const auto write = [&](const char* name, std::size_t run) {
    const QString path = folder.path(name);
    write_run_file(path.toStdString(), std::vector{made.document.runs()[run].trace}, {"test", ""}, Overwrite::force,
                   {});
    return path;
  };
  Effects effects;
  effects.view.show();
  QSignalSpy answered(&effects.view, &EffectsView::answered);
  // Alone, or beside another model's run, it says what is missing.
  effects.document.open({write("changed.h5", 2)});
  QVERIFY(waitUntilIdle(effects.document));
  QVERIFY2(effects.waitForCard("is changed (L3 H1, cut), and the run without that change is not open"),
           qPrintable(effects.view.card().sentence()));
  effects.document.open({write("other.h5", 1)});
  QVERIFY(waitUntilIdle(effects.document));
  QVERIFY(effects.waitForCard("is not open"));
  QCOMPARE(answered.size(), 0);
  effects.document.open({write("unchanged.h5", 0)});
  QVERIFY(effects.waitForCard("L3 H1, cut:"));
  QCOMPARE(answered.size(), 1);
  const LossChange expected =
      loss_change(made.document.runs()[2].trace->per_token_loss(), made.document.runs()[0].trace->per_token_loss());
  QVERIFY2(effects.view.card().sentence().contains(estimateText(expected.mean) + " nats/token"),
           qPrintable(effects.view.card().sentence()));
}

}  // namespace foxscope::gui::test

FOXSCOPE_GUI_SUBJECT(effects, foxscope::gui::test::EffectsTest)
#include "backend/base/index.h"
#include "effects_test.moc"
