#include <array>
#include <cmath>

#include <QApplication>
#include <QClipboard>
#include <QComboBox>
#include <QHeaderView>
#include <QMimeData>
#include <QSignalSpy>
#include <QTabBar>
#include <QTableView>
#include <QTest>

#include "app/figure/colour_map.h"
#include "app/figure/curves/curve_palette.h"
#include "app/figure/heads/head_label_colour.h"
#include "app/gui/document/head_steps.h"
#include "app/gui/heads/head_legend.h"
#include "app/gui/heads/heads_view.h"
#include "app/gui/views/theme.h"
#include "backend/base/atomic_file.h"
#include "backend/file/run_file.h"
#include "tests/file/synthetic_trace.h"
#include "tests/gui/subject.h"
#include "tests/gui/support.h"

namespace foxscope::gui::test {

class HeadsTest : public QObject {
  Q_OBJECT

 private slots:
  void clicksAndArrowsChooseAHead();
  void aCellHasTheColourOfItsNumber();
  void theScaleIsLogarithmicWhereNumbersSpread();
  void hoveringTellsTheNumbers();
  void thePinnedPairColoursEveryHead();
  void theTableSortsByNumbers();
  void aNarrowTableShowsItsNumbers();
  void rowsAreCopied();
  void labelsAreListedAndFiltered();
  void labelsColourTheGrid();
  void smallPicturesOfForgetMatrices();
  void smallPicturesOfAttention();
  void theGalleryShowsSortsAndFilters();
  void tabsStayWhereTheyAre();
  void hiddenRunsAreNeitherListedNorPictured();
  void theStateComesBack();
  void differencesHaveOneSign();
  void withoutRunsItSaysSo();
  void withoutGatesItBeginsWithEntropy();
  void saliencyIsKnownWhereItWasKept();
  void saliencyThatIsMissingIsComputedByAButton();
  void layersOfSeveralKindsHaveAStripEach();
  void layersWithoutHeadsArePassedOver();
  void ofMambaEveryNthChannelIsShown();
  void manyHeadsAreAllSeenHoveredAndChosen_data();
  void manyHeadsAreAllSeenHoveredAndChosen();
  void headsWithoutAGateAreHatched();
  void aShareIsLinearFromNoneToAll();
  void legendsWritePowersOfTen();
  void cellsHoldTheirNumbers();
  void theChooserHasTwoFields();
  void aLongLegendWraps();
  void differencesDoNotGlareOnDarkGround();
  void pinsAndRunsNeverShareAColour_data();
  void pinsAndRunsNeverShareAColour();
};

namespace {

struct Heads {
  Document document;
  HeadTable table{document.runs()};
  HeadsView view{document.runs(), document.modelRuns(), table};

  bool run(std::int64_t tokens) {
    view.resize(260, 700);
    view.show();
    return runDemo(document, tokens) &&
           QTest::qWaitFor([&] { return table.known() == table.total() && !document.busy(); }, 60'000);
  }
};

QColor colourAt(QWidget& widget, const QPoint& place) {
  const QImage picture = widget.grab().toImage();
  const qreal ratio = picture.devicePixelRatio();
  return picture.pixelColor(QPoint(static_cast<int>(place.x() * ratio), static_cast<int>(place.y() * ratio)));
}

}  // namespace

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

void HeadsTest::theScaleIsLogarithmicWhereNumbersSpread() {
  const HeadColouring decay{HeadColouring::Kind::quantity, HeadQuantity::rateDecayTime, kNoRun};
  const HeadColours colours(decay, {1, 10, 100, INFINITY, NAN});
  QVERIFY(colours.logarithmic());
  const figure::Rgb middle = figure::colourAt(figure::viridis(), 0.5);
  QCOMPARE(colours.colour(10), QColor(middle.red, middle.green, middle.blue));
  QCOMPARE(colours.colour(INFINITY), colours.colour(100));
  QCOMPARE(colours.colour(NAN).alpha(), 0);
  QStringList labels;
  for (const auto& tick : colours.ticks()) labels += tick.text;
  QCOMPARE(labels, (QStringList{"1", "10", "100"}));
  const HeadColours difference({HeadColouring::Kind::difference, HeadQuantity::entropy, 0}, {-1, 3});
  QCOMPARE(difference.lower(), -3);
  QCOMPARE(difference.upper(), 3);
  QCOMPARE(difference.colour(0), QColor(Qt::white));
  QVERIFY(HeadColours(decay, {NAN}).empty());
  QVERIFY(!HeadColours(decay, {5, 5}).empty());
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

void HeadsTest::theTableSortsByNumbers() {
  Heads heads;
  QVERIFY(heads.run(64));
  QTableView& list = heads.view.table();
  const int column = 2;  // decay time
  for (const Qt::SortOrder order : {Qt::AscendingOrder, Qt::DescendingOrder}) {
    list.sortByColumn(column, order);
    double before = order == Qt::AscendingOrder ? 0 : INFINITY;
    for (int row = 0; row < list.model()->rowCount(); ++row) {
      const double value = list.model()->index(row, column).data(HeadTable::ValueRole).toDouble();
      QVERIFY(order == Qt::AscendingOrder ? value >= before : value <= before);
      before = value;
    }
  }
  // Choosing a row chooses its head.
  list.selectRow(0);
  const HeadChoice chosen = heads.document.runs().selection().head();
  QCOMPARE(heads.table.value(chosen, HeadQuantity::rateDecayTime),
           list.model()->index(0, column).data(HeadTable::ValueRole).toDouble());
}

void HeadsTest::aNarrowTableShowsItsNumbers() {
  Heads heads;
  QVERIFY(heads.run(64));
  heads.view.setTab(HeadsView::Tab::table);
  QTableView& list = heads.view.table();
  const QHeaderView& header = *list.horizontalHeader();
  QCOMPARE(list.model()->headerData(0, Qt::Horizontal).toString(), "L");
  QCOMPARE(list.model()->headerData(0, Qt::Horizontal, Qt::ToolTipRole).toString(), "layer");
  for (const int width : {190, 230, 420}) {
    heads.view.resize(width, 600);
    for (const HeadQuantity quantity :
         {HeadQuantity::rateDecayTime, HeadQuantity::distance90, HeadQuantity::pinnedSurvival}) {
      heads.view.setColouring({HeadColouring::Kind::quantity, quantity});
      QCoreApplication::processEvents();
      QCOMPARE(heads.view.width(), width);
      const int column = header.logicalIndex(2);
      QCOMPARE(column, 2 + static_cast<int>(quantity));
      QVERIFY2(header.sectionViewportPosition(column) + header.sectionSize(column) <= list.viewport()->width(),
               qPrintable(QStringLiteral("%1 of %2").arg(static_cast<int>(quantity)).arg(width)));
      for (int row = 0; row < list.model()->rowCount(); ++row) {
        const QString text = list.model()->index(row, column).data().toString();
        QVERIFY(list.fontMetrics().horizontalAdvance(text) < header.sectionSize(column));
      }
    }
  }
}

void HeadsTest::rowsAreCopied() {
  Heads heads;
  QVERIFY(heads.run(64));
  // The grid is shown: its picture, and the numbers of all heads.
  std::unique_ptr<QMimeData> copy(heads.view.copied());
  QVERIFY(copy->hasImage());
  const QTableView& list = heads.view.table();
  const int rows = list.model()->rowCount();
  QCOMPARE(copy->text().count('\n'), rows + 1);
  heads.view.setTab(HeadsView::Tab::table);
  heads.view.table().selectRow(2);
  copy.reset(heads.view.copied());
  QVERIFY(!copy->hasImage());
  const QStringList lines = copy->text().split('\n');
  QCOMPARE(lines.size(), 3);
  // Columns as they are seen, numbers as they are and not as they are shown.
  QCOMPARE(lines[0].split('\t').size(), list.model()->columnCount());
  const int column = list.horizontalHeader()->logicalIndex(2);
  QCOMPARE(lines[0].split('\t')[2], list.model()->headerData(column, Qt::Horizontal).toString().replace('\n', ' '));
  const double value = list.model()->index(2, column).data(HeadTable::ValueRole).toDouble();
  QCOMPARE(lines[1].split('\t')[2], QString::number(value, 'g', 9));
  const QList<QAction*> actions = list.actions();
  QCOMPARE(actions.size(), 3);
  actions[2]->trigger();
  QCOMPARE(QApplication::clipboard()->text().count('\n'), rows + 1);
  actions[0]->trigger();
  QCOMPARE(QApplication::clipboard()->text(), list.currentIndex().data().toString());
}

namespace {

/// A label that some heads of the listed run have and others have not, the strongest one of some of them.
std::optional<HeadLabel> representativeLabel(const HeadTable& table) {
  for (int number = 0; number < kHeadLabels; ++number) {
    int with = 0;
    for (int row = 0; row < table.rowCount(); ++row) {
      const int labels = table.index(row, 0).data(HeadTable::LabelsRole).toInt();
      with += labels >> number & 1;
    }
    if (with > 0 && with < table.rowCount()) return static_cast<HeadLabel>(number);
  }
  return std::nullopt;
}

}  // namespace

void HeadsTest::labelsAreListedAndFiltered() {
  Heads heads;
  QVERIFY(heads.run(300));
  const QAbstractItemModel& list = *heads.view.table().model();
  for (int row = 0; row < list.rowCount(); ++row) {
    const QModelIndex cell = list.index(row, HeadTable::kLabelsColumn);
    const HeadChoice head = cell.data(HeadTable::HeadRole).value<HeadChoice>();
    const LabelScores scores = head_statistics(*heads.document.runs().headOf(head), {}, {})->label_scores;
    QCOMPARE(cell.data().toString(), QString::fromStdString(names_of(labels_of(scores), ", ")));
    for (int number = 0; number < kHeadLabels; ++number) {
      const double score = scores[index_of(number)];
      const double shown = heads.table.value(head, scoreOf(static_cast<HeadLabel>(number)));
      QVERIFY(shown == score || (std::isnan(shown) && std::isnan(score)));
      // The tooltip says every score and what it is.
      const QString told = cell.data(Qt::ToolTipRole).toString();
      QVERIFY(told.contains(meaningOf(static_cast<HeadLabel>(number)).toHtmlEscaped()));
    }
  }
  const auto label = representativeLabel(heads.table);
  QVERIFY(label);
  const int all = list.rowCount();
  QComboBox* box = nullptr;
  for (QComboBox* each : heads.view.findChildren<QComboBox*>()) {
    if (each->accessibleName() == "Heads with the label") box = each;
  }
  QVERIFY(box != nullptr);
  QCOMPARE(box->currentText(), "all heads");
  box->setFocus();
  for (int step = 0; step <= static_cast<int>(*label); ++step) QTest::keyClick(box, Qt::Key_Down);
  QVERIFY(heads.view.label() == label);
  QVERIFY(list.rowCount() > 0 && list.rowCount() < all);
  QCOMPARE(box->currentText(), QStringLiteral("only %1 (%2)").arg(nameOf(*label)).arg(list.rowCount()));
  for (int row = 0; row < list.rowCount(); ++row) {
    QVERIFY(list.index(row, HeadTable::kLabelsColumn).data().toString().contains(nameOf(*label)));
  }
  // The filter is part of the state; the labels can be sorted by.
  const QJsonObject state = heads.view.saveState();
  heads.view.setLabel(std::nullopt);
  QCOMPARE(list.rowCount(), all);
  heads.view.restoreState(state);
  QVERIFY(heads.view.label() == label);
  heads.view.setLabel(std::nullopt);
  heads.view.table().sortByColumn(HeadTable::kLabelsColumn, Qt::DescendingOrder);
  QStringList strongest;
  for (int row = 0; row < all; ++row) {
    const QString first = list.index(row, HeadTable::kLabelsColumn).data().toString().section(", ", 0, 0);
    if (strongest.isEmpty() || strongest.back() != first) strongest += first;
  }
  QStringList once = strongest;
  once.removeDuplicates();
  QCOMPARE(strongest, once);
}

void HeadsTest::labelsColourTheGrid() {
  Heads heads;
  QVERIFY(heads.run(300));
  heads.view.setColouring({HeadColouring::Kind::label, HeadQuantity::rateDecayTime, kNoRun});
  HeadGrid& grid = heads.view.grid();
  const RunId fox = heads.document.runs()[0].id;
  const auto label = representativeLabel(heads.table);
  QVERIFY(label);
  // A corner of a cell is its ground, the letter is in the middle.
  const auto ground = [&](const HeadChoice& head) { return colourAt(grid, grid.cell(head).topLeft() + QPoint(3, 3)); };
  const auto has = [&](const HeadChoice& head) {
    const auto labels = heads.table.labels(head);
    return std::find(labels.begin(), labels.end(), *label) != labels.end();
  };
  std::optional<HeadChoice> with;
  std::optional<HeadChoice> without;
  for (int layer = 1; layer < 8; ++layer) {
    for (int head = 0; head < 4; ++head) {
      const HeadChoice one{fox, layer, head};
      if (has(one)) with = one;
      if (!has(one) && !heads.table.labels(one).empty()) without = one;
      const auto labels = heads.table.labels(one);
      if (labels.empty() || one == heads.document.runs().selection().head()) continue;
      const figure::Rgb expected = figure::labelColour(labels.front());
      QCOMPARE(ground(one), QColor(expected.red, expected.green, expected.blue));
    }
  }
  QVERIFY(with);
  const QColor before = without ? ground(*without) : QColor();
  heads.view.setLabel(label);
  const figure::Rgb wanted = figure::labelColour(*label);
  QCOMPARE(ground(*with), QColor(wanted.red, wanted.green, wanted.blue));
  if (without) QVERIFY(ground(*without) != before);
}

void HeadsTest::smallPicturesOfAttention() {
  Heads heads;
  QVERIFY(heads.run(64));
  heads.view.setColouring({HeadColouring::Kind::attentionPicture, HeadQuantity::rateDecayTime, kNoRun});
  QVERIFY(waitUntilIdle(heads.document));
  HeadGrid& grid = heads.view.grid();
  // The first query has one key, at the least distance: all of its attention is there, in the brightest colour.
  const QRect cell = grid.cell({heads.document.runs()[1].id, 2, 2});
  // A pixel may hold a second query too.
  const figure::Rgb bright = figure::colourAt(figure::viridis(), 0.8);
  const QColor first = colourAt(grid, cell.bottomLeft() + QPoint(2, -2));
  QVERIFY2(first.red() > bright.red && first.green() > bright.green, qPrintable(first.name()));
  // Back to F and again: pictures are kept.
  heads.view.setColouring({HeadColouring::Kind::forgetPicture, HeadQuantity::rateDecayTime, kNoRun});
  QVERIFY(waitUntilIdle(heads.document));
  heads.view.setColouring({HeadColouring::Kind::attentionPicture, HeadQuantity::rateDecayTime, kNoRun});
  QVERIFY(!heads.document.busy());
  QCOMPARE(colourAt(grid, cell.bottomLeft() + QPoint(2, -2)), first);
}

void HeadsTest::theGalleryShowsSortsAndFilters() {
  Heads heads;
  QVERIFY(heads.run(300));
  heads.view.setTab(HeadsView::Tab::pictures);
  QVERIFY(waitUntilIdle(heads.document));
  HeadGallery& gallery = heads.view.gallery();
  QCOMPARE(gallery.heads().size(), std::size_t{32});
  QVERIFY(gallery.heads()[5] == (HeadChoice{heads.table.run(), 1, 1}));
  // Layers begin lines of their own.
  QVERIFY(gallery.cell(gallery.heads()[4]).top() > gallery.cell(gallery.heads()[3]).bottom());
  // A head of the model without gates: F is 1; its first query attends to the first key alone.
  heads.table.setRun(heads.document.runs()[1].id);
  const HeadChoice head{heads.document.runs()[1].id, 1, 1};
  const figure::Rgb bright = figure::colourAt(figure::viridis(), 1);
  const QRect place = gallery.cell(head);
  QVERIFY(!place.isEmpty());
  QCOMPARE(colourAt(gallery, place.bottomLeft() + QPoint(4, -4)), QColor(bright.red, bright.green, bright.blue));
  QToolButton* ofAttention = nullptr;
  for (QToolButton* button : heads.view.findChildren<QToolButton*>()) {
    if (button->text() == "A") ofAttention = button;
  }
  QVERIFY(ofAttention != nullptr);
  QTest::mouseClick(ofAttention, Qt::LeftButton);
  QVERIFY(waitUntilIdle(heads.document));
  QVERIFY(gallery.quantity() == Quantity::attention);
  QVERIFY(colourAt(gallery, place.bottomLeft() + QPoint(4, -4)) != QColor(bright.red, bright.green, bright.blue));
  // The order of a number, the largest first.
  gallery.setOrder(HeadQuantity::entropy);
  QCOMPARE(gallery.heads().size(), std::size_t{32});
  for (std::size_t index = 1; index < gallery.heads().size(); ++index) {
    QVERIFY(heads.table.value(gallery.heads()[index - 1], HeadQuantity::entropy) >=
            heads.table.value(gallery.heads()[index], HeadQuantity::entropy));
  }
  // A click and the keys choose.
  QTest::mouseClick(&gallery, Qt::LeftButton, {}, gallery.cell(gallery.heads()[4]).center());
  QVERIFY(heads.document.runs().selection().head() == gallery.heads()[4]);
  QTest::keyClick(&gallery, Qt::Key_Right);
  QVERIFY(heads.document.runs().selection().head() == gallery.heads()[5]);
  QTest::keyClick(&gallery, Qt::Key_Up);
  QVERIFY(gallery.cell(heads.document.runs().selection().head()).top() < gallery.cell(gallery.heads()[5]).top());
  // Only heads of a label.
  const auto label = representativeLabel(heads.table);
  QVERIFY(label);
  heads.view.setLabel(label);
  QVERIFY(gallery.heads().size() < 32 && !gallery.heads().empty());
  for (const HeadChoice& one : gallery.heads()) {
    const auto labels = heads.table.labels(one);
    QVERIFY(std::find(labels.begin(), labels.end(), *label) != labels.end());
  }
  const QJsonObject state = heads.view.saveState();
  QCOMPARE(state["pictures"].toString(), "attention");
  heads.view.restoreState({});
  QVERIFY(gallery.quantity() == Quantity::forget);
  heads.view.restoreState(state);
  QVERIFY(gallery.quantity() == Quantity::attention);
  QVERIFY(heads.view.label() == label);
}

void HeadsTest::smallPicturesOfForgetMatrices() {
  Heads heads;
  QVERIFY(heads.run(64));
  heads.view.setColouring({HeadColouring::Kind::forgetPicture, HeadQuantity::rateDecayTime, kNoRun});
  QVERIFY(waitUntilIdle(heads.document));
  HeadGrid& grid = heads.view.grid();
  // Without a gate F is 1 everywhere below the diagonal: the brightest colour.
  const QRect cell = grid.cell({heads.document.runs()[1].id, 2, 2});
  const figure::Rgb bright = figure::colourAt(figure::viridis(), 1);
  QCOMPARE(colourAt(grid, cell.topLeft() + QPoint(3, cell.height() - 6)),
           QColor(bright.red, bright.green, bright.blue));
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

void HeadsTest::hiddenRunsAreNeitherListedNorPictured() {
  Heads heads;
  QVERIFY(heads.run(64));
  const RunId fox = heads.document.runs()[0].id;
  const RunId transformer = heads.document.runs()[1].id;
  auto* listed = heads.view.findChild<QComboBox*>("", Qt::FindChildrenRecursively);
  for (auto* box : heads.view.findChildren<QComboBox*>()) {
    if (box->accessibleName() == "Run") listed = box;
  }
  const auto hide = [&](std::size_t row, bool hidden) {
    RunLook look = heads.document.runs().lookOf(heads.document.runs().listRows()[row]);
    look.hidden = hidden;
    heads.document.runs().setLook(heads.document.runs().listRows()[row], look);
  };
  // The gallery lists the Transformer while the chosen head is of the other model.
  heads.view.setTab(HeadsView::Tab::pictures);
  listed->setCurrentIndex(1);
  QCOMPARE(heads.table.run(), transformer);
  QVERIFY(heads.document.runs().selection().head().run == fox);
  hide(1, true);
  QCOMPARE(listed->count(), 1);
  QVERIFY(!listed->isVisible());
  QCOMPARE(heads.table.run(), fox);
  QCOMPARE(heads.view.gallery().heads().size(), 32U);
  QVERIFY(heads.view.gallery().heads()[0].run == fox);
  hide(1, false);
  QCOMPARE(listed->count(), 2);
  // All of them: nothing is listed, in no tab.
  hide(0, true);
  hide(1, true);
  QVERIFY(heads.view.gallery().heads().empty());
  QCOMPARE(heads.view.findChild<QTableView*>()->model()->rowCount(), 0);
  QVERIFY(heads.view.grid().cell({fox, 0, 0}).isEmpty());
  hide(0, false);
  QCOMPARE(heads.view.gallery().heads().size(), 32U);
  QCOMPARE(heads.view.findChild<QTableView*>()->model()->rowCount(), 32);
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

/// Heads of made-up runs.
struct FileHeads {
  Folder folder;
  Document document;
  HeadTable table{document.runs()};
  HeadsView view{document.runs(), document.modelRuns(), table};
  int files = 0;

  bool open(const foxscope::test::SyntheticRun& run) {
    const QString path = folder.path(QStringLiteral("run%1.h5").arg(++files));
    const std::shared_ptr<const Trace> traces[] = {foxscope::test::make_trace(run)};
    write_run_file(path.toStdString(), traces, {"test", ""}, Overwrite::force, {});
    document.open({path});
    return QTest::qWaitFor([&] { return table.known() == table.total() && table.total() > 0 && !document.busy(); },
                           60'000);
  }
};

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

void HeadsTest::layersOfSeveralKindsHaveAStripEach() {
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
    const figure::Rgb wanted = figure::layerKind(info, layer).colour;
    QCOMPARE(colourAt(grid, {first.left() - 6, first.center().y()}), QColor(wanted.red, wanted.green, wanted.blue));
  }
  // Windows that layers do not share make two kinds.
  foxscope::test::SyntheticRun windows;
  windows.window_sizes = {8, 0};
  const TraceInfo windowed = foxscope::test::make_trace(windows)->info();
  QCOMPARE(figure::kindsOf(windowed).size(), std::size_t{2});
  QCOMPARE(figure::kindsOf(windowed).front().words, std::string("attention, window of 8"));
  QVERIFY(!(figure::layerKind(windowed, 0).colour == figure::layerKind(windowed, 1).colour));
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
void HeadsTest::layersWithoutHeadsArePassedOver() {
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
void HeadsTest::ofMambaEveryNthChannelIsShown() {
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

void HeadsTest::manyHeadsAreAllSeenHoveredAndChosen_data() {
  QTest::addColumn<int>("layers");
  QTest::addColumn<int>("across");
  QTest::newRow("24 x 24") << 24 << 24;
  QTest::newRow("32 x 64") << 32 << 64;
}

// The papers' 760M model has 24 x 24 heads: a dock of the first width shows them all.
void HeadsTest::manyHeadsAreAllSeenHoveredAndChosen() {
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

void HeadsTest::aShareIsLinearFromNoneToAll() {
  const HeadColours colours({HeadColouring::Kind::quantity, HeadQuantity::pinnedForget, kNoRun}, {1e-6, 0.001, 0.22});
  QVERIFY(!colours.logarithmic());
  QCOMPARE(colours.lower(), 0);
  QCOMPARE(colours.upper(), 1);
  for (const double value : {0.0, 0.001, 0.22, 0.5, 1.0}) {
    const figure::Rgb expected = figure::colourAt(figure::viridis(), value);
    QCOMPARE(colours.colour(value), QColor(expected.red, expected.green, expected.blue));
  }
  QStringList labels;
  for (const auto& tick : colours.ticks()) labels += tick.text;
  labels.sort();
  QCOMPARE(labels, (QStringList{"0", "0.5", "1"}));
}

void HeadsTest::legendsWritePowersOfTen() {
  const HeadColours colours({HeadColouring::Kind::quantity, HeadQuantity::pinnedAttention, kNoRun}, {1e-8, 1});
  QStringList labels;
  for (const auto& tick : colours.ticks()) labels += tick.text;
  QCOMPARE(labels, (QStringList{"10⁻⁶", "10⁻⁵", "0.0001", "0.001", "0.01", "0.1", "1"}));
  const HeadColours times({HeadColouring::Kind::quantity, HeadQuantity::rateDecayTime, kNoRun}, {2.5e-5, 2.6e-5});
  for (const auto& tick : times.ticks()) QVERIFY2(!tick.text.contains('e'), qPrintable(tick.text));
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

void HeadsTest::aLongLegendWraps() {
  HeadLegend legend;
  const HeadColours colours({HeadColouring::Kind::quantity, HeadQuantity::rateDecayTime, kNoRun}, {1, 100});
  legend.resize(160, 60);
  legend.show(colours, "decay time");
  const int one = legend.sizeHint().height();
  const QString title =
      "distance of 50 % of A (tokens), a-model-of-a-long-name − nearest of another-model-of-a-long-name";
  legend.show(colours, title);
  const QRect needed = legend.fontMetrics().boundingRect(QRect(0, 0, 160, 10'000), Qt::TextWordWrap, title);
  QVERIFY(needed.height() > 2 * legend.fontMetrics().height());
  QVERIFY(legend.sizeHint().height() - one >= needed.height() - legend.fontMetrics().height());
  legend.hideScale(title + title);
  QVERIFY(legend.sizeHint().height() > needed.height());
}

void HeadsTest::differencesDoNotGlareOnDarkGround() {
  const HeadColouring difference{HeadColouring::Kind::difference, HeadQuantity::entropy, 0};
  const std::vector<double> values{-1, 3};
  const HeadColours dark(difference, values, divergingColours(darkPalette()));
  QVERIFY(dark.colour(0).lightnessF() < 0.25F);
  QVERIFY(dark.colour(-3).lightnessF() > 0.6F && dark.colour(3).lightnessF() > 0.6F);
  QVERIFY(dark.colour(-3).blue() > dark.colour(-3).red() && dark.colour(3).red() > dark.colour(3).blue());
  QCOMPARE(HeadColours(difference, values, divergingColours(lightPalette())).colour(0), QColor(Qt::white));
}

void HeadsTest::pinsAndRunsNeverShareAColour_data() {
  QTest::addColumn<QPalette>("palette");
  QTest::newRow("light") << lightPalette();
  QTest::newRow("dark") << darkPalette();
}

namespace {

/// CIE 1976 L*a*b* of an sRGB colour, under D65.
std::array<double, 3> labOf(const QColor& colour) {
  const auto linear = [](int byte) {
    const double part = byte / 255.0;
    return part <= 0.04045 ? part / 12.92 : std::pow((part + 0.055) / 1.055, 2.4);
  };
  const double red = linear(colour.red());
  const double green = linear(colour.green());
  const double blue = linear(colour.blue());
  const auto root = [](double value) { return value > 0.008856 ? std::cbrt(value) : 7.787 * value + 16.0 / 116; };
  const double x = root((0.4124564 * red + 0.3575761 * green + 0.1804375 * blue) / 0.95047);
  const double y = root(0.2126729 * red + 0.7151522 * green + 0.0721750 * blue);
  const double z = root((0.0193339 * red + 0.1191920 * green + 0.9503041 * blue) / 1.08883);
  return {116 * y - 16, 500 * (x - y), 200 * (y - z)};
}

double apart(const QColor& a, const QColor& b) {
  const auto one = labOf(a);
  const auto other = labOf(b);
  return std::hypot(one[0] - other[0], one[1] - other[1], one[2] - other[2]);
}

}  // namespace

void HeadsTest::pinsAndRunsNeverShareAColour() {
  QFETCH(QPalette, palette);
  constexpr double kLeast = 20;  // CIE76
  const QColor query = pinnedQueryColour(palette);
  const QColor key = pinnedKeyColour(palette);
  QVERIFY(apart(query, key) >= kLeast);
  for (int run = 0; run < figure::kCurveColours; ++run) {
    for (const QColor& pin : {query, key}) {
      const double difference = apart(pin, runColour(run, palette));
      QVERIFY2(difference >= kLeast, qPrintable(QString("%1 of run %2: %3").arg(pin.name()).arg(run).arg(difference)));
    }
  }
}

}  // namespace foxscope::gui::test

FOXSCOPE_GUI_SUBJECT(heads, foxscope::gui::test::HeadsTest)
#include "backend/base/index.h"
#include "heads_test.moc"
