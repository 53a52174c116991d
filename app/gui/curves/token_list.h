#pragma once

#include <functional>
#include <optional>
#include <vector>

#include <QAbstractTableModel>
#include <QString>
#include <QTableView>

#include "app/gui/document/runs/run_list.h"

class QSplitter;

namespace foxscope::gui::curves {

/// A position that is worth a look, as it is listed.
struct ListedToken {
  std::int64_t position = 0;  ///< of the reference run
  QString token;
  double value = 0;
};

/// Tokens, their positions, and a value of each.
class TokenListModel : public QAbstractTableModel {
  Q_OBJECT

 public:
  enum Column { token, position, value, columns };
  /// The titles of the columns of tokens and values, and a row's full text.
  struct Words {
    QString token;
    QString value;
    std::function<QString(const ListedToken& token)> tip;
    std::optional<int> decimals = std::nullopt;  ///< of values; absent: so that the smallest has two digits that count
  };

  TokenListModel(Words words, QObject* parent);

  void setTokens(std::vector<ListedToken> tokens);
  [[nodiscard]] const std::vector<ListedToken>& tokens() const { return m_tokens; }

  [[nodiscard]] int rowCount(const QModelIndex& parent = {}) const override;
  [[nodiscard]] int columnCount(const QModelIndex& parent = {}) const override;
  [[nodiscard]] QVariant data(const QModelIndex& index, int role) const override;
  [[nodiscard]] QVariant headerData(int section, Qt::Orientation orientation, int role) const override;

 private:
  Words m_words;
  std::vector<ListedToken> m_tokens;
  int m_decimals = 0;  ///< of all values, which stand below one another
};

/// A list of tokens beside a plot: a click pins the position as the query, and the range follows where it does not show
/// it.
class TokenList : public QTableView {
  Q_OBJECT

 public:
  TokenList(RunList& runs, TokenListModel::Words words, QWidget* parent);

  void setTokens(std::vector<ListedToken> tokens) {
    m_model->setTokens(std::move(tokens));
    shareWidth();
  }
  /// Letters are the window's commands.
  void keyboardSearch(const QString& /*search*/) override {}
  /// The plot with the list at its right, which can be drawn shut.
  QSplitter* beside(QWidget* plot, QWidget* parent);

 protected:
  void resizeEvent(QResizeEvent* event) override;

 private:
  void shareWidth();
  void jump(const QModelIndex& index);

  RunList& m_runs;
  TokenListModel* m_model;
};

}  // namespace foxscope::gui::curves
