#include <cmath>

#include <QSignalSpy>
#include <QTest>

#include "app/figure/token_text.h"
#include "app/gui/comparison/comparison_view.h"
#include "app/gui/comparison/difference_table.h"
#include "app/gui/comparison/octave_bars.h"
#include "app/gui/views/estimate_text.h"
#include "backend/base/index.h"
#include "tests/gui/subject.h"
#include "tests/gui/support.h"

namespace foxscope::gui::test {

class ComparisonTest : public QObject {
  Q_OBJECT

 private slots:
  void twoRunsAreAnswered();
  void theRangeShownIsAnsweredToo();
  void swapIsTheOtherWayAbout();
  void aClickOnATokenGoesThere();
  void oneRunSaysWhatToDo();
  void aSessionsPairComesBack();
  void otherTokensAreNotCompared();
};

namespace {

constexpr int kPatience = 120'000;
constexpr std::int64_t kTokens = 600;

struct Compared {
  Document document;
  ComparisonView view{document.runs()};
  QSignalSpy answered{&view, &ComparisonView::answered};

  bool run(std::int64_t tokens = kTokens) {
    view.resize(1100, 300);
    view.show();
    return runDemo(document, tokens) && settled();
  }
  bool settled() {
    return QTest::qWaitFor([this] { return view.isSettled() && view.message().isEmpty(); }, kPatience);
  }
  [[nodiscard]] std::span<const float> losses(std::size_t run) const {
    return document.runs()[run].trace->per_token_loss();
  }
  [[nodiscard]] LossComparison expected(const Range& positions = {0, kTokens}) const {
    return compare_losses(losses(0), losses(1), positions);
  }
};

}  // namespace

void ComparisonTest::twoRunsAreAnswered() {
  Compared compared;
  QVERIFY(compared.run());
  QCOMPARE(compared.answered.size(), 1);
  const LossComparison expected = compared.expected();
  const QString sentence = compared.view.sentence();
  QVERIFY2(sentence.startsWith("<b>fox-pro-12m − transformer-pro-12m:</b> " + estimateText(expected.difference.mean) +
                               " nats/token"),
           qPrintable(sentence));
  QVERIFY2(sentence.contains(QString::number(expected.difference.perplexity_factor(), 'f', 4)), qPrintable(sentence));
  QVERIFY2(sentence.contains("over 600 tokens"), qPrintable(sentence));
  QVERIFY2(sentence.contains("over 18 blocks of 33 tokens"), qPrintable(sentence));
  QVERIFY2(!sentence.contains("which are shown"), qPrintable(sentence));

  const OctaveBars& bars = compared.view.bars();
  QCOMPARE(bars.octaves().size(), std::size_t{3});
  for (int n = 0; n < 3; ++n) {
    const LossOctave& octave = bars.octaves()[index_of(n)];
    QVERIFY(octave.positions == expected.octaves[index_of(n)].positions);
    QVERIFY(bars.limit() >= std::abs(octave.difference.value));
    QVERIFY(bars.bar(n).height() > 0);
    QVERIFY(bars.rect().contains(bars.bar(n).toAlignedRect()));
    QVERIFY2(bars.description(n).contains(estimateText(octave.difference)), qPrintable(bars.description(n)));
  }

  QCOMPARE(compared.view.better().rowCount(), 10);
  QCOMPARE(compared.view.worse().rowCount(), 10);
  const TokenTable& tokens = *compared.document.runs()[0].trace->tokens();
  for (int row = 0; row < 10; ++row) {
    const TokenChange& token = expected.difference.helped[index_of(row)];
    const DifferenceTable& table = compared.view.better();
    QCOMPARE(table.item(row, DifferenceTable::kToken)->text(),
             predictedText(tokens, token.position, figure::Whitespace::visible));
    QCOMPARE(table.item(row, DifferenceTable::kDifference)->text(), "−" + QString::number(-token.change, 'f', 2));
    QCOMPARE(table.item(row, DifferenceTable::kLoss)->text(),
             QString::number(static_cast<double>(compared.losses(0)[index_of(token.position)]), 'f', 2));
    QCOMPARE(table.item(row, DifferenceTable::kMinus)->text(),
             QString::number(static_cast<double>(compared.losses(1)[index_of(token.position)]), 'f', 2));
  }
}

void ComparisonTest::theRangeShownIsAnsweredToo() {
  Compared compared;
  QVERIFY(compared.run());
  compared.document.runs().selection().setView({{300, 600}, {0, 600}});
  QVERIFY(compared.settled());
  const LossComparison shown = compared.expected({300, 600});
  QTRY_VERIFY2(compared.view.sentence().contains(
                   "Positions 300 to 599, which are shown: " + estimateText(shown.difference.mean) + " nats/token"),
               qPrintable(compared.view.sentence()));
  // Tokens are those of the range; bars stay those of the text.
  const auto place = compared.view.worse().item(0, DifferenceTable::kToken)->data(Qt::UserRole).toLongLong();
  QCOMPARE(place, shown.difference.hurt.front().position);
  QVERIFY(compared.view.bars().octaves().front().positions == (Range{0, 256}));
}

void ComparisonTest::swapIsTheOtherWayAbout() {
  Compared compared;
  QVERIFY(compared.run());
  compared.view.swap().click();
  QVERIFY(compared.settled());
  Estimate mean = compared.expected().difference.mean;
  mean.value = -mean.value;
  QTRY_VERIFY2(compared.view.sentence().startsWith("<b>transformer-pro-12m − fox-pro-12m:</b> " + estimateText(mean)),
               qPrintable(compared.view.sentence()));
}

void ComparisonTest::aClickOnATokenGoesThere() {
  Compared compared;
  QVERIFY(compared.run());
  QTableWidgetItem* item = compared.view.better().item(2, DifferenceTable::kToken);
  emit compared.view.better().cellClicked(2, DifferenceTable::kBefore);
  QCOMPARE(compared.document.runs().selection().pin().query.value_or(-1),
           static_cast<std::int64_t>(item->data(Qt::UserRole).toLongLong()));
}

void ComparisonTest::oneRunSaysWhatToDo() {
  Compared compared;
  QVERIFY2(compared.view.message().startsWith("Run a second model on the same text"),
           qPrintable(compared.view.message()));
  QVERIFY(compared.run(80));
  QVERIFY2(compared.view.sentence().contains("no errors: the text gives 2 blocks of 40 tokens, and an error takes 8"),
           qPrintable(compared.view.sentence()));
  compared.document.runs().removeRun(compared.document.runs()[1].id);
  QVERIFY2(compared.view.message().startsWith("Run a second model on the same text"),
           qPrintable(compared.view.message()));
  QVERIFY(compared.view.isSettled());
  compared.view.minus().setCurrentIndex(-1);
  compared.document.runs().undoStack().undo();
  QVERIFY(compared.settled());
}

void ComparisonTest::aSessionsPairComesBack() {
  Compared compared;
  QVERIFY(compared.run(80));
  compared.view.swap().click();
  const QJsonObject state = compared.view.saveState();
  QCOMPARE(state["model"].toString(), QString("transformer-pro-12m"));
  ComparisonView other(compared.document.runs());
  QCOMPARE(other.model().currentText(), QString("fox-pro-12m"));
  other.restoreState(state);
  QCOMPARE(other.model().currentText(), QString("transformer-pro-12m"));
  QCOMPARE(other.minus().currentText(), QString("fox-pro-12m"));
  other.restoreState({{"model", "gone"}, {"minus", "fox-pro-12m"}});
  QCOMPARE(other.model().currentText(), QString("transformer-pro-12m"));
}

void ComparisonTest::otherTokensAreNotCompared() {
  Compared compared;
  QVERIFY(compared.run(80));
  compared.view.minus().setCurrentIndex(0);
  emit compared.view.minus().activated(0);
  QCOMPARE(compared.view.message(), QString("A model differs from itself in nothing: choose two."));
  compared.view.minus().setCurrentIndex(1);
  emit compared.view.minus().activated(1);
  QVERIFY(compared.settled());
}

}  // namespace foxscope::gui::test

FOXSCOPE_GUI_SUBJECT(comparison, foxscope::gui::test::ComparisonTest)
#include "comparison_test.moc"
