#pragma once

#include <array>
#include <string>
#include <vector>

#include <QJsonObject>
#include <QWidget>

#include "app/figure/figure_spec.h"
#include "app/gui/atlas/model_pane.h"
#include "app/gui/atlas/passage_trace.h"
#include "app/gui/document/evaluation_list.h"

class QComboBox;
class QSplitter;
class QToolButton;

namespace foxscope::gui {

/// Rows of figures of evaluations, each with the files that it is drawn from.
using ShownPanels = std::vector<std::vector<figure::FigurePart>>;

/// The atlases that are open: the heads of one model, or of two beside each other on the same axes.
class AtlasView : public QWidget {
  Q_OBJECT

 public:
  AtlasView(EvaluationList& evaluations, RunList& runs, ModelRuns& modelRuns, QWidget* parent = nullptr);

  /// Shows what is open by now.
  /// @param hidden  names of models that are not shown
  void follow(const std::vector<std::string>& hidden);
  /// The use of a number in the scatter.
  enum Use { kX, kY, kColour, kUses };
  /// @param name  as the file names it, or "layer" or "head"
  void setNumber(Use use, const QString& name);
  void setLogarithmic(Use use, bool logarithmic);
  /// The models that are shown, one or two.
  [[nodiscard]] int shown() const { return m_panes[1]->isHidden() ? 1 : 2; }
  [[nodiscard]] atlas::ModelPane& pane(int number) const { return *m_panes[static_cast<std::size_t>(number)]; }
  [[nodiscard]] QComboBox& model(int number) const { return *m_models[static_cast<std::size_t>(number)]; }
  [[nodiscard]] bool isSettled() const;
  /// Rows of figures of what is seen, with all that is chosen: the scatter or the map of similarity, and below it the
  /// page of the head; models that stand beside each other do so here too. Empty where no tab that is seen has a
  /// figure.
  [[nodiscard]] ShownPanels shownPanels() const;

  [[nodiscard]] QJsonObject saveState() const;
  void restoreState(const QJsonObject& state);

 signals:
  void told(const QString& words);

 private:
  [[nodiscard]] std::vector<atlas::AtlasModel> openModels(const std::vector<std::string>& hidden) const;
  void makeBar();
  void fillModels();
  /// The numbers of the scatter stand above the panes, or in the tab of the one scatter where the head's page, which
  /// needs the room, is another tab.
  void placeNumbers();
  void markOpened();
  void fillNumbers();
  void showModels();
  void draw();
  [[nodiscard]] std::vector<int> visiblePanes() const;
  void shareHead(int pane, std::size_t head);
  void shareChosen();
  void followHead();
  [[nodiscard]] figure::FigureSpec scatterFigure(const atlas::ModelPane& pane) const;
  /// The figures of what a pane shows, from above.
  [[nodiscard]] std::vector<figure::FigureSpec> figuresOf(const atlas::ModelPane& pane) const;
  [[nodiscard]] std::optional<std::size_t> firstHead(const atlas::AtlasModel& model) const;

  EvaluationList& m_evaluations;
  RunList& m_runs;
  atlas::PassageTrace* m_trace;
  std::vector<atlas::AtlasModel> m_open;
  QJsonObject m_wanted;  ///< of a session whose atlases are not open yet
  QWidget* m_bar;
  std::array<QWidget*, kUses> m_numberGroups{};
  QSplitter* m_split = nullptr;
  std::array<QComboBox*, 2> m_models{};
  std::array<QComboBox*, kUses> m_numbers{};
  std::array<QToolButton*, kUses> m_logarithmic{};
  std::array<QString, kUses> m_chosen = {"rate_decay_time", "d90_without_first",
                                         "layer"};  ///< that somebody wants to see
  std::array<atlas::ModelPane*, 2> m_panes{};
};

}  // namespace foxscope::gui
