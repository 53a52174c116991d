#include "app/gui/window/remote/folder_model.h"

#include <QDateTime>
#include <QIcon>
#include <QLocale>

#include "app/gui/views/icon.h"
#include "backend/base/index.h"
#include "backend/eval/atlas/atlas_file.h"
#include "backend/eval/heads/heads_file.h"
#include "backend/eval/loss/loss_file.h"
#include "backend/eval/needle/needle_file.h"
#include "backend/eval/sweep/sweep_file.h"

namespace foxscope::gui {
namespace {

bool isFolderKind(const std::string& kind) { return kind == "folder"; }

QString iconOfContent(const std::string& kind, const std::string& holds) {
  if (holds == "runs") return QStringLiteral("runfile");
  if (holds == "checkpoint") return QStringLiteral("model");
  if (holds == "training") return QStringLiteral("training");
  if (holds == "text") return QStringLiteral("text");
  if (isFolderKind(kind)) return QStringLiteral("file");
  return isOpened(kind, holds) ? QStringLiteral("evaluation") : QStringLiteral("other");
}

}  // namespace

QString wordsOfContent(const std::string& kind, const std::string& holds) {
  const auto words = [](const char* text) { return FolderModel::tr(text); };
  if (holds == "runs") return words("run file");
  if (holds == "checkpoint") return words("model");
  if (holds == "training") return words("training");
  if (holds == "text") return words("text");
  if (holds == "maps") return words("file of maps");
  if (holds == kLossContent) return words("evaluation: loss");
  if (holds == kNeedleContent) return words("evaluation: needle");
  if (holds == kEvalHeadsContent || holds == kHeadsContent) return words("evaluation: heads");
  if (holds == kSweepContent) return words("sweep over heads");
  if (holds == kAtlasContent) return words("atlas of heads");
  return isFolderKind(kind) ? words("folder") : QString();
}

bool isOpened(const std::string& /*kind*/, const std::string& holds) {
  return holds == "runs" || holds == "checkpoint" || holds == "training" || holds == "text" || holds == kLossContent ||
         holds == kNeedleContent || holds == kEvalHeadsContent || holds == kHeadsContent || holds == kSweepContent ||
         holds == kAtlasContent;
}

void FolderModel::setFolder(const agent::FolderList& list) {
  beginResetModel();
  m_list = list;
  endResetModel();
}

QString FolderModel::name(int row) const { return QString::fromStdString(m_list.names[index_of(row)]); }
bool FolderModel::isFolder(int row) const { return isFolderKind(m_list.kinds[index_of(row)]); }
std::string FolderModel::holds(int row) const { return m_list.holds[index_of(row)]; }

int FolderModel::rowCount(const QModelIndex& parent) const {
  return parent.isValid() ? 0 : static_cast<int>(m_list.names.size());
}

int FolderModel::columnCount(const QModelIndex& parent) const { return parent.isValid() ? 0 : kColumns; }

QVariant FolderModel::data(const QModelIndex& index, int role) const {
  if (!index.isValid()) return {};
  const std::size_t row = index_of(index.row());
  const std::string& kind = m_list.kinds[row];
  const std::string& holds = m_list.holds[row];
  if (role == kIsFolderRole) return isFolderKind(kind);
  if (role == kIsOpenedRole) return isFolderKind(kind) || isOpened(kind, holds);
  if (role == Qt::ToolTipRole) return name(index.row());
  if (role == Qt::TextAlignmentRole && index.column() == kSize) return int(Qt::AlignRight | Qt::AlignVCenter);
  if (role == Qt::DecorationRole && index.column() == kName) return themedIcon(iconOfContent(kind, holds));
  if (role != Qt::DisplayRole && role != kSortRole) return {};
  const bool sorts = role == kSortRole;
  const auto bytes = static_cast<qint64>(m_list.bytes[row]);
  const auto modified = static_cast<qint64>(m_list.modified[row]);
  switch (index.column()) {
    case kName:
      return sorts ? name(index.row()).toLower() : name(index.row());
    case kWhat:
      return wordsOfContent(kind, holds);
    case kSize:
      if (sorts) return bytes;
      return isFolderKind(kind) ? QString() : QLocale().formattedDataSize(bytes, 1, QLocale::DataSizeSIFormat);
    case kDate:
      if (sorts) return modified;
      return QDateTime::fromSecsSinceEpoch(modified).toString(QStringLiteral("yyyy-MM-dd hh:mm"));
    default:
      return {};
  }
}

QVariant FolderModel::headerData(int section, Qt::Orientation orientation, int role) const {
  if (orientation != Qt::Horizontal) return {};
  if (role == Qt::TextAlignmentRole) return int(section == kSize ? Qt::AlignRight : Qt::AlignLeft) | Qt::AlignVCenter;
  if (role != Qt::DisplayRole) return {};
  const QString titles[] = {tr("name"), tr("what it is"), tr("size"), tr("changed")};
  return titles[section];
}

void FolderRows::showAll(bool all) {
  m_all = all;
  invalidateFilter();
}

bool FolderRows::lessThan(const QModelIndex& left, const QModelIndex& right) const {
  const bool leftFolder = left.data(FolderModel::kIsFolderRole).toBool();
  const bool rightFolder = right.data(FolderModel::kIsFolderRole).toBool();
  if (leftFolder != rightFolder) return leftFolder == (sortOrder() == Qt::AscendingOrder);
  const QVariant leftKey = left.data(FolderModel::kSortRole);
  const QVariant rightKey = right.data(FolderModel::kSortRole);
  if (leftKey.typeId() == QMetaType::LongLong) return leftKey.toLongLong() < rightKey.toLongLong();
  return leftKey.toString() < rightKey.toString();
}

// Names that begin with a dot are hidden, as everywhere.
bool FolderRows::filterAcceptsRow(int row, const QModelIndex& parent) const {
  const QModelIndex index = sourceModel()->index(row, FolderModel::kName, parent);
  if (m_all) return true;
  return index.data(FolderModel::kIsOpenedRole).toBool() && !index.data().toString().startsWith('.');
}

}  // namespace foxscope::gui
