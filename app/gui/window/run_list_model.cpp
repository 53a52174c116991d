#include "app/gui/window/run_list_model.h"

#include <algorithm>

#include <QFont>
#include <QGuiApplication>
#include <QLocale>
#include <QMimeData>
#include <QPalette>

#include "app/gui/document/number_text.h"
#include "app/gui/document/remote/remote_place.h"
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

RunListModel::RunListModel(RunList& runs, const RunNumbers& numbers, QObject* parent)
    : QAbstractTableModel(parent), m_runs(runs), m_numbers(numbers), m_rows(runs.listRows()) {
  connect(&m_numbers, &RunNumbers::changed, this, &RunListModel::follow);
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
  const QString numbers = m_numbers.textOf(row.run);
  if (!numbers.isEmpty()) lines += numbers;
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

QString RunListModel::numberText(RunId run, int column) const {
  const RunNumber* number = m_numbers.of(run);
  if (number == nullptr) return {};
  switch (column) {
    case kLoss:
      return number->loss ? lossText(*number->loss) : QString();
    case kTokens:
      return QLocale().toString(static_cast<qlonglong>(number->tokens));
    case kParameters:
      return number->parameters > 0 ? parametersText(number->parameters) : QString();
    case kSeconds:
      return number->seconds > 0 ? QString::number(number->seconds, 'f', 1) : QString();
    default:
      return {};
  }
}

QVariant RunListModel::headerData(int section, Qt::Orientation orientation, int role) const {
  if (orientation != Qt::Horizontal) return {};
  struct Title {
    int column;
    QString words;
    QString tip;
  };
  const Title titles[] = {{kName, tr("run"), tr("Name")},
                          {kLoss, tr("loss"), tr("Mean loss ± standard error, nats a token")},
                          {kTokens, tr("tokens"), tr("Tokens that were read")},
                          {kParameters, tr("param."), tr("Parameters of the model")},
                          {kSeconds, tr("s"), tr("Seconds of the forward pass")}};
  for (const Title& title : titles) {
    if (title.column != section) continue;
    if (role == Qt::DisplayRole) return title.words;
    if (role == Qt::ToolTipRole)
      return tr("%1. A click sorts the runs by it, another one the other way").arg(title.tip);
    if (role == Qt::TextAlignmentRole) return int(section == kName ? Qt::AlignLeft : Qt::AlignRight) | Qt::AlignVCenter;
  }
  return {};
}

void RunListModel::sort(int column, Qt::SortOrder order) {
  struct Keyed {
    RunId run;
    std::optional<double> number;
    QString name;
  };
  std::vector<Keyed> keyed;
  for (const Run& run : m_runs) {
    const RunNumber* number = m_numbers.of(run.id);
    Keyed key{run.id, {}, run.name};
    if (number != nullptr && column == kLoss && number->loss) key.number = number->loss->value;
    if (number != nullptr && column == kTokens) key.number = static_cast<double>(number->tokens);
    if (number != nullptr && column == kParameters && number->parameters > 0)
      key.number = static_cast<double>(number->parameters);
    if (number != nullptr && column == kSeconds && number->seconds > 0) key.number = number->seconds;
    keyed.push_back(key);
  }
  const bool down = order == Qt::DescendingOrder;
  std::ranges::stable_sort(keyed, [&](const Keyed& a, const Keyed& b) {
    if (column == kName) return down ? b.name < a.name : a.name < b.name;
    if (!a.number || !b.number) return a.number.has_value() && !b.number.has_value();
    return down ? *b.number < *a.number : *a.number < *b.number;
  });
  std::vector<RunId> runs;
  for (const Keyed& key : keyed) runs.push_back(key.run);
  m_runs.sortRuns(runs, tr("sort the runs by %1").arg(headerData(column, Qt::Horizontal, Qt::DisplayRole).toString()));
}

QVariant RunListModel::data(const QModelIndex& index, int role) const {
  if (!index.isValid()) return {};
  const ListRow row = this->row(index);
  switch (role) {
    case Qt::DisplayRole:
    case Qt::EditRole:
      if (index.column() >= kLoss && index.column() <= kSeconds) return numberText(row.run, index.column());
      return index.column() == kName ? m_runs.nameOf(row) : QVariant();
    case Qt::TextAlignmentRole:
      return int(index.column() == kName ? Qt::AlignLeft : Qt::AlignRight) | Qt::AlignVCenter;
    case Qt::AccessibleTextRole:
      if (index.column() >= kLoss && index.column() <= kSeconds) return numberText(row.run, index.column()).trimmed();
      return index.column() == kName ? m_runs.nameOf(row) : tipOf(row, index.column());
    case kHostRole: {
      const Run* run = m_runs.run(row.run);
      return run != nullptr ? run->host : hostOf(m_runs.models()[index_of(*row.model)].path);
    }
    case Qt::DecorationRole:
      return iconOf(row, index.column());
    case Qt::ToolTipRole:
      return tipOf(row, index.column());
    case Qt::ForegroundRole:
      if (row.run != kNoRun && !m_runs.lookOf(row).hidden) return {};
      return QGuiApplication::palette().color(QPalette::Disabled, QPalette::Text);
    case Qt::FontRole: {
      const RunNumber* number = m_numbers.of(row.run);
      const bool best = index.column() == kLoss && number != nullptr && number->best;
      const bool chosen = index.column() == kName && row.run == m_runs.selection().head().run;
      if (row.run == kNoRun || !(best || chosen)) return {};
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
