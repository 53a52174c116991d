#pragma once

#include "app/gui/curves/curve_runs.h"
#include "app/gui/curves/plot_content.h"
#include "app/gui/curves/position_axis.h"
#include "app/gui/curves/tabs/curve_tab.h"

namespace foxscope::gui::curves {

class PositionPlot;

/// Perplexity over the first l tokens, P(l), of every run, or the mean loss that it is the exponential of.
class ContextTab : public CurveTab {
  Q_OBJECT

 public:
  ContextTab(RunList& runs, const ModelRuns& modelRuns, QWidget* parent);

  [[nodiscard]] QJsonObject saveState() const override;
  void restoreState(const QJsonObject& state) override;
  [[nodiscard]] QString data() const override;
  [[nodiscard]] std::optional<figure::CurveFigure> figure() const override;

 protected:
  void refresh() override;
  void restyle() override;
  void showReading() override;
  [[nodiscard]] bool plotIsSettled() const override;

 private:
  void take(std::vector<RunContext> curves);
  [[nodiscard]] PositionAxis axis() const;
  [[nodiscard]] PlotContent content(const QPalette& palette) const;
  [[nodiscard]] QString yLabel() const;

  PositionPlot* m_plot;
  QAction* m_asLoss;
  QAction* m_logarithmic;
  std::vector<CurveRun> m_runs;  ///< that were asked for
  std::vector<RunContext> m_curves;
};

}  // namespace foxscope::gui::curves
