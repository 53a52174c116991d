#pragma once

#include <functional>
#include <vector>

#include <QTableWidget>

#include "backend/eval/loss/loss_change.h"

namespace foxscope::gui {

/// The tokens that one model predicts much better, or much worse, than another: both losses, their difference, and what
/// stands before the token. A click tells where a token is.
class DifferenceTable : public QTableWidget {
  Q_OBJECT

 public:
  enum Column { kBefore, kToken, kDifference, kLoss, kMinus, kColumns };
  /// A token as the table shows it.
  struct Row {
    qint64 position = 0;
    QString before;
    QString token;
    double difference = 0;  ///< nats
    double loss = 0;
    double minus = 0;
  };

  /// @param title  "better" or "worse", the heading of the words before a token
  explicit DifferenceTable(const QString& title, QWidget* parent = nullptr);

  void setRows(const std::vector<Row>& rows, const QString& model, const QString& minus);

 signals:
  void positionChosen(qint64 position);

 protected:
  void resizeEvent(QResizeEvent* event) override;

 private:
  QString m_title;
};

}  // namespace foxscope::gui
