#pragma once

#include <QString>

class QMimeData;
class QTableView;

namespace foxscope::gui {

enum class Rows { selected, all };

/// Rows of a table as tab-separated values with a line of titles: columns in the order that is seen, numbers at full
/// precision where the model has them (a double for Qt::UserRole). All rows where none is selected.
QString tsvOf(const QTableView& table, Rows rows);

/// CSV as tab-separated values; tabs and line ends inside a field become spaces.
QString tsvOf(const QString& csv);

/// The text of one clipboard entry, as plain text and as a table.
void setTableText(QMimeData& copy, const QString& tsv);

}  // namespace foxscope::gui
