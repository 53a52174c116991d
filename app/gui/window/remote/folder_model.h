#pragma once

#include <vector>

#include <QAbstractTableModel>
#include <QSortFilterProxyModel>
#include <QString>

#include "backend/agent/file_reference.h"

namespace foxscope::gui {

/// The kind of a file or folder, for people: "run file", "model", "training", "folder".
QString wordsOfContent(const std::string& kind, const std::string& holds);
/// Whether the window opens it; a folder that is no model and no training is entered instead.
bool isOpened(const std::string& kind, const std::string& holds);

/// A folder of another machine as a table: name, what it is, size, date.
class FolderModel : public QAbstractTableModel {
  Q_OBJECT

 public:
  enum Column { kName, kWhat, kSize, kDate, kColumns };
  /// By which rows are sorted, folders first.
  static constexpr int kSortRole = Qt::UserRole;
  static constexpr int kIsFolderRole = Qt::UserRole + 1;
  static constexpr int kIsOpenedRole = Qt::UserRole + 2;  ///< or a folder

  using QAbstractTableModel::QAbstractTableModel;
  void setFolder(const agent::FolderList& list);
  [[nodiscard]] QString name(int row) const;
  [[nodiscard]] bool isFolder(int row) const;
  /// Its content, as FileFacts::holds.
  [[nodiscard]] std::string holds(int row) const;

  [[nodiscard]] int rowCount(const QModelIndex& parent = {}) const override;
  [[nodiscard]] int columnCount(const QModelIndex& parent = {}) const override;
  [[nodiscard]] QVariant data(const QModelIndex& index, int role) const override;
  [[nodiscard]] QVariant headerData(int section, Qt::Orientation orientation, int role) const override;

 private:
  agent::FolderList m_list;
};

/// The same, sorted, without what the window does not know.
class FolderRows : public QSortFilterProxyModel {
  Q_OBJECT

 public:
  using QSortFilterProxyModel::QSortFilterProxyModel;
  void showAll(bool all);

 protected:
  [[nodiscard]] bool lessThan(const QModelIndex& left, const QModelIndex& right) const override;
  [[nodiscard]] bool filterAcceptsRow(int row, const QModelIndex& parent) const override;

 private:
  bool m_all = false;
};

}  // namespace foxscope::gui
