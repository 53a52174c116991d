#pragma once

#include <array>
#include <memory>
#include <optional>
#include <vector>

#include <QAbstractTableModel>
#include <QString>

#include "backend/base/index.h"
#include "backend/eval/surprisal/surprisal_table.h"

namespace foxscope::gui {

/// The words of one run with what is sorted and looked for, made in a job. Immutable.
struct WordRows {
  enum Column { kWord, kSurprisal, kEntropy, kRank, kGate, kTokens, kSentence, kByte };
  static constexpr int kColumns = kByte + 1;

  Surprisals table;
  std::vector<QString> string;                       ///< [W]
  std::array<std::vector<double>, kColumns> number;  ///< [W] of each column; of kWord its place in the alphabet

  explicit WordRows(Surprisals surprisals);

  [[nodiscard]] int size() const { return static_cast<int>(table.words.size()); }
  /// Whether there is a number in a column at all: ranks need logits, gates a head that has one.
  [[nodiscard]] bool has(Column column) const;
  /// The token that a word begins in, or its first; of a word without tokens the one that holds it.
  [[nodiscard]] std::int64_t tokenOf(int word) const;
  /// The word that a token belongs to.
  [[nodiscard]] int wordOf(std::int64_t token) const;
};

/// Words as rows, sorted by any column, of those that hold some letters. The order is made of numbers alone: 65,536
/// words are sorted within a frame.
class WordTable : public QAbstractTableModel {
  Q_OBJECT

 public:
  using QAbstractTableModel::QAbstractTableModel;

  enum Role { ValueRole = Qt::UserRole };  ///< a double, NaN where there is none

  /// Rows stay where they are, and what is chosen among them, where another head's numbers leave their order.
  void setContent(std::shared_ptr<const WordRows> rows);
  [[nodiscard]] const std::shared_ptr<const WordRows>& content() const { return m_rows; }
  /// Shows words that hold these letters, whatever their case; empty: all.
  void setFilter(const QString& letters);
  void sort(int column, Qt::SortOrder order) override;

  /// The word of a row.
  [[nodiscard]] int wordAt(int row) const { return m_shown[index_of(row)]; }
  /// The row of a word; -1 where it is not listed.
  [[nodiscard]] int rowOf(int word) const;

  [[nodiscard]] int rowCount(const QModelIndex& parent = {}) const override;
  [[nodiscard]] int columnCount(const QModelIndex& parent = {}) const override;
  [[nodiscard]] QVariant data(const QModelIndex& index, int role = Qt::DisplayRole) const override;
  [[nodiscard]] QVariant headerData(int section, Qt::Orientation orientation, int role) const override;

 private:
  void arrange();

  std::shared_ptr<const WordRows> m_rows;
  QString m_filter;
  int m_column = WordRows::kByte;
  Qt::SortOrder m_order = Qt::AscendingOrder;
  std::vector<int> m_shown;  ///< words, by row
  std::vector<int> m_rowOf;  ///< rows, by word
};

}  // namespace foxscope::gui
