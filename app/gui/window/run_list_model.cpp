#include "app/gui/window/run_list_model.h"

#include <algorithm>

#include <QFont>
#include <QGuiApplication>
#include <QMimeData>
#include <QPalette>

#include "app/gui/document/runs/intervention_text.h"
#include "app/gui/views/icon.h"
#include "app/gui/views/theme.h"
#include "backend/base/index.h"

namespace foxscope::gui {
namespace {

constexpr int kListMark = 12;  // pixels of a row's colour
const QString kRowType = QStringLiteral("application/x-foxscope-run-row");

bool same(const ListRow& a, const ListRow& b) { return a.run == b.run && a.model == b.model; }

}  // namespace

RunListModel::RunListModel(RunList& runs, QObject* parent)
    : QAbstractTableModel(parent), m_runs(runs), m_rows(runs.listRows()) {
  connect(&m_runs, &RunList::runsChanged, this, &RunListModel::follow);
  connect(&m_runs, &RunList::modelsChanged, this, &RunListModel::follow);
  connect(&m_runs, &RunList::referenceChanged, this, &RunListModel::follow);
  connect(&m_runs.selection(), &Selection::headChanged, this, &RunListModel::follow);
}

// Where the rows are the same an editor that is open stays.
void RunListModel::follow() {
  std::vector<ListRow> rows = m_runs.listRows();
  if (std::equal(rows.begin(), rows.end(), m_rows.begin(), m_rows.end(), same)) {
    if (!rows.empty()) emit dataChanged(index(0, 0), index(rowCount() - 1, kColumns - 1));
    return;
  }
  beginResetModel();
  m_rows = std::move(rows);
  endResetModel();
}

ListRow RunListModel::row(const QModelIndex& index) const { return m_rows[index_of(index.row())]; }

int RunListModel::placeOf(const ListRow& row) const {
  const auto found = std::find_if(m_rows.begin(), m_rows.end(), [&](const ListRow& each) {
    return row.run != kNoRun ? each.run == row.run : same(each, row);
  });
  return found == m_rows.end() ? -1 : static_cast<int>(found - m_rows.begin());
}

int RunListModel::rowCount(const QModelIndex& parent) const {
  return parent.isValid() ? 0 : static_cast<int>(m_rows.size());
}

int RunListModel::columnCount(const QModelIndex& parent) const { return parent.isValid() ? 0 : kColumns; }

QVariant RunListModel::iconOf(const ListRow& row, int column) const {
  const RunLook& look = m_runs.lookOf(row);
  switch (column) {
    case kMark:
      return runMark(look.colour, look.change, kListMark, QGuiApplication::palette());
    case kShown:
      return row.run == kNoRun ? QVariant() : themedIcon(look.hidden ? "hidden" : "eye");
    case kAbout:
      return themedIcon(QStringLiteral("about"));
    case kRemove:
      return themedIcon(QStringLiteral("remove"));
    default:
      return {};
  }
}

QString RunListModel::tipOf(const ListRow& row, int column) const {
  const QString name = m_runs.nameOf(row);
  switch (column) {
    case kMark:
      return tr("Colour of %1 in curves and figures: click to choose another").arg(name);
    case kShown:
      if (row.run == kNoRun) return {};
      return m_runs.lookOf(row).hidden ? tr("Show %1 in curves and comparisons again (Space)").arg(name)
                                       : tr("Leave %1 out of curves and comparisons (Space)").arg(name);
    case kAbout:
      return tr("Details of %1 (I)").arg(name);
    case kRemove:
      return tr("Remove %1 from the window (Delete; Ctrl+Z brings it back)").arg(name);
    default:
      break;
  }
  QStringList lines{name};
  const Run* run = m_runs.run(row.run);
  const ModelInput* model = row.model ? &m_runs.models()[index_of(*row.model)] : nullptr;
  if (model != nullptr) lines += model->path;
  if (run != nullptr && !run->file.isEmpty()) lines += run->file;
  if (model != nullptr) {
    for (const QString& change : model->interventions) lines += interventionText(change);
  }
  if (run == nullptr) lines += tr("has not run yet (F5)");
  if (run != nullptr && !m_runs.isOnText(run->id)) lines += tr("read another text than the run that is shown");
  lines += tr("Double click or F2 renames; drag or Alt+Up, Alt+Down moves");
  return lines.join('\n');
}

QVariant RunListModel::data(const QModelIndex& index, int role) const {
  if (!index.isValid()) return {};
  const ListRow row = this->row(index);
  switch (role) {
    case Qt::DisplayRole:
    case Qt::EditRole:
      return index.column() == kName ? m_runs.nameOf(row) : QVariant();
    case Qt::AccessibleTextRole:
      return index.column() == kName ? m_runs.nameOf(row) : tipOf(row, index.column());
    case Qt::DecorationRole:
      return iconOf(row, index.column());
    case Qt::ToolTipRole:
      return tipOf(row, index.column());
    case Qt::ForegroundRole:
      if (row.run != kNoRun && !m_runs.lookOf(row).hidden) return {};
      return QGuiApplication::palette().color(QPalette::Disabled, QPalette::Text);
    case Qt::FontRole: {
      if (row.run == kNoRun || row.run != m_runs.selection().head().run) return {};
      QFont font = QGuiApplication::font();
      font.setBold(true);
      return font;
    }
    default:
      return {};
  }
}

bool RunListModel::setData(const QModelIndex& index, const QVariant& value, int role) {
  if (role != Qt::EditRole || index.column() != kName) return false;
  RunLook look = m_runs.lookOf(row(index));
  const QString name = value.toString().simplified();
  if (name == m_runs.nameOf(row(index))) return true;
  look.label = name;
  m_runs.setLook(row(index), look);
  return true;
}

Qt::ItemFlags RunListModel::flags(const QModelIndex& index) const {
  if (!index.isValid()) return Qt::ItemIsDropEnabled;
  Qt::ItemFlags flags = Qt::ItemIsEnabled | Qt::ItemIsSelectable | Qt::ItemIsDragEnabled;
  flags.setFlag(Qt::ItemIsEditable, index.column() == kName);
  return flags;
}

QStringList RunListModel::mimeTypes() const { return {kRowType}; }

QMimeData* RunListModel::mimeData(const QModelIndexList& indexes) const {
  auto* data = new QMimeData;
  data->setData(kRowType, QByteArray::number(indexes.front().row()));
  return data;
}

bool RunListModel::dropMimeData(const QMimeData* data, Qt::DropAction /*action*/, int row, int /*column*/,
                                const QModelIndex& parent) {
  if (!data->hasFormat(kRowType)) return false;
  const int from = data->data(kRowType).toInt();
  // Dropped on a row it takes that row's place; between two, the place there.
  int to = parent.isValid() ? parent.row() : row >= 0 ? row : rowCount();
  if (!parent.isValid() && to > from) --to;
  // Later, as the view still holds the row that it drags.
  QMetaObject::invokeMethod(
      this, [this, from, to] { m_runs.moveRow(from, to); }, Qt::QueuedConnection);
  return true;
}

}  // namespace foxscope::gui
