#pragma once

#include "app/gui/curves/curve_runs.h"
#include "app/gui/curves/tabs/position_tab.h"

namespace foxscope::gui::curves {

/// Perplexity over the first l tokens, P(l), of every run, or the mean loss that it is the exponential of.
class ContextTab : public PositionTab {
  Q_OBJECT

 public:
  ContextTab(RunList& runs, const ModelRuns& modelRuns, QWidget* parent);

  [[nodiscard]] QString data() const override;

 protected:
  void refresh() override;
  void showReading() override;
  [[nodiscard]] bool hasCurves() const override { return !m_curves.empty(); }
  [[nodiscard]] PlotContent content(const QPalette& palette) const override;
  [[nodiscard]] std::vector<std::shared_ptr<const Trace>> traces() const override;
  [[nodiscard]] PositionAxis axis() const override;

 private:
  void take(std::vector<RunContext> curves);
  [[nodiscard]] QString yLabel() const;

  QAction* m_asLoss;
  std::vector<CurveRun> m_runs;  ///< that were asked for
  std::vector<RunContext> m_curves;
};

}  // namespace foxscope::gui::curves
