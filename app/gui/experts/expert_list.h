#pragma once

#include <QTableWidget>

#include "backend/eval/experts/expert_table.h"

namespace foxscope::gui {

/// The experts of a layer as rows, sorted by a click on a column's title: the share of tokens that read each, and where
/// it is the heaviest, its mean weight, and the tokens that read it most. Experts that have a colour in the text have
/// it here.
class ExpertList : public QTableWidget {
  Q_OBJECT

 public:
  enum Column { kExpert, kShare, kHeaviest, kWeight, kMostRead, kColumns };

  explicit ExpertList(QWidget* parent = nullptr);

  void setTable(const ExpertTable& table);

 protected:
  void changeEvent(QEvent* event) override;
  /// Letters are the window's commands.
  void keyboardSearch(const QString& /*search*/) override {}

 private:
  void showColours();

  std::vector<int> m_coloured;
};

}  // namespace foxscope::gui
