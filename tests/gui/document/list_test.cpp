// The list of runs: order, names, colours, what is hidden.
#include <QSignalSpy>
#include <QTest>

#include "app/gui/document/document.h"
#include "app/gui/document/runs/intervention_text.h"
#include "tests/gui/subject.h"
#include "tests/gui/support.h"

namespace foxscope::gui::test {

class ListTest : public QObject {
  Q_OBJECT

 private slots:
  void changesHaveReadableNames_data();
  void changesHaveReadableNames();
  void aRunKeepsItsLook();
  void changedCopiesShareAColour();
  void aHiddenRunStays();
  void rowsMoveAmongTheirKind();
  void aSessionKeepsTheList();
};

namespace {

void rename(Document& document, int row, const QString& name) {
  RunLook look = document.runs().lookOf(document.runs().listRows()[index_of(row)]);
  look.label = name;
  document.runs().setLook(document.runs().listRows()[index_of(row)], look);
}

void hide(Document& document, int row) {
  RunLook look = document.runs().lookOf(document.runs().listRows()[index_of(row)]);
  look.hidden = true;
  document.runs().setLook(document.runs().listRows()[index_of(row)], look);
}

}  // namespace

void ListTest::changesHaveReadableNames_data() {
  QTest::addColumn<QString>("intervention");
  QTest::addColumn<QString>("text");
  QTest::newRow("one") << "3:0:one"
                       << "L3 H0, gate 1";
  QTest::newRow("layer") << "3:*:cut"
                         << "L3, all heads, cut";
  QTest::newRow("all") << "*:*:scale=2"
                       << "all heads, log gate × 2";
  QTest::newRow("column") << "*:4:mean"
                          << "H4 of all layers, gate at its mean";
  QTest::newRow("constant") << "1:2:constant=0.99"
                            << "L1 H2, gate 0.99";
  QTest::newRow("zero") << "1:2:zero@512"
                        << "L1 H2, gate 0 at 512";
  QTest::newRow("unknown") << "what is this"
                           << "what is this";
}

void ListTest::changesHaveReadableNames() {
  QFETCH(QString, intervention);
  QFETCH(QString, text);
  QCOMPARE(interventionText(intervention), text);
  QCOMPARE(changedName("fox", {intervention, "0:0:cut"}), "fox, " + text + "; L0 H0, cut");
}

void ListTest::aRunKeepsItsLook() {
  Document document;
  QVERIFY(runDemo(document, 32));
  QCOMPARE(document.runs()[0].look.colour, 0);
  QCOMPARE(document.runs()[1].look.colour, 1);
  rename(document, 1, "softmax");
  QCOMPARE(document.runs()[1].name, "softmax");
  QCOMPARE(document.runs().runNamed("softmax")->id, document.runs()[1].id);
  // No name is that of no run, also where runs come from no file.
  QVERIFY(document.runs().runNamed({}) == nullptr);
  // Also when the one before it goes, when it runs again, and on another text.
  document.runs().removeModel(0);
  QCOMPARE(document.runs()[0].look.colour, 1);
  document.modelRuns().setText({{}, "Quite another text, which no run has seen before."});
  document.modelRuns().startRun();
  QVERIFY(waitUntilIdle(document));
  QCOMPARE(document.runs().size(), 1U);
  QCOMPARE(document.runs()[0].name, "softmax");
  QCOMPARE(document.runs()[0].look.colour, 1);
  // The colour that nobody has is the next one's; one that was taken out brings its own back.
  document.runs().addModel("/elsewhere/third");
  QCOMPARE(document.runs().models().back().look.colour, 0);
  rename(document, 0, {});
  QCOMPARE(document.runs()[0].name, "transformer-pro-12m");
}

void ListTest::changedCopiesShareAColour() {
  Document document;
  QVERIFY(runDemo(document, 32));
  rename(document, 0, "fox");
  for (const char* change : {"3:0:one", "0:1:cut"}) {
    document.modelRuns().startDerivedRun(document.runs()[0].id, {change});
    QVERIFY(waitUntilIdle(document));
  }
  QCOMPARE(document.runs().size(), 4U);
  QCOMPARE(document.runs()[2].name, "fox, L3 H0, gate 1");
  QCOMPARE(document.runs()[3].name, "fox, L0 H1, cut");
  for (int change = 1; change <= 2; ++change) {
    const Run& run = document.runs()[static_cast<std::size_t>(change) + 1];
    QCOMPARE(run.look.colour, 0);
    QCOMPARE(run.look.change, change);
    QCOMPARE(document.runs().baseOf(run)->id, document.runs()[0].id);
  }
  // Before and after the change stay when all run again, and a change of a changed one says both.
  document.modelRuns().startRun();
  QVERIFY(waitUntilIdle(document));
  QCOMPARE(document.runs().size(), 4U);
  document.modelRuns().startDerivedRun(document.runs()[3].id, {"1:1:cut"});
  QVERIFY(waitUntilIdle(document));
  QCOMPARE(document.runs()[4].name, "fox, L0 H1, cut; L1 H1, cut");
  QCOMPARE(document.runs()[4].look.change, 3);
}

void ListTest::aHiddenRunStays() {
  Document document;
  QVERIFY(runDemo(document, 32));
  const RunId fox = document.runs()[0].id;
  const RunId transformer = document.runs()[1].id;
  document.runs().selection().setHead({fox, 3, 1});
  hide(document, 0);
  QCOMPARE(document.runs().size(), 2U);
  QCOMPARE(document.runs().runsOnText().size(), 1U);
  QCOMPARE(document.runs().reference()->id, transformer);
  QVERIFY(document.runs().selection().head() == (HeadChoice{transformer, 3, 1}));
  // The last one too: nothing else can be shown then.
  hide(document, 1);
  QVERIFY(document.runs().runsOnText().empty());
  QVERIFY(document.runs().reference() != nullptr);
  QCOMPARE(document.runs().selection().head().run, transformer);
}

void ListTest::rowsMoveAmongTheirKind() {
  Document document;
  QVERIFY(runDemo(document, 32));
  document.runs().addModel("/elsewhere/a");
  document.runs().addModel("/elsewhere/b");
  const auto names = [&] {
    QStringList list;
    for (const ListRow& row : document.runs().listRows()) list += document.runs().nameOf(row);
    return list.join(' ');
  };
  QCOMPARE(names(), "fox-pro-12m transformer-pro-12m a b");
  document.runs().moveRow(0, 3);
  QCOMPARE(names(), "transformer-pro-12m fox-pro-12m a b");
  document.runs().moveRow(3, 0);
  QCOMPARE(names(), "transformer-pro-12m fox-pro-12m b a");
  document.runs().moveRow(7, 0);
  QCOMPARE(document.runs().models()[0].name, "transformer-pro-12m");
  QCOMPARE(document.runs().models()[3].name, "a");
}

void ListTest::aSessionKeepsTheList() {
  const Folder folder;
  Document document;
  QVERIFY(runDemo(document, 32));
  document.files().saveRunFile(folder.path("run.h5"));
  QVERIFY(waitUntilIdle(document));
  document.clear();
  document.open({folder.path("run.h5")});
  QVERIFY(waitUntilIdle(document));
  document.open({foxModel()});
  QVERIFY(waitUntilIdle(document));
  document.modelRuns().startRun();
  QVERIFY(waitUntilIdle(document));
  QCOMPARE(document.runs().size(), 3U);
  rename(document, 0, "before");
  rename(document, 2, "again");
  hide(document, 1);
  document.runs().moveRow(2, 0);
  document.sessions().save(folder.path("session.json"), {});
  QVERIFY(waitUntilIdle(document));
  Document back;
  back.open({folder.path("session.json")});
  QVERIFY(waitUntilIdle(back));
  QCOMPARE(back.runs().size(), 3U);
  for (std::size_t place = 0; place < 3; ++place) {
    QCOMPARE(back.runs()[place].name, document.runs()[place].name);
    QVERIFY(back.runs()[place].look == document.runs()[place].look);
  }
  QCOMPARE(back.runs()[0].name, "again");
}

}  // namespace foxscope::gui::test

FOXSCOPE_GUILESS_SUBJECT(list, foxscope::gui::test::ListTest)
#include "backend/base/index.h"
#include "list_test.moc"
