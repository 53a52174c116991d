// The list of heads with its numbers and labels.
#include <cmath>

#include <QApplication>
#include <QClipboard>
#include <QComboBox>
#include <QHeaderView>
#include <QMimeData>
#include <QTableView>
#include <QTest>

#include "app/figure/heads/head_label_colour.h"
#include "app/gui/heads/heads_view.h"
#include "app/gui/views/theme.h"
#include "tests/gui/heads/heads_shown.h"
#include "tests/gui/subject.h"

namespace foxscope::gui::test {

class HeadListTest : public QObject {
  Q_OBJECT

 private slots:
  void theTableSortsByNumbers();
  void aNarrowTableShowsItsNumbers();
  void rowsAreCopied();
  void labelsAreListedAndFiltered();
  void labelsColourTheGrid();
};

void HeadListTest::theTableSortsByNumbers() {
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

void HeadListTest::aNarrowTableShowsItsNumbers() {
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

void HeadListTest::rowsAreCopied() {
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

void HeadListTest::labelsAreListedAndFiltered() {
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

void HeadListTest::labelsColourTheGrid() {
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

}  // namespace foxscope::gui::test

FOXSCOPE_GUI_SUBJECT(head_list, foxscope::gui::test::HeadListTest)
#include "head_list_test.moc"
