#pragma once

#include <limits>
#include <vector>

#include <QColor>
#include <QTableWidget>

namespace foxscope::gui {

/// The tokens that a run expected at a position, the likeliest first: rank, token, and p as a bar in the run's colour;
/// of a changed run the p without the change stands before it. The token that came is bold.
class PredictionTable : public QTableWidget {
  Q_OBJECT

 public:
  enum Column { kRank, kToken, kUnchanged, kShare, kColumns };
  struct Row {
    qint64 rank = 0;
    QString token;
    double p = 0;
    double unchanged = std::numeric_limits<double>::quiet_NaN();  ///< p without the change
    bool came = false;
  };
  /// The colours and titles of the columns of p. Without a title for it there is no column of the run without the
  /// change.
  struct Shares {
    QColor own;
    QString title;
    QColor unchanged = {};
    QString unchangedTitle = {};
  };

  explicit PredictionTable(QWidget* parent = nullptr);

  /// @param longest  p of the longest bar, the same in the tables that stand beside each other
  void setRows(const std::vector<Row>& rows, const Shares& shares, double longest);
};

}  // namespace foxscope::gui
