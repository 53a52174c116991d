#include "app/gui/document/head_table.h"

#include <cmath>

#include <QAbstractItemModelTester>
#include <QSignalSpy>
#include <QTest>

#include "tests/gui/subject.h"
#include "tests/gui/support.h"

namespace foxscope::gui::test {

class HeadTableTest : public QObject {
  Q_OBJECT

 private slots:
  void holdsTheStatisticsOfEveryHead();
  void holdsThePinnedPairInEveryHead();
  void findsTheNearestHead();
  void followsRuns();
};

void HeadTableTest::holdsTheStatisticsOfEveryHead() {
  Document document;
  HeadTable table(document.runs());
  const QAbstractItemModelTester tester(&table, QAbstractItemModelTester::FailureReportingMode::QtTest);
  QVERIFY(runDemo(document, 128));
  QTRY_COMPARE_WITH_TIMEOUT(table.known(), table.total(), 60'000);
  QVERIFY(waitUntilIdle(document));  // gates are known first, attention later
  QCOMPARE(table.total(), 2 * 8 * 4);
  QCOMPARE(table.rowCount(), 8 * 4);
  const Run& fox = document.runs()[0];
  for (int layer = 0; layer < 8; ++layer) {
    for (int head = 0; head < 4; ++head) {
      const auto expected = head_statistics({fox.trace, layer, head}, {}, {});
      const HeadChoice choice{fox.id, layer, head};
      QCOMPARE(table.value(choice, HeadQuantity::rateDecayTime), expected->rate_decay_time);
      QCOMPARE(table.value(choice, HeadQuantity::halfLife), expected->backward_horizon[1].median);
      QCOMPARE(table.value(choice, HeadQuantity::entropy), expected->entropy);
      QCOMPARE(table.value(choice, HeadQuantity::distance90), expected->distance.d90);
      const QModelIndex cell = table.index(layer * 4 + head, 2);
      QCOMPARE(cell.data(HeadTable::ValueRole).toDouble(), expected->rate_decay_time);
      QCOMPARE(cell.data().toString(),
               valueText(HeadQuantity::rateDecayTime, expected->rate_decay_time, Unit::without));
    }
  }
  table.setRun(document.runs()[1].id);
  QCOMPARE(table.index(0, 2).data().toString(), QStringLiteral("∞"));
  QCOMPARE(table.headerData(2, Qt::Horizontal, Qt::DisplayRole).toString(), "decay time\n(tokens)");
}

void HeadTableTest::holdsThePinnedPairInEveryHead() {
  Document document;
  HeadTable table(document.runs());
  QVERIFY(runDemo(document, 128));
  const Run& fox = document.runs()[0];
  QVERIFY(std::isnan(table.value({fox.id, 2, 1}, HeadQuantity::pinnedForget)));
  document.runs().selection().setPin({100, 60});
  QVERIFY(waitUntilIdle(document));
  for (const Run& run : document.runs()) {
    const PairReading expected = pair_reading({run.trace, 2, 1}, 100, 60);
    QCOMPARE(table.value({run.id, 2, 1}, HeadQuantity::pinnedForget), expected.forget);
    QCOMPARE(table.value({run.id, 2, 1}, HeadQuantity::pinnedAttention), expected.attention);
    QCOMPARE(table.value({run.id, 2, 1}, HeadQuantity::pinnedSurvival), expected.forward_survival);
  }
  document.runs().selection().setPin({100, std::nullopt});
  QVERIFY(std::isnan(table.value({fox.id, 2, 1}, HeadQuantity::pinnedForget)));
  // Survival is the key's alone.
  document.runs().selection().setPin({std::nullopt, 60});
  QVERIFY(waitUntilIdle(document));
  for (const Run& run : document.runs()) {
    QCOMPARE(table.value({run.id, 2, 1}, HeadQuantity::pinnedSurvival),
             pair_reading({run.trace, 2, 1}, 100, 60).forward_survival);
    QVERIFY(std::isnan(table.value({run.id, 2, 1}, HeadQuantity::pinnedForget)));
    QVERIFY(std::isnan(table.value({run.id, 2, 1}, HeadQuantity::pinnedAttention)));
  }
}

void HeadTableTest::findsTheNearestHead() {
  Document document;
  HeadTable table(document.runs());
  QVERIFY(runDemo(document, 128));
  QTRY_COMPARE_WITH_TIMEOUT(table.known(), table.total(), 60'000);
  QVERIFY(waitUntilIdle(document));  // gates are known first, attention later
  const Run& fox = document.runs()[0];
  const Run& transformer = document.runs()[1];
  const HeadChoice head{fox.id, 3, 2};
  const auto nearest = table.nearestHead(head, transformer.id);
  QVERIFY(nearest && nearest->run == transformer.id);
  const auto sketchOf = [](const Run& run, int layer, int number) {
    return sketch(head_statistics({run.trace, layer, number}, {}, {})->distance);
  };
  const ProfileSketch own = sketchOf(fox, 3, 2);
  const double least = octaves_apart(own, sketchOf(transformer, nearest->layer, nearest->head));
  for (int layer = 0; layer < 8; ++layer) {
    for (int number = 0; number < 4; ++number)
      QVERIFY(octaves_apart(own, sketchOf(transformer, layer, number)) >= least);
  }
  const double difference = table.difference(head, transformer.id, HeadQuantity::entropy);
  QCOMPARE(difference, table.value(head, HeadQuantity::entropy) - table.value(*nearest, HeadQuantity::entropy));
  QVERIFY(!table.nearestHead(head, 4711));
}

void HeadTableTest::followsRuns() {
  Document document;
  HeadTable table(document.runs());
  QCOMPARE(table.rowCount(), 0);
  QVERIFY(runDemo(document, 32));
  QCOMPARE(table.run(), document.runs()[0].id);
  QVERIFY(waitUntilIdle(document));
  document.runs().removeRun(document.runs()[0].id);
  QCOMPARE(table.run(), document.runs()[0].id);
  QCOMPARE(table.total(), 8 * 4);
  QCOMPARE(table.known(), 8 * 4);
  document.clear();
  QCOMPARE(table.rowCount(), 0);
  QCOMPARE(table.known(), 0);
}

}  // namespace foxscope::gui::test

FOXSCOPE_GUILESS_SUBJECT(head_table, foxscope::gui::test::HeadTableTest)
#include "head_table_test.moc"
