#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <QAbstractTableModel>
#include <QString>

#include "backend/base/index.h"
#include "backend/eval/surprisal/surprisal_table.h"
#include "backend/map/statistics/expert_use.h"

namespace foxscope::gui {

/// The numbers that make the table of words, each of a run on one text, cut into words by one rule.
struct WordContent {
  /// Another shown run.
  struct Other {
    QString run;
    Surprisals table;
  };
  QString run;                             ///< name
  Surprisals table;                        ///< of the chosen head's run
  std::vector<std::string> expected = {};  ///< [T] the likeliest token in each token's place; empty: not known
  std::vector<double> share = {};          ///< [T] its p
  std::vector<ReadExpert> experts = {};    ///< [T] the heaviest of each position; empty: not known
  std::optional<int> expertLayer = {};     ///< whose they are
  std::vector<Other> others = {};
  /// The runs whose surprisals are subtracted: places among others, -1 for the chosen head's.
  std::optional<std::pair<int, int>> difference = {};
};

/// The words of one run with what is sorted and looked for, made in a job. Immutable.
struct WordRows {
  /// Behind them a column for the surprisal of each other run.
  enum Column {
    kBefore,
    kWord,
    kSurprisal,
    kDifference,
    kExpected,
    kShare,
    kRank,
    kEntropy,
    kGate,
    kExpert,
    kTokens,
    kSentence,
    kByte
  };
  static constexpr int kColumns = kByte + 1;

  Surprisals table;
  QString run;                              ///< name
  std::vector<QString> others;              ///< names of the other runs
  std::pair<QString, QString> difference;   ///< names of the runs in kDifference; empty: there is none
  std::vector<QString> string;              ///< [W]
  std::vector<double> expertWeight;         ///< [W] of the expert in kExpert
  std::optional<int> expertLayer;           ///< whose experts these are
  std::vector<QString> expected;            ///< [W] the likeliest token where the word begins; empty: not known
  std::vector<std::vector<double>> number;  ///< [columns][W]; of words their place in the alphabet or the text

  explicit WordRows(WordContent content);
  [[nodiscard]] int columns() const { return static_cast<int>(number.size()); }
  /// The words before a word.
  [[nodiscard]] QString before(int word) const;

  [[nodiscard]] int size() const { return static_cast<int>(table.words.size()); }
  /// Whether there is a number in a column at all: ranks need predictions, gates a head that has one.
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

  /// The names of columns in sessions; empty of columns of other runs.
  [[nodiscard]] static const char* keyOf(int column);

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
