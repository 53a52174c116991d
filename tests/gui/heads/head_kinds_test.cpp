// Grids of models whose layers are of several kinds, or have very many heads.
#include <QSignalSpy>
#include <QTest>

#include "app/figure/layer_kind.h"
#include "app/gui/document/head_steps.h"
#include "tests/file/synthetic_trace.h"
#include "tests/gui/heads/heads_shown.h"
#include "tests/gui/subject.h"

namespace foxscope::gui::test {

class HeadKindsTest : public QObject {
  Q_OBJECT

 private slots:
  void layersOfSeveralKindsHaveAStripEach();
  void layersWithoutHeadsArePassedOver();
  void ofMambaEveryNthChannelIsShown();
  void manyHeadsAreAllSeenHoveredAndChosen_data();
  void manyHeadsAreAllSeenHoveredAndChosen();
};

void HeadKindsTest::layersOfSeveralKindsHaveAStripEach() {
  FileHeads heads;
  foxscope::test::SyntheticRun run;
  run.mixers = foxscope::test::all_mixers();
  QVERIFY(heads.open(run));
  heads.view.resize(300, 700);
  heads.view.show();
  HeadGrid& grid = heads.view.grid();
  const Run& shown = heads.document.runs()[0];
  const TraceInfo& info = shown.trace->info();
  const std::vector<figure::LayerKind> kinds = figure::kindsOf(info);
  QVERIFY(kinds.size() > 3);
  for (int layer = 0; layer < info.layers; ++layer) {
    const QRect first = grid.cell({shown.id, layer, 0});
    const figure::Rgb wanted = figure::kindColour(info, layer);
    QCOMPARE(colourAt(grid, {first.left() - 6, first.center().y()}), QColor(wanted.red, wanted.green, wanted.blue));
  }
  // Windows that layers do not share make two kinds.
  foxscope::test::SyntheticRun windows;
  windows.window_sizes = {8, 0};
  const TraceInfo windowed = foxscope::test::make_trace(windows)->info();
  QCOMPARE(figure::kindsOf(windowed).size(), std::size_t{2});
  QCOMPARE(figure::kindsOf(windowed).front().words, std::string("forgetting attention, window of 8"));
  QVERIFY(!(figure::kindColour(windowed, 0) == figure::kindColour(windowed, 1)));
  // A run of attention alone is as it was.
  const QRect with = grid.cell({shown.id, 0, 0});
  FileHeads plain;
  QVERIFY(plain.open({}));
  plain.view.resize(300, 700);
  plain.view.show();
  QVERIFY(plain.view.grid().cell({plain.document.runs()[0].id, 0, 0}).top() < with.top());
  QVERIFY(figure::kindsOf(plain.document.runs()[0].trace->info()).empty());
  for (int layer = 0; layer < info.layers; ++layer) {
    const bool channels = info.mixer(layer).decays_by_channel();
    QCOMPARE(grid.description({shown.id, layer, 0}).contains("decay times of channels"), channels);
  }
}

// Layers that are an MLP alone.
void HeadKindsTest::layersWithoutHeadsArePassedOver() {
  FileHeads heads;
  foxscope::test::SyntheticRun run;
  const LayerMixer attention{Mixer::attention, Decay::none, 2, 2, 2, 2, 4, 4};
  const LayerMixer mlp{.mixer = Mixer::none, .decay = Decay::none};
  run.mixers = {attention, mlp, mlp, attention, mlp};
  QVERIFY(heads.open(run));
  heads.view.resize(300, 500);
  heads.view.show();
  HeadGrid& grid = heads.view.grid();
  const RunId shown = heads.document.runs()[0].id;
  Selection& selection = heads.document.runs().selection();
  QCOMPARE(heads.table.rowCount(), 4);
  selection.setHead({shown, 0, 1});
  QTest::keyClick(&grid, Qt::Key_Down);
  QVERIFY(selection.head() == (HeadChoice{shown, 3, 1}));
  QTest::keyClick(&grid, Qt::Key_Down);
  QVERIFY(selection.head() == (HeadChoice{shown, 3, 1}));
  QTest::keyClick(&grid, Qt::Key_Up);
  QVERIFY(selection.head() == (HeadChoice{shown, 0, 1}));
  QTest::keyClick(&grid, Qt::Key_Up);
  QVERIFY(selection.head() == (HeadChoice{shown, 0, 1}));
  QVERIFY(headOfLayer(heads.document.runs(), {shown, 0, 1}, 1) == (HeadChoice{shown, 3, 1}));
  QVERIFY(headOfLayer(heads.document.runs(), {shown, 3, 1}, -1) == (HeadChoice{shown, 0, 1}));
  QVERIFY(!headOfLayer(heads.document.runs(), {shown, 3, 1}, 1));
  QTRY_VERIFY(heads.table.statistics({shown, 3, 1}) != nullptr);
}

// Each channel of Mamba is a head, of which the views show no more than 64 of a layer.
void HeadKindsTest::ofMambaEveryNthChannelIsShown() {
  FileHeads heads;
  foxscope::test::SyntheticRun run;
  run.mixers = {{Mixer::mamba, Decay::rates, 200, 1, 1, 200, 3, 1}, {Mixer::attention, Decay::none, 2, 2, 2, 2, 4, 4}};
  QVERIFY(heads.open(run));
  heads.view.resize(700, 500);
  heads.view.show();
  HeadGrid& grid = heads.view.grid();
  const RunId shown = heads.document.runs()[0].id;
  QCOMPARE(heads.table.rowCount(), 50 + 2);
  QCOMPARE(heads.table.total(), 50 + 2);
  QCOMPARE(heads.table.index(8, 0).data(HeadTable::HeadRole).value<HeadChoice>().head, 32);
  QCOMPARE(heads.table.index(51, 0).data(HeadTable::HeadRole).value<HeadChoice>().layer, 1);
  QVERIFY(grid.minimumSizeHint().width() < 65 * 10);
  const QRect cell = grid.cell({shown, 0, 32});
  QVERIFY(grid.headAt(cell.center()) == (HeadChoice{shown, 0, 32}));
  QCOMPARE(grid.cell({shown, 0, 33}), cell);
  QVERIFY(!grid.headAt({grid.cell({shown, 1, 1}).right() + 3, grid.cell({shown, 1, 1}).center().y()}));
  heads.document.runs().selection().setHead({shown, 0, 33});
  QTest::keyClick(&grid, Qt::Key_Right);
  QVERIFY(heads.document.runs().selection().head() == (HeadChoice{shown, 0, 36}));
  QTest::keyClick(&grid, Qt::Key_Down);
  QVERIFY(heads.document.runs().selection().head() == (HeadChoice{shown, 1, 1}));
  const auto kinds = figure::kindsOf(heads.document.runs()[0].trace->info());
  QCOMPARE(kinds.front().words, std::string("Mamba, 50 of 200 channels"));
  QTRY_VERIFY(heads.table.statistics({shown, 0, 196}) != nullptr);
  QVERIFY(heads.table.statistics({shown, 0, 197}) == nullptr);
}

void HeadKindsTest::manyHeadsAreAllSeenHoveredAndChosen_data() {
  QTest::addColumn<int>("layers");
  QTest::addColumn<int>("across");
  QTest::newRow("24 x 24") << 24 << 24;
  QTest::newRow("32 x 64") << 32 << 64;
}

// The papers' 760M model has 24 x 24 heads: a dock of the first width shows them all.
void HeadKindsTest::manyHeadsAreAllSeenHoveredAndChosen() {
  QFETCH(int, layers);
  QFETCH(int, across);
  FileHeads heads;
  foxscope::test::SyntheticRun run;
  run.layers = layers;
  run.heads = run.key_heads = across;
  run.head_dim = 2;
  run.keep = {Keep::gates};
  const QSignalSpy told(&heads.table, &HeadTable::valuesChanged);
  QVERIFY(heads.open(run));
  // Views go through all heads when they are told of values: not for each head anew.
  QVERIFY2(told.count() < layers * across / 2, qPrintable(QString::number(told.count())));
  const RunId shown = heads.document.runs()[0].id;
  HeadGrid& grid = heads.view.grid();
  heads.view.resize(std::max(190, heads.view.minimumSizeHint().width()), 700);
  heads.view.show();
  QVERIFY(QTest::qWaitForWindowExposed(&heads.view));
  QCoreApplication::processEvents();
  QVERIFY2(heads.view.width() <= 340, qPrintable(QString::number(heads.view.width())));
  QRect before;
  for (int layer = 0; layer < layers; ++layer) {
    for (int head = 0; head < across; ++head) {
      const QRect cell = grid.cell({shown, layer, head});
      QVERIFY(cell.width() >= 4 && cell.height() >= 4 && !cell.intersects(before));
      QVERIFY(cell.width() >= 26 || grid.cellText({shown, layer, head}).isEmpty());
      before = cell;
      // Within what the scroll area shows of the grid, across.
      const QPoint left = grid.mapTo(&heads.view, cell.topLeft());
      QVERIFY(left.x() >= 0 && left.x() + cell.width() <= heads.view.width());
      QVERIFY(grid.visibleRegion().boundingRect().right() >= cell.right());
      QVERIFY(grid.headAt(cell.center()) == (HeadChoice{shown, layer, head}));
    }
  }
  const HeadChoice last{shown, layers - 1, across - 1};
  const QImage plain = grid.grab().toImage();
  QTest::mouseMove(&grid, grid.cell(last).center());
  QTRY_VERIFY(grid.grab().toImage() != plain);
  QTest::mouseClick(&grid, Qt::LeftButton, {}, grid.cell(last).center());
  Selection& selection = heads.document.runs().selection();
  QVERIFY(selection.head() == last);
  QTest::keyClick(&grid, Qt::Key_Left);
  QTest::keyClick(&grid, Qt::Key_Up);
  QVERIFY(selection.head() == (HeadChoice{shown, layers - 2, across - 2}));
  // The mark of the chosen head leaves its colour to be seen.
  const QColor wanted = grid.colours().colour(grid.shownValue(selection.head()));
  QCOMPARE(colourAt(grid, grid.cell(selection.head()).topLeft() + QPoint(1, 1)), wanted);
}

}  // namespace foxscope::gui::test

FOXSCOPE_GUI_SUBJECT(head_kinds, foxscope::gui::test::HeadKindsTest)
#include "head_kinds_test.moc"
