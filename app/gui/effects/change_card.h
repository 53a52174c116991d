#pragma once

#include <functional>
#include <vector>

#include <QLabel>
#include <QTableWidget>

#include "backend/eval/loss/loss_change.h"

namespace foxscope::gui {

/// The answer to a change: its mean effect on the loss with the error, and the tokens that it hurts and helps most. A
/// click on a token tells where it is.
class ChangeCard : public QWidget {
  Q_OBJECT

 public:
  explicit ChangeCard(QWidget* parent = nullptr);

  /// The words at a position: the token that it predicts, and what stands before that; empty where it is not known.
  struct Words {
    std::function<QString(std::int64_t position)> token;
    std::function<QString(std::int64_t position)> before;
  };
  /// @param name   "fox-pro-12m, L3 H0, gate 1"
  /// @param text   what was read; empty: not known
  /// @param others what is to be said of all heads that it is one of; empty: it was asked for alone
  void show(const QString& name, const LossChange& change, const QString& text, const Words& words,
            const QString& others = {});
  /// Shows words alone.
  void showHint(const QString& words);

  [[nodiscard]] QString sentence() const { return m_sentence->text(); }
  [[nodiscard]] QTableWidget& tokens() { return *m_tokens; }
  enum Column {
    kHurtBefore,
    kHurtToken,
    kHurtPosition,
    kHurtChange,
    kBetween,
    kHelpedBefore,
    kHelpedToken,
    kHelpedPosition,
    kHelpedChange,
    kColumns
  };

 signals:
  void positionChosen(qint64 position);

 protected:
  void resizeEvent(QResizeEvent* event) override;

 private:
  /// Fills the column of what stands before tokens, and the three beside it.
  void fill(int column, const std::vector<TokenChange>& tokens, const Words& words);
  /// Gives the columns the room that there is.
  void layColumns();

  QLabel* m_sentence;
  bool m_hasBefore = false;
  QTableWidget* m_tokens;
};

}  // namespace foxscope::gui
