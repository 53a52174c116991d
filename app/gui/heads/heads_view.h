#pragma once

#include <QComboBox>
#include <QSortFilterProxyModel>
#include <QTabWidget>
#include <QTableView>

#include "app/gui/document/head_table.h"
#include "app/gui/heads/head_grid.h"
#include "app/gui/heads/head_legend.h"
#include "app/gui/views/view_part.h"

class QMimeData;

namespace foxscope::gui {

/// The left of the window: all heads as a grid and as a table that sorts by any of their numbers, coloured by one.
class HeadsView : public QWidget, public ViewPart {
  Q_OBJECT

 public:
  HeadsView(Document& document, HeadTable& table, QWidget* parent = nullptr);

  [[nodiscard]] HeadGrid& grid() { return *m_grid; }
  [[nodiscard]] QTableView& table() { return *m_list; }
  [[nodiscard]] HeadColouring colouring() const;
  void setColouring(const HeadColouring& colouring);

  /// What Ctrl+C copies: the chosen rows of the table, with a picture of the grid where that is shown.
  [[nodiscard]] QMimeData* copied();

  [[nodiscard]] QJsonObject saveState() const override;
  void restoreState(const QJsonObject& state) override;
  [[nodiscard]] QList<QAction*> commands() const override { return m_commands; }
  [[nodiscard]] bool isSettled() const override;

 private:
  void fillChoices();
  void followChoice();
  void followHead();
  void showLegend();
  void addCommands();
  void addCopying();

  Document& m_document;
  HeadTable& m_table;
  QComboBox* m_choice = nullptr;
  QComboBox* m_run = nullptr;
  QTabWidget* m_tabs = nullptr;
  HeadGrid* m_grid = nullptr;
  HeadLegend* m_legend = nullptr;
  QTableView* m_list = nullptr;
  QSortFilterProxyModel* m_sorted = nullptr;
  QList<QAction*> m_commands;
};

}  // namespace foxscope::gui
