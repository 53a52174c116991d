#include "app/gui/comparison/difference_table.h"

#include <QHeaderView>

#include "app/gui/document/number_text.h"
#include "app/gui/views/estimate_text.h"

namespace foxscope::gui {

DifferenceTable::DifferenceTable(const QString& title, QWidget* parent)
    : QTableWidget(0, kColumns, parent), m_title(title) {
  setAccessibleName(tr("Tokens that the first model predicts %1").arg(title));
  setToolTip(tr("A click pins the position that predicts the token"));
  setEditTriggers(QAbstractItemView::NoEditTriggers);
  setSelectionMode(QAbstractItemView::SingleSelection);
  setSelectionBehavior(QAbstractItemView::SelectRows);
  setShowGrid(false);
  setWordWrap(false);
  setTextElideMode(Qt::ElideLeft);
  setTabKeyNavigation(false);
  verticalHeader()->hide();
  verticalHeader()->setDefaultSectionSize(fontMetrics().height() + 4);
  horizontalHeader()->setHighlightSections(false);
  horizontalHeader()->setMinimumSectionSize(0);
  horizontalHeader()->setSectionResizeMode(QHeaderView::ResizeToContents);
  horizontalHeader()->setSectionResizeMode(kBefore, QHeaderView::Stretch);
  horizontalHeader()->setTextElideMode(Qt::ElideRight);
  setHorizontalScrollBarPolicy(Qt::ScrollBarAlwaysOff);
  const auto go = [this](int row, int /*column*/) {
    const QTableWidgetItem* cell = item(row, kToken);
    if (cell != nullptr) emit positionChosen(cell->data(Qt::UserRole).toLongLong());
  };
  connect(this, &QTableWidget::cellClicked, this, go);
  connect(this, &QTableWidget::cellActivated, this, go);
}

// Where there is little room the words before a token go first, then the two losses.
void DifferenceTable::resizeEvent(QResizeEvent* event) {
  QTableWidget::resizeEvent(event);
  const int letter = fontMetrics().averageCharWidth();
  constexpr int kRoomy = 52;   // letters
  constexpr int kNarrow = 26;  // letters
  for (const Column column : {kLoss, kMinus}) setColumnHidden(column, width() < kRoomy * letter);
  setColumnHidden(kBefore, width() < kNarrow * letter);
}

void DifferenceTable::setRows(const std::vector<Row>& rows, const QString& model, const QString& minus) {
  clearContents();
  constexpr qsizetype kBrief = 9;
  setHorizontalHeaderLabels({m_title, tr("token"), tr("nats"), shortened(model, kBrief), shortened(minus, kBrief)});
  for (const Column column : {kBefore, kToken}) {
    horizontalHeaderItem(column)->setTextAlignment(Qt::AlignLeft | Qt::AlignVCenter);
  }
  horizontalHeaderItem(kLoss)->setToolTip(tr("Loss of %1, nats").arg(model));
  horizontalHeaderItem(kMinus)->setToolTip(tr("Loss of %1, nats").arg(minus));
  setRowCount(static_cast<int>(rows.size()));
  int place = 0;
  for (const Row& row : rows) {
    const QString texts[kColumns] = {row.before, row.token, signedText(row.difference, 2),
                                     QString::number(row.loss, 'f', 2), QString::number(row.minus, 'f', 2)};
    for (int column = 0; column < kColumns; ++column) {
      auto* cell = new QTableWidgetItem(texts[column]);
      cell->setData(Qt::UserRole, row.position);
      if (column == kBefore) cell->setTextAlignment(Qt::AlignRight | Qt::AlignVCenter);
      if (column >= kDifference) cell->setTextAlignment(Qt::AlignRight | Qt::AlignVCenter);
      cell->setToolTip(tr("…%1 → %2, position %3").arg(row.before, row.token).arg(row.position));
      setItem(place, column, cell);
    }
    ++place;
  }
}

}  // namespace foxscope::gui
