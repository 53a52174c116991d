#pragma once

#include <vector>

#include <QAbstractTableModel>

#include "app/gui/document/runs/run_list.h"
#include "app/gui/window/run_numbers.h"

namespace foxscope::gui {

/// The list of runs as rows: colour, name, numbers, whether it is shown, what is known of it, and a way out.
class RunListModel : public QAbstractTableModel {
  Q_OBJECT

 public:
  static constexpr int kHostRole = Qt::UserRole;  ///< the machine that it lies on; empty: this one
  enum Column { kMark, kName, kLoss, kTokens, kParameters, kSeconds, kShown, kAbout, kRemove, kColumns };

  RunListModel(RunList& runs, const RunNumbers& numbers, QObject* parent = nullptr);

  [[nodiscard]] ListRow row(const QModelIndex& index) const;
  /// Where a row stands by now; -1 if it is gone.
  [[nodiscard]] int placeOf(const ListRow& row) const;

  [[nodiscard]] int rowCount(const QModelIndex& parent = {}) const override;
  [[nodiscard]] int columnCount(const QModelIndex& parent = {}) const override;
  [[nodiscard]] QVariant data(const QModelIndex& index, int role) const override;
  [[nodiscard]] QVariant headerData(int section, Qt::Orientation orientation, int role) const override;
  /// Puts the runs of the document into the order of a column, which can be undone; rows without its number come last.
  void sort(int column, Qt::SortOrder order) override;
  /// Renames a run; an empty name restores the model's name.
  bool setData(const QModelIndex& index, const QVariant& value, int role) override;
  [[nodiscard]] Qt::ItemFlags flags(const QModelIndex& index) const override;
  [[nodiscard]] Qt::DropActions supportedDropActions() const override { return Qt::MoveAction; }
  [[nodiscard]] QStringList mimeTypes() const override;
  [[nodiscard]] QMimeData* mimeData(const QModelIndexList& indexes) const override;
  bool dropMimeData(const QMimeData* data, Qt::DropAction action, int row, int column,
                    const QModelIndex& parent) override;

 private:
  void follow();
  [[nodiscard]] QString numberText(RunId run, int column) const;
  [[nodiscard]] QVariant iconOf(const ListRow& row, int column) const;
  [[nodiscard]] QString tipOf(const ListRow& row, int column) const;

  RunList& m_runs;
  const RunNumbers& m_numbers;
  std::vector<ListRow> m_rows;
};

}  // namespace foxscope::gui
