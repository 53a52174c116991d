#include "app/gui/predictions/prediction_table.h"

#include <algorithm>
#include <cmath>

#include <QHeaderView>
#include <QLocale>
#include <QPainter>
#include <QStyledItemDelegate>

#include "app/gui/document/number_text.h"
#include "app/gui/views/theme.h"

namespace foxscope::gui {
namespace {

constexpr int kColourRole = Qt::UserRole + 1;
constexpr int kLengthRole = Qt::UserRole + 2;  ///< of the bar, in parts of the cell's width
constexpr int kRowGap = 4;                     ///< logical pixels
constexpr int kShareLetters = 7;
constexpr int kMostLetters = 32;  ///< of a token

/// A bar behind the number.
class BarDelegate : public QStyledItemDelegate {
 public:
  using QStyledItemDelegate::QStyledItemDelegate;

  void paint(QPainter* painter, const QStyleOptionViewItem& option, const QModelIndex& index) const override {
    const double length = index.data(kLengthRole).toDouble();
    const QRectF cell = QRectF(option.rect).adjusted(2, 2, -2, -2);
    // Numbers stand at the right, beside the longest bar.
    const double room = std::max(0.0, cell.width() - kShareLetters * option.fontMetrics.averageCharWidth());
    if (length > 0) {
      QColor colour = index.data(kColourRole).value<QColor>();
      painter->fillRect(QRectF(cell.left(), cell.top(), std::max(1.0, room * std::min(1.0, length)), cell.height()),
                        colour);
    }
    QStyledItemDelegate::paint(painter, option, index);
  }
};

/// "0.4312", "2.1e−05"
QString shareText(double p) {
  constexpr double kLeast = 1e-4;
  if (std::isnan(p)) return QStringLiteral("–");
  return p >= kLeast || p == 0 ? QString::number(p, 'f', 4)
                               : QString::number(p, 'e', 1).replace(QLatin1Char('-'), QChar(0x2212));
}

}  // namespace

PredictionTable::PredictionTable(QWidget* parent) : QTableWidget(0, kColumns, parent) {
  setEditTriggers(QAbstractItemView::NoEditTriggers);
  setSelectionMode(QAbstractItemView::SingleSelection);
  setSelectionBehavior(QAbstractItemView::SelectRows);
  setShowGrid(false);
  setWordWrap(false);
  setTabKeyNavigation(false);
  setItemDelegateForColumn(kShare, new BarDelegate(this));
  setItemDelegateForColumn(kUnchanged, new BarDelegate(this));
  verticalHeader()->hide();
  verticalHeader()->setDefaultSectionSize(fontMetrics().height() + kRowGap);
  verticalHeader()->setMinimumSectionSize(fontMetrics().height());
  QHeaderView& header = *horizontalHeader();
  header.setHighlightSections(false);
  header.setMinimumSectionSize(0);
  header.setTextElideMode(Qt::ElideRight);
  header.setSectionResizeMode(kRank, QHeaderView::ResizeToContents);
  header.setSectionResizeMode(kToken, QHeaderView::ResizeToContents);
  header.setSectionResizeMode(kShare, QHeaderView::Stretch);
  header.setSectionResizeMode(kUnchanged, QHeaderView::Stretch);
  setHorizontalScrollBarPolicy(Qt::ScrollBarAlwaysOff);
}

void PredictionTable::setRows(const std::vector<Row>& rows, const Shares& shares, double longest) {
  clearContents();
  setColumnHidden(kUnchanged, shares.unchangedTitle.isEmpty());
  setHorizontalHeaderLabels({tr("rank"), tr("token"), shares.unchangedTitle, shares.title});
  for (const Column column : {kToken, kUnchanged, kShare}) {
    horizontalHeaderItem(column)->setTextAlignment(Qt::AlignLeft | Qt::AlignVCenter);
  }
  setRowCount(static_cast<int>(rows.size()));
  const auto faded = [this](QColor colour) {
    colour.setAlphaF(isDark(palette()) ? 0.55F : 0.4F);
    return colour;
  };
  int place = 0;
  for (const Row& row : rows) {
    const auto put = [&](Column column, const QString& text) {
      auto* cell = new QTableWidgetItem(text);
      QFont font = cell->font();
      font.setBold(row.came);
      cell->setFont(font);
      if (column != kToken) cell->setTextAlignment(Qt::AlignRight | Qt::AlignVCenter);
      cell->setToolTip(row.came ? tr("%1, the token that came: p %2").arg(row.token, QString::number(row.p, 'g', 6))
                                : tr("%1: p %2").arg(row.token, QString::number(row.p, 'g', 6)));
      setItem(place, column, cell);
      return cell;
    };
    put(kRank, QLocale(QLocale::English).toString(row.rank));
    put(kToken, shortened(row.token, kMostLetters));
    const auto share = [&](Column column, double p, const QColor& colour) {
      QTableWidgetItem* cell = put(column, shareText(p));
      cell->setData(Qt::UserRole, p);
      cell->setData(kColourRole, faded(colour));
      cell->setData(kLengthRole, std::isnan(p) || longest <= 0 ? 0.0 : p / longest);
    };
    share(kUnchanged, row.unchanged, shares.unchanged);
    share(kShare, row.p, shares.own);
    ++place;
  }
}

}  // namespace foxscope::gui
