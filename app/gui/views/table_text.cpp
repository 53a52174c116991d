#include "app/gui/views/table_text.h"

#include <cmath>

#include <QHeaderView>
#include <QMimeData>
#include <QTableView>

namespace foxscope::gui {
namespace {

constexpr int kExactDigits = 9;

QString inOneCell(QString text) {
  for (QChar& letter : text) {
    if (letter == QLatin1Char('\t') || letter == QLatin1Char('\n') || letter == QLatin1Char('\r'))
      letter = QLatin1Char(' ');
  }
  return text;
}

QString cellText(const QModelIndex& cell) {
  const QVariant number = cell.data(Qt::UserRole);
  if (number.typeId() != QMetaType::Double) return inOneCell(cell.data().toString());
  const double value = number.toDouble();
  return std::isnan(value) ? QString() : QString::number(value, 'g', kExactDigits);
}

/// The column's title in full, where the table shows it shortened.
QString titleOf(const QAbstractItemModel& model, int column) {
  const QVariant full = model.headerData(column, Qt::Horizontal, Qt::AccessibleTextRole);
  return inOneCell((full.isValid() ? full : model.headerData(column, Qt::Horizontal)).toString());
}

}  // namespace

QString tsvOf(const QTableView& table, Rows rows) {
  const QAbstractItemModel& model = *table.model();
  const QHeaderView& header = *table.horizontalHeader();
  const bool chosen = rows == Rows::selected && table.selectionModel()->hasSelection();
  QString tsv;
  // Row -1 is that of the titles.
  for (int row = -1; row < model.rowCount(); ++row) {
    if (row >= 0 && chosen && !table.selectionModel()->rowIntersectsSelection(row)) continue;
    QStringList cells;
    for (int place = 0; place < header.count(); ++place) {
      const int column = header.logicalIndex(place);
      if (header.isSectionHidden(column)) continue;
      cells += row < 0 ? titleOf(model, column) : cellText(model.index(row, column));
    }
    tsv += cells.join(QLatin1Char('\t')) + QLatin1Char('\n');
  }
  return tsv;
}

QString tsvOf(const QString& csv) {
  QString tsv;
  tsv.reserve(csv.size());
  bool quoted = false;
  for (qsizetype place = 0; place < csv.size(); ++place) {
    const QChar letter = csv[place];
    if (letter == QLatin1Char('"')) {
      const bool doubled = quoted && place + 1 < csv.size() && csv[place + 1] == letter;
      if (doubled) {
        tsv += letter;
        ++place;
      } else {
        quoted = !quoted;
      }
    } else if (quoted) {
      tsv += inOneCell(letter);
    } else {
      tsv += letter == QLatin1Char(',') ? QChar(QLatin1Char('\t')) : letter;
    }
  }
  return tsv;
}

void setTableText(QMimeData& copy, const QString& tsv) {
  copy.setText(tsv);
  copy.setData(QStringLiteral("text/tab-separated-values"), tsv.toUtf8());
}

}  // namespace foxscope::gui
