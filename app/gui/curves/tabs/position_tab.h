#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "app/gui/curves/plot_content.h"
#include "app/gui/curves/position_axis.h"
#include "app/gui/curves/tabs/curve_tab.h"

namespace foxscope::gui::curves {

class PositionPlot;

/// A tab whose plot stands against positions of the text.
class PositionTab : public CurveTab {
  Q_OBJECT

 public:
  PositionTab(RunList& runs, const ModelRuns& modelRuns, const QString& name, QWidget* parent);

  [[nodiscard]] std::optional<figure::CurveFigure> figure() const override;

 protected:
  [[nodiscard]] PositionPlot* plot() const { return m_plot; }
  /// Adds the choice of a logarithmic axis.
  void addLogarithmic(const QString& tip);

  void restyle() override;
  [[nodiscard]] bool plotIsSettled() const override;
  /// All positions, counted from 1 on a logarithmic axis.
  [[nodiscard]] virtual PositionAxis axis() const;
  [[nodiscard]] virtual QString xLabel() const;
  [[nodiscard]] virtual bool hasCurves() const = 0;
  [[nodiscard]] virtual PlotContent content(const QPalette& palette) const = 0;
  /// Runs that the curves are of.
  [[nodiscard]] virtual std::vector<std::shared_ptr<const Trace>> traces() const = 0;
  /// "fox, layer 3, head 1"
  [[nodiscard]] static QString headName(const QString& run, const HeadChoice& head);

 private:
  PositionPlot* m_plot;
  QAction* m_logarithmic = nullptr;
};

}  // namespace foxscope::gui::curves
