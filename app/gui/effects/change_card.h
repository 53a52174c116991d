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

  /// @param name   "fox-pro-12m, L3 H0, gate 1"
  /// @param text   what was read; empty: not known
  /// @param token  what a position predicts
  /// @param others what is to be said of all heads that it is one of; empty: it was asked for alone
  void show(const QString& name, const LossChange& change, const QString& text,
            const std::function<QString(std::int64_t position)>& token, const QString& others = {});
  /// Shows words alone.
  void showHint(const QString& words);

  [[nodiscard]] QString sentence() const { return m_sentence->text(); }
  [[nodiscard]] QTableWidget& tokens() { return *m_tokens; }
  enum Column {
    kHurtToken,
    kHurtPosition,
    kHurtChange,
    kBetween,
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
  /// Fills a token's column and the two beside it.
  void fill(int column, const std::vector<TokenChange>& tokens,
            const std::function<QString(std::int64_t position)>& token);

  QLabel* m_sentence;
  QTableWidget* m_tokens;
};

}  // namespace foxscope::gui
