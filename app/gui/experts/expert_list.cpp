#include "app/gui/experts/expert_list.h"

#include <cmath>
#include <limits>
#include <map>

#include <QEvent>
#include <QHeaderView>
#include <QPainter>

#include "app/figure/token_text.h"
#include "app/gui/views/expert_colours.h"
#include "app/gui/views/theme.h"

namespace foxscope::gui {
namespace {

constexpr int kShareDigits = 1;
constexpr int kWeightDigits = 3;
constexpr int kExpertRowGap = 6;  ///< logical pixels

/// A cell that is sorted by its number; what has none stands below all others.
class NumberCell : public QTableWidgetItem {
 public:
  NumberCell(const QString& text, double number) : QTableWidgetItem(text) {
    setData(Qt::UserRole, number);
    setTextAlignment(Qt::AlignRight | Qt::AlignVCenter);
  }
  bool operator<(const QTableWidgetItem& other) const override { return key(*this) < key(other); }

 private:
  static double key(const QTableWidgetItem& item) {
    const double number = item.data(Qt::UserRole).toDouble();
    return std::isnan(number) ? -std::numeric_limits<double>::infinity() : number;
  }
};

QString percent(double share) { return QString::number(100 * share, 'f', kShareDigits); }

QString mostRead(const ExpertTable& table, const ExpertUse& use) {
  QStringList tokens;
  for (const ExpertUse::Token& token : use.tokens) {
    tokens += QStringLiteral("%1 %2")
                  .arg(figure::tokenText(table.string(token), figure::Whitespace::visible))
                  .arg(static_cast<qlonglong>(token.count));
  }
  return tokens.join(QStringLiteral(",  "));
}

}  // namespace

ExpertList::ExpertList(QWidget* parent) : QTableWidget(0, kColumns, parent) {
  setAccessibleName(tr("Experts"));
  setSelectionBehavior(QAbstractItemView::SelectRows);
  setSelectionMode(QAbstractItemView::ExtendedSelection);
  setEditTriggers(QAbstractItemView::NoEditTriggers);
  setAlternatingRowColors(true);
  setTabKeyNavigation(false);
  setWordWrap(false);
  verticalHeader()->hide();
  verticalHeader()->setDefaultSectionSize(fontMetrics().height() + kExpertRowGap);
  setHorizontalHeaderLabels({tr("expert"), tr("tokens\n(%)"), tr("heaviest\n(%)"), tr("mean\nweight"),
                             tr("tokens that read it most, with their number")});
  const QString meanings[kColumns] = {
      tr("The expert's number; its colour is that of the text tinted by experts"),
      tr("The share of the tokens that read the expert"),
      tr("The share of the tokens of which it is the heaviest expert"),
      tr("The mean of what its output is multiplied by, over the tokens that read it"),
      tr("Each of these tokens with the number of times that it is read with the expert")};
  for (int column = 0; column < kColumns; ++column) horizontalHeaderItem(column)->setToolTip(meanings[column]);
  horizontalHeaderItem(kMostRead)->setTextAlignment(Qt::AlignLeft | Qt::AlignVCenter);
  horizontalHeader()->setHighlightSections(false);
  horizontalHeader()->setSectionResizeMode(QHeaderView::ResizeToContents);
  horizontalHeader()->setSectionResizeMode(kMostRead, QHeaderView::Stretch);
  setSortingEnabled(true);
  sortByColumn(kExpert, Qt::AscendingOrder);
}

void ExpertList::setTable(const ExpertTable& table) {
  setSortingEnabled(false);
  clearContents();
  setRowCount(static_cast<int>(table.experts.size()));
  std::map<int, std::int64_t> heaviest;
  int row = 0;
  for (const ExpertUse& use : table.experts) {
    heaviest[use.expert] = use.heaviest;
    setItem(row, kExpert, new NumberCell(QString::number(use.expert), use.expert));
    setItem(row, kShare, new NumberCell(percent(table.share(use)), 100 * table.share(use)));
    setItem(row, kHeaviest, new NumberCell(percent(table.heaviest_share(use)), 100 * table.heaviest_share(use)));
    const bool read = use.positions > 0;
    setItem(row, kWeight,
            new NumberCell(read ? QString::number(use.mean_weight, 'f', kWeightDigits) : QStringLiteral("–"),
                           use.mean_weight));
    setItem(row, kMostRead, new QTableWidgetItem(mostRead(table, use)));
    ++row;
  }
  m_coloured = ExpertColours::coloured(heaviest);
  showColours();
  setSortingEnabled(true);
}

void ExpertList::showColours() {
  const ExpertColours colours(palette());
  const int side = fontMetrics().ascent();
  for (int row = 0; row < rowCount(); ++row) {
    QTableWidgetItem* cell = item(row, kExpert);
    const int hue = ExpertColours::hueOf(static_cast<int>(cell->data(Qt::UserRole).toDouble()), m_coloured);
    QPixmap mark(side, side);
    mark.fill(Qt::transparent);
    if (hue < ExpertColours::kHues) {
      mark.fill(colours.at(hue, 1));
      QPainter painter(&mark);
      painter.setPen(lineColour(palette()));
      painter.drawRect(0, 0, side - 1, side - 1);
    }
    cell->setData(Qt::DecorationRole, mark);
  }
}

void ExpertList::changeEvent(QEvent* event) {
  QTableWidget::changeEvent(event);
  if (event->type() == QEvent::PaletteChange) showColours();
}

}  // namespace foxscope::gui
