#include <cmath>

#include <QComboBox>
#include <QTabBar>
#include <QTest>

#include "app/figure/colour_map.h"
#include "app/gui/heads/heads_view.h"
#include "app/gui/views/theme.h"
#include "tests/file/synthetic_trace.h"
#include "tests/gui/heads/heads_shown.h"
#include "tests/gui/subject.h"

namespace foxscope::gui::test {

class HeadsTest : public QObject {
  Q_OBJECT

 private slots:
  void clicksAndArrowsChooseAHead();
  void aCellHasTheColourOfItsNumber();
  void hoveringTellsTheNumbers();
  void thePinnedPairColoursEveryHead();
  void tabsStayWhereTheyAre();
  void theStateComesBack();
  void differencesHaveOneSign();
  void withoutRunsItSaysSo();
  void withoutGatesItBeginsWithEntropy();
  void saliencyIsKnownWhereItWasKept();
  void saliencyThatIsMissingIsComputedByAButton();
  void headsWithoutAGateAreHatched();
  void cellsHoldTheirNumbers();
  void theChooserHasTwoFields();
};

void HeadsTest::clicksAndArrowsChooseAHead() {
  Heads heads;
  QVERIFY(heads.run(64));
  HeadGrid& grid = heads.view.grid();
  const RunId fox = heads.document.runs()[0].id;
  const RunId transformer = heads.document.runs()[1].id;
  QTest::mouseClick(&grid, Qt::LeftButton, {}, grid.cell({fox, 5, 2}).center());
  QVERIFY(heads.document.runs().selection().head() == (HeadChoice{fox, 5, 2}));
  QTest::keyClick(&grid, Qt::Key_Right);
  QTest::keyClick(&grid, Qt::Key_Right);
  QVERIFY(heads.document.runs().selection().head() == (HeadChoice{fox, 5, 3}));
  QTest::keyClick(&grid, Qt::Key_Up);
  QVERIFY(heads.document.runs().selection().head() == (HeadChoice{fox, 4, 3}));
  for (int step = 0; step < 4; ++step) QTest::keyClick(&grid, Qt::Key_Down);
  QVERIFY(heads.document.runs().selection().head() == (HeadChoice{transformer, 0, 3}));
  QTest::keyClick(&grid, Qt::Key_Left);
  QTest::keyClick(&grid, Qt::Key_Up);
  QVERIFY(heads.document.runs().selection().head() == (HeadChoice{fox, 7, 2}));
  QVERIFY(!grid.headAt({-5, -5}));
}

void HeadsTest::aCellHasTheColourOfItsNumber() {
  Heads heads;
  QVERIFY(heads.run(64));
  heads.view.setColouring({HeadColouring::Kind::quantity, HeadQuantity::entropy, kNoRun});
  HeadGrid& grid = heads.view.grid();
  const RunId fox = heads.document.runs()[0].id;
  double least = INFINITY;
  double most = -INFINITY;
  for (const Run& run : heads.document.runs()) {
    for (int layer = 0; layer < 8; ++layer) {
      for (int head = 0; head < 4; ++head) {
        const double entropy = head_statistics({run.trace, layer, head}, {}, {})->entropy;
        least = std::min(least, entropy);
        most = std::max(most, entropy);
      }
    }
  }
  for (int layer = 0; layer < 8; ++layer) {
    const HeadChoice head{fox, layer, 1};
    const double entropy = heads.table.statistics(head)->entropy;
    const figure::Rgb expected = figure::colourAt(figure::viridis(), (entropy - least) / (most - least));
    // Beside the number.
    const QColor shown = colourAt(grid, grid.cell(head).topLeft() + QPoint(2, 2));
    QVERIFY(std::abs(shown.red() - expected.red) <= 1 && std::abs(shown.green() - expected.green) <= 1 &&
            std::abs(shown.blue() - expected.blue) <= 1);
  }
}

void HeadsTest::hoveringTellsTheNumbers() {
  Heads heads;
  QVERIFY(heads.run(64));
  const RunId fox = heads.document.runs()[0].id;
  const QString told = heads.view.grid().description({fox, 3, 0});
  const HeadStatistics& known = *heads.table.statistics({fox, 3, 0});
  QVERIFY(told.contains("layer 3, head 0"));
  QVERIFY(told.contains(valueText(HeadQuantity::rateDecayTime, known.rate_decay_time)));
  QVERIFY(told.contains(valueText(HeadQuantity::entropy, known.entropy)));
  QVERIFY(told.contains("nearest in transformer-pro-12m: layer"));
  QVERIFY(told.contains("induction, score"));
  QCOMPARE(valueText(HeadQuantity::rateDecayTime, INFINITY), "never forgets");
  QCOMPARE(valueText(HeadQuantity::rateDecayTime, 12345.6), "12346 tokens");
  QCOMPARE(valueText(HeadQuantity::massOnFirst, 0.01234), "0.0123");
}

void HeadsTest::thePinnedPairColoursEveryHead() {
  Heads heads;
  QVERIFY(heads.run(64));
  heads.view.setColouring({HeadColouring::Kind::quantity, HeadQuantity::pinnedForget, kNoRun});
  heads.document.runs().selection().setPin({50, 30});
  QVERIFY(waitUntilIdle(heads.document));
  const HeadChoice head{heads.document.runs()[0].id, 3, 0};
  QCOMPARE(heads.view.grid().shownValue(head), pair_reading({heads.document.runs()[0].trace, 3, 0}, 50, 30).forget);
  heads.document.runs().selection().setPin({});
  QVERIFY(std::isnan(heads.view.grid().shownValue(head)));
}

void HeadsTest::tabsStayWhereTheyAre() {
  Heads heads;
  QVERIFY(heads.run(64));
  auto* tabs = heads.view.findChild<QTabBar*>();
  const QComboBox* listed = nullptr;
  for (const auto* box : heads.view.findChildren<QComboBox*>()) {
    if (box->accessibleName() == "Run") listed = box;
  }
  QCoreApplication::processEvents();
  const QPoint place = tabs->mapTo(&heads.view, QPoint());
  std::optional<int> top;
  for (int tab = tabs->count() - 1; tab >= 0; --tab) {
    QTest::mouseClick(tabs, Qt::LeftButton, {}, tabs->tabRect(tab).center());
    QCOMPARE(tabs->currentIndex(), tab);
    QCoreApplication::processEvents();
    QCOMPARE(tabs->mapTo(&heads.view, QPoint()), place);
    QCOMPARE(listed->isVisible(), tab != static_cast<int>(HeadsView::Tab::grid));
    if (!listed->isVisible()) continue;
    if (top) QCOMPARE(listed->y(), *top);
    top = listed->y();
  }
  QVERIFY(top.has_value());
}

void HeadsTest::theStateComesBack() {
  Heads heads;
  QVERIFY(heads.run(32));
  const RunId transformer = heads.document.runs()[1].id;
  const RunId fox = heads.document.runs()[0].id;
  const HeadColouring wanted{HeadColouring::Kind::difference, HeadQuantity::entropy, transformer, fox};
  heads.view.setColouring(wanted);
  QVERIFY(heads.view.colouring() == wanted);
  const QJsonObject state = heads.view.saveState();
  heads.view.setColouring({});
  heads.view.restoreState(state);
  QVERIFY(heads.view.colouring() == wanted);
  heads.view.restoreState({{"kind", 77}, {"quantity", "x"}});
  QVERIFY(heads.view.colouring() == wanted);
}

// Both grids show the first run less the other.
void HeadsTest::differencesHaveOneSign() {
  Heads heads;
  QVERIFY(heads.run(64));
  const RunId fox = heads.document.runs()[0].id;
  const RunId transformer = heads.document.runs()[1].id;
  heads.view.setColouring({HeadColouring::Kind::difference, HeadQuantity::entropy, transformer, fox});
  const auto entropy = [&](const HeadChoice& head) {
    return head_statistics(*heads.document.runs().headOf(head), {}, {})->entropy;
  };
  const auto nearest = [&](const HeadChoice& head, RunId other) { return *heads.table.nearestHead(head, other); };
  const HeadChoice a{fox, 3, 1};
  const HeadChoice b{transformer, 4, 2};
  HeadGrid& grid = heads.view.grid();
  QCOMPARE(grid.shownValue(a), entropy(a) - entropy(nearest(a, transformer)));
  QCOMPARE(grid.shownValue(b), entropy(nearest(b, fox)) - entropy(b));
}

void HeadsTest::withoutRunsItSaysSo() {
  Heads heads;
  heads.view.resize(200, 400);
  heads.view.show();
  QVERIFY(!heads.view.grab().isNull());
  QTest::keyClick(&heads.view.grid(), Qt::Key_Down);
  QCOMPARE(heads.document.runs().selection().head().run, kNoRun);
}

void HeadsTest::withoutGatesItBeginsWithEntropy() {
  FileHeads heads;
  foxscope::test::SyntheticRun run;
  run.gated = false;
  QVERIFY(heads.open(run));
  QCOMPARE(heads.view.colouring().quantity, HeadQuantity::entropy);
  // What the user chose stays, and until then a run with gates brings theirs.
  run.gated = true;
  run.name = "gated";
  QVERIFY(heads.open(run));
  QCOMPARE(heads.view.colouring().quantity, HeadQuantity::rateDecayTime);
}

void HeadsTest::saliencyIsKnownWhereItWasKept() {
  FileHeads heads;
  foxscope::test::SyntheticRun run;
  QVERIFY(heads.open(run));
  run.name = "owed";
  run.keep.insert(Keep::saliency);
  QVERIFY(heads.open(run));
  const HeadChoice without{heads.document.runs()[0].id, 1, 2};
  const HeadChoice with{heads.document.runs()[1].id, 1, 2};
  const Trace& trace = *heads.document.runs()[1].trace;
  const auto gradient = trace.log_forget_gradient(1, 2);
  const auto c = trace.cumulative_log_gate(1, 2);
  double scale = 0;
  double absolute = 0;
  double size = 0;
  for (std::size_t t = 0; t < gradient.size(); ++t) {
    const double change = static_cast<double>(gradient[t]) * (t == 0 ? 0 : c[t] - c[t - 1]);
    scale += change;
    absolute += std::abs(change);
    size += std::abs(static_cast<double>(gradient[t]));
  }
  const std::pair<HeadQuantity, double> numbers[] = {
      {HeadQuantity::saliencyAbsolute, absolute},
      {HeadQuantity::saliencyScale, scale},
      {HeadQuantity::saliencyPerNat, size / static_cast<double>(gradient.size())}};
  for (const auto& [quantity, expected] : numbers) {
    QVERIFY(std::isnan(heads.table.value(without, quantity)));
    QVERIFY(std::abs(heads.table.value(with, quantity) - expected) < 1e-12);
    heads.view.setColouring({HeadColouring::Kind::quantity, quantity, kNoRun});
    QCOMPARE(heads.view.grid().shownValue(with), heads.table.value(with, quantity));
  }
  QCOMPARE(textOf(HeadQuantity::saliencyScale).name, "saliency_scale");
  QVERIFY(textOf(HeadQuantity::saliencyScale).meaning.contains("10 % smaller"));
}

void HeadsTest::saliencyThatIsMissingIsComputedByAButton() {
  Heads heads;
  QVERIFY(heads.run(48));
  const HeadChoice chosen{heads.document.runs()[0].id, 1, 2};
  heads.document.runs().selection().setHead(chosen);
  auto* button = heads.view.findChild<QToolButton*>("headsRemedy");
  QVERIFY(!button->isVisible());
  const auto colourBy = [&](const QString& name) {
    for (QAction* command : heads.view.commands()) {
      if (command->text() == "Colour heads by " + name) command->trigger();
    }
  };
  colourBy("saliency_absolute");
  QVERIFY(button->isVisible());
  QVERIFY(std::isnan(heads.view.grid().shownValue(chosen)));
  QTest::mouseClick(button, Qt::LeftButton);
  QVERIFY(!button->isEnabled());
  const auto known = [&] {
    const HeadChoice now{heads.document.runs()[0].id, 1, 2};
    return !std::isnan(heads.table.value(now, HeadQuantity::saliencyAbsolute));
  };
  QVERIFY(QTest::qWaitFor(known, 60'000) && waitUntilIdle(heads.document));
  QVERIFY(!button->isVisible());
  // The other model has none yet.
  heads.document.runs().selection().setHead({heads.document.runs()[1].id, 0, 0});
  QVERIFY(button->isVisible() && button->isEnabled());
  colourBy("entropy");
  QVERIFY(!button->isVisible());
}

void HeadsTest::headsWithoutAGateAreHatched() {
  Heads heads;
  QVERIFY(heads.run(64));
  HeadGrid& grid = heads.view.grid();
  const RunId fox = heads.document.runs()[0].id;
  const RunId transformer = heads.document.runs()[1].id;
  heads.document.runs().selection().setPin({50, 30});
  QVERIFY(waitUntilIdle(heads.document));
  heads.document.runs().selection().setHead({fox, 0, 0});
  const figure::Rgb most = figure::colourAt(figure::viridis(), 1);
  for (const HeadQuantity quantity : {HeadQuantity::rateDecayTime, HeadQuantity::halfLife, HeadQuantity::pinnedForget,
                                      HeadQuantity::pinnedSurvival}) {
    heads.view.setColouring({HeadColouring::Kind::quantity, quantity, kNoRun});
    QVERIFY(grid.hasNothingToShow({transformer, 3, 1}) && !grid.hasNothingToShow({fox, 3, 1}));
    QVERIFY(grid.cellText({transformer, 3, 1}).isEmpty());
    const QRect cell = grid.cell({transformer, 3, 1});
    const QImage picture = grid.grab(cell).toImage();
    for (int y = 0; y < picture.height(); ++y) {
      for (int x = 0; x < picture.width(); ++x) {
        QVERIFY(picture.pixelColor(x, y) != QColor(most.red, most.green, most.blue));
        // Grey as the ground, whatever the line of the hatching.
        QVERIFY(picture.pixelColor(x, y).hsvSaturation() < 30);
      }
    }
    // They can be chosen all the same.
    QVERIFY(grid.headAt(cell.center()) == (HeadChoice{transformer, 3, 1}));
  }
  // What they do not have shapes no scale.
  heads.view.setColouring({HeadColouring::Kind::quantity, HeadQuantity::entropy, kNoRun});
  QVERIFY(!grid.hasNothingToShow({transformer, 3, 1}));
}

void HeadsTest::cellsHoldTheirNumbers() {
  Heads heads;
  QVERIFY(heads.run(64));
  HeadGrid& grid = heads.view.grid();
  const RunId fox = heads.document.runs()[0].id;
  heads.document.runs().selection().setPin({50, 30});
  QVERIFY(waitUntilIdle(heads.document));
  heads.view.setColouring({HeadColouring::Kind::quantity, HeadQuantity::pinnedForget, kNoRun});
  bool beyondHalf = false;
  for (int layer = 0; layer < 8; ++layer) {
    for (int head = 0; head < 4; ++head) {
      const double forget = pair_reading({heads.document.runs()[0].trace, layer, head}, 50, 30).forget;
      const QString text = grid.cellText({fox, layer, head});
      QVERIFY2(std::abs(text.toDouble() - forget) <= 0.005, qPrintable(text));
      beyondHalf = beyondHalf || forget > 0.5;
    }
  }
  QVERIFY(beyondHalf);
  heads.view.setColouring({HeadColouring::Kind::quantity, HeadQuantity::rateDecayTime, kNoRun});
  const double time = heads.table.value({fox, 3, 0}, HeadQuantity::rateDecayTime);
  QVERIFY(time < 10 || time > 1000 || grid.cellText({fox, 3, 0}).toDouble() == std::round(time));
  QVERIFY(!grid.cellText({fox, 3, 0}).isEmpty());
}

void HeadsTest::theChooserHasTwoFields() {
  FileHeads heads;
  foxscope::test::SyntheticRun run;
  for (const char* name : {"one", "two", "three", "four"}) {
    run.name = name;
    ++run.seed;
    QVERIFY(heads.open(run));
  }
  heads.view.resize(260, 700);
  heads.view.show();
  QComboBox* metric = nullptr;
  QComboBox* minus = nullptr;
  for (auto* box : heads.view.findChildren<QComboBox*>()) {
    if (box->accessibleName() == "Colour heads by") metric = box;
    if (box->accessibleName() == "Subtracted run") minus = box;
  }
  QVERIFY(metric != nullptr && minus != nullptr && minus->isVisible());
  QStringList headings;
  for (int entry = 0; entry < metric->count(); ++entry) {
    const bool chosen = metric->model()->flags(metric->model()->index(entry, 0)).testFlag(Qt::ItemIsEnabled);
    if (!chosen) headings += metric->itemText(entry);
    QVERIFY(!metric->itemText(entry).contains("three"));
  }
  QCOMPARE(headings, (QStringList{"Memory", "Attention", "At the pin", "Labels", "Loss"}));
  QVERIFY(metric->count() > metric->maxVisibleItems());
  QVERIFY(metric->maxVisibleItems() * metric->fontMetrics().height() * 3 / 2 < 700);
  QCOMPARE(minus->count(), 5);
  QCOMPARE(minus->itemText(0), "minus: nothing");
  metric->setCurrentText("entropy");
  minus->setCurrentText("minus: two");
  const auto id = [&](std::size_t place) { return heads.document.runs()[place].id; };
  QVERIFY(heads.view.colouring() ==
          (HeadColouring{HeadColouring::Kind::difference, HeadQuantity::entropy, id(1), id(0)}));
  HeadGrid& grid = heads.view.grid();
  for (const std::size_t other : {0, 2, 3}) {
    const HeadChoice head{id(other), 1, 2};
    QCOMPARE(grid.shownValue(head), heads.table.difference(head, id(1), HeadQuantity::entropy));
  }
  // Nothing is subtracted of what is no number of a run alone, and the choice stays for what comes after.
  metric->setCurrentText("F(i, j) of the pin");
  QVERIFY(!minus->isVisible());
  QCOMPARE(heads.view.colouring().kind, HeadColouring::Kind::quantity);
  metric->setCurrentText("half-life");
  QCOMPARE(heads.view.colouring().other, id(1));
  minus->setCurrentIndex(0);
  QCOMPARE(heads.view.colouring().kind, HeadColouring::Kind::quantity);
}

}  // namespace foxscope::gui::test

FOXSCOPE_GUI_SUBJECT(heads, foxscope::gui::test::HeadsTest)
#include "heads_test.moc"
