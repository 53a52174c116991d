#pragma once

#include <QComboBox>
#include <QTabBar>
#include <QTableView>
#include <QToolButton>

#include "app/gui/document/head_table.h"
#include "app/gui/heads/head_gallery.h"
#include "app/gui/heads/head_grid.h"
#include "app/gui/heads/head_legend.h"
#include "app/gui/views/view_part.h"

class QActionGroup;
class QMimeData;
class QScrollArea;
class QStackedWidget;

namespace foxscope::gui {

class ModelRuns;

class HeadOrder;

/// The left of the window: all heads as a grid coloured by one of their numbers, as a table that sorts by any of them,
/// and as pictures of F or A; of all of them or of those with one label.
class HeadsView : public QWidget, public ViewPart {
  Q_OBJECT

 public:
  HeadsView(RunList& runs, ModelRuns& modelRuns, HeadTable& table, QWidget* parent = nullptr);

  [[nodiscard]] HeadGrid& grid() { return *m_grid; }
  [[nodiscard]] HeadGallery& gallery() { return *m_gallery; }
  [[nodiscard]] QTableView& table() { return *m_list; }
  enum class Tab { grid, table, pictures };
  void setTab(Tab tab) { m_tabs->setCurrentIndex(static_cast<int>(tab)); }
  [[nodiscard]] HeadColouring colouring() const;
  void setColouring(const HeadColouring& colouring);
  /// Lists heads with this label alone, others are faded; nothing: all are shown.
  void setLabel(std::optional<HeadLabel> label);
  [[nodiscard]] std::optional<HeadLabel> label() const;

  /// The content that Ctrl+C copies: the chosen rows of the table, with a picture of the grid where that is shown.
  [[nodiscard]] QMimeData* copied();

  [[nodiscard]] QJsonObject saveState() const override;
  void restoreState(const QJsonObject& state) override;
  [[nodiscard]] QList<QAction*> commands() const override { return m_commands; }
  [[nodiscard]] bool isSettled() const override;
  /// Whether the grid, where it is seen, shows the runs that there are now, not a step before.
  [[nodiscard]] bool showsStep() const;

 private:
  [[nodiscard]] QWidget* makeGallery();
  void setGalleryQuantity(Quantity quantity);
  void followTab();
  void fillMetrics();
  void fillMinus();
  void fillChoices();
  [[nodiscard]] HeadQuantity firstQuantity() const;
  void followChoice();
  void followHead();
  void followLabel();
  void countLabels();
  void showLegend();
  void addCommands();
  void showChecks();
  void addCopying();

  RunList& m_runs;
  ModelRuns& m_modelRuns;
  HeadTable& m_table;
  QComboBox* m_choice = nullptr;
  QComboBox* m_minus = nullptr;
  bool m_chosen = false;  ///< by the user or a session; else by what the runs have
  QComboBox* m_label = nullptr;
  QComboBox* m_run = nullptr;
  QTabBar* m_tabs = nullptr;
  QStackedWidget* m_pages = nullptr;
  HeadPictures m_pictures;
  HeadGrid* m_grid = nullptr;
  QScrollArea* m_gridArea = nullptr;
  HeadGallery* m_gallery = nullptr;
  QComboBox* m_order = nullptr;
  QToolButton* m_ofForget = nullptr;
  QToolButton* m_ofAttention = nullptr;
  QToolButton* m_remedy = nullptr;  ///< makes what the colours lack
  HeadLegend* m_legend = nullptr;
  QTableView* m_list = nullptr;
  HeadOrder* m_sorted = nullptr;
  QList<QAction*> m_commands;
  QActionGroup* m_colourActions = nullptr;
  QActionGroup* m_labelActions = nullptr;
};

}  // namespace foxscope::gui
